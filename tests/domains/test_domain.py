"""A Domain: rows, labels and their hiding; and the contract all stores and domains share."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat
from torch import Tensor
from torch.utils.data import Dataset

from revgrad.batch import Inputs, tensors_of
from revgrad.domains import (
    Domain,
    from_arrays,
    from_dataset,
    from_folder,
    from_npz,
    resized,
    with_classes,
)
from revgrad.domains.common_shape import with_numbers
from revgrad.domains.digits import digits, digits_m
from revgrad.domains.domain import drawn_indices, spaced_indices
from revgrad.errors import InputError
from revgrad.paper.data.gtsrb import gtsrb
from revgrad.paper.data.mnist import mnist
from revgrad.paper.data.office import office31, saenko_split
from revgrad.paper.data.svhn import svhn
from revgrad.paper.data.usps import usps
from revgrad.paper.synthetic.mnist_m import mnist_m


def images(n: int = 12, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 6, 5, channels), dtype=np.uint8)


def labelled(n: int = 12, classes: int = 3) -> Domain:
    return from_arrays(images(n), np.arange(n) % classes)


# -- the contract -----------------------------------------------------------------------------


class Items(Dataset[tuple[Tensor, int]]):
    def __init__(self, n: int = 9) -> None:
        self.x = torch.arange(n * 4, dtype=torch.float32).reshape(n, 4)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return self.x[i], i % 2


def write_images(folder: Path, n: int = 9) -> Path:
    for i, image in enumerate(images(n)):
        where = folder / f"class{i % 3}"
        where.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(where / f"{i}.png")
    return folder


def write_mnist(folder: Path, n: int = 9, prefix: str = "train") -> None:
    where = folder / "mnist"
    where.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
    numbers = (np.arange(n) % 10).astype(np.uint8)
    with gzip.open(where / f"{prefix}-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4I", 2051, n, 28, 28) + pixels.tobytes())
    with gzip.open(where / f"{prefix}-labels-idx1-ubyte.gz", "wb") as file:
        file.write(struct.pack(">2I", 2049, n) + numbers.tobytes())


def write_photographs(folder: Path, split: str = "train") -> None:
    where = folder / "bsds500" / split
    where.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(4)
    for i in range(2):
        pixels = rng.integers(0, 256, (30 + i, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(where / f"{i}.png")


def make_npz(path: Path) -> Domain:
    np.savez(path / "set.npz", images=images(), labels=np.arange(12) % 3)
    return from_npz(path / "set.npz")


def make_mnist(path: Path) -> Domain:
    write_mnist(path)
    return mnist("train")


def make_mnist_m(path: Path) -> Domain:
    write_mnist(path)
    write_photographs(path)
    return mnist_m("train")


def make_svhn(path: Path) -> Domain:
    (path / "svhn").mkdir(exist_ok=True)
    pixels = np.random.default_rng(5).integers(0, 256, (32, 32, 3, 9), dtype=np.uint8)
    savemat(path / "svhn" / "test_32x32.mat", {"X": pixels, "y": np.arange(1, 10)[:, None]})
    return svhn("test")


def make_svhn28(path: Path) -> Domain:
    (path / "svhn28").mkdir(exist_ok=True)
    pixels = np.random.default_rng(5).integers(0, 256, (9, 28, 28, 3), dtype=np.uint8)
    np.savez(path / "svhn28" / "train.npz", images=pixels, labels=np.arange(9))
    return svhn("train")


def make_usps(path: Path) -> Domain:
    (path / "usps").mkdir(exist_ok=True)
    pixels = np.random.default_rng(6).integers(0, 256, (9, 16, 16), dtype=np.uint8)
    np.savez(path / "usps" / "test.npz", images=pixels, labels=np.arange(9))
    return usps("test")


def make_gtsrb(path: Path) -> Domain:
    root = path / "gtsrb" / "GTSRB" / "Final_Test" / "Images"
    if not root.exists():
        root.mkdir(parents=True)
        lines = ["Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId"]
        for i, image in enumerate(np.random.default_rng(7).integers(0, 256, (9, 50, 45, 3))):
            Image.fromarray(image.astype(np.uint8)).save(root / f"{i}.ppm")
            lines.append(f"{i}.ppm;45;50;5;6;40;45;{i}")
        (root / "GT-final_test.csv").write_text("\n".join(lines))
    return gtsrb("official-test")


def make_office(path: Path) -> Domain:
    for i, image in enumerate(images(9)):
        where = path / "office31" / "webcam" / "images" / ("mug" if i % 2 else "pen")
        where.mkdir(parents=True, exist_ok=True)
        if not (where / f"{i}.png").exists():  # its time of change is part of the fingerprint
            Image.fromarray(image).save(where / f"{i}.png")
    return office31("webcam", size=10)


def memory_map(path: Path) -> Domain:
    np.save(path / "x.npy", images())
    return from_arrays(np.load(path / "x.npy", mmap_mode="r"), np.arange(12))


MAKERS: dict[str, Callable[[Path], Domain]] = {
    "images": lambda path: labelled(),
    "planar images": lambda path: from_arrays(images().transpose(0, 3, 1, 2)),
    "floats": lambda path: from_arrays(np.linspace(0, 1, 40).reshape(10, 4), np.linspace(0, 1, 10)),
    "tokens": lambda path: from_arrays(np.arange(40).reshape(10, 4)),
    "nested": lambda path: from_arrays(
        {"a": np.arange(20.0).reshape(10, 2), "b": torch.arange(10)}, np.arange(10) % 2
    ),
    "memory map": memory_map,
    "npz": make_npz,
    "folder": lambda path: from_folder(write_images(path / "images")),
    "dataset": lambda path: from_dataset(Items()),
    "cached dataset": lambda path: from_dataset(Items(), cache=True),
    "mnist": make_mnist,
    "mnist-m": make_mnist_m,
    "svhn": make_svhn,
    "svhn28": make_svhn28,
    "usps": make_usps,
    "gtsrb": make_gtsrb,
    "office31": make_office,
    "saenko split": lambda path: saenko_split(make_office(path), 3, seed=1),
    "digits": lambda path: digits("test"),
    "digits-m": lambda path: digits_m("test"),
    "grey as colour": lambda path: from_arrays(images(channels=1)).as_colour(),
    "subset": lambda path: labelled().subset([3, 1, 7, 0, 2]),
    "resized": lambda path: resized(labelled(), (4, 8)),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_contract(maker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What every domain keeps: order, repeats, types, shapes, the same again, one fingerprint."""
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path))
    domain = MAKERS[maker](tmp_path)
    n = len(domain)
    assert n >= 5
    where = np.array([4, 0, 0, n - 1, 2])
    together = domain.batch(where)
    alone = [domain.batch([i]) for i in where]

    def parts(inputs: Inputs) -> list[Tensor]:
        return tensors_of(inputs)

    for k, tensor in enumerate(parts(together.inputs)):
        assert len(tensor) == len(where)
        slow = torch.cat([parts(one.inputs)[k] for one in alone])
        assert tensor.dtype == slow.dtype
        assert torch.equal(tensor, slow)
        assert torch.equal(tensor[1], tensor[2])
        assert not torch.equal(tensor[0], tensor[1])
        if domain.is_images:
            assert tensor.shape[1] in (1, 3)
            assert tensor.is_contiguous(memory_format=torch.channels_last)
    if domain.labels is None:
        assert together.labels is None
    else:
        assert together.labels is not None
        assert together.labels.tolist() == [domain.labels[i] for i in where]
    again = domain.batch(where)
    for one, other in zip(parts(together.inputs), parts(again.inputs), strict=True):
        assert torch.equal(one, other)
        one.zero_()  # a batch is the caller's own: writing to it must not reach the store
    for one, other in zip(parts(domain.batch(where).inputs), parts(again.inputs), strict=True):
        assert torch.equal(one, other)
    assert domain.fingerprint() == domain.fingerprint()
    assert domain.fingerprint() == MAKERS[maker](tmp_path).fingerprint()
    assert domain.fingerprint() != domain.subset(np.arange(n)[::-1]).fingerprint()
    if not isinstance(domain.shape, dict):
        assert domain.shape == tuple(parts(again.inputs)[0].shape[1:])


