"""Generated signs: the same bytes again, whatever makes them; conditions that do what they say."""

from __future__ import annotations

import json
import logging
from dataclasses import fields, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from test_sign_drawing import write_pictures

from cached import cache_entries
from revgrad.batch import tensors_of
from revgrad.domains.domain import Domain
from revgrad.errors import DataError, InputError, UnknownNameError
from revgrad.paper.data.gtsrb_classes import SIGNS
from revgrad.paper.synthetic import generator as generating
from revgrad.paper.synthetic.signs import photographing
from revgrad.paper.synthetic.signs.drawing import Style, drawings
from revgrad.paper.synthetic.signs.frequency import (
    COMMON_SIGNS,
    OCCASIONAL_SIGNS,
    ON_ROADS,
    in_turn,
)
from revgrad.paper.synthetic.signs.photographing import photograph, scenes
from revgrad.paper.synthetic.syn_signs import REALISTIC, SynSigns, syn_signs

#: The module, which the function of its name hides in the package.
module = import_module("revgrad.paper.synthetic.syn_signs")

#: A camera without faults in front of an upright, full sign: what each test changes one thing of.
PLAIN = SynSigns(
    often=(1,) * 43,
    fill=(1.0, 1.0),
    aspect=0.0,
    offset=0.0,
    turn=0.0,
    perspective=0.0,
    surround=(1.0, 1.0),
    light=(1.0, 1.0),
    cast=0.0,
    saturation=(1.0, 1.0),
    haze=(0.0, 0.0),
    gamma=(1.0, 1.0),
    shadow=(0.0, 0.0),
    motion=(0.0, 0.0),
    defocus=(0.001, 0.001),
    resolution=(80.0, 80.0),
    mosaic=(0.0, 0.0),
    sharpening=(0.0, 0.0),
    noise=(0.0, 0.0),
)


@cache
def plain_scenes() -> photographing.Scenes:
    """One style before an even grey."""
    return scenes(drawings(96, Style())[None], [np.full((70, 90, 3), 100, dtype=np.uint8)])


def taken(count: int = 43, first: int = 0, **changes: Any) -> np.ndarray:
    """Signs taken by the plain camera with some changes, as float."""
    indices = np.arange(first, first + count)
    return photograph(indices, replace(PLAIN, **changes), plain_scenes())[0].astype(np.float64)


