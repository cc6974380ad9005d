"""The default for vectors: three trainings, and a choice among them without target labels.

Trained are the source alone; the recipe for vectors; and the same recipe on a source that was moved
to the target's means and deviations, feature by feature. A move is right where a sensor reads
otherwise and wrong where the target is another mixture of the same population, which the domains'
distance alone can't tell. What tells is whether neighbours in the target are of one class: right
borders run where the target's points are few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import NearestNeighbors

from revgrad.domains.domain import drawn_indices

ALONE, ADAPTED, MOVED = "source only", "adapted", "adapted, source moved"
#: An adapted network is taken where neighbours disagree this often, as a share of how often they do
#: with the source-only network's classes. Chosen on two moons and nine tables of studies/pairs'
#: open pairs, target accuracy in view: the shares of the trainings that helped were .0 to .5, of
#: those that harmed .7 and more.
HALF = 0.55
#: One that says less of the samples than this share of what the source-only network says has lost a
#: class or certainty: neighbours agree where all is one class.
LEAST_INFORMATION = 0.8
NEIGHBOURS, MOST_SAMPLES = 10, 2000


@dataclass(frozen=True)
class Trained:
    """One of the trainings, judged on the target without labels.

    Attributes
    ----------
    name
        `ALONE`, `ADAPTED` or `MOVED`
    disagreement
        how often a sample's neighbours are predicted another class than it, as a share of
        how often any other sample is: 0 clusters, 1 chance
    information
        mutual information of samples and predicted classes, as a share of the logarithm of
        the number of classes: 0 where one class is predicted, 1 where all are, surely
    """

    name: str
    disagreement: float
    information: float


@dataclass(frozen=True)
class DefaultChoice:
    """What the default for vectors tried, and which of them it handed back."""

    chosen: str
    tried: tuple[Trained, ...]

    def __str__(self) -> str:
        shown = ", ".join(f"{one.name} {one.disagreement:.2f}" for one in self.tried)
        return f"{self.chosen} (neighbours of the target that disagree, against chance: {shown})"


def judge(name: str, inputs: np.ndarray, probabilities: np.ndarray) -> Trained:
    """How well predicted classes fit the target's own shape.

    Parameters
    ----------
    inputs, probabilities
        of the target's samples: (n, features) and (n, classes)
    """
    chosen = drawn_indices(len(inputs), MOST_SAMPLES)
    values, shares = inputs[chosen].astype(np.float64), probabilities[chosen]
    return Trained(name, _disagreement(values, shares.argmax(1)), _information(shares))


def choose(tried: list[Trained]) -> DefaultChoice:
    """The training whose classes fit the target best; the first, on the source alone, unless
    another one's fit is clearly better."""
    alone, best = tried[0], tried[0]
    for one in tried[1:]:
        informed = one.information >= LEAST_INFORMATION * alone.information
        clearly = one.disagreement <= HALF * alone.disagreement
        if informed and clearly and one.disagreement < best.disagreement:
            best = one
    return DefaultChoice(best.name, tuple(tried))


def moved_to(inputs: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(n, features) with the target's mean and deviation of every feature."""
    mean, goal = inputs.mean(0, dtype=np.float64), target.mean(0, dtype=np.float64)
    spread, wanted = inputs.std(0, dtype=np.float64), target.std(0, dtype=np.float64)
    scale = np.divide(wanted, spread, out=np.zeros_like(spread), where=spread > 0)
    moved: np.ndarray = ((inputs - mean) * scale + goal).astype(np.float32)
    return moved


def _disagreement(inputs: np.ndarray, classes: np.ndarray) -> float:
    shares = np.unique(classes, return_counts=True)[1] / len(classes)
    by_chance = 1 - (shares**2).sum()
    if by_chance == 0:  # one class
        return 0.0
    spread = inputs.std(0)
    values = inputs / np.where(spread > 0, spread, 1)
    count = min(NEIGHBOURS, len(values) - 1)
    near = NearestNeighbors(n_neighbors=count).fit(values).kneighbors(return_distance=False)
    return float((classes[near] != classes[:, None]).mean() / by_chance)


def _information(shares: np.ndarray) -> float:
    def entropy(p: np.ndarray) -> np.ndarray:
        found: np.ndarray = -(p * np.log(np.maximum(p, 1e-30))).sum(-1)
        return found

    found = entropy(shares.mean(0)) - entropy(shares).mean()
    return float(found / np.log(shares.shape[1]))
