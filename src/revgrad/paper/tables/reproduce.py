"""A table from beginning to end: choose, run, write it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from revgrad._system import write_atomically
from revgrad.errors import InputError
from revgrad.paper.tables import TABLES
from revgrad.paper.tables.bars import Bar, Panel, draw_bars
from revgrad.paper.tables.budgets import Budget
from revgrad.paper.tables.cells import available_cells, choose_cells
from revgrad.paper.tables.display import Display
from revgrad.paper.tables.experiment import Experiment
from revgrad.paper.tables.job import JOB_RECORD, folder_name
from revgrad.paper.tables.office31 import with_files
from revgrad.paper.tables.plan import plan
from revgrad.paper.tables.pool import run_jobs
from revgrad.paper.tables.render import Line, as_csv, as_latex, as_markdown, notes, table_lines
from revgrad.training.record import Record, read_record, write_records


class Reproduced(NamedTuple):
    """What came out, and the files it is in."""

    experiments: tuple[Experiment, ...]
    records: list[Record]
    lines: list[Line]
    files: list[Path]
    failures: dict[str, str]  # job → reason


def reproduce_table(
    table: str,
    budget: Budget,
    output: Path,
    *,
    cells: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
    processes: int = 1,
    quiet: bool = False,
    data: Path | None = None,
    weights: Path | None = None,
) -> Reproduced:
    """Run what is missing of a table and write it as Markdown, LaTeX, CSV, records and a figure."""
    if processes < 1:
        raise InputError(f"at least one process is needed, not {processes}")
    chosen = tuple(with_files(one, data, weights) for one in choose_cells(table, cells))
    plan(chosen, budget, output, methods=methods, seeds=seeds)  # mistakes before any waiting
    experiments = available_cells(chosen, budget, named=bool(cells))
    jobs = plan(experiments, budget, output, methods=methods, seeds=seeds)
    display = Display(len(jobs), quiet=quiet)
    try:
        results = run_jobs(jobs, display, processes)
    finally:
        display.close()
    records = [results.records[job.folder] for job in jobs if job.folder in results.records]
    failures = {
        job.title: results.failures[job.folder] for job in jobs if job.folder in results.failures
    }
    if budget.stand_ins:  # numbers of other data say nothing beside these
        experiments = tuple(replace(one, published={}, note="") for one in experiments)
    files = write_table(output / budget.name, table, experiments)
    return Reproduced(experiments, records, table_lines(records, experiments), files, failures)


def write_table(folder: Path, table: str, chosen: Sequence[Experiment]) -> list[Path]:
    """`table`.md, .tex, .csv, .png and the records, .jsonl: of all that is done in the folder.

    So a call for one cell or method adds to what is there; `chosen` cells are shown in any case.
    """
    folder.mkdir(parents=True, exist_ok=True)
    named = {one.cell: one for one in chosen}
    shown, records = [], []
    for one in {**{one.cell: one for one in TABLES[table]}, **named}.values():
        found = done_records(folder, one)
        if found or one.cell in named:
            shown.append(one)
            records += found
    lines = table_lines(records, shown)
    below = "".join(f"\n- {note}" for note in notes(records, shown))
    texts = {
        ".md": f"{as_markdown(lines)}\n{below}\n",
        ".tex": as_latex(lines),
        ".csv": as_csv(lines),
    }
    for suffix, text in texts.items():
        write_atomically(folder / f"{table}{suffix}", text.encode())
    write_records(folder / f"{table}.jsonl", records)
    draw_table(folder / f"{table}.png", shown, lines)
    return [folder / f"{table}{suffix}" for suffix in (*texts, ".png", ".jsonl")]


def done_records(folder: Path, experiment: Experiment) -> list[Record]:
    """Every record of a cell, of whatever method and seed."""
    paths = sorted((folder / folder_name(experiment.cell)).glob(f"*/{JOB_RECORD}"))
    return [record for record in map(read_record, paths) if record is not None]


def draw_table(path: Path, experiments: Sequence[Experiment], lines: Sequence[Line]) -> None:
    """A panel a cell."""
    panels = [
        Panel(
            experiment.cell.replace("->", " → ").replace(":", ", "),
            tuple(
                Bar(
                    line.title,
                    line.value,
                    line.sd,
                    None if line.published is None else line.published.value,
                )
                for line in lines
                if line.cell == experiment.cell
            ),
        )
        for experiment in experiments
    ]
    measure = experiments[0].measure
    draw_bars(path, panels, f"target {measure}")
