"""What the model does on held-out source rows: the plain baseline of every choice."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from revgrad.diagnostics.inputs import labelled_logits, log_probabilities
from revgrad.errors import unknown
from revgrad.shallow.inputs import Array

#: How a row's loss is counted.
LOSSES = ("error", "cross-entropy")


def source_losses(source_logits: ArrayLike, source_labels: ArrayLike, loss: str = "error") -> Array:
    """(m,): 1 where the prediction is wrong and 0 elsewhere, or −log of the label's softmax."""
    logits, labels = labelled_logits(source_logits, source_labels)
    if loss == "error":
        wrong: Array = (logits.argmax(axis=1) != labels).astype(np.float64)
        return wrong
    if loss == "cross-entropy":
        found: Array = -log_probabilities(logits)[np.arange(len(labels)), labels]
        return found
    raise unknown("loss", loss, LOSSES)


def source_error(source_logits: ArrayLike, source_labels: ArrayLike) -> float:
    """Share of held-out source rows that are predicted wrong."""
    return float(source_losses(source_logits, source_labels).mean())
