"""A `Domain`: a set of inputs, with or without labels, read in batches.

Where the inputs live is a `Store` (arrays, a memory-mapped folder, a torch dataset); the domain
adds which samples belong to it, which of them have labels, and what an augmentation does to a
batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from revgrad._permutation import MOST_INDEXED, Permutation
from revgrad._random import derive, repeatable_draws
from revgrad.batch import Inputs, Samples, map_inputs, tensors_of
from revgrad.domains.attributes import Attribute, read_attributes
from revgrad.domains.groups import group_numbers, whole_groups
from revgrad.domains.rows import AllRows, LabelColumn, Rows, RowsOf, Stretch, all_places
from revgrad.domains.weights import ClassWeights, class_weights, sample_weights
from revgrad.errors import InputError

#: The name of a domain that nobody has named; `as_domain` gives such a domain its role's name.
UNNAMED = "data"

#: Samples of a large domain that stand for all: for a look at its labels, for its fingerprint.
MOST_SHOWN = 1 << 16

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

    `from_arrays`, `from_folder` and the like make one; its methods give changed copies.

    Parameters
    ----------
    store
        where the inputs live
    labels
        one a sample of the store; None: no labels
    labelled
        (n,) bool: which samples have a label; None: all
    rows
        the samples of the store that belong to the domain; None: all
    classes
        names of the classes in the order of their numbers
    name
        what it is called in messages, reports and the run's records
    augmentation
        a function of inputs and a generator that changes them in training
    files
        one a sample, where the inputs came from files
    groups
        one a sample, or None: samples of one group stay together in `split`
    weights
        one a sample, float32, or None: how much its label counts in the label loss
    labels_kept
        True where the labels are those that `keeping_labels` left: of a target these are
        meant for training (semi-supervised), all other labels of a target are dropped
    attributes
        by name, one a sample (`with_attributes`)

    Examples
    --------
    >>> domain = revgrad.from_arrays(np.zeros((10, 4), dtype="float32"), np.arange(10) % 2)
    >>> len(domain), domain.shape
    (10, (4,))
    >>> domain.without_labels().labels is None
    True
    >>> domain.keeping_labels(3, seed=0).labelled_count
    3
    """

    def __init__(
        self,
        store: Store,
        labels: np.ndarray | LabelColumn | None = None,
        *,
        labelled: np.ndarray | None = None,
        rows: np.ndarray | Rows | None = None,
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
        self._rows = _rows(rows, len(store))
        self.name = name
        self.classes = None if classes is None else tuple(classes)
        self.augmentation = augmentation
        self.files = files  # one a sample, where the inputs came from files
        self.labels_kept = labels_kept
        self.groups = None if groups is None else group_numbers(groups, len(self._rows), name)
        self.weights = None if weights is None else sample_weights(weights, len(self._rows), name)
        self.attributes: dict[str, Attribute] = read_attributes(
            attributes or {}, len(self._rows), name
        )
        self._labels = None if labels is None else _checked_labels(labels, len(self._rows), name)
        self._labelled = None if labelled is None or labelled.all() else labelled.astype(bool)
        if self._labels is not None and self.classes is not None and self.is_classification:
            largest = self._largest_label()
            if largest is not None and largest >= len(self.classes):
                raise InputError(
                    f"{name}: label {largest} is out of range for {len(self.classes)} classes"
                )

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        labels = "no labels" if self._labels is None else f"{self.labelled_count} labels"
        return f"Domain({self.name!r}, {len(self)} inputs of shape {self.shape}, {labels})"

    # -- what it holds ------------------------------------------------------------------------

    @property
    def rows(self) -> np.ndarray:
        """(n,) int64: the store's row that each sample is. Of more than `MOST_INDEXED` samples it
        can be made anew at each call."""
        return all_places(self._rows)

    @property
    def labels(self) -> np.ndarray | None:
        """The labels, one a sample; where `labelled` is False a meaningless zero. None: no labels.

        Of more than `MOST_INDEXED` samples they are gathered anew at each call: `labels_at` reads
        some of them.
        """
        return np.asarray(self._labels) if isinstance(self._labels, LabelColumn) else self._labels

    def labels_at(self, places: np.ndarray) -> np.ndarray | None:
        """The labels at some places; None: no labels."""
        return None if self._labels is None else self._labels[places]

    def known_labels(self) -> np.ndarray:
        """The labels that samples have; of more than `MOST_INDEXED` samples those of evenly spaced
        ones, with the smallest and the largest of all."""
        assert self._labels is not None
        if isinstance(self._labels, LabelColumn) and self._labelled is None:
            shown = self._labels[spaced_indices(len(self), MOST_SHOWN)]
            if self._labels.ndim > 1:
                return shown
            ends = np.array(self._labels.ends(), dtype=shown.dtype)
            return np.concatenate([shown, ends])
        known = np.asarray(self._labels)
        return known if self._labelled is None else known[self._labelled]

    @property
    def labelled(self) -> np.ndarray:
        """(n,) bool: which samples have a label."""
        if self._labels is None:
            return np.zeros(len(self), dtype=bool)
        return np.ones(len(self), dtype=bool) if self._labelled is None else self._labelled

    def labelled_at(self, places: np.ndarray) -> np.ndarray:
        """(m,) bool: which of the samples at `places` have a label."""
        if self._labels is None or self._labelled is None:
            return np.full(len(places), self._labels is not None)
        labelled: np.ndarray = self._labelled[places]
        return labelled

    @property
    def labelled_count(self) -> int:
        """How many samples have a label."""
        if self._labels is None or self._labelled is None:
            return 0 if self._labels is None else len(self)
        return int(self._labelled.sum())

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
        largest = None if self._labels is None else self._largest_label()
        return None if largest is None else largest + 1

    def _largest_label(self) -> int | None:
        if isinstance(self._labels, LabelColumn) and self._labelled is None:
            return int(self._labels.ends()[1])
        known = self.known_labels()
        return int(known.max()) if known.size else None

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
        """Changes with the inputs, the samples, the attributes, or the labels that can be seen."""
        import hashlib

        digest = hashlib.sha256(self.store.fingerprint().encode())
        # of a large domain evenly spaced ones stand for all
        large = len(self) > MOST_INDEXED
        shown = spaced_indices(len(self), MOST_SHOWN) if large else np.arange(len(self))
        if large:
            digest.update(f"{len(self)}: {self._rows!r}".encode())
        digest.update(np.ascontiguousarray(self._rows[shown]).tobytes())
        if self._labels is not None:
            digest.update(np.ascontiguousarray(self._labels[shown]).tobytes())
            digest.update(self.labelled_at(shown).tobytes())
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
        places = where if self._whole else self._rows[where]
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
            "rows": None if self._whole else self._rows,
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
        return self._chosen(where, name, self._rows[where], self.labels_at(where))

    def _chosen(
        self,
        places: np.ndarray,
        name: str | None,
        rows: Rows,
        labels: np.ndarray | LabelColumn | None,
    ) -> Domain:
        return self._with(
            rows=rows,
            labels=labels,
            labelled=None if self._labelled is None else self._labelled[places],
            files=None if self.files is None else [self.files[i] for i in places],
            groups=None if self.groups is None else self.groups[places],
            weights=None if self.weights is None else self.weights[places],
            attributes={key: one.subset(places) for key, one in self.attributes.items()},
            name=name or self.name,
        )

    def _computed(self, choice: Rows, name: str | None = None) -> Domain:
        """The samples at the places of a choice that is computed: no index where none is needed."""
        if not isinstance(self._labels, LabelColumn):
            return self.subset(all_places(choice), name)
        of_each = (self._labelled, self.files, self.groups, self.weights, self.attributes or None)
        places = np.arange(0) if all(one is None for one in of_each) else all_places(choice)
        labels = self._labels.of(RowsOf(self._labels.rows, choice))
        return self._chosen(places, name, RowsOf(self._rows, choice), labels)

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
            count = "1 sample" if len(self) else "no samples"
            raise InputError(
                f"{self.name} has {count}: too few to split; held_out=0 keeps none for evaluation"
            )
        held = min(max(round(len(self) * fraction), 1), len(self) - 1)
        out_name = f"{self.name} (held out)"
        if self.groups is not None:
            chosen = whole_groups(self.groups, fraction, seed, self.name)
            return self.subset(np.flatnonzero(~chosen)), self.subset(
                np.flatnonzero(chosen), out_name
            )
        if len(self) > MOST_INDEXED:
            order = Permutation(len(self), derive(seed))
            rest = self._computed(Stretch(order, held, len(self)))
            return rest, self._computed(Stretch(order, 0, held), out_name)
        drawn = np.random.default_rng(seed).permutation(len(self))
        return self.subset(np.sort(drawn[held:])), self.subset(np.sort(drawn[:held]), out_name)

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
        known = np.asarray(self._labels)
        labels = np.zeros_like(known)
        labels[kept] = known[kept]
        return self._with(labels=labels, labelled=labelled, labels_kept=True)

    def with_labels(self, labels: Any, classes: Sequence[str] | None = None) -> Domain:
        """The same inputs with other labels, one a sample: pseudo-labels, say.

        Parameters
        ----------
        classes
            names of the classes; None: the domain's own
        """
        given = np.asarray(labels)
        if len(given) != len(self):
            raise InputError(
                f"{self.name} has {len(self)} samples, and there are {len(given)} "
                "labels: one a sample is needed"
            )
        names = self.classes if classes is None else tuple(classes)
        return self._with(labels=given, labelled=None, classes=names)

    def balanced(self) -> Domain:
        """The same labelled samples, those of rarer classes repeated: all classes come alike often.

        Each class has as many samples as the most frequent one; the sample of a class that comes
        first is repeated first.
        """
        if self._labels is None or not self.is_classification or self.labelled_count < len(self):
            raise InputError(
                f"{self.name} can't be balanced: it needs a class label for every sample"
            )
        labels = np.asarray(self._labels)
        rows = [np.flatnonzero(labels == label) for label in np.unique(labels)]
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
            labels = np.asarray(self._labels)
            found = class_weights(by_class, labels, self.classes, self.name)
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
        """The same domain under another name."""
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
    if length > MOST_INDEXED:
        return np.sort(Permutation(length, derive(0))[: max(count, 0)])
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


def _rows(given: np.ndarray | Rows | None, stored: int) -> Rows:
    if given is None:
        return np.arange(stored) if stored <= MOST_INDEXED else AllRows(stored)
    if isinstance(given, AllRows | Stretch | RowsOf) and len(given) > MOST_INDEXED:
        return given
    return np.asarray(all_places(given), dtype=np.int64)


def _checked_labels(
    labels: np.ndarray | LabelColumn, rows: int, name: str
) -> np.ndarray | LabelColumn:
    if isinstance(labels, LabelColumn):
        return labels if rows > MOST_INDEXED else np.asarray(labels)
    values = np.asarray(labels)
    if len(values) != rows:
        raise InputError(f"{name}: {rows} inputs but {len(values)} labels")
    if values.dtype.kind not in "biuf":
        raise InputError(
            f"{name}: labels must be integers or floats, not {values.dtype}: class numbers from 0 "
            "would do, or, in from_arrays, the classes' names"
        )
    column = LabelColumn(values, AllRows(rows))
    smallest, largest = column.ends() if values.size else (0, 0)
    if values.dtype.kind == "f":
        if not np.isfinite([smallest, largest]).all():
            first = next(i for i in range(len(values)) if not np.isfinite(values[i]).all())
            raise InputError(
                f"{name}: labels are missing or not finite, the first in sample {first}: leave "
                "those samples out (of a target, all labels: without_labels())"
            )
    elif values.ndim == 1 and smallest < 0:
        raise InputError(
            f"{name}: label {smallest} is out of range: class labels count from 0 "
            "(hide labels with without_labels() or keeping_labels(), not with a special value)"
        )
    if rows > MOST_INDEXED:
        return column
    return values.astype(np.int64) if values.dtype.kind in "biu" else values
