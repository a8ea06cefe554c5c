"""Accuracies with their intervals, and the paper's summaries of them: Disc., Disc_avg and Disc_all-d (appendix B.1).

Disc. is the accuracy over all instances that other sentences decide: the columns weighted by their sizes. Disc_avg is
the plain mean of the columns. Disc_all-d takes in what the sentence itself decides (d = 0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from focat.evaluation.suites.instance import Instance

PHENOMENA = ("deixis", "lex_cohesion", "ellipsis_infl", "ellipsis_vp")
"""The columns of Disc. in En→Ru."""
DISTANCES = ("d=1", "d=2", "d=3", "d>3")
"""The columns of Disc. where antecedents have a distance, as in En→De."""
OWN_SENTENCE, UNKNOWN = "d=0", "unknown distance"
_Z = 1.959963984540054  # 95 % of a normal distribution are within so many deviations


@dataclass(frozen=True)
class Accuracy:
    """Right answers of how many."""

    right: int
    total: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.right / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """Where the share is with 95 % confidence (Wilson, 1927)."""
        n, p, square = self.total, self.share, _Z * _Z
        middle = (p + square / (2 * n)) / (1 + square / n)
        reach = _Z * math.sqrt(p * (1 - p) / n + square / (4 * n * n)) / (1 + square / n)
        low = 0.0 if self.right == 0 else middle - reach
        return low, 1.0 if self.right == self.total else middle + reach

    def __add__(self, other: Accuracy) -> Accuracy:
        return Accuracy(self.right + other.right, self.total + other.total)


@dataclass(frozen=True)
class Figure:
    """A share with its interval, and what it is made of."""

    name: str
    share: float
    interval: tuple[float, float]
    total: int
    right: int | None = None  # a mean of shares has none
    columns: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """For a JSON file; shares in per cent."""
        low, high = self.interval
        counts = {} if self.right is None else {"right": self.right}
        columns = {"columns": list(self.columns)} if self.columns else {}
        share = {"accuracy": 100 * self.share, "low": 100 * low, "high": 100 * high}
        return {"name": self.name, **share, **counts, "total": self.total, **columns}


def pooled(name: str, columns: Mapping[str, Accuracy]) -> Figure:
    """The accuracy over all instances of the columns: Disc."""
    whole = sum(columns.values(), Accuracy(0, 0))
    return Figure(name, whole.share, whole.interval, whole.total, whole.right, tuple(columns))


def averaged(name: str, columns: Mapping[str, Accuracy]) -> Figure:
    """The plain mean of the columns: Disc_avg. Its interval is put together from theirs (Zou and Donner, 2008)."""
    shares = [column.share for column in columns.values()]
    mean = sum(shares) / len(shares)
    below = math.hypot(*(column.share - column.interval[0] for column in columns.values())) / len(shares)
    above = math.hypot(*(column.interval[1] - column.share for column in columns.values())) / len(shares)
    total = sum(column.total for column in columns.values())
    return Figure(name, mean, (mean - below, mean + above), total, columns=tuple(columns))


def weighted_mean(shares: Sequence[float], sizes: Sequence[int]) -> float:
    """Disc. from published columns and the sizes of their samples."""
    return sum(share * size for share, size in zip(shares, sizes, strict=True)) / sum(sizes)


def plain_mean(shares: Sequence[float]) -> float:
    """Disc_avg from published columns."""
    return sum(shares) / len(shares)


def is_misprint(printed: float, computed: float, decimals: int = 2) -> bool:
    """Whether a printed summary cannot come from the printed columns, however they were rounded or cut."""
    return bool(abs(printed - computed) > 1.5 * 10**-decimals)


def column_of(instance: Instance) -> str:
    """The column of its distance."""
    distance = instance.distance
    return UNKNOWN if distance is None else f"d={distance}" if distance <= 3 else "d>3"


def count(instances: Sequence[Instance], right: Sequence[bool], by: Callable[[Instance], str]) -> dict[str, Accuracy]:
    """The accuracy of each kind of instance, in the order in which kinds turn up."""
    found: dict[str, Accuracy] = {}
    for instance, answer in zip(instances, right, strict=True):
        name = by(instance)
        found[name] = found.get(name, Accuracy(0, 0)) + Accuracy(int(answer), 1)
    return found


def by_distance(instances: Sequence[Instance], right: Sequence[bool]) -> dict[str, Accuracy]:
    """The accuracy of each distance, nearest first, those that nobody knows last."""
    found = count(instances, right, column_of)
    return {name: found[name] for name in (OWN_SENTENCE, *DISTANCES, UNKNOWN) if name in found}


def disc_of_distances(columns: Mapping[str, Accuracy]) -> tuple[list[Figure], list[str]]:
    """Disc., Disc_avg and Disc_all-d of what has a distance, and what is to be said about it."""
    beyond = {name: columns[name] for name in DISTANCES if name in columns}
    figures, remarks = [], []
    if beyond:
        figures = [pooled("Disc.", beyond), averaged("Disc_avg", beyond)]
        if OWN_SENTENCE in columns:
            figures.append(pooled("Disc_all-d", {OWN_SENTENCE: columns[OWN_SENTENCE], **beyond}))
    missing = [name for name in DISTANCES if name not in columns]
    if beyond and missing:
        remarks.append(f"no instance has {_listed(missing, 'or')}: Disc. is over {_listed(list(beyond), 'and')} alone")
    if UNKNOWN in columns:
        total = sum(column.total for column in columns.values())
        remarks.append(
            f"{columns[UNKNOWN].total:,} of {total:,} instances have no distance: they count in the overall figure, "
            "and not in Disc."
        )
    return figures, remarks


def disc_of_phenomena(columns: Mapping[str, Accuracy]) -> list[Figure]:
    """Disc. and Disc_avg of the four phenomena of En→Ru, if all are there."""
    if not all(name in columns for name in PHENOMENA):
        return []
    four = {name: columns[name] for name in PHENOMENA}
    return [pooled("Disc.", four), averaged("Disc_avg", four)]


def _listed(names: Sequence[str], conjunction: str) -> str:
    return f" {conjunction} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
