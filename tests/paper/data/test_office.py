"""Office-31 and Office-Caltech-10 from folders, and the labelled source of Saenko's protocol."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from revgrad.domains import from_arrays
from revgrad.errors import DataError, InputError
from revgrad.paper.data.office import (
    CLASSES10,
    CLASSES31,
    SAENKO,
    SAENKO_SEEDS,
    office31,
    office_caltech10,
    saenko_split,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path))
    return tmp_path


def write(folder: Path, names: tuple[str, ...], per_class: int = 2) -> None:
    """Images of one grey each: class number, then image number."""
    for label, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for i in range(per_class):
            image = Image.new("RGB", (30 + i, 25), (label, i, 0))
            image.save(folder / name / f"frame_{i + 1:04d}.png")


@pytest.mark.parametrize(
    "place",
    ["{}/images", "{}", "domain_adaptation_images/{}/images", "domain_adaptation_images/{}"],
)
@pytest.mark.parametrize("split", ["amazon", "dslr", "webcam"])
def test_office31(folder: Path, place: str, split: str) -> None:
    write(folder / "office31" / place.format(split), CLASSES31)
    domain = office31(split, size=24)
    assert domain.name == f"office31:{split}"
    assert domain.classes == CLASSES31
    assert domain.shape == (3, 24, 24)
    assert domain.labels is not None
    assert sorted(domain.labels) == np.repeat(np.arange(31), 2).tolist()
    inputs = domain.batch(np.arange(62)).inputs
    assert inputs[:, 0, 12, 12].tolist() == domain.labels.tolist()
    assert inputs[:, 1, 12, 12].bincount().tolist() == [31, 31]
    assert domain.files is not None
    assert min(domain.files) == "back_pack/frame_0001.png"


def test_default_size_and_classes_that_agree(folder: Path) -> None:
    write(folder / "office31" / "dslr" / "images", ("mug", "pen"))
    domain = office31("dslr")
    assert domain.shape == (3, 224, 224)
    assert domain.classes == CLASSES31
    assert domain.labels is not None
    assert set(domain.labels) == {CLASSES31.index("mug"), CLASSES31.index("pen")}
    write(folder / "office31" / "webcam" / "images", ("mug", "sofa"))
    with pytest.raises(InputError, match="sofa not among them"):
        office31("webcam")


def test_office_caltech10(folder: Path) -> None:
    ten = tuple(CLASSES10)
    base = folder / "office-caltech10"
    write(base / "amazon", ten)
    write(base / "dslr", tuple(sorted(("back_pack", *ten[1:]))))
    caltech = {
        "003.backpack": 0,
        "224.touring-bike": 1,
        "027.calculator": 2,
        "101.headphones": 3,
        "045.computer-keyboard": 4,
        "127.laptop-101": 5,
        "046.computer-monitor": 6,
        "047.computer-mouse": 7,
        "041.coffee-mug": 8,
        "238.video-projector": 9,
    }
    write(base / "caltech", tuple(caltech))
    for split, order in (("amazon", range(10)), ("dslr", range(10)), ("caltech", caltech.values())):
        domain = office_caltech10(split, size=24)
        assert domain.name == f"office-caltech10:{split}"
        assert domain.classes == ten
        assert domain.labels is not None
        written = domain.batch(np.arange(20)).inputs[:, 0, 12, 12]
        assert domain.labels.tolist() == [list(order)[i] for i in written], split
        assert sorted(set(domain.labels)) == list(range(10))


def test_missing(folder: Path) -> None:
    for function, name in ((office31, "office31"), (office_caltech10, "office-caltech10")):
        with pytest.raises(DataError) as caught:
            function("webcam")
        message = str(caught.value)
        for part in ("is missing: no images of webcam in", str(folder / name / "webcam")):
            assert part in message
        assert "REVGRAD_DATA" in message
        assert f"{name}/" in message
        assert "data fetch" not in message  # no program can
        with pytest.raises(InputError, match=f"no domain of {name} 'amazn'; did you mean 'amazon'"):
            function("amazn")
    (folder / "office31" / "amazon").mkdir(parents=True)
    with pytest.raises(DataError, match="is missing"):
        office31("amazon")
    write(folder / "office-caltech10" / "webcam", tuple(CLASSES10))
    (folder / "office-caltech10" / "webcam" / "mug" / "half.jpg").write_bytes(b"half")
    with pytest.raises(DataError, match=r"mug/half\.jpg \(not an image\)"):
        office_caltech10("webcam")


def test_saenko_split(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "revgrad")
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(4), [30, 25, 20, 45]))
    domain = from_arrays(np.arange(120.0)[:, None], labels, classes=list("abcd"))
    splits = [saenko_split(domain, SAENKO["amazon"], seed) for seed in SAENKO_SEEDS]
    for split in splits:
        assert split.labels is not None
        assert np.bincount(split.labels).tolist() == [20] * 4
        assert (split.labels == labels[split.rows]).all()
        assert len(set(split.rows)) == 80
        assert (np.diff(split.rows) > 0).all()
    assert len({split.fingerprint() for split in splits}) == 5
    assert splits[3].fingerprint() == saenko_split(domain, 20, 3).fingerprint()
    assert not caplog.records
    assert len(saenko_split(domain, 26, 0)) == 26 + 25 + 20 + 26
    assert "fewer than 26 images of b, c" in caplog.text
    # Every image is chosen by some seed: nothing is favoured.
    reached = {row for seed in range(60) for row in saenko_split(domain, 20, seed).rows}
    assert len(reached) == 120


def test_saenko_split_chooses_among_known_labels_only() -> None:
    labels = np.arange(40) % 2
    domain = from_arrays(np.arange(40.0)[:, None], labels).keeping_labels(20, seed=1)
    split = saenko_split(domain, 4, 0)
    assert split.labelled.all()
    assert split.labels is not None
    assert (split.labels == labels[split.rows]).all()
    with pytest.raises(InputError, match="has no class labels"):
        saenko_split(domain.without_labels(), 4, 0)
    with pytest.raises(InputError, match="has no class labels"):
        saenko_split(from_arrays(np.zeros((4, 1)), np.linspace(0, 1, 4)), 4, 0)
    with pytest.raises(InputError, match="at least one image per class, not 0"):
        saenko_split(domain, 0, 0)


def test_real_images(data_folder: Path) -> None:
    if not (data_folder / "office-caltech10").is_dir():
        pytest.skip(f"no office-caltech10 in {data_folder}")
    for split, count in {"amazon": 958, "webcam": 295, "dslr": 157}.items():
        domain = office_caltech10(split, size=32)
        assert len(domain) == count
        assert domain.class_count == 10
        source = saenko_split(domain, SAENKO[split], 0)
        assert len(source) == 10 * SAENKO[split]
