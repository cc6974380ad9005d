"""The consensus of opinions: its parts against loops, and what it makes of made-up raters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from revgrad.diagnostics import Evidence
from revgrad.diagnostics.consensus import (
    agreements,
    consensus_of,
    consensus_on,
    pooled,
    reliabilities,
)
from revgrad.diagnostics.opinions import opinions_of, ranks, standardised
from revgrad.diagnostics.signs import (
    SURE,
    comparison_signs,
    consensus_signs,
    disputed_signs,
    latent_accuracy,
    unlike_neighbours,
    vote_signs,
)

RNG = np.random.default_rng(0)


def raters(knows: list[float], classes: int = 4, n: int = 20_000) -> tuple[np.ndarray, list]:
    """The truth, and raters that know it this often and guess else, all independently."""
    rng = np.random.default_rng(1)
    truth = rng.integers(classes, size=n)
    said = [np.where(rng.random(n) < r, truth, rng.integers(classes, size=n)) for r in knows]
    return truth, said


def test_agreements_by_loops() -> None:
    said = [RNG.integers(3, size=40) for _ in range(3)]
    found = agreements(said, 3)
    for j in range(3):
        for k in range(3):
            equal = sum(a == b for a, b in zip(said[j], said[k], strict=True)) / 40
            chance = sum(
                sum(said[j] == c) / 40 * sum(said[k] == c) / 40 for c in range(3)
            )  # each by its own shares
            expected = 1.0 if j == k else (equal - chance) / (1 - chance)
            assert found[j, k] == pytest.approx(expected)


def test_reliabilities_are_found_from_agreement_alone() -> None:
    """Raters that know the answer .9, .6, .3 and .1 of the time: nobody says which is which."""
    knows = [0.9, 0.6, 0.3, 0.1]
    _, said = raters(knows)
    found = reliabilities(agreements(said, 4), list("abcd"), np.full(4, 0.5))
    assert np.argsort(-found).tolist() == [0, 1, 2, 3]
    assert found[0] - found[3] > 0.4  # drawn towards one half a little
    # those of one view share their mistakes: what they agree in is not heard
    shared = [said[3], said[3], said[0], said[1]]
    found = reliabilities(agreements(shared, 4), ["a", "a", "b", "c"], np.full(4, 0.5))
    assert found[0] < found[2]


def test_a_pool_by_loops() -> None:
    said = [RNG.dirichlet(np.ones(3), 5) for _ in range(2)]
    whole = pooled(said, np.array([1.0, 3.0]))
    for i in range(5):
        raised = [said[0][i, c] ** 0.25 * said[1][i, c] ** 0.75 for c in range(3)]
        assert whole[i] == pytest.approx(np.array(raised) / sum(raised))


def test_standardised_and_ranks() -> None:
    values = RNG.normal(size=(50, 3)) * [1, 5, 0] + 2
    found = standardised(values)
    assert found[:, :2].mean(0) == pytest.approx([0, 0])
    assert found[:, :2].std(0) == pytest.approx([1, 1])
    assert (found[:, 2] == 0).all()
    assert standardised(values[:, :2] + 5, values[:, :2]).mean() > 0.5
    assert ranks(np.array([[3.0], [1.0], [2.0]]))[:, 0] == pytest.approx([1, 1 / 3, 2 / 3])
    assert ranks(np.exp(values)) == pytest.approx(ranks(values))


def moved(n: int = 240) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels of both domains, source inputs, target inputs: a sensor with an offset."""
    labels = np.arange(n) % 3
    own = 3 * np.eye(3)[labels] + RNG.normal(size=(n, 3))
    return labels, own, 3 * np.eye(3)[labels] + RNG.normal(size=(n, 3)) + 2


def test_consensus_holds_where_some_opinions_fail() -> None:
    labels, own, target = moved()
    found = consensus_of(own, labels, target, 3)
    for said in (found.pooled, found.smooth, found.learned):
        assert said.sum(1) == pytest.approx(np.ones(240))
        assert (said.argmax(1) == labels).mean() > 0.85
    assert min(one.competence for one in found.opinions) > 0.6
    assert found.steadiness > 0.85
    assert 0 < found.agreement < 1
    # those that keep the source's scale are wrong here, and count less
    by = {one.name: r for one, r in zip(found.opinions, found.reliability, strict=True)}
    assert "source's scale" in min(by, key=lambda name: by[name])


def test_opinions_of_counts_and_series() -> None:
    labels = np.arange(60) % 2
    words = RNG.poisson(0.1, size=(60, 30)) + 3 * np.eye(30)[5 * labels]
    names = [one.name for one in opinions_of(words, labels, words, 2).opinions]
    assert names[1:3] == ["counts, Bayes", "counts, trees"]
    waves = np.sin(np.arange(32) * (1 + labels)[:, None])[:, None] + RNG.normal(size=(60, 1, 32))
    found = opinions_of(waves, labels, waves, 2)
    assert found.opinions[-1].name == "all views, logistic"
    assert found.source.shape == found.target.shape


