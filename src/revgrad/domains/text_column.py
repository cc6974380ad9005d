"""A frame's column of text that differs from sample to sample: by skrub, where it is installed.

Fitted by skrub's StringEncoder (tf-idf of letters that follow one another, then a truncated
singular value decomposition); what was learnt is kept as plain numbers, and scikit-learn alone
encodes by them, so that a deployed network needs no skrub.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Inputs of a column, and the most frequent groups of three and four letters that are looked at.
TEXT_INPUTS, MOST_GROUPS = 30, 2000


@dataclass(frozen=True)
class TextInput:
    """A column of text: weights of its groups of letters, mixed to a few inputs.

    Attributes
    ----------
    groups, weights
        groups of letters, and the inverse document frequency of each
    components
        (inputs, groups): of each input, how much each group counts
    """

    column: str
    groups: tuple[str, ...]
    weights: tuple[float, ...]
    components: tuple[tuple[float, ...], ...]

    @property
    def names(self) -> list[str]:
        return [f"{self.column} (text {number})" for number in range(len(self.components))]

    def encode(self, texts: np.ndarray) -> np.ndarray:
        """(n, inputs); missing texts are empty ones, all 0."""
        vectorizer = _vectorizer("TfidfVectorizer", vocabulary=list(self.groups))
        vectorizer.idf_ = np.array(self.weights)
        frequencies = vectorizer.transform(_filled(texts))
        found: np.ndarray = frequencies @ np.array(self.components).T
        return found


def fit_text(column: str, texts: np.ndarray, groups: Sequence[str] = ()) -> TextInput | None:
    """Fitted on `texts`, of these groups of letters or, without, of the most frequent; None where
    skrub is not installed, or the texts hold no letters."""
    try:
        import pandas
        from skrub import StringEncoder
    except ImportError:
        return None
    filled = _filled(texts)
    if not groups:
        try:
            counted = _vectorizer("CountVectorizer", max_features=MOST_GROUPS).fit(filled)
        except ValueError:
            return None
        groups = counted.get_feature_names_out().tolist()
    encoder = StringEncoder(
        n_components=TEXT_INPUTS,
        ngram_range=(3, 4),
        analyzer="char_wb",
        vocabulary=list(groups),
        random_state=0,
    )
    with warnings.catch_warnings():  # of few groups: they are taken as they are
        warnings.simplefilter("ignore", UserWarning)
        encoder.fit(pandas.Series(filled, name="text"))
    learnt = getattr(encoder, "tsvd_", None)
    mixed = (
        np.eye(TEXT_INPUTS, len(groups))[: len(groups)] if learnt is None else learnt.components_
    )
    scaled = mixed / float(encoder.scaling_factor_)
    return TextInput(
        column,
        tuple(groups),
        tuple(map(_short, encoder.vectorizer_.idf_)),
        tuple(tuple(map(_short, one)) for one in scaled),
    )


def _vectorizer(kind: str, **options: Any) -> Any:
    from sklearn.feature_extraction import text

    return getattr(text, kind)(analyzer="char_wb", ngram_range=(3, 4), **options)


def _filled(texts: np.ndarray) -> list[str]:
    return ["" if one is None else str(one) for one in texts.tolist()]


def _short(value: float) -> float:
    """Seven digits: what a float32 holds."""
    return float(f"{value:.7g}")
