"""Label-free scores against slow loops over their definitions, limiting cases, and skada's."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from revgrad.diagnostics import SCORES, Evidence, available_scores, score
from revgrad.diagnostics.accuracy_estimate import (
    accuracy_by_signs,
    has_informative_opinion,
    opinion_on,
)
from revgrad.diagnostics.certainty import (
    SIMILARITY_BLOCK,
    agreement,
    class_balance,
    effective_classes,
    mutual_information,
    negative_entropy,
    prediction_nuclear_norm,
    seed_agreement,
    soft_neighbourhood_density,
    source_error,
    source_losses,
    stability,
)
from revgrad.diagnostics.consensus import consensus_on
from revgrad.diagnostics.divergence import adaptation_bound, domain_separation, own_domain_error
from revgrad.diagnostics.importance import (
    deep_embedded_risk,
    density_ratios,
    importance_weighted_risk,
)
from revgrad.diagnostics.trust import numbers_of, quality_of, trust_model
from revgrad.diagnostics.vetoes import variety
from revgrad.errors import InputError, UnknownNameError

CLASSES = 4


def logits(n: int = 23, seed: int = 0, scale: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, CLASSES)) * scale


def certain(classes: np.ndarray | list[int], k: int = CLASSES) -> np.ndarray:
    return np.eye(k)[classes] * 1000.0


def softmax(row: np.ndarray) -> list[float]:
    exponentials = [math.exp(x - max(row)) for x in row]
    return [e / math.fsum(exponentials) for e in exponentials]


def slow_entropy(shares: list[float]) -> float:
    return -math.fsum(p * math.log(p) for p in shares if p > 0)


def slow_density(rows: np.ndarray, temperature: float) -> float:
    shares = [softmax(row) for row in rows]
    units = [[p / math.sqrt(math.fsum(q * q for q in s)) for p in s] for s in shares]
    total = 0.0
    for i, one in enumerate(units):
        weights = [
            math.exp(math.fsum(a * b for a, b in zip(one, other, strict=True)) / temperature)
            for j, other in enumerate(units)
            if j != i
        ]
        total += slow_entropy([w / math.fsum(weights) for w in weights])
    return total / len(units)


def test_entropy_and_mutual_information_are_those_of_their_definitions() -> None:
    rows = logits()
    shares = [softmax(row) for row in rows]
    mean = [math.fsum(s[i] for s in shares) / len(shares) for i in range(CLASSES)]
    within = math.fsum(slow_entropy(s) for s in shares) / len(shares)
    assert negative_entropy(rows) == pytest.approx(-within, rel=1e-12)
    assert mutual_information(rows) == pytest.approx(slow_entropy(mean) - within, rel=1e-12)


def test_entropy_and_mutual_information_at_their_limits() -> None:
    unsure, one, all_ = np.zeros((8, CLASSES)), certain([2] * 8), certain([0, 1, 2, 3] * 2)
    assert negative_entropy(unsure) == pytest.approx(-math.log(CLASSES))
    assert negative_entropy(one) == negative_entropy(all_) == 0
    assert mutual_information(unsure) == pytest.approx(0, abs=1e-15)
    assert mutual_information(one) == pytest.approx(0, abs=1e-15)
    assert mutual_information(all_) == pytest.approx(math.log(CLASSES))


@pytest.mark.parametrize("temperature", [0.05, 0.7])
@pytest.mark.parametrize("block", [1, 100, SIMILARITY_BLOCK])
def test_neighbourhood_density_is_that_of_its_definition_in_any_blocks(
    temperature: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("revgrad.diagnostics.certainty.SIMILARITY_BLOCK", block)
    rows = logits()
    found = soft_neighbourhood_density(rows, temperature=temperature)
    assert found == pytest.approx(slow_density(rows, temperature), rel=1e-12)


def test_neighbourhood_density_at_its_limits() -> None:
    assert soft_neighbourhood_density(certain([1] * 9)) == pytest.approx(math.log(8))
    assert soft_neighbourhood_density(certain([0, 0, 1, 1])) == pytest.approx(
        slow_density(certain([0, 0, 1, 1]), 0.05)
    )
    assert soft_neighbourhood_density(certain([0, 0, 1, 1])) < 1e-6  # one neighbour each
    # a temperature at which exp underflows for all but the nearest
    assert soft_neighbourhood_density(logits(), temperature=1e-4) == pytest.approx(0, abs=1e-6)


def test_nuclear_norm_is_the_trace_of_the_root() -> None:
    rows = logits()
    shares = np.array([softmax(row) for row in rows])
    values, vectors = np.linalg.eigh(shares.T @ shares)
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    assert prediction_nuclear_norm(rows) == pytest.approx(
        float(np.trace(root)) / math.sqrt(23 * CLASSES), rel=1e-9
    )
    assert prediction_nuclear_norm(certain([0, 1, 2, 3] * 5)) == pytest.approx(1)
    assert prediction_nuclear_norm(certain([1] * 20)) == pytest.approx(0.5)
    assert prediction_nuclear_norm(certain([0, 1], k=9)) == pytest.approx(1)  # fewer samples than k


def test_source_losses_are_those_of_their_definitions() -> None:
    rows, labels = logits(), np.arange(23) % CLASSES
    wrong = [
        float(max(range(CLASSES), key=row.__getitem__) != y)
        for row, y in zip(rows, labels, strict=True)
    ]
    assert source_losses(rows, labels).tolist() == wrong
    assert 0 < sum(wrong) < 23
    assert source_error(rows, labels) == pytest.approx(sum(wrong) / 23)
    slow = [-math.log(softmax(row)[y]) for row, y in zip(rows, labels, strict=True)]
    assert source_losses(rows, labels, "cross-entropy") == pytest.approx(slow, rel=1e-12)


def test_class_balance_is_the_negative_total_variation() -> None:
    rows, labels = logits(), np.array([0] * 5 + [2] * 3 + [3] * 2)
    predicted = rows.argmax(1).tolist()
    slow = sum(abs(predicted.count(c) / 23 - labels.tolist().count(c) / 10) for c in range(CLASSES))
    assert class_balance(rows, labels) == pytest.approx(-slow / 2)
    assert class_balance(certain(labels), labels) == 0
    assert class_balance(certain([1, 1, 1]), labels) == -1
    assert effective_classes(np.array([0.25] * 4)) == pytest.approx(4)
    assert effective_classes(np.array([0.0, 1.0, 0.0])) == pytest.approx(1)


def test_agreements_are_shares_of_equal_predictions() -> None:
    models = [logits(seed=seed) for seed in range(4)]
    answers = [rows.argmax(1).tolist() for rows in models]

    def slow(i: int, j: int) -> float:
        return sum(a == b for a, b in zip(answers[i], answers[j], strict=True)) / 23

    assert agreement(models[0], models[1]) == pytest.approx(slow(0, 1))
    assert stability(models) == pytest.approx((slow(0, 1) + slow(1, 2) + slow(2, 3)) / 3)
    pairs = [slow(i, j) for i, j in combinations(range(4), 2)]
    assert seed_agreement(models) == pytest.approx(sum(pairs) / 6)
    assert stability(models) != pytest.approx(seed_agreement(models))
    assert agreement(models[0], models[0] * 3 + 1) == 1


def everything(n: int = 60, m: int = 50) -> Evidence:
    rng = np.random.default_rng(3)
    return Evidence(
        target_logits=logits(n),
        source_logits=logits(m, 1),
        source_labels=np.arange(m) % CLASSES,
        target_features=rng.normal(size=(n, 3)) + 0.5,
        source_features=rng.normal(size=(m, 3)),
        target_domain_logits=rng.normal(size=n) + 0.5,
        source_domain_logits=rng.normal(size=m) - 0.2,
        target_changed_logits=logits(n, 7),
        target_inputs=rng.normal(size=(n, 4)) + 3 * np.eye(CLASSES)[np.arange(n) % CLASSES],
        source_inputs=rng.normal(size=(m, 4)) + 3 * np.eye(CLASSES)[np.arange(m) % CLASSES],
        source_only_logits=logits(n, 2),
        checkpoint_logits=(logits(n, 4), logits(n, 5)),
        seed_logits=(logits(n, 6),),
    )


def slow_invariance(logits: Any, changed: Any) -> float:
    total = 0.0
    for row, other in zip(logits.tolist(), changed.tolist(), strict=True):
        first, second = row.index(max(row)), other.index(max(other))
        if first == second:
            shares = [
                math.exp(values[first]) / sum(math.exp(value) for value in values)
                for values in (row, other)
            ]
            total += math.sqrt(shares[0] * shares[1])
    return total / len(logits)


def slow_trust(e: Any) -> float:
    """The consensus's agreement by its quality, and for the rest what shows a ruined network."""
    found = consensus_on(e)
    assert found is not None
    signs = numbers_of(found) | {"classes": float(e.target_logits.shape[1])}
    q = quality_of(signs, trust_model())
    pairs = zip(found.pooled.tolist(), e.target_logits.tolist(), strict=True)
    agree = sum(a.index(max(a)) == b.index(max(b)) for a, b in pairs) / len(e.target_logits)
    right = 1 - source_error(e.source_logits, e.source_labels)
    return q * agree + (1 - q) * (right + min(variety(e), 1)) / 2


