"""The drawings of the 43 signs: distinct, mirrored where they should be, in the right colours."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from revgrad.domains.image_files import resize
from revgrad.errors import DataError, InputError
from revgrad.paper.data.gtsrb_classes import SIGNS
from revgrad.paper.synthetic.signs.drawing import PALETTE, SIGNS_DRAWN, Style, drawings, styles
from revgrad.paper.synthetic.signs.glyphs import default_font, drawn_text, set_text
from revgrad.paper.synthetic.signs.pictures import find_pictures, read_pictures
from revgrad.paper.synthetic.signs.shapes import (
    MARGIN,
    Patch,
    arc,
    curve,
    disc,
    inset,
    line,
    paint,
    placed,
    polygon,
    rectangle,
    regular,
    stroke,
)

SIDE = 96


@cache
def drawn() -> np.ndarray:
    return drawings(SIDE, Style())


def on_grey(signs: np.ndarray) -> np.ndarray:
    """(n, side, side, 3) float, composited."""
    alpha = signs[..., 3:] / 255
    return signs[..., :3] * alpha + 128 * (1 - alpha)


def at(name: str, x: float, y: float) -> np.ndarray:
    """The pixel of a sign at its own coordinates, RGBA."""
    column, row = (int((value / MARGIN + 1) / 2 * SIDE) for value in (x, y))
    return drawn()[SIGNS.index(name), row, column]


def colour(name: str, x: float, y: float) -> str:
    """The palette's name of a pixel that is within 4 levels of it; "" where it is transparent."""
    pixel = at(name, x, y).astype(int)
    if pixel[3] == 0:
        return ""
    assert pixel[3] == 255, (name, x, y, pixel)
    near = [key for key, value in PALETTE.items() if np.abs(pixel[:3] - value).max() <= 4]
    return near[0] if near else f"none: {pixel}"


# -- shapes -----------------------------------------------------------------------------------


def area(layers: list[Patch], size: int = 200) -> float:
    """The painted area, counted in pixels."""
    return float(paint(layers, PALETTE, size)[..., 3].mean() / 255 * (2 * MARGIN) ** 2)


@pytest.mark.parametrize(
    ("figure", "wanted"),
    [
        (disc(0.1, -0.2, 0.5), np.pi * 0.25),
        (disc(0, 0, 0.8, 0.3), np.pi * 0.24),
        (rectangle(-0.5, -0.25, 0.5, 0.75), 1.0),
        (regular(8, 1.0), 4 * np.sin(np.pi / 4)),
        (stroke(line((-0.5, 0), (0.5, 0)), 0.2, ends="flat"), 0.2),
        (stroke(line((-0.5, 0), (0.5, 0)), 0.2), 0.2 + np.pi * 0.01),
        (stroke(arc(0, 0, 0.6, 0, 360), 0.2), np.pi * (0.49 - 0.25)),
        ([inset(regular(4, 1.0)[0], 0.2)], (np.sqrt(2) - 0.4) ** 2),
    ],
)
def test_areas_are_those_of_geometry(figure: list[np.ndarray], wanted: float) -> None:
    assert area([Patch(figure, "red")]) == pytest.approx(wanted, rel=0.02)


def test_later_layers_lie_on_top_and_the_edge_takes_no_other_colour() -> None:
    layers = [Patch(disc(0, 0, 1), "white"), Patch(disc(0, 0, 0.5), "red")]
    picture = paint(layers, PALETTE, 64)
    assert tuple(picture[32, 32]) == (*PALETTE["red"], 255)
    assert picture[0, 0, 3] == 0
    edge = (picture[..., 3] > 20) & (picture[..., 3] < 235)
    assert edge.any()  # half-covered pixels are white too, not white mixed with black
    assert np.abs(picture[edge][:, :3].astype(int) - PALETTE["white"]).max() <= 8


def test_a_curve_passes_through_its_points() -> None:
    points = [(0.0, 0.0), (0.5, 0.2), (0.7, -0.4), (0.1, -0.9)]
    for closed in (False, True):
        smooth = curve(*points, closed=closed)
        for point in points:
            assert np.abs(smooth - point).sum(axis=1).min() < 1e-12


def test_placing_mirrors_turns_scales_and_moves_in_this_order() -> None:
    layer = Patch(polygon((1.0, 0.0), (0.0, 0.0), (0.0, 1.0)), "red")
    moved = placed([layer], 10, 20, 2, stretch=3, turned=90, mirrored=True)[0].figure[0]
    # (1, 0) → mirrored (−1, 0) → turned clockwise as seen (0, −1) → scaled (0, −2) → moved
    np.testing.assert_allclose(moved, [(10, 18), (10, 20), (4, 20)], atol=1e-9)


