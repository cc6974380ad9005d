"""A run's page on this machine only, made anew when the run has something new to say.

with server_of("runs/a", port=8765) as server:
    server.serve_forever()
"""

from __future__ import annotations

import errno
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from revgrad.errors import InputError, RevgradError
from revgrad.reports.page_clouds import POINTS
from revgrad.reports.watching import WatchedRun
from revgrad.training.runs import Run

ADDRESS = "127.0.0.1"


class Server(ThreadingHTTPServer):
    """Answers to this machine only."""

    daemon_threads = True

    def __init__(self, run: WatchedRun, port: int) -> None:
        self.run = run
        super().__init__((ADDRESS, port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that leaves while it is answered is no error of anyone's."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    """`/` is the page, `/version` what tells whether it is still the latest."""

    server: Server
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
    folder: Path | str, *, port: int = 8765, every: float = 5.0, points: int = POINTS
) -> Server:
    """A server for a run's page, not yet serving; port 0 takes a free one."""
    if not 0 <= port < 65536:
        raise InputError(f"a port is a number from 1 to 65535 (0: any free one), not {port}")
    if not every > 0:
        raise InputError(f"the seconds between two looks must be above 0, not {every:g}")
    Run(folder).config  # noqa: B018  # refuses what is no run
    try:
        return Server(WatchedRun(folder, every, points), port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"port {port} is taken by another program: choose another, as --port {port + 1}"
            ) from None
        raise InputError(f"port {port} can't be used: {error.strerror}") from None
