"""Make the pages that hold numbers, names or --help: templates with slots, filled from records.

python docs/make.py              write them
python docs/make.py --pictures   draw the domains' pictures first, from the data that is here
python docs/make.py --check      exit 1 where one is out of date

The text stands in docs/templates/; a function here computes the slots of each page.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from operator import itemgetter
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, cast

ROOT = Path(__file__).resolve().parent.parent
os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "LANG": "C.UTF-8"}
sys.path += [str(ROOT / "studies" / name) for name in ("selection", "reversal", "defaults")]
sys.path += [str(ROOT / "tests" / "faults")]

if TYPE_CHECKING:
    from revgrad.paper.tables.experiment import Experiment
    from revgrad.paper.tables.render import Line
    from revgrad.training.record import Record

Slots = dict[str, Any]

IMAGES = ROOT / "docs" / "images"
#: Headings of the results page.
METHOD_TITLES = {
    "table1": "Table 1: digits and traffic signs",
    "table2": "Table 2: Office",
    "semi-supervised": "Semi-supervised: 1,280 labelled signs",
    "mnist-to-svhn": "MNIST to SVHN, where the paper fails",
}
#: Cells of Table 1 as the README writes them.
CELLS = {
    "mnist->mnist-m": "MNIST → MNIST-M",
    "syn-numbers->svhn": "SYN NUMBERS → SVHN",
    "svhn->mnist": "SVHN → MNIST",
    "syn-signs->gtsrb": "SYN SIGNS → GTSRB",
}
#: Methods of the small table.
AT_A_GLANCE = (
    "source-only",
    "subspace-alignment",
    "adversarial",
    "stabilised",
    "recommended",
    "train-on-target",
)


# -- records ---------------------------------------------------------------------------------------


@cache
def records() -> tuple[Record, ...]:
    """Every result under results/."""
    from revgrad.training.record import read_records

    return tuple(read_records(ROOT / "results"))


def of_table(table: Iterable[Experiment]) -> list[Record]:
    """The results of a table's cells."""
    from revgrad.paper.tables.render import cell_name

    cells = {one.cell for one in table}
    return [record for record in records() if cell_name(record.cell) in cells]


def by_seed(cell: str, method: str) -> list[float]:
    """Target accuracies of a cell, in the order of the seeds."""
    found = [r for r in records() if (r.cell, r.method) == (cell, method)]
    return [r.target_accuracy for r in sorted(found, key=lambda r: r.seed) if r.target_accuracy]


def short(value: float, digits: int = 3) -> str:
    """.843, as running text has it."""
    return f"{value:.{digits}f}".removeprefix("0")


def per_cent_of_seeds(line: Line | None) -> str:
    """45.2 or 90.9 ± 1.8; a dash where there is no such line."""
    if line is None or line.value is None:
        return "–"
    return f"{100 * line.value:.1f}" + ("" if line.sd is None else f" ± {100 * line.sd:.1f}")


