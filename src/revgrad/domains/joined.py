"""Several domains as one: their samples one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from revgrad.batch import Inputs, concatenate, select_samples
from revgrad.domains.attributes import Attribute
from revgrad.domains.common_shape import match_colours, with_classes
from revgrad.domains.domain import Domain, says
from revgrad.errors import InputError


def joined(domains: Sequence[Domain], name: str | None = None) -> Domain:
    """One domain of the samples of all, in their order: pooled, and no longer told apart.

    Grey images are shown as colour where others are colour; classes are matched by name. Labels,
    groups, weights and attributes are kept; a domain without a label, a weight or an attribute
    leaves it out for its samples. Augmentations are kept where all have the same.

    Parameters
    ----------
    domains
        two at least, of inputs of one shape
    name
        what it is called in messages, reports and the run's records

    Examples
    --------
    >>> one, other = (revgrad.from_arrays(np.full((3, 2), value)) for value in (0.0, 1.0))
    >>> len(revgrad.joined([one, other]))
    6
    """
    if not domains:
        raise InputError("there is nothing to join: one domain or more would do")
    if len(domains) == 1:
        return domains[0] if name is None else domains[0].renamed(name)
    first, *rest = match_colours(list(domains))
    parts = [first, *(with_classes(one, first.classes) for one in rest)]
    augmentations = {id(one.augmentation): one.augmentation for one in parts}
    files = [file for one in parts for file in one.files or ()]
    return Domain(
        JoinedStore(parts),
        _labels(parts),
        labelled=np.concatenate([one.labelled for one in parts]),
        classes=first.classes,
        name=name or " + ".join(one.name for one in domains),
        augmentation=first.augmentation if len(augmentations) == 1 else None,
        files=files if all(one.files is not None for one in parts) else None,
        labels_kept=all(one.labels_kept for one in parts),
        groups=_groups(parts),
        weights=_weights(parts),
        attributes={key: _attribute(parts, key) for one in parts for key in one.attributes},
    )


class JoinedStore:
    """The samples of several domains of one shape, one after the other."""

    def __init__(self, domains: Sequence[Domain]) -> None:
        self.domains = list(domains)
        self._ends = np.cumsum([len(one) for one in domains])
        stores = [one.store for one in domains]
        self.prepared = any(getattr(one, "prepared", False) for one in stores)
        self.is_resident = all(says(one, "is_resident") for one in stores)
        self.any_thread = all(says(one, "any_thread") for one in stores)
        self.runs_user_code = any(says(one, "runs_user_code") for one in stores)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def take(self, indices: np.ndarray) -> Inputs:
        of = np.searchsorted(self._ends, indices, side="right")
        order = np.argsort(of, kind="stable")
        parts: list[Inputs] = []
        for number in np.unique(of):
            domain = self.domains[number]
            start = self._ends[number] - len(domain)
            where = domain.rows[indices[order][of[order] == number] - start]
            parts.append(domain.store.take(where))
        if len(parts) == 1:
            return parts[0]
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return select_samples(concatenate(parts), torch.from_numpy(back))

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for one in self.domains:
            digest.update(one.store.fingerprint().encode())
            digest.update(np.ascontiguousarray(one.rows).tobytes())
        return f"joined:{digest.hexdigest()[:24]}"


def _labels(parts: Sequence[Domain]) -> np.ndarray | None:
    known = next((one.labels for one in parts if one.labels is not None), None)
    if known is None:
        return None
    for one in parts:
        if one.labels is not None and one.labels.dtype != known.dtype:
            raise InputError(f"{one.name}'s labels are of another kind than {parts[0].name}'s")
    blank = [
        np.zeros((len(one), *known.shape[1:]), known.dtype) if one.labels is None else one.labels
        for one in parts
    ]
    return np.concatenate(blank)


def _groups(parts: Sequence[Domain]) -> np.ndarray | None:
    """Groups of different domains are different ones; a sample without is a group by itself."""
    if all(one.groups is None for one in parts):
        return None
    found, start = [], 0
    for one in parts:
        own = np.arange(len(one)) if one.groups is None else one.groups
        numbers = np.unique(own, return_inverse=True)[1].reshape(-1)
        found.append(numbers + start)
        start += int(numbers.max(initial=-1)) + 1
    return np.concatenate(found).astype(np.int64)


def _weights(parts: Sequence[Domain]) -> np.ndarray | None:
    if all(one.weights is None for one in parts):
        return None
    return np.concatenate(
        [np.ones(len(one), np.float32) if one.weights is None else one.weights for one in parts]
    )


def _attribute(parts: Sequence[Domain], key: str) -> Attribute:
    """In the categories of all; missing where a domain does not have it."""
    own = [one.attributes.get(key) for one in parts]
    kinds = {one.is_categorical for one in own if one is not None}
    if len(kinds) > 1:
        raise InputError(f"attribute '{key}' is categories in one domain and numbers in another")
    names = tuple(dict.fromkeys(text for one in own if one is not None for text in one.names or ()))
    place = {text: number for number, text in enumerate(names)}
    values, known = [], []
    for domain, one in zip(parts, own, strict=True):
        if one is None:
            kind = np.int64 if kinds == {True} else np.float64
            values.append(np.zeros(len(domain), kind))
            known.append(np.zeros(len(domain), dtype=bool))
            continue
        codes = None if one.names is None else np.array([place[text] for text in one.names])
        values.append(one.values if codes is None or not len(codes) else codes[one.values])
        known.append(one.known)
    return Attribute(
        np.concatenate(values), np.concatenate(known), names if kinds == {True} else None
    )
