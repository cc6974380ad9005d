"""SYN NUMBERS: the digit in the middle is the label, whatever is varied around it."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from revgrad.errors import InputError, UnknownNameError
from revgrad.paper.synthetic.fonts import REACH, Font, Glyphs, fonts, glyphs
from revgrad.paper.synthetic.generator import BLOCK
from revgrad.paper.synthetic.syn_numbers import (
    SynNumbers,
    _blur,
    _Chunk,
    _sample,
    draw,
    house_digits,
    make_numbers,
    syn_numbers,
)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("font_lato") is None, reason="fonts wanted: the extra 'synthetic'"
)

#: Nothing varied: upright digits in the middle, no colour, even light, sharp.
PLAIN = SynNumbers(
    lengths=(1, 0, 0),
    height=(0.75, 0.75),
    aspect=(1, 1),
    turn=(0, 0),
    shear=(0, 0),
    perspective=(0, 0),
    shift=(0, 0),
    gap=(0.1, 0.1),
    weight=(0, 0),
    contrast=(0.5, 0.5),
    tint=0,
    cast=0,
    light=0,
    outline=0,
    shadow=0,
    blur=(0.2, 0.2),
    noise=(1e-6, 1e-6),
)


@pytest.fixture(scope="module")
def every() -> list[Font]:
    return fonts()


@pytest.fixture(scope="module")
def drawn(every: list[Font]) -> Glyphs:
    return glyphs(every)


def plain(**changes: Any) -> SynNumbers:
    return dataclasses.replace(PLAIN, **changes)


def inks(images: np.ndarray) -> np.ndarray:
    """(n, size, size) from 0, background, to 1, stroke: of plain images, by their first corner."""
    grey = images.astype(np.float64).mean(axis=3)
    away = np.abs(grey - grey[:, :1, :1])
    return away / away.max(axis=(1, 2), keepdims=True)


def boxes(ink: np.ndarray) -> np.ndarray:
    """(n, 4): top, bottom, left, right of the ink, to parts of a pixel by its cover."""
    found = []
    for image in ink:
        sides = []
        for axis in (1, 0):
            profile = image.max(axis=axis)
            there = np.flatnonzero(profile > 0.5)
            sides += [there[0], there[-1] + 1]
        found.append(sides)
    return np.array(found)


def templates(font: Font, size: int, height: float) -> np.ndarray:
    """(10, size, size): the digits as Pillow draws them, `height` of it the tallest one's."""
    big = 8 * size

    def inks(points: float) -> np.ndarray:
        face = ImageFont.truetype(font.path, points, layout_engine=ImageFont.Layout.BASIC)
        drawn = []
        for digit in range(10):
            image = Image.new("L", (2 * big, 2 * big))
            ImageDraw.Draw(image).text((big // 2, big // 2), str(digit), fill=255, font=face)
            drawn.append(np.asarray(image))
        return np.stack(drawn)

    rows = np.flatnonzero((inks(200) >= 128).any(axis=(0, 2)))
    found = []
    for drawn in inks(200 * height * big / (np.ptp(rows) + 1)):
        middle = [np.flatnonzero((drawn >= 128).any(axis=axis)).mean() for axis in (1, 0)]
        top, left = (round(one - (big - 1) / 2) for one in middle)
        image = Image.fromarray(drawn[top : top + big, left : left + big])
        found.append(np.asarray(image.resize((size, size), Image.Resampling.BOX)) / 255)
    return np.stack(found)


# -- what is drawn -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Lato-Bold.ttf", "SourceSerifPro-Regular.ttf", "Intuitive.ttf"])
def test_the_label_is_the_digit_in_the_middle(every: list[Font], name: str) -> None:
    """Against Pillow's drawing of each digit: the label's is by far the nearest, alone and with
    neighbours."""
    font = next(one for one in every if one.name == name)
    drawn = glyphs([font])
    known = templates(font, 32, 0.75)
    for lengths in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        images, labels = draw(np.arange(100), plain(lengths=lengths), drawn)
        ink = inks(images)
        for image, label in zip(ink, labels, strict=True):
            # Only over each template's own columns: neighbours stand beside them.
            distances = []
            for one in known:
                columns = np.flatnonzero(one.max(axis=0) > 0.5)
                part = slice(columns[0], columns[-1] + 1)
                distances.append(np.abs(image[:, part] - one[:, part]).mean() * 32)
            assert np.argmin(distances) == label
        alone = np.abs(ink - known[labels]).mean()
        assert alone < 0.03 if lengths[0] else alone > 0.05


@pytest.mark.parametrize("shares", [(1,) * 10, (0, 3) + (0,) * 7 + (1,)])
def test_digits_come_by_their_shares(drawn: Glyphs, shares: tuple[float, ...]) -> None:
    parameters = dataclasses.replace(PLAIN, size=8, digits=(shares,) * 3)
    _, labels = draw(np.arange(6000), parameters, drawn)
    wanted = np.asarray(shares) / sum(shares)
    assert np.allclose(np.bincount(labels, minlength=10) / 6000, wanted, atol=0.02)
    assert not (np.bincount(labels, minlength=10) > 0)[wanted == 0].any()
    assert labels.dtype == np.int64


@pytest.mark.parametrize("length", [1, 2, 3])
def test_digits_come_by_their_place(drawn: Glyphs, length: int) -> None:
    """The digit in the middle of the image, by its place in the number, with neighbours beside."""
    lengths = tuple(float(n == length) for n in (1, 2, 3))
    chunk = _Chunk(np.arange(20_000), plain(lengths=lengths, size=8), drawn)
    chunk._choose()
    for place in range(length):
        here = chunk.middle == place
        assert here.mean() == pytest.approx(1 / length, abs=0.02)
        found = np.bincount(chunk.labels[here], minlength=10) / here.sum()
        assert np.allclose(found, SynNumbers().digits[place], atol=0.02)
        assert np.array_equal(chunk.labels[here], chunk.digits[here, place])


@pytest.mark.parametrize("length", [1, 2, 3])
def test_house_numbers_begin_with_small_digits(length: int) -> None:
    """Against the digits of every number of a length, one by one."""
    slow = np.zeros((length, 10))
    for number in range(10 ** (length - 1), 10**length):
        for place, digit in enumerate(str(number)):
            slow[place, int(digit)] += np.log10((number + 1) / number)
    assert np.allclose(house_digits()[:length], slow, atol=1e-4)
    assert SynNumbers().digits == house_digits()


def test_the_default_varies_what_the_paper_lists_and_varied_the_rest() -> None:
    """Against the fields one by one: text, place, turn, size, colours and blur; or all."""

    def steady(parameters: SynNumbers) -> set[str]:
        values = dataclasses.asdict(parameters)
        values["noise"] = 0 if max(values["noise"]) < 1 / 255 else values["noise"]
        ranges = ("shear", "perspective", "weight")
        still = {name for name in ranges if values[name] == (0, 0)}
        return still | {
            name for name in ("light", "outline", "shadow", "noise") if not values[name]
        }

    unlisted = {"shear", "perspective", "weight", "light", "outline", "shadow", "noise"}
    assert steady(SynNumbers()) == unlisted
    assert steady(SynNumbers.varied()) == set()
    usual, varied = dataclasses.asdict(SynNumbers()), dataclasses.asdict(SynNumbers.varied())
    assert {name for name in usual if usual[name] != varied[name]} == unlisted
    assert SynNumbers.varied(seed=3, light=0.1).light == 0.1


@pytest.mark.parametrize("height", [0.55, 0.9])
def test_height_and_middle(drawn: Glyphs, height: float) -> None:
    images, _ = draw(np.arange(150), plain(height=(height, height), size=48), drawn)
    found = boxes(inks(images)) / 48
    middle = (found[:, 0] + found[:, 1]) / 2, (found[:, 2] + found[:, 3]) / 2
    assert np.abs(middle[0] - 0.5).max() < 0.025
    assert np.abs(middle[1] - 0.5).max() < 0.025
    heights = found[:, 1] - found[:, 0]
    assert np.quantile(heights, 0.9) == pytest.approx(height, abs=0.03)
    assert (heights < height + 0.04).all()


def test_shift_stays_in_its_range_and_uses_it(drawn: Glyphs) -> None:
    images, _ = draw(np.arange(300), plain(shift=(-0.1, 0.1), height=(0.5, 0.5), size=48), drawn)
    found = boxes(inks(images)) / 48
    for first, last in ((0, 1), (2, 3)):
        middle = (found[:, first] + found[:, last]) / 2 - 0.5
        assert np.abs(middle).max() < 0.1 + 0.025
        assert middle.min() < -0.07
        assert middle.max() > 0.07


def test_turning_is_what_pillow_does(drawn: Glyphs) -> None:
    changes = {"size": 64, "height": (0.5, 0.5)}
    upright, _ = draw(np.arange(30), plain(**changes), drawn)
    for degrees in (20, -35):
        turned, _ = draw(np.arange(30), plain(turn=(degrees, degrees), **changes), drawn)
        for before, after in zip(inks(upright), inks(turned), strict=True):
            picture = Image.fromarray((before * 255).astype(np.uint8))
            expected = np.asarray(picture.rotate(-degrees, Image.Resampling.BILINEAR)) / 255
            wrong = np.asarray(picture.rotate(degrees, Image.Resampling.BILINEAR)) / 255
            assert np.abs(after - expected).mean() < 0.02
            assert np.abs(after - wrong).mean() > 0.02 or np.abs(before - wrong).mean() < 0.06


def test_aspect_narrows_and_weight_thickens(drawn: Glyphs) -> None:
    usual = inks(draw(np.arange(100), plain(size=64, height=(0.5, 0.5)), drawn)[0])
    changes = {"size": 64, "height": (0.5, 0.5)}
    narrow = inks(draw(np.arange(100), plain(aspect=(0.5, 0.5), **changes), drawn)[0])
    bold = inks(draw(np.arange(100), plain(weight=(0.03, 0.03), **changes), drawn)[0])
    width = boxes(usual)[:, 3] - boxes(usual)[:, 2]
    assert np.abs(boxes(narrow)[:, 3] - boxes(narrow)[:, 2] - width / 2).max() <= 1.5
    wider = boxes(bold)[:, 3] - boxes(bold)[:, 2] - width
    assert wider.mean() == pytest.approx(2 * 0.03 * 32, abs=0.3)
    assert (bold.mean(axis=(1, 2)) > 1.05 * usual.mean(axis=(1, 2))).all()


def test_neighbours_reach_the_border(drawn: Glyphs) -> None:
    def reached(lengths: tuple[float, float, float]) -> np.ndarray:
        images, _ = draw(np.arange(200), plain(lengths=lengths, size=32), drawn)
        grey = images.astype(float).mean(axis=3)
        spread = grey.max(axis=(1, 2)) - grey.min(axis=(1, 2))
        left = np.ptp(grey[:, :, 0], axis=1) > spread / 2
        right = np.ptp(grey[:, :, -1], axis=1) > spread / 2
        return np.stack([left, right])

    assert not reached((1, 0, 0)).any()
    both = reached((0, 0, 1)).mean(axis=1)
    assert (both > 0.3).all()
    two = reached((0, 1, 0))
    assert not (two[0] & two[1]).any()
    assert (two.mean(axis=1) > 0.2).all()
    # The rest of the number follows on the right where the label is its first digit.
    chunk = _Chunk(np.arange(200), plain(lengths=(0, 1, 0)), drawn)
    chunk._choose()
    assert not two[0][chunk.middle == 0].any()
    assert not two[1][chunk.middle == 1].any()


@pytest.mark.parametrize("contrast", [0.2, 0.6])
def test_contrast_and_both_polarities(drawn: Glyphs, contrast: float) -> None:
    parameters = plain(contrast=(contrast, contrast), brightness=(0.1, 0.9), weight=(0.02, 0.02))
    images, _ = draw(np.arange(400), parameters, drawn)
    grey = images.astype(float).mean(axis=3) / 255
    ground = grey[:, 0, 0]
    least, most = grey.min(axis=(1, 2)), grey.max(axis=(1, 2))
    assert np.quantile(most - least, 0.5) == pytest.approx(contrast, abs=0.01)
    assert (most - least).max() < contrast + 0.01
    assert least.min() >= 0.1 - 0.01
    assert most.max() <= 0.9 + 0.01
    light_on_dark = most - ground > ground - least
    assert 0.4 < light_on_dark.mean() < 0.6


def test_noise_has_the_wanted_strength(drawn: Glyphs) -> None:
    parameters = plain(contrast=(0.01, 0.01), brightness=(0.4, 0.6), noise=(0.02, 0.02))
    images, _ = draw(np.arange(200), parameters, drawn)
    parts = images.astype(float) / 255
    corner = parts[:, :6, :6]
    spread = corner.std(axis=(1, 2)).mean()
    # Noise and, before the hardly noticeable blur, grain twice as strong.
    assert spread == pytest.approx(0.02 * np.sqrt(5), rel=0.15)


def test_the_default_is_without_clutter_and_clutter_changes_the_images_only(drawn: Glyphs) -> None:
    where = np.arange(60)
    usual, labels = draw(where, SynNumbers(), drawn)
    again, _ = draw(where, SynNumbers(clutter=0), drawn)
    cluttered, others = draw(where, SynNumbers(clutter=1), drawn)
    np.testing.assert_array_equal(usual, again)
    np.testing.assert_array_equal(labels, others)
    changed = np.abs(usual.astype(int) - cluttered).max(axis=3) > 20
    assert (changed.mean(axis=(1, 2)) > 0.05).mean() > 0.9
    # The middle digit lies over the clutter: plain digits differ only where there is no ink.
    ink = inks(draw(where, PLAIN, drawn)[0]) > 0.99
    before, after = (draw(where, plain(clutter=c), drawn)[0].astype(int) for c in (0.0, 1.0))
    assert np.abs(before - after)[ink].mean() < 3
    assert np.abs(before - after)[~ink].mean() > 20


@pytest.mark.parametrize(
    "changes",
    [
        {"shear": (0.2, 0.2)},
        {"perspective": (0.3, 0.3)},
        {"tint": 0.3},
        {"cast": 0.2},
        {"light": 0.5},
        {"outline": 1.0},
        {"shadow": 1.0},
        {"blur": (1.5, 1.5)},
        {"gap": (0.3, 0.3), "lengths": (0, 1, 0)},
    ],
)
def test_every_parameter_has_a_say(drawn: Glyphs, changes: dict[str, Any]) -> None:
    usual = plain(lengths=changes.get("lengths", PLAIN.lengths))
    before, _ = draw(np.arange(20), usual, drawn)
    after, _ = draw(np.arange(20), plain(**changes), drawn)
    changed = np.abs(before.astype(int) - after).max(axis=(1, 2, 3))
    assert (changed > 4).mean() > 0.3


# -- formulas ----------------------------------------------------------------------------------


def test_sampling_is_bilinear() -> None:
    rng = np.random.default_rng(0)
    fields = rng.random((2, 3, 16, 16)).astype(np.float32)
    x, y = rng.uniform(-1, 1, (2, 4, 50)).astype(np.float32)
    font, digit = np.array([0, 1, 1, 0]), np.array([2, 0, 1, 1])
    found = _sample(fields, font, digit, x, y)
    for n in range(4):
        for k in range(50):
            column = min(max((float(x[n, k]) / REACH + 0.5) * 16 - 0.5, 0), 15)
            row = min(max((float(y[n, k]) / REACH + 0.5) * 16 - 0.5, 0), 15)
            left, top = min(int(column), 14), min(int(row), 14)
            a, b = column - left, row - top
            cell = fields[font[n], digit[n], top : top + 2, left : left + 2].astype(np.float64)
            slow = np.array([1 - b, b]) @ cell @ np.array([1 - a, a])
            assert found[n, k] == pytest.approx(slow, abs=2e-3)


@pytest.mark.parametrize("axis", [1, 2])
def test_blurring_is_a_gaussian_of_the_image_s_own_width(axis: int) -> None:
    rng = np.random.default_rng(0)
    images = rng.random((3, 14, 15, 3)).astype(np.float32)
    widths = np.array([0.4, 1.1, 2.0], dtype=np.float32)
    found = _blur(images, widths, axis)
    steps = np.arange(-6, 7)
    for n, width in enumerate(widths.astype(np.float64)):
        taps = np.exp(-(steps**2) / (2 * width**2))
        taps /= taps.sum()
        slow = np.apply_along_axis(
            lambda line, taps=taps: np.convolve(np.pad(line, 6, mode="edge"), taps, mode="valid"),
            axis - 1,
            images[n].astype(np.float64),
        )
        np.testing.assert_allclose(found[n], slow, atol=1e-5)


# -- sets --------------------------------------------------------------------------------------


def test_an_image_depends_on_its_index_alone(drawn: Glyphs) -> None:
    images, labels = draw(np.arange(150), SynNumbers(seed=3), drawn)
    where = np.array([149, 3, 70, 71, 72, 3])
    again, its_labels = draw(where, SynNumbers(seed=3), drawn)
    np.testing.assert_array_equal(again, images[where])
    np.testing.assert_array_equal(its_labels, labels[where])
    other, _ = draw(where, SynNumbers(seed=4), drawn)
    assert (np.abs(other.astype(int) - again).max(axis=(1, 2, 3)) > 20).all()


def test_the_same_bytes_with_one_and_with_two_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for workers in (1, 2):
        monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path / str(workers)))
        found.append(make_numbers(BLOCK + 40, SynNumbers(), workers=workers))
    assert found[0].digest == found[1].digest
    np.testing.assert_array_equal(found[0].images, found[1].images)
    np.testing.assert_array_equal(found[0].labels, found[1].labels)


