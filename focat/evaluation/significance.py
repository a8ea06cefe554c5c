"""Whether two systems differ by more than chance, and by how much: paired tests, and intervals of their difference.

A score of a corpus (BLEU, a mean) is a function of sums over its items. So a test shuffles or redraws items, adds up
what they contribute, and applies the function: one product of matrices for a thousand trials.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from focat.choices import Correction

Floats = NDArray[np.float64]
Formula = Callable[[Floats], Floats]
"""(samples, statistics) sums over items → (samples,) scores."""


SEED = 12345  # sacrebleu's, so that the same test gives the same p-value
TRIALS = 10_000  # of approximate randomisation, as in the paper
RESAMPLES = 1_000  # of the bootstrap
_CONFIDENCE = 0.95
_Z = statistics.NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
_FEW = 25  # discordant pairs below which McNemar's test is exact
_ROWS = 512  # samples held at a time; a multiple of 32, because numpy draws truth values from 32 bits at a time
_CACHED_DRAWS = 1 << 26  # draws at most, each of a byte or two
_NOISE = 1e-9  # differences below it come from the order of additions


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> tuple[float, str]:
    """Return the p-value of equal accuracy on the same instances, and the name of the test.

    χ² with continuity correction if the systems disagree 25 times or more; else exact, from the binomial distribution.
    """
    from scipy import stats  # not at the top: importing it takes longer than this package

    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    disagree = only_first + only_second
    if disagree == 0:
        return 1.0, "McNemar, exact"
    if disagree < _FEW:
        return float(stats.binomtest(only_first, disagree).pvalue), "McNemar, exact"
    return float(stats.chi2.sf((abs(only_first - only_second) - 1) ** 2 / disagree, df=1)), "McNemar, χ²"


def accuracy_interval(right: int, total: int) -> Interval:
    """Return Wilson's interval of a share."""
    share, z2 = right / total, _Z**2
    centre = (right + z2 / 2) / (total + z2)
    margin = _Z * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2)) * total / (total + z2)
    return Interval(0.0 if right == 0 else centre - margin, 1.0 if right == total else centre + margin)


