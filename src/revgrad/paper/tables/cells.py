"""Which cells are meant, and whether their data are here."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from revgrad.domains import open_domain
from revgrad.errors import DataError, InputError, MissingExtraError, unknown
from revgrad.paper.tables import ON_REQUEST, TABLES
from revgrad.paper.tables.backbones import BACKBONES, backbone_features
from revgrad.paper.tables.budgets import Budget
from revgrad.paper.tables.experiment import Experiment
from revgrad.paper.tables.job import folder_name

log = logging.getLogger("revgrad")


def choose_cells(table: str, cells: Sequence[str] = ()) -> tuple[Experiment, ...]:
    """The cells of a table; those named, where some are.

    A cell may be written with "->", "→" or "-to-", or as its folder is named; without what stands
    behind its colon or comma it means all that begin so.
    """
    if table not in TABLES:
        raise unknown("table", table, TABLES)
    if not cells:
        return TABLES[table]
    known = (*TABLES[table], *ON_REQUEST.get(table, ()))
    chosen: dict[str, Experiment] = {}
    for text in cells:
        wanted = text.replace("→", "->").replace("-to-", "->").strip()
        found = [one for one in known if wanted == one.cell or text == folder_name(one.cell)]
        found = found or [one for one in TABLES[table] if _short(one.cell) == wanted]
        if not found:
            raise unknown(f"cell of {table}", text, [one.cell for one in known])
        chosen |= {one.cell: one for one in found}
    return tuple(chosen.values())


def parse_seeds(text: str | None) -> tuple[int, ...]:
    """`0,1,2` or `0-4`, or both; nothing means the experiment's own."""
    if text is None:
        return ()
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            seeds += range(int(first), int(last if dash else first) + 1)
    except ValueError:
        seeds = []
    if not seeds:
        raise InputError(f"seeds are numbers with commas or a dash between, not '{text}'")
    return tuple(dict.fromkeys(seeds))


def available_cells(
    experiments: Sequence[Experiment], budget: Budget, *, named: bool
) -> tuple[Experiment, ...]:
    """Those whose data can be had; pretrained features are computed here, once for all processes.

    Where a cell was `named`, or nothing is left, what is missing is an error; else a note.
    """
    kept: list[Experiment] = []
    without: dict[str, list[str]] = {}  # what is missing → the cells that need it
    first: DataError | MissingExtraError | None = None
    for experiment in experiments:
        try:
            _open(budget.applied(experiment))
        except (DataError, MissingExtraError) as error:
            if named:
                raise
            without.setdefault(str(error), []).append(experiment.cell)
            first = first or error
        else:
            kept.append(experiment)
    if not kept and first is not None:
        raise first
    for reason, cells in without.items():
        be = "is" if len(cells) == 1 else "are"
        log.warning("%s %s left out: %s", ", ".join(cells), be, reason)
    return tuple(kept)


def _open(experiment: Experiment) -> None:
    needed = experiment.backbone or experiment.network
    if needed in BACKBONES:  # a pretrained network, whose weights come from elsewhere
        BACKBONES[needed].require()
    for text in dict.fromkeys((experiment.source, experiment.target, experiment.test)):
        domain = open_domain(text)
        if experiment.backbone is not None and experiment.backbone != "untrained":
            backbone_features(experiment.backbone, domain)


def _short(cell: str) -> str:
    return cell.partition(":")[0].partition(",")[0]