# -- the domain itself ------------------------------------------------------------------------


def test_without_labels_drops_the_values() -> None:
    domain = labelled().without_labels()
    assert domain.labels is None
    assert domain.labelled_count == 0
    assert domain.batch([0, 1]).labels is None
    held = [value for value in vars(domain).values() if isinstance(value, np.ndarray)]
    assert len(held) == 1  # the rows: nothing that could be the labels is left
    assert held[0] is domain.rows


def test_keeping_labels_drops_the_other_values() -> None:
    domain = from_arrays(images(), np.full(12, 2))  # a hidden 2 would show: hidden labels are 0
    kept = domain.keeping_labels(5, seed=1)
    assert kept.labelled_count == 5
    assert not domain.labels_kept
    assert kept.labels_kept
    for part in (kept.subset([3]), *kept.split(), kept.renamed("b"), resized(kept, 4)):
        assert part.labels_kept
    assert not kept.without_labels().labels_kept
    assert not kept.keeping_labels(0).labels_kept
    assert kept.labels is not None
    assert (kept.labels == np.where(kept.labelled, 2, 0)).all()
    rows = kept.batch(np.arange(12))
    assert rows.labelled is not None
    assert rows.labelled.tolist() == kept.labelled.tolist()
    assert (kept.labelled == domain.keeping_labels(5, seed=1).labelled).all()
    assert (kept.labelled != domain.keeping_labels(5, seed=2).labelled).any()
    assert domain.keeping_labels(0).labels is None
    assert domain.keeping_labels(12).labelled.all()
    fewer = kept.keeping_labels(2)
    assert not (fewer.labelled & ~kept.labelled).any()
    with pytest.raises(InputError, match="has 5 labels; can't keep 6"):
        kept.keeping_labels(6)


