"""Programs and commands of README and docs run word for word, on small folders of images.

Each Python block has an interpreter of its own. One thing is changed: every number of steps
becomes 4, those that "auto" takes by itself too.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image

from fresh import command, run_each
from revgrad.cli import app
from shown import Shown

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING")),
]
#: In front of each program: what "auto" takes by itself is short too.
SHORT_AUTO = "import revgrad.auto as _\n_.FEWEST_STEPS = _.MOST_STEPS = 4\n"
FEWER_STEPS = (r"(steps=|--steps )\d+", r"\g<1>4")


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M)


def commands(text: str) -> list[list[str]]:
    """The words of every indented command of ours, in order; a line may end in a backslash."""
    lines = re.findall(r"^    (revgrad .*)$", text.replace("\\\n", " "), flags=re.M)
    return [shlex.split(line, comments=True) for line in lines]


def every_command(text: str) -> list[list[str]]:
    """The words of every command of ours: indented, in a block that is no Python, or in a line."""
    text = re.sub(r"^```(python|py|toml)\n.*?^```", "", text, flags=re.S | re.M)
    text = text.replace("\\\n", " ")
    found = re.findall(r"^ *(revgrad [^`\n]*)$|`(revgrad [^`\n]+)`", text, flags=re.M)
    return [shlex.split(a or b, comments=True) for a, b in found]


def shortened(text: str) -> str:
    return re.sub(*FEWER_STEPS, text)


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """synthetic/ and labelled-photos/ of two classes, photos/ without."""
    random = np.random.default_rng(0)
    for domain in ("synthetic", "labelled-photos", "photos"):
        for i in range(140):
            folder = tmp_path / domain / ("" if domain == "photos" else ("cat", "dog")[i % 2])
            folder.mkdir(parents=True, exist_ok=True)
            pixels = random.integers(0, 128, (40, 36, 3)) + (i % 2) * 100
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")
    return tmp_path


def check(shown: list[Shown], programs: list[str]) -> None:
    failed = [
        f"{program}\n{one.err}"
        for one, program in zip(shown, programs, strict=True)
        if one.code != 0
    ]
    assert not failed, "\n\n".join(failed)


@pytest.mark.slow
def test_the_readme_runs_word_for_word_and_its_commands_after_it(folders: Path) -> None:
    network, use = python_blocks(README)
    assert "`mymodule.py`" in README.partition(network)[0]
    (folders / "mymodule.py").write_text(network, encoding="utf-8")
    words = commands(shortened(README))
    assert [line[1] for line in words] == ["predict", "train", "verdict", "report", "export"]
    programs = [network, shortened(use), *map(command, words)]
    shown = run_each([SHORT_AUTO + program for program in programs], folders)
    check(shown, programs)
    choice, outcome, report, predicted, *_ = shown[1].out.splitlines()
    assert "source only" in choice or "handed back" in choice
    assert outcome.startswith(("adapted", "no gain", "harmed", "can't tell"))
    assert report == "runs/first/report.html"
    assert re.fullmatch(r"\[('(cat|dog)' ?){10}\]", predicted)
    assert (folders / "predictions.csv").read_text().count("\n") == 141
    assert shown[4].out.startswith(("adapted", "no gain", "harmed", "can't tell"))
    for name in ("model.onnx", "runs/first/report.html", "runs/second/baseline/config.json"):
        assert (folders / name).exists(), name


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120
    lines = [line for line in python_blocks(README)[1].splitlines() if line.strip()]
    assert len(lines) <= 20


def test_the_readme_names_targets_and_extras_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^    make (\w+) ", README, flags=re.M)
    assert targets == ["demo", "test"]
    assert all(re.search(rf"^{target}:", makefile, flags=re.M) for target in targets)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    known = extras["project"]["optional-dependencies"]
    named = re.findall(
        r"pip install '(?:\.|revgrad)\[(.*?)\]'", "".join(map(Path.read_text, PAGES))
    )
    assert named
    assert {extra for names in named for extra in names.split(",")} <= set(known)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES[1:] if python_blocks(page.read_text(encoding="utf-8"))],
    ids=lambda page: page.stem,
)
def test_every_python_block_of_a_page_runs_by_itself(page: Path, folders: Path) -> None:
    blocks = list(map(shortened, python_blocks(page.read_text(encoding="utf-8"))))
    check(run_each([SHORT_AUTO + block for block in blocks], folders), blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_on_a_page_has_the_options_that_it_shows(page: Path) -> None:
    if page.stem == "runs":
        pytest.skip("commands of their day")
    group: Any = typer.main.get_command(app)
    context, unknown = typer.Context(group), []
    for words in every_command(page.read_text(encoding="utf-8")):
        one, rest = group, words[1:]
        while rest and hasattr(one, "get_command") and one.get_command(context, rest[0]):
            one, rest = one.get_command(context, rest[0]), rest[1:]
        if hasattr(one, "get_command") and rest and not rest[0].startswith(("-", "…")):
            unknown.append(" ".join(words))
        known = {name for param in one.params for name in (*param.opts, *param.secondary_opts)}
        given = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        unknown += [f"{' '.join(words)}: {name}" for name in given - known - {"--help", "-h"}]
    assert unknown == []


@pytest.mark.slow
def test_the_commands_of_the_first_page_run_word_for_word(folders: Path) -> None:
    text = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    words = commands(text)
    assert [line[1] for line in words] == ["train", "verdict", "report", "export"]
    train = [*words[0], "--steps", "4"]  # the page leaves it to auto
    programs = [SHORT_AUTO + command(line) for line in (train, *words[1:])]
    shown = run_each(programs, folders)
    check(shown, programs)
    assert shown[1].out.startswith(("adapted", "no gain", "harmed", "can't tell"))
    assert (folders / "model.onnx").exists()


def test_links_of_the_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
        for link in links + re.findall(r'(?:src|srcset)="(.*?)"', text):
            if "://" not in link and not (page.parent / link).exists():
                broken.append(f"{page.name}: {link}")
    assert broken == []