def jsonl(path: Path) -> list[dict[str, Any]]:
    """The records of a file of json lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def arrows(name: str) -> str:
    """`mnist->mnist-m` as a page writes it: lines break at the arrow, not within it."""
    return re.sub(r" ?-> ?", " → ", name)


@cache
def study_figures() -> Slots:
    """How right verdicts and estimates are, on the pairs that they were not fitted on."""
    import study

    found = study.read(study.RECORDS)
    judged = [record for record in found if record["set"] == "judged"]
    right, unsure, counts = study.verdicts(judged)
    ranked = {
        name: study.score_quality(name, score, judged)
        for name, score in study.scorers(judged).items()
    }
    ours = ("estimated-accuracy", "second-opinion", "estimate: signs")
    published = max(one.correlation for name, one in ranked.items() if name not in ours)
    off = {name: study.estimate_errors(judged, name) for name in judged[0]["estimates"]}
    chosen = ranked["estimated-accuracy"]
    return {
        "trainings": len(found),
        "pairs": len(study.pairs_of(found)),
        "judged_pairs": len(study.pairs_of(judged)),
        "judged_runs": sum(counts.values()),
        "right": f"{100 * right:.0f} %",
        "unsure": f"{100 * unsure:.0f} %",
        "harmed_called_adapted": counts.get(("harmed", "adapted"), 0),
        "off": {name: f"{100 * fmean(errors):.1f}" for name, errors in off.items()},
        "off_at_most": f"{100 * max(off['signs']):.1f}",
        "spearman": short(chosen.correlation, 2),
        "published_spearman": short(published, 2),
        "regret": f"{100 * chosen.regret:.1f}",
        "regret_at_most": f"{100 * chosen.worst:.1f}",
    }


@cache
def trust_figures() -> Slots:
    """How right the verdict is by kind of data: tables of studies/trust."""
    found = json.loads((ROOT / "studies" / "trust" / "judged.json").read_text(encoding="utf-8"))

    def per_cent(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.0f} %"

    def table(judged: dict[str, Any], title: str) -> str:
        lines = [
            f"| {title} | runs | told | right of these | harmed called adapted | "
            "estimate off by | inside its interval | its width |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for kind in sorted(set(judged) - {"all"}):
            one = judged[kind]
            lines.append(
                f"| {kind} | {one['runs']} | {per_cent(one['told'])} | {per_cent(one['right'])} | "
                f"{one['harmed_called_adapted']} of {one['harmed']} | {100 * one['off']:.1f} | "
                f"{per_cent(one['inside'])} | {100 * one['width']:.0f} |"
            )
        return "\n".join(lines)

    def short_table(judged: dict[str, Any]) -> str:
        names = sorted(set(judged) - {"all"})
        lines = ["| | " + " | ".join(names) + " |", "| --- " * (len(names) + 1) + "|"]
        for key, words in (("told", "runs with an outcome"), ("right", "right of these")):
            values = (per_cent(judged[name][key]) for name in names)
            lines.append(f"| {words} | " + " | ".join(values) + " |")
        return "\n".join(lines)

    choice = json.loads((ROOT / "studies" / "trust" / "choice.json").read_text(encoding="utf-8"))
    kinds = list(choice["open"]["trust"]["by kind"])
    chosen = [
        "| score | Spearman | regret | worst pair | " + " | ".join(kinds) + " | frozen: Spearman "
        "| regret | worst pair |",
        "| --- " * (len(kinds) + 7) + "|",
    ]
    for name, one in choice["open"].items():
        other = choice["frozen"][name]
        values = (*(one["by kind"][kind] for kind in kinds), other["spearman"])
        cells = (one["spearman"], one["regret"], one["worst"], *values)
        every = (name, *cells, other["regret"], other["worst"])
        chosen.append("| " + " | ".join(str(value) for value in every) + " |")
    return {
        "choice": "\n".join(chosen),
        "open": table(found["left-out pairs"], "pairs left out"),
        "kinds": table(found["left-out kinds"], "kinds left out"),
        "frozen": table(found["frozen pairs"], "frozen pairs"),
        "reserve": table(found["reserve"], "reserve"),
        "short": short_table(found["frozen pairs"]),
    }


# -- slots of each page ----------------------------------------------------------------------------


def table1_lines() -> dict[tuple[str, str], Line]:
    """Lines of Table 1 by cell and method; of several budgets the one of most steps."""
    from revgrad.paper.tables import TABLES
    from revgrad.paper.tables.render import table_lines

    table = TABLES["table1"]
    return {(line.cell, line.method): line for line in table_lines(of_table(table), table)}


def glance() -> list[Slots]:
    """Table 1 as one takes it in at a glance: a row a cell, a number a method, in per cent."""
    from revgrad.paper.tables import TABLES

    found = table1_lines()
    published = {one.cell: one.published["adversarial"].value for one in TABLES["table1"]}
    return [
        {
            "cell": title,
            **{
                method.replace("-", "_"): per_cent_of_seeds(found.get((cell, method)))
                for method in AT_A_GLANCE
            },
            "paper": f"{100 * published[cell]:.1f}",
        }
        for cell, title in CELLS.items()
    ]


def readme() -> Slots:
    """The four cells of Table 1, and how right the verdict is."""
    gaps = [line.gap for line in table1_lines().values() if line.method == "recommended"]
    least = min(gap for gap in gaps if gap is not None)
    return {
        "rows": glance(),
        "gap": f"{100 * least:.0f} %",
        "study": study_figures(),
        "trust": trust_figures(),
    }


def architecture() -> Slots:
    """The levels, as files and folders, and the benchmarks' measurements."""
    package = ROOT / "src" / "revgrad"

    def shown(room: str) -> str:
        return f"`{room}/`" if (package / room).is_dir() else f"`{room}.py`"

    levels = tomllib.loads((ROOT / "docs" / "levels.toml").read_text())["level"]
    measured = (ROOT / "benchmarks" / "measured.jsonl").read_text().splitlines()
    return {
        "levels": [
            {"number": level["number"], "rooms": " ".join(map(shown, level["rooms"]))}
            for level in levels
        ],
        "speed": [
            {
                key: value if isinstance(value, str) else f"{value:.3g}"
                for key, value in json.loads(line).items()
            }
            for line in measured
            if not json.loads(line)["name"].startswith("scale: ")  # docs/scale.md shows these
        ],
    }