def model(
    predicted: np.ndarray, inputs: np.ndarray, labels: np.ndarray, own: np.ndarray
) -> Evidence:
    k = int(labels.max()) + 1
    return Evidence(
        target_logits=4 * np.eye(k)[predicted],
        source_logits=4 * np.eye(k)[labels],
        source_labels=labels,
        source_inputs=own,
        target_inputs=inputs,
        source_features=own,
        target_features=inputs,
    )


def test_signs_see_which_network_is_right() -> None:
    labels, own, target = moved()
    wrong = np.where(np.arange(240) < 120, (labels + 1) % 3, labels)
    good, bad = (model(said, target, labels, own) for said in (labels, wrong))
    assert consensus_on(good) is consensus_on(bad)  # remembered
    signs = comparison_signs(good, bad)
    assert signs["differing"] == 0.5
    for name in ("pooled", "smooth", "learned", "latent"):
        assert signs[f"{name}-after"] - signs[f"{name}-before"] == pytest.approx(0.5, abs=0.13)
    assert signs["votes-own-scale"] == pytest.approx(0.5, abs=0.13)
    same = comparison_signs(good, good)
    assert same["votes"] == same["votes-spread"] == same["differing"] == 0
    bare = Evidence(
        target_logits=good.target_logits,
        source_logits=good.source_logits,
        source_labels=good.source_labels,
    )
    assert consensus_on(bare) is None
    assert "votes" not in comparison_signs(bare, bare)


def test_votes_and_agreement_by_loops() -> None:
    labels, own, target = moved(60)
    found = consensus_of(own, labels, target, 3)
    after, before = RNG.integers(3, size=60), RNG.integers(3, size=60)
    total = weight = 0.0
    for one, r in zip(found.opinions, found.reliability, strict=True):
        best = one.probabilities.argmax(1)
        gain = sum((best[i] == after[i]) - 1.0 * (best[i] == before[i]) for i in range(60)) / 60
        total, weight = total + (r * r + 1e-6) * gain, weight + r * r + 1e-6
    assert vote_signs(after, before, found)["votes"] == pytest.approx(total / weight)
    soft = sum(found.smooth[i, after[i]] for i in range(60)) / 60
    assert consensus_signs(after, found)["smooth-soft"] == pytest.approx(soft)


def test_latent_accuracy_undoes_the_raters_mistakes() -> None:
    """A rater that knows .7 (and is right .7 + .3/4): no other knows more than .6."""
    truth, said = raters([0.7, 0.6, 0.5, 0.4])
    labels, own, target = moved(60)
    found = consensus_of(own, labels, target, 3)
    opinions = tuple(
        replace(found.opinions[0], view=str(i), probabilities=0.9 * np.eye(4)[one] + 0.025)
        for i, one in enumerate(said[1:])
    )
    known = replace(
        found,
        opinions=opinions,
        reliability=np.array([0.6, 0.5, 0.4]),
        pooled=pooled([one.probabilities for one in opinions], np.array([0.36, 0.25, 0.16])),
    )
    right = float((said[0] == truth).mean())
    assert latent_accuracy(said[0], known) == pytest.approx(right, abs=0.02)


def test_signs_of_what_is_disputed_by_loops() -> None:
    labels, own, target = moved(90)
    found = consensus_of(own, labels, target, 3)
    after, before = RNG.integers(3, size=90), RNG.integers(3, size=90)
    signs = disputed_signs(after, before, found)
    sides, margins, sure = [], [], []
    for i in range(90):
        if after[i] != before[i]:
            p = found.pooled[i]
            sides.append((int(p.argmax() == after[i]), int(p.argmax() == before[i])))
            margins.append(p[after[i]] - p[before[i]])
            sure.append(int(margins[-1] > SURE) - int(margins[-1] < -SURE))
    assert signs["for-after"] == pytest.approx(np.mean([one for one, _ in sides]))
    assert signs["for-before"] == pytest.approx(np.mean([two for _, two in sides]))
    assert signs["margin"] == pytest.approx(np.mean(margins))
    assert signs["margin-sure"] == pytest.approx(np.mean(sure))
    assert set(disputed_signs(after, after, found).values()) == {0.0}
    unlike = [after[j] != after[i] for i in range(90) for j in found.neighbours[i]]
    assert unlike_neighbours(after, found.neighbours) == pytest.approx(np.mean(unlike))
    assert unlike_neighbours(after, found.neighbours[:, :0]) == 0.0
