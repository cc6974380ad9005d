"""Can an attribute still be told from features? Asked of classifiers that are fitted afresh.

An adversary that was trained along is one side of a game, and may have been fooled; a fresh one has
only to look.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import Array, flat_features
from revgrad.diagnostics.intervals import LEVEL, Interval, mean_share_interval
from revgrad.errors import InputError

#: Each sample is told by a classifier that was fitted on the other parts.
PARTS = 3
#: Samples of a category, and of a number, that a classifier needs.
FEWEST_OF_A_CATEGORY, FEWEST_NUMBERS = 2 * PARTS, 12
#: Standardised features end here; as for a fresh domain classifier.
LARGEST_FEATURE = 8.0
#: Inverse strength of the linear classifier's penalty, and strength of the linear regression's.
LOGISTIC_COST, RIDGE = 0.1, 10.0
#: The perceptron's hidden units; steps, samples a step, learning rate and weight decay of its
#: training.
HIDDEN, STEPS, BATCH, LEARNING_RATE, WEIGHT_DECAY = 64, 300, 256, 3e-3, 1e-2
#: Draws of the interval of a number's explained variance.
DRAWS = 500

#: From (n, d) features and (n,) values to a function of further features: classes, or numbers.
Fit = Callable[[Array, Array], Callable[[Array], Array]]


@dataclass(frozen=True)
class Recovery:
    """How well the better of two fresh classifiers tells an attribute from features.

    Attributes
    ----------
    value
        mean of the shares that are told right in each category; of a number, the share of its
        variance that is explained
    low, high
        its interval over the draw of the samples
    chance
        `value` of one that knows nothing: 1 over the number of categories; of a number 0
    by
        which of the two: "linear" or "perceptron"
    """

    value: float
    low: float
    high: float
    chance: float
    samples: int
    by: str

    @property
    def above_chance(self) -> float:
        return self.value - self.chance


def recover(
    features: ArrayLike, values: ArrayLike, *, categories: bool, level: float = LEVEL
) -> Recovery | None:
    """Tell `values` (n,), category numbers or numbers, from (n, d) features; None where samples
    are too few."""
    found, told = flat_features(features, "features"), np.asarray(values)
    if len(found) != len(told) or told.ndim != 1:
        raise InputError(f"{len(found)} features but values of shape {told.shape}")
    if categories:
        names, told, counts = np.unique(told, return_inverse=True, return_counts=True)
        if len(names) < 2 or counts.min() < FEWEST_OF_A_CATEGORY:
            return None
    elif len(told) < FEWEST_NUMBERS or not np.ptp(told):
        return None
    fits = _CLASSIFIERS if categories else _REGRESSIONS
    every = {name: _cross_fitted(found, told, fit, categories) for name, fit in fits.items()}
    if not categories:
        return _of_numbers(told, every, level)
    right = {
        name: [int((said[told == one] == one).sum()) for one in range(len(counts))]
        for name, said in every.items()
    }
    shares = {name: float(np.mean(np.array(hits) / counts)) for name, hits in right.items()}
    by = max(shares, key=lambda name: shares[name])
    interval = mean_share_interval(right[by], counts.tolist(), level)
    return Recovery(shares[by], *interval, 1 / len(counts), len(told), by)


def _of_numbers(told: Array, every: dict[str, Array], level: float) -> Recovery:
    explained = {name: _explained(told, said) for name, said in every.items()}
    by = max(explained, key=lambda name: explained[name])
    interval = _drawn_interval(told, every[by], level)
    return Recovery(explained[by], *interval, 0.0, len(told), by)


def _explained(told: Array, said: Array) -> float:
    return float(1 - ((told - said) ** 2).mean() / told.var())


def _drawn_interval(told: Array, said: Array, level: float) -> Interval:
    """Of samples drawn again and again with replacement (Efron 1979)."""
    random, found = np.random.default_rng(0), []
    for _ in range(DRAWS):
        where = random.integers(0, len(told), len(told))
        if np.ptp(told[where]):
            found.append(_explained(told[where], said[where]))
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _cross_fitted(features: Array, told: Array, fit: Fit, categories: bool) -> Array:
    """What is said of each sample by the fit on the other parts; categories are in every part."""
    random = np.random.default_rng(0)
    part = np.empty(len(told), dtype=np.int64)
    for one in np.unique(told) if categories else [None]:
        where = np.arange(len(told)) if one is None else np.flatnonzero(told == one)
        part[random.permutation(where)] = np.arange(len(where)) % PARTS
    said = np.empty(len(told), dtype=np.float64)
    for one in range(PARTS):
        fitted, asked = features[part != one], features[part == one]
        mean, scale = fitted.mean(0), fitted.std(0)
        scale[scale <= 1e-12 * np.abs(mean)] = math.inf  # the same everywhere: it says nothing
        scale[scale == 0] = math.inf
        known, unknown = (_standardised(x, mean, scale) for x in (fitted, asked))
        said[part == one] = fit(known, told[part != one])(unknown)
    return said


def _standardised(features: Array, mean: Array, scale: Array) -> Array:
    found: Array = np.clip((features - mean) / scale, -LARGEST_FEATURE, LARGEST_FEATURE)
    return found


def _logistic(features: Array, told: Array) -> Callable[[Array], Array]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=LOGISTIC_COST, class_weight="balanced", max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopped short, a classifier as well
        model.fit(features, told)
    return model.predict  # type: ignore[no-any-return]


def _ridge(features: Array, told: Array) -> Callable[[Array], Array]:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=RIDGE).fit(features, told).predict  # type: ignore[no-any-return]


def _perceptron(features: Array, told: Array) -> Callable[[Array], Array]:
    classes = int(told.max()) + 1
    members = [np.flatnonzero(told == one) for one in range(classes)]

    def drawn(random: np.random.Generator) -> Array:  # all categories alike often
        of = random.integers(0, classes, BATCH)
        return np.array([members[one][random.integers(len(members[one]))] for one in of])

    truth = torch.from_numpy(told.astype(np.int64))
    forward = _trained(features, classes, drawn, lambda out, where: _entropy(out, truth[where]))
    return lambda asked: forward(asked).argmax(1)


def _perceptron_of_numbers(features: Array, told: Array) -> Callable[[Array], Array]:
    mean, scale = float(told.mean()), float(told.std()) or 1.0
    truth = torch.from_numpy((told - mean) / scale).float()

    def drawn(random: np.random.Generator) -> Array:
        return random.integers(0, len(told), BATCH)

    forward = _trained(
        features, 1, drawn, lambda out, where: (out[:, 0] - truth[where]).square().mean()
    )
    return lambda asked: mean + scale * forward(asked)[:, 0]


def _entropy(out: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(out, truth)


def _trained(
    features: Array,
    outputs: int,
    drawn: Callable[[np.random.Generator], Array],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Callable[[Array], Array]:
    """A perceptron of one hidden layer, the same every time: from features to outputs."""
    generator = torch.Generator().manual_seed(0)
    width = features.shape[1]
    weights = [
        torch.randn(width, HIDDEN, generator=generator) * math.sqrt(2 / width),
        torch.zeros(HIDDEN),
        torch.randn(HIDDEN, outputs, generator=generator) * math.sqrt(1 / HIDDEN),
        torch.zeros(outputs),
    ]
    values = torch.from_numpy(features).float()

    def forward(x: torch.Tensor) -> torch.Tensor:
        first, shift, second, bias = weights
        return (x @ first + shift).relu() @ second + bias

    random = np.random.default_rng(0)
    with torch.inference_mode(mode=False), torch.enable_grad():
        values = values.clone()
        weights = [one.clone().requires_grad_() for one in weights]
        optimiser = torch.optim.AdamW(weights, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        for step in range(STEPS):
            optimiser.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / STEPS)
            where = torch.from_numpy(drawn(random))
            optimiser.zero_grad()
            loss(forward(values[where]), where).backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    def say(asked: Array) -> Array:
        with torch.no_grad():
            found: Array = forward(torch.from_numpy(asked).float()).double().numpy()
        return found

    return say


_CLASSIFIERS: dict[str, Fit] = {"linear": _logistic, "perceptron": _perceptron}
_REGRESSIONS: dict[str, Fit] = {"linear": _ridge, "perceptron": _perceptron_of_numbers}
