"""Domains: sets of inputs, with or without labels, made of your own data or opened by name."""

from __future__ import annotations

from revgrad.domains.arrays import from_arrays
from revgrad.domains.colours import Colours
from revgrad.domains.common_shape import match_colours, resized, with_classes
from revgrad.domains.domain import Domain
from revgrad.domains.encoded import encode, encoder_of, fit_encoder
from revgrad.domains.folder import from_folder
from revgrad.domains.frame import from_frame
from revgrad.domains.frame_encoder import FrameEncoder
from revgrad.domains.joined import joined
from revgrad.domains.npz import from_npz
from revgrad.domains.registry import DOMAINS, as_domain, open_domain
from revgrad.domains.series import from_series, pad_series
from revgrad.domains.shards import from_shards
from revgrad.domains.text import from_texts
from revgrad.domains.torch_dataset import from_dataset

__all__ = [
    "DOMAINS",
    "Colours",
    "Domain",
    "FrameEncoder",
    "as_domain",
    "encode",
    "encoder_of",
    "fit_encoder",
    "from_arrays",
    "from_dataset",
    "from_folder",
    "from_frame",
    "from_npz",
    "from_series",
    "from_shards",
    "from_texts",
    "joined",
    "match_colours",
    "open_domain",
    "pad_series",
    "resized",
    "with_classes",
]
