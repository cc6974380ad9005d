"""Discrepancies against double loops over rows, in float64."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import median_low

import pytest
import torch
from torch import Tensor

from revgrad.errors import InputError
from revgrad.objectives.discrepancy import (
    difference_of_means,
    median_bandwidths,
    mmd,
    relative_difference_of_means,
)

WIDTHS = (0.7, 1.5, 4.0)


def samples(shift: float = 0.5, n: int = 7, m: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    source = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    return source, torch.randn(m, 3, generator=generator, dtype=torch.float64) * 1.4 + shift


def distance(x: list[float], y: list[float]) -> float:
    return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def slow_means(source: Tensor, target: Tensor) -> float:
    s, t = source.tolist(), target.tolist()
    total = 0.0
    for unit in range(len(s[0])):
        difference = sum(x[unit] for x in s) / len(s) - sum(x[unit] for x in t) / len(t)
        total += difference**2
    return total


def slow_mmd(source: Tensor, target: Tensor, widths: tuple[float, ...], unbiased: bool) -> float:
    s, t = source.tolist(), target.tolist()

    def kernel(x: list[float], y: list[float]) -> float:
        return sum(math.exp(-distance(x, y) / (2 * w * w)) for w in widths) / len(widths)

    def within(rows: list[list[float]]) -> float:
        values = [
            kernel(x, y)
            for i, x in enumerate(rows)
            for j, y in enumerate(rows)
            if not (unbiased and i == j)
        ]
        return sum(values) / len(values)

    between = sum(kernel(x, y) for x in s for y in t) / (len(s) * len(t))
    return within(s) + within(t) - 2 * between


def test_difference_of_means_is_a_slow_loop() -> None:
    source, target = samples()
    assert float(difference_of_means(source, target)) == pytest.approx(
        slow_means(source, target), rel=1e-12
    )


def test_relative_difference_is_over_the_spread_within_the_domains() -> None:
    source, target = samples()
    spread = 0.0
    for rows in (source.tolist(), target.tolist()):
        mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        spread += sum(distance(x, mean) for x in rows) / len(rows) / 2
    expected = slow_means(source, target) / spread
    found = float(relative_difference_of_means(source, target))
    assert found == pytest.approx(expected, rel=1e-12)
    turned, _ = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64))
    for change in (lambda x: 100 * x + 3, lambda x: torch.cat([x, x], 1), lambda x: x @ turned):
        again = float(relative_difference_of_means(change(source), change(target)))
        assert again == pytest.approx(expected, rel=1e-10)


def test_relative_difference_of_constant_features() -> None:
    same = torch.ones(3, 2)
    assert float(relative_difference_of_means(same, same)) == 0
    assert math.isinf(float(relative_difference_of_means(same, same + 1)))


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e4], ids=["at 0", "far away"])
def test_mmd_is_a_double_loop(unbiased: bool, offset: float) -> None:
    source, target = samples()
    expected = slow_mmd(source, target, WIDTHS, unbiased)
    found = float(mmd(source + offset, target + offset, WIDTHS, unbiased=unbiased))
    assert found == pytest.approx(expected, abs=1e-13 if offset == 0 else 1e-8)
    single = float(mmd((source + offset).float(), (target + offset).float(), WIDTHS))
    assert single == pytest.approx(slow_mmd(source, target, WIDTHS, False), abs=2e-3)


def test_mmd_has_the_gradient_of_its_formula() -> None:
    source, target = (x.requires_grad_() for x in samples())
    for unbiased in (False, True):
        assert torch.autograd.gradcheck(
            lambda s, t, u=unbiased: mmd(s, t, WIDTHS, unbiased=u), (source, target)
        )


def test_mmd_sees_what_means_do_not() -> None:
    """Same mean, other spread: the linear kernel is blind, the Gaussian is not."""
    source = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    target = 3 * source
    assert float(difference_of_means(source, target)) == 0
    assert float(mmd(source, target, 1.0)) == pytest.approx(
        slow_mmd(source, target, (1.0,), False), rel=1e-12
    )
    assert float(mmd(source, target, 1.0)) > 0.3


def test_mmd_of_a_sample_with_itself() -> None:
    source, _ = samples()
    assert float(mmd(source, source.flip(0), WIDTHS)) == pytest.approx(0, abs=1e-15)
    assert float(mmd(source, source, WIDTHS, unbiased=True)) < 0


def test_the_unbiased_mmd_is_unbiased() -> None:
    """Two samples of one distribution: its mean over draws is 0, the biased one's is not."""
    generator = torch.Generator().manual_seed(1)
    draws = torch.randn(400, 2, 6, 2, generator=generator, dtype=torch.float64)
    values = {
        kind: torch.stack([mmd(s, t, 1.0, unbiased=kind) for s, t in draws])
        for kind in (False, True)
    }
    error = float(values[True].std()) / 20
    assert abs(float(values[True].mean())) < 4 * error
    assert float(values[False].mean()) > 20 * error


def test_maps_are_flattened() -> None:
    source, target = samples(n=6, m=4)
    maps = [x.repeat(1, 4).reshape(len(x), 3, 2, 2) for x in (source, target)]
    flat = [x.flatten(1) for x in maps]
    assert torch.equal(mmd(*maps, 1.0), mmd(*flat, 1.0))
    assert torch.equal(difference_of_means(*maps), difference_of_means(*flat))


def test_median_bandwidths_are_the_median_distance_times_scales() -> None:
    source, target = samples()
    rows = source.tolist() + target.tolist()
    middle = median_low([math.sqrt(distance(x, y)) for x, y in combinations(rows, 2)])
    found = median_bandwidths(source.requires_grad_(), target, scales=(0.5, 1.0, 3.0))
    assert found.tolist() == pytest.approx([0.5 * middle, middle, 3 * middle], rel=1e-12)
    assert not found.requires_grad


def test_median_bandwidths_of_rows_that_are_alike() -> None:
    same = torch.zeros(4, 2)
    assert median_bandwidths(same, same, (1.0,)).tolist() == [1.0]
    one_apart = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    found = float(median_bandwidths(same, one_apart, (1.0,))[0])
    assert found == pytest.approx(5 * 5 / 15)  # 5 of the 15 pairs lie 5 apart


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mmd(torch.ones(3, 2), torch.ones(3, 2), []), "bandwidths above 0, got \\[\\]"),
        (lambda: mmd(torch.ones(3, 2), torch.ones(3, 2), [1, 0]), "above 0, got \\[1.0, 0.0\\]"),
        (lambda: mmd(torch.ones(1, 2), torch.ones(3, 2), 1, unbiased=True), "two samples or more"),
        (lambda: difference_of_means(torch.ones(3, 2), torch.ones(3, 4)), r"\(3, 2\) and \(3, 4\)"),
        (lambda: difference_of_means(torch.ones(3), torch.ones(3)), "must be \\(samples, …\\)"),
        (lambda: mmd(torch.ones(0, 2), torch.ones(3, 2), 1), "without samples"),
        (lambda: median_bandwidths(torch.ones(0, 2), torch.ones(1, 2)), "without samples"),
    ],
)
def test_mistakes_are_one_line(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        call()  # type: ignore[operator]
    assert "\n" not in str(caught.value)
