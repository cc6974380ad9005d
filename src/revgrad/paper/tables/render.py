"""From records to tables: pure functions, no file is read and no network run.

A line of a table is one method on one cell with one budget: the mean over seeds ± their standard
deviation (n − 1), the share of the gap between source-only and train-on-target that it covers (by
the SVM's numbers, as in the paper), and what the paper printed. What has not been run shows as a
dash.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from revgrad.paper.tables.experiment import METHOD_TITLES, Experiment, Published
from revgrad.training.record import Record

DASH = "–"
ORACLE = "-oracle"
#: The lines that a share of the gap lies between.
BOUNDS = ("source-only", "train-on-target")
#: Methods whose own classifier is a linear SVM.
BY_SVM = ("subspace-alignment",)
HEADINGS = (
    "cell",
    "method",
    "target {measure}",
    "seeds",
    "with SVM",
    "gap covered",
    "the paper",
    "held-out source",
    "budget",
    "time",
)
#: What a reader must know of data whose name says that they are not the whole original.
REDUCED = {
    "svhn28": "SVHN: pixels reduced from 32×32 to 28×28",
    "gtsrb40": "GTSRB: every third frame of the training tracks, 40×40 pixels",
    "digits": "digits: 5,000 of MNIST's, standing in for the cell's own source",
}


@dataclass(frozen=True)
class Line:
    """One line of a table; what is not known is None."""

    cell: str
    method: str
    measure: str = "accuracy"
    value: float | None = None
    sd: float | None = None
    seeds: int = 0
    svm: float | None = None
    svm_seeds: int = 0
    gap: float | None = None
    published: Published | None = None
    source: float | None = None
    budget: str = ""
    seconds: float | None = None

    @property
    def title(self) -> str:
        return METHOD_TITLES.get(self.method, self.method)


def table_lines(
    records: Iterable[Record],
    experiments: Sequence[Experiment],
    *,
    missing: bool = True,
    others: bool = False,
) -> list[Line]:
    """The experiments' lines in the tables' order; several budgets of a method follow each other.

    Parameters
    ----------
    missing
        a line of dashes for a method that no record is of
    others
        then the lines of cells that no experiment has
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((cell_name(record.cell), record.method), []).append(record)
    lines = []
    for experiment in experiments:
        for method in experiment.methods:
            found = groups.pop((experiment.cell, method), [])
            if found or missing:
                lines += _method_lines(experiment, method, found)
    cells = list(dict.fromkeys(cell for cell, _ in groups)) if others else []
    for cell in sorted(cells):
        methods = [m for c, m in groups if c == cell]
        plain = Experiment("", cell, "", "", "", "", 0, tuple(methods))
        order = {method: number for number, method in enumerate(METHOD_TITLES)}
        for method in sorted(methods, key=lambda method: order.get(method, len(order))):
            lines += _method_lines(plain, method, groups[cell, method])
    return _with_gaps(lines)


def cell_name(text: str) -> str:
    """A cell as experiments call it: `revgrad train` names the splits of its data too."""
    source, arrow, target = text.partition("->")
    return arrow.join(
        part.removesuffix(":train").removesuffix(":test") for part in (source, target)
    )


def gap_covered(value: float, lower: float, upper: float) -> float | None:
    """(value − source-only) / (train-on-target − source-only); None where there is no gap."""
    return (value - lower) / (upper - lower) if upper > lower else None


def notes(records: Iterable[Record], experiments: Sequence[Experiment]) -> list[str]:
    """What must stand below a table: of its cells, and of data that are not the whole original."""
    used = {name for record in records for name in record.data.values()}
    shared: dict[str, list[str]] = {}
    for one in experiments:
        if one.note:
            shared.setdefault(one.note, []).append(one.cell)
    said = [f"{', '.join(cells)}: {note}." for note, cells in shared.items()]
    return [*said, *(f"{text}." for name, text in REDUCED.items() if name in used)]


# -- as text ----------------------------------------------------------------------------------


def as_cells(line: Line) -> tuple[str, ...]:
    """A line's texts, under `HEADINGS`."""
    return (
        line.cell,
        line.title,
        number(line.value, line.sd),
        str(line.seeds) if line.seeds else DASH,
        number(line.svm) + (f" (of {line.svm_seeds})" if 0 < line.svm_seeds < line.seeds else ""),
        DASH if line.gap is None else f"{100 * line.gap:.1f} %",
        _published(line),
        number(line.source),
        line.budget or DASH,
        duration(line.seconds),
    )


