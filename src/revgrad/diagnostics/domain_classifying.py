"""A fresh domain classifier on given features: for what the run's own one can't be trusted with.

The run's domain classifier is one side of a game and may have been fooled rather than have
nothing left to see; one that is trained afterwards, while the features stay as they are, tells.
Both domains weigh the same however many rows they have, so its logit is an estimate of
log p(features | target) / p(features | source).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import features_of, pair_of
from revgrad.errors import InputError, unknown
from revgrad.shallow.inputs import Array

#: Inverse strength of the logistic regression's penalty, on standardised features.
COST = 0.1
#: The multi-layer perceptron: units, steps, rows of each domain in a step, rate, weight decay.
HIDDEN, STEPS, BATCH, RATE, DECAY = 64, 300, 128, 3e-3, 1e-3
#: Standardised features end here: a unit that is almost never on must not decide when it is.
FAR = 8.0

#: A function of standardised features: one logit a row, above 0 for the target.
Decision = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class FittedDomainClassifier:
    """Standardisation and decision; `hypothesis` names the class of functions it is out of."""

    mean: Array
    scale: Array
    decision: Decision
    hypothesis: str

    def logits(self, features: ArrayLike) -> Array:
        """(n,): above 0 where the row looks like a target's."""
        rows = features_of(features, "features")
        if rows.shape[1] != len(self.mean):
            raise InputError(
                f"the domain classifier was fitted on {len(self.mean)} features; "
                f"{rows.shape[1]} came"
            )
        return self.decision(np.clip((rows - self.mean) / self.scale, -FAR, FAR))


def fit_domain_classifier(
    source: ArrayLike, target: ArrayLike, classifier: str = "logistic", *, seed: int = 0
) -> FittedDomainClassifier:
    """Fit one of `CLASSIFIERS` on (n, d) and (m, d) features.

    Features are standardised by the mean and spread of both domains, each weighing half.
    """
    one, other = pair_of(source, target)
    if classifier not in CLASSIFIERS:
        raise unknown("domain classifier", classifier, CLASSIFIERS)
    mean = (one.mean(0) + other.mean(0)) / 2
    scale = np.sqrt((((one - mean) ** 2).mean(0) + ((other - mean) ** 2).mean(0)) / 2)
    # a unit that is the same everywhere says nothing, and rounding must not make it speak
    scale[scale <= 1e-12 * np.abs(mean)] = math.inf
    scale[scale == 0] = math.inf
    fit, hypothesis = CLASSIFIERS[classifier]
    first, second = (np.clip((rows - mean) / scale, -FAR, FAR) for rows in (one, other))
    return FittedDomainClassifier(mean, scale, fit(first, second, seed), hypothesis)


def _logistic(source: Array, target: Array, seed: int) -> Decision:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    rows = np.concatenate([source, target])
    domains = np.repeat([0, 1], [len(source), len(target)])
    model = LogisticRegression(C=COST, class_weight="balanced", max_iter=300)
    with warnings.catch_warnings():
        # stopped short of the optimum it is a domain classifier all the same
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, domains)
    weight, bias = model.coef_[0], float(model.intercept_[0])

    def decide(rows: Array) -> Array:
        logits: Array = rows @ weight + bias
        return logits

    return decide


def _perceptron(source: Array, target: Array, seed: int) -> Decision:
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    generator = torch.Generator().manual_seed(seed)
    width = source.shape[1]
    double = {"dtype": torch.float64, "generator": generator}
    parameters = [
        torch.randn(width, HIDDEN, **double) * math.sqrt(2 / width),  # type: ignore[call-overload]
        torch.zeros(HIDDEN, dtype=torch.float64),
        torch.randn(HIDDEN, **double) * math.sqrt(1 / HIDDEN),  # type: ignore[call-overload]
        torch.zeros((), dtype=torch.float64),
    ]
    for parameter in parameters:
        parameter.requires_grad_()

    def forward(rows: torch.Tensor) -> torch.Tensor:
        first, shift, second, bias = parameters
        logits: torch.Tensor = (rows @ first + shift).relu() @ second + bias
        return logits

    optimiser = torch.optim.Adam(parameters, lr=RATE, weight_decay=DECAY)
    domains = [torch.from_numpy(rows) for rows in (source, target)]
    truth = torch.repeat_interleave(torch.tensor([0.0, 1.0], dtype=torch.float64), BATCH)
    with torch.enable_grad():
        for step in range(STEPS):
            for group in optimiser.param_groups:
                group["lr"] = RATE * (1 - step / STEPS)
            drawn = [
                rows[torch.randint(len(rows), (BATCH,), generator=generator)] for rows in domains
            ]
            optimiser.zero_grad()
            loss = binary_cross_entropy_with_logits(forward(torch.cat(drawn)), truth)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    def decide(rows: Array) -> Array:
        with torch.no_grad():
            logits: Array = forward(torch.from_numpy(rows)).numpy()
        return logits

    return decide


#: How to fit, and the class of hypotheses in words.
CLASSIFIERS: dict[str, tuple[Callable[[Array, Array, int], Decision], str]] = {
    "logistic": (_logistic, "linear functions of the features"),
    "mlp": (_perceptron, f"perceptrons of {HIDDEN} hidden units over the features"),
}
