"""How long to train, and on how much: `tiny`, `quick`, `standard`, `full`.

- `tiny`: for tests: seconds a job, on stand-ins that need no download (digits → digits-m for every
  cell): it shows that everything works, and says nothing about the paper
- `quick`: a whole table within ten minutes on two cores: the right order of methods at best
- `standard`: what our tables are made with
- `full`: the paper's scale; its own number of steps where it gives one
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from revgrad.errors import unknown
from revgrad.paper.tables.experiment import Experiment


@dataclass(frozen=True)
class Budget:
    """Steps by network, and limits of the data.

    Attributes
    ----------
    samples
        of each training domain at most; None: all
    test_samples
        of the test and of the held-out source at most
    svm_samples
        that the last layer is retrained on
    seeds
        at most this many of an experiment's seeds, unless said
    batch_size
        samples of a step, where not the recipe's
    stand_ins
        take digits and digits-m instead of the experiment's domains
    exceptions
        (table, cell or method, network) → the steps there, where not those of the network
    """

    name: str
    steps: Mapping[str, int]
    svm_samples: int
    samples: int | None = None
    test_samples: int | None = None
    seeds: int = 5
    batch_size: int | None = None
    stand_ins: bool = False
    exceptions: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def steps_of(self, network: str, experiment: Experiment, method: str = "") -> int:
        if network not in self.steps:
            raise unknown(f"steps of the budget {self.name} for a network", network, self.steps)
        of_table = self.exceptions.get((experiment.table, network), self.steps[network])
        of_cell = self.exceptions.get((experiment.cell, network), of_table)
        return self.exceptions.get((method, network), of_cell)

    def text(self, steps: int) -> str:
        """What stands beside a number: steps, and what the data were cut down to."""
        parts = [f"{steps} steps"] if steps else ["no steps"]
        if self.stand_ins:
            parts.append("stand-ins")
        if self.samples is not None:
            parts.append(f"{self.samples} samples a domain")
        if self.test_samples is not None:
            parts.append(f"{self.test_samples} test samples")
        return ", ".join(parts)

    def applied(self, experiment: Experiment) -> Experiment:
        """The experiment as this budget runs it."""
        if not self.stand_ins or experiment.fine_tuned:  # on the files that the user named
            return experiment
        transductive = experiment.test == experiment.target
        return replace(
            experiment,
            source="digits:train",
            target="digits-m:train",
            test="digits-m:train" if transductive else "digits-m:test",
            size=28 if experiment.backbone else experiment.size,
            labelled=min(experiment.labelled, 100),
            backbone=None if experiment.backbone is None else "untrained",
        )


BUDGETS: dict[str, Budget] = {
    budget.name: budget
    for budget in (
        Budget(
            "tiny",
            {
                "mnist": 60,
                "svhn": 12,
                "gtsrb": 12,
                "compact": 20,
                "bottleneck": 60,
                "alexnet": 2,
                "efficientnet-lite0": 2,
            },
            svm_samples=200,
            samples=300,
            test_samples=200,
            seeds=1,
            batch_size=32,
            stand_ins=True,
        ),
        Budget(
            "quick",
            {
                "mnist": 1_000,
                "svhn": 250,
                "gtsrb": 110,
                "compact": 130,
                "bottleneck": 200,
                "alexnet": 100,
                "efficientnet-lite0": 30,
            },
            svm_samples=1_000,
            test_samples=1_000,
            seeds=1,
        ),
        Budget(
            "standard",
            {
                "mnist": 36_000,
                "svhn": 8_000,
                "gtsrb": 6_000,
                "compact": 4_000,
                "bottleneck": 400,
                "alexnet": 2_000,
                "efficientnet-lite0": 120,
            },
            svm_samples=20_000,
            exceptions={
                ("semi-supervised", "gtsrb"): 1_500,
                ("semi-supervised", "compact"): 1_500,
                ("syn-numbers->svhn", "svhn"): 16_000,
                ("stabilised", "mnist"): 12_000,
            },
        ),
        Budget(
            "full",
            {
                "mnist": 100_000,
                "svhn": 170_000,
                "gtsrb": 50_000,
                "compact": 80_000,
                "bottleneck": 4_000,
                "alexnet": 10_000,
                "efficientnet-lite0": 1_000,
            },
            svm_samples=20_000,
        ),
    )
}


def budget_named(name: str) -> Budget:
    if name not in BUDGETS:
        raise unknown("budget", name, BUDGETS)
    return BUDGETS[name]
