"""Every task from end to end: train, predict, evaluate, export, report, verdict or why not."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import revgrad
from revgrad import adapt, load
from revgrad.adapted import Adapted
from revgrad.errors import InputError, RunError
from revgrad.tasks.metrics import shown_metrics
from revgrad.training.record import read_record
from shown import Shown
from task_cases import CASES, Case, Dict, Vectors
from tiny import cut_by_tap, weights_digest

SHORT: dict[str, Any] = {
    "recipe": "paper",
    "layer": "lower",
    "domain_classifier": (4,),
    "steps": 6,
    "batch_size": 20,
    "learning_rate": 0.02,
    "evaluate_every": 3,
    "progress": False,
    "device": "cpu",
}


def trained(case: Case, target: Any = None, **more: Any) -> Adapted:
    target = case.target()[0] if target is None else target
    return adapt(case.build(), case.source(), target, task=case.task, **{**SHORT, **more})


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_from_python(case: Case, tmp_path: Path) -> None:
    inputs, labels = case.target()
    made = trained(case, test=(inputs, labels), run=tmp_path / "run", baseline=True)
    predicted = made.predict(inputs)
    # predictions are of the labels' own kind and shape
    assert predicted.shape == labels.shape
    if case.name != "multi-label":
        assert predicted.dtype.kind == labels.dtype.kind
    if predicted.dtype.kind != "f":
        assert set(np.unique(predicted)) <= {*np.unique(labels)}

    found = made.evaluate(inputs, labels)
    assert set(found.figures) == set(case.figures)
    assert found.count == len(labels)
    assert np.isfinite([found.loss, *found.figures.values()]).all()
    if case.name in ("classes", "names", "booleans", "binary", "binary names", "ordinal"):
        assert found.accuracy == (predicted == labels).mean()
        shares = made.probabilities(inputs)
        np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-5)
    last = made.result.last  # type: ignore[union-attr]
    assert last is not None
    measured = {**last.target_metrics, "accuracy": last.target_accuracy}
    assert {k: v for k, v in measured.items() if v is not None} == found.figures
    assert last.target_loss == pytest.approx(found.loss, rel=1e-6)

    again = load(tmp_path / "run", case.build(), task=case.task if case.name == "custom" else None)
    if case.name != "custom":
        assert again.task == made.task
    assert (again.predict(inputs) == predicted).all()
    assert again.evaluate(inputs, labels).figures == found.figures

    page = made.report().read_text(encoding="utf-8")
    for name in case.figures or ("loss",):
        title = made.task.metric_kind(name).title if case.figures else "loss"
        for shown in (f"Held-out source {title}", f"Target test {title}", f"Held-out {title}"):
            assert f"<h3>{shown}" in page
        assert f'id="chart-held-out-{name.replace("_", "-")}"' in page
    units = {"regression": "squared error", "custom": "quantile_loss"}
    unit = units.get(made.task.name, "nats")
    assert f'Label loss L<sub>y</sub> <span class="quiet">{unit}</span>' in page
    if made.task.one_class:
        assert made.verdict().estimate is not None
        assert "Estimated target accuracy" in page
    else:
        with pytest.raises(RunError, match=f"judges predicted classes.* is {made.task.noun}"):
            made.verdict()
        assert f"this run is {made.task.noun}" in page


@every_case
def test_poisoned_target_labels_change_nothing(case: Case) -> None:
    inputs, labels = case.target()
    plain = trained(case, inputs)
    poisoned = trained(case, (inputs, labels[::-1].copy()))
    assert weights_digest(plain.network) == weights_digest(poisoned.network)
    assert weights_digest(plain.network) != weights_digest(case.build())


@every_case
def test_exported_programs_give_the_outputs(case: Case, tmp_path: Path) -> None:
    made = trained(case)
    inputs = case.target()[0]
    made.export(tmp_path / "model.pt2", inputs)
    program = torch.export.load(tmp_path / "model.pt2").module()
    given = made.domain(inputs).batch(range(5)).inputs
    torch.testing.assert_close(program(given), made.outputs(inputs)[:5], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@every_case
def test_exported_onnx_gives_the_predictions(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Shown]
) -> None:
    """Exported by the command line; the predictions are those of Python."""
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(f"from task_cases import {case.network.__name__} as network")
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    made = trained(case, run="run")
    inputs = case.target()[0]
    exported = call("export", "run", "model.onnx", "--network", "mine:network")
    assert exported.code == 0, exported.err
    assert "checked" in exported.out
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    given = made.domain(inputs).batch(range(9)).inputs
    assert isinstance(given, torch.Tensor)
    [found] = session.run(None, {session.get_inputs()[0].name: given.numpy()})
    predicted = made.task.predictions(torch.from_numpy(found))
    if predicted.dtype.kind == "f":
        np.testing.assert_allclose(predicted, made.predict(inputs)[:9], rtol=1e-4, atol=1e-5)
    else:
        assert (predicted == made.predict(inputs)[:9]).all()


@every_case
def test_from_the_command_line(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Shown]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = f"from task_cases import {case.network.__name__} as network, quantile_task as task"
    Path("mine.py").write_text(names)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    inputs, labels = case.target()
    np.savez("source.npz", **dict(zip(("x", "y"), case.source(), strict=True)))
    np.savez("target.npz", x=inputs)
    np.savez("test.npz", x=inputs, y=labels)
    custom = ["--task", "mine:task"] if case.name == "custom" else []
    given = ["--task", case.given] if isinstance(case.given, str) else custom

    def run(*words: str) -> str:
        shown = call(*words)
        assert shown.code == 0, shown.err
        return shown.out

    train = "train --source source.npz --target target.npz --test test.npz --network mine:network"
    train += " --recipe paper --layer lower --steps 6 --batch-size 20 --domain-classifier 4"
    train += " --quiet -o run"
    said = run(*train.split(), *given)
    by_hand = adapt(
        revgrad.networks.build_network(
            "mine:network", classes=case.outputs, channels=1, size=(1, 1), seed=0
        ),
        *(case.source(), inputs),
        **{**SHORT, "learning_rate": revgrad.Annealed(0.01, 10.0, 0.75)},
        task=case.task,
    )
    own = ["--network", "mine:network"]
    metrics = by_hand.evaluate(inputs, labels).figures
    assert not metrics or f"target test {shown_metrics(metrics)}" in said
    recorded = read_record(Path("run/result.json"))
    assert recorded is not None
    assert {**recorded.target_metrics, "accuracy": recorded.target_accuracy} == pytest.approx(
        {"accuracy": None, **metrics}
    )

    found = json.loads(run("evaluate", "run", "test.npz", "--json", *own, *custom))
    expected = by_hand.evaluate(inputs, labels)
    assert found["loss"] == pytest.approx(expected.loss, rel=1e-6)
    assert {name: found[name] for name in case.figures} == pytest.approx(expected.figures)
    shown = run("evaluate", "run", "test.npz", *own, *custom)
    assert f"loss {expected.loss:.4f} (50 samples)" in shown

    run("predict", "run", "target.npz", "-o", "found.npz", *own, *custom)
    with np.load("found.npz") as file:
        assert (file["predictions"] == by_hand.predict(inputs)).all()
    if case.columns:
        run("predict", "run", "target.npz", "-o", "found.csv", *own, *custom)
        with Path("found.csv").open(newline="") as table:
            lines = list(csv.DictReader(table))
        assert tuple(lines[0]) == ("file", *case.columns)
        assert len(lines) == 50
        if "class" in case.columns:
            predicted = [str(one) for one in by_hand.predict(inputs)]
            assert [line["class"] for line in lines] == predicted
        if case.columns == ("value",):
            values = [float(line["value"]) for line in lines]
            np.testing.assert_allclose(values, by_hand.predict(inputs), rtol=1e-6)
    else:
        refused = call("predict", "run", "target.npz", *own)
        assert refused.code == 2
        assert "are maps, which no table holds" in refused.line

    run("report", "run")
    assert Path("run/report.html").exists()
    run("export", "run", "model.safetensors", *own)
    assert Path("model.safetensors").exists()
    if by_hand.task.one_class:
        assert "target" in run("verdict", "run")
    else:
        refused = call("verdict", "run")
        assert refused.code == 1
        assert f"judges predicted classes, and run is {by_hand.task.noun}" in refused.line


class TestOutputPart:
    """Networks that return several values."""

    data = CASES[0]

    @pytest.mark.parametrize("tap", [False, True])
    def test_the_part_that_is_meant_is_trained_and_given(
        self, tap: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:

        cut_by_tap(monkeypatch, tap)
        source, (inputs, labels) = self.data.source(), self.data.target()
        plain = trained(self.data)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            network = Dict()
        made = adapt(network, source, inputs, output="logits", run=tmp_path / "run", **SHORT)
        assert made.adapter is not None
        assert made.adapter.cut.traced is not tap
        assert weights_digest(made.network) == weights_digest(plain.network)
        assert torch.equal(made.outputs(inputs), plain.outputs(inputs))
        again = load(tmp_path / "run", Dict())
        assert again.output == "logits"
        assert again.evaluate(inputs, labels).accuracy == plain.evaluate(inputs, labels).accuracy
        made.export(tmp_path / "model.pt2", inputs)
        program = torch.export.load(tmp_path / "model.pt2").module()
        given = torch.from_numpy(inputs)
        torch.testing.assert_close(program(given), made.outputs(inputs), rtol=1e-4, atol=1e-5)

    def test_a_place_of_a_tuple_and_an_attribute(self) -> None:
        class Pair(Vectors):
            def forward(self, inputs: torch.Tensor) -> Any:
                hidden = torch.relu(self.lower(inputs))
                return hidden, self.upper(hidden)

        class Named(Pair):
            def forward(self, inputs: torch.Tensor) -> Any:
                from types import SimpleNamespace

                return SimpleNamespace(scores=super().forward(inputs)[1])

        source, inputs = self.data.source(), self.data.target()[0]
        plain = trained(self.data)
        for kind, part in ((Pair, 1), (Pair, -1), (Named, "scores")):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(3)
                network = kind()
            made = adapt(network, source, inputs, output=part, **SHORT)
            assert weights_digest(made.network) == weights_digest(plain.network)

    @pytest.mark.parametrize(
        ("network", "part", "message"),
        [
            (
                Dict,
                None,
                r"returns a dict.*output='logits' \(it has hidden, logits; --output-part\)",
            ),
            (Dict, "logit", r"has no part 'logit'; there are: hidden, logits"),
            (Dict, 0, "has no part 0; there are: hidden, logits"),
            (Vectors, "logits", "has no part 'logits'; it is one tensor, which needs no output="),
            (Vectors, 0, "has no part 0; it is one tensor"),
        ],
    )
    def test_a_part_that_is_not_there(self, network: Any, part: Any, message: str) -> None:
        source, inputs = self.data.source(), self.data.target()[0]
        with pytest.raises(InputError, match=message):
            adapt(network(), source, inputs, output=part, **SHORT)


REGRESSION = next(case for case in CASES if case.name == "regression")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"method": "adversarial-entropy"}, "is for one class a sample, and this is a regression"),
        ({"recipe": "recommended"}, "method 'adversarial-consistency' is for one class a sample"),
        ({"return_weights": "best"}, "judges by predicted classes, and this is a regression"),
    ],
)
def test_what_is_for_classes_says_so(more: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        trained(REGRESSION, **more)


@pytest.mark.parametrize("method", ["adversarial-entropy", "two-losses", "kernel-matching"])
def test_one_logit_trains_as_two_classes_do(method: str) -> None:
    """The entropy of [0, z] and of z is the same: weights move alike."""
    binary = next(case for case in CASES if case.name == "binary")
    made = trained(binary, method=method, steps=30)
    assert made.evaluate(*binary.target()).accuracy is not None
