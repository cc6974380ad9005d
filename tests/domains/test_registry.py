"""Domains of what people have: names, paths, arrays, datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

from revgrad.domains import Domain, as_domain, from_arrays, match_colours, open_domain
from revgrad.errors import InputError, UnknownNameError

VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3)
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)


def write_images(folder: Path) -> Path:
    for i, image in enumerate(PIXELS):
        where = folder / f"class{i % 2}"
        where.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(where / f"{i}.png")
    return folder


def inputs(domain: Domain) -> Any:
    return domain.batch(range(len(domain))).inputs


def test_open_domain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(open_domain("digits")) == 4000
    assert len(open_domain("digits:test")) == 1000
    assert open_domain("digits:test", size=20, corrupt="skip").shape == (1, 20, 20)
    np.savez("own.npz", x=PIXELS)
    assert open_domain("own.npz").shape == (3, 6, 5)
    assert open_domain("own.npz", size=8).shape == (3, 8, 8)
    write_images(tmp_path / "digits")
    assert open_domain("./digits", size=4, fit="pad").shape == (3, 4, 4)
    for text, message in {
        "digit": "no domain 'digit'; did you mean 'digits'?.*image folder or an .npz file would",
        "minst:test": "did you mean 'mnist'",
        "./nothing": "no file or folder ./nothing",
        "nothing.npz": "no file nothing.npz",
        "digits:trian": "no split of digits 'trian'; did you mean 'train'",
    }.items():
        with pytest.raises(InputError, match=message):
            open_domain(text)
    with pytest.raises(UnknownNameError):
        open_domain("digit")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError, match="neither a folder of images nor"):
        open_domain("notes.txt")


# -- from whatever holds the data -------------------------------------------------------------


class Frame:
    """As a data frame: NumPy can read it."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return VECTORS


class Items:
    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> torch.Tensor:
        if i > 3:
            raise IndexError
        return torch.from_numpy(VECTORS[i])


@pytest.mark.parametrize(
    "given",
    [
        VECTORS,
        torch.from_numpy(VECTORS),
        VECTORS.tolist(),
        list(VECTORS),
        list(torch.from_numpy(VECTORS)),
        Frame(),
        TensorDataset(torch.from_numpy(VECTORS)),
        DataLoader(TensorDataset(torch.from_numpy(VECTORS)), batch_size=2),
        Items(),
        (VECTORS, None),
        from_arrays(VECTORS),
    ],
    ids=[
        "array",
        "tensor",
        "list",
        "arrays",
        "tensors",
        "frame",
        "dataset",
        "loader",
        "items",
        "no-labels",
        "domain",
    ],
)
def test_inputs_alone(given: Any) -> None:
    domain = as_domain(given, "target")
    assert domain.name == "target"
    assert domain.labels is None
    assert torch.equal(inputs(domain), torch.from_numpy(VECTORS))


LABELS = np.array([0, 1, 1, 0])


@pytest.mark.parametrize(
    "given",
    [
        (VECTORS, LABELS),
        [VECTORS, LABELS],
        (torch.from_numpy(VECTORS), torch.from_numpy(LABELS)),
        (VECTORS.tolist(), LABELS.tolist()),
        [VECTORS.tolist(), LABELS.tolist()],
        TensorDataset(torch.from_numpy(VECTORS), torch.from_numpy(LABELS)),
        [(x, y) for x, y in zip(VECTORS, LABELS, strict=True)],
        from_arrays(VECTORS, LABELS),
    ],
)
def test_inputs_and_labels(given: Any) -> None:
    domain = as_domain(given, "source")
    assert domain.name == "source"
    assert domain.is_classification
    assert domain.labels is not None
    assert domain.labels.tolist() == LABELS.tolist()
    assert torch.equal(inputs(domain), torch.from_numpy(VECTORS))


