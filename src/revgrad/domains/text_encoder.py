"""From texts to token ids or to vectors of words; what was learnt is plain json."""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch

from revgrad.batch import Inputs
from revgrad.domains.arrays import ArrayStore
from revgrad.domains.domain import Domain, Store
from revgrad.domains.sparse import SparseStore
from revgrad.errors import InputError, missing_extra

log = logging.getLogger("revgrad")

#: The most tokens of a text that are read, and the most words of a vocabulary, unless told.
MOST_TOKENS = 128
MOST_WORDS = 10_000

#: A word: two letters or digits at least, as scikit-learn's vectorisers have it.
_WORD = re.compile(r"(?u)\b\w\w+\b")


class TextEncoder:
    """What encoders of texts share."""

    kind: ClassVar[str] = ""
    takes: ClassVar[str] = "texts"

    def refitted(self, raw: Sequence[str], rows: np.ndarray) -> TextEncoder:
        return self

    def encode(self, raw: Sequence[str], name: str) -> Store:
        raise NotImplementedError

    def read(self, data: Any, labels: Any, name: str) -> Domain:
        from revgrad.domains.text import from_texts

        return from_texts(data, labels, name=name)

    def labels(self, raw: Sequence[str]) -> Any:
        return None

    def state(self) -> dict[str, Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class WordFrequencies(TextEncoder):
    """tf-idf: (1 + ln count) · idf of each word of the vocabulary, each text of length one."""

    words: tuple[str, ...]
    weights: tuple[float, ...]

    kind: ClassVar[str] = "tfidf"

    @staticmethod
    def fit(texts: Sequence[str], most: int, name: str) -> WordFrequencies:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(max_features=most, sublinear_tf=True)
        try:
            vectorizer.fit(texts)
        except ValueError:
            raise InputError(f"{name}: the texts hold no words to learn from") from None
        return WordFrequencies(
            tuple(vectorizer.get_feature_names_out().tolist()), tuple(vectorizer.idf_.tolist())
        )

    def refitted(self, raw: Sequence[str], rows: np.ndarray) -> WordFrequencies:
        """The words' weights in `rows` alone; the vocabulary stays."""
        vectorizer = self._vectorizer().fit([raw[i] for i in rows.tolist()])
        return replace(self, weights=tuple(vectorizer.idf_.tolist()))

    def encode(self, raw: Sequence[str], name: str) -> Store:
        vectorizer = self._vectorizer()
        vectorizer.idf_ = np.array(self.weights)
        return SparseStore(vectorizer.transform(raw).astype(np.float32), name)

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "words": list(self.words), "weights": list(self.weights)}

    @staticmethod
    def from_state(state: dict[str, Any]) -> WordFrequencies:
        words, weights = tuple(map(str, state["words"])), tuple(map(float, state["weights"]))
        if len(words) != len(weights):
            raise ValueError(f"{len(words)} words but {len(weights)} weights")
        return WordFrequencies(words, weights)

    def _vectorizer(self) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        return TfidfVectorizer(vocabulary=list(self.words), sublinear_tf=True)


@dataclass(frozen=True)
class HashedWords(TextEncoder):
    """1 + ln count of the words in each of `places`, by the words' hash; texts of length one."""

    places: int

    kind: ClassVar[str] = "hashing"

    def encode(self, raw: Sequence[str], name: str) -> Store:
        from scipy.sparse import csr_matrix

        rows, columns = [], []
        for row, text in enumerate(raw):
            found = [zlib.crc32(w.encode()) % self.places for w in _WORD.findall(text.lower())]
            rows += [row] * len(found)
            columns += found
        ones = np.ones(len(rows), dtype=np.float32)
        counts = csr_matrix((ones, (rows, columns)), shape=(len(raw), self.places))
        counts.sum_duplicates()
        counts.data = 1 + np.log(counts.data)
        lengths = np.sqrt(np.asarray(counts.multiply(counts).sum(1)).ravel())
        counts.data /= np.repeat(np.where(lengths > 0, lengths, 1), np.diff(counts.indptr))
        return SparseStore(counts, name)

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "places": self.places}

    @staticmethod
    def from_state(state: dict[str, Any]) -> HashedWords:
        return HashedWords(int(state["places"]))


