"""Domains from shards: WebDataset's tar files, Parquet and Arrow tables, on disk or from a server.

Every shard's samples are found once and kept in an index, so that any sample can be read by itself:
its order in training is a pure function of seed and step (permuted shards, shuffled by the block,
`BlockShuffle`), and a run resumes exactly.
"""

from __future__ import annotations

import glob
import hashlib
import io
import itertools
import math
import os
import re
import tarfile
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from revgrad._seals import read_arrays, write_arrays
from revgrad._system import cache_folder, disk_errors
from revgrad.batch import Inputs
from revgrad.domains.domain import UNNAMED, Domain
from revgrad.domains.download import fetched
from revgrad.domains.image_files import (
    Size,
    check_fit,
    check_size,
    pixels,
    resize,
    short_reason,
)
from revgrad.domains.labels import as_labels
from revgrad.errors import DataError, InputError, MissingExtraError, RevgradError, some

#: Endings of files in a tar that hold a sample's input, and its label.
IMAGES = ("jpg", "jpeg", "png", "webp", "bmp", "ppm", "pgm", "pbm", "tif", "tiff")
LABELS = ("cls", "label")
TABLES = (".parquet", ".arrow")
#: Names that the braces of a pattern may mean.
MOST_SHARDS = 1_000_000
#: Row groups of tables that stay decoded.
_KEPT_GROUPS = 16


def from_shards(
    shards: str | Path | Sequence[str | Path],
    *,
    inputs: str | None = None,
    label: str | None = None,
    labels: bool = True,
    classes: Sequence[str] | None = None,
    size: Any = None,
    fit: str = "crop",
    timeout: float = 20.0,
    retries: int = 3,
    name: str = UNNAMED,
) -> Domain:
    """A domain of shards; `Domain.split` holds out whole shards where there are several.

    Parameters
    ----------
    shards
        a pattern (`train-{000..099}.tar`, `data/*.parquet`, `http://host/a-{0..9}.tar`) or a list
        of paths and addresses. `.tar` as WebDataset writes them (`key.jpg`, `key.cls`), `.parquet`,
        and `.arrow` as Hugging Face `datasets` writes them
    inputs
        the ending (in a tar) or the column (of a table) that is the input; by default images, or
        arrays (`npy`), or in a table all columns of numbers
    label
        the ending or column of the labels; by default `cls`, or `label`
    labels
        False: labels are not read
    classes
        names of the classes in the order of their numbers
    size, fit
        one size that images are brought to, as in `from_folder`; without it all must be alike
    timeout, retries
        seconds that a server may be silent, and how often a shard is asked for again
    name
        what it is called in messages, reports and the run's records

    Examples
    --------
    >>> revgrad.from_shards("train-{000..099}.tar", size=224)  # doctest: +SKIP
    """
    paths = [_local(one, timeout, retries) for one in expanded(shards)]
    opened = [_opened(path, inputs, label if label or not labels else None) for path in paths]
    store = ShardStore(opened, check_size(size), check_fit(fit), name)
    values, names = None, classes
    if labels:
        parts = [shard.labels for shard in opened]
        some_have = [shard for shard, part in zip(opened, parts, strict=True) if part is not None]
        if some_have and len(some_have) < len(opened):
            without = next(s for s, part in zip(opened, parts, strict=True) if part is None)
            raise DataError(f"{without.name} has no labels, {some_have[0].name} has: of one kind")
        if some_have:
            kinds = {part.dtype.kind in "US" for part in parts if part is not None}
            if len(kinds) > 1:
                raise DataError(f"{name}: labels of some shards are text, of others numbers")
            own = classes or next((shard.classes for shard in opened if shard.classes), None)
            joined = np.concatenate([part for part in parts if part is not None])
            values, names = as_labels(joined, name, own)
    lengths = np.diff(store.bounds)
    groups = np.repeat(np.arange(len(opened)), lengths) if len(opened) > 1 else None
    return Domain(store, values, classes=names, groups=groups, name=name)


