"""Files and names that the pages speak of are there."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "revgrad"
#: cli.md is made from --help; results.md and runs.md quote commands of their day.
PAGES = [
    page
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    if page.name not in ("cli.md", "results.md", "runs.md")
]


def cells(page: str, heading: str) -> list[list[str]]:
    """The lines of the first table behind a heading, without its own two."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    lines = re.findall(r"^\|(.*)\|$", text.partition("\n## ")[0], flags=re.M)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines[2:]]


def in_backticks(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = [
        name
        for name in in_backticks(page.read_text(encoding="utf-8"))
        if re.fullmatch(r"[\w/.-]+/[\w.-]+\.(py|toml|jsonl|md)", name)
    ]
    missing = [n for n in named if not ((ROOT / n).exists() or (PACKAGE / n).exists())]
    assert missing == []


def test_every_noun_of_the_architecture_is_defined_in_its_file() -> None:
    lines = cells("architecture.md", "The nouns")
    assert len(lines) > 25
    for nouns, files, _ in lines:
        texts = [(PACKAGE / file).read_text(encoding="utf-8") for file in in_backticks(files)]
        for noun in in_backticks(nouns):
            defined = rf"^(class|def) {noun}\b|^{noun}\b.*="
            assert any(re.search(defined, text, flags=re.M) for text in texts), (noun, files)


def test_every_part_of_the_paper_has_a_function() -> None:
    lines = cells("paper.md", "Where each part is computed")
    assert len(lines) > 20
    for _, here, _ in lines:
        names = [name.partition("(")[0] for name in in_backticks(here)]
        dotted = [name for name in names if re.fullmatch(r"\w+(\.\w+)+", name)]
        assert dotted, here
        for name in dotted:
            assert resolve_name(f"revgrad.{name}") is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_table_stands_between_empty_lines(page: Path) -> None:
    """A sentence next to a table would be shown as a line of it."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    lines = ["", *text.splitlines(), ""]
    swallowed = [
        line
        for one, line, other in zip(lines, lines[1:], lines[2:], strict=False)
        if line.strip() and line[0] != "|" and "|" in (one[:1], other[:1])
    ]
    assert swallowed == []
