"""SVG: text is escaped, ticks are round."""

from __future__ import annotations

import pytest

from pages import HOSTILE, Read
from revgrad.reports.svg import element, ticks


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 0.00931), (-3.2, 17), (0, 10_000), (5, 5)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 1 <= len(found) <= 7
    assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in found)
    assert all(len(f"{tick:g}") <= 7 for tick in found)


def test_text_of_a_drawing_is_escaped() -> None:
    from xml.etree.ElementTree import tostring

    made = tostring(element("text", HOSTILE, x=1.25, aria_label=HOSTILE), encoding="unicode")
    ((tag, attributes),) = Read(made).tags
    assert (tag, attributes) == ("text", {"x": "1.2", "aria-label": HOSTILE})
    assert Read(made).text == HOSTILE
