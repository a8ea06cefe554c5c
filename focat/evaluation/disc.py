"""Accuracies with their intervals, and the paper's summaries of them: Disc., Disc_avg and Disc_all-d (appendix B.1).

Disc. is the accuracy over all instances that other sentences decide: the columns weighted by their sizes. Disc_avg is
the plain mean of the columns. Disc_all-d takes in what the sentence itself decides (d = 0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from focat.evaluation.results import AccuracyResult
from focat.evaluation.significance import accuracy_interval

PHENOMENA = ("deixis", "lex_cohesion", "ellipsis_infl", "ellipsis_vp")
"""The columns of Disc. in En→Ru."""
DISTANCES = ("d=1", "d=2", "d=3", "d>3")
"""The columns of Disc. where antecedents have a distance, as in En→De."""
OWN_SENTENCE, UNKNOWN = "d=0", "unknown distance"


class AnnotatedInstance(Protocol):
    """An instance of a suite, or the result on one."""

    @property
    def phenomenon(self) -> str:
        """What it tests."""

    @property
    def distance(self) -> int | None:
        """Sentences between the current one and the one that decides; None if not annotated."""


AnyInstance = TypeVar("AnyInstance", bound=AnnotatedInstance)


def distance_of(instance: AnnotatedInstance) -> str:
    """Return the name of an instance's distance."""
    distance = instance.distance
    return UNKNOWN if distance is None else f"d={distance}" if distance <= 3 else "d>3"


def column_of(instance: AnnotatedInstance) -> str:
    """Return the column of Disc. that an instance counts in, or `d=0` or `unknown distance`, which do not count.

    The four phenomena of En→Ru are decided by other sentences, at whatever distance.
    """
    return instance.phenomenon if instance.phenomenon in PHENOMENA and instance.distance != 0 else distance_of(instance)


def counts(column: str) -> bool:
    """Return whether a column counts in Disc."""
    return column in PHENOMENA or column in DISTANCES


@dataclass(frozen=True)
class Accuracy:
    """Correct instances of how many."""

    right: int
    total: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.right / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share (Wilson, 1927)."""
        return accuracy_interval(self.right, self.total)

    def __add__(self, other: Accuracy) -> Accuracy:
        return Accuracy(self.right + other.right, self.total + other.total)

    def result(self, name: str, columns: Mapping[str, Accuracy] | None = None) -> AccuracyResult:
        """Return the accuracy in per cent under a name, with the columns it was pooled from."""
        given = {"columns": tuple(columns)} if columns else {}
        low, high = self.interval
        return AccuracyResult(
            name=name,
            accuracy=100 * self.share,
            low=100 * low,
            high=100 * high,
            right=self.right,
            total=self.total,
            **given,
        )


def pooled(name: str, columns: Mapping[str, Accuracy]) -> AccuracyResult:
    """Return the accuracy over all instances of the columns: Disc."""
    return sum(columns.values(), Accuracy(0, 0)).result(name, columns)


def averaged(name: str, columns: Mapping[str, Accuracy]) -> AccuracyResult:
    """Return the plain mean of the columns, Disc_avg, with an interval from theirs (Zou and Donner, 2008)."""
    shares = [column.share for column in columns.values()]
    mean = sum(shares) / len(shares)
    below = math.hypot(*(column.share - column.interval[0] for column in columns.values())) / len(shares)
    above = math.hypot(*(column.interval[1] - column.share for column in columns.values())) / len(shares)
    total = sum(column.total for column in columns.values())
    return AccuracyResult(
        name=name,
        accuracy=100 * mean,
        low=100 * (mean - below),
        high=100 * (mean + above),
        total=total,
        columns=tuple(columns),
    )


def weighted_mean(shares: Sequence[float], sizes: Sequence[int]) -> float:
    """Disc. from published columns and the sizes of their samples."""
    return sum(share * size for share, size in zip(shares, sizes, strict=True)) / sum(sizes)


def plain_mean(shares: Sequence[float]) -> float:
    """Disc_avg from published columns."""
    return sum(shares) / len(shares)


def is_misprint(printed: float, computed: float, decimals: int = 2) -> bool:
    """Whether a printed summary cannot come from the printed columns, however they were rounded or cut."""
    return bool(abs(printed - computed) > 1.5 * 10**-decimals)


def count(
    instances: Sequence[AnyInstance], correct: Sequence[bool], group_by: Callable[[AnyInstance], str]
) -> dict[str, Accuracy]:
    """Return the accuracy of each group, in the order in which groups occur."""
    found: dict[str, Accuracy] = {}
    for instance, is_correct in zip(instances, correct, strict=True):
        name = group_by(instance)
        found[name] = found.get(name, Accuracy(0, 0)) + Accuracy(int(is_correct), 1)
    return found


def by_distance(instances: Sequence[AnnotatedInstance], correct: Sequence[bool]) -> dict[str, Accuracy]:
    """Return the accuracy at each distance, nearest first, unknown ones last."""
    found = count(instances, correct, distance_of)
    return {name: found[name] for name in (OWN_SENTENCE, *DISTANCES, UNKNOWN) if name in found}


def disc_of(columns: Mapping[str, Accuracy]) -> tuple[list[AccuracyResult], list[str]]:
    """Return Disc., Disc_avg and Disc_all-d of columns named by `column_of`, and remarks on what is missing."""
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