def as_markdown(lines: Sequence[Line]) -> str:
    heads = headings(lines)
    rows = [heads, ("---",) * len(heads), *(as_cells(line) for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def as_csv(lines: Sequence[Line]) -> str:
    """Numbers in full, an empty field where there is none."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = ("cell", "method", "measure", "mean", "sd", "seeds", "svm", "gap", "published")
    writer.writerow([*names, "published_sd", "published_gap", "source", "budget", "seconds"])
    for line in lines:
        printed = line.published or Published(float("nan"))
        known = line.published is not None
        row = [line.cell, line.method, line.measure, line.value, line.sd, line.seeds, line.svm]
        row += [line.gap, printed.value if known else None, printed.sd, printed.gap]
        writer.writerow([*row, line.source, line.budget, line.seconds])
    return buffer.getvalue()


def as_latex(lines: Sequence[Line]) -> str:
    """A tabular that compiles with plain LaTeX, no package needed."""
    heads = headings(lines)
    body = [heads, *(as_cells(line) for line in lines)]
    rows = [" & ".join(_escape(text) for text in row) + r" \\" for row in body]
    before = ""
    ruled = []
    for line, row in zip([None, *lines], rows, strict=True):
        if line is not None and line.cell != before:
            ruled.append(r"\hline")
            before = line.cell
        ruled.append(row)
    columns = "ll" + "r" * (len(heads) - 2)
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *ruled, r"\hline", r"\end{tabular}", ""])


def headings(lines: Sequence[Line]) -> tuple[str, ...]:
    measures = dict.fromkeys(line.measure for line in lines) or {"accuracy": None}
    return tuple(head.format(measure=" / ".join(measures)) for head in HEADINGS)


def number(value: float | None, sd: float | None = None) -> str:
    if value is None:
        return DASH
    return f"{value:.4f}" + ("" if sd is None else f" ± {sd:.4f}")


def duration(seconds: float | None) -> str:
    """Wall time of one run."""
    if seconds is None:
        return DASH
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


# -- how lines are made -----------------------------------------------------------------------


def _method_lines(experiment: Experiment, method: str, records: Sequence[Record]) -> list[Line]:
    """One line a budget, and one more for the oracle where there is one."""
    budgets: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda r: (r.steps, r.budget, r.seed)):
        budgets.setdefault(record.budget, []).append(record)
    lines = []
    for group in budgets.values() or [[]]:
        lines.append(_line(experiment, method, group, [r.target_accuracy for r in group]))
        oracle = [r.target_accuracy_oracle for r in group]
        if any(value is not None for value in oracle) or (
            method + ORACLE in experiment.published and not group
        ):
            lines.append(_line(experiment, method + ORACLE, group, oracle))
    return lines


def _line(
    experiment: Experiment, method: str, group: Sequence[Record], accuracies: Sequence[float | None]
) -> Line:
    def shown(values: Iterable[float | None]) -> list[float]:
        known = [value for value in values if value is not None]
        return [1 - value for value in known] if experiment.measure == "error" else known

    values, svm = shown(accuracies), shown(r.target_accuracy_svm for r in group)
    sources = [r.source_accuracy for r in group if r.source_accuracy is not None]
    return Line(
        cell=experiment.cell,
        method=method,
        measure=experiment.measure,
        value=_mean(values),
        sd=statistics.stdev(values) if len(values) > 1 else None,
        seeds=len(values),
        svm=_mean(svm),
        svm_seeds=len(svm),
        published=experiment.published.get(method),
        source=_mean(sources),
        budget=group[0].budget if group else "",
        seconds=_mean([r.seconds for r in group]),
    )


def _with_gaps(lines: Sequence[Line]) -> list[Line]:
    """Each cell's bounds are its source-only and train-on-target lines of the most steps.

    As in the paper the share is that of the SVM's numbers; in a cell whose bounds have none, of the
    classifiers' own. The two never meet in one share.
    """
    bounds = {(line.cell, line.method): line for line in lines if line.value is not None}
    completed = []
    for line in lines:
        lower, upper = (bounds.get((line.cell, method)) for method in BOUNDS)
        if lower is None or upper is None or line.method in BOUNDS:
            completed.append(line)
            continue
        by_svm = lower.svm is not None and upper.svm is not None
        below, value, above = (_of_svm(x) if by_svm else x.value for x in (lower, line, upper))
        if below is not None and value is not None and above is not None:
            line = replace(line, gap=gap_covered(value, below, above))
        completed.append(line)
    return completed


def _of_svm(line: Line) -> float | None:
    """The line's accuracy by an SVM; subspace alignment classifies by one to begin with."""
    return line.value if line.method.removesuffix(ORACLE) in BY_SVM else line.svm


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _published(line: Line) -> str:
    if line.published is None:
        return DASH
    shown = number(line.published.value, line.published.sd)
    return shown if line.published.gap is None else f"{shown} ({100 * line.published.gap:.1f} %)"


def _escape(text: str) -> str:
    for plain, latex in (
        ("\\", r"\textbackslash{}"),
        ("->", r"$\to$"),
        ("→", r"$\to$"),
        ("±", r"$\pm$"),
        ("×", r"$\times$"),
        (DASH, "--"),
        *((c, "\\" + c) for c in "%&#_"),
    ):
        text = text.replace(plain, latex)
    return text
