"""Do models that should not matter to each other's answers give the same ones?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import alike_logits


def agreement(one_logits: ArrayLike, other_logits: ArrayLike) -> float:
    """Share of the rows that two models predict alike."""
    one, other = alike_logits([one_logits, other_logits], "the two models' logits")
    return float((one.argmax(axis=1) == other.argmax(axis=1)).mean())


def stability(checkpoint_logits: Sequence[ArrayLike]) -> float:
    """Mean agreement of each checkpoint with the one before it: 1 where nothing moves any more."""
    found = alike_logits(checkpoint_logits, "checkpoints' logits")
    predicted = [logits.argmax(axis=1) for logits in found]
    return float(np.mean([(one == other).mean() for one, other in pairwise(predicted)]))


def seed_agreement(all_logits: Sequence[ArrayLike]) -> float:
    """Mean agreement over all pairs of models that differ in their seed only."""
    found = alike_logits(all_logits, "seeds' logits")
    predicted = [logits.argmax(axis=1) for logits in found]
    return float(np.mean([(one == other).mean() for one, other in combinations(predicted, 2)]))
