"""Seeded random choices that are the same on every machine and under every version of Python.

Everything rests on `random.Random(key).random()`, the one sequence whose stability Python promises.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class SeededRandom:
    """A sequence of random choices that depends on nothing but its key."""

    def __init__(self, *key: int | str) -> None:
        self._random = random.Random("/".join(map(str, key)))

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def one_of(self, items: Sequence[Item]) -> Item:
        """One of the items, all equally likely."""
        return items[int(self._random.random() * len(items))]

    def some_of(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different items, in random order."""
        rest = list(items)
        return [rest.pop(int(self._random.random() * len(rest))) for _ in range(count)]
