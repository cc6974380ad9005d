"""`report.html`: one file that shows what a run did, or several; it needs no network.

write_report(["runs/a"])                     # runs/a/report.html
write_report(["runs/a", "runs/b"])           # report.html, the runs side by side
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from revgrad.errors import InputError
from revgrad.files import write_atomically
from revgrad.reports.drawing import SOURCE, TARGET
from revgrad.reports.findings import Findings, read_findings
from revgrad.reports.page_clouds import POINTS, Project
from revgrad.reports.page_of_run import RunPage, page_of_run
from revgrad.reports.page_of_runs import RunsPage, page_of_runs
from revgrad.version import __version__

NAME = "report.html"


@dataclass(frozen=True)
class Watch:
    """A page that is served asks every so many seconds whether `version` is still the latest."""

    every: float
    version: str


def write_report(
    runs: Sequence[Findings | Path | str],
    output: Path | str | None = None,
    *,
    points: int = POINTS,
) -> Path:
    """Write the page of one run, or of several side by side; where it is.

    runs     their folders, or what was read of them already
    output   by default report.html in the run's folder; of several runs, in the current one
    points   of each domain in a cloud, of those that the run kept; fewer where runs are many
    """
    if not runs:
        raise InputError("a report needs a run at least: give the folder of one")
    if points < 1:
        raise InputError(f"a cloud needs a point of each domain at least, not {points}")
    path = Path(output) if output is not None else _default(runs)
    if path.is_dir():
        path = path / NAME
    found = [run if isinstance(run, Findings) else read_findings(run) for run in runs]
    html = render(make_page(found, points))
    write_atomically(path, html)
    return path


def make_page(
    runs: Sequence[Findings], points: int = POINTS, place: Project | None = None
) -> RunPage | RunsPage:
    """What the page shows; `place` is what lays out clouds."""
    if len(runs) == 1:
        return page_of_run(runs[0], points, place)
    return page_of_runs(runs, points, place)


def render(
    page: RunPage | RunsPage,
    watch: Watch | None = None,
    clock: Callable[[], datetime] = datetime.now,
) -> bytes:
    """The whole file. Names that come from users are escaped by the template and by `_embedded`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("revgrad", "reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    script = _packaged("page.js")
    data = {**page.data, "watch": None if watch is None else watch.__dict__}
    html = environment.get_template("page.html.jinja").render(
        page=page,
        several=isinstance(page, RunsPage),
        css=_packaged("page.css").replace("SOURCE", SOURCE).replace("TARGET", TARGET),
        script=script,
        data=_embedded(data),
        policy=_policy(script, watch is not None),
        made=clock().strftime("%Y-%m-%d %H:%M"),
        watched=watch is not None,
        version=__version__,
    )
    # a folder's name may hold bytes that are no UTF-8
    return html.encode("utf-8", "replace")


def _maths(text: str) -> Markup:
    """L_y and L_d as the paper sets them."""
    return Markup(re.sub(r"\bL_([yd])\b", r"L<sub>\1</sub>", str(escape(text))))


def _sentence(text: str) -> str:
    """With a capital and a full stop; λ and L_y stay as they are."""
    first = text[:1].upper() if text[:1].isascii() else text[:1]
    return first + text[1:] + ("" if text.endswith((".", "!", "?", "…")) else ".")


def _sure(share: float) -> str:
    """100% would be more than a network can know."""
    return ">99.9%" if share > 0.9994 else f"{share:.1%}"


#: How the templates write numbers and symbols.
FILTERS: dict[str, Callable[..., str]] = {
    "percent": lambda share: f"{share:.1%}",
    "signed": lambda value: f"{value:.4f}".replace("-", "−"),
    "sure": _sure,
    "sentence": _sentence,
    "maths": _maths,
}


def _policy(script: str, served: bool) -> str:
    """What the browser lets the page do: run our own script, show its own images, nothing else."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    ask = "'self'" if served else "'none'"
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; connect-src {ask}; base-uri 'none'; form-action 'none'"
    )


def _embedded(value: Any) -> str:
    """json that can stand in a <script>: no tag can end it; what is not finite is null."""
    text = json.dumps(_finite(value), allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value


def _packaged(name: str) -> str:
    return files("revgrad.reports").joinpath(name).read_text(encoding="utf-8")


def _default(runs: Sequence[Findings | Path | str]) -> Path:
    if len(runs) > 1:
        return Path(NAME)
    run = runs[0]
    return (run.folder if isinstance(run, Findings) else Path(run)) / NAME
