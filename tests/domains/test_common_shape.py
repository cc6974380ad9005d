"""Domains that meet in one network: channels, sizes, the order of the classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from revgrad.domains import from_arrays, match_colours, resized, with_classes
from revgrad.errors import InputError


def images(n: int = 12, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, 6, 5, channels), dtype=np.uint8)


def test_grey_and_colour_meet_as_colour(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "revgrad")
    grey, colour = from_arrays(images(channels=1), name="ink"), from_arrays(images(), name="paint")
    one, other = match_colours([grey, colour])
    assert other is colour
    assert one.shape == (3, 6, 5)
    before, after = grey.batch([2, 0]).inputs, one.batch([2, 0]).inputs
    for channel in range(3):
        assert torch.equal(after[:, channel], before[:, 0])
    (record,) = caplog.records
    assert "ink is grey and paint colour" in record.getMessage()
    caplog.clear()
    assert match_colours([grey, grey]) == [grey, grey]
    assert match_colours([colour, colour]) == [colour, colour]
    assert not caplog.records


def test_domains_that_can_not_share_a_batch() -> None:
    small, large = from_arrays(images(), name="small"), from_arrays(np.zeros((2, 7, 5), np.uint8))
    with pytest.raises(InputError, match=r"small are 6×5 .* 7×5: a size \(--size, size=\)"):
        match_colours([small, large])
    one, other = match_colours([small, resized(large, (6, 5))])
    assert one.shape == other.shape
    with pytest.raises(InputError, match="both must be of one kind"):
        match_colours([small, from_arrays(np.zeros((2, 3, 6, 5), np.float32))])
    with pytest.raises(InputError, match=r"shape \(4,\) and those of data \(5,\)"):
        match_colours([from_arrays(np.zeros((2, 4))), from_arrays(np.zeros((2, 5)))])
    empty = from_arrays(np.zeros((0, 6, 5, 3), np.uint8))
    assert match_colours([small, empty]) == [small, empty]


def test_classes_are_renumbered_by_name() -> None:
    labels = np.array([0, 1, 2, 1])
    domain = from_arrays(images(4), labels, classes=["cat", "dog", "ant"], name="test")
    same = with_classes(domain, ["ant", "bee", "cat", "dog"])
    assert same.classes == ("ant", "bee", "cat", "dog")
    assert same.labels is not None
    assert same.labels.tolist() == [2, 3, 0, 3]
    assert torch.equal(same.batch([1]).inputs, domain.batch([1]).inputs)
    with pytest.raises(InputError, match=r"test has labels .* the 2 of the source: cat, ant \("):
        with_classes(domain, ["bee", "dog"])
    dogs = with_classes(domain.subset([1, 3]), ["bee", "dog"])  # no sample is of a strange class
    assert dogs.labels is not None
    assert dogs.labels.tolist() == [1, 1]


def test_hidden_labels_stay_zero_when_classes_are_renumbered() -> None:
    domain = from_arrays(images(4), np.array([0, 1, 0, 1]), classes=["cat", "dog"])
    kept = with_classes(domain.keeping_labels(2), ["dog", "cat"])
    assert kept.labels is not None
    assert domain.labels is not None
    assert kept.labelled_count == 2
    assert (kept.labels == np.where(kept.labelled, 1 - domain.labels, 0)).all()
    assert kept.labels_kept


def test_domains_without_names_of_classes_pass() -> None:
    unnamed = from_arrays(images(3), [0, 1, 2])
    named = from_arrays(images(3), [0, 1, 2], classes=["a", "b", "c"])
    floats = from_arrays(images(3), [0.5, 1, 2], classes=["a", "b", "c"])
    assert with_classes(unnamed, ["c", "b", "a"]) is unnamed
    assert with_classes(named, None) is named
    assert with_classes(named, ["a", "b", "c"]) is named
    assert with_classes(floats, ["c", "b", "a"]) is floats
    assert with_classes(named.without_labels(), ["x"]).classes == ("x",)
