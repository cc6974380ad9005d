"""Make the pages that are made, never typed: cli.md, domains.md, results.md, README's results.

python docs/make.py              write them
python docs/make.py --pictures   draw the domains' pictures first, from the data that is here
python docs/make.py --check      exit 1 where one is out of date
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("demo", "train", "evaluate", "predict", "export", "layers", "data")
DATA_COMMANDS = ("list", "fetch", "make", "show", "check")
METHODS = ("source-only", "adversarial", "train-on-target")
#: Table 1 of the paper: target accuracy by cell and method.
PUBLISHED = {
    ("mnist->mnist-m", "source-only"): 0.5749,
    ("mnist->mnist-m", "adversarial"): 0.8149,
    ("mnist->mnist-m", "train-on-target"): 0.9891,
}
MARKS = ("<!-- results: made by docs/make.py -->", "<!-- end of results -->")


def cli_page() -> str:
    """Every command's --help."""
    parts = ["# The command line\n\nMade from `--help` by `make docs`.\n"]
    environment = {
        **os.environ,
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
    }
    for command in ("", *COMMANDS, *(f"data {name}" for name in DATA_COMMANDS)):
        words = [sys.executable, "-m", "revgrad", *command.split(), "--help"]
        shown = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        lines = [line.rstrip() for line in shown.stdout.strip().splitlines()]
        text = "\n".join(lines).replace("python -m revgrad", "revgrad")
        parts.append(f"## revgrad {command}".rstrip() + f"\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def domains_page() -> str:
    """Every named domain, with a picture where one has been drawn."""
    from revgrad.domains.catalogue import CATALOGUE
    from revgrad.domains.sources import SOURCES

    how = {
        "fetch": "`revgrad data fetch {0}`",
        "by hand": "by hand: {1} of the data folder",
        "make": "`revgrad data make {0}`, or whenever it is first used",
        "in wheels": "`pip install 'revgrad[demo]'`",
    }
    lines = [
        "# The domains",
        "",
        "Made by `make docs`. `name` or `name:split` opens a domain on the command line,",
        "`revgrad.domains.open_domain` in a program. Data are looked for in one folder,",
        "`REVGRAD_DATA`, else the platform's cache folder; what is decoded or generated is kept in",
        "`REVGRAD_CACHE`, else beside it. `revgrad data list` shows what is here, `data check`",
        "verifies it, `data show` draws a contact sheet.",
        "",
    ]
    for name, entry in CATALOGUE.items():
        picture = ROOT / "docs" / "images" / "domains" / f"{name}.png"
        source = SOURCES.get(entry.source or "")
        counts = ", ".join(f"{k} {v:,}" if v else k for k, v in entry.splits.items())
        by_hand = "" if source is None else source.by_hand
        lines += [f"## {name}", "", f"{entry.what[0].upper()}{entry.what[1:]}.", ""]
        if picture.exists():
            lines += [f"![{name}](images/domains/{name}.png)", ""]
        else:
            lines += ["(No picture: the set could not be had where this page was made.)", ""]
        lines += [
            "| | |",
            "| --- | --- |",
            f"| one image | {entry.shape} uint8, {entry.classes} classes |",
            f"| splits | {counts} |",
            f"| from | {entry.origin} |",
            f"| licence | {entry.licence} |",
            f"| get it | {how[entry.how].format(name, by_hand)} |",
        ]
        if source is not None and entry.how == "fetch":
            lines.append(f"| or by hand | {by_hand} of the data folder |")
        lines.append("")
    lines += [(ROOT / "docs" / "domains-notes.md").read_text().strip(), ""]
    return "\n".join(lines)


def draw_domains() -> None:
    """A row of images of every domain that is here: docs/images/domains/NAME.png."""
    from revgrad.domains import open_domain
    from revgrad.domains.catalogue import CATALOGUE
    from revgrad.domains.sources import Missing
    from revgrad.reports.samples import draw_samples

    folder = ROOT / "docs" / "images" / "domains"
    folder.mkdir(parents=True, exist_ok=True)
    for name, entry in CATALOGUE.items():
        split = "test" if "test" in entry.splits else next(iter(entry.splits))
        try:
            draw_samples(folder / f"{name}.png", [("", open_domain(f"{name}:{split}"))], 12)
        except Missing as error:
            print(f"no picture of {name}: {error}")


def records() -> list[dict[str, object]]:
    """Every result under results/."""
    return [json.loads(path.read_text()) for path in sorted((ROOT / "results").rglob("*.json"))]


def results_table() -> str:
    """Mean ± standard deviation over seeds, with the published number and the budget."""
    groups: dict[tuple[str, str, str], list[dict[str, object]]] = defaultdict(list)
    for record in records():
        groups[(str(record["cell"]), str(record["method"]), str(record["budget"]))].append(record)
    lines = [
        "| cell | method | target accuracy | seeds | held-out source | the paper | budget | time |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    order = {method: number for number, method in enumerate(METHODS)}
    for (cell, method, budget), group in sorted(
        groups.items(), key=lambda item: (item[0][0], order.get(item[0][1], 9), item[0][2])
    ):
        values = [float(record["target_accuracy"]) for record in group]  # type: ignore[arg-type]
        sources = [float(record["source_accuracy"]) for record in group]  # type: ignore[arg-type]
        minutes = statistics.mean(float(record["seconds"]) for record in group) / 60  # type: ignore[arg-type]
        spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
        published = PUBLISHED.get((cell, method))
        paper = "–" if published is None else f"{published:.4f}"
        lines.append(
            f"| {cell} | {method} | {statistics.mean(values):.4f}{spread} | {len(values)} "
            f"| {statistics.mean(sources):.4f} | {paper} "
            f"| {budget} | {minutes:.0f} min |"
        )
    return "\n".join(lines)


def results_page() -> str:
    """The table and, for every record, the command that made it."""
    lines = [
        "# Results",
        "",
        "Made by `make docs` from the records under `results/`; nothing here is typed by hand.",
        "Accuracy is that of the network's own classifier at the end of training. Nothing was",
        "chosen on target labels. `mnist-m` is blended from MNIST and the photographs of BSDS500:",
        "those of its train folder for training, those of val for the test digits. Times are wall",
        "times of one run with one thread on a busy two-core machine.",
        "",
        results_table(),
        "",
        "## Every run",
        "",
        "| cell | method | seed | target accuracy | command |",
        "| --- | --- | --- | --- | --- |",
    ]
    for record in sorted(
        records(), key=lambda r: (str(r["cell"]), str(r["method"]), int(str(r["seed"])))
    ):
        lines.append(
            f"| {record['cell']} | {record['method']} | {record['seed']} "
            f"| {record['target_accuracy']:.4f} | `{record['command']}` |"
        )
    return "\n".join(lines) + "\n"


def readme() -> str:
    """The README with its results table made anew."""
    text = (ROOT / "README.md").read_text()
    before, rest = text.split(MARKS[0])
    _, after = rest.split(MARKS[1])
    return f"{before}{MARKS[0]}\n{results_table()}\n{MARKS[1]}{after}"


def main() -> None:
    if "--pictures" in sys.argv[1:]:
        draw_domains()
    pages = {
        ROOT / "docs" / "cli.md": cli_page(),
        ROOT / "docs" / "domains.md": domains_page(),
        ROOT / "docs" / "results.md": results_page(),
        ROOT / "README.md": readme(),
    }
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        if stale:
            names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
            raise SystemExit(f"out of date, `make docs` makes them anew: {names}")
        return
    for path in stale:
        path.write_text(pages[path])
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
