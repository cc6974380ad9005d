"""Subspace alignment against projectors, loops and skada."""

from __future__ import annotations

import math

import numpy as np
import pytest

from revgrad.errors import InputError, UnknownNameError
from revgrad.paper.baselines.linear_svm import fit_linear_svm, stratified_rows
from revgrad.paper.baselines.nearest_rows import nearest_labels
from revgrad.paper.baselines.principal_components import principal_components
from revgrad.paper.baselines.subspace_alignment import (
    CLASSIFIERS,
    best_components,
    choose_components,
    predict_by_alignment,
    stable_components,
    subspace_alignment,
)


def domains(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Three classes in 8 features; the target's are turned in the plane of the first and last."""
    generator = np.random.default_rng(seed)
    middles = np.zeros((3, 8))
    middles[:, :3] = 6 * np.eye(3)
    spread = np.linspace(2.0, 0.3, 8)
    labels, answers = np.arange(60) % 3, np.arange(45) % 3
    source = middles[labels] + generator.normal(size=(60, 8)) * spread
    target = middles[answers] + generator.normal(size=(45, 8)) * spread
    turn = np.eye(8)
    turn[np.ix_([0, 7], [0, 7])] = [[np.cos(0.7), np.sin(0.7)], [-np.sin(0.7), np.cos(0.7)]]
    return source + 3, labels, target @ turn - 1, answers


def z_scored(features: np.ndarray) -> np.ndarray:
    return (features - features.mean(axis=0)) / features.std(axis=0)


def leading(features: np.ndarray, count: int) -> np.ndarray:
    values, vectors = np.linalg.eig(np.cov(features, rowvar=False))
    return vectors[:, np.argsort(-values)[:count]].real


@pytest.mark.parametrize("components", [1, 3, 8])
def test_aligned_rows_by_eigenvectors_of_the_covariance(components: int) -> None:
    source, _, target, _ = domains()
    aligned = subspace_alignment(source, target, components)
    first, second = z_scored(source), z_scored(target)
    source_basis, target_basis = leading(first, components), leading(second, components)
    # signs of eigenvectors are free: products of rows of both domains do not depend on them
    slow_source = first @ source_basis @ source_basis.T @ target_basis
    slow_target = second @ target_basis
    for fast, slow in (
        (aligned.source @ aligned.target.T, slow_source @ slow_target.T),
        (aligned.source @ aligned.source.T, slow_source @ slow_source.T),
        (aligned.target @ aligned.target.T, slow_target @ slow_target.T),
    ):
        np.testing.assert_allclose(fast, slow, atol=1e-9)


def test_the_alignment_is_the_nearest_map_of_one_basis_to_the_other() -> None:
    source, _, target, _ = domains()
    centred = source - source.mean(axis=0), target - target.mean(axis=0)
    bases = [principal_components(part, 3).basis for part in centred]
    best, *_ = np.linalg.lstsq(bases[0], bases[1], rcond=None)
    aligned = subspace_alignment(source, target, 3, scaling="centred")
    np.testing.assert_allclose(aligned.source, centred[0] @ bases[0] @ best, atol=1e-10)


@pytest.mark.parametrize("scaling", ["centred", "standardised"])
def test_skada_aligns_alike(scaling: str) -> None:
    """skada centres and does not z-score: it gets z-scored rows where we z-score."""
    adapters = pytest.importorskip("skada", reason="skada wanted: pip install 'revgrad[dev]'")
    source, _, target, _ = domains()
    ours = subspace_alignment(source, target, 4, scaling=scaling)  # type: ignore[arg-type]
    if scaling == "standardised":
        source, target = z_scored(source), z_scored(target)
    adapter = adapters.SubspaceAlignmentAdapter(n_components=4)
    rows = np.vstack([source, target])
    domain = np.repeat([1, -1], [len(source), len(target)])
    adapter.fit(rows, sample_domain=domain)
    theirs = adapter.transform(rows, sample_domain=domain, allow_source=True)
    both = np.vstack(ours)
    signs = np.sign((both * theirs).sum(axis=0))
    np.testing.assert_allclose(both, theirs * signs, atol=1e-9)


def test_nothing_changes_where_all_components_are_kept() -> None:
    """With k = d both maps are rotations into the target's axes: distances stay."""
    source, _, target, _ = domains()
    aligned = subspace_alignment(source, target, 8)
    gaps = z_scored(source)[:5, None] - z_scored(target)[None, :7]
    fast = aligned.source[:5, None] - aligned.target[None, :7]
    np.testing.assert_allclose((fast**2).sum(-1), (gaps**2).sum(-1), rtol=1e-9)


def test_the_bound_by_a_loop() -> None:
    source, _, target, _ = domains()
    first, second = z_scored(source), z_scored(target)
    largest = max(np.sqrt((row**2).sum()) for row in [*first, *second])
    answers = set()
    for deviation in (300.0, 1e5, 3e3, 1e4, 1e5):
        slow = 1
        for number in range(1, 9):
            gaps = []
            for part in (first, second):
                values = [*sorted(np.linalg.eigvalsh(np.cov(part, rowvar=False)))[::-1], 0.0]
                gaps.append(values[number - 1] - values[number])
            factor = 1 + math.sqrt(math.log(2 / 0.2) / 2)
            if min(gaps) >= factor * 16 * number**1.5 * largest / (deviation * math.sqrt(45)):
                slow = number
        assert stable_components(source, target, deviation=deviation, risk=0.2) == slow
        answers.add(slow)
    assert len(answers) > 2


@pytest.mark.parametrize("rows", [60, 24])
def test_the_honest_choice_by_loops(rows: int) -> None:
    source, labels, target, _ = domains(seed=5)
    found = choose_components(source, labels, target, most=6, rows=rows, seed=1)
    chosen = stratified_rows(labels, rows, seed=1)
    known = labels[chosen]
    generator = np.random.default_rng(1)
    held: set[int] = set()
    for label in range(3):
        held |= set(generator.permutation(np.flatnonzero(known == label))[: rows // 6].tolist())
    hits = []
    for components in range(1, 7):
        aligned = subspace_alignment(source, target, components).source[chosen]
        hit = 0
        for row in range(rows):
            others = [other for other in range(rows) if (other in held) != (row in held)]
            gaps = [float(((aligned[row] - aligned[other]) ** 2).sum()) for other in others]
            hit += known[others[int(np.argmin(gaps))]] == known[row]
        hits.append(hit)
    assert found == hits.index(max(hits)) + 1
    assert found > 1  # one component can't tell three classes apart


@pytest.mark.parametrize("classifier", ["svm", "nearest"])
def test_the_oracle_is_the_best_on_target_labels(classifier: str) -> None:
    source, labels, target, answers = domains()
    found = best_components(
        source, labels, target, answers, candidates=range(1, 61), classifier=classifier
    )  # type: ignore[arg-type]
    assert list(found.accuracies) == list(range(1, 9))
    for components, accuracy in found.accuracies.items():
        predicted = predict_by_alignment(source, labels, target, components, classifier=classifier)  # type: ignore[arg-type]
        assert accuracy == np.mean(predicted == answers)
    assert found.accuracy == max(found.accuracies.values()) > found.accuracies[1]
    assert found.components == min(
        c for c, value in found.accuracies.items() if value == found.accuracy
    )


def told_by_one(
    place: int, deviations: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two domains, and labels that both have, which the direction at `place` tells and no other.

    The columns of a domain are orthogonal: its principal directions are the axes, its variances
    the squares of `deviations`.
    """
    labels = np.arange(128) % 2

    def domain(generator: np.random.Generator) -> np.ndarray:
        noise = generator.normal(size=(128, len(deviations) - 1))
        columns = np.linalg.qr(np.column_stack([np.ones(128), labels, noise]))[0][:, 1:]
        columns[:, 0] *= np.sign(columns[1, 0])  # the second sample is of class 1
        ordered = np.insert(columns[:, 1:], place - 1, columns[:, 0], axis=1)
        return ordered * deviations * math.sqrt(127)

    source, target = (domain(np.random.default_rng([seed, number])) for number in range(2))
    return source, labels, target


def test_the_oracle_chooses_from_2_to_60_as_the_paper_did_and_of_equals_the_fewest() -> None:
    source, labels, target = told_by_one(60, np.linspace(2.0, 1.0, 64), seed=1)
    found = best_components(source, labels, target, labels, scaling="centred")
    assert (found.components, found.accuracy) == (60, 1.0)
    assert list(found.accuracies) == list(range(2, 61))
    assert max(found.accuracies[number] for number in range(2, 60)) < 0.8
    more = best_components(
        source, labels, target, labels, candidates=range(2, 65), scaling="centred"
    )
    assert more.accuracies[64] == 1.0
    assert more.components == 60


@pytest.mark.parametrize("ratio", [0.97, 1.03])
def test_the_honest_choice_ends_at_the_bound_with_the_originals_constants(ratio: float) -> None:
    """The fourth of six directions tells the classes, its gap just below or above the bound with
    γ = 10⁵ and δ = .1; the choice that crosses it is the better one, and of equals the fewest."""
    deviations = np.sqrt([4.0, 3.0, 2.0, 1.0, 1e-4, 1e-6])
    source, labels, target = told_by_one(4, deviations, seed=2)
    largest = max(np.linalg.norm(rows, axis=1).max() for rows in (source, target))
    factor = 1 + math.sqrt(math.log(2 / 0.1) / 2)
    wanted = factor * 16 * 4**1.5 * largest / (1e5 * math.sqrt(128))
    # the gap grows with the square of the scale, the bound with the scale
    scale = ratio * wanted / (1.0 - 1e-4)
    source, target = source * scale, target * scale
    assert stable_components(source, target, scaling="centred") == (4 if ratio > 1 else 3)
    chosen = choose_components(source, labels, target, scaling="centred")
    assert chosen == 4 if ratio > 1 else chosen <= 3
    free = choose_components(source * 1e5, labels, target * 1e5, scaling="centred")
    assert stable_components(source * 1e5, target * 1e5, scaling="centred") == 5
    assert free == 4


def test_the_svm_sees_aligned_coordinates_at_one_scale() -> None:
    source, labels, target, _ = domains()
    target = target + np.random.default_rng(1).normal(size=target.shape) * 2
    aligned = subspace_alignment(source, target, 8)
    one, each = (
        fit_linear_svm(aligned.source, labels, seed=2, each_feature=each).predict(aligned.target)
        for each in (False, True)
    )
    assert predict_by_alignment(source, labels, target, 8, seed=2).tolist() == one.tolist()
    assert one.tolist() != each.tolist()


def test_two_thousand_samples_are_cross_validated_unless_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def counted(
        source: np.ndarray, labels: np.ndarray, target: np.ndarray, seed: int
    ) -> np.ndarray:
        asked.append((len(source), len(target)))
        return nearest_labels(source, labels, target)

    monkeypatch.setitem(CLASSIFIERS, "nearest", counted)
    rows = np.random.default_rng(0).normal(size=(2100, 2))
    choose_components(rows, np.arange(2100) % 2, rows, most=1)
    assert asked == [(1000, 1000), (1000, 1000)]


def test_what_is_refused() -> None:
    source, labels, target, answers = domains()
    with pytest.raises(InputError, match="9 components can't be had: 1 to 8 can, with 45 rows"):
        subspace_alignment(source, target, 9)
    with pytest.raises(InputError, match="4 components can't be had: 1 to 3 can, with 4 rows"):
        subspace_alignment(source, target[:4], 4)
    with pytest.raises(InputError, match=r"must be an integer, not 2\.5"):
        subspace_alignment(source, target, 2.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no component can be had with 1 rows"):
        subspace_alignment(source, target[:1], 1)
    with pytest.raises(InputError, match="no candidate can be had: 1 to 8 can"):
        best_components(source, labels, target, answers, candidates=[20])
    with pytest.raises(InputError, match="target labels are missing"):
        best_components(source, labels, target, None)
    with pytest.raises(UnknownNameError, match="no classifier 'svn'; did you mean 'svm'"):
        predict_by_alignment(source, labels, target, 2, classifier="svn")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="deviation > 0 and 0 < risk < 1 are needed; 1"):
        stable_components(source, target, deviation=1, risk=1)
    with pytest.raises(InputError, match="two folds need two labelled source rows"):
        choose_components(source[:4], [0, 1, 2, 2], target)
