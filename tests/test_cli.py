"""The command line, used as a person would: from folders to a shipped model, and every mistake."""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from page_runs import make_run
from revgrad.cli import demo
from revgrad.diagnostics import Verdict, verdict
from revgrad.reports import findings, page
from revgrad.training.runs import Run
from shown import Shown

NETWORK = """
from torch import nn

def small(classes, channels):
    return nn.Sequential(
        nn.Conv2d(channels, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, classes)
    )

def explosive(classes, channels):
    network = small(classes, channels)
    network[0].weight.data.mul_(1e30)
    return network

def nothing():
    return 3
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with images of two classes in two domains, and a network of one's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REVGRAD_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for domain, background in (("synthetic", 0), ("photos", 60), ("photos-test", 60)):
        for number, name in enumerate(("dark", "light")):
            folder = tmp_path / domain / name
            folder.mkdir(parents=True)
            for i in range(12):
                pixels = random.integers(0, 40, (16, 16, 3)) + background + 120 * number
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")
    (tmp_path / "mine.py").write_text(NETWORK)
    sys.modules.pop("mine", None)
    return tmp_path


def pixels_of(path: Path | str) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


TRAIN = ["train", "--source", "synthetic", "--target", "photos", "--network", "mine:small"]
TRAIN += ["--layer", "2", "--size", "16", "--steps", "30", "--batch", "16", "--hidden", "8"]
TRAIN += ["--log-every", "10", "--checkpoint-every", "10", "--evaluate-every", "10", "--quiet"]


def test_from_folders_to_a_shipped_model(place: Path, call: Callable[..., Shown]) -> None:
    trained = call(*TRAIN, "--test", "photos-test", "--output", "runs/a", "--json")
    assert trained.code == 0, trained.err
    record = json.loads(trained.out)
    assert record["cell"] == "synthetic->photos"
    assert record["method"] == "adversarial"
    assert record["steps"] == 30
    assert record == json.loads((place / "runs/a/result.json").read_text())
    assert 0 <= record["target_accuracy"] <= 1
    assert {"seed", "budget", "settings", "command", "torch", "seconds"} <= set(record)
    kinds = [
        json.loads(x)["kind"] for x in (place / "runs/a/metrics.jsonl").read_text().splitlines()
    ]
    assert kinds.count("training") == 3
    assert kinds.count("evaluation") == 3

    network = ["--network", "mine:small"]
    evaluated = json.loads(call("evaluate", "runs/a", "photos-test", *network, "--json").out)
    assert evaluated["accuracy"] == pytest.approx(record["target_accuracy"], abs=1e-9)
    assert set(evaluated["by_class"]) == {"dark", "light"}

    assert call("predict", "runs/a", "photos", *network, "-o", "out.csv").code == 0
    rows = list(csv.DictReader((place / "out.csv").read_text().splitlines()))
    assert len(rows) == 24
    assert {row["class"] for row in rows} <= {"dark", "light"}
    assert all(0.5 <= float(row["confidence"]) <= 1 for row in rows)
    assert all((place / "photos" / row["file"]).exists() for row in rows)
    printed = call("predict", "runs/a", "photos", *network, "--json").out.splitlines()
    assert [json.loads(line)["class"] for line in printed] == [row["class"] for row in rows]

    for name in ("net.safetensors", "net.pt", "net.pt2", "net.onnx"):
        exported = call("export", "runs/a", name, *network, "--json")
        assert exported.code == 0, exported.err
        assert json.loads(exported.out)["bytes"] == (place / name).stat().st_size
    state = torch.load(place / "net.pt", weights_only=True)
    assert list(state) == ["0.weight", "0.bias", "3.weight", "3.bias"]  # the network's own keys

    import onnxruntime

    session = onnxruntime.InferenceSession(place / "net.onnx")
    files = [place / "photos" / row["file"] for row in rows]
    images = np.stack([pixels_of(file) for file in files])
    logits = session.run(None, {session.get_inputs()[0].name: images.transpose(0, 3, 1, 2)})[0]
    assert [["dark", "light"][i] for i in logits.argmax(1)] == [row["class"] for row in rows]


def test_the_same_command_resumes_and_more_steps_are_refused(
    place: Path, call: Callable[..., Shown]
) -> None:
    words = [*TRAIN, "--output", "runs/a"]
    assert call(*words).code == 0
    before = (place / "runs/a/checkpoint.json").read_bytes()
    assert call(*words).code == 0  # finished: nothing is trained again
    assert (place / "runs/a/checkpoint.json").read_bytes() == before
    longer = call(*words, "--steps", "60")
    assert longer.code == 1
    assert "30 steps; 60 would change the progress" in longer.line
    command = longer.line.split("from its weights: ")[1]
    assert "--init runs/a" in command
    started = call(*command.split()[1:])
    assert started.code == 0, started.err
    assert json.loads((place / "runs/a-continued/result.json").read_text())["steps"] == 60
    other = call(*words, "--seed", "1")
    assert other.code == 1
    assert "another configuration" in other.line
    assert "seed: 0 there, 1 now" in other.line
    assert (place / "runs/a/checkpoint.json").read_bytes() == before


def test_a_config_file_gives_defaults_and_the_command_line_comes_first(
    place: Path, call: Callable[..., Shown]
) -> None:
    (place / "run.toml").write_text(
        'source = "synthetic"\ntarget = "photos"\nnetwork = "mine:small"\nlayer = "2"\nsize = 16\n'
        'steps = 5\nbatch = 8\nhidden = [8, 4]\nrun = "runs/c"\nquiet = true\nseed = 3\n'
    )
    shown = call("train", "--config", "run.toml", "--seed", "4", "--json")
    assert shown.code == 0, shown.err
    record = json.loads(shown.out)
    assert record["steps"] == 5
    assert record["seed"] == 4
    assert record["settings"]["domain_hidden"] == [8, 4]
    (place / "bad.toml").write_text("stepps = 5\n")
    assert "did you mean 'steps'" in call("train", "--config", "bad.toml").line
    (place / "broken.toml").write_text("steps = = 5\n")
    assert "is not TOML" in call("train", "--config", "broken.toml").line
    assert "can't be read" in call("train", "--config", "absent.toml").line


def test_semi_supervised_and_the_two_bounds(place: Path, call: Callable[..., Shown]) -> None:
    words = [word for word in TRAIN if word not in ("--quiet",)]
    kept = call(*words, "--quiet", "--keep-target-labels", "6", "--output", "runs/s", "--json")
    assert kept.code == 0, kept.err
    config = json.loads((place / "runs/s/config.json").read_text())
    assert config["domains"]["target"]["labels"] == 6
    assert config["domains"]["source"]["labels"] == 22  # a tenth of 24 is held out
    for method in ("source-only", "train-on-target"):
        shown = call(*TRAIN, "--method", method, "--output", f"runs/{method}", "--json")
        assert shown.code == 0, shown.err
        config = json.loads((place / f"runs/{method}/config.json").read_text())
        assert config["method"] == method
        assert set(config["domains"]) == {"source", "held_out"}
        assert json.loads(shown.out)["cell"] == "synthetic->photos"
    trained_on = {
        method: json.loads((place / f"runs/{method}/config.json").read_text())["domains"]["source"]
        for method in ("source-only", "train-on-target")
    }
    assert trained_on["source-only"]["name"] != trained_on["train-on-target"]["name"]


def test_npz_files_grey_and_colour(place: Path, call: Callable[..., Shown]) -> None:
    random = np.random.default_rng(0)
    labels = np.arange(20) % 3
    images = (random.integers(0, 60, (20, 28, 28)) + 60 * labels[:, None, None]).astype(np.uint8)
    np.savez("s.npz", images=images, labels=labels)
    np.savez("t.npz", images=np.stack([255 - images] * 3, axis=-1))
    words = ["--source", "s.npz", "--target", "t.npz", "--steps", "3", "--batch", "8"]
    shown = call("train", *words, "--output", "r")
    assert shown.code == 0, shown.err
    assert "s and s (held out) are grey and t colour" in shown.err.replace("\n", " ")
    assert call("export", "r", "m.safetensors").code == 0  # a registered network needs no --network
    assert call("predict", "r", "t.npz").out.startswith("file,class,confidence\n0,")


def test_layers_lists_where_one_can_cut(place: Path, call: Callable[..., Shown]) -> None:
    shown = call("layers", "mnist")
    assert shown.code == 0
    assert "pool2" in shown.out
    assert "48×4×4" in shown.out
    lines = [
        json.loads(line)
        for line in call("layers", "mine:small", "--size", "16", "--json").out.splitlines()
    ]
    assert [line["name"] for line in lines] == ["0", "1", "2", "3"]
    assert [line["cuttable"] for line in lines] == [True, True, True, False]


MISTAKES = {
    "unknown layer": (["--layer", "5"], 2, "no layer '5'"),
    "unknown network": (["--network", "mnits"], 2, "did you mean 'mnist'?"),
    "network's function": (["--network", "mine:smal"], 2, "did you mean 'small'?"),
    "network's module": (["--network", "yours:small"], 2, "no module 'yours'"),
    "not a network": (["--network", "mine:nothing"], 2, "must return a torch.nn.Module"),
    "unknown domain": (["--source", "mnits"], 2, "did you mean 'mnist'?"),
    "no such folder": (["--source", "./nowhere"], 2, "no file or folder ./nowhere"),
    "empty folder": (["--target", "empty"], 1, "no images in empty"),
    "nothing readable": (["--target", "broken"], 1, "broken"),
    "source without labels": (["--source", "flat"], 2, "has no labels"),
    "differing classes": (["--test", "other-classes"], 2, "zebra"),
    "unknown method": (["--method", "adverserial"], 2, "did you mean 'adversarial'?"),
    "no target": (["--target", ""], 2, "target"),
    "unknown device": (["--device", "tpu9"], 2, "'auto' or 'cpu' would do"),
    "bad size": (["--size", "big"], 2, "HEIGHTxWIDTH"),
    "bad rate": (["--rate", "anealed:1"], 2, "did you mean 'annealed'?"),
    "bad widths": (["--hidden", "a,b"], 2, "numbers with commas"),
    "steps": (["--steps", "0"], 2, "steps must be at least 1"),
    "batch": (["--batch", "1"], 2, "batch must be at least 2"),
    "norm": (["--batch-norm", "both"], 2, "joint, separate, target"),
    "optimiser": (["--optimiser", "sdg"], 2, "did you mean 'sgd'?"),
    "run under a file": (["--output", "mine.py/run"], 1, "mine.py/run"),
    "run in a folder in use": (["--output", "synthetic"], 1, "not empty"),
    "too many labels kept": (["--keep-target-labels", "99"], 2, "can't keep 99"),
    "init": (["--init", "mine.py"], 1, "can't be read as safetensors"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line(name: str, place: Path, call: Callable[..., Shown]) -> None:
    (place / "empty").mkdir()
    for folder in ("broken", "flat", "other-classes/zebra"):
        (place / folder).mkdir(parents=True)
    (place / "broken" / "a.png").write_bytes(b"not an image")
    for folder in ("flat", "other-classes/zebra"):
        Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(place / folder / "a.png")
    words, code, text = MISTAKES[name]
    shown = call(*TRAIN, "--output", "runs/x", *words)
    assert shown.code == code, shown.err
    assert text in shown.line
    assert "Traceback" not in shown.err
    assert not (place / "runs" / "x").exists()  # nothing half-made remains


def test_corrupt_images_are_named_and_can_be_skipped(
    place: Path, call: Callable[..., Shown]
) -> None:
    (place / "photos" / "dark" / "3.png").write_bytes(b"\x89PNG broken")
    failed = call(*TRAIN, "--output", "runs/x")
    assert failed.code == 1
    assert "dark/3.png" in failed.line
    skipped = call(*TRAIN, "--output", "runs/x", "--corrupt", "skip")
    assert skipped.code == 0, skipped.err
    assert "dark/3.png" in skipped.err


def test_sizes_that_differ_and_no_size_asked_for(place: Path, call: Callable[..., Shown]) -> None:
    Image.fromarray(np.zeros((20, 16, 3), np.uint8)).save(place / "photos" / "dark" / "tall.png")
    words = [w for i, w in enumerate(TRAIN) if w != "--size" and TRAIN[i - 1] != "--size"]
    shown = call(*words, "--output", "runs/x")
    assert shown.code == 2
    assert "tall.png" in shown.line
    assert "20" in shown.line
    assert "size" in shown.line


def test_a_loss_that_is_not_finite_stops_with_3(place: Path, call: Callable[..., Shown]) -> None:
    shown = call(*TRAIN, "--network", "mine:explosive", "--rate", "1e30", "--output", "runs/x")
    assert shown.code == 3
    assert "not finite at step" in shown.line
    assert "clip" in shown.line


def test_a_run_that_is_none_and_an_altered_checkpoint(
    place: Path, call: Callable[..., Shown]
) -> None:
    assert "is not a run" in call("evaluate", "photos", "photos-test").line
    assert call(*TRAIN, "--output", "runs/a").code == 0
    assert "of your own (mine:small)" in call("predict", "runs/a", "photos").line
    [tensors] = (place / "runs/a").glob("*.safetensors")
    data = bytearray(tensors.read_bytes())
    data[len(data) // 2] ^= 1
    tensors.write_bytes(data)
    for words in (
        ["predict", "runs/a", "photos", "--network", "mine:small"],
        [*TRAIN, "--output", "runs/a"],
    ):
        shown = call(*words)
        assert shown.code == 1
        assert "was altered" in shown.line


def test_defaults_of_the_help_are_those_of_the_settings() -> None:
    """The help may not import the settings, so their defaults stand twice."""
    import inspect

    from revgrad.cli.train import train
    from revgrad.domains.domain import HELD_OUT
    from revgrad.schedules import parse_schedule
    from revgrad.training import Settings

    defaults = {
        name: parameter.default.default
        for name, parameter in inspect.signature(train).parameters.items()
    }
    settings = Settings()
    for name in settings.describe():
        if name == "channels_last":
            continue
        shown = defaults[name]
        if name in ("rate", "factor"):
            shown = parse_schedule(shown)
        assert shown == getattr(settings, name), name
    assert defaults["held_out"] == HELD_OUT


@pytest.mark.timeout(280)
def test_demo_trains_compares_and_draws(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "REVGRAD_DATA"}
    environment |= {"REVGRAD_DATA": str(tmp_path / "none"), "OMP_NUM_THREADS": "1"}
    words = ["demo", "-o", str(tmp_path / "demo"), "--steps", "60", "--json"]
    shown = subprocess.run(
        [sys.executable, "-m", "revgrad", *words], env=environment, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    result = json.loads(shown.stdout)
    assert result["train-on-target"] > result["source-only"]
    lower, upper = result["source-only"], result["train-on-target"]
    assert result["gap_covered"] == pytest.approx((result["adversarial"] - lower) / (upper - lower))
    report = Path(result["report"])
    written = report.read_text()
    assert report == tmp_path / "demo" / "report.html"
    assert report.stat().st_size < 3_000_000
    for words in ("Source only against adapted", "After: this run", f"</span> {result['verdict']}"):
        assert words.replace("'", "&#39;") in written
    for picture in result["pictures"]:
        pixels = pixels_of(picture)
        assert pixels.shape[1] > 600
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50  # something is drawn


def test_demo_judges_once_and_says_what_to_look_at(
    tmp_path: Path, call: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    accuracies = {"source-only": 0.5, "adversarial": 0.7, "train-on-target": 0.9}
    results = {method: {"target_accuracy": value} for method, value in accuracies.items()}
    output, judged = tmp_path / "demo", []

    def judge(run: Run) -> Verdict:
        judged.append(run)
        return verdict(run)

    monkeypatch.setattr(demo, "_data", lambda: ("one", "two", "three"))
    monkeypatch.setattr(demo, "_train_all", lambda *_: results)
    monkeypatch.setattr(demo, "_draw", lambda *_: [output / "samples.png", output / "clouds.png"])
    counted = partial(findings.read_findings, judge=judge)
    for module in (findings, page):
        monkeypatch.setattr(module, "read_findings", counted)
    make_run(output / "adversarial-0", baseline=True)
    shown = call("demo", "-o", output)
    assert shown.code == 0, shown.err
    seen = [line.removeprefix("see ") for line in shown.out.splitlines() if line[:4] == "see "]
    assert seen == [str(output / name) for name in ("report.html", "samples.png", "clouds.png")]
    assert "Feature clouds" in (output / "report.html").read_text()
    assert len(judged) == 1
    assert "+20.0 points" in shown.out
    assert len(shown.out.splitlines()) < 20


def started(place: Path, *launcher: str, run: str, steps: int) -> subprocess.Popen[str]:
    words = [word if word != "30" else str(steps) for word in TRAIN]
    return subprocess.Popen(
        [sys.executable, "-m", *launcher, "revgrad", *words, "--output", run],
        cwd=place,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_the_same_command_goes_on(
    number: signal.Signals, code: int, place: Path, call: Callable[..., Shown]
) -> None:
    process = started(place, run="runs/a", steps=100_000)
    metrics = place / "runs/a/metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert "the same command goes on from there" in errors
    from revgrad.training import Run

    saved = Run(place / "runs/a").checkpoint()
    assert saved is not None
    assert 0 < saved.step < 100_000
    assert f"stopped at step {saved.step} of 100000" in errors


def test_torchrun_runs_the_same_command(place: Path, call: Callable[..., Shown]) -> None:
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]
    launcher += ["--master-addr", "127.0.0.1", "--master-port", str(free_port()), "-m"]
    process = started(place, *launcher, run="runs/two", steps=30)
    printed, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    assert printed.count("run in runs/two") == 1  # the first process speaks, the other is silent
    assert json.loads((place / "runs/two/config.json").read_text())["machine"]["processes"] == 2
    assert call(*TRAIN, "--output", "runs/one").code == 0
    # the same batches, so nearly the same losses, on one process and on two
    last = {}
    for name in ("one", "two"):
        lines = (place / f"runs/{name}/metrics.jsonl").read_text().splitlines()
        assert len(lines) == 6
        records = [json.loads(line) for line in lines]
        last[name] = next(r for r in reversed(records) if r["kind"] == "training")
    for key in ("label_loss", "domain_loss", "domain_accuracy"):
        assert last["one"][key] == pytest.approx(last["two"][key], rel=1e-3), key


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
        return port


def test_a_cell_is_named_without_splits() -> None:
    from revgrad.cli.results import cell

    assert cell("mnist", "mnist-m:test") == "mnist->mnist-m"
    assert cell("data/a:b", "svhn") == "data/a:b->svhn"
    assert cell("syn-signs:train", None) == "syn-signs->-"
