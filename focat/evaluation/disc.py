"""Accuracies with their intervals, and the paper's summaries of them: Disc., Disc_avg and Disc_all-d (appendix B.1).

Disc. is the accuracy over all instances that other sentences decide: the columns weighted by their sizes. Disc_avg is
the plain mean of the columns. Disc_all-d takes in what the sentence itself decides (d = 0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from focat.evaluation.significance import accuracy_interval

PHENOMENA = ("deixis", "lex_cohesion", "ellipsis_infl", "ellipsis_vp")
"""The columns of Disc. in En→Ru."""
DISTANCES = ("d=1", "d=2", "d=3", "d>3")
"""The columns of Disc. where antecedents have a distance, as in En→De."""
OWN_SENTENCE, UNKNOWN = "d=0", "unknown distance"


class Question(Protocol):
    """What is known of an instance, by whatever name it goes."""

    @property
    def phenomenon(self) -> str:
        """What it is about."""

    @property
    def distance(self) -> int | None:
        """Sentences between the current one and what decides; None if nobody knows."""


Asked = TypeVar("Asked", bound=Question)


def distance_of(question: Question) -> str:
    """The name of its distance."""
    distance = question.distance
    return UNKNOWN if distance is None else f"d={distance}" if distance <= 3 else "d>3"


def column_of(question: Question) -> str:
    """The column of Disc. that a question counts in; or `d=0` or `unknown distance`, which do not count.

    The four phenomena of En→Ru are decided by other sentences, at whatever distance.
    """
    return question.phenomenon if question.phenomenon in PHENOMENA and question.distance != 0 else distance_of(question)


def counts(column: str) -> bool:
    """Whether a column is one of Disc."""
    return column in PHENOMENA or column in DISTANCES


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
        return accuracy_interval(self.right, self.total)

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


def count(questions: Sequence[Asked], right: Sequence[bool], by: Callable[[Asked], str]) -> dict[str, Accuracy]:
    """The accuracy of each kind of question, in the order in which kinds turn up."""
    found: dict[str, Accuracy] = {}
    for question, answer in zip(questions, right, strict=True):
        name = by(question)
        found[name] = found.get(name, Accuracy(0, 0)) + Accuracy(int(answer), 1)
    return found


def by_distance(questions: Sequence[Question], right: Sequence[bool]) -> dict[str, Accuracy]:
    """The accuracy of each distance, nearest first, those that nobody knows last."""
    found = count(questions, right, distance_of)
    return {name: found[name] for name in (OWN_SENTENCE, *DISTANCES, UNKNOWN) if name in found}


def disc_of(columns: Mapping[str, Accuracy]) -> tuple[list[Figure], list[str]]:
    """Disc., Disc_avg and Disc_all-d of columns as `column_of` names them, and what is to be said about it."""
    inside = {name: columns[name] for name in (*PHENOMENA, *DISTANCES) if name in columns}
    figures, remarks = [], []
    if inside:
        figures = [pooled("Disc.", inside), averaged("Disc_avg", inside)]
        if OWN_SENTENCE in columns:
            figures.append(pooled("Disc_all-d", {OWN_SENTENCE: columns[OWN_SENTENCE], **inside}))
    for family, verb in ((PHENOMENA, "is about"), (DISTANCES, "has")):
        missing = [name for name in family if name not in columns]
        if 0 < len(missing) < len(family):
            over = _listed(list(inside), "and")
            remarks.append(f"no instance {verb} {_listed(missing, 'or')}: Disc. is over {over} alone")
    if UNKNOWN in columns:
        total = sum(column.total for column in columns.values())
        remarks.append(
            f"{columns[UNKNOWN].total:,} of {total:,} instances have no distance: they count in the overall figure, "
            "and not in Disc."
        )
    return figures, remarks


def _listed(names: Sequence[str], conjunction: str) -> str:
    return f" {conjunction} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