def peers() -> Slots:
    """One piece of work by several libraries: CPU time beside the loop by hand, and accuracy."""
    measured = (ROOT / "benchmarks" / "peers" / "measured.jsonl").read_text(encoding="utf-8")
    every = [json.loads(line) for line in measured.splitlines()]
    found = [one for one in every if one["work"] == "moons"]
    large = [one for one in every if one["work"] == "mnist"]
    loop = {one["seed"]: one["cpu_seconds"] for one in found if one["library"] == "loop"}
    a_step = {one["seed"]: one["step_seconds"] for one in large if one["library"] == "loop"}
    large_rows = [
        {
            "library": library,
            "step": f"{1000 * median(one['step_seconds'] for one in own):.0f}",
            "ratio": f"{median(one['step_seconds'] / a_step[one['seed']] for one in own):.2f}",
        }
        for library in dict.fromkeys(one["library"] for one in large)
        if (own := [one for one in large if one["library"] == library])
    ]
    rows = []
    for library in dict.fromkeys(one["library"] for one in found):
        own = [one for one in found if one["library"] == library]
        ratio = median(one["cpu_seconds"] / loop[one["seed"]] for one in own)
        accuracy = 100 * fmean(one["accuracy"] for one in own)
        rows.append(
            {
                "library": library,
                "version": own[0]["version"].partition("+")[0],
                "ratio": f"{ratio:.2f}",
                "accuracy": f"{accuracy:.1f} %",
            }
        )
    return {
        "rows": rows,
        "seeds": len(loop),
        "steps": f"{found[0]['steps']:,}",
        "large": large_rows,
        "large_seeds": len(a_step),
    }


def adversaries() -> Slots:
    """Attributes that were removed, three sets of digits, and what a second adversary costs."""
    removed = _lines(ROOT / "studies" / "attributes" / "removal.jsonl")
    default = [one for one in removed if one["way"] == "recipe"]
    digits = _lines(ROOT / "studies" / "domains" / "three_domains.jsonl")
    cost = {
        one["name"]: one["value"] / one["reference"]
        for one in _lines(ROOT / "benchmarks" / "measured.jsonl")
        if one["name"].startswith("two adversaries")
    }
    return {
        "removal": [
            _removed([one for one in default if (one["set"], one["samples"]) == (name, samples)])
            for name, samples in sorted({(one["set"], one["samples"]) for one in default})
        ],
        "removal_steps": f"{default[0]['steps']:,}" if default else "",
        "cost_same": f"{cost['two adversaries at pool2']:.2f}",
        "cost_earlier": f"{cost['two adversaries, the second at pool1']:.2f}",
        "domains": [
            {"target": name, **{d["way"]: _adapted(d) for d in digits if d["target"] == name}}
            for name in dict.fromkeys(one["target"] for one in digits)
        ],
        "domain_steps": f"{digits[0]['steps']:,}" if digits else "",
        "domain_samples": f"{digits[0]['samples']:,}" if digits else "",
    }


def _lines(path: Path) -> list[dict[str, Any]]:
    """A record's lines; none where nothing was recorded yet."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def _removed(found: list[dict[str, Any]]) -> Slots:
    """A set's seeds side by side."""

    def shown(name: str) -> str:
        return ", ".join(f"{100 * one[name]:.1f}" for one in found)

    costs = [100 * (one["accuracy_before"] - one["accuracy"]) for one in found]
    return {
        "title": found[0]["set"],
        "samples": f"{found[0]['samples']:,}",
        "chance": f"{100 * found[0]['chance']:.1f}",
        "cost": ", ".join(f"{one:.1f}" for one in costs),
        "by_label": f"{100 * fmean(one['by_label'] for one in found):.1f}",
        **{name: shown(name) for name in ("before", "recovered", "accuracy")},
    }


def _adapted(one: dict[str, Any]) -> Slots:
    return {
        "outcome": one["outcome"],
        **{name: f"{100 * one[name]:.1f}" for name in ("accuracy", "source_only")},
    }