@dataclass(frozen=True)
class Tokens(TextEncoder):
    """Token ids and an attention mask, (n, length) int64 each.

    Attributes
    ----------
    described
        the tokenizer as `tokenizers` describes it, json; None: a function of the user's own
    """

    length: int
    padding: int
    described: str | None
    tokenizer: Any = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "tokens"

    @staticmethod
    def fit(texts: Sequence[str], tokenizer: Any, length: int | None, name: str) -> Tokens:
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)  # of transformers' fast ones
        described = backend.to_str() if hasattr(backend, "to_str") else None
        padding = getattr(tokenizer, "pad_token_id", None)
        if padding is None and hasattr(backend, "token_to_id"):
            names = ("[PAD]", "<pad>", "<|pad|>")
            padding = next((i for n in names if (i := backend.token_to_id(n)) is not None), None)
        own = None if described is not None else tokenizer
        if described is None and not callable(tokenizer):
            raise InputError(
                f"{name}: a tokenizer of type {type(tokenizer).__name__} can't be called: a "
                "function from a text to token ids would do, or one of tokenizers or transformers"
            )
        whole = Tokens(length or MOST_TOKENS, int(padding or 0), described, own)
        if length is not None:
            return whole
        longest = max(len(ids) for ids, _ in whole._ids(texts, name))
        return replace(whole, length=max(min(longest, MOST_TOKENS), 1))

    def encode(self, raw: Sequence[str], name: str) -> Store:
        found = self._ids(raw, name)
        ids = [one for one, _ in found]
        cut = sum(was_cut for _, was_cut in found)
        if cut:
            log.warning(
                "%s: %d of %d texts have more than %d tokens and are cut: from_texts(source, …, "
                "max_length=…) keeps more of them",
                *(name, cut, len(ids), self.length),
            )
        tokens = np.full((len(ids), self.length), self.padding, dtype=np.int64)
        mask = np.zeros((len(ids), self.length), dtype=np.int64)
        for row, one in enumerate(ids):
            tokens[row, : len(one)] = one
            mask[row, : len(one)] = 1
        return ArrayStore({"input_ids": tokens, "attention_mask": mask}, name=name)

    def example(self) -> Inputs:
        """Two made-up texts."""
        ids = torch.full((2, self.length), self.padding)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def with_tokenizer(self, tokenizer: Any) -> Tokens:
        """With the user's own function, which no file holds."""
        return replace(self, tokenizer=tokenizer)

    def state(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "length": self.length,
            "padding": self.padding,
            "tokenizer": self.described,
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> Tokens:
        described = state["tokenizer"]
        return Tokens(
            int(state["length"]),
            int(state["padding"]),
            None if described is None else str(described),
        )

    def _ids(self, texts: Sequence[str], name: str) -> list[tuple[Sequence[int], bool]]:
        """Token ids of each text, at most `length` of them, and whether there were more."""
        if self.described is not None:
            try:
                from tokenizers import Tokenizer
            except ImportError:
                raise missing_extra("tokenizers", "text", "reading texts") from None
            tokenizer = Tokenizer.from_str(self.described)
            tokenizer.no_padding()
            tokenizer.enable_truncation(self.length)
            read = tokenizer.encode_batch(list(texts))
            return [(one.ids, bool(one.overflowing)) for one in read]
        if self.tokenizer is None:
            raise InputError(
                f"{name}: the run's tokenizer is a function of your own, which no file holds: give "
                "it again, revgrad.load(run, network, tokenizer=…)"
            )
        every = [_ids_of(self.tokenizer, one, name) for one in texts]
        return [(ids[: self.length], len(ids) > self.length) for ids in every]


def _ids_of(tokenizer: Callable[[str], Any], text: str, name: str) -> Sequence[int]:
    found = tokenizer(text)
    if isinstance(found, Mapping) or hasattr(found, "input_ids"):
        found = found["input_ids"]
    ids = np.asarray(found)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise InputError(
            f"{name}: the tokenizer gave {found!r} for a text: a list of token ids (integers) is "
            "wanted"
        )
    return ids.tolist()  # type: ignore[no-any-return]
