"""A score: a formula over sums of what each item (a line, a window, an instance of a suite) contributes.

Keeping what each item contributes is what makes paired tests and intervals possible (`significance`, `comparison`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from focat.evaluation.significance import (
    Floats,
    Formula,
    Interval,
    accuracy_interval,
    mean_formula,
    percentile_interval,
    resampled,
)
from focat.windows.corpus_windows import Indices

ScoreKind = Literal["accuracy", "mean", "ratio", "corpus"]
"""Share of correct items in per cent; mean of one number per item; sum over sum, as of losses over tokens; or a metric
of a whole corpus, such as BLEU, that says little about one item. The kind decides which test compares two systems."""


@dataclass(frozen=True)
class Score:
    """One score of one system."""

    name: str
    kind: ScoreKind
    statistics: Floats
    """(items, statistics) what each item contributes."""
    formula: Formula = mean_formula
    """From sums of statistics to the score."""
    items: Indices | None = None
    """(items,) ascending indices, where systems may have different items; None: all items of the population."""
    population: str = ""
    """What the items are. Without `items`, only scores of the same population can be compared."""
    signature: str = ""
    """How the score was obtained; only scores with the same signature can be compared."""
    family: str = ""
    """p-values are corrected for multiple comparisons within a family."""
    higher_is_better: bool = True
    digits: int = 2
    """Decimals to print."""

    @property
    def value(self) -> float:
        """The score of all items together."""
        return float(self.formula(self.statistics.sum(0)[None])[0])

    @property
    def item_values(self) -> Floats:
        """(items,) The score of each item alone."""
        return self.formula(self.statistics)

    def interval(self) -> Interval:
        """Return the 95 % interval: Wilson's of an accuracy, else by bootstrap over items."""
        if self.kind == "accuracy":
            low, high = accuracy_interval(int(self.statistics[:, 0].sum()), len(self.statistics))
            return Interval(100 * low, 100 * high)
        return percentile_interval(resampled(self.statistics, self.formula))

    def text(self, value: float, sign: str = "") -> str:
        """Format a value of this score, or a difference of two."""
        return f"{value:{sign}.{self.digits}f}"

    def among(self, items: Indices) -> Score:
        """Return the score of a subset of its items."""
        assert self.items is not None, "only a score that names its items can be restricted"
        return replace(self, items=items, statistics=self.statistics[np.isin(self.items, items)])


@dataclass(frozen=True)
class SystemScores:
    """A system and its scores, by name."""

    name: str
    scores: dict[str, Score]


def accuracy_score(
    name: str,
    correct: NDArray[np.bool_],
    items: Indices | None = None,
    population: str = "",
    signature: str = "",
    family: str = "",
) -> Score:
    """The share of correct items, in per cent."""
    statistics = np.stack([correct, np.ones_like(correct)], axis=1).astype(np.float64)
    return Score(name, "accuracy", statistics, _percent_formula, items, population, signature, family)


def mean_score(name: str, values: Floats, population: str) -> Score:
    """The mean of one number per item."""
    return Score(name, "mean", np.stack([values, np.ones_like(values)], axis=1), population=population, digits=4)


def ratio_score(
    name: str, items: Indices, sums: Floats, counts: Floats, population: str = "", family: str = ""
) -> Score | None:
    """Sums over counts, as of losses over tokens. Items whose count is 0 are left out; None if none remain."""
    order = np.argsort(items)
    order = order[counts[order] > 0]
    if not len(order):
        return None
    statistics = np.stack([sums, counts], axis=1)[order]
    return Score(name, "ratio", statistics, items=items[order], population=population, family=family)


def shared_items(first: Score, second: Score) -> tuple[Score, Score] | None:
    """Restrict two scores to the items that both have; None if they have none in common."""
    if first.items is None or second.items is None or np.array_equal(first.items, second.items):
        return first, second
    both = np.intersect1d(first.items, second.items)
    return (first.among(both), second.among(both)) if len(both) else None


def _percent_formula(sums: Floats) -> Floats:
    return 100 * mean_formula(sums)
