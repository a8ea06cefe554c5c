"""Pseudo-random numbers that are the same on every machine and in every version of every library."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_GOLDEN, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def splitmix64(count: int, *keys: int) -> NDArray[np.uint64]:
    """`count` uniform 64-bit numbers, a pure function of the keys (SplitMix64; Steele, Lea and Flood, 2014).

    No two of them are equal.
    """
    return splitmix64_at(np.arange(count), *keys)


def splitmix64_at(index: NDArray[np.integer[Any]], *keys: int) -> NDArray[np.uint64]:
    """Those of the numbers of `splitmix64` that stand at `index`."""
    state = np.zeros(1, np.uint64)
    for key in keys:
        state = _mix(state + np.uint64(key % (1 << 64)) + _GOLDEN)
    return _mix(state + (index.astype(np.uint64) + np.uint64(1)) * _GOLDEN)


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST  # arrays wrap around silently, as they must here
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    mixed: NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return mixed
