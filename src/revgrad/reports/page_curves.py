"""Which curves a page shows: those of one run beside its baseline, or of several in one axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from revgrad.reports.curves import Chart, Key, Series
from revgrad.reports.findings import Findings

#: L_d of a domain classifier that guesses between two domains.
GUESSING = math.log(2)
#: Styles of lines that the page's stylesheet has for runs; beyond, they begin again.
RUN_LOOKS = 8
MEASURED = "measured with labels; decided nothing"


@dataclass(frozen=True)
class Curve:
    """A field of the records, and how it is shown. `evaluated`: of evaluations, not of training."""

    field: str
    title: str
    unit: str
    says: str
    evaluated: bool = False
    share: bool = False
    level: tuple[float, str] | None = None
    adversarial: bool = False  # `level` means something only where a domain classifier is trained


CURVES = (
    Curve(
        "label_loss",
        "Label loss L_y",
        "nats",
        "On labelled source rows in training. It should fall and stay low.",
    ),
    Curve(
        "domain_loss",
        "Domain loss L_d",
        "nats",
        "Low: the domain classifier tells the domains apart. At the dashed line it guesses; well "
        "above, it is outrun.",
        level=(GUESSING, "guessing, ln 2"),
        adversarial=True,
    ),
    Curve(
        "domain_accuracy",
        "Domain accuracy",
        "share of rows",
        "How often the domain classifier is right. Near half means that features are alike, or "
        "that it never learned.",
        share=True,
        level=(0.5, "guessing"),
        adversarial=True,
    ),
    Curve("factor", "Adaptation factor λ", "", "How much the reversed gradient counts."),
    Curve("rate", "Learning rate μ", "", "The size of the steps."),
)
HELD_OUT = (
    Curve(
        "source_accuracy",
        "Held-out source accuracy",
        "share of rows",
        "On source rows that were not trained on. Adaptation should cost little of it.",
        evaluated=True,
        share=True,
    ),
    Curve(
        "target_accuracy",
        "Target test accuracy",
        "share of rows",
        f"On labelled target rows: {MEASURED}.",
        evaluated=True,
        share=True,
    ),
    Curve(
        "source_loss",
        "Held-out source loss",
        "loss",
        "On source rows that were not trained on.",
        evaluated=True,
    ),
    Curve(
        "target_loss",
        "Target test loss",
        "loss",
        f"On labelled target rows: {MEASURED}.",
        evaluated=True,
    ),
)


def charts_of_run(findings: Findings) -> list[Chart]:
    """One run's curves in colour, its baseline's in grey. Accuracies share one picture."""
    found = [
        _chart(curve, _with_baseline(curve, findings, "plain"), [findings]) for curve in CURVES
    ]
    return [chart for chart in (*found, _held_out(findings)) if chart.drawn]


def charts_of_runs(runs: Sequence[Findings], names: Sequence[str]) -> list[Chart]:
    """Every run's curves in the same axes."""
    # losses are shown where there is no accuracy: both would say the same twice
    accuracies = any(_values(HELD_OUT[0], run) for run in runs)
    held_out = HELD_OUT[:2] if accuracies else HELD_OUT[2:]
    found = []
    for curve in (*CURVES, *held_out):
        series = [
            _series(name, look_of(number), curve, run)
            for number, (name, run) in enumerate(zip(names, runs, strict=True))
        ]
        found.append(_chart(curve, series, runs))
    return [chart for chart in found if chart.drawn]


def look_of(number: int) -> str:
    """The style of a run's line: colour and dashes."""
    return f"run{number % RUN_LOOKS} dash{number // RUN_LOOKS % 3}"


def first_broken(findings: Findings) -> int | None:
    """The step by which a loss was no longer finite; None where it always was."""
    for record in findings.training:
        losses = (record.label_loss, record.domain_loss)
        if any(loss is not None and not math.isfinite(loss) for loss in losses):
            return record.step
    return findings.step if findings.failure and "finite" in findings.failure else None


def _held_out(findings: Findings) -> Chart:
    """Source and target in one picture, told apart by colour, dashes and mark."""
    share = any(_values(curve, findings) for curve in HELD_OUT[:2])
    source, target = HELD_OUT[:2] if share else HELD_OUT[2:]
    series, keys = [], []
    for curve, side in ((source, "source"), (target, "target")):
        name = "source" if side == "source" else "target test"
        found = _with_baseline(curve, findings, side)
        series += [replace(one, name=f"{name}, {one.name}") for one in found]
        keys += [Key(name, side)] if found else []
    if any("baseline" in one.look for one in series):
        keys.append(Key("source only", "baseline"))
    tested = any(key.look == "target" for key in keys)
    says = source.says + (f" Target test: {MEASURED}." if tested else "")
    title = f"Held-out {'accuracy' if share else 'loss'}"
    both = Curve("held_out", title, source.unit, says, True, share)
    return replace(_chart(both, series, [findings]), legend=tuple(keys))


def _with_baseline(curve: Curve, findings: Findings, look: str) -> list[Series]:
    own = "this run" if findings.baseline is None else "adapted"
    found = [_series(own, look, curve, findings)]
    if findings.baseline is not None and curve.field not in ("factor", "rate"):
        found.insert(0, _series("source only", f"baseline {look}", curve, findings.baseline))
    return [one for one in found if one.steps]


def _series(name: str, look: str, curve: Curve, findings: Findings) -> Series:
    values = _values(curve, findings)
    return Series(name, look, tuple(step for step, _ in values), tuple(v for _, v in values))


def _values(curve: Curve, findings: Findings) -> list[tuple[int, float]]:
    records = findings.evaluations if curve.evaluated else findings.training
    read: Callable[[object], float | None] = lambda record: getattr(record, curve.field)  # noqa: E731
    return [(r.step, float(value)) for r in records if (value := read(r)) is not None]


def _chart(curve: Curve, series: Sequence[Series], runs: Sequence[Findings]) -> Chart:
    adversarial = any(r.domain_accuracy is not None for run in runs for r in run.training)
    title, says = curve.title, curve.says
    if curve.field == "domain_loss" and not adversarial:
        title, says = "Loss between domains", "What the objective adds for the domains."
    return Chart(
        curve.field.replace("_", "-"),
        title,
        curve.unit,
        tuple(one for one in series if one.steps),
        says,
        curve.share,
        curve.level if adversarial or not curve.adversarial else None,
        0.0,
        max(run.steps for run in runs),
        first_broken(runs[0]) if len(runs) == 1 else None,
        curve.evaluated,
    )