def pixels(domain: Domain) -> np.ndarray:
    batch = tensors_of(domain.batch(np.arange(len(domain))).inputs)[0]
    return batch.permute(0, 2, 3, 1).numpy()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a few photographs, and a cache folder of its own."""
    monkeypatch.setenv("REVGRAD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        folder = tmp_path / "data" / "bsds500" / split
        folder.mkdir(parents=True)
        for number in range(3):
            small = rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)
            size = (130 + 70 * number, 100)
            Image.fromarray(small).resize(size).save(folder / f"{number}.png")
    return tmp_path / "data"


QUICK = SynSigns(styles=1, often=(1,) * 43)


# -- the domain -------------------------------------------------------------------------------


def test_images_labels_and_classes(data: Path) -> None:
    domain = syn_signs("test", count=43 * 3, parameters=QUICK)
    assert domain.shape == (3, 40, 40)
    assert domain.is_images
    assert domain.classes == SIGNS
    assert domain.name == "syn-signs"
    assert domain.labels is not None
    assert np.bincount(domain.labels).tolist() == [3] * 43
    images = pixels(domain)
    assert images.dtype == np.uint8
    assert len(np.unique(images.reshape(len(images), -1), axis=0)) == len(images)
    assert 40 < images.mean() < 140  # GTSRB's mean is 86


def test_signs_come_as_often_as_on_roads(data: Path) -> None:
    """Three ranks of frequency, a class never bunched in a part of a round."""
    assert set(COMMON_SIGNS) | set(OCCASIONAL_SIGNS) < set(SIGNS)
    assert not set(COMMON_SIGNS) & set(OCCASIONAL_SIGNS)
    domain = syn_signs(count=113 * 2, parameters=SynSigns(styles=1))
    assert domain.labels is not None
    counts = dict(zip(SIGNS, np.bincount(domain.labels, minlength=43).tolist(), strict=True))
    assert {counts[sign] for sign in COMMON_SIGNS} == {10}
    assert {counts[sign] for sign in OCCASIONAL_SIGNS} == {4}
    assert {counts[sign] for sign in set(SIGNS) - {*COMMON_SIGNS, *OCCASIONAL_SIGNS}} == {2}
    places = np.flatnonzero(domain.labels == SIGNS.index("speed limit 30"))
    assert 12 <= np.diff(places).min() <= np.diff(places).max() <= 45


def test_a_round_is_what_it_is_asked_to_be() -> None:
    assert in_turn((1,) * 43).tolist() == list(range(43))
    assert in_turn((2, 1, 0, 1)).tolist() == [0, 1, 3, 0]


def test_default_counts_are_the_papers(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def stand_in(name: str, count: int, *rest: Any, **more: Any) -> Any:
        asked.append((name, count))
        return generating.generated(name, 43, *rest, **more)

    monkeypatch.setattr(module, "generated", stand_in)
    syn_signs(parameters=QUICK)
    syn_signs("test", parameters=QUICK)
    assert asked == [("syn-signs-train", 100_000), ("syn-signs-test", 10_000)]


def test_any_number_of_processes_makes_the_same_bytes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generating, "BLOCK", 50)
    one = syn_signs(count=130, parameters=QUICK, workers=1)
    monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path / "other"))
    two = syn_signs(count=130, parameters=QUICK, workers=2)
    assert len(cache_entries(tmp_path / "other")) == 1  # made again, not found
    assert (pixels(one) == pixels(two)).all()
    assert one.fingerprint() == two.fingerprint()


def test_images_do_not_depend_on_their_company() -> None:
    """The first are the same however many follow, and one alone is as it is among others."""
    rng = np.random.default_rng(1)
    behind = [rng.integers(0, 256, (140, 200, 3), dtype=np.uint8) for _ in range(2)]
    seen = scenes(drawings(96, Style())[None], behind)
    many, labels = photograph(np.arange(150), SynSigns(), seen)
    assert labels.tolist() == [in_turn(ON_ROADS)[i % 113] for i in range(150)]
    for part in (np.arange(7), np.array([149]), np.array([99, 3, 64])):
        assert (photograph(part, SynSigns(), seen)[0] == many[part]).all()
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert (photograph(np.arange(150), SynSigns(), seen)[0] == many).all()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_splits_and_seeds_share_no_random_numbers(data: Path) -> None:
    def quiet(seed: int) -> SynSigns:
        return replace(QUICK, seed=seed, noise=(0.0, 0.0))  # noise would differ anyway

    sets = [
        pixels(syn_signs(split, count=43, parameters=quiet(seed), photographs=folder))
        for folder in [data / "bsds500" / "train"]
        for split in ("train", "test")
        for seed in (0, 1)
    ]
    for i in range(4):
        for j in range(i):
            assert (sets[i] != sets[j]).any(axis=(1, 2, 3)).all()


def test_every_parameter_changes_the_key_and_the_images(data: Path) -> None:
    """No parameter is there for nothing: each has its own cache entry and its own images."""
    seen = scenes(drawings(96, Style())[None], [np.full((70, 90, 3), 100, dtype=np.uint8)])
    base = replace(REALISTIC, styles=2)
    reference = photograph(np.arange(86), base, seen)[0]
    for field in fields(SynSigns):
        value = getattr(base, field.name)
        if field.name in ("size", "styles"):
            continue
        other: Any
        if field.name == "split":
            other = "test"
        elif field.name == "often":
            other = (1,) * 43
        elif isinstance(value, tuple):
            other = (value[0], value[1] * 0.9)
        else:
            other = value * 0.9 if isinstance(value, float) else value + 1
        changed = replace(base, **{field.name: other})
        assert (photograph(np.arange(86), changed, seen)[0] != reference).any(), field.name
    assert photograph(np.arange(2), replace(base, size=32), seen)[0].shape == (2, 32, 32, 3)
    keys = set()
    for changed in (QUICK, replace(QUICK, turn=9.0), replace(QUICK, styles=2)):
        keys.add(syn_signs(count=43, parameters=changed).fingerprint())
    assert len(keys) == 3


def test_what_it_was_made_of_stands_beside_it(data: Path, tmp_path: Path) -> None:
    first = syn_signs(count=43, parameters=QUICK)
    (entry,) = cache_entries(tmp_path / "cache")
    about = json.loads((entry / "about.json").read_text())["about"]
    assert about["parameters"]["light"] == list(SynSigns().light)
    assert set(about["parameters"]) == {field.name for field in fields(SynSigns)}
    assert set(about["inputs"]) == {"photographs", "font"}
    assert {"numpy", "torch", "pillow", "matplotlib"} <= set(about["versions"])
    # Another photograph under the same name is another set.
    Image.new("RGB", (80, 80), (200, 0, 0)).save(data / "bsds500" / "train" / "0.png")
    second = syn_signs(count=43, parameters=QUICK)
    assert first.fingerprint() != second.fingerprint()
    assert len(cache_entries(tmp_path / "cache")) == 2


def test_a_folder_of_pictograms_takes_the_drawings_place(data: Path, tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "pictograms")
    plain = replace(PLAIN, styles=1)
    ours = pixels(syn_signs(count=43, parameters=plain))
    theirs = pixels(syn_signs(count=43, parameters=plain, pictograms=folder))
    near = np.abs(ours.astype(float)[:, None] - theirs[None]).mean(axis=(2, 3, 4))
    assert (near.argmin(axis=0) == np.arange(43)).mean() > 0.9  # the same classes, in their order
    Image.new("RGB", (60, 60), (0, 160, 0)).save(folder / "3.png")
    green = pixels(syn_signs(count=43, parameters=plain, pictograms=folder))
    assert (green[:3] == theirs[:3]).all()
    assert np.abs(green[3, 20, 20].astype(int) - (0, 160, 0)).max() < 4


def test_without_bsds500_the_wheels_photographs_do(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("REVGRAD_DATA", str(data / "nothing"))
    pytest.importorskip("skimage", reason="scikit-image's photographs are not installed")
    with caplog.at_level(logging.INFO, logger="revgrad"):
        assert len(syn_signs(count=43, parameters=QUICK)) == 43
    assert "scikit-image's photographs" in caplog.text
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"BSDS500 is missing: .*revgrad data fetch bsds500"):
        syn_signs(count=43, parameters=QUICK)


# -- what can be wrong ------------------------------------------------------------------------


def test_bad_input_is_one_line_and_leaves_nothing(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no split of syn-signs 'tset'; did you mean 'test'"):
        syn_signs("tset")
    with pytest.raises(InputError, match="must be 1 or more, not 0"):
        syn_signs(count=0)
    with pytest.raises(InputError, match="no folder of photographs"):
        syn_signs(count=43, photographs=tmp_path / "none")
    with pytest.raises(InputError, match="no folder of pictograms"):
        syn_signs(count=43, pictograms=tmp_path / "none")
    bad = data / "bsds500" / "train" / "1.png"
    bad.write_bytes(bad.read_bytes()[:200])
    with pytest.raises(DataError, match=r"the photograph .*1.png can't be read: ") as caught:
        syn_signs(count=43, parameters=QUICK)
    assert "\n" not in str(caught.value)
    Image.new("RGB", (200, 50)).save(bad)
    with pytest.raises(DataError, match=r"1.png is 50×200: too small, at least 64×64"):
        syn_signs(count=43, parameters=QUICK)
    assert not cache_entries(tmp_path / "cache")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"split": "val"}, "no split of syn-signs 'val'"),
        ({"size": 0}, "size must be a whole number, 1 or more, not 0"),
        ({"size": 80}, "size must be at most 64 pixels, not 80"),
        ({"styles": 1.5}, "styles must be a whole number"),
        ({"seed": -1}, "seed must be a whole number, 0 or more"),
        ({"often": (1,) * 42}, "often must be 43 whole numbers, not"),
        ({"often": [1] * 43}, "often must be 43 whole numbers, not"),
        ({"often": (0.5,) * 43}, "often must be whole numbers, 0 or more, not all 0"),
        ({"often": (0,) * 43}, "often must be whole numbers, 0 or more, not all 0"),
        ({"often": (-1,) * 43}, "often must be whole numbers, 0 or more, not all 0"),
        ({"turn": -3.0}, "turn must be a number, 0 or more, not -3.0"),
        ({"turn": "much"}, "turn must be a number"),
        ({"turn": float("nan")}, "turn must be a number"),
        ({"light": 1.0}, "light must be two numbers"),
        ({"light": (0.0, 1.0)}, "light must be two numbers above 0"),
        ({"light": (2.0, 1.0)}, "light must be two numbers, the lesser first"),
        ({"light": (1.0, float("inf"))}, "light must be two numbers"),
        ({"resolution": (0.5, 10.0)}, "resolution must be two numbers of pixels, 2 or more"),
        ({"perspective": 0.7}, "perspective must be below 0.4"),
        ({"motion": (2.0, 0.1)}, "motion must be how often and how much"),
    ],
)
def test_parameters_that_cannot_be_used(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        replace(SynSigns(), **changes)


# -- conditions, each by itself ---------------------------------------------------------------

NO_VEHICLES, KEEP_RIGHT, NO_ENTRY = (
    SIGNS.index(name) for name in ("no vehicles", "keep right", "no entry")
)


def test_the_plain_camera_shows_the_drawing() -> None:
    """Against the drawing over the grey, averaged down to 40 pixels by Pillow."""
    sign = Image.fromarray(drawings(192, Style())[NO_ENTRY])
    page = Image.new("RGB", sign.size, (100, 100, 100))
    page.paste(sign, (0, 0), sign)
    margin = 192 * (1 - 1 / photographing.MARGIN) / 2
    box = (margin, margin, 192 - margin, 192 - margin)
    slow = np.asarray(page.resize((40, 40), Image.Resampling.BOX, box=box), dtype=np.float64)
    assert np.abs(taken()[NO_ENTRY] - slow).mean() < 4


def test_a_turned_camera_turns_the_sign() -> None:
    """Every sign's angle, measured from its own pixels, is the one that was drawn."""
    u = generating.uniforms(0, "signs train", np.arange(430), 48)
    angles = (2 * u[:, 1] - 1) * 30
    tilted = taken(430, turn=30.0)
    rows = np.arange(NO_ENTRY, 430, 43)
    y, x = np.mgrid[-19.5:20, -19.5:20]
    for row in rows:
        bar = (tilted[row] > 180).all(axis=2) & (np.hypot(x, y) < 15)
        covariance = np.cov(np.stack([x[bar], y[bar]]))
        direction = np.linalg.eigh(covariance)[1][:, 1]
        measured = np.degrees(np.arctan(direction[1] / direction[0]))
        assert abs(measured) == pytest.approx(abs(angles[row]), abs=2.5)
        assert np.sign(measured) == np.sign(angles[row]) or abs(angles[row]) < 2.5


