"""Reverse validation: learn back from the target's predicted labels, and ask about the source.

The rule by which the longer DANN paper chooses its settings (Ganin et al. 2016, §5.1.2; Zhong et
al. 2010): a classifier that learned the target's predicted labels is right on labelled source
samples only where these labels make sense. The network itself is not trained anew here: the
classifier is a logistic one of a view of the samples.
"""

from __future__ import annotations

import numpy as np

from revgrad.diagnostics.inputs import Array
from revgrad.diagnostics.opinions import _logistic, standardised


def reverse_validation(
    source_view: Array, source_labels: Array, target_view: Array, predicted: Array, classes: int
) -> float:
    """Accuracy on the labelled source samples of a classifier of the target's predicted labels.

    - `source_, target_view`: (m, d), (n, d) descriptors, each standardised by itself here
    """
    said = _logistic(standardised(target_view), predicted, standardised(source_view), classes)
    return float((said.argmax(axis=1) == np.asarray(source_labels)).mean())