def scale() -> Slots:
    """How a step and memory grow, and what reading ahead gains."""
    record = ROOT / "benchmarks" / "scale.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    named = {line["name"].removeprefix("scale: "): line for line in lines}
    growth = []
    for name, line in named.items():
        if not name.endswith(", step s"):
            continue
        what = name.removesuffix(", step s")
        kind, number = what.split(" ")
        growth.append(
            {
                "kind": kind,
                "number": number,
                "seconds": f"{line['value']:.2g}",
                "megabytes": f"{named[f'{what}, peak MB']['value']:.0f}",
            }
        )
    grown = (", step s", ", peak MB")
    passes = (
        "outputs, ",
        "evaluate, ",
        "two processes",
    )  # benchmarks/predict.py, two_processes.py
    others = [
        {"name": name, **{k: f"{line[k]:.3g}" for k in ("value", "reference", "ratio")}}
        for name, line in named.items()
        if not name.endswith(grown)
    ]
    return {
        "growth": growth,
        "reading": [line for line in others if not line["name"].startswith(passes)],
        "passes": [line for line in others if line["name"].startswith(passes)],
    }


def points(gains: Iterable[float]) -> str:
    """The mean in points, and the worst in brackets where there are several."""
    values = [100 * gain for gain in gains]
    if not values:
        return "–"
    worst = f" ({min(values):+.1f})" if len(values) > 1 else ""
    return f"{fmean(values):+.1f}{worst}".replace("-", "−")


def choosing() -> Slots:
    """Gains over source only by kind of data: of methods, of heights of λ, of layers, of steps."""
    import defaults_table

    shown = {
        "plain": "plain",
        "plain, factor .1": "plain, λ to .1",
        "stabilised": "stabilised",
        "kernel matching": "kernel matching",
        "recommended": "recommended",
        "auto": "auto",
    }
    found = jsonl(defaults_table.RECORDS)
    reserve = jsonl(defaults_table.RESERVE)
    layers = jsonl(ROOT / "studies" / "defaults" / "layers.jsonl")
    trials = jsonl(ROOT / "studies" / "trust" / "signs.jsonl")

    trained = {r["pair"] for r in found if r["method"] == "auto"}

    def of(kind: str, trial: str) -> str:
        runs = [r for r in trials if (r["kind"], r["trial"]) == (kind, trial)]
        return points(r["accuracy"] - r["baseline"] for r in runs)

    def rows_of(records: list[dict[str, Any]], methods: Iterable[str]) -> list[Slots]:
        rows = []
        for pair in dict.fromkeys(r["pair"] for r in records):
            own = [r for r in records if r["pair"] == pair]
            alone = fmean(r["accuracy"] for r in own if r["method"] == "source only")
            gains = defaults_table.gains(own)
            cells = [points([fmean(gains[m])] if m in gains else []) for m in methods]
            rows.append({"pair": arrows(pair), "alone": f"{100 * alone:.1f}", "gains": cells})
        return rows

    def bars(records: list[dict[str, Any]]) -> Slots:
        lines = {line.method: line for line in defaults_table.lines(records)}
        half, large = defaults_table.reached(records)
        return {
            "pairs": len({r["pair"] for r in records if r["method"] == "auto"}),
            "lines": [
                {
                    "title": shown[method],
                    "runs": lines[method].runs,
                    "mean": points([lines[method].mean]),
                    "gained": lines[method].gained,
                    "harmed": lines[method].harmed,
                    "worst": points([lines[method].worst]),
                }
                for method in shown
                if method in lines and method != "recommended"
            ],
            "half": half,
            "large": large,
        }

    def kind_of(kind: str) -> Slots:
        records = [r for r in found if r["kind"] == kind]
        gained = {m: g for m, g in defaults_table.gains(records).items() if m in shown}
        named = [m for m in shown if len(gained.get(m, ())) > 1 and m != "auto"] or ["plain"]
        return {
            "kind": kind,
            "rows": rows_of(records, shown),
            "means": [points(gained.get(m, [])) for m in shown],
            "best": shown[max(named, key=lambda m: fmean(gained[m]))],
            "safest": shown[max(named, key=lambda m: min(gained[m]))],
            "auto": points(gained.get("auto", [])),
        }

    return {
        "pairs": len({record["pair"] for record in found}),
        "titles": list(shown.values()),
        "kinds": [kind_of(kind) for kind in sorted({record["kind"] for record in found})],
        "factors": [
            {"kind": kind, "cells": [of(kind, one) for one in ("lambda-0.1", "dann", "lambda-10")]}
            for kind in sorted({r["kind"] for r in trials})
        ],
        "steps": [
            {"kind": kind, "cells": [of(kind, one) for one in ("weak", "dann", "strong")]}
            for kind in sorted({r["kind"] for r in trials})
        ],
        "layers": [
            {
                "kind": kind,
                "pairs": len({r["pair"] for r in layers if r["kind"] == kind}),
                "cells": [
                    points(
                        r["accuracy"] - r["baseline"]
                        for r in layers
                        if (r["kind"], r["layer"]) == (kind, layer)
                    )
                    for layer in ("early", "features", "hidden")
                ],
            }
            for kind in sorted({r["kind"] for r in layers})
        ],
        "layer_seeds": len({r["seed"] for r in layers}),
        "office": {row["method"]: f"{100 * row['mean']:.1f}" for row in office_caltech()["rows"]},
        "studied": bars(found),
        "reserve": bars(reserve),
        "seed_counts": sorted(
            {sum(r["method"] == "auto" and r["pair"] == pair for r in found) for pair in trained}
        ),
        "reserve_rows": rows_of(reserve, ("plain", "kernel matching", "auto")),
    }


