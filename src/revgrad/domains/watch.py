"""Smart-watch series: seven exercises of the shoulder, done by ten people with either arm.

From seglearn's wheel (Burns et al. 2018, BSD licence), which pip fetches and of which no code runs.
"""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from revgrad.domains.domain import Domain
from revgrad.domains.packages import PackageFile, package_file
from revgrad.domains.series import from_series
from revgrad.errors import unknown

ARMS = ("left", "right")
EXERCISES = (
    *("pendulum", "abduction", "forward elevation", "internal rotation"),
    *("external rotation", "trapezius extension", "row"),
)
#: A window of 64 numbers, every second of 50 a second: 2.6 s.
WINDOW, EVERY = 64, 2

_WHEEL = PackageFile(
    "seglearn==1.2.5",
    "seglearn-1.2.5-py3-none-any.whl",
    "ec6b952c85c9627050102854b372d85951563d3b990df677d7c55547e87413dd",
)
_MEMBER = "seglearn/data/watch_dataset.npy"


class Record(NamedTuple):
    """One person doing one exercise with one arm: (time, 6) float32, 50 a second."""

    values: np.ndarray
    exercise: int
    person: int
    arm: str


class Windows(NamedTuple):
    """Windows of an arm's records: (n, 6, 64) float32, acceleration (g) and turning (rad/s) along
    three axes; the exercise of each, (n,), a number of `EXERCISES`; the person, (n,)."""

    x: np.ndarray
    y: np.ndarray
    person: np.ndarray


def watch(split: str = "left") -> Domain:
    """Windows of the "left" or the "right" arm, grouped by person."""
    if split == "train":  # a domain that is opened without a split
        split = "left"
    found = watch_windows(split)
    return from_series(
        found.x, found.y, groups=found.person, classes=EXERCISES, name=f"watch:{split}"
    )


def watch_windows(arm: str) -> Windows:
    """The windows of an arm, "left" or "right", as arrays; each overlaps the next by a half."""
    if arm not in ARMS:
        raise unknown("arm", arm, ARMS)
    x, y, person = [], [], []
    for record in watch_records():
        if record.arm != arm:
            continue
        span = WINDOW * EVERY
        for start in range(0, len(record.values) - span + 1, span // 2):
            x.append(record.values[start : start + span : EVERY].T)
            y.append(record.exercise)
            person.append(record.person)
    return Windows(np.stack(x), np.array(y), np.array(person))


def watch_records() -> list[Record]:
    """The whole records, as the package has them."""
    with zipfile.ZipFile(package_file(_WHEEL)) as wheel:
        found = read_arrays(wheel.read(_MEMBER)).item()
    columns = (found[name] for name in ("X", "y", "subject", "side"))
    return [
        Record(np.asarray(values[:, :6], dtype=np.float32), int(label), int(who), ARMS[int(side)])
        for values, label, who, side in zip(*columns, strict=True)
    ]


def read_arrays(data: bytes) -> Any:
    """What an `.npy` file of Python objects holds; one that asks for more than arrays of numbers
    and texts is refused, so that no code of its own runs."""
    header = 10 + struct.unpack("<H", data[8:10])[0]
    return _Arrays(io.BytesIO(data[header:]), encoding="latin1").load()


class _Arrays(pickle.Unpickler):
    _ALLOWED = frozenset(
        {
            *(("multiarray", "_reconstruct"), ("multiarray", "scalar")),
            *(("numpy", "ndarray"), ("numpy", "dtype")),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return lambda text, encoding: str(text).encode(str(encoding))
        package, _, part = module.rpartition(".")
        core = package in ("numpy.core", "numpy._core")
        if (part if core else module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(
                f"the file asks for {module}.{name}, which arrays do not need"
            )
        if core:  # NumPy 2 has it under another name than the file, which is older
            newer = np.lib.NumpyVersion(np.__version__) >= "2.0.0"
            module = f"numpy.{'_core' if newer else 'core'}.{part}"
        return getattr(import_module(module), name)