def test_fill_and_offset_say_how_large_and_where() -> None:
    for fill in (0.5, 0.9):
        sign = np.abs(taken(fill=(fill, fill))[NO_VEHICLES] - 100).max(axis=2) > 20
        assert sign.any(axis=0).sum() == pytest.approx(40 * fill, abs=1.5)
        assert sign.any(axis=1).sum() == pytest.approx(40 * fill, abs=1.5)
    moved = np.abs(taken(430, fill=(0.5, 0.5), offset=0.2) - 100).max(axis=3) > 20
    middles = [np.mean(np.nonzero(one), axis=1) - 19.5 for one in moved[NO_VEHICLES::43]]
    assert 2 < np.abs(middles).max() < 0.2 * 40 + 0.6
    assert np.std(middles, axis=0).min() > 1.5


def test_light_cast_saturation_haze_and_gamma_are_arithmetic() -> None:
    plain = taken()
    np.testing.assert_allclose(taken(light=(0.5, 0.5)), plain / 2, atol=0.51)
    assert taken(light=(3.0, 3.0))[NO_VEHICLES, 20, 20].tolist() == [255, 255, 255]
    np.testing.assert_allclose(taken(gamma=(2.0, 2.0)), plain**2 / 255, atol=1.5)
    grey = taken(saturation=(0.0, 0.0))
    np.testing.assert_allclose(grey, plain.mean(axis=3, keepdims=True) + 0 * grey, atol=1.0)
    np.testing.assert_allclose(taken(haze=(0.5, 0.5)), plain / 2 + 63.75, atol=1.0)
    ratio = taken(cast=0.3, light=(0.5, 0.5))[:, 0, 0] / 50  # a corner shows the grey behind
    warm = np.log(ratio[:, 0]) - np.log(ratio[:, 2])
    assert 0.3 < np.abs(warm).max() < 0.62
    assert warm.min() < -0.2 < 0.2 < warm.max()


