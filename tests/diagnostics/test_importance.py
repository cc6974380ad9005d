"""Density ratios and the weighted risks they make, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from revgrad.diagnostics.importance import (
    deep_embedded_risk,
    density_ratios,
    effective_sample_size,
    importance_weighted_risk,
)
from revgrad.errors import InputError


def sample(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 2, n).astype(float), rng.gamma(1.0, size=n)


def slow_dev(losses: np.ndarray, ratios: np.ndarray) -> float:
    n = len(losses)
    weighted = [w * loss for w, loss in zip(ratios, losses, strict=True)]
    mean_w, mean_wl = math.fsum(ratios) / n, math.fsum(weighted) / n
    covariance = math.fsum(
        (a - mean_wl) * (b - mean_w) for a, b in zip(weighted, ratios, strict=True)
    )
    variance = math.fsum((b - mean_w) ** 2 for b in ratios)
    eta = -covariance / variance
    return mean_wl + eta * mean_w - eta


def test_risks_are_those_of_their_definitions() -> None:
    losses, ratios = sample()
    total = math.fsum(w * loss for w, loss in zip(ratios, losses, strict=True))
    plain = importance_weighted_risk(losses, ratios, normalised=False)
    assert plain == pytest.approx(total / 40, rel=1e-13)
    assert importance_weighted_risk(losses, ratios) == pytest.approx(
        total / math.fsum(ratios), rel=1e-13
    )
    assert deep_embedded_risk(losses, ratios) == pytest.approx(slow_dev(losses, ratios), rel=1e-12)


def test_equal_ratios_leave_the_mean_and_a_constant_loss_is_itself() -> None:
    losses, ratios = sample()
    ones = np.ones(40)
    for risk in (importance_weighted_risk, deep_embedded_risk):
        assert risk(losses, ones) == pytest.approx(losses.mean())
        # DEV: w·c + η(w − 1) with η = −c
        assert risk(np.full(40, 0.3), ratios) == pytest.approx(0.3)
    assert effective_sample_size(ones) == pytest.approx(40)
    assert effective_sample_size(np.eye(40)[3]) == pytest.approx(1)


def test_the_control_variate_lowers_the_variance_and_keeps_the_mean() -> None:
    """Loss x² under N(0, 1), target N(.5, 1): the true risk is 1.25."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        x = rng.normal(size=200)
        ratios, losses = np.exp(0.5 * x - 0.125), x**2
        found.append(
            (
                importance_weighted_risk(losses, ratios, normalised=False),
                deep_embedded_risk(losses, ratios),
            )
        )
    plain, reduced = np.array(found).T
    assert reduced.std() < 0.8 * plain.std()
    assert abs(reduced.mean() - 1.25) < 0.05
    assert abs(plain.mean() - 1.25) < 0.05


def test_ratios_of_two_gaussians_are_the_true_ones() -> None:
    """N(0, 1) and N(1, 1) in the first feature: p_T/p_S = exp(x − ½), whatever the counts."""
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(3000, 2)), rng.normal(size=(1200, 2))
    target[:, 0] += 1
    found = density_ratios(source, target)
    assert np.abs(np.log(found) - (source[:, 0] - 0.5)).max() < 0.5
    assert found.mean() == pytest.approx(1, abs=0.12)
    # the source samples that look like the target's have its mean
    assert (found * source[:, 0]).sum() / found.sum() == pytest.approx(1, abs=0.15)


def test_a_samples_ratio_is_of_a_classifier_that_did_not_see_it() -> None:
    """More features than samples: samples that were fitted on would all look like the source's."""
    rng = np.random.default_rng(0)
    found = np.log(density_ratios(rng.normal(size=(50, 300)), rng.normal(size=(50, 300))))
    assert 0.25 < (found > 0).mean() < 0.75


def test_separable_domains_do_not_make_the_normalised_risk_0() -> None:
    rng = np.random.default_rng(0)
    source = rng.normal(size=(200, 2))
    losses = rng.integers(0, 2, 200).astype(float)
    ratios = density_ratios(source, source + 50)
    assert importance_weighted_risk(losses, ratios, normalised=False) < 0.1 * losses.mean()
    assert importance_weighted_risk(losses, ratios) == pytest.approx(losses.mean(), abs=0.1)


def test_wrong_input_is_refused_in_a_line() -> None:
    rows = np.zeros((1, 2))
    with pytest.raises(InputError, match="2 folds of 1 source and 5 target samples"):
        density_ratios(rows, np.zeros((5, 2)))
    with pytest.raises(InputError, match=r"\(2,\) and \(3,\) came"):
        importance_weighted_risk([0.0, 1.0], [1.0, 1.0, 1.0])
    with pytest.raises(InputError, match="NaN or infinity"):
        deep_embedded_risk([0.0, math.nan], [1.0, 1.0])
    with pytest.raises(InputError, match="not all 0"):
        effective_sample_size([0.0, 0.0])
