"""The domains of a training by their role: sources, targets, what is held out, the test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, Dataset

from revgrad.domains.common_shape import (
    match_colours,
    with_channels,
    with_classes,
    with_numbers,
)
from revgrad.domains.domain import Domain
from revgrad.domains.encoded import Encoder, encode, encoder_of, fit_encoder
from revgrad.domains.joined import joined
from revgrad.domains.registry import as_domain
from revgrad.domains.table import is_frame
from revgrad.errors import InputError
from revgrad.objectives import (
    ONE_DOMAIN,
    Adversary,
    Objective,
)
from revgrad.training.trainer import check_domains


@dataclass(frozen=True)
class TrainingData:
    """The domains of a training by their role; targets without labels that were not meant."""

    sources: tuple[Domain, ...]
    targets: tuple[Domain, ...]
    held_outs: tuple[Domain, ...]  # what each source is evaluated on
    test: Domain | None

    @property
    def source(self) -> Domain:
        """The first, whose classes and kind of inputs hold for all."""
        return self.sources[0]

    @property
    def target(self) -> Domain | None:
        """All targets as one; None where there is none."""
        return joined(self.targets) if self.targets else None

    @property
    def held_out(self) -> Domain | None:
        """All held-out source samples as one."""
        return joined(self.held_outs) if self.held_outs else None

    @staticmethod
    def of(
        method: str | Objective,
        source: Any,
        target: Any,
        held_out: Any,
        test: Any,
        size: int | None = None,
        adversaries: Sequence[Adversary] | None = None,
    ) -> TrainingData:
        """Domains of what was given; all labels that are read in the first source's class numbers.

        Parameters
        ----------
        size
            of images that are yet to be read: the network's
        """

        def opened(data: Any, name: str, like: Encoder | None = None, **read: Any) -> Domain:
            return as_domain(data, name, like=like, **read, **({"size": size} if size else {}))

        first, *rest = several_domains(source)
        labelled = [opened(first, "source")]
        like = encoder_of(labelled[0])
        labelled += [opened(one, f"source {at}", like) for at, one in enumerate(rest, start=2)]
        read = {} if method == "train-on-target" else {"labels": False}  # else dropped unread
        given = [] if target is None else several_domains(target)
        others = [
            opened(one, "target" if at == 1 else f"target {at}", like, **read)
            for at, one in enumerate(given, start=1)
        ]
        if method == "train-on-target":
            if not others or not all(one.labelled_count for one in others):
                raise InputError("train-on-target needs a target with labels")
            labelled, others = others, []
        elif (
            not (others or adversaries or len(labelled) > 1)
            and isinstance(method, str)
            and method not in ONE_DOMAIN
        ):
            raise InputError(
                f"method '{method}' needs a target; without one, take 'source-only', or name "
                "an attribute that the features must not tell (adversaries=[Adversary(…)])"
            )
        labelled = match_colours(labelled)
        check_domains(labelled)
        labelled, evaluated = _split(labelled, held_out, like)
        encoder = fit_encoder(labelled[0])  # of the training part alone
        labelled = [encode(one, encoder) for one in labelled]
        evaluated = [encode(one, encoder, labels=True) for one in evaluated]
        others = [one if one.labels_kept else one.without_labels() for one in others]
        others = [encode(one, encoder) for one in others]
        tested = None
        if test is not None:
            tested = encode(opened(test, "test", encoder), encoder, labels=True)
        leading = labelled[0]
        return TrainingData(
            (leading, *(_renumbered(one, leading) for one in labelled[1:])),
            tuple(_renumbered(one, leading) if one.labels_kept else one for one in others),
            tuple(_renumbered(one, leading) for one in evaluated),
            None if tested is None else _renumbered(tested, leading),
        )

    def in_colour(self) -> TrainingData:
        """Grey images shown as colour."""

        def shown(domain: Domain) -> Domain:
            grey = len(domain) and domain.is_images and domain.shape[0] == 1
            return domain.as_colour() if grey else domain

        return TrainingData(
            tuple(map(shown, self.sources)),
            tuple(map(shown, self.targets)),
            tuple(map(shown, self.held_outs)),
            None if self.test is None else shown(self.test),
        )

    def with_one_shape(self) -> TrainingData:
        """All with one number of channels; images of different sizes are refused.

        Sources and targets decide which: what is only evaluated on decides nothing.
        """
        matched = match_colours([*self.sources, *self.targets])
        source = matched[0]

        def fitted(one: Domain) -> Domain:
            if len(one) and one.is_images and source.is_images:
                one = with_channels(one, source.shape[0])
            match_colours([source, one])
            return one

        return TrainingData(
            tuple(matched[: len(self.sources)]),
            tuple(matched[len(self.sources) :]),
            tuple(map(fitted, self.held_outs)),
            None if self.test is None else fitted(self.test),
        )


def several_domains(data: Any) -> list[Any]:
    """A list of domains, or of what is surely one each, as several; anything else as one."""
    if not isinstance(data, list) or not data:
        return [data]
    sure = [isinstance(one, Domain | Path | Dataset | DataLoader) or is_frame(one) for one in data]
    if all(sure):
        return data
    if any(isinstance(one, Domain) for one in data):
        strange = type(data[sure.index(False)]).__name__
        raise InputError(
            f"a list of several domains holds a {strange}: make a Domain of each (from_arrays(…), "
            "from_folder(…))"
        )
    return [data]


def _split(
    sources: list[Domain], held_out: Any, like: Encoder | None
) -> tuple[list[Domain], list[Domain]]:
    """The sources and what they are evaluated on: a share of each, or other data."""
    if not isinstance(held_out, int | float) or isinstance(held_out, bool):
        found = [as_domain(one, "held-out source", like=like) for one in several_domains(held_out)]
        return sources, found
    if not 0 <= held_out < 1:
        raise InputError(f"held_out is a share from 0 to 1, or data, not {held_out}")
    if not held_out:
        return sources, []
    parts = [one.split(float(held_out)) for one in sources]
    return [rest for rest, _ in parts], [out for _, out in parts]


def _renumbered(domain: Domain, source: Domain) -> Domain:
    """With the source's class numbers: by name, where both have names."""
    if source.classes is None:
        return with_numbers(domain, source.class_count or 0) if source.is_classification else domain
    return with_classes(domain, source.classes)