def expanded(shards: str | Path | Sequence[str | Path]) -> list[str]:
    """The paths and addresses that a pattern means: braces ({000..012}, {a,b}), then * and ?."""
    if not isinstance(shards, str | Path):
        found = [str(one) for one in shards]
    else:
        found = []
        if (count := _count(str(shards))) > MOST_SHARDS:
            raise InputError(f"{shards!r} means {count:,} shards: {MOST_SHARDS:,} at most would do")
        for one in _braces(str(shards)):
            path = os.path.expanduser(one)
            if not _is_address(one) and any(letter in one for letter in "*?["):
                found += sorted(glob.glob(path))
            else:
                found.append(one if _is_address(one) else path)
    if not found:
        raise InputError(f"no shard fits {shards!r}")
    return found


def _count(text: str) -> int:
    """How many names the braces of a pattern mean."""
    ranges = [(int(a), int(b)) for a, b in re.findall(r"\{(\d{1,18})\.\.(\d{1,18})\}", text)]
    return math.prod(max(b - a + 1, 0) for a, b in ranges)


def is_shards(text: str) -> bool:
    """Whether a text means shards: a tar, an address, or a pattern of tars or tables."""
    pattern = any(letter in text for letter in "{*?") and text.endswith(TABLES)
    return _is_address(text) or text.endswith((".tar", ".arrow")) or pattern


def _braces(text: str) -> Iterator[str]:
    match = re.search(r"\{([^{}]*)\}", text)
    if match is None:
        yield text
        return
    inside = re.fullmatch(r"(\d+)\.\.(\d+)", match[1])
    if inside is None:
        choices = match[1].split(",")
    else:
        width = len(inside[1]) if inside[1].startswith("0") else 0
        choices = [str(i).zfill(width) for i in range(int(inside[1]), int(inside[2]) + 1)]
    for one in choices:
        yield from _braces(text[: match.start()] + one + text[match.end() :])


def _is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _local(shard: str, timeout: float, retries: int) -> Path:
    if _is_address(shard):
        return fetched(shard, cache_folder() / "shards", timeout=timeout, retries=retries)
    path = Path(shard)
    if not path.is_file():
        raise InputError(f"no shard {path}")
    return path


class Shard(Protocol):
    """The samples of one file."""

    name: str
    labels: np.ndarray | None
    classes: tuple[str, ...] | None
    key: str

    def __len__(self) -> int: ...

    def read(self, places: np.ndarray) -> list[Any]:
        """The inputs at `places`: encoded images as bytes, else arrays."""
        ...


def _opened(path: Path, inputs: str | None, label: str | None) -> Shard:
    if path.suffix == ".tar":
        return TarShard(path, inputs, label)
    if path.suffix in TABLES:
        return TableShard(path, inputs, label)
    raise InputError(f"{path.name} is no shard: .tar, {', '.join(TABLES)} would do")


class TarShard:
    """A tar file whose members are found once: members of one key are one sample."""

    classes: tuple[str, ...] | None = None

    def __init__(self, path: Path, inputs: str | None, label: str | None) -> None:
        self.path, self.name = path, path.name
        status = path.stat()
        about = f"{path.resolve()} {status.st_size} {status.st_mtime_ns} {inputs} {label} 1"
        self.key = hashlib.sha256(about.encode()).hexdigest()[:24]
        entry = cache_folder() / "shards" / f"{self.key}.arrays"
        index = read_arrays(entry)
        if index is None:
            index = _indexed(path, inputs, label)
            with disk_errors(entry):
                entry.parent.mkdir(parents=True, exist_ok=True)
            write_arrays(entry, index)
        self._starts, self._sizes = index["starts"], index["sizes"]
        self._arrays = bool(index["arrays"])
        self.labels = index.get("labels")
        self._file: int | None = None

    def __len__(self) -> int:
        return len(self._starts)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_file": None}  # another process opens it itself

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            os.close(self._file)  # type: ignore[arg-type]

    def read(self, places: np.ndarray) -> list[Any]:
        try:
            if self._file is None:
                self._file = os.open(self.path, os.O_RDONLY)
            file = self._file
            found = [
                os.pread(file, int(self._sizes[i]), int(self._starts[i])) for i in places.tolist()
            ]
        except OSError as error:
            raise DataError(f"shard {self.path} can't be read: {error.strerror}") from None
        for place, data in zip(places.tolist(), found, strict=True):
            if len(data) < self._sizes[place]:
                raise DataError(f"shard {self.path} was cut: sample {place} is not whole any more")
        return [np.load(io.BytesIO(data)) for data in found] if self._arrays else list(found)


