"""Mistakes that people make with data, labels, networks and options: each is one clear line.

Every case names the words that its line must hold: what was wrong, and what would do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import revgrad
from revgrad.errors import RevgradError
from shown import Shown

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 4)).astype(np.float32)
Y = np.arange(40) % 3
IMAGES = RANDOM.integers(0, 255, (40, 8, 8, 3)).astype(np.uint8)
NUMBERS = X[:, 0].copy()
NAMES = np.array(["cat", "dog", "eel"])[Y]


def network(outputs: int = 3, width: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, outputs))


def images(outputs: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU(), nn.Linear(8, outputs))


def adapt(source: Any = (X, Y), target: Any = X + 1, net: Any = None, **more: Any) -> Any:
    options = {"layer": "1", "steps": 2, "batch_size": 8, "progress": False, "device": "cpu"}
    made = network() if net is None else net
    return revgrad.adapt(made, source, target, **{**options, **more})


def by_position() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 6), nn.Unflatten(1, (1, 6)))


def with_nan(values: np.ndarray) -> np.ndarray:
    found = values.astype(np.float32).copy()
    found[3] = np.nan
    return found


def frame(**more: Any) -> Any:
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"a": np.arange(12.0), "b": ["x", "y"] * 6, "y": [0, 1] * 6, **more})


def from_frame(*arguments: Any, **options: Any) -> Any:
    return revgrad.from_frame(*arguments, **options)


class TwoParts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lower, self.upper = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, inputs: torch.Tensor) -> Any:
        hidden = self.lower(inputs)
        return {"hidden": hidden, "logits": self.upper(hidden)}


class NoReturn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lower = nn.Linear(4, 3)

    def forward(self, inputs: torch.Tensor) -> None:
        self.lower(inputs)


def itself_as_layer() -> Any:
    net = network()
    return adapt(net=net, layer=net[1])


def nested() -> torch.Tensor:
    parts = [torch.zeros(3), torch.zeros(4)]
    return torch.nested.nested_tensor(parts, layout=torch.jagged)


def adapted(**more: Any) -> Any:
    return adapt(**more)


def classifier(**options: Any) -> Any:
    return revgrad.DANNClassifier(steps=2, batch_size=8, **options)


def regressor(**options: Any) -> Any:
    return revgrad.DANNRegressor(steps=2, batch_size=8, **options)


#: name, what is done, words of the line in their order
CASES: list[tuple[str, Callable[[], Any], str]] = [
    # shapes and lengths
    ("labels of another length", lambda: adapt((X, Y[:30])), "40 inputs but 30 labels"),
    ("inputs of another width", lambda: adapt(target=X[:, :3]), "shape (4,) … (3,)"),
    ("network of another width", lambda: adapt(net=network(width=5)), "4 … 5"),
    ("images for vectors", lambda: adapt(target=IMAGES), "uint8 images … shape (4,) … one kind"),
    ("images of two sizes", lambda: adapt((IMAGES, Y), IMAGES[:, :6], images()), "size"),
    ("a single number", lambda: adapt(target=np.float32(3)), "one row a sample"),
    ("ragged lists", lambda: adapt(target=[[1.0, 2.0], [3.0]]), "differ in shape … from_series"),
    (
        "domains by position",
        lambda: adapt(recipe="paper", domain_classifier=by_position()),
        "(n, 1) … Flatten",
    ),
    ("an empty target", lambda: adapt(target=X[:0]), "target is empty"),
    ("an empty source", lambda: adapt((X[:0], Y[:0])), "source is empty"),
    ("one sample", lambda: adapt((X[:1], Y[:1])), "1 sample: too few … held_out=0"),
    ("RGBA images", lambda: adapt((IMAGES[..., [0, 1, 2, 0]], Y), net=images()), "4 channels"),
    ("a tuple of three", lambda: adapt((X, Y, Y)), "tuple of 3 … (X, y)"),
    ("no target", lambda: adapt(target=None), "needs a target … source-only"),
    # what the numbers are
    ("NaN in the inputs", lambda: adapt((with_nan(X), Y)), "not finite … row 3"),
    ("NaN labels", lambda: adapt((X, with_nan(Y))), "missing … sample 3"),
    ("None labels", lambda: adapt((X, [None, *Y[1:].tolist()])), "missing … sample 0"),
    ("no labels", lambda: adapt(X), "has no labels … (X, y)"),
    ("strings as inputs", lambda: adapt((X.astype(str), Y)), "numbers"),
    ("objects as inputs", lambda: adapt((X.astype(object), Y)), "numbers … object"),
    ("complex inputs", lambda: adapt((X.astype(complex), Y)), "complex"),
    ("a sentence", lambda: adapt(target="a sentence"), "no domain 'a sentence'"),
    ("a list of image files", lambda: adapt(target=["a.png", "b.png"]), "image files … folder"),
    ("a missing file", lambda: adapt(target=Path("/nowhere/x.npz")), "no file"),
    ("a generator", lambda: adapt(target=(one for one in X)), "generator … array"),
    # labels
    ("float labels of classes", lambda: adapt((X, Y.astype(float))), "regression … integers"),
    ("one-hot labels", lambda: adapt((X, np.eye(3)[Y])), "one-hot … argmax"),
    ("labels from 1", lambda: adapt((X, Y + 1)), "out of range … 4 classes … 3 outputs"),
    ("labels below 0", lambda: adapt((X, Y - 1)), "-1 … count from 0"),
    ("one class only", lambda: adapt((X, np.zeros(40, int))), "one class"),
    ("text and numbers", lambda: adapt((X, ["a", 1] * 20)), "several kinds"),
    ("dates", lambda: adapt((X, np.arange(40).astype("datetime64[D]"))), "labels must be"),
    ("columns of labels", lambda: adapt((X, np.stack([Y, Y], 1))), "fit no task"),
    ("labels in a scalar", lambda: adapt((X, 3)), "one a sample"),
    ("a network of fewer classes", lambda: adapt(net=network(2)), "3 classes … 2 outputs"),
    ("a network of one output", lambda: adapt(net=network(1)), "3 classes … 1 output"),
    ("a regression of two", lambda: adapt((X, NUMBERS), net=network(2)), "1 number … 2 outputs"),
    (
        "a target of other classes",
        lambda: adapt(
            (X, np.array(["ant", "bee", "cow"])[Y]),
            revgrad.from_arrays(X, np.array(["dog", "bee", "cow"])[Y]).keeping_labels(9),
        ),
        "dog",
    ),
    (
        "a test of other labels",
        lambda: adapt((X, np.array(["ant", "bee", "cow"])[Y]), test=(X, NUMBERS)),
        "test: labels are float32 … takes integers",
    ),
    ("weights of another length", lambda: revgrad.from_arrays(X, Y, weights=X[:9, 0]), "weights"),
    ("weights below 0", lambda: revgrad.from_arrays(X, Y, weights=-abs(X[:, 0])), "0 or more"),
    ("groups of one kind", lambda: adapt(revgrad.from_arrays(X, Y, groups=Y * 0)), "group"),
    # the task
    ("an unknown task", lambda: adapt(task="clases"), "no task 'clases' … did you mean 'classes'"),
    ("binary of three", lambda: adapt(net=network(1), task="binary"), "0 and 1 … 2"),
    ("multi-label of classes", lambda: adapt(task="multi-label"), "labels 0 and 1"),
    ("a dense task of vectors", lambda: adapt(task="dense"), "outputs … positions"),
    ("a class as task", lambda: adapt(task=revgrad.tasks.Regression), "task is a Task or its name"),
    ("no prediction", lambda: probabilities_of_a_regression(), "no probabilities … predict"),
    ("a part of the output", lambda: adapt(net=TwoParts(), layer="lower"), "output='logits'"),
    (
        "a part that is not there",
        lambda: adapt(net=TwoParts(), layer="lower", output="logit"),
        "hidden, logits",
    ),
    # network, layer, settings
    ("a layer misspelt", lambda: adapt(layer="11"), "no layer '11' … 0, 1, 2"),
    ("no layer", lambda: adapt(layer=None), "name the layer … revgrad.layers"),
    ("the last layer", lambda: adapt(layer="2"), "the network's output … layers that work"),
    ("a class as network", lambda: adapt(net=nn.Linear), "class … instance"),
    ("a function as network", lambda: adapt(net=lambda x: x), "torch.nn.Module, not function"),
    ("a network's name misspelt", lambda: adapt(net="perceptrn"), "perceptrn … perceptron"),
    (
        "doubles and halves",
        lambda: adapt((X.astype(np.float16), Y)),
        "float16 … float32 … of one type",
    ),
    ("an option misspelt", lambda: adapt(step=3), "no setting 'step'; did you mean 'steps'"),
    ("no steps", lambda: adapt(steps=0), "steps"),
    ("a batch of none", lambda: adapt(batch_size=0), "batch"),
    ("a recipe misspelt", lambda: adapt(recipe="papr"), "no recipe 'papr' … paper"),
    ("a method misspelt", lambda: adapt(method="dan"), "no method 'dan'"),
    ("an optimiser misspelt", lambda: adapt(optimiser="adm"), "no optimiser 'adm' … adam"),
    ("a device", lambda: adapt(device="gpu"), "device 'gpu' … cpu, cuda"),
    ("held out all", lambda: adapt(held_out=1.0), "held_out … share from 0 to 1"),
    (
        "best by no evidence",
        lambda: adapt((X, NUMBERS), net=network(1), return_weights="best"),
        "'last'",
    ),
    ("weights to return", lambda: adapt(return_weights="first"), "last or best"),
    # after training
    ("inputs of another width later", lambda: adapted().predict(X[:, :3]), "(3,) … (4,)"),
    ("labels unseen later", lambda: adapted().evaluate(X, Y + 5), "out of range"),
    ("names beside numbers", lambda: adapted().evaluate(X, NAMES), "names … only numbers"),
    ("nothing to predict", lambda: adapted().predict(X[:0]), "empty"),
    ("no labels to evaluate", lambda: adapted().evaluate(X), "no labels"),
    ("a verdict without a run", lambda: adapted().verdict(), "run='runs/first'"),
    ("an export of no kind", lambda: adapted().export("model.h5"), ".onnx"),
    # frames
    ("a label's column", lambda: from_frame(frame(), "z"), "no column 'z'"),
    ("no column left", lambda: from_frame(frame()[["y"]], "y"), "no column is left"),
    (
        "a target that lacks columns",
        lambda: adapt(from_frame(frame(), "y"), frame()[["a"]], net=network(2, 3), held_out=0),
        "lacks columns … b",
    ),
    ("missing labels in a frame", lambda: from_frame(frame(y=[0, None] * 6), "y"), "missing"),
    # what nobody thought of at first
    ("X and y swapped", lambda: adapt((Y, X)), "pair is (X, y) … (y, X)?"),
    ("labels in a column", lambda: adapt((X, Y[:, None])), "column … y.ravel()"),
    ("a dict of labels", lambda: adapt((X, dict(enumerate(Y)))), "single value a dict"),
    ("a network on meta", lambda: adapt(net=network().to("meta")), "meta device … to_empty"),
    ("a forward without return", lambda: adapt(net=NoReturn(), layer="lower"), "return missing?"),
    ("a layer's number", lambda: adapt(layer=1), "named by text, not given as 1"),
    ("a layer itself", lambda: itself_as_layer(), "a ReLU: '1' is its name"),
    ("a function as callback", lambda: adapt(callbacks=print), "print, a function … Callback"),
    ("a class of callbacks", lambda: adapt(callbacks=[revgrad.Callback]), "a class … callbacks=["),
    ("a class as method", lambda: adapt(method=revgrad.Adversarial), "instance, Adversarial()"),
    ("a class as loss", lambda: adapt(label_loss=nn.NLLLoss), "instance, NLLLoss() would do"),
    ("a loss of nothing", lambda: adapt(label_loss=lambda o, y: None), "loss gave a NoneType"),
    (
        "a prediction by name",
        lambda: revgrad.tasks.CustomTask(nn.functional.mse_loss, "argmax"),  # type: ignore[arg-type]
        "predict of a task is a function of outputs, not 'argmax'",
    ),
    ("a meta tensor", lambda: adapt(torch.zeros(40, 4, device="meta")), "holds no numbers"),
    ("a sparse tensor", lambda: adapt((torch.from_numpy(X).to_sparse(), Y)), "X.to_dense()"),
    ("a nested tensor", lambda: adapt(nested()), "nested tensor … from_series"),
    ("truth values", lambda: adapt((X > 0, Y), X > 0), "dtype … X.astype('float32')"),
    ("16 bits beside 8", lambda: adapt((IMAGES.astype("u2"), Y), IMAGES, images()), "/ 255"),
    ("one sample to predict", lambda: adapted().predict(X[0]), "of one sample, data[None]"),
    ("texts to predict", lambda: adapted().predict(["some words"]), "holds texts … arrays"),
    ("a frame to predict", lambda: adapted().predict(frame()), "a data frame … arrays"),
    ("images' network", lambda: adapt(net="compact", layer=None), "takes images … perceptron"),
    ("items of three", lambda: adapt([(x, 1, "id") for x in X]), "items must be x or (x, y)"),
    ("a dict as frame", lambda: from_frame({"a": [1.0]}), "pandas.DataFrame(…)"),
    ("a workbook", lambda: from_frame("table.xlsx", "y"), "no table: one of .csv"),
    ("labels of names and text", lambda: from_frame(frame(), ["y", "b"]), "column 'b' holds text"),
    ("several columns misspelt", lambda: from_frame(frame(), ["y", "z"]), "no column 'z'"),
    # estimators
    (
        "a target given twice",
        lambda: classifier().fit(X, Y, X_target=X, sample_domain=np.ones(40)),
        "given twice",
    ),
    ("one class for an estimator", lambda: classifier().fit(X, Y * 0, X_target=X), "class"),
    ("numbers for a classifier", lambda: classifier().fit(X, NUMBERS, X_target=X), "continuous"),
    (
        "text for a regressor",
        lambda: regressor().fit(X, np.array(list("ab") * 20), X_target=X),
        "a",
    ),
    ("another width", lambda: classifier().fit(X, Y, X_target=X[:, :3]), "3 … 4"),
    ("an estimator not fitted", lambda: classifier().predict(X), "not fitted"),
]


def probabilities_of_a_regression() -> Any:
    return adapt((X, NUMBERS), net=network(1)).probabilities(X)


def pattern(words: str) -> str:
    """Words with "…" between: anything may stand there."""
    return ".*".join(re.escape(one) for one in words.split(" … "))


@pytest.mark.parametrize(
    ("act", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_one_clear_line(act: Callable[[], Any], words: str) -> None:
    with pytest.raises((RevgradError, ValueError)) as caught:
        act()
    text = str(caught.value)
    assert re.search(pattern(words), text), text
    assert "\n" not in text
    assert len(text) < 400


TRAIN = "train --source a.npz --target b.npz --steps 2 --batch-size 8 --quiet -o run"

#: what is typed, in a folder with a.npz (vectors and labels) and b.npz (vectors); words of the line
COMMANDS = [
    ("train --source a.npz -o run", "--target is missing … source-only"),
    (f"{TRAIN} --source c.npz", "no file c.npz"),
    (f"{TRAIN} --source b.npz", "has no labels"),
    (f"{TRAIN} --target wide.npz", "shape (4,) … (5,)"),
    (f"{TRAIN} --target text.npz", "numbers"),
    (f"{TRAIN} --target objects.npz", "Python objects … could run code"),
    (f"{TRAIN} --target torn.npz", "torn.npz is not an .npz file, or was cut short"),
    (f"{TRAIN} --target notes.txt", "neither a folder of images nor an .npz file nor a table"),
    (f"{TRAIN} --target digit", "no domain 'digit'; did you mean 'digits'"),
    ("train --source t.csv --target b.npz -o run", "--label is missing … columns: u, v"),
    (f"{TRAIN} --source t.csv --label w", "no column 'w'"),
    (f"{TRAIN} --network compct", "compct … compact"),
    (f"{TRAIN} --network compact", "'compact' takes images … perceptron"),
    (f"{TRAIN} --network mine:Network", "mine"),
    (f"{TRAIN} --layer featurs", "no layer 'featurs'; did you mean 'features'"),
    (f"{TRAIN} --task clases", "no task 'clases'; did you mean 'classes'"),
    (f"{TRAIN} --task dense:x", "dense:255"),
    (f"{TRAIN} --task binary", "0 and 1"),
    (f"{TRAIN} --method dann", "no method 'dann'"),
    (f"{TRAIN} --recipe recomended", "did you mean 'recommended'"),
    (f"{TRAIN} --learning-rate fast", "fast"),
    (f"{TRAIN} --size big", "size is one number or HEIGHTxWIDTH"),
    (f"{TRAIN} --domain-classifier big", "hidden widths are numbers"),
    (f"{TRAIN} --layer-rate fc", "LAYER=FACTOR"),
    (f"{TRAIN} --class-weights 1,2", "balanced or CLASS=WEIGHT"),
    (f"{TRAIN} --sample-weights w", "no array 'w' … there are: x, y"),
    (f"{TRAIN} --held-out 2", "share from 0 to 1"),
    (f"{TRAIN} --target-labels 3", "b has 0 labels; can't keep 3"),
    (f"{TRAIN} --weights none.pth", "weights"),
    ("predict nowhere b.npz", "nowhere"),
    ("verdict nowhere", "nowhere"),
    ("report nowhere", "nowhere"),
    ("export nowhere model.onnx", "nowhere"),
]


@pytest.mark.parametrize(("typed", "words"), COMMANDS, ids=[one[0][-40:] for one in COMMANDS])
def test_one_clear_line_on_the_command_line(
    typed: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[..., Shown],
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", x=X, y=Y)
    np.savez("b.npz", x=X + 1)
    np.savez("wide.npz", x=np.zeros((40, 5), np.float32))
    np.savez("text.npz", x=X.astype(str))
    np.savez("objects.npz", x=np.array([{}, {}], dtype=object))
    Path("torn.npz").write_bytes(Path("a.npz").read_bytes()[:-50])
    Path("notes.txt").write_text("hello")
    Path("t.csv").write_text("u,v\n1,2\n3,4\n")
    shown = call(*typed.split())
    assert shown.code in (1, 2), shown
    assert re.search(pattern(words), shown.line), shown.line
    assert len(shown.line) < 420
    assert not Path("run/checkpoint.json").exists()
