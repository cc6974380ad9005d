"""Where to attach the domain classifier, in a network and for two domains, with a sentence why."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from revgrad.choosing.attaching import attachable, feature_count
from revgrad.cutting.listing import layers
from revgrad.diagnostics.layer_shift import RULES, LayerRanking, rank_network_layers
from revgrad.domains.domain import Domain
from revgrad.domains.matching import match_colours
from revgrad.errors import CheckpointError, InputError
from revgrad.preprocessing import Preprocessing
from revgrad.training.restoring import load_initial, restore_weights
from revgrad.training.runs import Run

#: Numbers of a layer's features that are held at once for one domain (half a GB as float64).
MOST_NUMBERS = 2**26
#: Rows of each domain: the distances of a wide layer's take time with their square.
ROWS = 500
_WORDS = {"relative_difference": "the difference of means", "mmd": "MMD"}


@dataclass(frozen=True)
class Suggestion:
    """The layer, and what it was chosen by.

    rows      of each domain that were looked at
    default   the layer the network is made to be cut at, where it names one
    trained   whether the weights were learnt, or random
    """

    ranking: LayerRanking
    rows: int
    default: str | None
    trained: bool

    @property
    def layer(self) -> str:
        return self.ranking.suggested

    @property
    def sentences(self) -> list[str]:
        """Why, and what to think of it."""
        rule = self.ranking.rule
        best = self.ranking.ranked[0]
        other = next(name for name in RULES if name != rule)
        agreed = LayerRanking(self.ranking.shifts, other).suggested
        agrees = "agrees" if agreed == best.layer else f"would take {agreed}"
        if not math.isfinite(getattr(best, rule)):
            return ["No layer is suggested: every one gives the same for all rows."]
        near = (
            f"the domains' means lie {best.relative_difference:.2g} of the spread within a domain "
            "apart there"
            if rule == "relative_difference"
            else f"the domains' MMD is {best.mmd:.2g} there"
        )
        why = f"Attach at {best.layer} (--layer {best.layer}): {near}, less than at any other"
        why += f" layer; {_WORDS[other]} {agrees}."
        if self.trained:
            return [why]
        return [
            why,
            "The weights are random: with --init RUN, a source-only run, the features are learnt "
            "ones and the distances say more.",
        ]

    def as_json(self) -> dict[str, Any]:
        """For programs; an infinite distance is null."""

        def plain(value: Any) -> Any:
            return None if isinstance(value, float) and not math.isfinite(value) else value

        return {
            "suggested": self.layer,
            "default": self.default,
            "rule": self.ranking.rule,
            "rows": self.rows,
            "trained": self.trained,
            "why": " ".join(self.sentences),
            "layers": [
                {key: plain(value) for key, value in asdict(shift).items()}
                for shift in self.ranking.ranked
            ],
        }


def suggest_layer(
    network: nn.Module,
    source: Domain,
    target: Domain,
    *,
    rule: str = "relative_difference",
    rows: int = ROWS,
    trained: Path | None = None,
) -> Suggestion:
    """The layer at which the domains lie nearest, by `rule` (`diagnostics.layer_shift.RULES`).

    Neither domain's labels are read.
    rows      of each domain, evenly spaced; fewer where a layer is so wide that memory would suffer
    trained   a run (a folder) or a .safetensors file whose weights the network gets first
    """
    if rows < 2:
        raise InputError(f"a distance of domains needs two rows or more, not {rows}")
    one, other = match_colours([source.without_labels(), target.without_labels()])
    for domain in (one, other):
        if len(domain) < 2:
            raise InputError(
                f"{domain.name} has {len(domain)} rows: a distance of domains needs two or more"
            )
    prepare = _with_weights(network, trained) or Preprocessing.fit(one, other)
    example = one.batch([0, 1], augment=False).inputs
    default = getattr(network, "layer", None)
    named = default if isinstance(default, str) else None
    places = attachable(layers(network, prepare(example)), named)
    if not places:
        raise InputError("the network has no layer that it can be cut at")
    few = min(rows, max(MOST_NUMBERS // max(map(feature_count, places)), 2))
    ranking = rank_network_layers(
        network,
        [place.name for place in places],
        one,
        other,
        rule,
        preprocessing=prepare,
        rows=few,
    )
    return Suggestion(ranking, min(few, max(len(one), len(other))), named, trained is not None)


def _with_weights(network: nn.Module, path: Path | None) -> nn.Module | None:
    """Fill the network; the preprocessing that belongs to its weights, where it is known."""
    if path is None:
        return None
    if not path.is_dir():
        load_initial(network, path)
        return None
    checkpoint = Run(path).checkpoint()
    if checkpoint is None:
        raise CheckpointError(f"{path} has no checkpoint to take weights from")
    return restore_weights(network, checkpoint)
