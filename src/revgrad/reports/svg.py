"""Drawings as inline SVG: text that comes from users is escaped by the serialiser, not by us."""

from __future__ import annotations

import math
from collections.abc import Iterable
from xml.etree.ElementTree import Element, tostring

from markupsafe import Markup


def element(tag: str, *children: Element | str, **attributes: object) -> Element:
    """`element("text", "50%", x=3, text_anchor="end", class_="tick")`."""
    made = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            made.set(name.rstrip("_").replace("_", "-"), _written(value))
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + child
        else:
            made.text = (made.text or "") + child
    return made


def drawing(
    size: tuple[float, float], label: str, parts: Iterable[Element], **more: object
) -> Markup:
    """A whole picture that scales with the page; `label` is what a screen reader says of it."""
    box = f"0 0 {_written(size[0])} {_written(size[1])}"
    made = element("svg", *parts, viewBox=box, role="img", aria_label=label, **more)
    return Markup(tostring(made, encoding="unicode"))  # escaped: every text went through Element


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers from `low` to `high`, some `about` of them."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def shown_number(value: float) -> str:
    """Three digits; thousands with commas; a minus, not a hyphen."""
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return shown.replace("-", "−")


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return str(value)