def _indexed(path: Path, inputs: str | None, label: str | None) -> dict[str, np.ndarray]:
    """Where each sample's input lies, and the labels."""
    wanted = (inputs,) if inputs else (*IMAGES, "npy")
    labelling = (label,) if label else LABELS
    keys, starts, sizes, labels, kinds = [], [], [], [], set()
    try:
        with tarfile.open(path, "r:") as tar:
            members = ((m, *_key_and_ending(m.name)) for m in tar if m.isfile())
            end = 0
            for key, group in itertools.groupby(members, key=lambda one: one[1]):
                given = None
                found: str | None = None
                for member, _, ending in group:
                    end = member.offset_data + member.size
                    if ending in wanted and found is None:
                        found = ending
                        keys.append(key)
                        starts.append(member.offset_data)
                        sizes.append(member.size)
                        kinds.add(ending == "npy")
                    elif ending in labelling and given is None:
                        file = tar.extractfile(member)
                        given = b"" if file is None else file.read()
                if found is None:
                    raise DataError(
                        f"shard {path}: sample '{key}' has no input ({', '.join(wanted)})"
                    )
                labels.append(given)
    except (tarfile.TarError, OSError, EOFError) as error:
        reason = " ".join(str(error).split())[:100]
        raise DataError(f"shard {path} is cut or no tar file: {reason}") from None
    if not keys:
        raise DataError(f"shard {path} holds no sample")
    if path.stat().st_size < end + 1024:  # a tar ends with two empty blocks
        raise DataError(f"shard {path} is cut: its end is missing")
    if len(kinds) > 1:
        raise DataError(f"shard {path}: some samples are images, some arrays (inputs='npy')")
    index = {
        "starts": np.array(starts, dtype=np.int64),
        "sizes": np.array(sizes, dtype=np.int64),
        "arrays": np.array(kinds.pop()),
    }
    known = [one for one in labels if one is not None]
    if known and len(known) < len(labels):
        missing = keys[next(i for i, one in enumerate(labels) if one is None)]
        raise DataError(f"shard {path}: sample '{missing}' has no label, others have")
    if known:
        index["labels"] = _label_values(known)
    return index


def _key_and_ending(name: str) -> tuple[str, str]:
    """WebDataset's rule: what stands before the first dot of the file's name is the key."""
    folder, _, base = name.rpartition("/")
    stem, _, ending = base.partition(".")
    return f"{folder}/{stem}", ending.lower()


def _label_values(texts: Sequence[bytes]) -> np.ndarray:
    words = [text.decode("utf-8", "replace").strip() for text in texts]
    try:
        return np.array([int(word) for word in words], dtype=np.int64)
    except (ValueError, OverflowError):  # names, or numbers that are none of classes
        return np.array(words)