def test_the_registry_gives_each_function_its_own_evidence() -> None:
    e: Any = everything()
    assert has_informative_opinion(e)
    error = source_error(e.source_logits, e.source_labels)
    ratios = density_ratios(e.source_features, e.target_features)
    separation = domain_separation(e.source_features, e.target_features)
    own = own_domain_error(e.source_domain_logits, e.target_domain_logits)
    expected = {
        "trust": slow_trust(e),
        "estimated-accuracy": accuracy_by_signs(e).value,
        "second-opinion": np.mean(
            e.target_logits.argmax(1) == opinion_on(e).probabilities.argmax(1)
        ),
        "source-error": -error,
        "paper-rule": -(error + abs(1 - 2 * own.error)),
        "bound": -adaptation_bound(error, separation).value,
        "negative-entropy": negative_entropy(e.target_logits),
        "mutual-information": mutual_information(e.target_logits),
        "neighbourhood-density": soft_neighbourhood_density(e.target_logits),
        "effective-invariance": slow_invariance(e.target_logits, e.target_changed_logits),
        "nuclear-norm": prediction_nuclear_norm(e.target_logits),
        "importance-weighted": -importance_weighted_risk(
            source_losses(e.source_logits, e.source_labels), ratios
        ),
        "dev": -deep_embedded_risk(
            source_losses(e.source_logits, e.source_labels, "cross-entropy"), ratios
        ),
        "class-balance": class_balance(e.target_logits, e.source_labels),
        "source-only-agreement": agreement(e.target_logits, e.source_only_logits),
        "stability": stability([*e.checkpoint_logits, e.target_logits]),
        "seed-agreement": agreement(e.target_logits, e.seed_logits[0]),
    }
    assert available_scores(e) == pytest.approx(expected)
    assert set(expected) == set(SCORES)
    assert len(set(expected.values())) == len(expected)