def test_the_domain(cache: Path) -> None:
    domain = syn_numbers(count=120)
    assert (len(domain), domain.shape, domain.class_count) == (120, (3, 32, 32), 10)
    assert domain.name == "syn-numbers"
    assert domain.is_images
    note = json.loads((next(cache.glob("syn-numbers-*")) / "about.json").read_text())["about"]
    assert note["parameters"]["height"] == list(SynNumbers().height)
    assert note["count"] == 120
    hashes = {font.name: font.sha256 for font in fonts()}
    assert {name[4:]: value for name, value in note["inputs"].items()} == hashes
    assert set(note["versions"]) == {"syn-numbers", "numpy", "pillow", "scipy"}
    assert note["versions"]["numpy"] == np.__version__


def test_splits_options_and_prefixes_differ_where_they_should() -> None:
    train = syn_numbers(count=40)
    images = train.store.take(np.arange(40))
    test = syn_numbers("test", count=40)
    assert (test.store.take(np.arange(40)) != images).any()
    cluttered = syn_numbers(count=40, clutter=True)
    np.testing.assert_array_equal(cluttered.labels, train.labels)
    assert (cluttered.store.take(np.arange(40)) != images).any()
    longer = syn_numbers(count=70)
    assert (longer.store.take(np.arange(40)) == images).all()
    small = syn_numbers(count=5, parameters=SynNumbers(size=28))
    assert small.shape == (3, 28, 28)