class TableShard:
    """A Parquet file, or an Arrow file as `datasets` keeps them."""

    def __init__(self, path: Path, inputs: str | None, label: str | None) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise MissingExtraError(
                "shards of tables need pyarrow: pip install 'revgrad[frames]'"
            ) from None
        self.path, self.name = path, path.name
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._table: Any = None
        try:
            if path.suffix == ".parquet":
                with pq.ParquetFile(path) as file:
                    schema = file.schema_arrow
                    counts = [
                        file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)
                    ]
            else:
                self._table = _arrow_table(path)
                schema, counts = self._table.schema, [self._table.num_rows]
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())[:100]
            raise DataError(f"shard {path} is cut or no {path.suffix[1:]} file: {reason}") from None
        self._ends = np.cumsum(counts)
        self._label = label or next((c for c in ("label", "labels") if c in schema.names), None)
        self._inputs = _input_columns(schema, inputs, self._label, path)
        self.classes = _class_names(schema, self._label)
        self.key = f"{path.name} {path.stat().st_size} {schema} {counts}"
        self.labels: np.ndarray | None = None
        if self._label is not None:
            if self._label not in schema.names:
                raise DataError(
                    f"shard {path} has no column '{self._label}' (there are: {some(schema.names)})"
                )
            columns = [self._group(i, [self._label]) for i in range(len(counts))]
            self.labels = np.concatenate([column[self._label].to_numpy() for column in columns])

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_lock": None, "_kept": OrderedDict(), "_table": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def read(self, places: np.ndarray) -> list[Any]:
        groups = np.searchsorted(self._ends, places, side="right")
        found: list[Any] = [None] * len(places)
        for group in np.unique(groups).tolist():
            at = np.flatnonzero(groups == group)
            first = 0 if group == 0 else int(self._ends[group - 1])
            table = self._cached(group).take((places[at] - first).tolist())
            for place, value in zip(at.tolist(), self._values(table), strict=True):
                found[place] = value
        return found

    def _values(self, table: Any) -> list[Any]:
        if len(self._inputs) > 1:
            columns = [table[name].to_numpy() for name in self._inputs]
            return list(np.stack(columns, 1).astype(np.float32))
        values = table[self._inputs[0]].to_pylist()
        if isinstance(values[0], dict):
            return [value["bytes"] for value in values]
        if isinstance(values[0], bytes):
            return list(values)
        return [np.atleast_1d(np.asarray(value, dtype=np.float32)) for value in values]

    def _cached(self, group: int) -> Any:
        with self._lock:
            table = self._kept.pop(group, None)
        if table is None:
            table = self._group(group, self._inputs)
        with self._lock:
            self._kept[group] = table
            while len(self._kept) > _KEPT_GROUPS:
                self._kept.popitem(last=False)
        return table

    def _group(self, group: int, columns: Sequence[str]) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            if self.path.suffix == ".parquet":
                with pq.ParquetFile(self.path) as file:
                    return file.read_row_group(group, columns=list(columns))
            if self._table is None:
                self._table = _arrow_table(self.path)
            return self._table.select(list(columns))
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())[:100]
            raise DataError(f"shard {self.path} can't be read: {reason}") from None


def _arrow_table(path: Path) -> Any:
    """Memory-mapped: as a stream, which `datasets` writes, or as a file."""
    import pyarrow as pa

    source = pa.memory_map(str(path))
    try:
        return pa.ipc.open_stream(source).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_file(source).read_all()


def _input_columns(schema: Any, wanted: str | None, label: str | None, path: Path) -> list[str]:
    import pyarrow as pa

    if wanted is not None:
        if wanted not in schema.names:
            raise DataError(
                f"shard {path} has no column '{wanted}' (there are: {some(schema.names)})"
            )
        return [wanted]
    images = [
        field.name
        for field in schema
        if pa.types.is_binary(field.type)
        or (pa.types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0)
    ]
    numbers = [
        field.name
        for field in schema
        if field.name != label
        and (pa.types.is_floating(field.type) or pa.types.is_integer(field.type))
    ]
    lists = [
        field.name
        for field in schema
        if field.name != label
        and (pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type))
    ]
    for found in (images, lists):
        if len(found) > 1:
            raise InputError(
                f"shard {path} has several columns of inputs ({some(found)}): name one, inputs=…"
            )
    if not (images or lists or numbers):
        raise DataError(f"shard {path} has no column of images or numbers: {some(schema.names)}")
    return images or lists or numbers


def _class_names(schema: Any, label: str | None) -> tuple[str, ...] | None:
    """The names of a `datasets` ClassLabel, which lie in the table's metadata."""
    import json

    text = (schema.metadata or {}).get(b"huggingface", b"")
    try:
        names = json.loads(text)["info"]["features"][label]["names"]
        return tuple(map(str, names))
    except (TypeError, KeyError, ValueError):
        return None