def cli() -> Slots:
    """Every command's --help."""
    from typer.testing import CliRunner

    from revgrad._system import named
    from revgrad.cli import COMMANDS, app

    names = ["", *COMMANDS]
    for group, found in ((name, named(home)) for name, home in COMMANDS.items()):
        of_group = getattr(found, "registered_commands", ())
        names += [f"{group} {one.name or one.callback.__name__}" for one in of_group]

    def shown(command: str) -> str:
        result = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="revgrad")
        return "\n".join(line.rstrip() for line in result.output.strip().splitlines())

    return {"commands": {name: shown(name) for name in names}}


def domains() -> Slots:
    """Every named domain, with a picture where one has been drawn."""
    from revgrad.paper.data.catalogue import CATALOGUE, DATA_SETS
    from revgrad.paper.tables import TABLES

    found = [
        {
            "name": name,
            "entry": entry,
            "by_hand": ""
            if (data_set := DATA_SETS.get(entry.data_set or "")) is None
            else data_set.by_hand,
            "picture": (IMAGES / "domains" / f"{name}.png").exists(),
        }
        for name, entry in CATALOGUE.items()
    ]
    published = next(one.published for one in TABLES["table1"] if one.cell == "syn-signs->gtsrb")
    ours = fmean(by_seed("syn-signs->gtsrb", "source-only"))
    signs = {"ours": short(ours, 2), "paper": short(published["source-only"].value, 2)}
    return {"domains": found, "signs": signs}


def office_caltech() -> Slots:
    """Each method's accuracy on every pair that has records, and on their mean: with the weight
    that the label-free score chose, and with the best by target labels."""
    from revgrad.paper.tables.experiment import METHOD_TITLES as TITLES
    from revgrad.paper.tables.office_caltech import CHOSEN_METHODS, OFFICE_CALTECH

    found = of_table(OFFICE_CALTECH)
    cells = [one.cell for one in OFFICE_CALTECH if any(r.cell == one.cell for r in found)]

    def mean(method: str, cell: str, oracle: bool = False) -> float:
        own = [r for r in found if (r.method, r.cell) == (method, cell)]
        chosen = [r.target_accuracy or 0.0 for r in own]
        best = [r.target_accuracy_oracle for r in own]
        return fmean(
            b if oracle and b is not None else c for b, c in zip(best, chosen, strict=True)
        )

    trained = {(record.method, record.cell) for record in found}
    rows = []
    for method in CHOSEN_METHODS if cells else ():
        if not trained.issuperset((method, cell) for cell in cells):
            continue  # a mean is of all pairs
        by_pair = [mean(method, cell) for cell in cells]
        best = fmean(mean(method, cell, oracle=True) for cell in cells)
        rows.append(
            {
                "method": method,
                "title": TITLES[method],
                "pairs": by_pair,
                "mean": fmean(by_pair),
                "oracle": best,
            }
        )
    seeds = sorted({r.seed for r in found})
    pairs = [cell.partition(":")[0].replace("->", " → ") for cell in cells]
    return {"pairs": pairs, "rows": rows, "seeds": len(seeds)}


def fine_tuned() -> list[Slots]:
    """Pairs of Office-Caltech10 with the whole network trained: a row a pair that has records."""
    from revgrad.paper.tables.office_caltech import FINE_TUNED
    from revgrad.paper.tables.render import table_lines

    rows = []
    for one in FINE_TUNED:
        lines = table_lines(of_table([one]), [one])
        if any(line.value is not None for line in lines):
            pair = arrows(one.cell.partition(":")[0])
            seeds = max(line.seeds for line in lines)
            rows.append({"pair": pair, "seeds": seeds, "cells": map(per_cent_of_seeds, lines)})
    return rows


#: Methods of Table 2 that reverse gradients.
REVERSED = ("adversarial", "stabilised", "cdan", "dann-mcc")


