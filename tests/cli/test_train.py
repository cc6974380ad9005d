"""`revgrad train`, used as a person would: from folders to a run, and every mistake."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from forked import Forked
from revgrad._seals import unsealed
from revgrad.training.run import Run
from shown import Shown
from tiny import environment

Call = Callable[..., Shown]


def test_a_run_of_folders_has_metrics_and_a_record(
    place: Path, train_words: list[str], call: Call
) -> None:
    trained = call(*train_words, "--test", "photos-test", "--output", "runs/a", "--json")
    assert trained.code == 0, trained.err
    record = json.loads(trained.out)
    assert record["cell"] == "synthetic->photos"
    assert record["method"] == "adversarial"
    assert record["steps"] == 30
    assert record == unsealed((place / "runs/a/result.json").read_text(), required=True)
    assert 0 <= record["target_accuracy"] <= 1
    lines = (place / "runs/a/metrics.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert (kinds.count("training"), kinds.count("evaluation")) == (3, 3)


def test_the_record_s_command_trains_the_same_network(
    place: Path, train_words: list[str], call: Call
) -> None:
    """Also where a file and a recipe have given options."""
    (place / "run.toml").write_text('recipe = "recommended"\nlearning-rate = 0.01\n')
    at = train_words.index("--recipe")
    words = [*train_words[:at], *train_words[at + 2 :]]
    assert call(*words, "--config", "run.toml", "-o", "a").code == 0
    command = json.loads((place / "a/result.json").read_text())["command"]
    assert "--recipe recommended" in command
    assert "--learning-rate 0.01" in command
    assert "run.toml" not in command
    shown = call(*command.replace("--output a", "--output b").split()[1:], "--quiet")
    assert shown.code == 0, shown.err
    one, two = Run("a").checkpoint(), Run("b").checkpoint()
    assert one is not None
    assert two is not None
    assert one.tensors.keys() == two.tensors.keys()
    assert all(bool((one.tensors[name] == two.tensors[name]).all()) for name in one.tensors)


def test_the_same_command_resumes_and_more_steps_are_refused(
    place: Path, train_words: list[str], call: Call
) -> None:
    words = [*train_words, "--output", "runs/a"]
    assert call(*words).code == 0
    before = (place / "runs/a/checkpoint.json").read_bytes()
    assert call(*words).code == 0  # finished: nothing is trained again
    assert (place / "runs/a/checkpoint.json").read_bytes() == before
    longer = call(*words, "--steps", "60")
    assert longer.code == 1
    assert "30 steps; 60 would change the progress" in longer.line
    command = longer.line.split("from its weights: ")[1]
    assert "--init runs/a" in command
    started = call(*command.split()[1:], "--quiet")
    assert started.code == 0, started.err
    assert json.loads((place / "runs/a-continued/result.json").read_text())["steps"] == 60
    other = call(*words, "--seed", "1")
    assert other.code == 1
    assert "another configuration" in other.line
    assert "seed: 0 there, 1 now" in other.line
    assert (place / "runs/a/checkpoint.json").read_bytes() == before


def test_a_config_file_gives_defaults_and_the_command_line_comes_first(
    place: Path, call: Call
) -> None:
    (place / "run.toml").write_text(
        'source = "synthetic"\ntarget = "photos"\nnetwork = "mine:small"\nlayer = "2"\nsize = 16\n'
        'recipe = "paper"\n'
        'steps = 5\nbatch-size = 8\ndomain-classifier = [8, 4]\noutput = "runs/c"\nquiet = true\n'
        "seed = 3\n"
    )
    shown = call("train", "--config", "run.toml", "--seed", "4", "--json")
    assert shown.code == 0, shown.err
    record = json.loads(shown.out)
    assert record["steps"] == 5
    assert record["seed"] == 4
    assert record["settings"]["domain_classifier"] == [8, 4]
    (place / "bad.toml").write_text("stepps = 5\n")
    assert "did you mean 'steps'" in call("train", "--config", "bad.toml").line
    (place / "broken.toml").write_text("steps = = 5\n")
    assert "is not TOML" in call("train", "--config", "broken.toml").line
    (place / "nested.toml").write_text("[training]\nsteps = 5\n")
    assert "no option in nested.toml 'training'" in call("train", "--config", "nested.toml").line
    assert "can't be read" in call("train", "--config", "absent.toml").line


def test_semi_supervised_and_the_two_bounds(
    place: Path, train_words: list[str], call: Call
) -> None:
    kept = call(*train_words, "--target-labels", "6", "--output", "runs/s", "--json")
    assert kept.code == 0, kept.err
    config = json.loads((place / "runs/s/config.json").read_text())
    assert config["domains"]["target"]["labels"] == 6
    assert config["domains"]["source"]["labels"] == 22  # a tenth of 24 is held out
    trained_on = {}
    for method in ("source-only", "train-on-target"):
        shown = call(*train_words, "--method", method, "--output", f"runs/{method}", "--json")
        assert shown.code == 0, shown.err
        config = json.loads((place / f"runs/{method}/config.json").read_text())
        assert config["method"] == method
        assert set(config["domains"]) == {"source", "held_out"}
        assert json.loads(shown.out)["cell"] == "synthetic->photos"
        trained_on[method] = config["domains"]["source"]["name"]
    assert trained_on["source-only"] != trained_on["train-on-target"]


def test_the_trainings_of_a_baseline_are_told_apart(
    place: Path, train_words: list[str], call: Call
) -> None:
    words = [word for word in train_words if word != "--quiet"]
    shown = call(*words, "--baseline", "-o", "runs/a")
    assert shown.code == 0, shown.err
    lines = [line for line in shown.err.splitlines() if re.search(r"\bstep \d+\b.*accuracy", line)]
    assert [line.split("  ")[0] for line in lines] == ["adapted"] * 3 + ["source only"] * 3


def test_the_closing_hint_can_be_typed(place: Path, train_words: list[str], call: Call) -> None:
    """A network of one's own has to be named again: a run's files never run code."""
    shown = call(*train_words, "-o", "my runs/a")
    assert shown.code == 0, shown.err
    hint = shown.out.strip().split("next: ")[1]
    assert hint == "revgrad export 'my runs/a' model.onnx --network mine:small"
    words = ["train", "--source", "synthetic", "--target", "photos", "--steps", "1", "--quiet"]
    words += ["--recipe", "paper"]
    named = call(*words, "-o", "runs/b")
    assert named.out.strip().endswith("next: revgrad export runs/b model.onnx")


def test_a_blueprint_of_one_s_own_holds_on_the_command_line(place: Path, call: Call) -> None:
    words = "train --source synthetic --target photos --network mine:Planned --steps 1 --quiet"
    shown = call(*words.split(), "-o", "run")
    assert shown.code == 0, shown.err
    config = Run("run").config
    assert tuple(config.input_shape) == (3, 12, 12)
    assert config.layer == "layers.1"
    assert config.domain_classifier == [7]
    listed = call("layers", "mine:Planned")
    assert listed.code == 0, listed.err
    assert "layers.1" in next(s for s in listed.out.splitlines() if "(default)" in s)


@pytest.mark.parametrize(("shape", "network"), [((5,), "perceptron"), ((3, 12), "series")])
def test_the_default_network_is_by_the_inputs_shape(
    place: Path, call: Call, shape: tuple[int, ...], network: str
) -> None:
    """And the run is opened again by its network's name."""
    inputs = np.random.default_rng(0).normal(size=(40, *shape)).astype(np.float32)
    np.savez("s.npz", inputs=inputs, labels=np.arange(40) % 2)
    words = ["--source", "s.npz", "--target", "s.npz", "--steps", "3", "--recipe", "vectors"]
    shown = call("train", *words, "-o", "run", "--quiet")
    assert shown.code == 0, shown.err
    assert Run("run").config.network == network
    predicted = call("predict", "run", "s.npz", "-o", "predictions.csv")
    assert predicted.code == 0, predicted.err
    assert len((place / "predictions.csv").read_text().splitlines()) == 41
    listed = call("layers", network)
    assert listed.code == 0, listed.err