class ShardStore:
    """The samples of all shards, in their order; sample i is found by the shards' lengths."""

    def __init__(
        self, shards: Sequence[Shard], size: Size | None, fit: str, name: str = UNNAMED
    ) -> None:
        self.shards, self.size, self.fit, self.name = list(shards), size, fit, name
        #: Where each shard begins, and the end.
        self.bounds = np.concatenate([[0], np.cumsum([len(shard) for shard in shards])])
        self._channels: int | None = None
        self._shape: Any = None

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def take(self, indices: np.ndarray) -> Inputs:
        found: list[Any] = [None] * len(indices)
        shards = np.searchsorted(self.bounds, indices, side="right") - 1
        for number in np.unique(shards).tolist():
            at = np.flatnonzero(shards == number)
            shard = self.shards[number]
            try:
                values = shard.read(indices[at] - self.bounds[number])
                for place, value in zip(at.tolist(), values, strict=True):
                    found[place] = self._decoded(value, shard)
            except (RevgradError, MemoryError):
                raise
            except Exception as error:  # decoders raise nearly anything on damaged samples
                reason = short_reason(error)
                raise DataError(f"a sample of shard {shard.name} can't be read: {reason}") from None
        stacked = torch.from_numpy(np.stack(found))
        return stacked.permute(0, 3, 1, 2) if stacked.dtype == torch.uint8 else stacked

    def _decoded(self, value: Any, shard: Shard) -> np.ndarray:
        array = self._image(value, shard) if isinstance(value, bytes) else np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise DataError(f"shard {shard.name} holds a sample of {array.dtype}: numbers would do")
        if array.dtype == np.uint8 and array.ndim == 2:
            array = array[..., None]
        if self._shape is None:
            self._shape = array.shape
        if array.shape != self._shape:
            raise DataError(
                f"shard {shard.name} holds a sample of shape {array.shape}, others are of "
                f"{self._shape}: size=… brings images to one size"
            )
        return array

    def _image(self, data: bytes, shard: Shard) -> np.ndarray:
        from PIL import Image

        try:
            with Image.open(io.BytesIO(data)) as image:
                if self._channels is None:  # the first image decides
                    grey = image.mode in ("1", "L", "LA") or image.mode.startswith("I")
                    self._channels = 1 if grey else 3
                if self.size is not None and image.format == "JPEG":
                    # decoded at a half, a quarter … of its size, not below twice what is wanted
                    image.draft(None, (2 * self.size[1], 2 * self.size[0]))
                array = pixels(image, self._channels)
        except Exception as error:  # decoders raise nearly anything on damaged files
            reason = short_reason(error)
            raise DataError(f"an image of shard {shard.name} can't be read: {reason}") from None
        return array if self.size is None else resize(array[None], self.size, self.fit)[0]

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.size} {self.fit}".encode())
        for shard in self.shards:
            digest.update(f"{shard.name} {len(shard)} {_content(shard)}".encode())
        return digest.hexdigest()


def _content(shard: Shard) -> str:
    """A hash of some of a shard's samples, wherever it lies and whenever it was copied there."""
    where = np.unique(np.linspace(0, len(shard) - 1, 4).astype(np.int64))
    digest = hashlib.sha256()
    for value in shard.read(where):
        digest.update(value if isinstance(value, bytes) else np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


def shard_starts(domain: Domain) -> np.ndarray | None:
    """Places of a domain's samples at which another shard begins; None where there are no shards,
    or the samples are not in the shards' order."""
    store: Any = domain.store
    while not isinstance(store, ShardStore):
        store = getattr(store, "store", None)
        if store is None:
            return None
    rows = domain.rows
    if (np.diff(rows) < 0).any():
        return None
    starts = np.unique(np.searchsorted(rows, store.bounds[:-1]))
    found: np.ndarray = starts[starts < len(rows)]
    return found
