"""Domains of texts: through a tokenizer (token ids and a mask), or as vectors of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from revgrad.domains.domain import UNNAMED, Domain
from revgrad.domains.encoded import EncodedStore
from revgrad.domains.labels import as_labels
from revgrad.domains.text_encoder import (
    MOST_WORDS,
    HashedWords,
    TextEncoder,
    Tokens,
    WordFrequencies,
)
from revgrad.errors import InputError

VECTORIZERS = ("tfidf", "hashing")


def from_texts(
    texts: Any,
    labels: Any = None,
    *,
    tokenizer: Any = None,
    max_length: int | None = None,
    vectorizer: str = "tfidf",
    max_words: int = MOST_WORDS,
    groups: Any = None,
    classes: Sequence[str] | None = None,
    name: str = UNNAMED,
) -> Domain:
    """A domain of texts.

    Parameters
    ----------
    texts
        a list or column of strings
    labels
        one a text: class numbers, names, or numbers to predict; None: none
    tokenizer
        of `tokenizers` or `transformers`, or any function from a text to token ids: inputs
        are then {"input_ids": (length,), "attention_mask": (length,)}, int64, which a
        network takes by these names. Those of the two libraries are kept in a run's folder, as json
    max_length
        tokens that texts are brought to, by padding or cutting; None: those of the longest, at
        most 128
    vectorizer
        without a tokenizer: "tfidf", how often each of the `max_words` most frequent words
        comes, the rarer in other texts the more it counts (scikit-learn's TfidfVectorizer);
        or "hashing", the same without a vocabulary, words thrown into `max_words` places
    max_words
        words of the vocabulary at most
    groups
        one a text, as in `from_arrays`
    classes
        names of the classes in the order of their numbers; None: of labels that are text, the names
        in sorted order
    name
        what it is called in messages, reports and the run's records

    Examples
    --------
    >>> domain = revgrad.from_texts(["good book", "bad book"] * 3, ["good", "bad"] * 3)
    >>> len(domain), domain.classes
    (6, ('bad', 'good'))
    """
    read = as_texts(texts, name)
    if (max_length is not None and max_length < 1) or max_words < 1:
        raise InputError(f"{name}: max_length and max_words are 1 or more")
    if tokenizer is None and vectorizer not in VECTORIZERS:
        raise InputError(
            f"{name}: vectorizer is {' or '.join(VECTORIZERS)}, not {vectorizer!r} (or give a "
            "tokenizer=)"
        )

    def fit() -> TextEncoder:
        if tokenizer is not None:
            return Tokens.fit(read, tokenizer, max_length, name)
        if vectorizer == "hashing":
            return HashedWords(max_words)
        return WordFrequencies.fit(read, max_words, name)

    values, names = as_labels(labels, name, classes) if labels is not None else (None, classes)
    return Domain(
        EncodedStore(read, len(read), name, TextEncoder, fit),
        values,
        classes=names,
        groups=groups,
        name=name,
    )


def is_texts(data: Any) -> bool:
    """Whether `data` is a list, array or column of strings."""
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(one, str) for one in data)
    if isinstance(data, np.ndarray):
        text, objects = data.dtype.kind == "U", data.dtype.kind in "OT"
        return data.ndim == 1 and (text or (objects and is_texts(data.tolist())))
    return type(data).__name__ == "Series" and is_texts(data.to_list())


def as_texts(texts: Any, name: str) -> list[str]:
    """The texts as a list of strings; what is no string is named."""
    if isinstance(texts, str):
        raise InputError(f"{name}: texts are a list of strings, not one string")
    found = texts.to_list() if hasattr(texts, "to_list") else list(texts)
    for i, one in enumerate(found):
        if not isinstance(one, str):
            raise InputError(
                f"{name}: text {i} is {one!r}, not a string (for a missing one, '' would do)"
            )
    if not found:
        raise InputError(f"{name}: no texts")
    return [str(one) for one in found]