def accuracy_difference_interval(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Interval:
    """Return the interval of the second accuracy minus the first, on the same instances.

    Newcombe's (1998) for paired proportions: Wilson's intervals of both, combined by their correlation phi. Unlike the
    textbook's interval, it holds for small samples and at the edges.
    """
    count = len(first)
    both, neither = int((first & second).sum()), int((~first & ~second).sum())
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    shares = (both + only_first) / count, (both + only_second) / count
    (low1, high1), (low2, high2) = (accuracy_interval(both + only, count) for only in (only_first, only_second))

    margins = (both + only_first) * (only_second + neither) * (both + only_second) * (only_first + neither)
    covariance = float(both * neither - only_first * only_second)
    if covariance > 0:
        covariance = max(covariance - count / 2, 0.0)  # his correction for continuity, of positive correlation only
    phi = covariance / math.sqrt(margins) if margins else 0.0

    def margin(margin1: float, margin2: float) -> float:
        return math.sqrt(max(margin1**2 - 2 * phi * margin1 * margin2 + margin2**2, 0.0))

    difference = shares[1] - shares[0]
    return Interval(
        difference - margin(high1 - shares[0], shares[1] - low2),
        difference + margin(shares[0] - low1, high2 - shares[1]),
    )


def accuracy_difference(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> tuple[float, Interval, str]:
    """Return McNemar's p-value, the interval of second − first in per cent, and the name of the test."""
    p, test = mcnemar(first, second)
    low, high = accuracy_difference_interval(first, second)
    return p, Interval(100 * low, 100 * high), test


def approximate_randomisation(
    first: Floats, second: Floats, formula: Formula, trials: int = TRIALS, seed: int = SEED
) -> float:
    """Return the p-value of equal scores: how often a random exchange of items sets two systems as far apart.

    The trials are sacrebleu's. One that reaches the difference exactly counts here and does not there, where two
    systems that differ in a single line would differ significantly; it matters for TER, which counts in whole edits.
    """
    difference = first - second  # (items, statistics)
    totals = first.sum(0), second.sum(0)
    observed = abs(float(formula(totals[0][None])[0] - formula(totals[1][None])[0]))
    extreme = 0
    for kept in _draws(_random_exchanges, len(first), trials, seed):
        moved = kept.astype(np.float64) @ difference  # (rows, statistics)
        extreme += int((abs(formula(totals[1] + moved) - formula(totals[0] - moved)) >= observed - _NOISE).sum())
    return (extreme + 1) / (trials + 1)


def paired_bootstrap(
    first: Floats, second: Floats, formula: Formula, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float, Interval]:
    """Return the p-value of equal scores by Koehn's (2004), as in sacrebleu, and the interval of their difference."""
    sums = _sums_of_resamples(np.concatenate((first, second), axis=1), resamples, seed)
    scores1, scores2 = (formula(own) for own in np.split(sums, [first.shape[1]], axis=1))
    observed = abs(float(formula(second.sum(0)[None])[0] - formula(first.sum(0)[None])[0]))
    apart = abs(scores2 - scores1)
    extreme = int((apart - apart.mean() >= observed - _NOISE).sum())
    return (extreme + 1) / (resamples + 1), percentile_interval(scores2 - scores1)


def resampled(items: Floats, formula: Formula, resamples: int = RESAMPLES, seed: int = SEED) -> Floats:
    """Return (resamples,) scores of corpora drawn from the items with replacement; the seed decides the draw."""
    return formula(_sums_of_resamples(items, resamples, seed))


def _sums_of_resamples(items: Floats, resamples: int, seed: int) -> Floats:
    drawn = _draws(_random_resamples, len(items), resamples, seed)
    return np.concatenate([times.astype(np.float64) @ items for times in drawn])  # (resamples, statistics)


def percentile_interval(scores: Floats) -> Interval:
    """Return the middle 95 % of resampled scores."""
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(scores, [tail, 1 - tail])
    return Interval(float(low), float(high))


def permutation_of_means(first: Floats, second: Floats, trials: int = TRIALS, seed: int = SEED) -> float:
    """Return the p-value of equal means of paired numbers: how often random signs of differences give as large a mean.

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
    """The mean as a score of a corpus: an item contributes its number, and one."""
    means: Floats = sums[:, 0] / sums[:, 1]
    return means


def corrected(p_values: Sequence[float], correction: Correction) -> list[float]:
    """Return p-values corrected for multiple comparisons."""
    p = np.asarray(p_values, np.float64)
    if correction == "none" or not len(p):
        return list(map(float, p))
    if correction == "benjamini-hochberg":
        from scipy import stats

        return list(map(float, stats.false_discovery_control(p)))
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    result = np.empty_like(p)
    result[order] = np.minimum(stepped, 1)
    return list(map(float, result))


def p_text(p: float) -> str:
    """Format a p-value."""
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def stars(p: float) -> str:
    """** for p < 0.01, * for p < 0.05."""
    return "**" if p < 0.01 else "*" if p < 0.05 else ""


# ------------------------------------------------------------------------------------------------ draws

Draws = Callable[[int, int, int], Iterator[NDArray[np.generic]]]
"""(items, samples, seed) → chunks of (rows, items), `samples` rows in all."""


def _random_exchanges(items: int, samples: int, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Draw whether each item stays with its system."""
    generator = np.random.default_rng(seed)
    for rows in _chunks(samples):
        yield generator.integers(2, size=(rows, items), dtype=bool)


def _random_resamples(items: int, samples: int, seed: int) -> Iterator[NDArray[np.uint16]]:
    """Draw with replacement how often each item occurs."""
    generator = np.random.default_rng(seed)
    for rows in _chunks(samples):
        drawn = generator.choice(items, size=(rows, items), replace=True) + items * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * items).reshape(rows, items).astype(np.uint16)


def _draws(draws: Draws, items: int, samples: int, seed: int) -> Iterable[NDArray[np.generic]]:
    """Draw; small draws are cached, because every score of the same test set needs the same ones."""
    small = items * samples <= _CACHED_DRAWS
    return _cached_draws(draws, items, samples, seed) if small else draws(items, samples, seed)


@lru_cache(maxsize=2)
def _cached_draws(draws: Draws, items: int, samples: int, seed: int) -> Sequence[NDArray[np.generic]]:
    return tuple(draws(items, samples, seed))


def _chunks(samples: int) -> Iterator[int]:
    for start in range(0, samples, _ROWS):
        yield min(_ROWS, samples - start)
