"""`revgrad data`: the named domains, fetched and made; any data, yours too, shown and checked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from revgrad.cli import HELP
from revgrad.cli.common import FOLLOW_LINKS, JSON, configure_logging, echo_json
from revgrad.cli.inputs import ImageOptions
from revgrad.errors import DataError, InputError, RevgradError

if TYPE_CHECKING:
    from revgrad.domains import Domain
    from revgrad.paper.data.catalogue import Entry

data_commands = typer.Typer(
    help="List, fetch and make the named domains; show and check any data.",
    no_args_is_help=True,
    add_completion=False,
    context_settings=HELP,
)


@data_commands.command("list")
def list_command(as_json: bool = JSON) -> None:
    """What domains there are, how to get each, and which are here."""
    from revgrad._system import cache_folder, data_folder
    from revgrad.paper.data.catalogue import CATALOGUE

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


@data_commands.command("fetch")
def fetch_command(
    name: str = typer.Argument(..., help="mnist, svhn, svhn-extra, gtsrb, usps, bsds500, …"),
    as_json: bool = JSON,
) -> None:
    """Download a data set into the data folder: resumed, checked, whole or not at all."""
    configure_logging()
    from revgrad.paper.data.fetch import fetch

    folder = fetch(name)
    if as_json:
        echo_json({"name": name, "folder": str(folder)})
    else:
        typer.echo(f"{name} is in {folder}")


@data_commands.command("make")
def make_command(
    name: str = typer.Argument(..., help="mnist-m, syn-numbers or syn-signs, perhaps :test."),
    count: int | None = typer.Option(
        None, help="How many (syn-numbers, syn-signs). Default: the set's own number."
    ),
    seed: int = typer.Option(0, help="Another seed makes another set."),
    size: int | None = typer.Option(None, help="mnist-m: 28 or 32. Default: 28."),
    clutter: float = typer.Option(
        0.0, help="syn-numbers: share of images with structured background, 0 to 1."
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
    configure_logging()
    from revgrad.paper.synthetic.make import make_domain

    began = time.perf_counter()
    domain = make_domain(
        name,
        count=count,
        seed=seed,
        size=size,
        clutter=clutter,
        varied=varied,
        pictograms=pictograms,
        workers=workers,
    )
    seconds = time.perf_counter() - began
    if as_json:
        echo_json({"name": name, "count": len(domain), "seconds": round(seconds, 2)})
    else:
        typer.echo(f"{name}: {len(domain):,} images of {domain.shape} in {seconds:.1f} s")


@data_commands.command("show")
def show_command(
    names: list[str] = typer.Argument(
        ..., help="Names or paths of domains, from top to bottom: source target."
    ),
    output: Path = typer.Option(Path("domains.png"), "--output", "-o", help="A PNG file."),
    columns: int = typer.Option(12, min=1, max=60, help="Images of each."),
    size: str | None = typer.Option(None, help="Image size, for folders of many sizes."),
    seed: int = typer.Option(0, help="Decides which images."),
    follow_links: bool = FOLLOW_LINKS,
) -> None:
    """Draw a contact sheet: a row of images for each domain, as in the paper's Figure 2."""
    configure_logging()
    from revgrad.reports.figures import draw_samples

    images = ImageOptions(size, follow_links=follow_links)
    rows = [(name, images.opened(name)) for name in names]
    for name, domain in rows:
        if not domain.is_images:
            raise InputError(f"{name} holds no images, but inputs of shape {domain.shape}")
    draw_samples(output, rows, columns, seed)
    typer.echo(f"see {output}")


