"""The interpolating path: its data sets, its codes in loops, and what it is good for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from revgrad.errors import InputError
from revgrad.paper.baselines.interpolating_path import (
    TriangleCode,
    interpolating_path,
    learn_code,
    path_features,
    predict_by_path,
)
from revgrad.paper.baselines.linear_svm import fit_linear_svm


def domains() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    labels, answers = np.arange(80) % 4, np.arange(60) % 4
    middles = generator.normal(size=(4, 12)) * 2
    source = middles[labels] + generator.normal(size=(80, 12))
    target = middles[answers] + generator.normal(size=(60, 12)) + 0.5
    return source, labels, target * 1.5, answers


@pytest.mark.parametrize(("steps", "shares"), [(2, [0, 1]), (5, [0, 0.25, 0.5, 0.75, 1])])
def test_shares_grow_from_source_to_target(steps: int, shares: list[float]) -> None:
    path = list(interpolating_path(40, 20, steps, seed=3))
    assert [len(point.source_rows) for point in path] == [round(40 * (1 - s)) for s in shares]
    assert [len(point.target_rows) for point in path] == [round(20 * s) for s in shares]
    assert sorted(path[0].source_rows) == list(range(40))
    assert sorted(path[-1].target_rows) == list(range(20))
    for earlier, later in itertools.pairwise(path):
        assert set(later.source_rows) < set(earlier.source_rows)  # whoever left stays away
        assert set(earlier.target_rows) < set(later.target_rows)
    other = list(interpolating_path(40, 20, steps, seed=4))
    assert other[0].source_rows.tolist() != path[0].source_rows.tolist()


def test_shares_of_odd_numbers_are_rounded() -> None:
    path = list(interpolating_path(11, 7, 5, seed=0))
    assert [len(point.source_rows) for point in path] == [11, 8, 5, 3, 0]
    assert [len(point.target_rows) for point in path] == [0, 2, 4, 5, 7]


def test_codes_by_loops() -> None:
    source, *_ = domains()
    code = learn_code(source, 7, seed=0, components=5)
    assert code.centres.shape == (7, 5)
    found = code(source)
    for row, values in zip(source, found, strict=True):
        whitened = [float((row - code.mean) @ code.whitening[:, j]) for j in range(5)]
        distances = [
            sum((a - b) ** 2 for a, b in zip(whitened, centre, strict=True)) ** 0.5
            for centre in code.centres
        ]
        slow = [max(0.0, sum(distances) / 7 - distance) for distance in distances]
        np.testing.assert_allclose(values, slow, atol=1e-9)
    assert 0.2 < np.mean(found == 0) < 0.8


def test_whitening_and_centres() -> None:
    source, *_ = domains()
    code = learn_code(source, 6, seed=0, components=5)
    whitened = (source - code.mean) @ code.whitening
    np.testing.assert_allclose(np.cov(whitened, rowvar=False), np.eye(5), atol=1e-10)
    # the centres are k-means': each is the mean of the rows that are nearest to it
    nearest = ((whitened[:, None] - code.centres) ** 2).sum(axis=-1).argmin(axis=1)
    for number in range(6):
        np.testing.assert_allclose(
            code.centres[number], whitened[nearest == number].mean(axis=0), atol=1e-6
        )


def test_twenty_components_are_whitened_unless_said() -> None:
    features = np.random.default_rng(0).normal(size=(60, 30))
    assert learn_code(features, 4, seed=0).whitening.shape == (30, 20)


def test_directions_without_variance_are_left_out() -> None:
    source, *_ = domains()
    doubled = np.hstack([source[:, :3], source[:, :3]])
    code = learn_code(doubled, 4, seed=0)
    assert code.whitening.shape == (6, 3)
    assert np.isfinite(code(doubled)).all()
    with pytest.raises(InputError, match="all rows at a step of the path are equal"):
        learn_code(np.ones((9, 3)), 2, seed=0)


def test_features_are_the_codes_of_every_step_side_by_side() -> None:
    source, _, target, _ = domains()
    of_source, of_target = path_features(source, target, steps=3, codes=8, scaling="given", seed=2)
    assert of_source.shape == (80, 24)
    for number, point in enumerate(interpolating_path(80, 60, 3, seed=2)):
        rows = np.concatenate([source[point.source_rows], target[point.target_rows]])
        code = learn_code(rows, 8, seed=2)
        part = slice(8 * number, 8 * number + 8)
        np.testing.assert_allclose(of_source[:, part], code(source), atol=1e-10)
        np.testing.assert_allclose(of_target[:, part], code(target), atol=1e-10)


def test_each_domain_is_scaled_by_itself() -> None:
    source, _, target, _ = domains()
    plain = path_features(source, target, codes=8)
    moved = path_features(source * 3 - 7, target / 2 + 4, codes=8)
    for one, other in zip(plain, moved, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_prediction_is_the_svm_on_the_path() -> None:
    source, labels, target, answers = domains()
    of_source, of_target = path_features(source, target, seed=1)
    assert of_source.shape[1] == 5 * 15  # a fourth of the 60 target rows
    predicted = predict_by_path(source, labels, target, seed=1)
    machine = fit_linear_svm(of_source, labels, seed=1)
    assert predicted.tolist() == machine.predict(of_target).tolist()
    assert np.mean(predicted == answers) > 0.9


def test_a_step_learns_from_so_many_rows() -> None:
    source, _, target, _ = domains()
    few, _ = path_features(source, target, codes=8, rows=20)
    many, _ = path_features(source, target, codes=8)
    assert not np.allclose(few, many)
    with pytest.raises(InputError, match="8 components can't be had: 1 to 5 can, with 5 rows"):
        path_features(source, target, codes=8, rows=5)


def test_what_is_refused() -> None:
    source, labels, target, _ = domains()
    with pytest.raises(InputError, match="two data sets at least, source and target; 1 came"):
        predict_by_path(source, labels, target, steps=1)
    with pytest.raises(InputError, match="61 components can't be had"):
        path_features(source, target, codes=61)
    assert isinstance(learn_code(source, 3, seed=0), TriangleCode)