def test_a_network_for_images_takes_no_vectors(place: Path, call: Call) -> None:
    vectors = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    np.savez("s.npz", inputs=vectors, labels=np.arange(20) % 2)
    words = ["--source", "s.npz", "--target", "s.npz", "--network", "compact"]
    shown = call("train", *words, "-o", "run")
    assert shown.code == 2
    assert "network 'compact' takes images" in shown.line
    assert "inputs of shape (5,)" in shown.line
    assert "--network module:function" in shown.line


def test_npz_files_grey_and_colour(place: Path, call: Call) -> None:
    random = np.random.default_rng(0)
    labels = np.arange(20) % 3
    images = (random.integers(0, 60, (20, 28, 28)) + 60 * labels[:, None, None]).astype(np.uint8)
    np.savez("s.npz", images=images, labels=labels)
    np.savez("t.npz", images=np.stack([255 - images] * 3, axis=-1))
    words = ["--source", "s.npz", "--target", "t.npz", "--steps", "3", "--batch-size", "8"]
    words += ["--recipe", "paper"]
    shown = call("train", *words, "--output", "r")
    assert shown.code == 0, shown.err
    assert "s is grey and t colour" in shown.err.replace("\n", " ")
    assert call("export", "r", "m.safetensors").code == 0  # a registered network needs no --network
    assert call("predict", "r", "t.npz").out.startswith("file,class,confidence\n0,")