def office() -> Slots:
    """Table 2, a block a backbone: methods by pairs, in per cent; and which row is best where."""
    from revgrad.paper.tables import TABLES
    from revgrad.paper.tables.render import DASH, table_lines

    found = table_lines(of_table(TABLES["table2"]), TABLES["table2"])
    cells = list(dict.fromkeys(line.cell for line in found))
    of_cell = {cell: [line for line in found if line.cell == cell] for cell in cells}

    def initials(cell: str) -> str:
        return " → ".join(name[0].upper() for name in cell.partition(":")[0].split("->"))

    def reverses(line: Line) -> bool:
        return line.method.removesuffix("-centred") in REVERSED

    def best(lines: Iterable[Line]) -> Line | None:
        known = [line for line in lines if line.value is not None]
        return max(known, key=lambda line: line.value or 0.0, default=None)

    def shown(line: Line) -> str:
        text, first = per_cent_of_seeds(line), best(of_cell[line.cell])
        if first is None or line.value is None or first.value is None:
            return text
        return f"**{text}**" if f"{line.value:.3f}" == f"{first.value:.3f}" else text

    def printed(line: Line) -> str:
        return DASH if line.published is None else f"{100 * line.published.value:.1f}"

    blocks = []
    for backbone in dict.fromkeys(cell.partition(":")[2] for cell in cells):
        own = [cell for cell in cells if cell.endswith(f":{backbone}")]
        rows = [
            {"title": lines[0].title, "own": map(shown, lines), "paper": map(printed, lines)}
            for lines in zip(*(of_cell[cell] for cell in own), strict=True)
            if any(line.value is not None for line in lines)
        ]
        blocks.append({"backbone": backbone, "pairs": list(map(initials, own)), "rows": rows})
    leaders = []
    for cell in cells:
        first, of_reversal = best(of_cell[cell]), best(filter(reverses, of_cell[cell]))
        assert first is not None
        assert of_reversal is not None
        leaders.append(
            {
                "cell": f"{initials(cell)} on {cell.partition(':')[2]}",
                "wins": reverses(first),
                "best": f"{first.title} ({per_cent_of_seeds(first)})",
                "reversal": f"{of_reversal.title} ({per_cent_of_seeds(of_reversal)})",
            }
        )
    won = [one["cell"] for one in leaders if one["wins"]]
    return {"blocks": blocks, "leaders": leaders, "won": won}


def results() -> Slots:
    """Every table that has a record."""
    from revgrad.paper.tables import TABLES
    from revgrad.paper.tables.render import as_markdown, cell_name, notes, table_lines

    known = {one.cell for table in TABLES.values() for one in table}
    rest = [record for record in records() if cell_name(record.cell) not in known]
    return {
        "tables": {
            name: {
                "title": METHOD_TITLES[name],
                "lines": arrows(as_markdown(table_lines(own, table))),
                "notes": notes(own, table),
            }
            for name, table in TABLES.items()
            if name != "office-caltech" and (own := of_table(table))
        },
        "office": office(),
        "office_caltech": office_caltech(),
        "fine_tuned": fine_tuned(),
        "glance": glance(),
        "rest": arrows(as_markdown(table_lines(rest, (), others=True))),
        "by_seed": by_seed,
        "short": short,
    }


def runs() -> Slots:
    """The command that made every run on images."""
    from revgrad.paper.tables import TABLES
    from revgrad.paper.tables.render import cell_name

    of_office = {one.cell for name in ("table2", "office-caltech") for one in TABLES[name]}
    found = [record for record in records() if record.cell not in of_office]
    found.sort(key=lambda r: (cell_name(r.cell), r.method, r.seed, r.steps))
    return {
        "runs": [{"record": record, "cell": arrows(cell_name(record.cell))} for record in found]
    }


def selection() -> Slots:
    """The study of label-free scores."""
    import study

    return {
        "study": study_figures(),
        "trust": trust_figures(),
        "tables": study.tables(study.read(study.RECORDS)),
    }