@pytest.mark.parametrize("text", ["20", "80", "120", "STOP"])
def test_text_fills_its_box(text: str) -> None:
    strokes = np.concatenate(drawn_text(text, 0.8, 1.0))
    assert np.abs(strokes[:, 1]).max() == pytest.approx(0.4, abs=0.01)
    assert np.abs(strokes[:, 0]).max() <= 0.56
    letters, holes = set_text(text, 0.8, 1.0, default_font())
    np.testing.assert_allclose(np.abs(np.concatenate(letters)).max(axis=0), [0.5, 0.4])
    assert len(holes) == sum({"0": 1, "8": 2, "O": 1, "P": 1}.get(c, 0) for c in text)


# -- the signs --------------------------------------------------------------------------------


def test_there_are_as_many_drawings_as_classes() -> None:
    assert len(SIGNS) == len(set(SIGNS)) == len(SIGNS_DRAWN) == 43
    assert drawn().shape == (43, SIDE, SIDE, 4)
    assert drawn().dtype == np.uint8


@pytest.mark.parametrize("number", range(4))
def test_all_signs_can_be_told_apart_at_40_pixels(number: int) -> None:
    small = resize(drawings(SIDE, styles(4, default_font())[number]), (40, 40), "stretch")
    pixels = on_grey(small).reshape(43, -1)
    # Only what differs counts, not the shared ring: root mean square over all pixels, in levels.
    distance = np.sqrt(((pixels[:, None] - pixels[None]) ** 2).mean(axis=2))
    distance[np.diag_indices(43)] = np.inf
    pair = np.unravel_index(distance.argmin(), distance.shape)
    assert distance.min() > 12, (SIGNS[pair[0]], SIGNS[pair[1]], distance.min())


def test_other_styles_are_other_pictures_of_the_same_signs() -> None:
    several = styles(4, default_font())
    assert several[0] == Style()
    assert several == styles(6, default_font())[:4]
    assert [style.font is not None for style in several] == [False, False, False, True]
    plain = on_grey(resize(drawn(), (32, 32), "stretch")).reshape(43, -1)
    for style in several[1:]:
        small = resize(drawings(SIDE, style), (32, 32), "stretch")
        other = on_grey(small).reshape(43, -1)
        distance = ((other[:, None] - plain[None]) ** 2).mean(axis=2)
        assert (np.diag(distance) > 0).all()
        assert (distance.argmin(axis=1) == np.arange(43)).all()  # nearest to its own class


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("bend left", "bend right"),
        ("turn left ahead", "turn right ahead"),
        ("ahead or left", "ahead or right"),
        ("keep left", "keep right"),
    ],
)
def test_pairs_are_mirror_images(left: str, right: str) -> None:
    one, other = on_grey(drawn()[[SIGNS.index(left), SIGNS.index(right)]])
    assert np.abs(one - other[:, ::-1]).mean() < 1
    assert np.abs(one - other).mean() > 6


def test_symmetric_signs_are_their_own_mirror_images() -> None:
    for name in ("no vehicles", "no entry", "priority road", "give way", "danger", "ahead only"):
        one = on_grey(drawn()[SIGNS.index(name)])
        assert np.abs(one - one[:, ::-1]).mean() < 1, name