def test_surround_lights_what_is_behind_only() -> None:
    plain, dark = taken(), taken(surround=(0.5, 0.5))
    assert (dark[NO_VEHICLES, 0, 0] == plain[NO_VEHICLES, 0, 0] / 2).all()
    assert (dark[NO_VEHICLES, 20, 20] == plain[NO_VEHICLES, 20, 20]).all()


def test_shadow_darkens_a_side_as_often_as_said() -> None:
    never, always = taken(430), taken(430, shadow=(1.0, 0.8))
    half = taken(430, shadow=(0.5, 0.8))
    assert (always <= never + 0.5).all()
    share = always.sum(axis=3) / never.sum(axis=3)
    assert share.min() > 0.19
    assert (share.max(axis=(1, 2)) - share.min(axis=(1, 2))).mean() > 0.2
    touched = (half != never).any(axis=(1, 2, 3)).mean()
    assert 0.4 < touched < 0.6


def roughness(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean step between neighbouring pixels, across and down, of each image."""
    grey = images.mean(axis=3)
    across, down = (np.abs(np.diff(grey, axis=axis)).mean(axis=(1, 2)) for axis in (2, 1))
    return across, down


def test_defocus_and_few_pixels_take_detail_away() -> None:
    sharp = sum(roughness(taken()))
    blurred = sum(roughness(taken(defocus=(0.05, 0.05))))
    coarse = sum(roughness(taken(resolution=(12.0, 12.0))))
    assert (blurred < 0.9 * sharp).all()
    assert (coarse < 0.95 * sharp).all()


def test_coarse_images_are_enlarged_bilinearly() -> None:
    """What was taken at 20 pixels is 20 values enlarged: reducing it and back changes nothing."""
    coarse = taken(resolution=(20.0, 20.0))[[NO_ENTRY, KEEP_RIGHT]]
    # Enlarged twice, neighbours lie at 1/4 and 3/4 between two values, so each value is (3a−b)/2.
    a, b = coarse[:, 1::2][:, :-1], coarse[:, 2::2]
    above, below = (3 * a - b) / 2, (3 * b - a) / 2
    np.testing.assert_allclose(below[:, :-1], above[:, 1:], atol=3)
    assert (taken(resolution=(40.0, 40.0)) == taken(resolution=(80.0, 80.0))).all()


def test_motion_blurs_along_its_way_only() -> None:
    sharp, moved = taken(430), taken(430, motion=(1.0, 0.2))
    before, after = roughness(sharp), roughness(moved)
    ratio = np.stack([a / b for a, b in zip(after, before, strict=True)])
    assert (ratio.mean(axis=0) < 1.01).all()
    assert ratio.min(axis=1).max() < 0.8  # some across, some down
    strongest = ratio.min(axis=0) < 0.75
    assert (ratio.max(axis=0) - ratio.min(axis=0))[strongest].max() > 0.15
    untouched = (taken(430, motion=(0.3, 0.2)) == sharp).all(axis=(1, 2, 3)).mean()
    assert 0.6 < untouched < 0.8


def test_the_colour_filter_matches_a_slow_loop_and_leaves_even_colours_alone() -> None:
    image = torch.rand(2, 3, 6, 8, generator=torch.Generator().manual_seed(0)).double()
    fast = photographing._filtered(image)
    padded = np.pad(image.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    for channel in range(3):
        for row in range(6):
            for column in range(8):
                total = weight = 0.0
                for down in (-1, 0, 1):
                    for right in (-1, 0, 1):
                        r, c = row + 1 + down, column + 1 + right
                        if r % 2 + c % 2 == channel:
                            here = down == right == 0
                            if channel == 1 and down and right:
                                continue
                            # a pixel that has the colour keeps it; else the mean of those around
                            has = (row + 1) % 2 + (column + 1) % 2 == channel
                            if has and not here:
                                continue
                            total += padded[1, channel, r, c]
                            weight += 1
                assert float(fast[1, channel, row, column]) == pytest.approx(total / weight)
    even = torch.full((1, 3, 8, 8), 0.3)
    torch.testing.assert_close(photographing._filtered(even), even)


def test_sharpening_overshoots_at_edges_only() -> None:
    plain, sharper = taken(), taken(sharpening=(1.0, 1.0))
    assert (sharper[NO_ENTRY, 20, 20] == plain[NO_ENTRY, 20, 20]).all()
    assert sum(roughness(sharper)).mean() > 1.1 * sum(roughness(plain)).mean()


def test_noise_has_the_deviation_it_is_given() -> None:
    difference = taken(noise=(0.04, 0.04)) - taken()
    wanted = 0.04 * np.sqrt(0.25 + taken() / 255) * 255
    inside = (taken() > 45) & (taken() < 200)  # where it is not cut off
    assert (difference[inside] / wanted[inside]).std() == pytest.approx(1, abs=0.02)
    assert (difference[inside] / wanted[inside]).mean() == pytest.approx(0, abs=0.02)
