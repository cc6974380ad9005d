"""Domain error, proxy A-distance, the bound of §3.3, and the intervals they come with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from revgrad.diagnostics.divergence import (
    DomainSeparation,
    adaptation_bound,
    domain_separation,
    fit_domain_classifier,
    own_domain_error,
)
from revgrad.diagnostics.intervals import mean_share_interval, share_interval
from revgrad.errors import InputError, UnknownNameError

BOTH = pytest.mark.parametrize("classifier", ["logistic", "mlp"])


def normal(n: int, d: int, seed: int, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


@pytest.mark.parametrize(("classifier", "times"), [("logistic", 30), ("mlp", 6)])
def test_equal_domains_have_distance_0_on_average_and_not_above(
    classifier: str, times: int
) -> None:
    """Held-out errors are unbiased: a distance that was cut off at 0 would average above it."""
    distances = [
        domain_separation(normal(120, 6, 2 * i), normal(150, 6, 2 * i + 1), classifier).distance
        for i in range(times)
    ]
    # one distance has a deviation of about 4·√(¼/60 + ¼/75)/2 = .17
    assert abs(np.mean(distances)) < 3 * 0.17 / math.sqrt(times)
    assert min(distances) < 0 < max(distances)


@BOTH
def test_separable_domains_have_distance_2_whatever_the_scale_and_the_counts(
    classifier: str,
) -> None:
    source, target = normal(300, 5, 0) * 1e4 + 3e6, normal(60, 5, 1) * 1e4 + 3e6
    target[:, 2] += 2e5
    found = domain_separation(source, target, classifier)
    assert found.distance == 2
    assert found.error == found.source_error == found.target_error == 0
    assert (found.source_samples, found.target_samples) == (150, 30)
    assert 0 < found.high < 0.1  # not certainty: 30 target samples
    assert found.distance_interval == (2 * (1 - 2 * found.high), 2)


def test_two_gaussians_have_the_error_of_the_best_rule() -> None:
    """Unit variance, means 1 apart: the best rule is wrong for Φ(−½) of the samples."""
    source, target = normal(8000, 1, 0), normal(8000, 1, 1, shift=1.0)
    best = 0.5 * math.erfc(0.5 / math.sqrt(2))
    for classifier in ("logistic", "mlp"):
        found = domain_separation(source, target, classifier)
        assert found.low < best < found.high
        assert abs(found.error - best) < 0.02


def test_a_perceptron_sees_what_a_linear_function_does_not() -> None:
    """Same mean, other spread: only the class of hypotheses makes the difference, and is said."""
    source, target = normal(1500, 2, 0), normal(1500, 2, 1) * 4
    linear, bent = (domain_separation(source, target, kind) for kind in ("logistic", "mlp"))
    assert abs(linear.distance) < 0.3
    assert bent.distance > 1
    assert linear.hypothesis == "linear functions of the features"
    assert "perceptron" in bent.hypothesis


def test_the_error_is_that_of_samples_it_was_not_trained_on() -> None:
    """More features than samples: training samples are told apart, others can't be."""
    source, target = normal(60, 200, 0), normal(60, 200, 1)
    fitted = fit_domain_classifier(source, target)
    assert (fitted.logits(source) < 0).mean() > 0.9
    assert (fitted.logits(target) > 0).mean() > 0.9
    assert abs(domain_separation(source, target).error - 0.5) < 0.2


def test_domains_weigh_the_same_however_many_samples_they_have() -> None:
    """Unbalanced, a classifier of noisy domains would call every sample the larger one's."""
    found = domain_separation(normal(4000, 1, 0), normal(400, 1, 1, shift=0.5))
    assert abs(found.source_error - found.target_error) < 0.12
    assert found.error == pytest.approx((found.source_error + found.target_error) / 2)


def test_constant_and_rare_features_do_no_harm() -> None:
    source, target = normal(200, 3, 0), normal(200, 3, 1)
    source[:, 0] = target[:, 0] = 0.1
    source[:, 1] = target[:, 1] = 0.0
    target[0, 1] = 1e6
    fitted = fit_domain_classifier(source[1:], target[1:])
    assert np.isfinite(fitted.logits(target)).all()
    assert fitted.logits(target)[0] == pytest.approx(
        fitted.logits(np.where(np.arange(3) == 1, 0.0, target[:1]))[0]
    )


def test_a_unit_that_is_hardly_ever_on_does_not_decide_where_it_is() -> None:
    """Standardised by its spread, which is tiny, it would outweigh all others together."""
    source, target = normal(200, 3, 0), normal(200, 3, 1, shift=1.0)
    source[:, 1] = target[:, 1] = 0.0
    source[7, 1] = 1e-3
    fitted = fit_domain_classifier(source, target)
    rows = np.repeat(normal(1, 3, 2), 2, axis=0)
    rows[:, 1] = 1e3, 1e6
    first, second = fitted.logits(rows)
    assert first == pytest.approx(second)
    assert abs(first) < 20


