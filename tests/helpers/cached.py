"""What a cache folder holds."""

from __future__ import annotations

from pathlib import Path


def cache_entries(folder: Path) -> list[Path]:
    """Everything but the locks, in order: whole entries, and what a failure would have left."""
    return sorted(path for path in folder.iterdir() if path.name != ".locks")