LOADED = """
import atexit, sys
import numpy as np
from revgrad.cli import main

heavy = ("matplotlib", "jinja2", "sklearn", "scipy", "optuna", "PIL", "onnx")
atexit.register(
    lambda: print([n for n in sys.modules if n in heavy or n.startswith("revgrad.paper")])
)
pixels = np.random.default_rng(0).integers(0, 256, (40, 28, 28, 3)).astype(np.uint8)
np.savez("s.npz", images=pixels, labels=np.arange(40) % 3)
np.savez("t.npz", images=255 - pixels)
words = "train --recipe paper --source s.npz --target t.npz --steps 2 --batch-size 8 -o run"
sys.argv = ["revgrad", *words.split()]
main()
"""


@pytest.mark.slow
def test_training_on_arrays_loads_nothing_heavy_and_nothing_of_the_paper(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[-1] == "[]"


MISTAKES = {
    "unknown option": (["--sorce", "x"], 2, "no option '--sorce'; did you mean '--source'"),
    "not a number": (["--steps", "many"], 2, "Invalid value for '--steps'"),
    "unknown recipe": (["--recipe", "recomended"], 2, "did you mean 'recommended'"),
    "unknown layer": (["--layer", "5"], 2, "no layer '5'"),
    "unknown network": (["--network", "mnits"], 2, "did you mean 'mnist'?"),
    "network's function": (["--network", "mine:smal"], 2, "did you mean 'small'?"),
    "network's module": (["--network", "yours:small"], 2, "no module 'yours'"),
    "not a network": (["--network", "mine:nothing"], 2, "must return a torch.nn.Module"),
    "no network": (["--network", ""], 2, "--network is empty"),
    "unknown domain": (["--source", "mnits"], 2, "did you mean 'mnist'?"),
    "no such folder": (["--source", "./nowhere"], 2, "no file or folder ./nowhere"),
    "empty folder": (["--target", "empty"], 1, "no images in empty"),
    "nothing readable": (["--target", "broken"], 1, "broken"),
    "source without labels": (["--source", "flat"], 2, "has no labels"),
    "differing classes": (["--test", "other-classes"], 2, "zebra"),
    "unknown method": (["--method", "adverserial"], 2, "did you mean 'adversarial'?"),
    "no target": (["--target", ""], 2, "--target is missing"),
    "unknown device": (["--device", "tpu9"], 2, "'auto' or 'cpu' would do"),
    "bad size": (["--size", "big"], 2, "HEIGHTxWIDTH"),
    "bad rate": (["--learning-rate", "anealed:1"], 2, "did you mean 'annealed'?"),
    "bad widths": (["--domain-classifier", "a,b"], 2, "numbers with commas"),
    "steps": (["--steps", "0"], 2, "steps must be at least 1"),
    "batch": (["--batch-size", "1"], 2, "batch_size must be at least 2"),
    "norm": (["--batch-norm", "both"], 2, "'joint', 'separate', 'target'"),
    "fit": (["--fit", "squeeze"], 2, "'crop', 'pad', 'stretch'"),
    "preprocessing": (["--preprocessing", "none"], 2, "'fitted', 'per-image'"),
    "weights": (["--return-weights", "first"], 2, "'last', 'best'"),
    "optimiser": (["--optimiser", "sdg"], 2, "did you mean 'sgd'?"),
    "run under a file": (["--output", "mine.py/run"], 1, "mine.py/run"),
    "run in a folder in use": (["--output", "synthetic"], 1, "not empty"),
    "too many labels kept": (["--target-labels", "99"], 2, "can't keep 99"),
    "negative labels kept": (["--target-labels", "-1"], 2, "--target-labels must be ≥ 0"),
    "init": (["--init", "mine.py"], 1, "is not a readable file of weights"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_line(
    name: str, place: Path, train_words: list[str], call: Call
) -> None:
    (place / "empty").mkdir()
    for folder in ("broken", "flat", "other-classes/zebra"):
        (place / folder).mkdir(parents=True)
    (place / "broken" / "a.png").write_bytes(b"not an image")
    for folder in ("flat", "other-classes/zebra"):
        Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(place / folder / "a.png")
    words, code, text = MISTAKES[name]
    shown = call(*train_words, "--output", "runs/x", *words)
    assert shown.code == code, shown.err
    assert text in shown.line
    assert "Traceback" not in shown.err
    assert not (place / "runs" / "x").exists()  # nothing half-made remains


def test_corrupt_images_are_named_and_can_be_skipped(
    place: Path, train_words: list[str], call: Call
) -> None:
    (place / "photos" / "dark" / "3.png").write_bytes(b"\x89PNG broken")
    failed = call(*train_words, "--output", "runs/x")
    assert failed.code == 1
    assert "dark/3.png" in failed.line
    skipped = call(*train_words, "--output", "runs/x", "--corrupt", "skip")
    assert skipped.code == 0, skipped.err
    assert "dark/3.png" in skipped.err


def test_sizes_that_differ_and_no_size_asked_for(
    place: Path, train_words: list[str], call: Call
) -> None:
    Image.fromarray(np.zeros((20, 16, 3), np.uint8)).save(place / "photos" / "dark" / "tall.png")
    at = train_words.index("--size")
    shown = call(*train_words[:at], *train_words[at + 2 :], "--output", "runs/x")
    assert shown.code == 2
    assert "tall.png" in shown.line
    assert "20" in shown.line
    assert "size" in shown.line


def test_a_loss_that_is_not_finite_stops_with_3(
    place: Path, train_words: list[str], call: Call
) -> None:
    words = ["--network", "mine:explosive", "--learning-rate", "1e30", "--output", "runs/x"]
    shown = call(*train_words, *words)
    assert shown.code == 3
    assert "not finite at step" in shown.line
    assert "max_gradient_norm" in shown.line


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_where(
    number: signal.Signals, code: int, place: Path, train_words: list[str]
) -> None:
    script = place / "command.py"
    script.write_text(
        f"import os\nos.chdir({str(place)!r})\nfrom revgrad.cli import main\nmain()\n"
    )
    process = Forked(script, *train_words, "--steps", "100000", "-o", "runs/a")
    metrics = place / "runs/a/metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < deadline:
        assert process.returncode is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert "the same command goes on from there" in errors
    saved = Run(place / "runs/a").checkpoint()
    assert saved is not None
    assert 0 < saved.step < 100_000
    assert f"stopped at step {saved.step} of 100000" in errors


@pytest.mark.slow
def test_torchrun_runs_the_same_command(place: Path, train_words: list[str], call: Call) -> None:
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]
    launcher += ["--master-addr", "127.0.0.1", "--master-port", str(free_port()), "-m"]
    command = [sys.executable, "-m", *launcher, "revgrad", *train_words, "-o", "runs/two"]
    command.append("--baseline")  # two trainings, so two groups of processes
    shown = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    assert shown.returncode == 0, shown.stderr
    # the first process speaks, the other is silent, and nobody was started again
    assert shown.stdout.count("run in runs/two") == 1
    assert (place / "runs/two/baseline/result.json").is_file()
    assert Run(place / "runs/two").config.machine["processes"] == 2
    assert call(*train_words, "--output", "runs/one").code == 0
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