def test_the_runs_own_classifier_by_counting() -> None:
    source, target = [-1.0, 0.5, -2.0, 0.0], [1.0, -1.0, 0.0]
    wrong_source, wrong_target = 1 / 4, 2 / 3  # 0 is no sign of the target, as in training
    found = own_domain_error(source, target)
    assert found.source_error == wrong_source
    assert found.target_error == pytest.approx(wrong_target)
    assert found.error == pytest.approx((wrong_source + wrong_target) / 2)
    pairs = [np.stack([np.zeros(len(x)), np.asarray(x)], 1) for x in (source, target)]
    assert own_domain_error(*pairs) == found
    assert own_domain_error(np.reshape(source, (4, 1)), np.reshape(target, (3, 1))) == found


@pytest.mark.parametrize("error", [0.0, 0.1, 0.5, 0.8])
def test_the_bound_is_source_error_plus_half_the_divergence(error: float) -> None:
    """By α(h) = P_S[h = 0] + P_T[h = 1] of the paper, with h or its opposite."""
    separation = DomainSeparation(error, error, error, 0.95, error, error, 10, 10, "some class")
    right_source, right_target = 1 - error, 1 - error
    alphas = [right_source + right_target, (1 - right_source) + (1 - right_target)]
    divergence = 2 * max(alpha - 1 for alpha in alphas)
    found = adaptation_bound(0.07, separation)
    assert found.divergence == pytest.approx(divergence)
    assert found.value == pytest.approx(0.07 + divergence / 2)
    assert found.hypothesis == "some class"


@pytest.mark.parametrize(("hits", "rows"), [(0, 10), (3, 10), (10, 10), (499, 1000)])
def test_wilsons_interval_is_where_its_definition_holds(hits: int, rows: int) -> None:
    """By bisection: the ends are where |share − p| = z √(p(1−p)/n)."""
    z, share = 1.959963984540054, hits / rows

    def outside(p: float) -> bool:
        return abs(share - p) > z * math.sqrt(p * (1 - p) / rows)

    def edge(inside: float, end: float) -> float:
        if not outside(end):
            return end
        for _ in range(80):
            middle = (inside + end) / 2
            inside, end = (inside, middle) if outside(middle) else (middle, end)
        return inside

    low, high = share_interval(hits, rows)
    # the ends themselves, p = 0 and 1, have no deviation: outside but at a share of 0 or 1
    assert low == pytest.approx(edge(share, 0.0), abs=1e-9)
    assert high == pytest.approx(edge(share, 1.0), abs=1e-9)


@pytest.mark.parametrize("truth", [(0.5, 0.5), (0.02, 0.1), (0.0, 0.3)])
def test_the_interval_of_a_mean_of_shares_covers_it_as_often_as_it_says(
    truth: tuple[float, float],
) -> None:
    rng = np.random.default_rng(0)
    rows = (60, 90)
    covered = 0
    for _ in range(1500):
        hits = tuple(int(rng.binomial(n, p)) for n, p in zip(rows, truth, strict=True))
        low, high = mean_share_interval((hits[0], hits[1]), rows)
        covered += low <= sum(truth) / 2 <= high
    assert 0.93 < covered / 1500 < 0.99


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        (np.zeros((0, 3)), np.zeros((9, 3)), "source features must have the shape"),
        (np.zeros((9, 3)), np.zeros((9, 4)), "3 and 4 came"),
        (np.zeros((9, 3)), np.full((9, 3), np.nan), "target features hold NaN"),
        (np.zeros((9, 3)), np.zeros((3, 3)), "4 target samples or more; 3 came"),
    ],
)
def test_wrong_features_are_refused_in_a_line(
    source: np.ndarray, target: np.ndarray, text: str
) -> None:
    with pytest.raises(InputError, match=text):
        domain_separation(source, target)


def test_wrong_arguments_are_refused_in_a_line() -> None:
    rows = normal(9, 2, 0)
    with pytest.raises(UnknownNameError, match="did you mean 'logistic'"):
        domain_separation(rows, rows, "logistics")
    with pytest.raises(InputError, match="between 0 and 1, not 1"):
        domain_separation(rows, rows, held_out=1)
    with pytest.raises(InputError, match=r"\(n, 2\), not \(4, 3\)"):
        own_domain_error(np.zeros((4, 3)), np.zeros((4, 3)))
    with pytest.raises(InputError, match="domain logits hold NaN"):
        own_domain_error([0.0, math.nan], [1.0])
    with pytest.raises(InputError, match=r"share from 0 to 1, not 1\.5"):
        adaptation_bound(1.5, own_domain_error([0.0], [1.0]))
