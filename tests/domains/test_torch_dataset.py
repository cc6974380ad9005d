"""Any map-style torch dataset as a domain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from revgrad.domains import from_dataset, pad_series
from revgrad.errors import InputError

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (9, 6, 5, 3), dtype=np.uint8)


class Made(Dataset[Any]):
    """Items made by a function of the index; counts how often it is asked."""

    def __init__(self, item: Callable[[int], Any], n: int = 9) -> None:
        self.item, self.n, self.asked = item, n, 0

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        assert 0 <= i < self.n
        self.asked += 1
        return self.item(i)


def chw(i: int) -> torch.Tensor:
    return torch.from_numpy(PIXELS[i]).permute(2, 0, 1)


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize(
    "item",
    [chw, lambda i: PIXELS[i], lambda i: Image.fromarray(PIXELS[i]), lambda i: chw(i).numpy()],
    ids=["tensor", "array HWC", "Pillow", "array CHW"],
)
def test_images_of_every_kind(item: Callable[[int], Any], cache: bool) -> None:
    domain = from_dataset(Made(lambda i: (item(i), i % 3)), cache=cache)
    batch = domain.batch([4, 0, 4])
    assert torch.equal(batch.inputs, torch.stack([chw(4), chw(0), chw(4)]))
    assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
    assert batch.labels is not None
    assert batch.labels.tolist() == [1, 0, 1]
    assert domain.is_images


def test_grey_pillow_images_and_matrices() -> None:
    grey = PIXELS[..., 0]
    for item in (lambda i: Image.fromarray(grey[i]), lambda i: torch.from_numpy(grey[i].copy())):
        taken = from_dataset(Made(item)).batch([7]).inputs
        assert taken.shape == (1, 1, 6, 5)
        assert (taken[0, 0].numpy() == grey[7]).all()


@pytest.mark.parametrize("cache", [False, True])
def test_nested_inputs(cache: bool) -> None:
    pair = from_dataset(
        Made(lambda i: ((torch.full((2,), i), np.full(3, i, np.float32)), i)), cache=cache
    )
    first, second = pair.batch([3, 8]).inputs
    assert first.tolist() == [[3, 3], [8, 8]]
    assert second.tolist() == [[3, 3, 3], [8, 8, 8]]
    named = from_dataset(Made(lambda i: {"a": torch.tensor([i]), "b": [i, i + 1]}), cache=cache)
    assert named.labels is None
    assert {key: value.tolist() for key, value in named.batch([5]).inputs.items()} == {
        "a": [[5]],
        "b": [[5, 6]],
    }


@pytest.mark.parametrize("label", [int, np.int64, torch.tensor, lambda i: np.array(i), bool])
def test_class_labels_of_every_kind(label: Callable[[int], Any]) -> None:
    domain = from_dataset(Made(lambda i: (torch.zeros(2), label(i % 2))))
    assert domain.is_classification
    assert domain.labels is not None
    assert domain.labels.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0]


def test_regression_targets_and_number_vectors() -> None:
    domain = from_dataset(Made(lambda i: ([i, 2.0 * i], torch.tensor([i / 2, 1.0]))))
    assert domain.labels is not None
    assert domain.labels.shape == (9, 2)
    assert domain.batch([3]).labels.tolist() == [[1.5, 1.0]]
    assert torch.equal(domain.batch([3]).inputs, torch.tensor([[3.0, 6.0]]))


def test_targets_are_read_from_the_items_not_beside_them() -> None:
    dataset = Made(lambda i: (torch.zeros(2), (i + 1) % 3))  # as a target transform would
    dataset.targets = [i % 3 for i in range(9)]
    labels = from_dataset(dataset).labels
    assert labels is not None
    assert labels.tolist() == [(i + 1) % 3 for i in range(9)]


def test_one_pass_and_then_none_with_a_cache() -> None:
    dataset = Made(lambda i: (torch.tensor([float(i)]), i), n=700)  # more than one block
    cached = from_dataset(dataset, cache=True)
    assert dataset.asked == 700
    assert cached.batch([699, 300]).inputs.tolist() == [[699.0], [300.0]]
    assert cached.labels is not None
    assert (cached.labels == np.arange(700)).all()
    assert dataset.asked == 700
    plain = from_dataset(dataset)
    assert dataset.asked == 1400
    plain.batch([1, 2])
    assert dataset.asked == 1402
    unlabelled = from_dataset(dataset, labels=False)
    assert dataset.asked == 1402
    assert unlabelled.labels is None
    assert unlabelled.batch([5]).inputs.tolist() == [[5.0]]


def test_labels_false_reads_pairs_of_tensors_as_inputs() -> None:
    domain = from_dataset(Made(lambda i: (torch.tensor([i]), torch.tensor([i, i]))), labels=False)
    one, other = domain.batch([2]).inputs
    assert (one.tolist(), other.tolist()) == ([[2]], [[2, 2]])


def test_getitems_is_used() -> None:
    class Many(Made):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            assert all(type(i) is int for i in indices)
            return [(torch.tensor([i]), 0) for i in indices]

    dataset = Many(lambda i: 1 / 0)
    assert from_dataset(dataset).batch([8, 8, 1]).inputs.tolist() == [[8], [8], [1]]
    subset = Subset(Made(lambda i: (torch.tensor([i]), i)), [5, 3])
    domain = from_dataset(subset)
    assert domain.labels is not None
    assert domain.labels.tolist() == [5, 3]


def test_tensor_datasets_need_no_python_per_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = torch.from_numpy(PIXELS).permute(0, 3, 1, 2).contiguous()
    dataset = TensorDataset(pixels, torch.arange(9))
    monkeypatch.setattr(TensorDataset, "__getitem__", lambda self, i: 1 / 0)
    domain = from_dataset(dataset)
    assert torch.equal(domain.batch([4, 2]).inputs, pixels[[4, 2]])
    assert domain.labels is not None
    assert domain.labels.tolist() == list(range(9))
    assert from_dataset(dataset, labels=False).labels is None
    assert from_dataset(TensorDataset(pixels)).labels is None


def test_classes_of_the_dataset() -> None:
    dataset = Made(lambda i: (torch.zeros(1), i % 2))
    dataset.classes = ["ant", "bee"]
    assert from_dataset(dataset).classes == ("ant", "bee")
    assert from_dataset(dataset, classes=["x", "y", "z"]).classes == ("x", "y", "z")
    dataset.classes = ["ant"]
    with pytest.raises(InputError, match="label 1 is out of range for 1 classes"):
        from_dataset(dataset)


def test_fingerprint_sees_contents_but_not_random_transforms() -> None:
    def fingerprint(item: Callable[[int], Any], n: int = 9) -> str:
        return from_dataset(Made(item, n)).store.fingerprint()

    plain = fingerprint(lambda i: torch.tensor([float(i)]))
    assert plain == fingerprint(lambda i: torch.tensor([float(i)]))
    assert plain != fingerprint(lambda i: torch.tensor([float(i + 1)]))
    assert plain != fingerprint(lambda i: torch.tensor([float(i)]), n=8)
    random = fingerprint(lambda i: torch.rand(3))
    assert random == fingerprint(lambda i: torch.rand(3))


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class Endless:
    def __getitem__(self, i: int) -> int:
        return i


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (Stream(), "can only be iterated over"),
        (iter([1]), "can only be iterated over"),
        (Endless(), "has no length"),
        (Made(lambda i: ("text", 0)), "part 0|type str"),
        (Made(lambda i: torch.zeros(i + 1)), r"items differ: item 0 is \(1,\)"),
        (Made(lambda i: torch.zeros(1 if i < 3 else 2)), "item 3 is"),
        (Made(lambda i: (torch.zeros(1), b"cat")), "label of item 0 is b'cat'"),
        (Made(lambda i: (torch.zeros(1), None)), "label of item 0 is None"),
        (Made(lambda i: (torch.zeros(1), -1)), "label -1 is out of range"),
        (Made(lambda i: (torch.zeros(1), 0, i)), "part 1 of item 0 is a single number"),
        (Made(lambda i: {"image": torch.zeros(1), "label": 1}), "'label' of item 0 is a single"),
        (Made(lambda i: torch.zeros(1) if i else (torch.zeros(1), 0)), "some items are"),
        (Made(lambda i: Image.fromarray(np.zeros((2, 2), np.float32))), "floating-point"),
        (Made(lambda i: np.array(["a"])), "not numbers"),
        (Made(lambda i: torch.zeros(1 + i // 256), n=300), r"some are \(1,\) .*, some \(2,\)"),
        (Made(lambda i: torch.tensor([i if i < 256 else 0.5]), n=300), "some torch|int64, some"),
    ],
)
@pytest.mark.parametrize("cache", [True])
def test_refused(dataset: Any, message: str, cache: bool) -> None:
    with pytest.raises(InputError, match=message) as caught:
        from_dataset(dataset, cache=cache)
    assert "\n" not in str(caught.value)


def test_empty_dataset_makes_an_empty_domain() -> None:
    assert len(from_dataset(Made(chw, n=0))) == 0


def test_items_that_draw_random_numbers_are_reproducible() -> None:
    """The global generators are seeded from (seed, step, rank) before a dataset is read."""
    import random

    from torch.utils.data import Dataset

    from revgrad.training import PairedBatches

    class Noisy(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            drawn = [random.random(), float(np.random.rand()), float(torch.rand(()))]
            return torch.tensor([float(index), *drawn]), index % 2

    domain = from_dataset(Noisy())
    batches = PairedBatches([domain], [4], seed=3)
    first = batches.batch(5).inputs
    batches.batch(6)
    random.seed(99)
    torch.manual_seed(99)
    assert torch.equal(batches.batch(5).inputs, first)
    assert not torch.equal(batches.batch(6).inputs[:, 1:], first[:, 1:])
    assert not torch.equal(PairedBatches([domain], [4], seed=4).batch(5).inputs[:, 1], first[:, 1])


def test_labels_by_name_and_groups() -> None:
    names = ["dog", "cat", "dog"]
    domain = from_dataset(
        Made(lambda i: (torch.zeros(1), names[i % 3]), n=300), groups=[0, 1] * 150
    )
    assert domain.classes == ("cat", "dog")
    assert domain.labels is not None
    assert domain.labels[:4].tolist() == [1, 0, 1, 1]
    assert len(domain.split(0.5)[1]) == 150


def padded(items: list[Any]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    values, mask = pad_series([one for one, _ in items], length=6)
    return {"values": values, "mask": mask}, torch.tensor([label for _, label in items])


@pytest.mark.parametrize("cache", [True, False])
def test_a_collate_function_of_one_s_own(cache: bool) -> None:
    made = Made(lambda i: (np.full((2, 1 + i % 6), i), i % 3), n=300)
    domain = from_dataset(made, collate=padded, cache=cache)
    assert domain.shape == {"values": (2, 6), "mask": (6,)}
    assert domain.labels is not None
    assert domain.labels.tolist() == [i % 3 for i in range(300)]
    inputs = domain.batch([299, 0]).inputs
    assert isinstance(inputs, dict)
    assert inputs["mask"].sum(1).tolist() == [6, 1]
    assert inputs["values"][0].unique().tolist() == [299]
    unlabelled = from_dataset(made, collate=padded, labels=False)
    assert unlabelled.labels is None
    assert unlabelled.shape == domain.shape


@pytest.mark.parametrize(
    ("collate", "message"),
    [
        (
            lambda items: pad_series([one for one, _ in items])[0],
            r"collate function: items differ: some are \(2, 1\) .*, some \(2, 6\)",
        ),
        (lambda items: [one for one, _ in items], "the collate function must give a tensor"),
        (lambda items: torch.zeros(1, 2), "of 256 samples for 256 items"),
        (lambda items: (torch.zeros(len(items), 2), [0]), "gave 1 labels for 256 items"),
    ],
)
def test_collate_functions_that_do_not_fit(collate: Any, message: str) -> None:
    made = Made(lambda i: (np.full((2, 1 + i % 6), i), i % 3), n=300)
    with pytest.raises(InputError, match=message):
        from_dataset(made, collate=collate)
