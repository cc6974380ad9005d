"""Subspace alignment (SA).

Fernando, Habrard, Sebban, Tuytelaars, "Unsupervised visual domain adaptation using subspace
alignment", ICCV 2013. With X_s, X_t (d, k) the principal directions of each domain, the source
is mapped by X_s M and the target by X_t, where M = X_sᵀ X_t minimises |X_s M − X_t| (Frobenius).
Ganin & Lempitsky apply it to the last hidden layer and classify by a linear SVM.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import Array, checked_labels
from revgrad.errors import InputError, unknown
from revgrad.paper.baselines.checks import checked_components, checked_pair
from revgrad.paper.baselines.linear_svm import fit_linear_svm, stratified_rows
from revgrad.paper.baselines.nearest_rows import nearest_labels
from revgrad.paper.baselines.principal_components import Scaling, principal_components, scaled

#: Who classifies in the aligned space: a linear SVM (Ganin & Lempitsky), or the nearest source row.
Classifier = Literal["svm", "nearest"]
CLASSIFIERS: dict[str, Callable[[Array, Array, Array, int], Array]] = {
    # one scale for all: dividing each coordinate by the source's deviation would undo the alignment
    "svm": lambda source, labels, target, seed: fit_linear_svm(
        source, labels, seed=seed, each_feature=False
    ).predict(target),
    "nearest": nearest_labels,
}

#: The numbers of components among which Ganin & Lempitsky chose.
PAPER_COMPONENTS = range(2, 61)

log = logging.getLogger("revgrad")


class Aligned(NamedTuple):
    """Both domains in the target's subspace: (n, k) and (m, k)."""

    source: Array
    target: Array


class OracleChoice(NamedTuple):
    """A number of components chosen on target labels, and the accuracy it was chosen for."""

    components: int
    accuracy: float
    accuracies: dict[int, float]  # of every candidate


def subspace_alignment(
    source: ArrayLike, target: ArrayLike, components: int, *, scaling: Scaling = "standardised"
) -> Aligned:
    """Source (n, d) and target (m, d) in k = `components` aligned coordinates.

    Each domain is scaled by itself first: z-scored as in the original ("standardised"), or only
    "centred"; "given" leaves the scale alone, though a basis is always that of centred rows.
    """
    found = _Aligner(source, target, scaling)
    return found.aligned(checked_components(components, found.limit, found.reason))


def predict_by_alignment(
    source: ArrayLike,
    source_labels: ArrayLike | None,
    target: ArrayLike,
    components: int,
    *,
    classifier: Classifier = "svm",
    scaling: Scaling = "standardised",
    seed: int = 0,
) -> Array:
    """Labels (m,) of the target, by `classifier` on the aligned source."""
    aligned = subspace_alignment(source, target, components, scaling=scaling)
    labels = checked_labels(source_labels, len(aligned.source))
    return _classifier(classifier)(aligned.source, labels, aligned.target, seed)


def stable_components(
    source: ArrayLike,
    target: ArrayLike,
    *,
    deviation: float = 1e5,
    risk: float = 0.1,
    scaling: Scaling = "standardised",
) -> int:
    """d_max, the most components whose alignment is stable by the bound of Fernando et al. (§3.4).

    The largest d, for which in both domains λ_d − λ_{d+1} ≥
    (1 + √(ln(2/δ)/2)) · 16 d^{3/2} B / (γ √n), with λ the variances of the principal components,
    B the largest norm of a row and n the rows of the smaller domain. δ = `risk` and
    γ = `deviation` are theirs (.1 and 10⁵, for z-scored features: the bound is loose, and γ is
    in its units, so with another scaling it wants another γ). No label is used.
    """
    if not (deviation > 0 and 0 < risk < 1):
        raise InputError(f"deviation > 0 and 0 < risk < 1 are needed; {deviation} and {risk} came")
    return _Aligner(source, target, scaling).stable(deviation, risk)


def choose_components(
    source: ArrayLike,
    source_labels: ArrayLike | None,
    target: ArrayLike,
    *,
    classifier: Classifier = "nearest",
    scaling: Scaling = "standardised",
    most: int | None = None,
    rows: int = 2000,
    seed: int = 0,
) -> int:
    """The number of components by the rule of Fernando et al., without target labels.

    Of 1 … `stable_components` (and at most `most`) the one with the best two-fold
    cross-validated accuracy on the labelled source in the aligned space; of equals the fewest.
    Above `rows` source rows a stratified subsample of them is cross-validated.
    """
    found = _Aligner(source, target, scaling)
    labels = checked_labels(source_labels, len(found.source))
    limit = found.stable(1e5, 0.1)
    if most is not None:
        limit = min(limit, checked_components(most, found.limit, found.reason))
    chosen = stratified_rows(labels, rows, seed)
    labels = labels[chosen]
    folds = _two_folds(labels, seed)
    hits = np.zeros(limit)
    for place, (aligned, _) in enumerate(found.each(range(1, limit + 1), chosen)):
        for held in (folds, ~folds):
            answers = _classifier(classifier)(aligned[~held], labels[~held], aligned[held], seed)
            hits[place] += np.count_nonzero(answers == labels[held])
    return int(hits.argmax()) + 1


