"""The default's choice: its measures by slow loops, its rule, the source that is moved."""

from __future__ import annotations

import numpy as np
import pytest

from revgrad.estimators.choice import (
    ADAPTED,
    ALONE,
    MOVED,
    NEIGHBOURS,
    Trained,
    choose,
    judge,
    moved_to,
)

RNG = np.random.default_rng(0)


def test_the_measures_by_slow_loops() -> None:
    x = RNG.normal(size=(60, 3)) * [1, 50, 0.1]
    p = RNG.dirichlet([1, 1, 1], size=60)
    found = judge("one", x, p)
    classes, scaled = p.argmax(1), x / x.std(0)
    differ = []
    for i in range(60):
        distances = [(((scaled[i] - scaled[j]) ** 2).sum(), j) for j in range(60) if j != i]
        differ += [classes[j] != classes[i] for _, j in sorted(distances)[:NEIGHBOURS]]
    by_chance = np.mean([classes[i] != classes[j] for i in range(60) for j in range(60)])
    assert found.disagreement == pytest.approx(np.mean(differ) / by_chance)
    mean = p.mean(0)
    mutual = sum(p[i, k] * np.log(p[i, k] / mean[k]) / 60 for i in range(60) for k in range(3))
    assert found.information == pytest.approx(mutual / np.log(3))


def test_one_class_says_nothing() -> None:
    found = judge("one", RNG.normal(size=(5, 2)), np.tile([1.0, 0.0], (5, 1)))
    assert (found.disagreement, found.information) == (0, pytest.approx(0))


@pytest.mark.parametrize(
    ("adapted", "moved", "chosen"),
    [
        ((0.30, 0.9), (0.30, 0.9), ALONE),  # not clearly better
        ((0.05, 0.9), (0.10, 0.9), ADAPTED),
        ((0.10, 0.9), (0.05, 0.9), MOVED),
        ((0.10, 0.9), (0.10, 0.9), ADAPTED),  # no reason to move
        ((0.00, 0.1), (0.30, 0.9), ALONE),  # all of one class: neighbours agree
    ],
)
def test_the_rule(adapted: tuple[float, float], moved: tuple[float, float], chosen: str) -> None:
    tried = [Trained(ALONE, 0.4, 0.9), Trained(ADAPTED, *adapted), Trained(MOVED, *moved)]
    assert choose(tried).chosen == chosen
    assert str(choose(tried)).startswith(chosen)


def test_the_moved_source_has_the_target_s_means_and_deviations() -> None:
    own, other = RNG.normal(3, 2, (50, 3)), RNG.normal(-1, 5, (40, 3))
    own[:, 2] = 7  # a feature that says nothing
    moved = moved_to(own, other)
    np.testing.assert_allclose(moved.mean(0), other.mean(0), atol=1e-5)
    np.testing.assert_allclose(moved.std(0), [*other.std(0)[:2], 0], atol=1e-5)
    assert (np.argsort(moved[:, 0]) == np.argsort(own[:, 0])).all()
