"""The study's trials: λ, γ, μ, layer, domain classifier, steps, method, network and seed vary. Each
pair gets the same list, drawn once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import nn

from revgrad.networks import build_network
from revgrad.networks.compact import CompactNetwork
from revgrad.schedules import Annealed, RampUp
from revgrad.training import Settings

#: Narrow enough for two thousand steps a minute.
WIDTHS = ((16,), (32, 32), (48,))
TRIALS = 12
STEPS = (150, 400)
LAYERS = {"compact": ("pool", "stages.1", "hidden"), "mnist": ("pool2", "fc3", "fc4")}


@dataclass(frozen=True)
class Trial:
    """One training's settings; `height` is the λ that it rises to."""

    network: str
    method: str
    layer: str
    height: float
    gamma: float
    rate: float
    hidden: tuple[int, ...]
    batch_norm: str
    steps: int
    seed: int

    @property
    def name(self) -> str:
        return "-".join(
            str(value).replace(" ", "")
            for value in (
                *(self.network, self.method, self.layer, f"l{self.height:g}", f"g{self.gamma:g}"),
                *(f"m{self.rate:g}", f"h{self.hidden[0]}", self.batch_norm),
                *(self.steps, self.seed),
            )
        )

    @property
    def baseline(self) -> Trial:
        """The source-only training of the same budget."""
        return Trial(
            *(self.network, "source-only", LAYERS[self.network][0], 0.0, 10.0, 0.01, (64,)),
            *("joint", self.steps, self.seed),
        )

    def settings(self) -> Settings:
        adam = self.network == "compact"
        return Settings(
            steps=self.steps,
            batch_size=64,
            learning_rate=Annealed(self.rate / 5 if adam else self.rate, 10.0, 0.75),
            adaptation_factor=RampUp(self.gamma, self.height),
            optimiser="adam" if adam else "sgd",
            batch_norm=self.batch_norm,  # type: ignore[arg-type]
            ema_decay=0.99 if adam else None,
            seed=self.seed,
            evaluate_every=max(self.steps // 4, 1),
            log_every=max(self.steps // 20, 1),
            checkpoint_every=0,
        )

    def build(self, classes: int) -> nn.Module:
        if self.network == "compact":
            return CompactNetwork(classes, 3, (28, 28), widths=WIDTHS, seed=self.seed)
        return build_network(
            self.network, classes=classes, channels=3, size=(28, 28), seed=self.seed
        )

    def describe(self) -> dict[str, Any]:
        return asdict(self)


def trials(count: int = TRIALS) -> list[Trial]:
    """The study's list: good and bad settings as a user would meet them, λ = 100 among them."""
    rng = np.random.default_rng(2015)

    def pick(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    found: list[Trial] = []
    while len(found) < count:
        network = "compact" if len(found) % 3 else "mnist"
        method = pick(
            "adversarial", "adversarial", "adversarial-entropy", "adversarial-consistency"
        )
        consistent = method == "adversarial-consistency"
        found.append(
            Trial(
                network=network,
                method=method,
                layer=pick(LAYERS[network][0], *LAYERS[network]),
                height=1.0 if consistent else pick(0.03, 0.1, 0.3, 1.0, 1.0, 3.0),
                gamma=pick(5.0, 10.0, 20.0),
                rate=pick(0.005, 0.01, 0.01, 0.02),
                hidden=pick((32,), (128,), (256, 256)),
                batch_norm="joint" if network == "mnist" else pick("joint", "target", "target"),
                steps=int(pick(*STEPS, STEPS[-1])),
                seed=len(found) % 3,
            )
        )
    collapsing = found[1]
    found[-1] = Trial(**{**asdict(collapsing), "height": 100.0, "method": "adversarial"})
    return found
