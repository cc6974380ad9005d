"""A trial of `revgrad tune`: a training as `revgrad train` would do it, with other parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from revgrad.cli.common import parse_widths
from revgrad.cli.opening import Opened, open_data
from revgrad.cli.train_options import settings_of, train_command
from revgrad.errors import InputError

if TYPE_CHECKING:
    from revgrad.choosing.configuration import Configuration
    from revgrad.choosing.searching import Searching
    from revgrad.choosing.trials import Search, TrialRow
    from revgrad.domains import Domain
    from revgrad.training.events import Events


@dataclass(frozen=True)
class Plan:
    """What was asked for: everything a process needs to take part in the search.

    options   of `revgrad train`, by their Python names
    """

    options: dict[str, Any]
    output: Path
    score: str
    vary: tuple[str, ...] = ()
    trials: int = 20
    pruner: str = "median"
    search_seed: int = 0
    workers: int = 1
    quiet: bool = False

    def check(self) -> None:
        """Mistakes that need no data to be seen."""
        method = self.options["method"]
        if method in ("source-only", "train-on-target"):
            raise InputError(f"a search adapts to unlabelled data: method '{method}' does not")
        if not self.options["target"]:
            raise InputError("--target is missing: a search judges by unlabelled target data")
        if not self.options["held_out"] > 0:
            raise InputError("a search needs held-out source to evaluate on: --held-out above 0")
        if self.options["evidence"] < 1:
            raise InputError("a search judges by evidence: --evidence of a row or more")
        if self.trials < 1:
            raise InputError(f"--trials takes 1 or more, not {self.trials}")
        if self.workers < 1:
            raise InputError(f"--workers takes 1 or more processes, not {self.workers}")


class Trials:
    """Data and network of a plan, opened; makes its search, and trains its trials."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        from revgrad.domains.matching import match_colours

        options = plan.options
        self.data: Opened = open_data(
            options["network"],
            options["source"],
            options["target"],
            size=options["size"],
            fit=options["fit"],
            corrupt=options["corrupt"],
            target_labels=options["keep_target_labels"] > 0,
            init=options["init"],
        )
        assert self.data.target is not None  # the plan was checked
        self.source, self.target = match_colours([self.data.source, self.data.target])

    def target_of(self, seed: int) -> Domain:
        """Without labels, or with those that a training of that seed keeps."""
        kept = self.plan.options["keep_target_labels"]
        return self.target.keeping_labels(kept, seed) if kept else self.target.without_labels()

    @cached_property
    def searching(self) -> Searching:
        """The search of the plan's folder, begun or joined."""
        from revgrad.choosing.configuration import Configuration
        from revgrad.choosing.searching import Searching
        from revgrad.choosing.space import make_space
        from revgrad.cutting import layers

        plan, options = self.plan, self.plan.options
        network = self.data.build(options["seed"])
        layer = options["layer"] or getattr(network, "layer", None)
        if not isinstance(layer, str):
            raise InputError(
                "name the layer to start from (--layer); `revgrad layers` lists those there are"
            )
        hidden = parse_widths(options["hidden"])
        if hidden is None:
            hidden = tuple(getattr(network, "domain_hidden", (1024, 1024)))
        start = Configuration(settings_of(options), layer, hidden)
        rows = [0, min(1, len(self.source) - 1)]
        example = self.source.batch(rows, augment=False).inputs
        found = layers(network, _prepared(example))
        space = make_space(start, network, found, options["method"], plan.vary)
        return Searching(
            plan.output,
            space,
            start,
            score=plan.score,
            pruner=plan.pruner,
            seed=plan.search_seed,
            describe={
                "source": self.source.fingerprint(),
                "target": self.target_of(options["seed"]).fingerprint(),
                **{name: options[name] for name in ("network", "method", "per_image", "balance")},
                **{name: options[name] for name in ("held_out", "keep", "evidence")},
                "init": None if options["init"] is None else str(options["init"]),
            },
        )

    def work(self, go_on: Callable[[], bool] = lambda: True) -> None:
        """Train trials until there are enough; those of other processes count."""
        import torch

        if self.plan.options["threads"]:
            torch.set_num_threads(self.plan.options["threads"])
        self.searching.work(self.train, self.plan.trials, go_on=go_on)

    def train(
        self, configuration: Configuration, folder: Path, number: int, events: Sequence[Events]
    ) -> None:
        """One trial, by the front door. The target test takes no part."""
        from revgrad.adapting import adapt
        from revgrad.cli.results import result_record
        from revgrad.training.progress import ProgressBar

        options = self.plan.options
        listeners = list(events)
        if options["tensorboard"]:
            from revgrad.training.tensorboard import TensorBoardScalars

            listeners.append(TensorBoardScalars(folder / "tensorboard"))
        if not self.plan.quiet and self.plan.workers == 1 and sys.stderr.isatty():
            listeners.append(ProgressBar(f"trial {number}"))
        adapted = adapt(
            self.data.build(configuration.settings.seed),
            self.source,
            self.target_of(configuration.settings.seed),
            layer=configuration.layer,
            method=options["method"],
            settings=configuration.settings,
            hidden=configuration.hidden,
            per_image=options["per_image"],
            balance=options["balance"],
            held_out=options["held_out"],
            semi_supervised=bool(options["keep_target_labels"]),
            run=folder,
            keep=options["keep"],
            score=self.plan.score,
            evidence=options["evidence"],
            events=listeners,
            progress=False,
            network_name=options["network"],
            options={
                **{name: options[name] for name in ("source", "target", "fit", "corrupt")},
                **{name: options[name] for name in ("per_image", "balance")},
                "test": None,
                "size": self.data.images.size,
                "outputs": self.data.outputs,
                "init": None if options["init"] is None else str(options["init"]),
            },
        )
        result_record(folder, adapted)

    def command(self, row: TrialRow) -> str:
        """The command that trains a trial's configuration, into a folder of its own."""
        from revgrad.schedules import describe_schedule

        chosen = self.searching.configuration(row)
        settings = chosen.settings
        options = {
            **self.plan.options,
            "factor": _short(describe_schedule(settings.factor)),
            "rate": _short(describe_schedule(settings.rate)),
            "domain_rate": settings.domain_rate,
            "batch_norm": settings.batch_norm,
            "seed": settings.seed,
            "layer": chosen.layer,
            "hidden": ",".join(map(str, chosen.hidden)),
            "run": self.plan.output / "best",
            "score": self.plan.score if self.plan.options["keep"] == "best" else None,
            "quiet": False,
            "threads": 0,
        }
        return train_command(options)

    def tested(self, search: Search) -> dict[int, float] | None:
        """Target test accuracies of the finished trials, after the search; they decide nothing."""
        import json

        from revgrad.adapting import load
        from revgrad.files import write_json

        options = self.plan.options
        if options["test"] is None:
            return None
        test = self.data.images.opened(options["test"], classes=self.data.source.classes)
        if self.source.is_images and self.source.shape[0] == 3:
            test = test.as_colour()
        path, mark = self.plan.output / "target-test.json", test.fingerprint()
        found: dict[int, float] = {}
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            if known["data"] == mark:
                found = {int(number): value for number, value in known["accuracy"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # none yet, or of another form: made again
        for row in search.of("done"):
            if row.number in found:
                continue
            adapted = load(row.folder, replace(self.data, init=None).build(0))
            accuracy = adapted.evaluate(test).accuracy
            if accuracy is not None:
                found[row.number] = accuracy
        write_json(path, {"data": mark, "accuracy": {str(k): v for k, v in sorted(found.items())}})
        return found


def _prepared(example: Any) -> Any:
    """Raw inputs as a network takes them: layers are listed by their shapes alone."""
    import torch

    from revgrad.batches import map_inputs

    return map_inputs(lambda x: x.float() / 255 if x.dtype == torch.uint8 else x, example)


def _short(schedule: str) -> str:
    """`ramp-up:10.0,1.0` as `ramp-up:10,1`."""
    name, colon, numbers = schedule.partition(":")
    return name + colon + ",".join(f"{float(n):g}" for n in numbers.split(",")) if colon else name
