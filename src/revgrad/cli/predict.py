"""`revgrad predict`: data to a table of predictions, or to an .npz file of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import typer

from revgrad.cli.common import (
    FOLLOW_LINKS,
    JSON,
    NETWORK_AGAIN,
    TASK_AGAIN,
    configure_logging,
    echo_json,
)
from revgrad.cli.inputs import folder_for, load_run, open_for
from revgrad.cli.predictions import GrowingTable, csv_text
from revgrad.errors import DataError, InputError, RevgradError

if TYPE_CHECKING:
    import numpy as np

    from revgrad.adapted import Adapted
    from revgrad.domains import Domain

_T = TypeVar("_T")

#: How files end that would hold a csv under another's name.
OTHER_FILES = (".feather", ".npy", ".ods", ".parquet", ".pickle", ".pkl", ".tsv", ".xls", ".xlsx")


class _Chunk(NamedTuple):
    """Samples with what they are called; `done` of all have been looked at with them."""

    samples: Domain | None
    names: list[str]
    done: int


class _Data(NamedTuple):
    """What is predicted, a chunk at a time from any sample on."""

    total: int
    key: str  # changes with the data
    chunks: Callable[[int], Iterator[_Chunk]]


def predict_command(
    run: Path = typer.Argument(..., help="Folder of the run."),
    data: str = typer.Argument(..., help="Inputs: a folder of images, an .npz file or a name."),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        help="A csv file, or an .npz file with the arrays files and predictions. Default: print "
        "csv. An interrupted csv file is gone on with by the same command.",
    ),
    network: str | None = NETWORK_AGAIN,
    task: str | None = TASK_AGAIN,
    follow_links: bool = FOLLOW_LINKS,
    as_json: bool = JSON,
) -> None:
    """Predict the class, or what the task predicts, of every input.

    A line each with file, class and confidence; of several labels, the labels and the probability
    of each; of a regression, the value; of a sequence, the classes. Maps (dense labels) go to an
    .npz file. Folders are read as they are predicted, in bounded memory. In the csv, texts that a
    spreadsheet would take for a formula (= + - @) begin with '. Started by torchrun, processes
    share out the inputs, and the first one writes.
    """
    from revgrad._distributed import process_group, rank

    configure_logging()
    adapted = load_run(run, network, task)
    found = _opened(adapted, data, follow_links)
    if output is not None and output.suffix.lower() in OTHER_FILES:
        raise InputError(
            f"predictions are written as .csv or .npz, not '{output.suffix}' as in {output.name}"
        )
    arrays = output is not None and output.suffix.lower() == ".npz"
    with process_group("cpu"):
        if rank() != 0:
            for _ in _arrays(adapted, found) if arrays else _parts(adapted, found, 0):
                pass  # the first process has them too, and writes them
        elif output is None:
            _print(adapted, found, as_json)
        elif arrays:
            _write_arrays(adapted, found, output)
        else:
            _write_table(adapted, found, output, as_json)


def _opened(adapted: Adapted, data: str, follow_links: bool) -> _Data:
    """The data in chunks: of a folder as they are read, of all else from what holds it."""
    from revgrad.evaluation import SAMPLES_AT_ONCE

    folder = folder_for(adapted, data, follow_links)
    if folder is not None:

        def read(start: int) -> Iterator[_Chunk]:
            for images, done in folder.chunks(start, SAMPLES_AT_ONCE):
                yield _Chunk(images, list((images and images.files) or ()), done)

        return _Data(len(folder), folder.key, read)
    domain = open_for(adapted, data, labels=False, follow_links=follow_links)
    if not len(domain):
        raise InputError(f"{domain.name} is empty: there is nothing to predict")
    if domain.files is not None:  # its samples come in no order that a reader would know
        domain = domain.subset(sorted(range(len(domain)), key=domain.files.__getitem__))
    count = len(domain)

    def take(start: int) -> Iterator[_Chunk]:
        for first in range(start, count, SAMPLES_AT_ONCE):
            where = range(first, min(first + SAMPLES_AT_ONCE, count))
            samples = domain.subset(where)
            yield _Chunk(samples, list(samples.files or map(str, where)), where.stop)

    return _Data(count, domain.fingerprint(), take)


class _Part(NamedTuple):
    """A chunk's part of the table; `done` of all samples have been looked at with it."""

    columns: list[str]
    lines: list[tuple[Any, ...]]
    done: int