def test_split_parts_are_disjoint_whole_and_repeatable() -> None:
    domain = labelled(50)
    rest, held = domain.split(0.2, seed=3)
    assert (len(rest), len(held)) == (40, 10)
    assert sorted([*rest.rows, *held.rows]) == list(range(50))
    assert (held.rows == domain.split(0.2, seed=3)[1].rows).all()
    assert (held.rows != domain.split(0.2, seed=4)[1].rows).any()
    assert held.labels is not None
    assert domain.labels is not None
    assert (held.labels == domain.labels[held.rows]).all()
    assert len(domain.split()[1]) == 5  # a tenth unless told
    one, other = labelled(2).split(0.01)
    assert len(one) == len(other) == 1
    for fraction in (0, 1, -0.5):
        with pytest.raises(InputError, match="between 0 and 1"):
            domain.split(fraction)
    with pytest.raises(InputError, match="too few to split"):
        labelled(1, 1).split()


def test_subset_of_subset() -> None:
    domain = from_arrays(np.arange(20.0).reshape(10, 2), np.arange(10))
    second = domain.subset([9, 7, 5, 3]).subset([2, 0])
    assert second.rows.tolist() == [5, 9]
    batch = second.batch([0, 1, 0])
    assert batch.labels is not None
    assert batch.labels.tolist() == [5, 9, 5]
    assert torch.equal(batch.inputs, torch.tensor([[10.0, 11], [18, 19], [10, 11]]).double())


def test_balanced_repeats_rarer_classes() -> None:
    labels = np.array([2, 0, 2, 2, 1, 2, 0, 2])
    domain = from_arrays(np.arange(8.0)[:, None], labels)
    balanced = domain.balanced()
    assert balanced.labels is not None
    assert np.bincount(balanced.labels).tolist() == [5, 5, 5]
    assert (balanced.labels == labels[balanced.rows]).all()
    assert np.bincount(balanced.rows).tolist() == [1, 3, 1, 1, 5, 1, 2, 1]
    for unfit in (domain.without_labels(), domain.keeping_labels(3), labelled_by_floats()):
        with pytest.raises(InputError, match="needs a class label for every sample"):
            unfit.balanced()