def best_components(
    source: ArrayLike,
    source_labels: ArrayLike | None,
    target: ArrayLike,
    target_labels: ArrayLike | None,
    *,
    candidates: Iterable[int] = PAPER_COMPONENTS,
    classifier: Classifier = "svm",
    scaling: Scaling = "standardised",
    seed: int = 0,
) -> OracleChoice:
    """An ORACLE: the number of components that is best on the target's own labels.

    Ganin & Lempitsky gave SA this advantage, among 2 … 60. Its accuracy is an upper bound and no
    fair estimate: mark it as an oracle wherever it is shown. Candidates beyond what the features
    allow are left out.
    """
    found = _Aligner(source, target, scaling)
    labels = checked_labels(source_labels, len(found.source))
    answers = checked_labels(target_labels, len(found.target), "target labels")
    wanted = [checked_components(number, 10**9, "at least one is needed") for number in candidates]
    numbers = [number for number in wanted if number <= found.limit]
    if not numbers:
        raise InputError(f"no candidate can be had: 1 to {found.limit} can, {found.reason}")
    accuracies: dict[int, float] = {}
    for number, aligned in zip(numbers, found.each(numbers, slice(None)), strict=True):
        predicted = _classifier(classifier)(aligned.source, labels, aligned.target, seed)
        accuracies[number] = float(np.mean(predicted == answers))
    best = max(accuracies, key=lambda number: (accuracies[number], -number))
    return OracleChoice(best, accuracies[best], accuracies)


class _Aligner:
    """Both domains' bases, computed once for every number of components."""

    def __init__(self, source: ArrayLike, target: ArrayLike, scaling: Scaling) -> None:
        source_found, target_found = checked_pair(source, target)
        self.source, self.target = scaled(source_found, scaling), scaled(target_found, scaling)
        rows = min(len(self.source), len(self.target))
        width = self.source.shape[1]
        self.limit = min(rows - 1, width)
        self.reason = f"with {rows} rows of {width} features in the smaller domain"
        if not self.limit:
            raise InputError(f"no component can be had {self.reason}")
        self.source_basis, self.source_variances = principal_components(self.source, self.limit)
        self.target_basis, self.target_variances = principal_components(self.target, self.limit)

    def aligned(self, components: int) -> Aligned:
        """All rows in `components` coordinates."""
        return next(self.each([components], slice(None)))

    def each(self, numbers: Sequence[int], rows: slice | Array) -> Iterator[Aligned]:
        """Those `rows` of the source, and the target, for each number of components in turn.

        The first k coordinates are those of the first k directions, so rows are projected once.
        """
        most = max(numbers)
        bases = self.source_basis[:, :most], self.target_basis[:, :most]
        source, target = self.source[rows] @ bases[0], self.target @ bases[1]
        products = bases[0].T @ bases[1]
        for number in numbers:
            aligned = source[:, :number] @ products[:number, :number]
            yield Aligned(aligned, target[:, :number])

    def stable(self, deviation: float, risk: float) -> int:
        both = (self.source_variances, self.target_variances)
        gaps = np.minimum(*(_gaps(variances, self.limit) for variances in both))
        rows = min(len(self.source), len(self.target))
        largest = max(float(np.linalg.norm(x, axis=1).max()) for x in (self.source, self.target))
        numbers = np.arange(1, self.limit + 1)
        wanted = (1 + math.sqrt(math.log(2 / risk) / 2)) * 16 * numbers**1.5 * largest
        stable = np.flatnonzero(gaps >= wanted / (deviation * math.sqrt(rows)))
        if not len(stable):
            log.warning("no subspace is stable by the bound; one component is taken")
            return 1
        return int(stable[-1]) + 1


def _gaps(variances: Array, count: int) -> Array:
    """λ_d − λ_{d+1} for d = 1 … count; what follows the last variance is 0."""
    padded = np.append(variances, 0.0)
    gaps: Array = padded[:count] - padded[1 : count + 1]
    return gaps


def _two_folds(labels: Array, seed: int) -> Array:
    """A mask of half the rows, half of each class (of odd ones the smaller half)."""
    generator = np.random.default_rng(seed)
    held = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        own = generator.permutation(np.flatnonzero(labels == label))
        held[own[: len(own) // 2]] = True
    if len(np.unique(labels[held])) < 2:
        raise InputError(
            "two folds need two labelled source rows in at least two classes; fewer came"
        )
    return held


def _classifier(name: str) -> Callable[[Array, Array, Array, int], Array]:
    if name not in CLASSIFIERS:
        raise unknown("classifier", name, CLASSIFIERS)
    return CLASSIFIERS[name]
