"""The front door: what it takes, what comes out, and one clear line for what it can't take."""

from __future__ import annotations

import inspect
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import revgrad
from revgrad import Blueprint, Constant, Preprocessing, Recipe, adapt, from_arrays, load
from revgrad.errors import InputError, RunError, UnknownNameError
from revgrad.networks.efficientnet import EfficientNetLite0
from revgrad.paper.networks import SVHNNetwork
from revgrad.recipes import PAPER, RECOMMENDED
from tiny import Images, Perceptron, images, seeded, vectors, weights_digest

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 4)).astype(np.float32)
Y = RANDOM.integers(0, 3, 60)
T = X + 1
SHORT: dict[str, Any] = {
    "recipe": "paper",
    "layer": "lower",
    "steps": 4,
    "batch_size": 8,
    "domain_classifier": (6,),
    "progress": False,
}


def trained(source: Any = (X, Y), target: Any = T, **changes: Any) -> revgrad.Adapted:
    return adapt(seeded(Perceptron), source, target, **{**SHORT, **changes})


def line(caught: pytest.ExceptionInfo[Exception]) -> str:
    text = str(caught.value)
    assert "\n" not in text
    return text


class TestWhatItTakes:
    """Whatever holds the data, the same training comes out."""

    @pytest.mark.parametrize(
        ("source", "target"),
        [
            ((X, Y), T),
            ([X, Y], T),
            ((torch.from_numpy(X), torch.from_numpy(Y)), torch.from_numpy(T)),
            ((X.tolist(), Y.tolist()), T.tolist()),
            (TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), T),
            (
                DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), batch_size=5),
                from_arrays(T),
            ),
            ((X, Y), (T, Y[::-1])),  # labels of the target are dropped unread
        ],
        ids=["arrays", "list", "tensors", "numbers", "dataset", "loader", "labelled target"],
    )
    def test_the_same_weights(self, source: Any, target: Any) -> None:
        made = trained(source, target)
        assert weights_digest(made.network) == weights_digest(trained().network)

    def test_an_npz_file_and_a_folder(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "source.npz", inputs=X, labels=Y)
        made = trained(str(tmp_path / "source.npz"), T)
        assert weights_digest(made.network) == weights_digest(trained().network)
        for kind in ("cat", "dog"):
            (tmp_path / "photos" / kind).mkdir(parents=True)
            for i in range(5):
                pixels = RANDOM.integers(0, 255, (8, 8, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(tmp_path / "photos" / kind / f"{i}.png")
        made = adapt(
            seeded(Images),
            tmp_path / "photos",
            str(tmp_path / "photos"),
            **{**SHORT, "layer": "flat"},
        )
        assert made.classes == ("cat", "dog")
        assert made.predict(tmp_path / "photos").shape == (10,)

    def test_test_and_held_out_data(self) -> None:
        made = trained(test=(T, Y), held_out=(X[:20], Y[:20]))
        assert made.result is not None
        assert made.result.last is not None
        assert made.result.last.target_accuracy == made.evaluate(T, Y).accuracy
        assert made.result.last.source_accuracy == made.evaluate((X[:20], Y[:20])).accuracy

    def test_a_call_without_gradients(self) -> None:
        with torch.no_grad():
            made = trained()
        assert weights_digest(made.network) == weights_digest(trained().network)
        network = seeded(Perceptron)
        with torch.inference_mode():
            made = adapt(network, (X, Y), T, **SHORT)
        assert weights_digest(made.network) == weights_digest(trained().network)

    def test_numbers_where_schedules_are_meant(self) -> None:
        made = trained(learning_rate=0.1, adaptation_factor=0.5, steps=1e1)
        same = trained(learning_rate=Constant(0.1), adaptation_factor=Constant(0.5), steps=10)
        assert weights_digest(made.network) == weights_digest(same.network)
        assert made.result is not None
        assert made.result.steps == 10

    def test_recommended_is_one_word(self) -> None:
        source, target = images(30, 1), images(30, 2, shift=40)
        short: dict[str, Any] = {**SHORT, "layer": "flat"}
        by_name = adapt(seeded(Images), source, target, **{**short, "recipe": "recommended"})
        by_hand = adapt(
            seeded(Images),
            source,
            target,
            **short,
            method="adversarial-consistency",
            optimiser="adam",
            learning_rate=revgrad.Annealed(0.003),
            batch_norm="target",
            ema_decay=0.998,
            preprocessing="per-image",
            balanced=True,
        )
        assert weights_digest(by_name.network) == weights_digest(by_hand.network)
        assert RECOMMENDED.changed({}) == RECOMMENDED

    def test_the_names_it_has_of_its_own_are_few(self) -> None:
        names = [
            name
            for name, parameter in inspect.signature(adapt).parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        assert len(names) <= 18


class TestWhatComesOut:
    def test_predictions_probabilities_features(self) -> None:
        made = trained()
        shares = made.probabilities(T)
        assert shares.shape == (60, 3)
        assert np.allclose(shares.sum(1), 1)
        assert (shares.argmax(1) == made.predict(T)).all()
        assert made.features(T).shape == (60, 5)
        assert made.evaluate(X, Y).accuracy == (made.predict(X) == Y).mean()
        assert torch.equal(
            made.model(torch.from_numpy(T)).argmax(1), torch.from_numpy(made.predict(T))
        )

    def test_a_regression_predicts_numbers(self) -> None:
        values = (X @ np.array([1.0, -2.0, 0.5, 0.0], np.float32)).astype(np.float32)
        made = adapt(
            seeded(lambda: Perceptron(outputs=1, width=16)),
            (X, values),
            T,
            **{**SHORT, "steps": 400, "learning_rate": 0.01, "adaptation_factor": 0.1},
        )
        assert made.task == revgrad.tasks.Regression(())
        assert np.corrcoef(made.predict(X), values)[0, 1] > 0.95
        assert made.evaluate(X, values).accuracy is None
        with pytest.raises(InputError, match="regression has no classes"):
            made.probabilities(X)

    def test_verdict_report_and_export(self, tmp_path: Path) -> None:
        made = trained(run=tmp_path / "run", baseline=True, steps=20, evaluate_every=10)
        assert made.verdict() == revgrad.verdict(tmp_path / "run") == revgrad.verdict(made)
        assert made.report() == tmp_path / "run" / "report.html"
        assert revgrad.report([made], tmp_path / "page.html").stat().st_size > 10_000
        made.export(tmp_path / "model.onnx")
        import onnxruntime

        session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
        [logits] = session.run(None, {"inputs": T})
        assert (logits.argmax(1) == made.predict(T)).all()

    def test_a_verdict_without_a_run_says_what_is_missing(self) -> None:
        for judged in (trained().verdict, trained().report):
            with pytest.raises(InputError, match="adapt\\(…, run='runs/first'\\)"):
                judged()

    def test_a_loaded_run_predicts_the_same(self, tmp_path: Path) -> None:
        made = trained(run=tmp_path / "run")
        again = load(tmp_path / "run", seeded(Perceptron, seed=9))
        assert (again.probabilities(T) == made.probabilities(T)).all()
        assert again.input_shape == made.input_shape
        assert (tmp_path / "run" / "result.json").exists()

    def test_labels_that_are_text_train_as_their_numbers(self) -> None:
        names = np.array(["ant", "bee", "cat"])
        by_name = trained((X, names[Y]), T, test=(X, names[Y]))
        by_number = trained((X, Y), T, test=(X, Y))
        assert by_name.classes == ("ant", "bee", "cat")
        assert weights_digest(by_name.network) == weights_digest(by_number.network)
        assert by_name.result is not None
        assert by_number.result is not None
        assert by_name.result.last is not None
        assert by_number.result.last is not None
        assert by_name.result.last.target_accuracy == by_number.result.last.target_accuracy
        # a test that lacks a class is matched by name, not by its own numbers
        few = np.flatnonzero(Y > 0)
        assert by_name.evaluate(X[few], names[Y[few]]).accuracy == pytest.approx(
            by_number.evaluate(X[few], Y[few]).accuracy
        )
        with pytest.raises(InputError, match="not among the 3 of the source: dog"):
            by_name.evaluate(X[:1], ["dog"])
        with pytest.raises(InputError, match="give the source its names too"):
            trained((X, Y), T, test=(X, names[Y]))

    def test_what_is_held_out_shares_no_group(self) -> None:
        people = np.arange(60) // 6
        source = from_arrays(X, Y, groups=people)
        seen: list[set[int]] = []

        class Watch(revgrad.Callback):
            def on_start(self, trainer: revgrad.Trainer, step: int) -> None:
                parts = (trainer.batches.domains[0], trainer.held_out)
                seen.extend(set(people[part.rows]) for part in parts if part is not None)

        trained(source, T, callbacks=[Watch()])
        assert seen[0] | seen[1] == set(range(10))
        assert not seen[0] & seen[1]

    def test_classes_of_other_data_go_by_name(self) -> None:
        source = from_arrays(X, Y, classes=("a", "b", "c"))
        made = trained(source, T)
        turned = from_arrays(X, 2 - Y, classes=("c", "b", "a"))
        assert made.evaluate(turned).accuracy == made.evaluate(source).accuracy
        other = from_arrays(X, Y, classes=("a", "b", "dog"))
        with pytest.raises(InputError, match="dog"):
            made.evaluate(other)
        with pytest.raises(InputError, match="dog"):
            trained(source, T, test=other)


class TestBlueprint:
    def test_limits_and_layers_hold_from_python_too(self) -> None:
        """SVHNNetwork's limit of 4: without it training from Python was not finite at step 9."""
        pixels = RANDOM.integers(0, 255, (40, 32, 32, 3)).astype(np.uint8)
        labels = RANDOM.integers(0, 10, 40)
        network = SVHNNetwork(seed=0)
        with torch.no_grad():
            network.fc4.weight.mul_(40)
        adapt(
            network, (pixels, labels), pixels, recipe="paper", steps=1, batch_size=8, progress=False
        )
        norms = network.fc4.weight.detach().flatten(1).norm(dim=1)
        assert float(norms.max()) <= 4.0 + 1e-4
        free = SVHNNetwork(seed=0)
        with torch.no_grad():
            free.fc4.weight.mul_(40)
        adapt(
            *(free, (pixels, labels), pixels),
            recipe="paper",
            steps=1,
            batch_size=8,
            progress=False,
            max_weight_norm=0,
            learning_rate=0,
        )
        assert float(free.fc4.weight.detach().flatten(1).norm(dim=1).max()) > 4.0

    def test_pretrained_networks_get_their_own_preprocessing(self) -> None:
        pixels = RANDOM.integers(0, 255, (12, 32, 32, 3)).astype(np.uint8)
        made = adapt(
            *(EfficientNetLite0(2, size=32), (pixels, np.arange(12) % 2), pixels),
            recipe="paper",
            steps=1,
            batch_size=4,
            progress=False,
        )
        assert isinstance(made.preprocessing, Preprocessing)
        assert made.preprocessing.mean.flatten().tolist() == [127.0] * 3
        assert made.preprocessing.scale.flatten().tolist() == [128.0] * 3

    def test_a_network_of_one_s_own_may_have_one(self) -> None:
        class Own(Perceptron):
            blueprint = Blueprint("lower", domain_classifier=(3,), max_weight_norm=0.5)

        network = seeded(Own)
        made = adapt(network, (X, Y), T, recipe="paper", steps=2, batch_size=8, progress=False)
        assert made.layer == "lower"
        assert made.adapter is not None
        assert made.adapter.domain_classifier.hidden == (3,)
        assert float(network.lower.weight.detach().norm(dim=1).max()) <= 0.5 + 1e-5


class TestVectorsAreStandardised:
    def test_each_feature_over_both_domains(self) -> None:
        scales = np.array([1.0, 1e4, 1e-3, 1.0], np.float32)
        source, target = X * scales + [0, 1e6, 0, 5], T * scales + [0, 1e6, 0, 5]
        fitted = Preprocessing.fit(from_arrays(source), from_arrays(target))
        both = np.stack([source.astype(np.float64), target.astype(np.float64)])
        mean = both.mean((0, 1))
        deviation = np.sqrt((both**2).mean((0, 1)) - mean**2)
        assert np.allclose(fitted.mean.numpy(), mean, rtol=1e-5)
        assert np.allclose(fitted.scale.numpy(), deviation, rtol=1e-2)

    def test_a_constant_feature_stays_finite(self) -> None:
        flat = X.copy()
        flat[:, 1] = 7.0
        fitted = Preprocessing.fit(from_arrays(flat))
        values = fitted(torch.from_numpy(flat))
        assert isinstance(values, Tensor)
        assert bool(values.isfinite().all())
        assert values[:, 1].tolist() == [0.0] * 60

    def test_training_hardly_depends_on_the_unit(self) -> None:
        ours = trained(steps=60).predict(T)
        other = trained((X * 1000, Y), T * 1000, steps=60).predict(T * 1000)
        assert (ours == other).mean() > 0.95


class TestRefusals:
    """Each a raw exception, or a riddle, before."""

    @pytest.mark.parametrize(
        ("call", "said"),
        [
            (lambda: adapt(Perceptron, (X, Y), T, **SHORT), "class, Perceptron: give an instance"),
            (lambda: adapt("net", (X, Y), T, **SHORT), "no network 'net'; did you mean"),
            (lambda: trained(X, T), "source, has no labels"),
            (lambda: trained((X, Y), None), "needs a target; without one, take 'source-only'"),
            (lambda: trained((X, Y[:5]), T), "60 inputs but 5 labels"),
            (lambda: trained((X, Y), T[:, :3]), r"source .*\(4,\).* target .*\(3,\)"),
            (lambda: trained((X.astype(np.int64), Y), T.astype(np.int64)), "int64"),
            (lambda: trained(steps=1.5), "steps must be a whole number, not 1.5"),
            (lambda: trained(steps="many"), "steps must be a whole number, not 'many'"),
            (lambda: trained(learning_rate="fast"), "learning_rate is a number or a schedule"),
            (lambda: trained(rate=0.1), "no setting 'rate'"),
            (lambda: trained(lerning_rate=0.1), "did you mean 'learning_rate'"),
            (lambda: trained(method="dann"), "no method 'dann'"),
            (lambda: trained(recipe="recomended"), "did you mean 'recommended'"),
            (lambda: trained(recipe=3), "a recipe is a Recipe or its name, not int"),
            (lambda: trained(preprocessing="none"), "no preprocessing 'none'"),
            (lambda: trained(domain_classifier="big"), "takes hidden widths from 1"),
            (lambda: trained(domain_classifier=(0,)), "takes hidden widths from 1"),
            (lambda: trained(return_weights="first"), "return_weights is last or best"),
            (lambda: trained(held_out=1.5), "held_out is a share from 0 to 1"),
            (lambda: trained(held_out=float("nan")), "held_out is a share from 0 to 1"),
            (lambda: trained(evidence_samples=-1), "evidence_samples must be 0 or more"),
            (lambda: trained(layer="lwer"), "did you mean 'lower'"),
            (lambda: trained(layer=None), "name the layer"),
            (lambda: trained(object(), T), "source"),
            (lambda: trained().predict(X[:, :2]), r"shape \(2,\); this network takes \(4,\)"),
        ],
    )
    def test_one_clear_line(self, call: Any, said: str) -> None:
        with pytest.raises(InputError, match=said) as caught:
            call()
        line(caught)

    def test_inputs_that_the_network_does_not_take(self) -> None:
        with pytest.raises(InputError, match=r"can't be run on inputs of \(3,\) float32") as caught:
            trained((X[:, :3], Y), T[:, :3])
        line(caught)

    def test_more_steps_say_how_from_python_and_from_the_command_line(self, tmp_path: Path) -> None:
        trained(run=tmp_path / "run")
        with pytest.raises(RunError, match=r"revgrad\.load\('.*run', network\)\.network"):
            trained(run=tmp_path / "run", steps=9)

    def test_a_finished_run_does_not_go_on(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        trained(run=tmp_path / "run")
        with caplog.at_level(logging.INFO, "revgrad"):
            trained(run=tmp_path / "run")
        assert "is finished" in caplog.text
        assert "goes on" not in caplog.text

    def test_an_unknown_recipe_is_an_unknown_name(self) -> None:
        with pytest.raises(UnknownNameError):
            trained(recipe="best")
        assert Recipe().method == PAPER.method


def test_a_script_that_fails_names_no_command(tmp_path: Path) -> None:
    """The hint for more steps once said "bad.py --init rr" to a user of Python."""
    (tmp_path / "bad.py").write_text(
        "import numpy as np, revgrad\nfrom torch import nn\n"
        "X = np.random.default_rng(0).normal(size=(30, 4)).astype('float32')\n"
        "def go(steps):\n"
        "    net = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))\n"
        "    revgrad.adapt(net, (X, np.arange(30) % 2), X + 1, layer='0', steps=steps, run='rr',\n"
        "                  batch_size=8, domain_classifier=(4,), progress=False,\n"
        "                  recipe='paper')\n"
        "go(2)\ngo(3)\n"
    )
    shown = subprocess.run([sys.executable, "bad.py"], capture_output=True, text=True, cwd=tmp_path)
    assert shown.returncode != 0
    assert "--init" not in shown.stderr
    assert "revgrad.load('rr', network)" in shown.stderr


def test_baselines_can_be_told_apart(capfd: pytest.CaptureFixture[str]) -> None:
    trained((X, Y), vectors(50, 3).without_labels(), baseline=True, progress=True)
    lines = [text for text in capfd.readouterr().err.splitlines() if "step 4" in text]
    assert [text.split("  ")[0] for text in lines] == ["adapted", "source only"]


def test_one_module_serves_several_trainings() -> None:
    """The recipe's module is not shared between the adapted network and its baseline."""
    module = nn.Linear(4, 4)
    made = trained(preprocessing=module, baseline=True)
    assert made.preprocessing is module


class GreyToColour(Images):
    """Makes colour of grey images by itself."""

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[1] == 1
        return super().forward(x.repeat(1, 3, 1, 1))


def test_grey_images_are_colour_for_a_network_of_three_channels_alone() -> None:
    grey = RANDOM.integers(0, 256, (40, 1, 8, 8)).astype(np.uint8)
    short = {**SHORT, "layer": "pool", "held_out": 0}
    for build, channels in ((Images, 3), (GreyToColour, 1)):
        made = adapt(seeded(build), (grey, Y[:40]), grey, **short)
        assert made.input_shape == (channels, 8, 8)
        assert made.predict(grey).shape == (40,)
