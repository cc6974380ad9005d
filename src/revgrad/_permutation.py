"""A permutation of [0, n) that is computed, not stored: for domains too large for an index.

The places are put through a Feistel network over the next power of two; what falls outside [0, n)
is put through it again until it falls inside ("cycle walking", Black & Rogaway 2002). So each
number comes exactly once, any of them is found without the others, and memory does not grow with n.
"""

from __future__ import annotations

import numpy as np

#: Up to this many samples an order is an array, drawn by NumPy's own generator: faster, and 8 MB.
MOST_INDEXED = 1 << 20
#: Rounds of the Feistel network; four of ideal ones suffice (Luby & Rackoff 1988).
_ROUNDS = 6
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of splitmix64


class Permutation:
    """The permutation of [0, n) that belongs to `key`; `[places]` are its numbers there.

    Examples
    --------
    >>> order = Permutation(10**12, key=1)
    >>> bool((order[0:5] == order[np.arange(5)]).all())
    True
    """

    def __init__(self, n: int, key: int) -> None:
        if not 1 <= n <= 1 << 62:
            raise ValueError(f"a permutation of 1 … 2^62 numbers, not of {n}")
        self.n, self.key = n, key
        bits = max((n - 1).bit_length(), 2)
        self._low = np.uint64(bits // 2)
        self._low_mask = np.uint64((1 << (bits // 2)) - 1)
        self._high_mask = np.uint64((1 << (bits - bits // 2)) - 1)
        start = np.array([key & ((1 << 64) - 1)], dtype=np.uint64)
        steps = np.arange(1, _ROUNDS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self._keys = _mixed(_mixed(start) + steps)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"Permutation({self.n}, key={self.key})"

    def __getitem__(self, places: np.ndarray | slice) -> np.ndarray:
        """(m,) int64: the numbers at `places`, each in [0, n)."""
        if isinstance(places, slice):
            places = np.arange(*places.indices(self.n))
        values = self._once(places.astype(np.uint64))
        outside = np.flatnonzero(values >= self.n)
        while outside.size:
            values[outside] = again = self._once(values[outside])
            outside = outside[again >= self.n]
        return values.view(np.int64)

    def _once(self, values: np.ndarray) -> np.ndarray:
        high, low = values >> self._low, values & self._low_mask
        for number in range(0, _ROUNDS, 2):
            high ^= _mixed(low ^ self._keys[number]) & self._high_mask
            low ^= _mixed(high ^ self._keys[number + 1]) & self._low_mask
        joined: np.ndarray = (high << self._low) | low
        return joined


class BlockShuffle:
    """An order of [0, n) for samples that lie in shards, permuted and shuffled window by window.

    Neighbours in the order lie in few shards, so that these are read one after the other; any part
    is found without the others.

    Parameters
    ----------
    starts
        (shards,) rising from 0: the first number of each shard
    window
        numbers that are shuffled with one another: this many samples' shards are open at a time
    """

    WINDOW = 4096

    def __init__(self, starts: np.ndarray, n: int, key: int, window: int = WINDOW) -> None:
        self.n, self.key, self.window = n, key, window
        order = np.random.default_rng(key).permutation(len(starts))
        lengths = np.diff(np.append(starts, n))[order]
        self._starts, self._ends = starts[order], np.cumsum(lengths)
        self._shift = self._starts - (self._ends - lengths)  # from a place to the number there
        self._kept = -1, np.arange(0)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, places: slice) -> np.ndarray:
        start, stop, _ = places.indices(self.n)
        if stop <= start:
            return np.arange(0)
        windows = range(start // self.window, (stop - 1) // self.window + 1)
        return np.concatenate(
            [
                self._window(w)[max(start - w * self.window, 0) : stop - w * self.window]
                for w in windows
            ]
        )

    def _window(self, number: int) -> np.ndarray:
        kept, numbers = self._kept
        if kept != number:
            first = number * self.window
            places = np.arange(first, min(first + self.window, self.n))
            shards = np.searchsorted(self._ends, places, side="right")
            random = np.random.default_rng([self.key, number])
            numbers = random.permutation(places + self._shift[shards])
            self._kept = number, numbers
        return numbers


def _mixed(values: np.ndarray) -> np.ndarray:
    """Splitmix64's finaliser: every bit in changes every bit out with probability one half."""
    values = (values ^ (values >> np.uint64(30))) * _MIX_1
    values = (values ^ (values >> np.uint64(27))) * _MIX_2
    mixed: np.ndarray = values ^ (values >> np.uint64(31))
    return mixed
