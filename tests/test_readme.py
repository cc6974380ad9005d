"""The README's program and commands work word for word, on small folders of images."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for domain in ("synthetic/cat", "synthetic/dog", "photos"):
        (tmp_path / domain).mkdir(parents=True)
        for i in range(70):
            pixels = random.integers(0, 255, (40, 36, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / domain / f"{i}.png")
    return tmp_path


def program() -> str:
    [code] = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    return code


def test_the_program_is_short() -> None:
    lines = [line for line in program().splitlines() if line.strip()]
    assert len(lines) <= 25


def test_the_program_runs_word_for_word(folders: Path) -> None:
    shorter = program().replace("steps=5000", "steps=4")
    shown = subprocess.run([sys.executable, "-c", shorter], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert re.match(r"\[[01 ]+\]", shown.stdout)
    for name in ("network.pt", "model.onnx", "runs/first/checkpoint.json"):
        assert (folders / name).exists()


def test_the_commands_run_word_for_word(folders: Path) -> None:
    network = program().split("class Network")[1].split("\n\n\n")[0]
    (folders / "mymodule.py").write_text("from torch import nn\n\n\nclass Network" + network)
    text = README.split("the same command goes on where it was:")[1].split("Arrays, ")[0]
    block = "\n".join(line for line in text.splitlines() if line.startswith("    "))
    commands = shlex.split(block.replace("\\\n", " ").replace("5000", "4").replace("\n", " ; "))
    written = " ".join(shlex.quote(word) if word != ";" else "\n" for word in commands)
    ran = 0
    for line in filter(None, (line.strip() for line in written.splitlines())):
        words = shlex.split(line)
        assert words[0] == "revgrad"
        shown = subprocess.run(
            [sys.executable, "-m", "revgrad", *words[1:]], capture_output=True, text=True
        )
        assert shown.returncode == 0, shown.stderr
        ran += 1
    assert ran == 5
    assert (folders / "runs/first/report.html").exists()
    assert (folders / "predictions.csv").read_text().count("\n") == 71
