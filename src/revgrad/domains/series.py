"""Domains of series: signals of several channels and any lengths, or windows of long records."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from revgrad.batch import Inputs
from revgrad.domains.domain import UNNAMED, Domain
from revgrad.domains.encoded import EncodedStore
from revgrad.domains.labels import as_labels
from revgrad.errors import InputError

log = logging.getLogger("revgrad")


@dataclass(frozen=True)
class Series:
    """Records one behind the other, and the stretches of them that are samples.

    Attributes
    ----------
    values
        (channels, time of all records) float32
    starts
        (n,) int64: where each sample begins
    lengths
        (n,) int64: how long it is
    """

    values: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


def from_series(
    series: Any,
    labels: Any = None,
    *,
    windows: tuple[int, int] | None = None,
    length: int | None = None,
    mask: bool = False,
    groups: Any = None,
    classes: Sequence[str] | None = None,
    name: str = UNNAMED,
) -> Domain:
    """A domain of series, (channels, time) each; inputs are (channels, length) float32.

    Channels are standardised by the mean and the deviation of the source's training part, which
    are kept and exported with the network; `Adapted.predict` takes raw series.

    Parameters
    ----------
    series
        a list of arrays (channels, time) or (time,), of any lengths; or one array
        (n, channels, time)
    labels
        one a series; with `windows`, also one for each moment of a series: of a window the
        most frequent one, of numbers to predict the mean
    windows
        (length, stride): samples are windows of that length, one every `stride` moments. Each
        record is then a group, unless `groups` says otherwise: a split never divides one
    length
        what series are brought to, by zeros behind or by cutting; None: the longest of these
    mask
        True: inputs are {"values": (channels, length), "mask": (length,)}, the mask True where
        the series has values; a network takes both by these names
    groups
        one a series, as in `from_arrays`
    classes
        names of the classes in the order of their numbers; None: of labels that are text, the names
        in sorted order
    name
        what it is called in messages, reports and the run's records

    Examples
    --------
    >>> records = [np.zeros((3, 80)), np.ones((3, 100))]  # three channels, two lengths
    >>> revgrad.from_series(records, [0, 1], length=90).shape
    (3, 90)
    """
    records = _records(series, name)
    ends = np.cumsum([one.shape[1] for one in records])
    lengths = np.diff(ends, prepend=0)
    if windows is None:
        starts, spans, owner = ends - lengths, lengths, np.arange(len(records))
    else:
        starts, spans, owner = _windows(ends, lengths, windows, name)
    if length is not None and length < 1:
        raise InputError(f"{name}: a length is 1 or more, not {length}")
    raw = Series(np.concatenate(records, axis=1), starts, spans)
    together = groups
    if groups is not None or windows is not None:
        given = np.arange(len(records)) if groups is None else np.asarray(groups)
        if len(given) != len(records):
            raise InputError(f"{name}: {len(records)} series but {len(given)} groups")
        together = given[owner]
    values, names = None, None if classes is None else tuple(classes)
    if labels is not None:
        values, names = _labels(labels, lengths, raw, owner, windows is not None, classes, name)

    def fit() -> SeriesEncoder:
        longest = int(spans.max()) if length is None else length
        return SeriesEncoder.fit(raw, longest, mask, windows)

    return Domain(
        EncodedStore(raw, len(starts), name, SeriesEncoder, fit),
        values,
        classes=names,
        groups=together,
        name=name,
    )


@dataclass(frozen=True)
class SeriesEncoder:
    """(x − mean) / scale of each channel, brought to `length` by zeros behind or by cutting.

    Attributes
    ----------
    cuts
        whether a `length` was asked for that cuts the source's own series: then nothing is said of
        others that are cut
    """

    length: int
    means: tuple[float, ...]
    scales: tuple[float, ...]
    mask: bool
    windows: tuple[int, int] | None
    cuts: bool = False

    kind: ClassVar[str] = "series"
    takes: ClassVar[str] = "series"

    @staticmethod
    def fit(raw: Series, length: int, mask: bool, windows: tuple[int, int] | None) -> SeriesEncoder:
        channels = len(raw.values)
        zeros, ones = (0.0,) * channels, (1.0,) * channels
        cuts = int(raw.lengths.max()) > length
        empty = SeriesEncoder(length, zeros, ones, mask, windows, cuts)
        return empty.refitted(raw, np.arange(len(raw.starts)))

    def refitted(self, raw: Series, rows: np.ndarray) -> SeriesEncoder:
        """Mean and deviation of each channel over the moments of `rows`, as often as they come."""
        change = np.zeros(raw.values.shape[1] + 1)
        np.add.at(change, raw.starts[rows], 1.0)
        np.add.at(change, raw.starts[rows] + raw.lengths[rows], -1.0)
        often = np.cumsum(change)[:-1]
        means, scales = [], []
        for channel in raw.values.astype(np.float64, copy=False):
            mean = float(np.average(channel, weights=often))
            deviation = float(np.sqrt(np.average((channel - mean) ** 2, weights=often)))
            means.append(mean)
            scales.append(deviation if deviation > 1e-7 * max(abs(mean), 1e-30) else 1.0)
        return replace(self, means=tuple(means), scales=tuple(scales))

    def encode(self, raw: Series, name: str) -> SeriesStore:
        if len(raw.values) != len(self.means):
            raise InputError(
                f"{name} has {len(raw.values)} channels and the source {len(self.means)}: both "
                "need the same"
            )
        mean, scale = np.array(self.means)[:, None], np.array(self.scales)[:, None]
        values = ((raw.values - mean) / scale).astype(np.float32)
        cut = int((raw.lengths > self.length).sum())
        if cut and not self.cuts:
            log.warning(
                "%s: %d of %d series are longer than the %d moments that the source's are brought "
                "to, and cut: from_series(source, length=%d) keeps all of them",
                *(name, cut, len(raw.lengths), self.length, raw.lengths.max()),
            )
        return SeriesStore(
            Series(values, raw.starts, np.minimum(raw.lengths, self.length)), self.length, self.mask
        )

    def example(self) -> Inputs:
        """Two made-up series."""
        random = torch.Generator().manual_seed(0)
        values = torch.randn((2, len(self.means), self.length), generator=random)
        if not self.mask:
            return values
        return {"values": values, "mask": torch.ones((2, self.length), dtype=torch.bool)}

    def read(self, data: Any, labels: Any, name: str) -> Domain:
        return from_series(data, labels, windows=self.windows, name=name)

    def labels(self, raw: Series) -> Any:
        return None

    def state(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "length": self.length,
            "means": list(self.means),
            "scales": list(self.scales),
            "mask": self.mask,
            "windows": None if self.windows is None else list(self.windows),
            "cuts": self.cuts,
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> SeriesEncoder:
        windows = state["windows"]
        return SeriesEncoder(
            int(state["length"]),
            tuple(map(float, state["means"])),
            tuple(map(float, state["scales"])),
            bool(state["mask"]),
            None if windows is None else (int(windows[0]), int(windows[1])),
            bool(state.get("cuts", False)),
        )


class SeriesStore:
    """Stretches of records, gathered a batch at a time: overlapping windows share their values."""

    prepared = True
    is_resident = True

    def __init__(self, series: Series, length: int, mask: bool) -> None:
        self.series = series
        self._mask = mask
        self._moments = np.arange(length)

    def __len__(self) -> int:
        return len(self.series.starts)

    def take(self, indices: np.ndarray) -> Inputs:
        series = self.series
        present = self._moments < series.lengths[indices, None]  # (n, length)
        places = np.where(present, series.starts[indices, None] + self._moments, 0)
        values = series.values[:, places] * present
        inputs = torch.from_numpy(np.ascontiguousarray(values.transpose(1, 0, 2)))
        return {"values": inputs, "mask": torch.from_numpy(present)} if self._mask else inputs

    def fingerprint(self) -> str:
        digest = hashlib.blake2b(f"{len(self._moments)} {self._mask}".encode(), digest_size=16)
        for part in (self.series.values, self.series.starts, self.series.lengths):
            digest.update(f"{part.shape} {part.dtype.str}".encode())
            digest.update(np.ascontiguousarray(part).data if part.size else b"")
        return digest.hexdigest()


def pad_series(series: Sequence[Any], length: int | None = None) -> tuple[Tensor, Tensor]:
    """Series (channels, time) of unequal lengths as (n, channels, length), zeros behind, and the
    mask (n, length) that is True where there are values; longer ones are cut.

    For a collate function of one's own (`from_dataset(…, collate=…)`), with a fixed `length`.
    """
    records = _records(list(series), "the series")
    longest = max(one.shape[1] for one in records) if length is None else length
    values = torch.zeros(len(records), len(records[0]), longest)
    mask = torch.zeros(len(records), longest, dtype=torch.bool)
    for i, one in enumerate(records):
        here = min(one.shape[1], longest)
        values[i, :, :here] = torch.from_numpy(one[:, :here])
        mask[i, :here] = True
    return values, mask


def _records(series: Any, name: str) -> list[np.ndarray]:
    """Each series as (channels, time) float32."""
    if isinstance(series, Tensor | np.ndarray) and series.ndim != 3:
        raise InputError(
            f"{name}: an array of series is (n, channels, time), not {tuple(series.shape)}; series "
            "of unequal lengths are a list"
        )
    records: list[np.ndarray] = []
    for i, one in enumerate(series):
        try:
            array = np.asarray(one.detach().cpu() if isinstance(one, Tensor) else one)
            array = array.astype(np.float32)
        except (TypeError, ValueError):
            raise InputError(f"{name}: series {i} is not of numbers") from None
        array = array[None] if array.ndim == 1 else array
        if array.ndim != 2 or not array.shape[1]:
            raise InputError(
                f"{name}: series {i} has shape {array.shape}: (channels, time) is wanted, with one "
                "moment at least"
            )
        if records and len(array) != len(records[0]):
            raise InputError(
                f"{name}: series 0 has {len(records[0])} channels, series {i} {len(array)}: is it "
                "(time, channels)? then transpose it"
            )
        if not np.isfinite(array).all():
            raise InputError(f"{name}: series {i} holds numbers that are not finite")
        records.append(array)
    if not records:
        raise InputError(f"{name}: no series")
    return records


def _windows(
    ends: np.ndarray, lengths: np.ndarray, windows: tuple[int, int], name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and lengths of all windows, and the record that each is of."""
    try:
        length, stride = (int(one) for one in windows)
    except (TypeError, ValueError):
        length = stride = 0
    if length < 1 or stride < 1:
        raise InputError(f"{name}: windows are (length, stride), both 1 or more, not {windows!r}")
    counts = np.maximum((lengths - length) // stride + 1, 0)
    if not counts.sum():
        raise InputError(
            f"{name}: no series is as long as a window of {length} (the longest is {lengths.max()})"
        )
    if not counts.all():
        log.info(
            "%s: %d of %d series are shorter than a window of %d and left out",
            *(name, int((counts == 0).sum()), len(counts), length),
        )
    owner = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = (ends - lengths)[owner] + number * stride
    return starts, np.full(len(starts), length), owner


def _labels(
    labels: Any,
    lengths: np.ndarray,
    raw: Series,
    owner: np.ndarray,
    windowed: bool,
    classes: Sequence[str] | None,
    name: str,
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """A label for each sample, of one for each record or of one for each moment of each."""
    by_moment = windowed and len(labels) == len(lengths) and all(np.ndim(o) == 1 for o in labels)
    if not by_moment:
        values, names = as_labels(labels, name, classes)
        if len(values) != len(lengths):
            raise InputError(f"{name}: {len(lengths)} series but {len(values)} labels")
        return values[owner], names
    for i, (one, wanted) in enumerate(zip(labels, lengths, strict=True)):
        if len(one) != wanted:
            raise InputError(f"{name}: series {i} has {wanted} moments but {len(one)} labels")
    values, names = as_labels(np.concatenate([np.asarray(one) for one in labels]), name, classes)
    stretches = raw.starts[:, None] + np.arange(int(raw.lengths[0]))
    if values.dtype.kind == "f":
        return values[stretches].mean(1), names
    counts = np.stack([(values == k)[stretches].sum(1) for k in range(int(values.max()) + 1)])
    return counts.argmax(0), names
