"""Early signs of harm: what counts as one, said while a run trains, and that looking changes
nothing."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from revgrad import adapt
from revgrad.diagnostics.early_signs import EarlySigns, HarmSeen, Look, least_fall
from revgrad.diagnostics.evidence import Evidence
from revgrad.objectives import Losses
from revgrad.objectives.losses import mean_label_loss
from revgrad.tasks.losses import cross_entropy
from tiny import Perceptron, digest, seeded, vectors

GOOD = Look(accuracy=0.9, variety=0.95, size=2.0)


def test_what_counts_as_a_sign() -> None:
    assert GOOD.sign(GOOD, 200) == ""
    assert "fell from 0.90 to 0.80" in GOOD.sign(replace(GOOD, accuracy=0.8), 200)
    assert GOOD.sign(replace(GOOD, accuracy=0.84), 200) == ""
    # of few samples a fall may be chance: two standard deviations of what changed
    assert GOOD.sign(replace(GOOD, accuracy=0.8), 20) == ""
    assert least_fall(0.1, 20) == pytest.approx(2 * (0.1 / 20) ** 0.5)
    assert "collapse: their variety is 30%" in GOOD.sign(replace(GOOD, variety=0.3), 200)
    few = replace(GOOD, variety=0.4)  # a target of few classes, from the start on
    assert few.sign(replace(few, variety=0.38), 200) == ""
    assert "21 times as large" in GOOD.sign(replace(GOOD, size=42.0), 200)
    best = GOOD.best_with(Look(accuracy=0.95, variety=0.5, size=3.0))
    assert best == Look(accuracy=0.95, variety=0.95, size=2.0)


def test_a_look_by_hand() -> None:
    labels = np.array([0, 1, 2, 0])
    said = np.array([0, 1, 2, 1])
    target = np.array([0, 0, 0, 1])
    found = Look.at(
        Evidence(
            np.eye(3)[target],
            np.eye(3)[said],
            labels,
            np.array([[3.0], [4.0], [0.0], [0.0]]),
            np.ones((4, 1)),
        )
    )

    def classes(shares: list[float]) -> float:
        return float(np.exp(-sum(p * np.log(p) for p in shares if p)))

    variety = (classes([0.75, 0.25]) - 1) / (classes([0.5, 0.25, 0.25]) - 1)
    assert found.accuracy == 0.75
    assert found.variety == pytest.approx(variety)
    assert found.size == pytest.approx((25 / 4) ** 0.5)


class Ruin:
    """Learns the classes while λ is below a half, and then that all samples are of the first."""

    label_loss = staticmethod(cross_entropy)

    def __call__(self, adapter: Any, batch: Any, factor: Any) -> Losses:
        predictions = adapter(batch)[1]
        loss = mean_label_loss(cross_entropy, predictions, batch)
        assert loss is not None
        if float(factor) >= 0.5:
            loss = cross_entropy(predictions, torch.zeros(len(predictions), dtype=torch.long))
        return Losses(loss, loss.detach(), None, None)


RUINED: dict[str, Any] = {
    "method": Ruin(),
    "adaptation_factor": lambda progress: progress,
    "learning_rate": 0.1,
}


def trained(**more: Any) -> Any:
    values: dict[str, Any] = {"steps": 30, "batch_size": 16, "evaluate_every": 5, "device": "cpu"}
    return adapt(
        seeded(Perceptron),
        vectors(200, 1),
        vectors(80, 2, 1.0),
        layer="lower",
        recipe="paper",
        progress=False,
        held_out=0.3,
        **{**values, **more},
    )


def test_a_run_that_goes_wrong_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "revgrad"):
        trained()
    assert "step " not in caplog.text
    with caplog.at_level(logging.WARNING, "revgrad"):
        trained(**RUINED)
    said = [one.message for one in caplog.records if one.message.startswith("step ")]
    assert said
    kinds = [line.split(": ", 1)[1].split(" from ")[0].split(":")[0] for line in said]
    assert len(kinds) == len(set(kinds))


def test_looking_changes_no_weight_and_a_stop_hands_over_the_last_good_ones() -> None:
    class Nothing(EarlySigns):
        def on_evaluation(self, trainer: Any, record: Any) -> None:
            pass

    watching = vectors(60, 3), vectors(60, 4, 1.0)
    looked = trained(callbacks=[EarlySigns(*watching)])
    unseen = trained(callbacks=[Nothing(*watching)])
    assert digest(looked.network.state_dict()) == digest(unseen.network.state_dict())
    with pytest.raises(HarmSeen) as caught:
        trained(callbacks=[EarlySigns(*watching, stop=True)], **RUINED)
    assert caught.value.step == 15  # half of the way: the last evaluation before the ruin
    assert caught.value.state is not None
