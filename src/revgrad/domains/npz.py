"""Domains from `.npz` files."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from revgrad.domains.arrays import from_arrays, likely_layout
from revgrad.domains.domain import Domain
from revgrad.errors import DataError, InputError, RevgradError, some

INPUT_KEYS = ("images", "inputs", "x", "data")
LABEL_KEYS = ("labels", "y")
CLASS_KEYS = ("classes",)
#: What the names of arrays begin with that are parts of the inputs.
PART = "inputs."


def from_npz(
    path: str | Path,
    *,
    layout: str = "auto",
    channels: int | None = None,
    name: str | None = None,
    labels: bool = True,
    groups: str | None = None,
    weights: str | None = None,
    attributes: Sequence[str] = (),
) -> Domain:
    """A domain from the arrays of a `.npz` file, read into memory; other keys are ignored.

    Inputs are under `images`, `inputs`, `x` or `data` (the first there is), as `from_arrays` takes
    them; labels under `labels` or `y`, optional; class names under `classes`, optional. Arrays
    called `inputs.NAME` are inputs of several parts, a dict by those names.

    Parameters
    ----------
    path
        the file
    layout
        of 4-dimensional uint8 images, as in `from_arrays`
    channels
        that images have, where `layout` is "auto" and they are neither grey nor colour
    name
        what it is called in messages, reports and the run's records; by default the file's
    labels
        False: labels that the file may have are not read
    groups, weights
        arrays of the file that are groups and weights of the samples (see `from_arrays`)
    attributes
        arrays of the file that are attributes of the samples (`Domain.with_attributes`)

    Examples
    --------
    >>> np.savez("data.npz", images=np.zeros((4, 8, 8), dtype=np.uint8), labels=[0, 1, 0, 1])
    >>> revgrad.from_npz("data.npz").shape
    (1, 8, 8)
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise InputError(f"{path} is a folder, not an .npz file")
    if not path.exists():
        raise InputError(f"no file {path}")
    if not path.is_file():  # a pipe would make its reader wait for ever
        raise InputError(f"{path} is no regular file")
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise DataError(f"{path} is not an .npz file, or was cut short")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                keys = [
                    next((key for key in wanted if key in archive.files), None)
                    for wanted in (INPUT_KEYS, LABEL_KEYS, CLASS_KEYS)
                ]
                parts = [one for one in archive.files if one.startswith(PART)]
                if keys[0] is None and not parts:
                    raise InputError(
                        f"{path} has no array called {' or '.join(INPUT_KEYS)}, nor any called "
                        f"{PART}NAME (there are: {some(archive.files) or 'none'})"
                    )
                if not labels:
                    keys[1] = None
                beside = [one for one in (groups, weights) if one is not None]
                gone = [one for one in (*attributes, *beside) if one not in archive.files]
                if gone:
                    role = "as an attribute" if gone[0] in attributes else "for groups or weights"
                    raise InputError(
                        f"{path} has no array '{gone[0]}' to take {role} "
                        f"(there are: {some(archive.files)})"
                    )
                inputs, values, classes = (None if key is None else archive[key] for key in keys)
                if inputs is None:
                    inputs = {one.removeprefix(PART): archive[one] for one in parts}
                elif layout == "auto":
                    layout = likely_layout(inputs.shape, channels)
                found = {one: archive[one] for one in (*attributes, *beside)}
    except RevgradError:
        raise
    except Exception as error:  # of zip, zlib, numpy and its tokenizer: damage has many names
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path} holds an array of Python objects, which is never loaded "
                "(loading it could run code): save it as numbers"
            ) from None
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no data"
        raise DataError(f"{path} can't be read: {reason}") from None
    return from_arrays(
        inputs,
        values,
        layout=layout,
        classes=None if classes is None else _names(classes, path),
        groups=None if groups is None else found[groups],
        weights=None if weights is None else found[weights],
        attributes={one: found[one] for one in attributes},
        name=name or path.stem,
    )


def labelled_npz(
    path: Path, shape: tuple[int, int, int], classes: Sequence[str], name: str
) -> Domain:
    """A named set kept as `.npz`: uint8 images of `shape` (C, H, W), each with a class number."""
    domain = from_npz(path, name=name)
    if not len(domain) or not domain.is_images or domain.shape != shape:
        came = "none" if not len(domain) else f"inputs of shape {domain.shape}"
        raise DataError(f"{path} should hold uint8 images of shape {shape}: {came}")
    if domain.labels is None or not domain.is_classification:
        raise DataError(f"{path} should hold labels, one class number an image")
    if domain.labels.max() >= len(classes):
        raise DataError(
            f"{path} holds the label {domain.labels.max()}: labels are 0 to {len(classes) - 1}"
        )
    return Domain(domain.store, domain.labels, classes=classes, name=name)


def _names(classes: np.ndarray, path: Path) -> Sequence[str]:
    if classes.ndim != 1:
        raise InputError(f"{path}: classes must be a list of names, not of shape {classes.shape}")
    return [item.decode() if isinstance(item, bytes) else str(item) for item in classes.tolist()]
