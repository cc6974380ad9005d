"""Trials of `revgrad tune`: each a training that a `revgrad train` command could do."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from revgrad._seals import unsealed
from revgrad._system import read_file
from revgrad.cli.train_options import TrainOptions
from revgrad.cli.tune import TuneOptions
from revgrad.errors import InputError

if TYPE_CHECKING:
    from revgrad.domains import Domain
    from revgrad.model_selection.search import Search, SearchResult, Trial
    from revgrad.model_selection.space import Configuration
    from revgrad.schedules import Schedule
    from revgrad.training.callbacks import Callback

#: Parameters of a search that are part of an option of another name.
OPTION_OF = {"height": "adaptation_factor", "gamma": "adaptation_factor"}
TARGET_TEST = "target-test.json"


class Trials:
    """Data and network of a search, opened; joins the search, and trains its trials.

    The target test takes no part before `tested`.
    """

    def __init__(self, options: TuneOptions, training: TrainOptions) -> None:
        from revgrad.diagnostics.scores import RECOMMENDED_SCORE
        from revgrad.domains.common_shape import match_colours
        from revgrad.domains.encoded import encode, encoder_of

        self.options = options
        self.training = replace(training, score=options.score or RECOMMENDED_SCORE)
        data = replace(training, test=None).open_data()
        count = len(data.sources)
        encoder = encoder_of(data.source)  # which gives tables and texts of all domains one shape
        encoded = [encode(one, encoder) for one in (*data.sources, *data.targets)]
        matched = match_colours(encoded)
        self.data = replace(data, sources=tuple(matched[:count]), targets=tuple(matched[count:]))

    @property
    def score(self) -> str:
        assert self.training.score is not None
        return self.training.score

    @cached_property
    def search(self) -> Search:
        """The search of the folder, begun or joined."""
        from revgrad.cutting import layers
        from revgrad.model_selection.search import Search
        from revgrad.model_selection.space import make_space

        training, recipe = self.training, self.training.make_recipe()
        seed = recipe.settings.seed
        network = self.data.build(seed, training.init)
        start = self._start(network)
        source = self.data.source
        example = source.batch([0, min(1, len(source) - 1)], augment=False).inputs
        found = layers(network, _prepared(example))
        space = make_space(start, network, found, self.options.vary)
        return Search(
            self.options.output,
            space,
            start,
            score=self.score,
            pruner=self.options.pruner,
            seed=self.options.search_seed,
            identity={
                "source": _marks(self.data.sources),
                "target": _marks(training.training_targets(self.data, seed)),
                "network": self.data.network,
                "held out": training.held_out,
                "return weights": training.return_weights or "last",
                "evidence samples": training.evidence_samples,
                "init": None if training.init is None else str(training.init),
            },
        )

    def work(self, go_on: Callable[[], bool] = lambda: True) -> None:
        """Train trials until there are enough; those of other processes count."""
        import torch

        if self.training.threads:
            torch.set_num_threads(self.training.threads)
        self.search.work(self.train, self.options.trials, go_on=go_on)

    def train(
        self, configuration: Configuration, folder: Path, number: int, callbacks: Sequence[Callback]
    ) -> None:
        """One trial, as `revgrad train` would train it; the target test takes no part."""
        from revgrad.training.callbacks import ProgressBar

        watching = list(callbacks)
        if not self.training.quiet and self.options.workers == 1 and sys.stderr.isatty():
            watching.append(ProgressBar(f"trial {number}"))
        options = replace(self.trial_options(configuration, folder), test=None, baseline=False)
        options.train(self.data, callbacks=watching, progress=False)

    def trial_options(self, configuration: Configuration, output: Path) -> TrainOptions:
        """The options that train a configuration, into a folder of its own."""
        settings = configuration.recipe.settings
        varied = {OPTION_OF.get(n, n.replace("-", "_")) for n in self.search.space}
        values: dict[str, Any] = {
            "adaptation_factor": _schedule_text(settings.adaptation_factor),
            "learning_rate": _schedule_text(settings.learning_rate),
            "domain_lr_factor": settings.domain_lr_factor,
            "batch_norm": settings.batch_norm,
            "seed": settings.seed,
            "layer": configuration.layer,
            "domain_classifier": ",".join(map(str, configuration.widths)),
        }
        changes = {name: values[name] for name in varied}
        return replace(self.training, output=output, **changes)

    def command(self, trial: Trial) -> str:
        """The command that trains a trial's configuration afresh."""
        configuration = self.search.configuration(trial)
        options = self.trial_options(configuration, self.options.output / "best")
        judged = options.return_weights == "best"  # the score decides nothing otherwise
        return replace(options, score=options.score if judged else None, threads=0).command()

    def tested(self, search: SearchResult) -> dict[int, float] | None:
        """Target test accuracies of the finished trials, after the search; they decide nothing."""
        from revgrad._seals import write_sealed
        from revgrad.adapted import load

        if self.training.test is None:
            return None
        source = self.data.source
        size = "x".join(map(str, source.shape[1:])) if source.is_images else None
        images = replace(self.training.images(), size=size)
        test = images.opened(self.training.test, classes=source.classes)
        path, mark = self.options.output / TARGET_TEST, test.fingerprint()
        found = _tested_before(path, mark)
        for trial in search.of("done"):
            if trial.number not in found:
                adapted = load(trial.folder, self.data.build(seed=0))
                accuracy = adapted.evaluate(test).accuracy
                if accuracy is not None:
                    found[trial.number] = accuracy
        write_sealed(path, {"data": mark, "accuracy": dict(sorted(found.items()))})
        return found

    def _start(self, network: Any) -> Configuration:
        """What the options say: the training that is varied."""
        from revgrad.model_selection.space import Configuration
        from revgrad.networks import blueprint_of
        from revgrad.networks.domain_classifier import DOMAIN_CLASSIFIER

        blueprint, recipe = blueprint_of(network), self.training.make_recipe()
        layer = self.training.layer or (None if blueprint is None else blueprint.layer)
        if layer is None:
            raise InputError(
                "name the layer to start from (--layer); `revgrad layers` lists those there are"
            )
        widths = recipe.domain_classifier
        if not isinstance(widths, tuple):
            widths = DOMAIN_CLASSIFIER if blueprint is None else blueprint.domain_classifier
        return Configuration(replace(recipe, domain_classifier=widths), layer)


def _marks(domains: Sequence[Domain]) -> str:
    return " ".join(one.fingerprint() for one in domains)


def _tested_before(path: Path, mark: str) -> dict[int, float]:
    """Accuracies of trials that were tested on the same data before."""
    try:
        known = unsealed(read_file(path).decode())
        if known["data"] == mark:
            return {int(number): float(value) for number, value in known["accuracy"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # none yet, or of another form: made again
    return {}


def _prepared(example: Any) -> Any:
    """Raw inputs as a network takes them: layers are listed by their shapes alone."""
    import torch

    from revgrad.batch import map_inputs

    return map_inputs(lambda x: x.float() / 255 if x.dtype == torch.uint8 else x, example)


def _schedule_text(schedule: Schedule | float) -> str:
    """As one would type it: `ramp-up:10,1` for `ramp-up:10.0,1.0`."""
    from revgrad.schedules import describe_schedule

    return re.sub(r"\.0(?=,|$)", "", describe_schedule(schedule))
