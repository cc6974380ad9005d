"""A `Domain`: a set of inputs, with or without labels, read in batches.

Where the inputs live is a `Store` (arrays, a memory-mapped folder, a torch dataset); the domain
adds which rows belong to it, which of them have labels, and what an augmentation does to a batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from revgrad._random import repeatable_draws
from revgrad.batch import Inputs, Samples, map_inputs, tensors_of
from revgrad.domains.attributes import Attribute, read_attributes
from revgrad.domains.groups import group_numbers, whole_groups
from revgrad.domains.weights import ClassWeights, class_weights, sample_weights
from revgrad.errors import InputError

#: The name of a domain that nobody has named; `as_domain` gives such a domain its role's name.
UNNAMED = "data"

#: Share of the labelled source that `split` holds out for evaluation unless told otherwise.
HELD_OUT = 0.1

Augmentation = Callable[[Inputs, torch.Generator], Inputs]


class Store(Protocol):
    """Where a domain's inputs live. Images come as uint8 (n, channels, height, width).

    A store may say more of itself, by attributes that count as False where they are missing:
    is_resident     all inputs are in memory: reading them waits for nothing
    any_thread      `take` may be called by several threads at once
    runs_user_code  `take` may draw from global generators: training seeds them first
    """

    def __len__(self) -> int: ...

    def take(self, indices: np.ndarray) -> Inputs:
        """The inputs at `indices` (int64, any order, repeats allowed), as one nested tensor."""
        ...

    def fingerprint(self) -> str:
        """A short text that changes when the contents do."""
        ...


def says(store: Store, attribute: str) -> bool:
    """Whether the store, or one that lies below it (a colour image's grey one), says so."""
    while not getattr(store, attribute, False):
        below = getattr(store, "store", None)
        if below is None:
            return False
        store = below
    return True


class Domain:
    """Inputs, their labels where known, and the classes' names.

    Labels are integers (class numbers from 0, or maps and lists of them) or floats (numbers to
    predict), of any trailing shape. What they mean is a `Task`'s to say.
    They can be hidden in two places only, `without_labels` and `keeping_labels`; both drop the
    hidden values, so nothing behind them can read what was hidden.

    Parameters
    ----------
    groups
        one a sample, or None: samples of one group stay together in `split`
    weights
        one a sample, float32, or None: how much its label counts in the label loss
    labels_kept
        True where the labels are those that `keeping_labels` left: of a target these are
        meant for training (semi-supervised), all other labels of a target are dropped
    attributes
        by name, one a sample (`with_attributes`)
    """

    def __init__(
        self,
        store: Store,
        labels: np.ndarray | None = None,
        *,
        labelled: np.ndarray | None = None,
        rows: np.ndarray | None = None,
        classes: Sequence[str] | None = None,
        name: str = UNNAMED,
        augmentation: Augmentation | None = None,
        files: Sequence[str] | None = None,
        labels_kept: bool = False,
        groups: Any = None,
        weights: Any = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.store = store
        self._whole = rows is None  # all of the store, in its order
        self.rows = np.arange(len(store)) if rows is None else np.asarray(rows, dtype=np.int64)
        self.name = name
        self.classes = None if classes is None else tuple(classes)
        self.augmentation = augmentation
        self.files = files  # one per row, where the inputs came from files
        self.labels_kept = labels_kept
        self.groups = None if groups is None else group_numbers(groups, len(self.rows), name)
        self.weights = None if weights is None else sample_weights(weights, len(self.rows), name)
        self.attributes: dict[str, Attribute] = read_attributes(
            attributes or {}, len(self.rows), name
        )
        self._labels = None if labels is None else _checked_labels(labels, len(self.rows), name)
        self._labelled = None if labelled is None or labelled.all() else labelled.astype(bool)
        if self._labels is not None and self.classes is not None and self.is_classification:
            known = self._labels if self._labelled is None else self._labels[self._labelled]
            if known.size and known.max() >= len(self.classes):
                raise InputError(
                    f"{name}: label {known.max()} is out of range for {len(self.classes)} classes"
                )

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        labels = "no labels" if self._labels is None else f"{self.labelled_count} labels"
        return f"Domain({self.name!r}, {len(self)} inputs of shape {self.shape}, {labels})"

    # -- what it holds ------------------------------------------------------------------------

    @property
    def labels(self) -> np.ndarray | None:
        """The labels, one a row; where `labelled` is False a meaningless zero. None: no labels."""
        return self._labels

    @property
    def labelled(self) -> np.ndarray:
        """(n,) bool: which rows have a label."""
        if self._labels is None:
            return np.zeros(len(self), dtype=bool)
        return np.ones(len(self), dtype=bool) if self._labelled is None else self._labelled

    @property
    def labelled_count(self) -> int:
        return int(self.labelled.sum())

    @property
    def is_classification(self) -> bool:
        """True where each label is one class number."""
        return (
            self._labels is not None and self._labels.dtype.kind == "i" and self._labels.ndim == 1
        )

    @property
    def class_count(self) -> int | None:
        """Number of classes: the names' if there are names, else the largest label plus one; None
        where labels are not one class number each."""
        if self._labels is not None and not self.is_classification:
            return None
        if self.classes is not None:
            return len(self.classes)
        if self._labels is None:
            return None
        known = self._labels[self.labelled]
        return int(known.max()) + 1 if known.size else None

    @property
    def shape(self) -> Any:
        """Shape of one input; a tuple or dict of shapes for nested inputs; None if empty."""
        if not len(self):
            return None
        example = self.batch(np.zeros(1, dtype=np.int64), augment=False).inputs
        if isinstance(example, Tensor):
            return tuple(example.shape[1:])
        if isinstance(example, dict):
            return {key: tuple(value.shape[1:]) for key, value in example.items()}
        return tuple(tuple(value.shape[1:]) for value in example)

    @property
    def is_images(self) -> bool:
        """True where one input is a uint8 tensor (channels, height, width)."""
        if not len(self) or getattr(self.store, "prepared", False):
            return False
        tensors = tensors_of(self.batch(np.zeros(1, dtype=np.int64), augment=False).inputs)
        return len(tensors) == 1 and tensors[0].dtype == torch.uint8 and tensors[0].ndim == 4

    def fingerprint(self) -> str:
        """Changes with the inputs, the rows, the attributes, or the labels that can be seen."""
        import hashlib

        digest = hashlib.sha256(self.store.fingerprint().encode())
        digest.update(np.ascontiguousarray(self.rows).tobytes())
        if self._labels is not None:
            digest.update(np.ascontiguousarray(self._labels).tobytes())
            digest.update(self.labelled.tobytes())
            if self.weights is not None:
                digest.update(self.weights.tobytes())
        for name, attribute in sorted(self.attributes.items()):
            digest.update(repr((name, attribute.names)).encode())
            digest.update(attribute.values.tobytes() + attribute.known.tobytes())
        return digest.hexdigest()[:16]

    # -- reading ------------------------------------------------------------------------------

    def batch(
        self,
        indices: np.ndarray | Sequence[int],
        generator: torch.Generator | None = None,
        *,
        augment: bool = True,
    ) -> Samples:
        """The samples at `indices` (positions 0 … len-1 of this domain), all at once.

        The augmentation runs where there is one and a `generator` is given. Without a generator the
        same samples come out the same each time, also where a Dataset's items are random.
        """
        where = np.asarray(indices, dtype=np.int64)
        places = where if self._whole else self.rows[where]
        if generator is None and says(self.store, "runs_user_code"):
            with repeatable_draws(zlib.crc32(places.tobytes())):
                inputs = self.store.take(places)
        else:
            inputs = self.store.take(places)
        if augment and generator is not None and self.augmentation is not None:
            inputs = self.augmentation(inputs, generator)
        if self._labels is None:
            return Samples(inputs, None)
        labels = torch.from_numpy(self._labels[where])
        mask = None if self._labelled is None else torch.from_numpy(self._labelled[where])
        return Samples(inputs, labels, mask)

    # -- other domains made of this one -------------------------------------------------------

    def _with(self, **changes: Any) -> Domain:
        values: dict[str, Any] = {
            "store": self.store,
            "labels": self._labels,
            "labelled": self._labelled,
            "rows": None if self._whole else self.rows,
            "classes": self.classes,
            "name": self.name,
            "augmentation": self.augmentation,
            "files": self.files,
            "labels_kept": self.labels_kept,
            "groups": self.groups,
            "weights": self.weights,
            "attributes": self.attributes,
        }
        values.update(changes)
        return Domain(values.pop("store"), values.pop("labels"), **values)

    def subset(self, indices: np.ndarray | Sequence[int], name: str | None = None) -> Domain:
        """The samples at `indices`, in that order; nothing is copied but the index."""
        where = np.asarray(indices, dtype=np.int64)
        return self._with(
            rows=self.rows[where],
            labels=None if self._labels is None else self._labels[where],
            labelled=None if self._labelled is None else self._labelled[where],
            files=None if self.files is None else [self.files[i] for i in where],
            groups=None if self.groups is None else self.groups[where],
            weights=None if self.weights is None else self.weights[where],
            attributes={key: one.subset(where) for key, one in self.attributes.items()},
            name=name or self.name,
        )

    def sample(self, count: int) -> Domain:
        """At most `count` of the samples, evenly spaced: all classes take part where they are
        sorted."""
        return self if len(self) <= count else self.subset(spaced_indices(len(self), count))

    def split(self, fraction: float = HELD_OUT, seed: int = 0) -> tuple[Domain, Domain]:
        """(the rest, a random `fraction` held out), the same for the same seed.

        Groups are held out whole: as many, in random order, as come nearest to the fraction.
        """
        if not 0 < fraction < 1:
            raise InputError(f"split takes a fraction between 0 and 1, not {fraction}")
        if len(self) < 2:
            raise InputError(f"{self.name} has {len(self)} samples: too few to split")
        if self.groups is None:
            order = np.random.default_rng(seed).permutation(len(self))
            held = min(max(round(len(self) * fraction), 1), len(self) - 1)
            rest, out = np.sort(order[held:]), np.sort(order[:held])
        else:
            chosen = whole_groups(self.groups, fraction, seed, self.name)
            rest, out = np.flatnonzero(~chosen), np.flatnonzero(chosen)
        return self.subset(rest), self.subset(out, f"{self.name} (held out)")

    def without_labels(self) -> Domain:
        """The same inputs; the labels are dropped."""
        return self._with(labels=None, labelled=None, labels_kept=False)

    def keeping_labels(self, n: int, seed: int = 0) -> Domain:
        """The same inputs with `n` labels, chosen at random; the others are dropped.

        As a target, the domain is then semi-supervised: the kept labels are trained on.
        """
        available = np.flatnonzero(self.labelled)
        if not 0 <= n <= len(available):
            raise InputError(f"{self.name} has {len(available)} labels; can't keep {n}")
        if n == 0 or self._labels is None:
            return self.without_labels()
        kept = np.random.default_rng(seed).permutation(available)[:n]
        labelled = np.zeros(len(self), dtype=bool)
        labelled[kept] = True
        labels = np.zeros_like(self._labels)
        labels[kept] = self._labels[kept]
        return self._with(labels=labels, labelled=labelled, labels_kept=True)

    def balanced(self) -> Domain:
        """The same labelled samples, those of rarer classes repeated: all classes come alike often.

        Each class has as many rows as the most frequent one; the sample of a class that comes first
        is repeated first.
        """
        if self._labels is None or not self.is_classification or self.labelled_count < len(self):
            raise InputError(f"{self.name} can't be balanced: it needs a class label on every row")
        rows = [np.flatnonzero(self._labels == label) for label in np.unique(self._labels)]
        most = max(map(len, rows))
        return self.subset(np.sort(np.concatenate([np.resize(one, most) for one in rows])))

    def weighted(self, weights: Any = None, *, by_class: ClassWeights | None = None) -> Domain:
        """The same samples, whose labels count as much as these weights say; None: all alike.

        Parameters
        ----------
        by_class
            "balanced" (all classes weigh alike), a dict from a class's name or number to its
            weight, or a weight for each class; both given: their product
        """
        given = None if weights is None else sample_weights(weights, len(self), self.name)
        if by_class is not None:
            if self._labels is None or self.labelled_count < len(self):
                raise InputError(f"{self.name}: class weights need one class label a sample")
            found = class_weights(by_class, self._labels, self.classes, self.name)
            given = found if given is None else given * found
        return self._with(weights=given)

    def with_attributes(self, attributes: Mapping[str, Any]) -> Domain:
        """The same samples with these attributes too, each one value a sample: the site, the
        scanner, the age.

        Text, truth values and whole numbers of up to 50 values are categories, other numbers are
        numbers; None and NaN: missing. They are no labels: a target's are read like a source's.
        """
        found = read_attributes(attributes, len(self), self.name)
        return self._with(attributes={**self.attributes, **found})

    def augmented(self, augmentation: Augmentation | None) -> Domain:
        """The same domain; in training, `augmentation(inputs, generator)` changes each batch."""
        return self._with(augmentation=augmentation)

    def renamed(self, name: str) -> Domain:
        return self._with(name=name)

    def as_colour(self) -> Domain:
        """Grey images (one channel) as three equal channels; colour images are left alone."""
        if not self.is_images or self.shape[0] != 1:
            return self
        return self._with(store=_GreyAsColour(self.store))

    def as_grey(self) -> Domain:
        """Colour images (three channels) by their brightness (ITU-R 601); grey ones are left
        alone."""
        if not self.is_images or self.shape[0] != 3:
            return self
        return self._with(store=_ColourAsGrey(self.store))


def spaced_indices(length: int, count: int) -> np.ndarray:
    """(at most `count`,) int64: evenly spaced from the first to the last of `length`."""
    return np.linspace(0, length - 1, min(length, count)).astype(np.int64)


def drawn_indices(length: int, count: int) -> np.ndarray:
    """(at most `count`,) int64, rising: drawn at random of `length`, the same each time."""
    return np.sort(np.random.default_rng(0).permutation(length)[:count])


class _GreyAsColour:
    def __init__(self, store: Store) -> None:
        self.store = store

    def __len__(self) -> int:
        return len(self.store)

    def take(self, indices: np.ndarray) -> Inputs:
        def repeat(images: Tensor) -> Tensor:  # keeps channels last; cat is the fastest way
            return torch.cat([images.permute(0, 2, 3, 1)] * 3, dim=3).permute(0, 3, 1, 2)

        return map_inputs(repeat, self.store.take(indices))

    def fingerprint(self) -> str:
        return f"colour:{self.store.fingerprint()}"


class _ColourAsGrey:
    def __init__(self, store: Store) -> None:
        self.store = store

    def __len__(self) -> int:
        return len(self.store)

    def take(self, indices: np.ndarray) -> Inputs:
        def brightness(images: Tensor) -> Tensor:  # in whole numbers, as Pillow computes it
            weights = torch.tensor([19595, 38470, 7471], dtype=torch.int32)
            total = (images.int() * weights[:, None, None]).sum(1, keepdim=True) + 0x8000
            return (total >> 16).to(torch.uint8)

        return map_inputs(brightness, self.store.take(indices))

    def fingerprint(self) -> str:
        return f"grey:{self.store.fingerprint()}"


def _checked_labels(labels: np.ndarray, rows: int, name: str) -> np.ndarray:
    values = np.asarray(labels)
    if len(values) != rows:
        raise InputError(f"{name}: {rows} inputs but {len(values)} labels")
    if values.dtype.kind in "biu":
        values = values.astype(np.int64)
        if values.ndim == 1 and values.size and values.min() < 0:
            raise InputError(
                f"{name}: label {values.min()} is out of range: class labels count from 0 "
                "(hide labels with without_labels() or keeping_labels(), not with a special value)"
            )
    elif values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise InputError(f"{name}: labels must be finite numbers")
    else:
        raise InputError(
            f"{name}: labels must be integers or floats, not {values.dtype}: class numbers from 0 "
            "would do, or, in from_arrays, the classes' names"
        )
    return values
