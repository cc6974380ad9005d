"""Finding runs: those named, and those in folders that were named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from revgrad.errors import RunError
from revgrad.training.runs import Run


def find_runs(places: Iterable[Path | str]) -> list[Path]:
    """The runs among `places`, and below those that are folders, by name; each once.

    What lies inside a run, as its baseline does, is part of it and not found.
    """
    found: dict[Path, Path] = {}
    for place in map(Path, places):
        if not place.is_dir():
            raise RunError(f"{place} is not a folder: a run or a folder of runs would do")
        runs = list(_below(place))
        if not runs:
            raise RunError(f"{place} is not a run, and there is none in it")
        found |= {run.resolve(): run for run in runs if run.resolve() not in found}
    return list(found.values())


def _below(folder: Path) -> Iterator[Path]:
    if Run(folder).exists():
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)