def test_more_errors_lower_every_score_that_looks_at_labels() -> None:
    good: Any = everything()
    labels = good.source_logits.argmax(1)
    right = Evidence(**{**vars(good), "source_labels": labels})
    wrong = Evidence(**{**vars(good), "source_labels": (labels + 1) % CLASSES})
    for name in ("source-error", "paper-rule", "bound", "importance-weighted", "dev"):
        assert score(name, right) > score(name, wrong), name


def test_scores_say_what_they_need() -> None:
    alone = Evidence(logits())
    assert set(available_scores(alone)) == {
        "negative-entropy", "mutual-information", "neighbourhood-density", "nuclear-norm",
    }  # fmt: skip
    with pytest.raises(InputError, match="'dev' needs source_logits, source_labels, source_feat"):
        score("dev", alone)
    with pytest.raises(InputError, match="'stability' needs checkpoint_logits"):
        score("stability", alone)
    with pytest.raises(UnknownNameError, match="did you mean 'negative-entropy'"):
        score("negative-entropie", alone)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"target_logits": np.zeros((0, 4))}, r"target logits must be .* \(0, 4\) came"),
        ({"target_logits": np.zeros((60, 1))}, "two classes at least"),
        ({"target_logits": np.full((60, 4), np.nan)}, "target logits hold NaN .* sample 0"),
        ({"source_labels": None}, "source_logits and source_labels come together"),
        ({"source_labels": np.arange(50) % 5}, r"lie in 0 … 3, .* 4 came"),
        ({"source_labels": np.arange(49) % 4}, r"must have the shape \(50,\)"),
        ({"source_logits": np.zeros((50, 6))}, "6 and 4 came"),
        ({"target_features": np.zeros((60, 2))}, "3 and 2 came"),
        ({"target_features": np.zeros((61, 3))}, "same 60 samples as the logits; 61 came"),
        ({"source_features": np.zeros((49, 3))}, "same 50 samples as the logits; 49 came"),
        ({"source_inputs": None}, "target_inputs and source_inputs come together"),
        ({"target_inputs": np.zeros((59, 4))}, "same 60 samples as the logits; 59 came"),
        ({"source_inputs": np.zeros((51, 4))}, "same 50 samples as the logits; 51 came"),
        (
            {"source_only_logits": np.zeros((59, 4))},
            "source only logits must be of the same samples",
        ),
        ({"checkpoint_logits": (np.zeros((60, 3)),)}, "checkpoint logits must be of the same"),
    ],
)
def test_evidence_that_does_not_fit_is_refused_in_a_line(
    changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(InputError, match=text) as caught:
        Evidence(**{**vars(everything()), **changes})
    assert "\n" not in str(caught.value)


def test_one_sample_or_one_model_is_refused_in_a_line() -> None:
    with pytest.raises(InputError, match="two target samples or more"):
        soft_neighbourhood_density(logits(1))
    with pytest.raises(InputError, match="temperature must be above 0"):
        soft_neighbourhood_density(logits(), temperature=0)
    with pytest.raises(InputError, match="2 at least are needed, 1 came"):
        stability([logits()])
    with pytest.raises(UnknownNameError, match="no loss 'eror'"):
        source_losses(logits(), np.arange(23) % 4, "eror")


def estimator_of_logits() -> Any:
    """An sklearn classifier whose inputs are its logits."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        def __sklearn_is_fitted__(self) -> bool:
            return True

        def fit(self, x: np.ndarray, y: Any = None) -> Given:
            return self

        def predict_proba(self, x: np.ndarray, **_: Any) -> np.ndarray:
            return np.array([softmax(row) for row in x])

    return Given()


def skada_score(scorer: Any, target: np.ndarray) -> float:
    """A scorer of skada on given target logits."""
    n = len(target)
    x = np.concatenate([logits(9, 8), target])
    y = np.r_[np.arange(9) % CLASSES, np.full(n, -1)]
    domains = np.r_[np.ones(9, int), np.full(n, -2)]
    return float(scorer._score(None, estimator_of_logits(), x, y, sample_domain=domains))


def test_skada_agrees_where_definitions_do() -> None:
    """Entropy: skada divides by the classes as well. Density: a sample is its own neighbour there,
    of similarity −1, and we leave it out; at the paper's temperature that is next to nothing."""
    metrics = pytest.importorskip("skada.metrics", reason="skada is not installed")
    models = [logits(40, seed, scale) for seed, scale in enumerate((0.5, 1.0, 2.0, 4.0, 8.0))]
    theirs = [skada_score(metrics.PredictionEntropyScorer(), rows) for rows in models]
    ours = [negative_entropy(rows) for rows in models]
    assert ours == pytest.approx([CLASSES * value for value in theirs], rel=1e-5)
    theirs = [skada_score(metrics.SoftNeighborhoodDensity(), rows) for rows in models]
    ours = [soft_neighbourhood_density(rows) for rows in models]
    assert ours == pytest.approx(theirs, abs=1e-6)
    assert np.argsort(ours).tolist() == np.argsort(theirs).tolist()


def test_skadas_dev_is_ours_where_its_losses_have_a_column() -> None:
    """With its default loss, (n,), skada multiplies weights (n, 1) to an (n, n) matrix, and its
    result is no longer DEV's; a loss of shape (n, 1) gives DEV, and then we agree."""
    metrics = pytest.importorskip("skada.metrics", reason="skada is not installed")
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    class Domains(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """P(source) is the logistic function of the first feature."""

        def fit(self, x: np.ndarray, y: Any = None) -> Domains:
            return self

        def predict_proba(self, x: np.ndarray) -> np.ndarray:
            source = 1 / (1 + np.exp(-x[:, 0]))
            return np.stack([1 - source, source], 1)

    source, target, labels = logits(60, 1), logits(30, 2), np.arange(60) % CLASSES
    pipe = make_pipeline(FunctionTransformer(), estimator_of_logits())
    # a plain pipeline does not take the arguments that skada passes on
    pipe.predict_proba = estimator_of_logits().predict_proba
    x, y = np.concatenate([source, target]), np.r_[labels, np.full(30, -1)]
    domains = np.r_[np.ones(60, int), np.full(30, -2)]

    def column(answers: np.ndarray, shares: np.ndarray) -> np.ndarray:
        return -np.log(shares[np.arange(len(answers)), answers])[:, None]

    def theirs(**options: Any) -> float:
        scorer = metrics.DeepEmbeddedValidation(Domains(), random_state=0, **options)
        return float(scorer._score(None, pipe, x, y, sample_domain=domains))

    rng = np.random.RandomState(0)
    fitted, held, _, answers = train_test_split(source, labels, test_size=0.33, random_state=rng)
    ratios = len(fitted) / 30 * np.exp(-held[:, 0])
    ours = -deep_embedded_risk(source_losses(held, answers, "cross-entropy"), ratios)
    assert theirs(loss_func=column) == pytest.approx(ours, rel=1e-9)
    assert theirs() != pytest.approx(ours, rel=1e-3)