def _parts(adapted: Adapted, data: _Data, start: int) -> Iterator[_Part]:
    """Parts of the table in order, from sample `start` on."""

    def part(chunk: _Chunk) -> _Part:
        if chunk.samples is None:
            return _Part([], [], chunk.done)
        columns = {"file": chunk.names, **adapted.table(chunk.samples)}
        return _Part(list(columns), list(zip(*columns.values(), strict=True)), chunk.done)

    return _by_chunk(data, start, part)


def _arrays(adapted: Adapted, data: _Data) -> Iterator[tuple[list[str], np.ndarray]]:
    """Names and predictions in order."""

    def part(chunk: _Chunk) -> tuple[list[str], np.ndarray] | None:
        return None if chunk.samples is None else (chunk.names, adapted.predict(chunk.samples))

    return (one for one in _by_chunk(data, 0, part) if one is not None)


def _by_chunk(data: _Data, start: int, work: Callable[[_Chunk], _T]) -> Iterator[_T]:
    """`work` of every chunk in order, from where the first process says. Several processes take
    the chunks in turn, and each gets what all found."""
    from revgrad._distributed import (
        from_every_process,
        from_first_process,
        rank,
        sharing_out,
        world_size,
    )
    from revgrad.evaluation import SAMPLES_AT_ONCE

    world = world_size()
    if world == 1:
        yield from map(work, data.chunks(start))
        return
    for first in range(from_first_process(start), data.total, world * SAMPLES_AT_ONCE):
        own = first + rank() * SAMPLES_AT_ONCE
        found: list[_T] | RevgradError = []
        if own < data.total:
            try:
                found = [work(next(data.chunks(own)))]
            except RevgradError as error:  # it ends all of them, in one line
                found = error
        with sharing_out():
            together = from_every_process(found)
        for one in together:
            if isinstance(one, RevgradError):
                raise one
            yield from one


def _print(adapted: Adapted, data: _Data, as_json: bool) -> None:
    printed = 0
    for columns, lines, _ in _parts(adapted, data, 0):
        if as_json:
            _print_json(columns, lines)
        elif lines:
            typer.echo(csv_text(columns, lines, header=not printed), nl=False)
        printed += len(lines)
    _require_some(printed, data)


def _print_json(columns: list[str], lines: list[tuple[Any, ...]]) -> None:
    for line in lines:
        echo_json(dict(zip(columns, line, strict=True)))


def _write_table(adapted: Adapted, data: _Data, output: Path, as_json: bool) -> None:
    """A csv that grows with every chunk; interrupted, the same command goes on with it."""
    from revgrad._system import progress_bar, sha256
    from revgrad.training.checkpoint import INDEX

    assert adapted.run is not None  # it was loaded
    weights = (adapted.run / INDEX).read_bytes()
    table = GrowingTable(output, sha256(weights + data.key.encode()))
    with table.opened(), progress_bar("predicting", data.total) as show:
        for columns, lines, done in _parts(adapted, data, table.done):
            text = csv_text(columns, lines, header=not table.lines) if lines else ""
            table.add(text, len(lines), done)
            if as_json:
                _print_json(columns, lines)
            show(table.done)
        _require_some(table.lines, data)
        table.finish()
    typer.echo(f"{table.lines} predictions in {output}", err=True)


def _write_arrays(adapted: Adapted, data: _Data, output: Path) -> None:
    """An .npz file; its predictions are gathered in memory, its inputs are not."""
    import numpy as np

    from revgrad._system import write_atomically

    names: list[str] = []
    parts = []
    for found, predictions in _arrays(adapted, data):
        names += found
        parts.append(predictions)
    _require_some(len(names), data)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, files=np.array(names, dtype=str), predictions=np.concatenate(parts))
    write_atomically(output, buffer.getvalue())
    typer.echo(f"{len(names)} predictions in {output}", err=True)


def _require_some(lines: int, data: _Data) -> None:
    if not lines:
        raise DataError(f"not one of the {data.total} images can be read")
