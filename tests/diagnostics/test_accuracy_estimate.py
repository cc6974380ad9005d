"""Estimated target accuracy: definitions by loops, known values, and what intervals cover."""

from __future__ import annotations

import math

import numpy as np
import pytest

from revgrad.diagnostics import Evidence, available_estimates, combined_estimate
from revgrad.diagnostics.accuracy_estimate import (
    AccuracyEstimate,
    agreement_accuracy,
    atc_threshold,
    average_thresholded_confidence,
    difference_of_confidences,
)
from revgrad.diagnostics.certainty import HIGHEST, LOWEST, source_temperature
from revgrad.errors import InputError, UnknownNameError

CLASSES = 5


def sample(n: int, seed: int, spread: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    """Logits that mean what they say: each label is drawn from its sample's softmax."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, CLASSES)) * spread
    shares = np.array([softmax(row) for row in logits])
    labels = (shares.cumsum(1) < rng.random((n, 1))).sum(1)
    return logits, labels


def softmax(row: np.ndarray) -> list[float]:
    exponentials = [math.exp(x - max(row)) for x in row]
    return [e / math.fsum(exponentials) for e in exponentials]


def certainty(row: np.ndarray, kind: str) -> float:
    shares = softmax(row)
    return max(shares) if kind == "largest" else math.fsum(p * math.log(p) for p in shares)


@pytest.mark.parametrize("kind", ["largest", "negative-entropy"])
def test_atc_is_that_of_its_definition(kind: str) -> None:
    """Of all source confidences, the largest below which no more samples lie than are wrong."""
    (source, labels), (target, _) = sample(41, 0), sample(33, 1, 1.0)
    confidences = [certainty(row, kind) for row in source]
    wrong = sum(row.argmax() != y for row, y in zip(source, labels, strict=True))
    threshold = max(t for t in confidences if sum(c < t for c in confidences) <= wrong)
    expected = sum(certainty(row, kind) >= threshold for row in target) / 33
    found = average_thresholded_confidence(
        source, labels, target, confidence=kind, calibrated=False, draws=20
    )
    assert found.value == pytest.approx(expected)
    assert 0 < expected < 1


def test_atc_gives_the_source_accuracy_where_nothing_shifts() -> None:
    """On the source samples themselves exactly, whatever the temperature."""
    source, labels = sample(500, 0)
    accuracy = float((source.argmax(1) == labels).mean())
    for calibrated in (True, False):
        found = average_thresholded_confidence(
            source * 3, labels, source * 3, calibrated=calibrated, draws=20
        )
        assert found.value == pytest.approx(accuracy)


def test_thresholds_where_all_or_none_are_right_and_where_samples_tie() -> None:
    confidences = np.array([0.5, 0.9, 0.7, 0.7])
    assert atc_threshold(confidences, np.ones(4)) == 0.5
    assert math.isinf(atc_threshold(confidences, np.zeros(4)))
    assert atc_threshold(confidences, np.array([0, 1, 0, 1])) == 0.7
    assert atc_threshold(confidences, np.array([0, 1, 0, 0])) == 0.9


def test_difference_of_confidences_is_that_of_its_definition() -> None:
    (source, labels), (target, _) = sample(41, 0), sample(33, 1, 1.0)
    right = sum(row.argmax() == y for row, y in zip(source, labels, strict=True)) / 41
    mean = [math.fsum(max(softmax(r)) for r in rows) / len(rows) for rows in (source, target)]
    found = difference_of_confidences(source, labels, target, calibrated=False, draws=20)
    assert found.value == pytest.approx(right - (mean[0] - mean[1]))


def test_the_temperature_has_the_least_cross_entropy_of_a_grid() -> None:
    logits, labels = sample(400, 0)

    def loss(temperature: float) -> float:
        return math.fsum(
            -math.log(softmax(row / temperature)[y])
            for row, y in zip(logits * 3, labels, strict=True)
        )

    found = source_temperature(logits * 3, labels)
    assert loss(found) <= min(loss(t) for t in np.linspace(0.2, 8, 60))
    assert found == pytest.approx(3, rel=0.15)  # they were calibrated before
    assert source_temperature(logits, labels) == pytest.approx(found / 3, rel=1e-4)


def test_temperatures_of_perfect_and_of_useless_models_stay_finite() -> None:
    logits, _ = sample(50, 0)
    assert source_temperature(logits, logits.argmax(1)) == pytest.approx(LOWEST, rel=0.01)
    assert source_temperature(logits, logits.argmin(1)) == pytest.approx(HIGHEST, rel=0.01)


def test_calibration_mends_estimates_of_an_overconfident_model() -> None:
    """Every target sample is less certain than the source's, labels follow: a benign shift."""
    (source, labels), (target, truth) = sample(4000, 0, 2.0), sample(4000, 1, 1.0)
    accuracy = float((target.argmax(1) == truth).mean())
    found = difference_of_confidences(source * 4, labels, target * 4, draws=60)
    assert found.low < accuracy < found.high
    assert abs(found.value - accuracy) < 0.03
    # a threshold of the source counts samples that are a little less certain as wrong, every one
    thresholded = average_thresholded_confidence(source * 4, labels, target * 4, draws=60)
    assert thresholded.high < accuracy
    plain = difference_of_confidences(source * 4, labels, target * 4, calibrated=False, draws=20)
    assert plain.low > accuracy


def test_agreement_is_a_share_with_wilsons_interval() -> None:
    one, other = sample(40, 0)[0], sample(40, 1)[0]
    same = int((one.argmax(1) == other.argmax(1)).sum())
    found = agreement_accuracy(one, other)
    z = 1.959963984540054
    middle = (same + z * z / 2) / (40 + z * z)
    half = z * math.sqrt(same * (40 - same) / 40 + z * z / 4) / (40 + z * z)
    assert (found.value, found.low, found.high) == pytest.approx(
        (same / 40, middle - half, middle + half)
    )


@pytest.mark.parametrize("estimate", [average_thresholded_confidence, difference_of_confidences])
def test_the_interval_covers_the_draw_of_the_samples(estimate: object) -> None:
    """Both domains alike, 150 samples each: the value of all samples is mostly inside."""
    (source, labels), (target, _) = sample(20_000, 0), sample(20_000, 1)
    whole = estimate(source, labels, target, calibrated=False, draws=20).value  # type: ignore[operator]
    inside, widths = 0, []
    for i in range(60):
        part = slice(150 * i, 150 * (i + 1))
        found = estimate(  # type: ignore[operator]
            source[part], labels[part], target[part], calibrated=False, draws=100, seed=i
        )
        inside += found.low <= whole <= found.high
        widths.append(found.high - found.low)
    assert inside >= 54
    assert np.mean(widths) < 0.4


def test_no_interval_is_empty_where_all_samples_are_alike() -> None:
    certain = np.eye(CLASSES)[[0, 1, 2, 3, 4] * 4] * 50
    found = average_thresholded_confidence(certain, certain.argmax(1), certain)
    assert found.value == found.high == 1
    assert 0.8 < found.low < 0.9  # 20 samples


def test_estimates_of_what_the_evidence_holds() -> None:
    (source, labels), (target, _) = sample(60, 0), sample(50, 1)
    other = sample(50, 2)[0]
    all_of_it = Evidence(target, source, labels, seed_logits=(other,))
    found = available_estimates(all_of_it)
    assert found["atc"] == average_thresholded_confidence(source, labels, target)
    assert found["difference-of-confidences"] == difference_of_confidences(source, labels, target)
    assert found["agreement"] == agreement_accuracy(target, other)
    assert set(available_estimates(Evidence(target, source, labels))) == set(found) - {"agreement"}
    assert available_estimates(Evidence(target)) == {}
    assert all(estimate.covers and estimate.leaves_out for estimate in found.values())


def test_the_combined_interval_holds_all_and_the_bias() -> None:
    def one(value: float, low: float, high: float) -> AccuracyEstimate:
        return AccuracyEstimate("m", value, low, high, 0.95, "c", "l")

    every = {"a": one(0.5, 0.45, 0.6), "b": one(0.7, 0.6, 0.75), "c": one(0.55, 0.5, 0.58)}
    found = combined_estimate(every)
    assert (found.value, found.low, found.high) == (0.55, 0.45, 0.75)
    wide = combined_estimate(every, bias=0.3)
    assert (wide.value, wide.low, wide.high) == pytest.approx((0.55, 0.15, 1.0))
    assert "no bias was given" in found.leaves_out
    assert "0.3 of bias" in wide.covers
    with pytest.raises(InputError, match="no estimate to combine"):
        combined_estimate({})


def test_wrong_input_is_refused_in_a_line() -> None:
    source, labels = sample(20, 0)
    with pytest.raises(InputError, match="5 and 4 came"):
        average_thresholded_confidence(source, labels, source[:, :4])
    with pytest.raises(UnknownNameError, match="no confidence 'biggest'"):
        average_thresholded_confidence(source, labels, source, confidence="biggest")
    with pytest.raises(InputError, match="20 draws or more, not 5"):
        difference_of_confidences(source, labels, source, draws=5)
    with pytest.raises(InputError, match="between 0 and 1, not 95"):
        difference_of_confidences(source, labels, source, level=95)
    with pytest.raises(InputError, match="target logits hold NaN"):
        difference_of_confidences(source, labels, np.full((3, 5), np.nan))
