"""The page of a run that trains: made when asked for, and no more of it anew than there is news."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from revgrad.diagnostics.kept import FOLDER, read_kept
from revgrad.diagnostics.symptoms import find_symptoms
from revgrad.diagnostics.verdict import Verdict, verdict
from revgrad.reports.clouds import Cloud, project
from revgrad.reports.findings import read_findings
from revgrad.reports.page import Watch, make_page, render
from revgrad.reports.page_clouds import POINTS
from revgrad.training.runs import BASELINE, CONFIG, FAILURE, METRICS, Run


class RememberedClouds:
    """Lays out features as `project` does, and only once as long as they stay the same."""

    def __init__(self, place: Callable[[str, np.ndarray, np.ndarray], Cloud] = project) -> None:
        self._place = place
        self._known: dict[str, Cloud] = {}

    def __call__(self, title: str, source: np.ndarray, target: np.ndarray) -> Cloud:
        digest = hashlib.sha256(title.encode())
        for features in (source, target):
            digest.update(repr(features.shape).encode())
            digest.update(np.ascontiguousarray(features).tobytes())
        key = digest.hexdigest()
        if key not in self._known:
            # one cloud before and one after: older ones are of no use
            self._known = dict(list(self._known.items())[-3:])
            self._known[key] = self._place(title, source, target)
        return self._known[key]


class RememberedVerdicts:
    """Judges as `verdict` does, and anew only when there is new evidence; symptoms are always new.

    Between two evaluations a run that trains adds records, not evidence.
    """

    def __init__(self) -> None:
        self._known: tuple[str, Verdict] | None = None

    def __call__(self, run: Run) -> Verdict:
        state = stamp(_evidence_files(run.folder))
        if self._known is None or self._known[0] != state:
            self._known = state, verdict(run)
            return self._known[1]
        kept, config = read_kept(run.folder), run.config
        symptoms = find_symptoms(
            run.records(),
            None if kept is None else kept.last,
            steps=config.settings.get("steps"),
            failure=run.failure,
            classes=config.class_count,
        )
        return replace(self._known[1], symptoms=symptoms)


class WatchedRun:
    """The page of a run as it trains; made when asked for, and only when its files changed."""

    def __init__(self, folder: Path | str, every: float, points: int = POINTS) -> None:
        self.folder = Path(folder)
        self.every = every
        self.points = points
        self._clouds, self._verdicts = RememberedClouds(), RememberedVerdicts()
        self._made: tuple[str, bytes] | None = None
        self._lock = threading.Lock()

    def version(self) -> str:
        """Changes when a file that the page is made of does."""
        folders = (self.folder, self.folder / BASELINE)
        records = [folder / name for folder in folders for name in (CONFIG, METRICS)]
        return stamp([*records, *_evidence_files(self.folder)])

    def page(self) -> bytes:
        """One page at a time, however many ask."""
        with self._lock:
            version = self.version()  # before reading: what changes meanwhile is seen next time
            if self._made is None or self._made[0] != version:
                page = make_page(
                    [read_findings(self.folder, self._verdicts)], self.points, self._clouds
                )
                self._made = version, render(page, Watch(self.every, version))
            return self._made[1]


def stamp(paths: Iterable[Path]) -> str:
    """Changes when one of the files does, comes or goes; reads none of them."""
    seen = []
    for path in paths:
        with contextlib.suppress(OSError):
            state = path.stat()
            seen.append(f"{path} {state.st_mtime_ns} {state.st_size}")
    return hashlib.sha256("\n".join(seen).encode("utf-8", "replace")).hexdigest()[:16]


def _evidence_files(folder: Path) -> list[Path]:
    """What a verdict rests on, beyond the records."""
    found = []
    for run in (folder, folder / BASELINE):
        found += [run / FAILURE, *sorted((run / FOLDER).glob("*.safetensors"))]
    return found
