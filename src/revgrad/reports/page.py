"""Page `report.html`: one file that shows what a run did, or several; it needs no network.

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
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from revgrad._system import write_atomically
from revgrad.errors import InputError
from revgrad.reports.clouds import CLOUD_POINTS, LayOut, tsne_cloud
from revgrad.reports.contents import RunPage, RunsPage, page_of_run, page_of_runs
from revgrad.reports.figures import SOURCE_COLOUR, TARGET_COLOUR
from revgrad.reports.run_summary import RunSummary, read_summary
from revgrad.version import __version__

#: The file's name unless said.
REPORT = "report.html"


@dataclass(frozen=True)
class Refreshing:
    """A page that is served asks every so many seconds whether `version` is still the latest."""

    every: float
    version: str


def write_report(
    runs: Sequence[RunSummary | Path | str],
    output: Path | str | None = None,
    *,
    points: int = CLOUD_POINTS,
) -> Path:
    """Write the page of one run, or of several side by side; where it is.

    Parameters
    ----------
    runs
        their folders, or summaries of them
    output
        by default report.html in the run's folder; of several runs, in the current one
    points
        of each domain in a cloud, of those that the run recorded; fewer where runs are many
    """
    if not runs:
        raise InputError("a report needs a run at least: give the folder of one")
    if points < 1:
        raise InputError(f"a cloud needs a point of each domain at least, not {points}")
    summaries = [run if isinstance(run, RunSummary) else read_summary(run) for run in runs]
    path = Path(output or (summaries[0].folder if len(runs) == 1 else "."))
    if path.is_dir():
        path = path / REPORT
    write_atomically(path, render_page(make_page(summaries, points)))
    return path


def make_page(
    runs: Sequence[RunSummary], points: int = CLOUD_POINTS, lay_out: LayOut = tsne_cloud
) -> RunPage | RunsPage:
    """What the page shows."""
    if len(runs) == 1:
        return page_of_run(runs[0], points, lay_out)
    return page_of_runs(runs, points, lay_out)


def render_page(
    page: RunPage | RunsPage,
    refreshing: Refreshing | None = None,
    clock: Callable[[], datetime] = datetime.now,
) -> bytes:
    """The whole file. Names that come from users are escaped by the template and by `_as_json`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("revgrad.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": _percent,
        "signed": _signed,
        "sure": _sure,
        "sentence": _sentence,
        "maths": _maths,
        "breakable": _breakable,
    }
    script = _packaged("page.js")
    data = {**page.data, "refreshing": None if refreshing is None else asdict(refreshing)}
    html = environment.get_template("page.html.jinja").render(
        page=page,
        several=isinstance(page, RunsPage),
        css=_packaged("page.css"),
        colours={"source": SOURCE_COLOUR, "target": TARGET_COLOUR},
        script=script,
        data=_as_json(data),
        policy=_policy(script, refreshing is not None),
        made=clock().strftime("%Y-%m-%d %H:%M"),
        watched=refreshing is not None,
        version=__version__,
    )
    # a folder's name may hold bytes that are no UTF-8
    return html.encode("utf-8", "replace")


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _signed(value: float) -> str:
    return f"{value:.4f}".replace("-", "−")


def _sure(share: float) -> str:
    """100% would be more than a network can know."""
    return ">99.9%" if share > 0.9994 else _percent(share)


def _sentence(text: str) -> str:
    """With a capital and a full stop; λ and L_y stay as they are."""
    first = text[:1].upper() if text[:1].isascii() else text[:1]
    return first + text[1:] + ("" if text.endswith((".", "!", "?", "…")) else ".")


def _maths(text: str) -> Markup:
    """L_y and L_d as the paper sets them."""
    return Markup(re.sub(r"\bL_([yd])\b", r"L<sub>\1</sub>", str(escape(text))))


def _breakable(text: str) -> Markup:
    """Lines may end after `(`, `=`, `,` and `/`, rather than within a word."""
    return Markup("<wbr>").join(re.split(r"(?<=[(=,/])(?=\S)", text))


def _policy(script: str, served: bool) -> str:
    """What the browser lets the page do: run our own script, show its own images, nothing else."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    ask = "'self'" if served else "'none'"
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; connect-src {ask}; base-uri 'none'; form-action 'none'"
    )


def _as_json(value: Any) -> str:
    """json that can stand in a <script>: no tag can end it; what is not finite is null."""
    text = json.dumps(_without_nan(value), allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return value


def _packaged(name: str) -> str:
    return files("revgrad.reports").joinpath("templates", name).read_text(encoding="utf-8")
