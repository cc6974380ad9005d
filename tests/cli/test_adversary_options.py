"""Several domains, attributes and adversaries from the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from revgrad import Adversary, Run
from revgrad.cli import app
from revgrad.cli.train_options import parse_adversary
from revgrad.errors import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("domain", Adversary()),
        ("site@features", Adversary("site", "features")),
        ("site:0.3", Adversary("site", factor=0.3)),
        ("site@block.1:2", Adversary("site", "block.1", factor=2.0)),
        ("sex|class@features:0.5", Adversary("sex", "features", None, 0.5, "class")),
    ],
)
def test_an_adversary_in_words(text: str, expected: Adversary) -> None:
    assert parse_adversary(text) == expected


@pytest.mark.parametrize("text", ["", "@features", "site@", "site:x", "site:-1", "site|label"])
def test_words_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="--adversary takes ATTRIBUTE"):
        parse_adversary(text)


def table(path: Path, seed: int, shift: float = 0.0) -> str:
    random = np.random.default_rng(seed)
    lines = ["x,z,y,site,age"]
    for _ in range(80):
        label = random.integers(0, 2)
        site, age = random.choice(["a", "b", ""]), f"{random.normal(50, 9):.2f}"
        x, z = random.normal() + 2 * label + shift, random.normal()
        lines.append(f"{x:.3f},{z:.3f},{'pq'[label]},{site},{age}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def run(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, list(words))
    told = f"{found.output}{found.exception or ''}"
    return found.exit_code, told


SHORT = ("--label", "y", "--steps", "4", "--batch-size", "16", "--device", "cpu", "--quiet")


def test_tables_of_several_sites(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    files = [table(tmp_path / f"{name}.csv", seed, seed / 2) for seed, name in enumerate("abcd")]
    code, told = run(
        *("train", "--source", files[0], "--source", files[1]),
        *("--target", files[2], "--target", files[3]),
        *("--attribute", "site", "--attribute", "age"),
        *("--adversary", "domain", "--adversary", "site@features:0.3", "--adversary", "age"),
        *("--share-out", "by-size", "-o", str(tmp_path / "run"), *SHORT),
    )
    assert code == 0, told
    config = Run(tmp_path / "run").config
    assert list(config.domains)[:4] == ["source", "source 2", "target", "target 2"]
    assert [one["name"] for one in config.adversaries] == ["domain", "site", "age"]
    assert [one["factor"] for one in config.adversaries] == [1.0, 0.3, 1.0]
    assert config.input_shape == [2]  # attributes are no inputs
    repeated = config.provenance.command
    assert repeated.count("--source") == 2
    assert "--adversary site@features:0.3" in repeated
    code, told = run("verdict", str(tmp_path / "run"))
    assert code == 0, told
    assert "c: " in told
    assert "site: " in told


def test_an_attribute_is_removed_without_a_target(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    source = table(tmp_path / "a.csv", 1)
    words = ("train", "--source", source, "-o", str(tmp_path / "run"), *SHORT)
    code, told = run(*words, "--attribute", "site", "--adversary", "site")
    assert code == 0, told
    code, told = run("verdict", str(tmp_path / "run"))
    assert code == 0, told
    assert "'site'" in told
    code, told = run("train", "--source", source, "-o", str(tmp_path / "other"), *SHORT)
    assert code != 0
    assert "--target is missing" in told


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    source, target = table(tmp_path / "a.csv", 1), table(tmp_path / "b.csv", 2)
    words = ("train", "--source", source, "--target", target, "-o", str(tmp_path / "run"), *SHORT)
    for more, told in (
        (("--adversary", "site"), "no domain has an attribute 'site'"),
        (("--attribute", "size"), "column 'size'"),
        (("--attribute", "site", "--adversary", "site:x"), "--adversary takes"),
        (("--adversary", "domain", "--method", "mcc"), "not 'mcc'"),
    ):
        code, shown = run(*words, *more)
        assert code != 0
        assert told in shown


def test_a_search_of_tables_with_adversaries(tmp_path: Path) -> None:
    """The target's table holds the label and lacks an attribute: it is read as the source's."""
    pytest.importorskip("pandas")
    pytest.importorskip("optuna")
    files = [table(tmp_path / f"{name}.csv", seed, seed / 2) for seed, name in enumerate("ab")]
    code, told = run(
        *("tune", "--source", files[0], "--target", files[1], "--trials", "1"),
        *("--attribute", "site", "--adversary", "domain", "--adversary", "site"),
        *("-o", str(tmp_path / "search"), *SHORT),
    )
    assert code == 0, told
    assert "--adversary domain --adversary site" in " ".join(told.split())
    config = Run(tmp_path / "search" / "trial-0000").config
    assert [one["name"] for one in config.adversaries] == ["domain", "site"]