@data_commands.command("check")
def check_command(
    names: list[str] = typer.Argument(
        None, help="Names, or paths of folders and .npz files. Default: the named ones here."
    ),
    size: str | None = typer.Option(None, help="Image size, for folders of many sizes."),
    follow_links: bool = FOLLOW_LINKS,
    as_json: bool = JSON,
) -> None:
    """Open data and verify it; exit 1 where something is wrong.

    Of named domains: checksums, counts and classes. Of a folder or file of yours: that every image
    can be read, and how many samples there are, of what shape and of which classes.
    """
    configure_logging(quiet=True)
    from revgrad.paper.data.catalogue import CATALOGUE

    bad, images = False, ImageOptions(size, follow_links=follow_links)
    for name in names or CATALOGUE:
        named = name in CATALOGUE
        reports = _check(name, CATALOGUE[name]) if named else [_check_own(name, images)]
        nothing = all(report["state"] == "absent" for report in reports)
        bad |= any(report["state"] == "WRONG" for report in reports) or (bool(names) and nothing)
        for report in reports:
            if as_json:
                echo_json(report)
            elif names or report["state"] != "absent":
                shown = f"{name}:{report['split']}" if named else name
                typer.echo(f"{report['state']:<7} {shown}  {report['text']}")
    if bad:
        raise typer.Exit(1)


def _state(entry: Entry) -> str:
    """Whether a domain can be had now, without reading it."""
    from revgrad._system import data_folder
    from revgrad.paper.data.catalogue import DATA_SETS
    from revgrad.paper.data.fetch import found

    if entry.how in ("make", "in wheels"):
        return "made when asked for" if entry.how == "make" else "in installed wheels"
    data_set = DATA_SETS[entry.data_set or ""]
    folder = data_folder()
    if data_set.files and all(found(remote, folder) for remote in data_set.files):
        return "here, complete"
    if any(folder.glob(f"{data_set.folder}*/*")):
        return "here, in other files"
    return "missing: revgrad data fetch" if data_set.files else "missing: put there by hand"


def _check_files(name: str, entry: Entry) -> list[dict[str, Any]]:
    """Official files that are here must have their official size and checksum."""
    from revgrad._system import data_folder
    from revgrad.paper.data.catalogue import DATA_SETS
    from revgrad.paper.data.fetch import is_whole

    reports = []
    for remote in DATA_SETS[entry.data_set].files if entry.data_set else ():
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
    from revgrad.paper.data.catalogue import MissingData

    reports = _check_files(name, entry)
    for split, expected in entry.splits.items():
        try:
            domain = open_domain(f"{name}:{split}")
        except RevgradError as error:
            state = "absent" if isinstance(error, MissingData) else "WRONG"
            reports.append({"name": name, "split": split, "state": state, "text": str(error)})
            continue
        problems = []
        if expected is not None and len(domain) != expected:
            problems.append(f"{expected:,} expected")
        if domain.class_count != entry.classes:
            problems.append(f"{domain.class_count} classes, {entry.classes} expected")
        text = f"{_samples(domain)}, {domain.class_count} classes"
        text = "; ".join([text, *problems])
        state = "WRONG" if problems else "right"
        reports.append({"name": name, "split": split, "state": state, "text": text})
    return reports


def _check_own(text: str, images: ImageOptions) -> dict[str, Any]:
    """A report of the user's own data; a path that is not there is a mistake of the command."""
    report = {"name": text, "split": None, "state": "right"}
    try:
        domain = images.opened(text)
    except DataError as error:
        return {**report, "state": "WRONG", "text": str(error)}
    return {**report, "text": f"{_samples(domain)}, {_classes(domain)}"}


def _samples(domain: Domain) -> str:
    shape = "×".join(str(side) for side in domain.shape)
    return f"{len(domain):,} samples of {shape}"


def _classes(domain: Domain) -> str:
    """The classes with their numbers of samples; the extremes where there are many."""
    import numpy as np

    from revgrad.tasks.task import MOST_CLASSES

    if domain.labels is None:
        return "no labels"
    if not domain.is_classification or (domain.class_count or 0) > MOST_CLASSES:
        return "labels are numbers"
    counts = np.bincount(domain.labels, minlength=domain.class_count or 0).tolist()
    if len(counts) > 12:
        return f"{len(counts)} classes of {min(counts):,} to {max(counts):,} samples"
    names = domain.classes or [str(number) for number in range(len(counts))]
    each = ", ".join(f"{name} {count:,}" for name, count in zip(names, counts, strict=True))
    return f"{len(counts)} classes: {each}"
