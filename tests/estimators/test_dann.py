"""The estimators, used as people use scikit-learn."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import revgrad
from revgrad.errors import InputError
from revgrad.estimators import DANNClassifier, DANNRegressor
from turned_moons import turned_moons

MOONS = turned_moons(n=200)
X, Y, Z = MOONS.X, MOONS.y, MOONS.X_target


def quick(**given: Any) -> DANNClassifier:
    """One short training; recipe=None: the default, which makes several."""
    return DANNClassifier(**{"steps": 20, "recipe": "vectors", **given})


def weights(model: Any) -> list[torch.Tensor]:
    return list(model.network_.state_dict().values())


def same(one: Any, other: Any) -> bool:
    pairs = zip(weights(one), weights(other), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.slow
def test_two_moons_turned_by_35_degrees_as_it_is() -> None:
    """One picture; five others (seeds 100 to 104) ended at .990 to .995."""
    moons = turned_moons(seed=1)
    model = DANNClassifier(verbose=False).fit(moons.X, moons.y, X_target=moons.X_target)
    assert model.choice_.is_adapted
    assert model.score(moons.X_target, moons.y_target) > 0.95


def test_nothing_adapted_is_handed_back_where_nothing_is_judged_better() -> None:
    """The target is the same population, of classes that are far apart: the source-only network,
    bit for bit."""
    random = np.random.default_rng(0)
    apart = np.array([[-3.0, 0.0], [3.0, 0.0]])[Y] + random.normal(size=X.shape)
    model = quick(steps=60, baseline=True, recipe=None).fit(apart, Y, X_target=apart[::2])
    assert not model.choice_.is_adapted
    assert "source-only network is handed back" in model.choice_.sentence
    assert model.choice_.sentence in model.verdict_.sentence
    kept = model.adapted_.baseline.network.state_dict().values()
    assert all(torch.equal(a, b) for a, b in zip(weights(model), kept, strict=True))


def test_the_default_is_that_of_adapt() -> None:
    model = quick(recipe=None).fit(X, Y, X_target=Z)
    given = (X.astype(np.float32), Y), Z.astype(np.float32)
    found = revgrad.adapt("perceptron", *given, steps=20, progress=False)
    assert model.choice_ == found.choice
    kept = found.network.state_dict().values()
    assert all(torch.equal(a, b) for a, b in zip(weights(model), kept, strict=True))


def test_what_is_said_of_the_training_is_done() -> None:
    assert quick().fit(X, Y, X_target=Z).choice_ is None
    assert quick(recipe=None, method="adversarial").fit(X, Y, X_target=Z).choice_ is None
    assert quick(recipe=None).fit(X, Y).choice_ is None


def test_both_conventions_train_the_same_network() -> None:
    first = quick().fit(X, Y, X_target=Z)
    both, masked = np.concatenate([X, Z]), np.concatenate([Y, np.full(len(Z), -1)])
    domain = np.repeat([1, -2], [len(X), len(Z)])
    second = quick().fit(both, masked, sample_domain=domain)
    assert same(first, second)
    assert not same(first, quick().fit(X, Y))  # the target counts


def test_poisoned_target_labels_leave_the_network_bit_identical() -> None:
    both, domain = np.concatenate([X, Z]), np.repeat([1, -1], [len(X), len(Z)])
    true = np.concatenate([Y, MOONS.y_target])
    poisoned = np.concatenate([Y, np.full(len(Z), 17)])
    for recipe in ("vectors", None):
        one = quick(recipe=recipe).fit(both, true, sample_domain=domain)
        other = quick(recipe=recipe).fit(both, poisoned, sample_domain=domain)
        assert same(one, other)
        assert one.choice_ == other.choice_
    assert list(other.classes_) == [0, 1]


def test_known_labels_of_the_target_are_trained_on() -> None:
    known = np.full(len(Z), -1)
    plain = quick().fit(X, Y, X_target=Z)
    assert same(plain, quick().fit(X, Y, X_target=Z, y_target=known))
    known[:10] = MOONS.y_target[:10]
    assert not same(plain, quick().fit(X, Y, X_target=Z, y_target=known))


def test_text_labels_frames_and_what_is_known_after_fit() -> None:
    frame, target = (pd.DataFrame(values, columns=["left", "up"]) for values in (X, Z))
    names = np.where(Y > 0, "lower", "upper")
    model = quick(baseline=True).fit(frame, names, X_target=target)
    assert list(model.classes_) == ["lower", "upper"]
    assert list(model.feature_names_in_) == ["left", "up"]
    assert model.n_features_in_ == 2
    assert set(model.predict(target)) <= {"lower", "upper"}
    shares = model.predict_proba(target)
    np.testing.assert_allclose(shares.sum(1), 1)
    assert np.array_equal(model.classes_[shares.argmax(1)], model.predict(target))
    assert np.array_equal(model.decision_function(target) > 0, model.predict(target) == "upper")
    assert model.verdict_.outcome in ("adapted", "no gain", "harmed", "can't tell")
    assert model.adapted_.run is None  # the folder it was judged by is gone
    named = model.set_output(transform="pandas").transform(target)
    assert named.shape == (len(Z), 64)
    assert named.columns[0] == "dannclassifier0"


def test_features_are_the_layer_s() -> None:
    model = quick().fit(X, Y, X_target=Z)
    inputs = model.adapted_.preprocessing(torch.from_numpy(Z.astype(np.float32)))
    with torch.no_grad():
        wanted = model.network_.features(inputs).numpy()
    np.testing.assert_allclose(model.transform(Z), wanted, atol=1e-6)


def test_clone_and_pickle() -> None:
    model = quick(network=nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 2)), layer="1")
    before = [value.clone() for value in model.network.state_dict().values()]
    model.fit(X, Y, X_target=Z)
    after = model.network.state_dict().values()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))  # it was copied
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(Z), model.predict_proba(Z))
    assert same(clone(model).fit(X, Y, X_target=Z), model)


def test_warm_start_goes_on_with_the_network() -> None:
    model = quick(warm_start=True).fit(X, Y, X_target=Z)
    before = [value.clone() for value in weights(model)]
    model.set_params(learning_rate=1e-9).fit(X, Y, X_target=Z)
    for one, other in zip(before, weights(model), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
    model.set_params(learning_rate=None).fit(X, Y, X_target=Z)
    assert any(not torch.equal(a, b) for a, b in zip(before, weights(model), strict=True))


def build(classes: int, shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 7), nn.ReLU(), nn.Linear(7, classes))


def test_a_factory_gets_what_it_takes() -> None:
    model = quick(network=build, layer="1").fit(X, Y, X_target=Z)
    assert model.transform(Z).shape == (len(Z), 7)
    other = quick(network=build, layer="1", random_state=5).fit(X, Y, X_target=Z)
    assert not same(model, other)


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        (np.random.default_rng(0).normal(size=(40, 3, 50)).astype(np.float32), "SeriesNetwork"),
        (np.random.default_rng(0).integers(0, 256, (40, 14, 14), dtype=np.uint8), "CompactNetwork"),
        (np.random.default_rng(0).normal(size=(40, 1, 8, 8)), "Perceptron"),
    ],
)
def test_the_default_network_is_by_the_shape_of_x(inputs: np.ndarray, kind: str) -> None:
    y = np.arange(40) % 3
    model = quick(steps=3, batch_size=16, recipe=None).fit(inputs, y, X_target=inputs[::-1].copy())
    assert type(model.network_).__name__ == kind
    assert model.predict(inputs).shape == (40,)


def test_a_pipeline_hands_the_domains_over() -> None:
    import sklearn

    both, y = np.concatenate([X, Z]), np.concatenate([Y, np.full(len(Z), -1)])
    domain = np.repeat([1, -1], [len(X), len(Z)])
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), quick()).fit(both, y, sample_domain=domain)
    alone = quick().fit(StandardScaler().fit_transform(both)[: len(X)], Y)
    assert not same(pipeline[-1], alone)  # the target was there
    assert pipeline.predict(Z).shape == (len(Z),)


@pytest.mark.parametrize("outputs", [1, 2])
def test_regression_in_its_own_units(outputs: int) -> None:
    random = np.random.default_rng(0)
    inputs = random.normal(size=(200, 3))
    y = 1000 + 50 * (inputs @ random.normal(size=(3, outputs)))
    y = y[:, 0] if outputs == 1 else y
    model = DANNRegressor(steps=300).fit(inputs, y, X_target=inputs + 0.1)
    assert model.predict(inputs).shape == y.shape
    assert model.score(inputs, y) > 0.9
    with pytest.raises(AttributeError, match="of a regression there is none"):
        model.verdict_  # noqa: B018
    known = np.full(y.shape, np.nan)
    known[:5] = y[:5]
    some = DANNRegressor(steps=5).fit(inputs, y, X_target=inputs, y_target=known)
    none = DANNRegressor(steps=5).fit(inputs, y, X_target=inputs)
    assert not same(some, none)


def test_the_front_door_opens_on_the_estimators() -> None:
    assert revgrad.DANNClassifier is DANNClassifier
    assert revgrad.DANNRegressor is DANNRegressor


DOMAIN = np.ones(len(X))
MISTAKES: list[tuple[str, Callable[[], Any]]] = [
    ("y_target holds labels of X_target, which is missing", lambda: quick().fit(X, Y, y_target=Y)),
    (
        "the target is given twice",
        lambda: quick().fit(X, Y, X_target=Z, sample_domain=DOMAIN),
    ),
    ("needs one number a sample, so 200", lambda: quick().fit(X, Y, sample_domain=[1, -1])),
    ("sample_domain holds 0", lambda: quick().fit(X, Y, sample_domain=0 * DOMAIN)),
    ("marks no source sample", lambda: quick().fit(X, Y, sample_domain=-DOMAIN)),
    ("sample_domain holds numbers", lambda: quick().fit(X, Y, sample_domain=["s"] * len(X))),
    ("X_target: X has 1 features", lambda: quick().fit(X, Y, X_target=Z[:, :1])),
    ("y_target has 3 labels for 200", lambda: quick().fit(X, Y, X_target=Z, y_target=[0, 1, 1])),
    ("cat, which is no class of y", lambda: quick().fit(X, Y, X_target=Z, y_target=["cat"] * 200)),
    ("one class only, 1", lambda: quick().fit(X, np.ones(len(X), int), X_target=Z)),
    ("inconsistent numbers of samples: 200 and 3", lambda: quick().fit(X, Y[:3])),
    ("y to be passed", lambda: quick().fit(X, None)),
    ("Unknown label type: continuous", lambda: quick().fit(X, X[:, 0])),
    ("contains NaN", lambda: quick().fit(X * np.nan, Y)),
    ("NaN.*a Pipeline does not transform", lambda: quick().fit(X, Y, X_target=Z * np.nan)),
    ("unequal lengths.*from_series", lambda: quick().fit([X[:2, 0], X[:3, 0]], [0, 1])),
    ("did you mean 'perceptron'", lambda: quick(network="perceptro").fit(X, Y)),
    ("did you mean 'vectors'", lambda: quick(recipe="vector").fit(X, Y, X_target=Z)),
    ("no layer 'feature'", lambda: quick(layer="feature").fit(X, Y, X_target=Z)),
    ("name the layer", lambda: quick(network=nn.Linear(2, 2)).fit(X, Y, X_target=Z)),
    ("not int", lambda: quick(network=7).fit(X, Y)),
    ("must return a torch.nn.Module", lambda: quick(network=lambda: 3).fit(X, Y)),
    ("steps must be at least 1", lambda: quick(steps=0).fit(X, Y)),
    ("no default network", lambda: quick().fit(np.zeros((9, 2, 2, 2, 2)), np.arange(9) % 2)),
    ("channels \\(RGBA", lambda: quick().fit(np.zeros((9, 14, 14, 4), np.uint8), np.arange(9) % 2)),
    ("warm_start goes on", lambda: quick(warm_start=True).fit(X, Y).fit(X, Y + 1)),
    ("y is \\(n,\\) or", lambda: DANNRegressor(steps=2).fit(X, np.zeros((len(X), 1, 1)))),
    ("could not convert string", lambda: DANNRegressor(steps=2).fit(X, ["a"] * len(X))),
]


@pytest.mark.parametrize(
    ("said", "mistake"), MISTAKES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_mistake_is_one_clear_line(said: str, mistake: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        mistake()
    if isinstance(raised.value, InputError):
        assert "\n" not in str(raised.value)


def test_what_is_asked_too_early() -> None:
    with pytest.raises(NotFittedError):
        DANNClassifier().predict(X)
    with pytest.raises(AttributeError, match="baseline=True"):
        quick().fit(X, Y).verdict_  # noqa: B018


def test_auto_by_name_tries_several_ways_and_says_what_it_handed_back() -> None:
    found = quick(recipe="auto", method=None, steps=20).fit(X, Y, X_target=Z)
    choice = found.adapted_.choice
    assert choice is not None
    assert {one.name for one in choice.candidates} == {
        *("vectors", "kernel-matching", "consistency", "consistency-moved"),
    }
    assert found.n_steps_ in (20, 10)
    alone = quick(recipe="auto", method=None, steps=20).fit(X, Y)
    assert alone.adapted_.choice is None
