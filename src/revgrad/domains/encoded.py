"""Samples that are no tensors yet (a frame's rows, texts, series), and the encoder between.

An encoder is fitted on the source's training part alone, is the same for every domain of a
training, and is shipped with the network. What it has learnt is plain json: a run's folder holds
it, and rebuilding it runs no code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np

from revgrad._system import named
from revgrad.batch import Inputs
from revgrad.domains.domain import Domain, Store
from revgrad.errors import InputError, RunError

#: The kinds of encoders by the name that their state has: "module:class", imported when asked for.
ENCODERS: dict[str, str] = {
    "frame": "revgrad.domains.frame_encoder:FrameEncoder",
    "hashing": "revgrad.domains.text_encoder:HashedWords",
    "series": "revgrad.domains.series:SeriesEncoder",
    "tfidf": "revgrad.domains.text_encoder:WordFrequencies",
    "tokens": "revgrad.domains.text_encoder:Tokens",
}


class Encoder(Protocol):
    """From raw samples to inputs."""

    kind: ClassVar[str]  # a name of ENCODERS
    takes: ClassVar[str]  # what raw samples are, for messages: "a data frame"

    def refitted(self, raw: Any, rows: np.ndarray) -> Encoder:
        """Fitted on the raw samples `rows` alone; inputs keep their shape."""
        ...

    def encode(self, raw: Any, name: str) -> Store:
        """The inputs of all raw samples; `name` is that of the domain, for messages."""
        ...

    def read(self, data: Any, labels: Any, name: str) -> Domain:
        """A domain of further raw samples of this kind, in the forms that people have them."""
        ...

    def labels(self, raw: Any) -> Any:
        """The labels that raw samples carry themselves (a frame's column); None: none."""
        ...

    def state(self) -> dict[str, Any]:
        """All that was learnt, as plain json; `from_state` takes it."""
        ...


class EncodedStore:
    """Raw samples, as an encoder makes inputs of them: all at once, when first asked for.

    Parameters
    ----------
    kind
        of the encoder that raw samples of this kind need
    fit
        makes the encoder that they have by themselves, of all samples, so that a domain has a
        shape before it is trained on. A target gets the source's instead: this is never called
    """

    #: Its inputs are as a network wants them: no preprocessing is fitted.
    prepared = True
    is_resident = True

    def __init__(
        self, raw: Any, length: int, name: str, kind: type[Encoder], fit: Callable[[], Encoder]
    ) -> None:
        self.raw = raw
        self.kind = kind
        self._fit = fit
        self._length = length
        self._name = name
        self._encoder: Encoder | None = None
        self._inner: Store | None = None

    @property
    def encoder(self) -> Encoder:
        if self._encoder is None:
            self._encoder = self._fit()
        return self._encoder

    @property
    def inner(self) -> Store:
        if self._inner is None:
            self._inner = self.encoder.encode(self.raw, self._name)
        return self._inner

    def __len__(self) -> int:
        return self._length

    def take(self, indices: np.ndarray) -> Inputs:
        return self.inner.take(indices)

    def fingerprint(self) -> str:
        return self.inner.fingerprint()

    def encoded_by(self, encoder: Encoder, name: str) -> EncodedStore:
        return EncodedStore(self.raw, self._length, name, self.kind, lambda: encoder)


def encoder_of(domain: Domain) -> Encoder | None:
    """The encoder of a domain of raw samples, also where what it made was changed on its way; None
    where inputs are tensors anyway."""
    store: Any = domain.store
    while store is not None and not isinstance(store, EncodedStore):
        store = getattr(store, "store", None)
    return None if store is None else store.encoder


def fit_encoder(source: Domain) -> Encoder | None:
    """The encoder fitted on these samples alone; None where there is nothing to encode. Inputs that
    were changed after they were encoded keep theirs."""
    if not isinstance(source.store, EncodedStore):
        return encoder_of(source)
    return source.store.encoder.refitted(source.store.raw, source.rows)


def encode(domain: Domain, encoder: Encoder | None, *, labels: bool = False) -> Domain:
    """The domain with its raw samples encoded by `encoder`, as the source's are.

    Parameters
    ----------
    labels
        take the labels that the raw samples carry, where the domain has none
    """
    store = domain.store
    if not isinstance(store, EncodedStore) and encoder_of(domain) is encoder:
        return domain  # arrays of both, or inputs that were changed after they were encoded
    if (
        encoder is None
        or not isinstance(store, EncodedStore)
        or not isinstance(encoder, store.kind)
    ):
        came = store.kind.takes if isinstance(store, EncodedStore) else "arrays"
        known = "arrays" if encoder is None else encoder.takes
        raise InputError(
            f"{domain.name} holds {came}, but the source {known}: both must be of one kind"
        )
    changed = domain._with(store=store.encoded_by(encoder, domain.name))
    carried = encoder.labels(store.raw) if labels and domain.labels is None else None
    if carried is None:
        return changed
    from revgrad.domains.labels import as_labels

    values, classes = as_labels(carried, domain.name)
    return changed._with(labels=values[domain.rows], classes=classes)


def encoder_from_state(state: dict[str, Any], tokenizer: Any = None) -> Encoder:
    """The encoder that a run's folder describes; with a tokenizer that no file holds."""
    kind = state.get("kind")
    if kind not in ENCODERS:
        raise RunError(f"no encoder is called {kind!r} (there are: {', '.join(ENCODERS)})")
    build: Callable[[dict[str, Any]], Encoder] = named(ENCODERS[kind]).from_state
    try:
        encoder = build(state)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"the description of an encoder can't be read: {error!r}") from None
    if tokenizer is not None:
        if not hasattr(encoder, "with_tokenizer"):
            raise InputError(f"the run was trained on {encoder.takes} without a tokenizer")
        given: Encoder = encoder.with_tokenizer(tokenizer)
        return given
    return encoder
