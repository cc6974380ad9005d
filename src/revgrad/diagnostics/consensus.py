"""The consensus of classifiers of different kinds on the target samples, and how far it goes.

    found = consensus_on(evidence)
    found.probabilities, found.reliability, found.numbers

Which of the opinions (`opinions.py`) still hold on the target? Their accuracy there isn't known,
but how often they agree is. If their mistakes were independent, opinion j would agree with k,
beyond chance, on r_j r_k of the samples, r being how often each one knows the answer (Dawid and
Skene 1979, with one number a classifier): the r of best fit weigh them. Opinions of one view share
mistakes, so that agreement inside a view doesn't count where there are several.

The pooled opinion is spread among neighbours of the target, and a last classifier learns from its
surest samples (`second_opinion.py` does both); how far it then departs from the pool says more of
the pool's quality than anything else here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.inputs import Array, given, shares_of
from revgrad.diagnostics.opinions import ALL, FLOOR, Opinion, opinions_of
from revgrad.diagnostics.second_opinion import LEARNED_SHARES, most_similar, smoothed, surest

#: Fields of `Evidence` that opinions are made of.
NEEDED = ("source_inputs", "source_labels", "target_inputs")
#: What the competence on the source counts beside the agreement with another opinion.
PRIOR = 0.3
#: Rounds of the fit of reliabilities.
ROUNDS = 60
#: Samples that classifiers are fitted on at most.
MOST_SAMPLES = 2000
#: What a labelled source sample counts beside a target sample that is learned from.
SOURCE_WEIGHT = 0.5
#: The last few, by the digest of what they are made of.
_REMEMBERED = 4
_known: OrderedDict[bytes, Consensus] = OrderedDict()


@dataclass(frozen=True, eq=False)
class Consensus:
    """On n target samples.

    Attributes
    ----------
    opinions
        that it is made of
    reliability
        of each opinion on the target, by their agreement: 0 guesses, 1 always knows
    pooled, smooth, learned
        (n, classes): all opinions by their reliability; spread among neighbours; of the
        classifier that learned from the surest of these too
    agreement
        of all pairs of opinions, the mean, beyond chance
    neighbours
        (n, k): of each sample, the target samples that look most like it
    """

    opinions: tuple[Opinion, ...]
    reliability: Array
    pooled: Array
    smooth: Array
    learned: Array
    agreement: float
    neighbours: Array

    @property
    def competence(self) -> float:
        """Of all opinions on the source, the mean."""
        return float(np.mean([one.competence for one in self.opinions]))

    @property
    def sureness(self) -> float:
        """The mean largest probability of the pool."""
        return float(self.pooled.max(axis=1).mean())

    @property
    def steadiness(self) -> float:
        """Share of the samples for which the pool and what learned from it say the same."""
        return float((self.pooled.argmax(axis=1) == self.learned.argmax(axis=1)).mean())


def consensus_on(evidence: Evidence) -> Consensus | None:
    """On the evidence's target samples; None where their inputs are not recorded. The same samples
    get the same answer; the last few are remembered."""
    if not evidence.has(*NEEDED):
        return None
    parts, labels = [seen(given(evidence.source_inputs))], [given(evidence.source_labels)]
    if evidence.training_inputs is not None and evidence.training_labels is not None:
        parts.append(seen(evidence.training_inputs))
        labels.append(evidence.training_labels)
    source = np.concatenate(parts)[:MOST_SAMPLES]
    known = np.concatenate(labels)[:MOST_SAMPLES].astype(np.int64)
    target, classes = seen(given(evidence.target_inputs)), evidence.target_logits.shape[1]
    key = _digest(source, known, target, np.array(classes))
    if key not in _known:
        _known[key] = consensus_of(source, known, target, classes)
        while len(_known) > _REMEMBERED:
            _known.popitem(last=False)
    return _known[key]


def seen(inputs: np.ndarray) -> np.ndarray:
    """Inputs as views take them: images of three channels, series and numbers as they are, all
    else (volumes, images of many bands) as numbers."""
    known = inputs.ndim in (2, 3) or (inputs.ndim == 4 and inputs.shape[3] == 3)
    return inputs if known else inputs.reshape(len(inputs), -1)


def consensus_of(source: Array, labels: Array, target: Array, classes: int) -> Consensus:
    """Of labelled source inputs on target inputs."""
    described = opinions_of(source, labels, target, classes)
    opinions = described.opinions
    agree = agreements([one.probabilities.argmax(axis=1) for one in opinions], classes)
    reliability = reliabilities(
        agree,
        [one.view for one in opinions],
        np.array([one.competence for one in opinions]),
    )
    pool = pooled([one.probabilities for one in opinions], reliability**2)
    near = most_similar(_unit(described.target))
    smooth = smoothed(pool, near)
    learned = _learned(described.source, labels, described.target, smooth, near)
    apart = ~np.eye(len(agree), dtype=bool)
    mean = float(agree[apart].mean()) if len(agree) > 1 else 0.0
    return Consensus(opinions, reliability, pool, smooth, learned, mean, near)


def agreements(said: Sequence[Array], classes: int) -> Array:
    """(k, k): the share of samples that each two of k predict alike, beyond chance: 0 where it is
    as large as that of their shares of classes alone, 1 where they never differ."""
    shares = [shares_of(one, classes) for one in said]
    found = np.eye(len(said))
    for j, one in enumerate(said):
        for k in range(j):
            chance = float(shares[j] @ shares[k])
            value = (float((one == said[k]).mean()) - chance) / max(1 - chance, 1e-6)
            found[j, k] = found[k, j] = value
    return found


def reliabilities(agree: Array, seen: Sequence[str], competence: Array) -> Array:
    """(k,): r of the best fit of r_j r_k to the agreements, in least squares, drawn towards the
    competence on the source a little; of different views where there are several."""
    names = np.array(seen)
    several = len(set(seen) - {ALL}) > 1
    counts = ~np.eye(len(agree), dtype=bool)
    if several:
        counts &= (names[:, None] != names) & (names != ALL) & (names != ALL)[:, None]
    found = np.clip(competence, 0.01, 0.99)
    for _ in range(ROUNDS):
        for k, heard in enumerate(counts):
            above = (agree[k, heard] * found[heard]).sum() + PRIOR * competence[k]
            found[k] = np.clip(above / ((found[heard] ** 2).sum() + PRIOR), 0.01, 0.99)
    if several:
        found[names == ALL] = found[names != ALL].max()  # what sees all sees the best
    return found


def pooled(said: Sequence[Array], weights: Array) -> Array:
    """(n, classes): the geometric mean by weight, made to sum to 1."""
    shares = weights / weights.sum()
    logs = sum(share * np.log(one) for share, one in zip(shares, said, strict=True))
    found = np.exp(logs - np.max(logs, axis=1, keepdims=True))
    whole: Array = found / found.sum(axis=1, keepdims=True)
    return whole


def _learned(own: Array, labels: Array, other: Array, said: Array, near: Array) -> Array:
    """Of a classifier that learns from the surest target samples, round by round."""
    from sklearn.linear_model import LogisticRegression

    for share in LEARNED_SHARES:
        chosen, pseudo_labels = surest(said, share)
        weights = np.concatenate([np.full(len(own), SOURCE_WEIGHT), np.ones(len(chosen))])
        model = LogisticRegression(C=1.0, max_iter=100, tol=1e-2, class_weight="balanced")
        model.fit(
            np.concatenate([own, other[chosen]]).astype(np.float32),
            np.concatenate([labels, pseudo_labels]),
            weights,
        )
        found = np.full(said.shape, FLOOR)
        found[:, model.classes_] += model.predict_proba(other.astype(np.float32))
        said = smoothed(found / found.sum(axis=1, keepdims=True), near)
    return said


def _unit(values: Array) -> Array:
    found: Array = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    return found


def _digest(*arrays: np.ndarray) -> bytes:
    found = blake2b(digest_size=16)
    for array in arrays:
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.digest()
