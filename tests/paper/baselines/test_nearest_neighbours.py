"""DA-NBNN against loops over images, classes and positions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from revgrad.errors import InputError
from revgrad.paper.baselines.nearest_neighbours import (
    adapt_neighbours,
    image_to_class,
    learn_metric,
    predict_by_neighbours,
)


def bags(count: int, seed: int, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    middles = np.random.default_rng(99).normal(size=(classes, 1, 4))
    return middles[labels] + generator.normal(size=(count, 5, 4)), labels


def gaps_by_loops(
    images: np.ndarray,
    references: np.ndarray,
    known: np.ndarray,
    metric: np.ndarray,
    own: np.ndarray,
) -> np.ndarray:
    found = np.zeros((len(images), len(metric), images.shape[2]))
    for (place, image), label in itertools.product(enumerate(images), range(len(metric))):
        members = [n for n in range(len(references)) if known[n] == label and n != own[place]]
        rows = [row for n in members for row in references[n]]
        for row in image:
            squares = [(row - other) ** 2 for other in rows]
            found[place, label] += min(squares, key=lambda gap: float(gap @ metric[label]))
    return found


@pytest.mark.parametrize("block", [1, 64, 10**7])
def test_distances_to_classes_by_loops(block: int) -> None:
    images, known = bags(9, 0)
    queries, _ = bags(4, 1)
    metric = np.random.default_rng(0).uniform(0, 2, size=(3, 4))
    metric[1, 2] = 0
    everyone = np.concatenate([images, queries])
    own = np.array([*range(9), *[-1] * 4])
    np.testing.assert_allclose(
        image_to_class(everyone, images, known, 3, metric=metric, own=own, block=block),
        gaps_by_loops(everyone, images, known, metric, own),
        rtol=1e-10,
    )
    plain = gaps_by_loops(queries, images, known, np.ones((3, 4)), np.full(4, -1))
    np.testing.assert_allclose(image_to_class(queries, images, known, 3), plain, rtol=1e-10)


def test_plain_prediction_is_the_nearest_class() -> None:
    images, labels = bags(12, 0)
    queries, _ = bags(20, 1)
    slow = gaps_by_loops(queries, images, labels, np.ones((3, 4)), np.full(20, -1)).sum(axis=2)
    predicted = predict_by_neighbours(images, labels * 5 - 3, queries)
    assert predicted.tolist() == (slow.argmin(axis=1) * 5 - 3).tolist()
    assert len(set(predicted.tolist())) == 3


def faults(
    flat: np.ndarray, gaps: np.ndarray, numbers: np.ndarray, margin: float, stiffness: float
) -> float:
    """What `learn_metric` minimises, in loops."""
    weights = flat.reshape(gaps.shape[1:])
    total = 0.0
    for image, number in zip(gaps, numbers, strict=True):
        own = image[number] @ weights[number]
        others = [n for n in range(len(weights)) if n != number]
        slack = [max(0.0, margin + own - image[n] @ weights[n]) ** 2 for n in others]
        total += sum(slack) / len(others)
    return total / len(gaps) + stiffness * float(((weights - 1) ** 2).mean())


@pytest.mark.parametrize("stiffness", [1.0, 1e-3])
def test_the_metric_is_the_minimum(stiffness: float) -> None:
    generator = np.random.default_rng(3)
    gaps, numbers = generator.uniform(0, 0.5, size=(15, 3, 4)), np.arange(15) % 3
    problem = (gaps, numbers, 0.3, stiffness)
    found = learn_metric(gaps, numbers, margin=0.3, stiffness=stiffness).ravel()
    assert (found >= 0).all()
    for place in range(12):  # strictly convex: flat where free, rising where held at 0, is enough
        step = np.zeros(12)
        step[place] = 1e-5
        slope = (faults(found + step, *problem) - faults(found - step, *problem)) / 2e-5
        assert slope > -1e-5
        if found[place] > 1e-4:
            assert abs(slope) < 1e-5
    assert np.abs(found - 1).max() > 0.01
    assert (found.min() == 0) == (stiffness < 1)


def adapted_by_loops(
    source: np.ndarray, labels: np.ndarray, target: np.ndarray, rounds: int, step: int
) -> tuple[list[int], set[int], set[int]]:
    kept, taken = set(range(len(source))), set()
    guesses = np.zeros(len(target), dtype=int)
    metric = np.ones((3, source.shape[2]))
    for turn in range(1, rounds + 2):
        places = [*sorted(kept), *sorted(taken)]
        references = np.array(
            [source[i] for i in sorted(kept)] + [target[i] for i in sorted(taken)]
        )
        known = np.array([labels[i] for i in sorted(kept)] + [guesses[i] for i in sorted(taken)])
        gaps = gaps_by_loops(references, references, known, metric, np.arange(len(places)))
        old, old_known = metric, known
        scale = np.mean([gaps[i, known[i]].sum() for i in range(len(known))])
        metric = learn_metric(gaps / scale, known, margin=0.1, stiffness=1.0)
        missing = np.full(len(target), -1)
        # the metric has changed, and the neighbours under it
        reach = gaps_by_loops(target, references, known, metric, missing)
        distances = np.einsum("ncd,cd->nc", reach, metric)
        guesses = distances.argmin(axis=1)
        if turn > rounds:
            break
        taken = set()
        for label in range(3):
            sure = {
                i: np.sort(distances[i])[1] - np.sort(distances[i])[0]
                for i in range(len(target))
                if guesses[i] == label
            }
            taken |= set(sorted(sure, key=lambda i: -sure[i])[: turn * step])
        order = sorted(kept)
        kept_next: set[int] = set()
        for label in range(3):
            members = [i for i in range(len(source)) if labels[i] == label]
            far = {}
            for i in members:
                own = np.array([order.index(i) if i in kept else -1])
                gap = gaps_by_loops(source[i : i + 1], references, old_known, old, own)
                far[i] = gap[0, label] @ metric[label]
            came = sum(guesses[i] == label for i in taken)
            drop = sorted(members, key=lambda i: -far[i])[: min(came, len(members) - 1)]
            kept_next |= set(members) - set(drop)
        kept = kept_next
    return guesses.tolist(), kept, taken


@pytest.mark.parametrize(("rounds", "step"), [(0, 1), (1, 2), (3, 1), (2, 3)])
def test_adaptation_by_loops(rounds: int, step: int) -> None:
    source, labels = bags(12, 4)
    target, _ = bags(14, 5)
    target = target + 0.5
    found = adapt_neighbours(source, labels, target, rounds=rounds, step=step)
    guesses, kept, taken = adapted_by_loops(source, labels, target, rounds, step)
    assert found.predicted.tolist() == guesses
    assert set(np.flatnonzero(found.kept)) == kept
    assert set(np.flatnonzero(found.adopted)) == taken
    assert len(found.distances) == 14
    assert (found.distances.argmin(axis=1) == found.predicted).all()
    assert (len(kept) < 12) == (rounds > 0)


def chain(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two lanes that bend: the target's far end lies nearer to the other lane's source."""
    generator = np.random.default_rng(seed)
    labels, answers = np.arange(20) % 2, np.arange(60) % 2
    along = np.concatenate([generator.uniform(0, 1, 20), np.repeat(np.arange(30), 2) * 0.25])
    side = np.concatenate([labels, answers])
    middles = np.stack([along, 2.5 * side + 0.45 * along], axis=1)
    bag = middles[:, None] + 0.05 * generator.normal(size=(80, 6, 2))
    return bag[:20], labels, bag[20:], answers


def test_adaptation_walks_along_where_nearest_neighbours_alone_fail() -> None:
    source, labels, target, answers = chain(0)
    plain = np.mean(predict_by_neighbours(source, labels, target) == answers)
    adapted = adapt_neighbours(source, labels, target, rounds=12, step=2)
    assert plain < 0.8
    assert np.mean(adapted.predicted == answers) > 0.95


def test_what_is_refused() -> None:
    source, labels = bags(12, 4)
    target, _ = bags(6, 5)
    with pytest.raises(InputError, match=r"shape \(images, positions, features\), not \(12, 4\)"):
        adapt_neighbours(source[:, 0], labels, target)
    with pytest.raises(InputError, match="same positions; 5 and 3 came"):
        adapt_neighbours(source, labels, target[:, :3])
    with pytest.raises(InputError, match="two source images at least; class 2 has one"):
        adapt_neighbours(source[:5], labels[:5], target)
    with pytest.raises(InputError, match="rounds ≥ 0 and step ≥ 1 are needed; -1 and 2 came"):
        adapt_neighbours(source, labels, target, rounds=-1)
    with pytest.raises(InputError, match="class number 0 has no other image"):
        image_to_class(source[:3], source[:3], labels[:3], 3, own=np.arange(3))
