"""Watching a run: its page, served to this machine only, made anew while the run trains.

with server_of("runs/a", port=8765) as server:
    server.serve_forever()
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import sys
import threading
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from revgrad.diagnostics.recorder import EVIDENCE_FOLDER, read_evidence
from revgrad.diagnostics.symptoms import symptoms_of_run
from revgrad.diagnostics.verdict import Verdict, verdict
from revgrad.errors import InputError, RevgradError
from revgrad.reports.clouds import CLOUD_POINTS, Cloud, LayOut, tsne_cloud
from revgrad.reports.page import Refreshing, make_page, render_page
from revgrad.reports.run_summary import read_summary
from revgrad.training.run import BASELINE, CANDIDATES, CONFIG, FAILURE, METRICS, Run

#: This machine, and nobody else.
ADDRESS = "127.0.0.1"


class RememberedClouds:
    """Lays out features as `tsne_cloud` does, and only once as long as they stay the same."""

    def __init__(self, lay_out: LayOut = tsne_cloud) -> None:
        self._lay_out = lay_out
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
            self._known[key] = self._lay_out(title, source, target)
        return self._known[key]


class RememberedVerdicts:
    """Judges as `verdict` does, and anew only when there is new evidence; symptoms are always new.

    Between two evaluations a run that trains adds records, not evidence.
    """

    def __init__(self) -> None:
        self._known: tuple[str, Verdict] | None = None

    def __call__(self, run: Run) -> Verdict:
        state = _stamp(_evidence_files(run.folder))
        if self._known is None or self._known[0] != state:
            self._known = state, verdict(run)
            return self._known[1]
        recorded = read_evidence(run.folder)
        after = None if recorded is None else recorded.last
        symptoms = symptoms_of_run(run.config, run.records(), after, failure=run.failure)
        return replace(self._known[1], symptoms=symptoms)


def under_way(run: Path) -> Path:
    """The run itself; of `recipe="auto"`, which has not chosen yet, the training that it is at."""
    if (run / CONFIG).exists():
        return run
    begun = [one.parent for one in run.glob(f"{CANDIDATES}/*/{CONFIG}")]
    begun += [run / BASELINE] if (run / BASELINE / CONFIG).exists() else []
    return max(begun, key=lambda one: (one / CONFIG).stat().st_mtime_ns, default=run)


class WatchedRun:
    """The page of a run as it trains; made when asked for, and only when its files changed."""

    def __init__(self, folder: Path | str, every: float, points: int = CLOUD_POINTS) -> None:
        self.folder = Path(folder)
        self.every = every
        self.points = points
        self._clouds, self._verdicts = RememberedClouds(), RememberedVerdicts()
        self._made: tuple[str, bytes] | None = None
        self._lock = threading.Lock()

    def version(self) -> str:
        """Changes when a file that the page is made of does."""
        now = under_way(self.folder)
        folders = (now, now / BASELINE)
        records = [folder / name for folder in folders for name in (CONFIG, METRICS)]
        return _stamp([*records, *_evidence_files(now)])

    def page(self) -> bytes:
        """One page at a time, however many ask."""
        with self._lock:
            version = self.version()  # before reading: what changes meanwhile is seen next time
            if self._made is None or self._made[0] != version:
                summary = read_summary(under_way(self.folder), self._verdicts)
                page = make_page([summary], self.points, self._clouds)
                self._made = version, render_page(page, Refreshing(self.every, version))
            return self._made[1]


class PageServer(ThreadingHTTPServer):
    """Answers to this machine only."""

    daemon_threads = True

    def __init__(self, run: WatchedRun, port: int) -> None:
        self.run = run
        super().__init__((ADDRESS, port), PageHandler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that leaves while it is answered is no error of anyone's."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"


class PageHandler(BaseHTTPRequestHandler):
    """`/` is the page, `/version` what tells whether it is still the latest."""

    server: PageServer
    server_version, sys_version = "revgrad", ""
    timeout = 30  # a connection that says nothing

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if not self._known_host():
            # a page elsewhere whose name now points here must not read what this one says
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", b"this server answers as localhost\n")
        elif path == "/":
            try:
                self._answer(HTTPStatus.OK, "text/html", self.server.run.page())
            except RevgradError as error:
                said = f"{error}\n".encode("utf-8", "replace")
                self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", said)
        elif path == "/version":
            self._answer(HTTPStatus.OK, "text/plain", self.server.run.version().encode())
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"there is only /\n")

    do_HEAD = do_GET

    def _known_host(self) -> bool:
        port = self.server.server_port
        names = {ADDRESS, "localhost"}
        allowed = {f"{name}:{port}" for name in names} | (names if port == 80 else set())
        return self.headers.get("Host", "").lower() in allowed

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Every poll would be a line."""


def server_of(
    folder: Path | str, *, port: int = 8765, every: float = 5.0, points: int = CLOUD_POINTS
) -> PageServer:
    """A server for a run's page, not yet serving; port 0 takes a free one."""
    if not 0 <= port < 65536:
        raise InputError(f"a port is a number from 1 to 65535 (0: any free one), not {port}")
    if not every > 0:
        raise InputError(f"the seconds between two looks must be above 0, not {every:g}")
    Run(under_way(Path(folder))).config  # noqa: B018  # refuses what is no run
    try:
        return PageServer(WatchedRun(folder, every, points), port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"port {port} is taken by another program: choose another, as --port {port + 1}"
            ) from None
        raise InputError(f"port {port} can't be used: {error.strerror}") from None


def _stamp(paths: Iterable[Path]) -> str:
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
        found += [run / FAILURE, *sorted((run / EVIDENCE_FOLDER).glob("*.safetensors"))]
    return found
