"""Label-free scores in scikit-learn's searches."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.svm import LinearSVC

from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.scores import SCORES, score
from revgrad.errors import InputError
from revgrad.estimators import DANNClassifier, label_free_scorer
from turned_moons import turned_moons

MOONS = turned_moons()
BOTH = np.concatenate([MOONS.X, MOONS.X_target])
Y = np.concatenate([MOONS.y, np.full(len(MOONS.X_target), -1)])
DOMAIN = np.repeat([1, -1], [len(MOONS.X), len(MOONS.X_target)])


def test_a_scorer_is_the_score_of_the_same_evidence() -> None:
    model = DANNClassifier(steps=30, recipe="vectors").fit(
        MOONS.X, MOONS.y, X_target=MOONS.X_target
    )
    evidence = Evidence(
        target_logits=model.adapted_.outputs(MOONS.X_target).numpy(),
        source_logits=model.adapted_.outputs(MOONS.X).numpy(),
        source_labels=MOONS.y,
        source_features=model.transform(MOONS.X),
        target_features=model.transform(MOONS.X_target),
        source_inputs=MOONS.X,
        target_inputs=MOONS.X_target,
    )
    for name in ("mutual-information", "estimated-accuracy", "source-error", "bound"):
        found = label_free_scorer(name)(model, BOTH, Y, sample_domain=DOMAIN)
        assert found == pytest.approx(score(name, evidence), abs=1e-4)


def test_target_labels_are_not_read() -> None:
    model = DANNClassifier(steps=30, recipe="vectors").fit(
        MOONS.X, MOONS.y, X_target=MOONS.X_target
    )
    scorer = label_free_scorer("estimated-accuracy")
    true = np.concatenate([MOONS.y, MOONS.y_target])
    one = scorer(model, BOTH, Y, sample_domain=DOMAIN)
    assert one == scorer(model, BOTH, true, sample_domain=DOMAIN)


@pytest.mark.slow
def test_a_search_chooses_without_target_labels() -> None:
    """Two moons by `sample_domain`: adapting is chosen over training on the source alone."""
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            DANNClassifier(steps=1000, recipe="vectors"),
            {"method": ["source-only", None]},
            scoring=label_free_scorer("mutual-information"),
            cv=StratifiedShuffleSplit(1, test_size=0.3, random_state=0),
        )
        search.fit(BOTH, np.where(DOMAIN > 0, Y, 2), sample_domain=DOMAIN)
    assert search.best_params_ == {"method": None}
    assert search.score is not None
    assert np.mean(search.predict(MOONS.X_target) == MOONS.y_target) > 0.9


def test_any_classifier_can_be_judged() -> None:
    model = LogisticRegression().fit(MOONS.X, MOONS.y)
    found = label_free_scorer("mutual-information")(model, BOTH, Y, sample_domain=DOMAIN)
    assert 0 < found < np.log(2)


def test_mistakes() -> None:
    model = LogisticRegression().fit(MOONS.X, MOONS.y)
    with pytest.raises(InputError, match="no score 'mutual'; did you mean 'mutual-information'"):
        label_free_scorer("mutual")
    with pytest.raises(InputError, match="needs a run's own records"):
        label_free_scorer("stability")
    with pytest.raises(InputError, match="needs sample_domain"):
        label_free_scorer("mutual-information")(model, BOTH, Y)
    with pytest.raises(InputError, match="needs target samples"):
        label_free_scorer("mutual-information")(model, BOTH, Y, sample_domain=abs(DOMAIN))
    svc = LinearSVC().fit(MOONS.X, MOONS.y)
    with pytest.raises(InputError, match="LinearSVC has none"):
        label_free_scorer("mutual-information")(svc, BOTH, Y, sample_domain=DOMAIN)
    with pytest.raises(InputError, match="the score 'bound' needs source_features"):
        label_free_scorer("bound")(model, BOTH, Y, sample_domain=DOMAIN)
    assert "estimated-accuracy" in SCORES