def reversal_study() -> Slots:
    """The paper's curves, features under reversal, and variants of SYN NUMBERS → SVHN."""
    import features
    import paper_curves
    import variants
    from revgrad.schedules import RampUp

    runs = variants.read()
    curves, rising = paper_curves.read(), RampUp(10.0)
    last = max(curves["both"])
    begins = paper_curves.first_below(curves["both"], 0.9)
    found = {(run["variant"], run["method"]): run for run in runs}

    def accuracy(name: str, method: str = "adversarial") -> str:
        return short(found[name, method]["target_accuracy"])

    def apart(name: str, method: str = "adversarial") -> str:
        return short(found[name, method]["told_apart"], 2)

    def points(name: str) -> str:
        like = variants.VARIANTS[name].like or name
        gain = found[name, "adversarial"]["target_accuracy"]
        return f"{100 * (gain - found[like, 'source-only']['target_accuracy']):+.1f}".replace(
            "-", "−"
        )

    signs = jsonl(ROOT / "studies" / "reversal" / "alike_signs.jsonl")

    def alike(method: str) -> str:
        own = [one for one in signs if (one["method"], one["steps"]) == (method, 6_000)]
        return ", ".join(short(one["target_accuracy"]) for one in own)

    return {
        "alike": alike,
        "curve": [
            {
                "batches": f"{batches:,}",
                "factor": short(rising(batches / last), 2),
                "both": short(curves["both"][batches]),
                "synthetic": short(curves["synthetic-only"][batches]),
            }
            for batches in (10_500, 11_500, 12_500, 13_500, 15_000, 17_500, 25_000, last)
        ],
        "plateau": short(curves["both"][10_500]),
        "begins": short(rising(begins / last), 2),
        "later": short(curves["both"][begins + 5_000]),
        "synthetic_first": short(curves["synthetic-only"][10_500]),
        "features": features.as_markdown(features.read()),
        "feature_steps": features.STEPS,
        "measured": features.MEASURED,
        "stabilised_steps": f"{table1_steps('mnist->mnist-m', 'stabilised'):,}",
        "trials": [
            {
                "title": trial["title"],
                "steps": f"{trial['steps']:,}",
                "accuracy": short(trial["target_accuracy"]),
            }
            for trial in features.read(features.RUNS.with_name("stabilised_trials.jsonl"))
        ],
        "table": variants.as_markdown(runs),
        "looked_at": f"{variants.LOOKED_AT:,}",
        "steps": f"{variants.VARIANTS['as-is'].steps:,}",
        "accuracy": accuracy,
        "apart": apart,
        "points": points,
        "paper_gain": published_gain("syn-numbers->svhn"),
        "test_gain": f"{mean_gain('syn-numbers->svhn'):.1f}",
        "cells": CELLS,
        "by_seed": by_seed,
    }


def published_gain(cell: str) -> str:
    """What the paper's DANN has above its source only, in points."""
    from revgrad.paper.tables import TABLES

    found = next(one.published for one in TABLES["table1"] if one.cell == cell)
    return f"{100 * (found['adversarial'].value - found['source-only'].value):.1f}"


def mean_gain(cell: str, method: str = "adversarial") -> float:
    """What a method's mean over seeds has above that of source only, in points."""
    return 100 * (fmean(by_seed(cell, method)) - fmean(by_seed(cell, "source-only")))


def is_it_working() -> Slots:
    """How right the verdict is."""
    return {"trust": trust_figures()}


def estimators() -> Slots:
    """scikit-learn's checks that the estimators do not pass, from the list that the test reads;
    sentiment across domains."""
    exceptions = json.loads((ROOT / "docs" / "check_estimator.json").read_text(encoding="utf-8"))
    listed = "\n".join(f"| `{name}` | {why} |" for name, why in exceptions.items())
    return {"exceptions": listed, "sentences": sentences_table()}


