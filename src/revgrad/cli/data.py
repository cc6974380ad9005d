"""`revgrad data`: what domains there are; get, make, see and check them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from revgrad.cli.common import JSON, ImageOptions, echo_json, speak
from revgrad.errors import InputError, RevgradError, unknown

if TYPE_CHECKING:
    from revgrad.domains.catalogue import Entry

app = typer.Typer(
    help="The named domains: list, fetch, make, show, check.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.command("list")
def list_domains(as_json: bool = JSON) -> None:
    """What domains there are, how to get each, and which are here."""
    from revgrad.domains import cache_folder, data_folder
    from revgrad.domains.catalogue import CATALOGUE

    if not as_json:
        typer.echo(f"data folder {data_folder()}, cache {cache_folder()}\n")
    for name, entry in CATALOGUE.items():
        state = _state(entry)
        if as_json:
            splits = dict(entry.splits)
            echo_json({"name": name, "how": entry.how, "state": state, "splits": splits})
            continue
        counts = ", ".join(f"{k} {v:,}" if v else k for k, v in entry.splits.items())
        typer.echo(f"{name:<17} {state:<34} {entry.what}\n{'':<17} {entry.shape}; {counts}")


@app.command()
def fetch(
    name: str = typer.Argument(..., help="mnist, svhn, svhn-extra, gtsrb, usps, bsds500, …"),
    as_json: bool = JSON,
) -> None:
    """Download a data set into the data folder: resumed, checked, whole or not at all."""
    speak()
    from revgrad.domains.fetching import fetch as get

    folder = get(name)
    if as_json:
        echo_json({"name": name, "folder": str(folder)})
    else:
        typer.echo(f"{name} is in {folder}")


@app.command()
def make(
    name: str = typer.Argument(..., help="mnist-m, syn-numbers or syn-signs, perhaps :test."),
    count: int | None = typer.Option(
        None, help="How many (syn-numbers, syn-signs). Default: the set's own number."
    ),
    seed: int = typer.Option(0, help="Another seed makes another set."),
    size: int | None = typer.Option(None, help="mnist-m: 28 or 32. Default: 28."),
    clutter: float = typer.Option(
        0.0, help="syn-numbers: share of images with structured background, 0 to 1."
    ),
    pen: float = typer.Option(
        0.0, help="syn-numbers: share of images written by pen instead of set in a font, 0 to 1."
    ),
    varied: bool = typer.Option(
        False,
        "--varied",
        help="syn-numbers: light, shadows, outlines, noise and slant too, which the paper does not "
        "list.",
    ),
    pictograms: Path | None = typer.Option(
        None, help="syn-signs: a folder of pictures 0.png … 42.png instead of our drawings."
    ),
    workers: int | None = typer.Option(None, help="Processes. Default: one a core."),
    as_json: bool = JSON,
) -> None:
    """Generate a synthetic set into the cache folder; the same bytes on any number of processes."""
    speak()
    from revgrad.domains.making import make_domain

    began = time.perf_counter()
    domain = make_domain(
        name,
        count=count,
        seed=seed,
        size=size,
        clutter=clutter,
        pen=pen,
        varied=varied,
        pictograms=pictograms,
        workers=workers,
    )
    seconds = time.perf_counter() - began
    if as_json:
        echo_json({"name": name, "count": len(domain), "seconds": round(seconds, 2)})
    else:
        typer.echo(f"{name}: {len(domain):,} images of {domain.shape} in {seconds:.1f} s")


@app.command()
def show(
    names: list[str] = typer.Argument(..., help="Domains, from top to bottom: source target."),
    output: Path = typer.Option(Path("domains.png"), "--output", "-o", help="A PNG file."),
    columns: int = typer.Option(12, min=1, max=60, help="Images of each."),
    size: str | None = typer.Option(None, help="Image size, for folders of many sizes."),
    seed: int = typer.Option(0, help="Decides which images."),
) -> None:
    """Draw a contact sheet: a row of images for each domain, as in the paper's Figure 2."""
    speak()
    from revgrad.reports.samples import draw_samples

    images = ImageOptions(size)
    rows = [(name, images.opened(name)) for name in names]
    for name, domain in rows:
        if not domain.is_images:
            raise InputError(f"{name} holds no images, but inputs of shape {domain.shape}")
    draw_samples(output, rows, columns, seed)
    typer.echo(f"see {output}")


@app.command()
def check(
    names: list[str] = typer.Argument(None, help="Domains. Default: all that are here."),
    as_json: bool = JSON,
) -> None:
    """Open domains and verify checksums, counts and classes; exit 1 where something is wrong."""
    speak(quiet=True)
    from revgrad.domains.catalogue import CATALOGUE

    for name in names or ():
        if name not in CATALOGUE:
            raise unknown("domain", name, CATALOGUE)
    bad = False
    for name in names or CATALOGUE:
        reports = _check(name, CATALOGUE[name])
        nothing = all(report["state"] == "absent" for report in reports)
        bad |= any(report["state"] == "WRONG" for report in reports) or (bool(names) and nothing)
        for report in reports:
            if as_json:
                echo_json(report)
            elif names or report["state"] != "absent":
                typer.echo(f"{report['state']:<7} {name}:{report['split']}  {report['text']}")
    if bad:
        raise typer.Exit(1)


def _state(entry: Entry) -> str:
    """Whether a domain can be had now, without reading it."""
    from revgrad.domains import data_folder
    from revgrad.domains.fetching import found
    from revgrad.domains.sources import SOURCES

    if entry.how in ("make", "in wheels"):
        return "made when asked for" if entry.how == "make" else "in installed wheels"
    source = SOURCES[entry.source or ""]
    folder = data_folder()
    if source.files and all(found(remote, folder) for remote in source.files):
        return "here, complete"
    if any(folder.glob(f"{source.folder}*/*")):
        return "here, in other files"
    return "missing: revgrad data fetch" if source.files else "missing: put there by hand"


def _check_files(name: str, entry: Entry) -> list[dict[str, Any]]:
    """Official files that are here must have their official size and checksum."""
    from revgrad.domains import data_folder
    from revgrad.domains.fetching import is_whole
    from revgrad.domains.sources import SOURCES

    reports = []
    for remote in SOURCES[entry.source].files if entry.source else ():
        path = data_folder() / remote.file
        if path.is_file():
            right = is_whole(path, remote)
            known = "size and checksum are" if right else "size or checksum is not"
            text = f"{path.name}: {known} the official one{'s' if right else ''}"
            state = "right" if right else "WRONG"
            reports.append({"name": name, "split": "files", "state": state, "text": text})
    return reports


def _check(name: str, entry: Entry) -> list[dict[str, Any]]:
    """One report a split: right, WRONG, or absent."""
    from revgrad.domains import open_domain
    from revgrad.domains.sources import Missing

    reports = _check_files(name, entry)
    for split, expected in entry.splits.items():
        try:
            domain = open_domain(f"{name}:{split}")
        except RevgradError as error:
            state = "absent" if isinstance(error, Missing) else "WRONG"
            reports.append({"name": name, "split": split, "state": state, "text": str(error)})
            continue
        problems = []
        if expected is not None and len(domain) != expected:
            problems.append(f"{expected:,} expected")
        if domain.class_count != entry.classes:
            problems.append(f"{domain.class_count} classes, {entry.classes} expected")
        shape = "×".join(str(side) for side in domain.shape)
        text = f"{len(domain):,} samples of {shape}, {domain.class_count} classes"
        text = "; ".join([text, *problems])
        state = "WRONG" if problems else "right"
        reports.append({"name": name, "split": split, "state": state, "text": text})
    return reports
