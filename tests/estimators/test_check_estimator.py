"""scikit-learn's own checks; the exceptions are those that docs/estimators.md shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator

from revgrad.estimators import DANNClassifier, DANNRegressor

ROOT = Path(__file__).resolve().parents[2]
EXCEPTIONS: dict[str, str] = json.loads((ROOT / "docs" / "check_estimator.json").read_text())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the checks try things that warn
@pytest.mark.parametrize("estimator", [DANNClassifier(steps=100), DANNRegressor(steps=100)])
def test_the_estimators_pass_scikit_learn_s_checks(estimator: Any) -> None:
    found = check_estimator(
        estimator, expected_failed_checks=EXCEPTIONS, on_fail=None, on_skip=None
    )
    assert len(found) > 50
    failed = [(one["check_name"], one["exception"]) for one in found if one["status"] == "failed"]
    assert failed == []


def test_the_page_shows_the_exceptions() -> None:
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    for name, reason in EXCEPTIONS.items():
        assert f"| `{name}` | {reason} |" in page
