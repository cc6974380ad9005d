"""The trainings of each pair, good settings and bad ones, as users meet them; their baselines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from revgrad import Annealed, Constant, RampUp, Recipe, Settings

#: Steps and width of a network by its strength.
STRENGTHS = {"weak": (60, 1), "usual": (250, 1), "strong": (500, 2)}


@dataclass(frozen=True)
class Trial:
    """One training.

    factor     the λ that it rises to; with `at_once`, from the first step on
    strength   one of STRENGTHS
    """

    name: str
    factor: float
    strength: str = "usual"
    method: str = "adversarial"
    layer: str = "features"
    rate: float = 0.002
    optimiser: str = "adam"
    at_once: bool = False
    seed: int = 0
    images_only: bool = False

    @property
    def baseline(self) -> Trial:
        """The source-only training of the same strength."""
        return Trial(f"baseline-{self.strength}", 0.0, self.strength, "source-only")

    @property
    def steps(self) -> int:
        return STRENGTHS[self.strength][0]

    @property
    def wide(self) -> int:
        return STRENGTHS[self.strength][1]

    def recipe(self) -> Recipe:
        height = self.factor
        settings = Settings(
            steps=self.steps,
            batch_size=64,
            learning_rate=Annealed(self.rate, 10.0, 0.75),
            adaptation_factor=Constant(height) if self.at_once else RampUp(10.0, height),
            optimiser=self.optimiser,
            seed=self.seed,
            evaluate_every=self.steps,
            log_every=max(self.steps // 20, 1),
            checkpoint_every=0,
        )
        return Recipe(self.method, settings, domain_classifier=(32,))

    def describe(self) -> dict[str, Any]:
        return asdict(self)


TRIALS: tuple[Trial, ...] = (
    Trial("dann", 1.0),
    Trial("lambda-10", 10.0),
    Trial("entropy", 0.3, method="adversarial-entropy"),
    Trial("other-seed", 0.0, seed=1),
    Trial("lambda-100-at-once", 100.0, at_once=True),
    Trial("lambda-0.1", 0.1),
    Trial("consistency", 0.3, method="adversarial-consistency", images_only=True),
    Trial("late-at-once", 3.0, layer="hidden", at_once=True),
    Trial("strong", 1.0, "strong"),
    Trial("weak", 1.0, "weak"),
    Trial("large-rate", 1.0, rate=0.05),
    Trial("small-rate-sgd", 1.0, rate=0.01, optimiser="sgd"),
    Trial("early-30", 30.0, layer="early"),
)
