"""Figures that can be tested: what each window or instance contributes, and the formula from their sums to the figure.

Then any two systems are compared by exchanging their items at random (approximate randomisation, as in the paper).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from focat.evaluation.comparison import Finding
from focat.evaluation.significance import (
    RESAMPLES,
    SEED,
    TRIALS,
    Floats,
    Formula,
    Interval,
    accuracy_difference,
    approximate_randomisation,
    corrected,
    mean_formula,
    paired_bootstrap,
)
from focat.progress import Progress

Indices = NDArray[np.int64]
Kind = Literal["mean", "accuracy", "corpus"]
"""A mean of items, a share of right answers, or a figure of a whole corpus that says little about one item (BLEU)."""


@dataclass(frozen=True)
class Measure:
    """A figure, and what it is made of."""

    items: Indices  # (items,) which windows or instances, ascending
    statistics: Floats  # (items, sums)
    formula: Formula = mean_formula
    kind: Kind = "mean"

    @property
    def value(self) -> float:
        """Of all items together."""
        return float(self.formula(self.statistics.sum(0)[None])[0])

    @property
    def of_items(self) -> Floats:
        """(items,) of each item alone."""
        return self.formula(self.statistics)

    def among(self, items: Indices) -> Measure:
        """Of these items alone."""
        return Measure(items, self.statistics[np.isin(self.items, items)], self.formula, self.kind)


Measures = dict[str, Measure]
"""By name: its path in the JSON record, as in attention.share.encoder."""


def mean(items: Indices, sums: Floats, counts: Floats) -> Measure | None:
    """Sums over counts, as of losses over tokens. Items that count nothing do not take part; None if none do."""
    order = np.argsort(items)
    order = order[counts[order] > 0]
    if not len(order):
        return None
    return Measure(items[order], np.stack([sums, counts], axis=1)[order])


def accuracy(items: Indices, right: NDArray[np.bool_]) -> Measure:
    """The share of right answers, in per cent."""
    statistics = np.stack([right, np.ones_like(right)], axis=1).astype(np.float64)
    return Measure(items, statistics, _percent, "accuracy")


def ratio_formula(sums: Floats) -> Floats:
    """A mean over another: two sums with their counts."""
    ratios: Floats = (sums[:, 0] / sums[:, 1]) / (sums[:, 2] / sums[:, 3])
    return ratios


def _percent(sums: Floats) -> Floats:
    return 100 * mean_formula(sums)


def compare(
    systems: Mapping[str, Measures], progress: Progress, trials: int = TRIALS, seed: int = SEED
) -> list[Finding]:
    """Every system against the first, in all that both were measured by, on the items they share.

    p-values are corrected by Holm's procedure within each part of the analysis (attention, losses, …).
    """
    baseline, *others = systems
    asked = [
        (system, name)
        for system in others
        for name in systems[baseline]
        if name in systems[system] and np.isin(systems[baseline][name].items, systems[system][name].items).any()
    ]
    found = []
    with progress.bar("significance", "tests", len(asked)) as bar:
        for system, name in asked:
            first, second = shared(systems[baseline][name], systems[system][name])
            p, interval, how = _test(first, second, trials, seed)
            found.append((baseline, system, name, second.value - first.value, interval, p, how))
            bar.advance()
    parts = [name.split(".")[0] for _, name in asked]
    after = np.ones(len(found))
    for part in set(parts):
        chosen = [i for i, other in enumerate(parts) if other == part]
        after[chosen] = corrected([found[i][5] for i in chosen], "holm")
    return [Finding(*row[:6], float(fixed), row[6]) for row, fixed in zip(found, after, strict=True)]


def shared(first: Measure, second: Measure) -> tuple[Measure, Measure]:
    """Both, of the items that both have."""
    both = np.intersect1d(first.items, second.items)
    return first.among(both), second.among(both)


def _test(first: Measure, second: Measure, trials: int, seed: int) -> tuple[float, Interval, str]:
    """p-value, interval of second − first, and the name of the test."""
    if first.kind == "accuracy":
        return accuracy_difference(first.statistics[:, 0] > 0, second.statistics[:, 0] > 0)
    pair = first.statistics, second.statistics, first.formula
    p = approximate_randomisation(*pair, trials, seed)
    return p, paired_bootstrap(*pair, RESAMPLES, seed)[1], "approximate randomisation"
