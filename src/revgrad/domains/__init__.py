"""Sets of inputs, with or without labels: the user's own, and named ones.

A new data set is a function of a split that returns a `Domain`, and one line in `DOMAINS`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from revgrad.domains.arrays import from_arrays
from revgrad.domains.dataset import from_dataset
from revgrad.domains.digits import digits, digits_m
from revgrad.domains.domain import Domain
from revgrad.domains.folder import from_folder
from revgrad.domains.gtsrb import gtsrb
from revgrad.domains.matching import match_colours, resized
from revgrad.domains.mnist import mnist
from revgrad.domains.mnist_m import mnist_m
from revgrad.domains.npz import from_npz
from revgrad.domains.office import office31, office_caltech10
from revgrad.domains.places import cache_folder, data_folder
from revgrad.domains.svhn import svhn
from revgrad.domains.syn_numbers import syn_numbers
from revgrad.domains.syn_signs import syn_signs
from revgrad.domains.usps import usps
from revgrad.errors import InputError, UnknownNameError, unknown

__all__ = [
    "DOMAINS",
    "Domain",
    "cache_folder",
    "data_folder",
    "digits",
    "digits_m",
    "from_arrays",
    "from_dataset",
    "from_folder",
    "from_npz",
    "gtsrb",
    "match_colours",
    "mnist",
    "mnist_m",
    "office31",
    "office_caltech10",
    "open_domain",
    "resized",
    "svhn",
    "syn_numbers",
    "syn_signs",
    "usps",
]

#: The named domains: what `name` or `name:split` on the command line opens.
DOMAINS: dict[str, Callable[[str], Domain]] = {
    "mnist": mnist,
    "mnist-m": mnist_m,
    "svhn": svhn,
    "syn-numbers": syn_numbers,
    "gtsrb": gtsrb,
    "syn-signs": syn_signs,
    "usps": usps,
    "office31": office31,
    "office-caltech10": office_caltech10,
    "digits": digits,
    "digits-m": digits_m,
}


def open_domain(text: str, **folder_options: Any) -> Domain:
    """The domain a user means by `text`.

    "name" or "name:split" of `DOMAINS` (the split is "train" unless said), the path of an `.npz`
    file, or the path of an image folder, which `folder_options` go to (see `from_folder`). Of
    these, `size` and `fit` also bring images of named domains and `.npz` files to one size. A name
    comes before a folder of that name: `./mnist` means the folder.
    """
    name, _, split = text.partition(":")
    if name in DOMAINS:
        return _sized(DOMAINS[name](split or "train"), folder_options)
    path = Path(text).expanduser()
    if path.is_dir():
        return from_folder(path, **folder_options)
    if path.suffix.lower() == ".npz":
        return _sized(from_npz(path), folder_options)
    if path.exists():
        raise InputError(f"{text} is a file, but neither a folder of images nor an .npz file")
    if "/" in text or "\\" in text or text.startswith((".", "~")):
        raise InputError(f"no file or folder {text}")
    error = unknown("domain", name, DOMAINS)
    raise UnknownNameError(f"{error}; the path of an image folder or an .npz file would do too")


def _sized(domain: Domain, options: dict[str, Any]) -> Domain:
    size = options.get("size")
    return domain if size is None else resized(domain, size, options.get("fit", "crop"))
