"""Random numbers: seeds that are derived from numbers, and the generators that are seeded."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive(*numbers: int) -> int:
    """A 63-bit seed that depends on every number and their order."""
    data = struct.pack(f"<{len(numbers)}q", *numbers)
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") >> 1


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed the generators that dropout and friends draw from on `device`."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


def seed_python(seed: int) -> None:
    """Seed `random` and numpy's global generator too, for the user's code that draws from them."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)


@contextmanager
def preserved_rng(device: torch.device) -> Iterator[None]:
    """Global generators are afterwards where they were before."""
    python, numpy_state = random.getstate(), np.random.get_state()
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy_state)


@contextmanager
def repeatable_draws(seed: int) -> Iterator[None]:
    """Code inside draws the same numbers each time; global generators are left as they were."""
    with preserved_rng(torch.device("cpu")):
        torch.default_generator.manual_seed(seed)
        seed_python(seed)
        yield