def sentences_table() -> str:
    """Sentiment across domains (studies/examples/sentence_pairs.jsonl)."""
    path = ROOT / "studies" / "examples" / "sentence_pairs.jsonl"
    found: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        found.setdefault(one["pair"], {}).setdefault(one["method"], {})[one["seed"]] = one

    def mean(runs: Iterable[dict[str, Any]]) -> str:
        return short(fmean(one["accuracy"] for one in runs), 3)

    lines = [
        "| pair | source only | matched | the one judged better | the default (one seed) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for pair, by in found.items():
        alone, matched = by["source only"], by["matched"]
        better = [max(alone[seed], matched[seed], key=itemgetter("judged")) for seed in alone]
        cells = [alone.values(), matched.values(), better, by["default"].values()]
        lines.append(f"| {pair} | {' | '.join(map(mean, cells))} |")
    return "\n".join(lines)


def reliability() -> Slots:
    """What was broken on purpose, how often, and how often the promises held."""
    import mutants
    import run as faults
    import trials

    lines = faults.read(faults.LEDGER)
    rows = [
        {"fault": fault, "tried": f"{tried:,}", "held": f"{held:,}"}
        for fault, tried, held in faults.table(lines)
    ]
    noticed = [json.loads(line)["end"] == "noticed" for line in mutants.LEDGER.open()]
    of_fault: dict[str, dict[str, None]] = {}
    for line in lines:
        of_fault.setdefault(str(line["fault"]), {})[str(line["what"])] = None
    for row in rows:
        row["what"] = "; ".join(of_fault[row["fault"]])
    left: dict[str, dict[str, None]] = {}
    for trial in trials.all_trials(False):
        if trial.what not in of_fault.get(trial.fault, {}):
            left.setdefault(trial.fault, {})[trial.what] = None
    return {
        "rows": rows,
        "failed": [
            f"{line['fault']}: {line['what']}: {'; '.join(cast(list[str], line['notes']))}"
            for line in {str(line["key"]): line for line in lines}.values()
            if line["notes"]
        ],
        "left": [f"{fault}: {'; '.join(what)}" for fault, what in left.items()],
        "listed": len(tomllib.loads(mutants.LIST.read_text())["mutant"]),
        "mutants": len(noticed),
        "noticed": sum(noticed),
    }


#: Page → its template in docs/templates/ and its slots.
PAGES: dict[str, tuple[str, Callable[[], Slots]]] = {
    "README.md": ("README.md.jinja", readme),
    "docs/adversaries.md": ("adversaries.md.jinja", adversaries),
    "docs/architecture.md": ("architecture.md.jinja", architecture),
    "docs/choosing.md": ("choosing.md.jinja", choosing),
    "docs/cli.md": ("cli.md.jinja", cli),
    "docs/domains.md": ("domains.md.jinja", domains),
    "docs/estimators.md": ("estimators.md.jinja", estimators),
    "docs/house-numbers.md": ("house-numbers.md.jinja", reversal_study),
    "docs/is-it-working.md": ("is-it-working.md.jinja", is_it_working),
    "docs/peers.md": ("peers.md.jinja", peers),
    "docs/reliability.md": ("reliability.md.jinja", reliability),
    "docs/results.md": ("results.md.jinja", results),
    "docs/reversal-study.md": ("reversal-study.md.jinja", reversal_study),
    "docs/runs.md": ("runs.md.jinja", runs),
    "docs/scale.md": ("scale.md.jinja", scale),
    "docs/selection.md": ("selection.md.jinja", selection),
}


def made(page: str) -> str:
    """A page's text; a slot that is not filled is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    template, slots = PAGES[page]
    loader = FileSystemLoader(ROOT / "docs" / "templates")
    environment = Environment(
        loader=loader,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["short"] = short
    return environment.get_template(template).render(slots())


# -- pictures --------------------------------------------------------------------------------------


def draw_domains() -> None:
    """A row of images of every domain that is here: docs/images/domains/NAME.png."""
    from revgrad.domains import open_domain
    from revgrad.paper.data.catalogue import CATALOGUE, MissingData
    from revgrad.reports.figures import draw_samples

    (IMAGES / "domains").mkdir(parents=True, exist_ok=True)
    for name, entry in CATALOGUE.items():
        split = "test" if "test" in entry.splits else next(iter(entry.splits))
        try:
            opened = open_domain(f"{name}:{split}")
        except MissingData as error:
            print(f"no picture of {name}: {error}")
        else:
            draw_samples(IMAGES / "domains" / f"{name}.png", [("", opened)], 12)


def semi_supervised_ends() -> Slots:
    """Curve of the paper's figure → where ours ended, by the paper's protocol."""
    import paper_curves
    from revgrad.paper.tables.semi_supervised import PAPERS

    # synthetic only is the source-only network of Table 1, which trained longer
    steps = {"synthetic-only": table1_steps("syn-signs->gtsrb", "source-only")}
    ends = {}
    for name in paper_curves.CURVES:
        found = [r for r in records() if (r.cell, r.method) == (PAPERS.cell, name)]
        errors = [1 - r.target_accuracy for r in found if r.target_accuracy is not None]
        if errors:
            ends[name] = paper_curves.End(steps.get(name, found[0].steps), fmean(errors))
    return ends


def table1_steps(cell: str, method: str) -> int:
    return next(r.steps for r in records() if (r.cell, r.method) == (cell, method))


def draw_results() -> None:
    """The figures that are made of records, in light and dark: docs/images/results/."""
    import figures

    for colours in (figures.LIGHT, figures.DARK):
        figures.draw_tables(colours)
        figures.draw_semi_supervised(colours)


def main() -> None:
    if "--pictures" in sys.argv[1:]:
        draw_domains()
    texts = {page: made(page) for page in PAGES}
    stale = [
        page
        for page, text in texts.items()
        if not (ROOT / page).exists() or (ROOT / page).read_text() != text
    ]
    if "--check" in sys.argv[1:]:
        if stale:
            raise SystemExit(f"out of date, `make docs` makes them anew: {', '.join(stale)}")
        return
    if "docs/results.md" in stale:
        draw_results()
    for page in stale:
        (ROOT / page).write_text(texts[page])
        print(page)


if __name__ == "__main__":
    main()
