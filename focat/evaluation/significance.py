"""Whether two systems differ by more than chance, and by how much: paired tests, and intervals of their difference.

A figure of a corpus (BLEU, a mean) is a function of sums over its items. So a test shuffles or redraws items, adds up
what they contribute, and applies the function: one product of matrices for a thousand trials.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from focat.choices import Correction

Floats = NDArray[np.float64]
Formula = Callable[[Floats], Floats]
"""(samples, statistics) sums over items → (samples,) figures."""


SEED = 12345  # sacrebleu's, so that the same test gives the same p-value
TRIALS = 10_000  # of approximate randomisation, as in the paper
RESAMPLES = 1_000  # of the bootstrap
_CONFIDENCE = 0.95
_Z = statistics.NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
_FEW = 25  # discordant pairs below which McNemar's test is exact
_ROWS = 512  # samples held at a time; a multiple of 32, because numpy draws truth values from 32 bits at a time
_REMEMBERED = 1 << 26  # draws at most, each of a byte or two
_NOISE = 1e-9  # differences below it come from the order of additions


class Interval(NamedTuple):
    """Where a figure lies, with 95 % confidence."""

    low: float
    high: float


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> tuple[float, str]:
    """The p-value of equal accuracy, from answers to the same questions, and the test it comes from.

    χ² with continuity correction if the systems disagree 25 times or more; else exact, from the binomial distribution.
    """
    from scipy import stats  # not at the top: it takes longer to import than all of this room

    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    disagree = only_first + only_second
    if disagree == 0:
        return 1.0, "McNemar, exact"
    if disagree < _FEW:
        return float(stats.binomtest(only_first, disagree).pvalue), "McNemar, exact"
    return float(stats.chi2.sf((abs(only_first - only_second) - 1) ** 2 / disagree, df=1)), "McNemar, χ²"


def accuracy_interval(right: int, asked: int) -> Interval:
    """Wilson's interval of a share of right answers."""
    share, z2 = right / asked, _Z**2
    centre = (right + z2 / 2) / (asked + z2)
    reach = _Z * math.sqrt(share * (1 - share) / asked + z2 / (4 * asked**2)) * asked / (asked + z2)
    return Interval(0.0 if right == 0 else centre - reach, 1.0 if right == asked else centre + reach)


