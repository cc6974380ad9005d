"""Fonts from pinned packages and folders; glyphs as distance fields."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from revgrad.errors import DataError, InputError, MissingExtraError
from revgrad.paper.synthetic.fonts import DEFAULT_FONTS, REACH, Font, fonts, glyphs

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("font_lato") is None, reason="fonts wanted: the extra 'synthetic'"
)


def named(name: str) -> Font:
    return next(font for font in fonts() if font.name == name)


def test_the_default_fonts_are_many_and_in_fixed_order() -> None:
    found = fonts()
    assert found == fonts()
    assert len(found) == sum(len(names) for _, names in DEFAULT_FONTS.values()) >= 40
    families = {font.name.split("-")[0].split(".")[0] for font in found}
    assert len(families) >= 15
    assert len({font.sha256 for font in found}) == len(found)
    assert list(DEFAULT_FONTS) == sorted(DEFAULT_FONTS)


def test_the_hash_is_of_the_file() -> None:
    import hashlib

    font = named("Lato-Bold.ttf")
    assert font.sha256 == hashlib.sha256(font.path.read_bytes()).hexdigest()


def test_folders_are_added_once_in_an_order_that_does_not_depend_on_the_place(
    tmp_path: Path,
) -> None:
    lato, dejavu = named("Lato-Bold.ttf").path, named("DejaVuSans.ttf").path
    (tmp_path / "z").mkdir()
    shutil.copy(dejavu, tmp_path / "b.ttf")
    shutil.copy(lato, tmp_path / "z" / "a.TTF")
    shutil.copy(lato, tmp_path / "c.ttf")
    (tmp_path / "readme.txt").write_text("not a font")
    found = fonts([tmp_path], default=False)
    assert [font.name for font in found] == ["a.TTF", "b.ttf"]
    assert len(fonts([tmp_path])) == len(fonts())


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def find(name: str) -> Any:
        return None if name == "font_lato" else real(name)

    monkeypatch.setattr("revgrad.paper.synthetic.fonts.importlib.util.find_spec", find)
    with pytest.raises(MissingExtraError, match=r"needs font-lato.*revgrad\[synthetic\]"):
        fonts()


def test_folders_without_fonts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no \.ttf or \.otf"):
        fonts([tmp_path])
    with pytest.raises(InputError, match=r"no folder of fonts at .*nowhere"):
        fonts([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="no fonts"):
        fonts(default=False)


@pytest.mark.parametrize("content", [b"", b"no font at all", b"\0\1\0\0" + bytes(60)])
def test_a_font_that_can_t_be_read_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.ttf"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"the font .*broken\.ttf can't be read") as caught:
        glyphs(fonts([tmp_path], default=False))
    assert "\n" not in str(caught.value)


def test_a_font_that_is_gone_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the font .*gone\.ttf can't be read"):
        glyphs([Font(tmp_path / "gone.ttf", "0")])


def test_a_font_without_the_glyphs_is_one_line() -> None:
    with pytest.raises(DataError, match=r"STIXGeneral\.ttf has nothing to draw for"):
        glyphs([named("STIXGeneral.ttf")], "1 ")


@pytest.mark.parametrize("name", ["Lato-Regular.ttf", "STIXGeneral.ttf", "Intuitive.ttf"])
def test_fields_hold_the_distance_to_the_outline(name: str) -> None:
    """Against Pillow's ink at another size and a search through all of it."""
    font = named(name)
    drawn = glyphs([font])
    side = drawn.fields.shape[-1]
    face = ImageFont.truetype(font.path, 300, layout_engine=ImageFont.Layout.BASIC)
    inks = []
    for digit in range(10):
        image = Image.new("L", (600, 600))
        ImageDraw.Draw(image).text((150, 150), str(digit), fill=255, font=face)
        inks.append(np.asarray(image) >= 128)
    height = np.flatnonzero(np.any(inks, axis=(0, 2)))
    unit = height[-1] - height[0] + 1
    rng = np.random.default_rng(0)
    for digit, whole in enumerate(inks):
        across, down = np.flatnonzero(whole.any(axis=0)), np.flatnonzero(whole.any(axis=1))
        assert drawn.widths[0, digit] == pytest.approx((np.ptp(across) + 1) / unit, abs=0.03)
        expected = (down[0] + down[-1] - height[0] - height[-1]) / 2 / unit
        assert drawn.middles[0, digit] == pytest.approx(expected, abs=0.02)
        ink = whole[height[0] - 1 : height[-1] + 2, across[0] - 1 : across[-1] + 2]
        rows, columns = np.indices(ink.shape)
        y = (rows + 0.5 - ink.shape[0] / 2) / unit
        x = (columns + 0.5 - ink.shape[1] / 2) / unit
        for row, column in rng.integers(0, side, (40, 2)):
            here_y, here_x = ((np.array([row, column]) + 0.5) / side - 0.5) * REACH
            away = np.hypot(y - here_y, x - here_x)
            field = drawn.fields[0, digit, row, column]
            inside = away[~ink].min() > away[ink].min()
            distance = away[~ink].min() if inside else -away[ink].min()
            assert field == pytest.approx(distance, abs=0.03), (digit, row, column)