def test_more_fonts_from_a_folder_make_another_set(tmp_path: Path, cache: Path) -> None:
    extra = next(font for font in fonts() if font.name == "Lato-Bold.ttf").path.parent
    (tmp_path / "Light.ttf").write_bytes((extra / "Lato-Light.ttf").read_bytes())
    syn_numbers(count=3)
    syn_numbers(count=3, font_folders=[tmp_path])
    notes = [json.loads(path.read_text())["about"] for path in cache.glob("syn-*/about.json")]
    assert sorted(len(note["inputs"]) for note in notes) == [len(fonts()), len(fonts()) + 1]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"height": (0.9, 0.5)}, r"height must be \(least, most\), not \(0.9, 0.5\)"),
        ({"size": 4}, "size must be 8 or more, not 4"),
        ({"clutter": 1.5}, "clutter must be between 0 and 1, not 1.5"),
        ({"lengths": (0, 0, 0)}, "lengths must be three shares"),
        ({"digits": (0.1,) * 10}, "digits must be ten shares for each of three places"),
        ({"digits": ((1,) * 10, (1,) * 10, (0,) * 10)}, "ten shares for each of three places"),
        ({"blur": (0, 1)}, "must begin above 0"),
        ({"contrast": (0.1, 0.95)}, "does not fit into brightness"),
    ],
)
def test_parameters_that_make_no_sense(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        SynNumbers(**changes)


def test_an_unknown_split() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'train'"):
        syn_numbers("trian")
