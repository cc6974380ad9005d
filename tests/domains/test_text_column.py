"""Columns of text of many different values: read by skrub, where it is installed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from torch import nn

from revgrad import adapt, from_frame, load
from revgrad.domains import encoder_of
from revgrad.domains.frame_encoder import FrameEncoder
from revgrad.domains.text_column import MOST_GROUPS, TEXT_INPUTS, TextInput, fit_text

pd = pytest.importorskip("pandas")
skrub = pytest.importorskip("skrub")
JOBS = np.array(["police officer", "school teacher", "bus driver", "nurse", "accountant"])


def staff(n: int = 120, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    which = random.integers(0, len(JOBS), n)
    titles = [f"{JOBS[k]} {random.integers(0, 9000)}" for k in which]
    return pd.DataFrame({"title": [None, *titles[1:]], "pay": which * 2.0, "y": which % 2})


def values(domain: Any) -> np.ndarray:
    found: np.ndarray = domain.batch(np.arange(len(domain))).inputs.numpy()
    return found


def test_inputs_are_skrubs() -> None:
    frame = staff()
    domain = from_frame(frame, label="y")
    encoder = encoder_of(domain)
    assert isinstance(encoder, FrameEncoder)
    text, number = encoder.inputs
    assert isinstance(text, TextInput)
    assert encoder.names[0] == "title (text 0)"
    assert len(text.groups) <= MOST_GROUPS
    theirs = skrub.StringEncoder(TEXT_INPUTS, vocabulary=list(text.groups), random_state=0)
    wanted = theirs.fit_transform(frame.title).to_numpy()
    np.testing.assert_allclose(values(domain)[:, :TEXT_INPUTS], wanted, rtol=1e-4, atol=1e-5)
    again = FrameEncoder.from_state(json.loads(json.dumps(encoder.state())))
    assert again == encoder
    assert (values(domain)[0, :TEXT_INPUTS] == 0).all()  # the missing one
    assert number.column == "pay"


def test_few_groups_of_letters_are_taken_as_they_are() -> None:
    texts = np.array([f"{'ab' * (i % 2)}{i % 7}" for i in range(80)], dtype=object)
    found = fit_text("code", texts)
    assert found is not None
    theirs = skrub.StringEncoder(TEXT_INPUTS, vocabulary=list(found.groups), random_state=0)
    wanted = theirs.fit_transform(pd.Series(texts, name="code")).to_numpy()
    np.testing.assert_allclose(found.encode(texts), wanted, rtol=1e-4, atol=1e-5)


def test_names_stay_categories() -> None:
    encoder = encoder_of(from_frame(staff(), label="y", categorical=["title"]))
    assert encoder.names[-2] == "title=(rare)"  # type: ignore[union-attr]


def test_shipped_and_used_without_skrub(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = staff(), staff(seed=1)
    network = nn.Sequential(nn.LazyLinear(6), nn.ReLU(), nn.Linear(6, 2))
    options: dict[str, Any] = {"recipe": "paper", "steps": 3, "batch_size": 16, "progress": False}
    domain = from_frame(source, label="y")
    made = adapt(network, domain, target, layer="1", run=tmp_path / "run", **options)
    # fitted on the training part alone
    assert made.encoder != encoder_of(domain)
    monkeypatch.setitem(__import__("sys").modules, "skrub", None)
    assert fit_text("title", source.title.to_numpy()) is None
    fresh = nn.Sequential(nn.LazyLinear(6), nn.ReLU(), nn.Linear(6, 2))
    again = load(tmp_path / "run", fresh)
    assert (again.predict(target) == made.predict(target)).all()
    assert again.encoder == made.encoder