def accuracy_difference_interval(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Interval:
    """Of accuracy of the second minus accuracy of the first, on the same questions.

    Newcombe's (1998) for paired proportions: Wilson's intervals of both, combined by how much the answers go together.
    Unlike the textbook's interval, it holds for small samples and at the edges.
    """
    count = len(first)
    both, neither = int((first & second).sum()), int((~first & ~second).sum())
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    shares = (both + only_first) / count, (both + only_second) / count
    (low1, high1), (low2, high2) = (accuracy_interval(both + only, count) for only in (only_first, only_second))

    margins = (both + only_first) * (only_second + neither) * (both + only_second) * (only_first + neither)
    together = float(both * neither - only_first * only_second)
    if together > 0:
        together = max(together - count / 2, 0.0)  # his correction for continuity, of positive correlation only
    phi = together / math.sqrt(margins) if margins else 0.0

    def reach(away1: float, away2: float) -> float:
        return math.sqrt(max(away1**2 - 2 * phi * away1 * away2 + away2**2, 0.0))

    difference = shares[1] - shares[0]
    return Interval(
        difference - reach(high1 - shares[0], shares[1] - low2), difference + reach(shares[0] - low1, high2 - shares[1])
    )


def accuracy_difference(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> tuple[float, Interval, str]:
    """McNemar's p-value, the interval of second − first in per cent, and the name of the test."""
    p, how = mcnemar(first, second)
    low, high = accuracy_difference_interval(first, second)
    return p, Interval(100 * low, 100 * high), how


def approximate_randomisation(
    first: Floats, second: Floats, formula: Formula, trials: int = TRIALS, seed: int = SEED
) -> float:
    """The p-value of equal figures: how often a random exchange of their items sets two systems as far apart.

    The trials are sacrebleu's. One that reaches the difference exactly counts here and does not there, where two
    systems that differ in a single line would differ significantly; it matters for TER, which counts in whole edits.
    """
    exchanged = first - second  # (items, statistics)
    totals = first.sum(0), second.sum(0)
    observed = abs(float(formula(totals[0][None])[0] - formula(totals[1][None])[0]))
    reached = 0
    for kept in _again(_exchanges, len(first), trials, seed):
        moved = kept.astype(np.float64) @ exchanged  # (rows, statistics)
        reached += int((abs(formula(totals[1] + moved) - formula(totals[0] - moved)) >= observed - _NOISE).sum())
    return (reached + 1) / (trials + 1)


def paired_bootstrap(
    first: Floats, second: Floats, formula: Formula, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float, Interval]:
    """The p-value of equal figures by Koehn's (2004) test, as sacrebleu does it, and the interval of second − first."""
    sums = _sums_of_resamples(np.concatenate((first, second), axis=1), resamples, seed)
    figures1, figures2 = (formula(own) for own in np.split(sums, [first.shape[1]], axis=1))
    observed = abs(float(formula(second.sum(0)[None])[0] - formula(first.sum(0)[None])[0]))
    apart = abs(figures2 - figures1)
    reached = int((apart - apart.mean() >= observed - _NOISE).sum())
    return (reached + 1) / (resamples + 1), percentile_interval(figures2 - figures1)


def resampled(items: Floats, formula: Formula, resamples: int = RESAMPLES, seed: int = SEED) -> Floats:
    """(resamples,) figures of corpora drawn from the items with replacement; the same seed draws the same items."""
    return formula(_sums_of_resamples(items, resamples, seed))


def _sums_of_resamples(items: Floats, resamples: int, seed: int) -> Floats:
    drawn = _again(_redraws, len(items), resamples, seed)
    return np.concatenate([times.astype(np.float64) @ items for times in drawn])  # (resamples, statistics)


def percentile_interval(figures: Floats) -> Interval:
    """The middle 95 % of resampled figures."""
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(figures, [tail, 1 - tail])
    return Interval(float(low), float(high))


def permutation_of_means(first: Floats, second: Floats, trials: int = TRIALS, seed: int = SEED) -> float:
    """The p-value of equal means of paired numbers: how often random signs of their differences give as large a mean.

    All signs are tried if there are fewer than the trials.
    """
    from scipy import stats

    found = stats.permutation_test(
        (second - first,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=trials,
        batch=_ROWS,
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)


def mean_formula(sums: Floats) -> Floats:
    """The mean as a figure of a corpus: an item contributes its number, and one."""
    means: Floats = sums[:, 0] / sums[:, 1]
    return means


def corrected(p_values: Sequence[float], how: Correction) -> list[float]:
    """p-values after correction for asking many questions at once."""
    p = np.asarray(p_values, np.float64)
    if how == "none" or not len(p):
        return list(map(float, p))
    if how == "benjamini-hochberg":
        from scipy import stats

        return list(map(float, stats.false_discovery_control(p)))
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    result = np.empty_like(p)
    result[order] = np.minimum(stepped, 1)
    return list(map(float, result))


def p_text(p: float) -> str:
    """A p-value as tables have it."""
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def stars(p: float) -> str:
    """** for p < 0.01, * for p < 0.05."""
    return "**" if p < 0.01 else "*" if p < 0.05 else ""


# ------------------------------------------------------------------------------------------------ draws

Draws = Callable[[int, int, int], Iterator[NDArray[Any]]]
"""(items, samples, seed) → (some samples, items), until there are as many samples as asked for."""


def _exchanges(items: int, samples: int, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Whether each item stays with its system."""
    generator = np.random.default_rng(seed)
    for rows in _chunks(samples):
        yield generator.integers(2, size=(rows, items), dtype=bool)


def _redraws(items: int, samples: int, seed: int) -> Iterator[NDArray[np.uint16]]:
    """How often each item is drawn, with replacement."""
    generator = np.random.default_rng(seed)
    for rows in _chunks(samples):
        drawn = generator.choice(items, size=(rows, items), replace=True) + items * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * items).reshape(rows, items).astype(np.uint16)


def _again(draws: Draws, items: int, samples: int, seed: int) -> Iterable[NDArray[Any]]:
    """The same seed draws the same: for the next column of the same test set, it need not be done again."""
    few = items * samples <= _REMEMBERED
    return _remembered(draws, items, samples, seed) if few else draws(items, samples, seed)


@lru_cache(maxsize=2)
def _remembered(draws: Draws, items: int, samples: int, seed: int) -> Sequence[NDArray[Any]]:
    return tuple(draws(items, samples, seed))


def _chunks(samples: int) -> Iterator[int]:
    for start in range(0, samples, _ROWS):
        yield min(_ROWS, samples - start)