def labelled_by_floats() -> Domain:
    return from_arrays(np.zeros((3, 1)), np.array([0.5, -1.0, 2.0]))


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        ([0, 1, 3], ["a", "b", "c"], "label 3 is out of range for 3 classes"),
        ([0, -1, 1], None, "label -1 is out of range"),
        ([0, 1], None, "3 inputs but 2 labels"),
        (["a", "b", "c"], ["a", "b"], r"not among the given 2: c \(classes=a, b\)"),
        (["a", 1, "b"], None, r"several kinds \(int, str\): all text or all numbers"),
        (["a", None, "b"], None, "1 of 3 labels are missing, the first in sample 1: leave"),
        ([["a"], ["b"], ["c"]], None, "names of classes must be one a sample"),
        ([1j, 2j, 3j], None, "integers or floats, not complex128"),
        ([0.5, np.nan, 1], None, "finite"),
        (7, None, "one a sample"),
        ([[1], [2, 3], [4]], None, "one vector a sample"),
    ],
)
def test_bad_labels(labels: object, classes: list[str] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_arrays(images(3), labels, classes=classes)


@pytest.mark.parametrize(
    "labels",
    [
        ["dog", "ant", "dog", "bee"],
        np.array(["dog", "ant", "dog", "bee"]),
        np.array([b"dog", b"ant", b"dog", b"bee"]),
        np.array(["dog", "ant", "dog", "bee"], dtype=object),
    ],
    ids=["list", "text", "bytes", "objects"],
)
def test_text_is_class_names_in_sorted_order(labels: object) -> None:
    domain = from_arrays(images(4), labels)
    assert domain.classes == ("ant", "bee", "dog")
    assert domain.labels is not None
    assert domain.labels.tolist() == [2, 0, 2, 1]
    turned = from_arrays(images(4), labels, classes=["dog", "bee", "cat", "ant"])
    assert turned.labels is not None
    assert turned.labels.tolist() == [0, 3, 0, 1]
    assert with_classes(turned, domain.classes).labels.tolist() == [2, 0, 2, 1]  # type: ignore[union-attr]


def test_truth_values_are_two_classes() -> None:
    domain = from_arrays(images(3), [True, False, True])
    assert domain.classes == ("False", "True")
    assert domain.batch([0, 1, 2]).labels.tolist() == [1, 0, 1]  # type: ignore[union-attr]
    assert from_arrays(images(2), [True, True]).class_count == 2
    named = from_arrays(images(3), [True, False, True], classes=["sick", "well"])
    assert named.classes == ("sick", "well")


def test_names_that_are_numbers_are_matched_with_a_source_of_numbers() -> None:
    names = [str(number) for number in range(12)]
    domain = from_arrays(images(12), names)  # sorted as text: 0, 1, 10, 11, 2, …
    assert with_numbers(domain, 12).labels.tolist() == list(range(12))  # type: ignore[union-attr]
    with pytest.raises(InputError, match="has a class 11; the source's are 0 to 10"):
        with_numbers(domain, 11)
    with pytest.raises(InputError, match="give the source its names too"):
        with_numbers(from_arrays(images(2), ["cat", "dog"]), 2)


def test_groups_are_held_out_whole() -> None:
    people = np.repeat([f"person {i}" for i in range(9)], np.arange(2, 11))  # 54 samples
    domain = from_arrays(np.arange(54.0)[:, None], np.arange(54) % 3, groups=people)
    everyone = set()
    for seed in range(20):
        rest, held = domain.split(0.2, seed=seed)
        assert sorted([*rest.rows, *held.rows]) == list(range(54))
        there, here = set(people[rest.rows]), set(people[held.rows])
        assert there
        assert here
        assert not there & here
        # no nearer share than these groups' can be had from one group fewer or more
        assert abs(len(held) - 0.2 * 54) <= 10 / 2
        everyone |= here
        assert (held.rows == domain.split(0.2, seed=seed)[1].rows).all()
    assert len(everyone) == 9
    again, _ = rest.split(0.5)  # groups stay with subsets
    assert again.groups is not None
    assert not set(again.groups) & set(rest.groups[np.isin(rest.rows, again.rows, invert=True)])  # type: ignore[index]
    assert [
        len(part) for part in from_arrays(np.zeros((9, 1)), groups=[7] * 8 + [3]).split(0.9)
    ] in (
        [8, 1],
        [1, 8],
    )


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1, 2], "3 inputs but 2 groups"),
        ([[1], [2], [3]], r"one a sample, \(n,\), not of shape \(3, 1\)"),
        (["a", None, "b"], "the group of sample 1 is missing"),
        ([4, 4, 4], "all samples are of one group, so none can be held out"),
    ],
)
def test_bad_groups(groups: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_arrays(images(3), groups=groups).split()


def test_minus_one_is_a_fine_regression_target() -> None:
    domain = from_arrays(images(3), np.array([-1.0, 0.5, 2]))
    assert not domain.is_classification
    assert domain.class_count is None
    assert domain.batch([0]).labels == torch.tensor([-1.0])


def test_fingerprint_changes_with_inputs_rows_and_labels() -> None:
    base = labelled()
    other_pixels = images()
    other_pixels[7, 3, 2, 1] ^= 1
    variants = [
        base,
        base.without_labels(),
        base.keeping_labels(3),
        base.keeping_labels(3, seed=1),
        base.subset(range(11)),
        from_arrays(other_pixels, np.arange(12) % 3),
        from_arrays(images(), np.arange(12) % 2),
    ]
    assert len({domain.fingerprint() for domain in variants}) == len(variants)
    zeros = from_arrays(images(), np.zeros(12, int))  # which zeros are labels is seen too
    kept = [zeros, zeros.keeping_labels(3), zeros.keeping_labels(3, seed=1)]
    assert len({domain.fingerprint() for domain in kept}) == 3


def test_augmentation_runs_with_a_generator_only() -> None:
    def add_noise(inputs: Inputs, generator: torch.Generator) -> Inputs:
        assert isinstance(inputs, Tensor)
        return inputs + torch.rand(inputs.shape, generator=generator)

    plain = from_arrays(np.ones((4, 3), dtype=np.float32))
    domain = plain.augmented(add_noise)
    assert torch.equal(domain.batch([0, 1]).inputs, plain.batch([0, 1]).inputs)
    one, same = (domain.batch([0, 1], torch.Generator().manual_seed(5)).inputs for _ in range(2))
    assert torch.equal(one, same)
    assert not torch.equal(one, plain.batch([0, 1]).inputs)
    raw = domain.batch([0, 1], torch.Generator(), augment=False).inputs
    assert torch.equal(raw, plain.batch([0, 1]).inputs)


def test_a_sample_is_evenly_spaced() -> None:
    domain = from_arrays(np.zeros((10, 2), np.float32), np.arange(10))
    few = domain.sample(4)
    np.testing.assert_array_equal(few.rows, [0, 3, 6, 9])
    assert few.name == domain.name
    assert few.labels is not None
    assert domain.labels is not None
    np.testing.assert_array_equal(few.labels, domain.labels[[0, 3, 6, 9]])
    assert domain.sample(10) is domain
    assert spaced_indices(3, 5).tolist() == [0, 1, 2]
    assert len(spaced_indices(0, 5)) == 0


def test_drawn_indices_are_the_same_each_time() -> None:
    """Runs that were recorded earlier are of these samples."""
    assert drawn_indices(20, 6).tolist() == [2, 4, 6, 13, 16, 19]
    assert drawn_indices(4, 9).tolist() == [0, 1, 2, 3]
    assert len(drawn_indices(0, 9)) == 0