def test_left_is_left_and_right_is_right() -> None:
    white = (on_grey(drawn()) > 200).all(axis=3)
    for name, side in (("turn left ahead", -1), ("turn right ahead", 1)):
        upper = white[SIGNS.index(name), 20 : SIDE // 2, 10:-10]  # the head is up there
        columns = np.nonzero(upper)[1] - upper.shape[1] / 2
        assert np.sign(columns.mean()) == side
    for name, side in (("keep left", -1), ("keep right", 1)):
        lower = white[SIGNS.index(name), SIDE // 2 + 5 : -20, 20:-20]
        assert np.sign((np.nonzero(lower)[1] - lower.shape[1] / 2).mean()) == side


@pytest.mark.parametrize(
    ("name", "x", "y", "wanted"),
    [
        *[(f"speed limit {n}", 0.0, -0.85, "red") for n in (20, 30, 50, 60, 70, 80, 100, 120)],
        *[(f"speed limit {n}", 0.0, -0.6, "white") for n in (20, 30, 50, 60, 70, 80, 100, 120)],
        ("speed limit 50", -0.95, -0.95, ""),
        ("no overtaking", -0.34, 0.07, "red"),
        ("no overtaking", 0.34, 0.07, "black"),
        ("no overtaking by lorries", -0.32, -0.2, "red"),
        ("no overtaking by lorries", 0.34, 0.2, "black"),
        ("priority at next junction", 0.0, 0.1, "black"),
        ("priority road", 0.0, 0.0, "yellow"),
        ("priority road", 0.0, -0.78, "white"),
        ("priority road", 0.8, 0.8, ""),
        ("give way", 0.0, -0.7, "red"),
        ("give way", 0.0, 0.0, "white"),
        ("give way", 0.8, 0.6, ""),
        ("stop", 0.0, 0.7, "red"),
        ("stop", -0.85, -0.85, ""),
        ("no vehicles", 0.0, 0.0, "white"),
        ("no vehicles", 0.85, 0.0, "red"),
        ("no lorries", 0.2, -0.1, "black"),
        ("no entry", 0.0, 0.0, "white"),
        ("no entry", 0.0, 0.5, "red"),
        ("danger", 0.0, 0.7, "red"),
        ("danger", 0.0, 0.0, "black"),
        ("danger", 0.8, -0.6, ""),
        ("traffic signals", 0.0, -0.13, "red"),
        ("traffic signals", 0.0, 0.16, "yellow"),
        ("traffic signals", 0.0, 0.45, "green"),
        ("end of all limits", 0.5, 0.5, "white"),
        ("end of all limits", -0.5, -0.5, "white"),
        ("ahead only", 0.0, 0.3, "white"),
        ("ahead only", 0.6, 0.3, "blue"),
        ("roundabout", 0.0, 0.0, "blue"),
        ("keep right", 0.5, -0.5, "blue"),
        ("keep right", 0.0, 0.0, "white"),
        ("end of no overtaking", -0.6, 0.07, "grey"),
        ("end of no overtaking by lorries", -0.5, -0.2, "dark grey"),
    ],
)
def test_colours(name: str, x: float, y: float, wanted: str) -> None:
    assert colour(name, x, y) == wanted


# -- a folder of pictures ---------------------------------------------------------------------


def write_pictures(folder: Path, side: int = 110) -> Path:
    """Our own signs on white, smaller, with a broad margin: what a user may bring."""
    folder.mkdir(exist_ok=True)
    for number, sign in enumerate(drawn()):
        inner = Image.fromarray(sign).resize((side - 14, side - 14))
        page = Image.new("RGB", (side, side), (255, 255, 255))
        page.paste(inner, (9, 4), inner)
        page.save(folder / f"{number}.png")
    return folder


def test_pictures_are_cut_out_along_the_signs_outline(tmp_path: Path) -> None:
    paths = find_pictures(write_pictures(tmp_path), 43)
    assert [path.stem for path in paths] == [str(number) for number in range(43)]
    cut = read_pictures(paths, drawn())
    assert cut.shape == drawn().shape
    assert (cut[..., 3] == drawn()[..., 3]).all()
    # The same signs at the same place, although the pictures had another size and margin.
    # (A white rim on white paper is lost, so that what is inside grows a little.)
    ours, theirs = (on_grey(resize(one, (24, 24), "stretch")) for one in (drawn(), cut))
    distance = np.abs(ours[:, None] - theirs[None]).mean(axis=(2, 3, 4))
    assert np.diag(distance).max() < 16
    assert (distance.argmin(axis=0) == np.arange(43)).all()
    red = cut[SIGNS.index("no entry"), SIDE // 4, SIDE // 2].astype(int)
    assert np.abs(red[:3] - PALETTE["red"]).max() < 12


def test_folders_of_pictures_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder of pictograms"):
        find_pictures(tmp_path / "none", 43)
    folder = write_pictures(tmp_path / "some")
    (folder / "7.png").rename(folder / "hidden.txt")
    with pytest.raises(DataError, match=r"lacks pictograms of 1 of 43 classes \(7\)"):
        find_pictures(folder, 43)
    (folder / "hidden.txt").rename(folder / "7.png")
    (folder / "8.jpg").write_bytes((folder / "8.png").read_bytes())
    with pytest.raises(DataError, match=r"two pictograms of class 8: 8.jpg and 8.png"):
        find_pictures(folder, 43)
    (folder / "8.jpg").unlink()
    paths = find_pictures(folder, 43)
    paths[3].write_bytes(b"no image")
    with pytest.raises(DataError, match=r"the pictogram .*3.png can't be read: not an image"):
        read_pictures(paths, drawn())
    Image.new("RGB", (20, 20), (255, 255, 255)).save(paths[3])
    with pytest.raises(DataError, match=r"3.png is all white"):
        read_pictures(paths, drawn())