def test_regression_targets_beside_inputs() -> None:
    domain = as_domain((VECTORS, VECTORS[:, :2] / 2), "source")
    assert domain.labels is not None
    assert domain.labels.shape == (4, 2)
    assert not domain.is_classification


def test_a_list_of_two_equal_shapes_is_two_inputs() -> None:
    domain = as_domain([[1.0, 2.0], [3.0, 4.0]], "source")
    assert domain.labels is None
    assert inputs(domain).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert inputs(domain).dtype == torch.float32
    assert inputs(as_domain([[1, 2], [3, 4]], "source")).dtype == torch.int64


def test_pictures_in_a_list() -> None:
    pictures = [Image.fromarray(one) for one in PIXELS]
    assert as_domain(pictures, "source").is_images
    paired = as_domain([(one, i) for i, one in enumerate(pictures)], "source")
    assert paired.labels is not None
    assert paired.labels.tolist() == [0, 1, 2, 3]


def test_inputs_of_several_parts() -> None:
    parts = {"a": VECTORS, "b": LABELS.tolist()}
    assert as_domain(parts, "source").shape == {"a": (3,), "b": ()}
    for given in (parts, (VECTORS, VECTORS)):
        domain = as_domain((given, LABELS), "source")
        assert domain.labels is not None
        assert len(inputs(domain)) == 2


def test_names_that_were_given_stay(tmp_path: Path) -> None:
    named = from_arrays(VECTORS, name="mine")
    assert as_domain(named, "source") is named
    folder = write_images(tmp_path / "photos")
    assert as_domain(str(folder), "source", size=4).name == "photos"
    one, other = as_domain(VECTORS, "source"), as_domain(VECTORS[:, :2], "target")
    with pytest.raises(InputError, match=r"inputs of source .* and those of target \(2,\)"):
        match_colours([one, other])


def test_a_path_is_never_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "digits")
    assert len(as_domain("digits:test", "source")) == 1000
    assert len(as_domain(Path("digits"), "source", size=4)) == 4
    assert len(as_domain(tmp_path / "digits", "source")) == 4
    with pytest.raises(InputError, match=r"no file or folder \./mnist"):
        as_domain(Path("mnist"), "source")


def test_images_of_arrays_are_brought_to_size() -> None:
    assert as_domain((PIXELS, LABELS), "source", size=4, fit="pad").shape == (3, 4, 4)
    assert as_domain(VECTORS, "source", size=4).shape == (3,)
    domain = from_arrays(PIXELS, name="mine")
    assert as_domain(domain, "source", size=4) is domain


def test_a_note_says_that_the_loader_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "revgrad")
    as_domain(DataLoader(TensorDataset(torch.from_numpy(VECTORS))), "target")
    (record,) = caplog.records
    assert record.getMessage().startswith("target: of the DataLoader only its dataset is used")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "^source: data of type NoneType can't be read: an array, .* would do"),
        (7, "type int"),
        ({1, 2}, "type set"),
        (b"photos", "type bytes"),
        (iter([1.0]), "type list_iterator"),
        ((object(), LABELS), "type object"),
        ([[1.0, 2.0], [3.0], [4.0]], "a list whose members differ in shape"),
        ([torch.zeros(2), torch.zeros(3), torch.zeros(1)], "a list whose members differ"),
        ((VECTORS, LABELS, LABELS), "a tuple of 3 is neither .* a dict of arrays"),
        ((VECTORS, LABELS[:3]), "4 inputs but 3 labels"),
        ((PIXELS, PIXELS), r"labels of shape \(4, 6, 5, 3\) are neither .* from_arrays\(\(X1, X2"),
        ((VECTORS, ["cat", "dog", "cat", 1]), r"several kinds \(int, str\)"),
        (["a.png", "b.png"], r"a list of image files \(a.png, …\) is not read: give the path of"),
    ],
)
def test_what_can_not_be_read_is_one_line(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        as_domain(given, "source")
    assert "\n" not in str(caught.value)
