"""Series: padding and mask, windows and groups, standardisation by the training part alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import revgrad
from revgrad import adapt, from_series, load
from revgrad.domains import encoder_of, pad_series
from revgrad.errors import InputError
from tiny import seeded

RANDOM = np.random.default_rng(0)
SERIES = [RANDOM.normal(i, 2, (3, 5 + i)).astype(np.float32) for i in range(8)]
LABELS = ["run", "walk"] * 4


def slow(series: list[np.ndarray], length: int, rows: Any = None) -> np.ndarray:
    """The inputs, one number at a time in float64."""
    chosen = range(len(series)) if rows is None else rows
    moments = np.concatenate([series[i].astype(np.float64) for i in chosen], axis=1)
    mean, deviation = moments.mean(1), moments.std(1)
    made = np.zeros((len(series), 3, length))
    for i, one in enumerate(series):
        for t in range(min(one.shape[1], length)):
            made[i, :, t] = (one[:, t] - mean) / deviation
    return made


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lower = nn.Conv1d(3, 4, 3, padding=1)
        self.mean = nn.Identity()
        self.upper = nn.Linear(4, 2)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        found = self.lower(values).relu() * mask[:, None]
        return self.upper(self.mean(found.sum(2) / mask.sum(1, keepdim=True)))


class Plain(Masked):
    def forward(self, values: Tensor) -> Tensor:  # type: ignore[override]
        return self.upper(self.mean(self.lower(values).relu().mean(2)))


def trained(network: Any, source: Any, target: Any, **changes: Any) -> revgrad.Adapted:
    short = {
        "recipe": "paper",
        "layer": "mean",
        "steps": 4,
        "batch_size": 4,
        "domain_classifier": (4,),
    }
    return adapt(seeded(network), source, target, progress=False, **{**short, **changes})


def test_unequal_lengths_are_padded_and_masked() -> None:
    domain = from_series(SERIES, LABELS)
    assert domain.shape == (3, 12)
    assert domain.classes == ("run", "walk")
    everything = np.arange(8)
    np.testing.assert_allclose(domain.batch(everything).inputs, slow(SERIES, 12), atol=1e-6)
    masked = from_series(SERIES, LABELS, mask=True)
    assert masked.shape == {"values": (3, 12), "mask": (12,)}
    inputs = masked.batch([7, 0]).inputs
    assert isinstance(inputs, dict)
    assert torch.equal(inputs["values"], domain.batch([7, 0]).inputs)
    assert inputs["mask"].sum(1).tolist() == [12, 5]
    example = encoder_of(masked).example()  # type: ignore[union-attr]
    assert {k: (one.shape, one.dtype) for k, one in example.items()} == {
        k: (one.shape, one.dtype) for k, one in inputs.items()
    }
    assert inputs["mask"][1].tolist() == [True] * 5 + [False] * 7
    short = from_series(SERIES, LABELS, length=4)
    np.testing.assert_allclose(
        short.batch(everything).inputs, slow(SERIES, 12)[:, :, :4], atol=1e-6
    )
    assert from_series([one[0] for one in SERIES]).shape == (1, 12)  # (time,): one channel
    assert from_series(np.stack([one[:, :5] for one in SERIES])).shape == (3, 5)


def test_our_collate_function() -> None:
    values, mask = pad_series(SERIES[:3], length=6)
    assert values.shape == (3, 3, 6)
    assert mask.sum(1).tolist() == [5, 6, 6]
    assert torch.equal(values[0, :, :5], torch.from_numpy(SERIES[0]))
    assert not values[0, :, 5].any()


def test_windows_of_records_and_a_split_that_never_shares_one() -> None:
    records = [np.arange(100 * i, 100 * i + length)[None] for i, length in enumerate((10, 3, 7, 9))]
    domain = from_series(records, [0, 1, 0, 1], windows=(4, 3))
    # of ten moments 0-3, 3-6, 6-9; of three none; of seven 0-3, 3-6; of nine 0-3, 3-6
    found = [0, 3, 6, 200, 203, 300, 303]
    encoder: Any = encoder_of(domain)
    inputs = domain.batch(np.arange(len(domain))).inputs.numpy()  # type: ignore[union-attr]
    raw = inputs * encoder.scales[0] + encoder.means[0]
    np.testing.assert_allclose(raw[:, 0], np.add.outer(found, range(4)), atol=1e-3)
    assert domain.labels is not None
    assert domain.labels.tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert domain.groups is not None
    assert domain.groups.tolist() == [0, 0, 0, 2, 2, 3, 3]
    windows = np.add.outer(found, range(4)).ravel()  # overlapping moments count twice
    assert (encoder.means[0], encoder.scales[0]) == pytest.approx((windows.mean(), windows.std()))
    for seed in range(5):
        rest, held = domain.split(0.3, seed)
        assert not set(rest.groups) & set(held.groups)  # type: ignore[arg-type]


def test_labels_for_each_moment() -> None:
    record = [np.arange(8.0), np.arange(6.0)]
    names = [["a", "a", "a", "b", "b", "b", "b", "b"], ["b", "b", "a", "a", "a", "a"]]
    domain = from_series(record, names, windows=(4, 2))
    assert domain.labels is not None
    assert domain.labels.tolist() == [0, 1, 1, 0, 0]  # a tie goes to the first
    numbers = from_series(record, [np.arange(8.0), np.arange(6.0)], windows=(4, 2))
    assert numbers.labels is not None
    assert numbers.labels.tolist() == [1.5, 3.5, 5.5, 1.5, 3.5]


@pytest.mark.parametrize(("network", "mask"), [(Masked, True), (Plain, False)])
def test_from_training_to_a_loaded_run(network: Any, mask: bool, tmp_path: Path) -> None:
    other = [one + 1 for one in SERIES[:5]]
    source = from_series(SERIES, LABELS, mask=mask)
    adapted = trained(network, source, other, held_out=0.3, run=tmp_path / "run")
    rest, _ = source.split(0.3)
    encoder: Any = adapted.encoder
    chosen = np.concatenate([SERIES[i] for i in rest.rows], axis=1).astype(np.float64)
    np.testing.assert_allclose(encoder.means, chosen.mean(1))
    np.testing.assert_allclose(encoder.scales, chosen.std(1))
    loaded = load(tmp_path / "run", network())
    assert loaded.encoder == encoder
    assert torch.equal(loaded.outputs(other), adapted.outputs(other))
    assert adapted.evaluate(SERIES, LABELS).count == 8


def test_longer_ones_of_a_target_are_cut_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    longer = [RANDOM.normal(size=(3, 40)) for _ in range(3)]
    trained(Plain, from_series(SERIES, LABELS), from_series(longer, name="b"))
    assert (
        "b: 3 of 3 series are longer than the 12 moments that the source's are brought to, and cut"
        in caplog.text
    )
    caplog.clear()  # who asks for less of the source has asked for it
    trained(Plain, from_series(SERIES, LABELS, length=9), from_series(longer, name="b"))
    assert "and cut" not in caplog.text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: from_series([]), "no series"),
        (lambda: from_series(np.zeros((4, 5))), r"is \(n, channels, time\), not \(4, 5\)"),
        (lambda: from_series([np.zeros((2, 3, 4))]), r"series 0 has shape \(2, 3, 4\)"),
        (lambda: from_series([np.zeros((2, 9)), np.zeros((9, 2))]), "then transpose it"),
        (
            lambda: from_series([np.array([1, np.nan])]),
            "series 0 holds numbers that are not finite",
        ),
        (lambda: from_series([["a", "b"]]), "series 0 is not of numbers"),
        (lambda: from_series(SERIES, [0, 1]), "8 series but 2 labels"),
        (lambda: from_series(SERIES, groups=[0, 1]), "8 series but 2 groups"),
        (lambda: from_series(SERIES, windows=(99, 1)), "as long as a window of 99"),
        (lambda: from_series(SERIES, windows=(0, 1)), r"\(length, stride\), both 1 or more"),
        (lambda: from_series(SERIES, windows=3), "windows are"),  # type: ignore[arg-type]
        (lambda: from_series(SERIES, length=0), "a length is 1 or more, not 0"),
        (
            lambda: from_series(SERIES[:2], [[0] * 5, [0] * 9], windows=(2, 1)),
            "series 1 has 6 moments but 9 labels",
        ),
        (
            lambda: trained(Plain, from_series(SERIES, LABELS), [np.zeros((2, 9))] * 4),
            "target has 2 channels and the source 3",
        ),
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
