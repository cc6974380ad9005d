"""Domains: sets of inputs, with or without labels, made of your own data or opened by name."""

from __future__ import annotations

from revgrad.domains.arrays import from_arrays
from revgrad.domains.colours import Colours
from revgrad.domains.common_shape import match_colours, resized, with_classes
from revgrad.domains.domain import Domain
from revgrad.domains.folder import from_folder
from revgrad.domains.npz import from_npz
from revgrad.domains.registry import DOMAINS, as_domain, open_domain
from revgrad.domains.torch_dataset import from_dataset

__all__ = [
    "DOMAINS",
    "Colours",
    "Domain",
    "as_domain",
    "from_arrays",
    "from_dataset",
    "from_folder",
    "from_npz",
    "match_colours",
    "open_domain",
    "resized",
    "with_classes",
]
