"""Figures as files: no window, no global state, written whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from revgrad.files import write_atomically

#: The paper's colours of Figure 3: source blue, target red.
SOURCE, TARGET = "#2b6cb0", "#d1495b"


def save_figure(figure: Any, path: Path) -> None:
    """Write a matplotlib Figure; the suffix decides the format."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.lstrip(".") or "png", dpi=130)
    write_atomically(path, buffer.getvalue())
