"""Tests and intervals against independent libraries, hand-made numbers, and what would happen in the long run."""

import math

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from focat.evaluation.metrics import measure
from focat.evaluation.significance import (
    accuracy_difference_interval,
    accuracy_interval,
    approximate_randomisation,
    corrected,
    mcnemar,
    mean_formula,
    paired_bootstrap,
    permutation_of_means,
    resampled,
    stars,
)


def formula(metric):
    """From sums over lines to the score."""
    return measure(metric, "sentence", ["a"], ["a"]).formula


def _answers(both: int, only_first: int, only_second: int, neither: int):
    first = [True] * (both + only_first) + [False] * (only_second + neither)
    second = [True] * both + [False] * only_first + [True] * only_second + [False] * neither
    return np.array(first), np.array(second)


@pytest.mark.parametrize(
    "table",
    [(40, 3, 10, 7), (40, 12, 12, 7), (40, 12, 13, 7), (40, 5, 30, 7), (900, 60, 95, 500), (5, 0, 1, 0), (0, 24, 0, 3)],
)
def test_mcnemar_equals_statsmodels(table):
    both, only_first, only_second, neither = table
    exact = only_first + only_second < 25
    expected = reference_mcnemar([[both, only_first], [only_second, neither]], exact=exact, correction=True).pvalue
    p, how = mcnemar(*_answers(*table))
    assert p == pytest.approx(expected, rel=1e-12)
    assert how == ("McNemar, exact" if exact else "McNemar, χ²")


def test_mcnemar_by_hand():
    """Three against none: each of two extremes out of eight. Equal answers say nothing."""
    assert mcnemar(*_answers(10, 3, 0, 10))[0] == pytest.approx(2 / 8)
    assert mcnemar(*_answers(10, 0, 0, 10))[0] == 1


def test_accuracy_interval_equals_statsmodels():
    for right, asked in ((0, 10), (7, 10), (500, 1000), (12, 12)):
        assert accuracy_interval(right, asked) == pytest.approx(proportion_confint(right, asked, method="wilson"))


def test_paired_interval_by_hand():
    """36 right by both, 12 by the second, 2 by the first, of 50: Wilson's limits by statsmodels, then on paper."""
    second, first = _answers(36, 12, 2, 0)
    low1, high1 = proportion_confint(38, 50, method="wilson")
    low2, high2 = proportion_confint(48, 50, method="wilson")
    phi = (36 * 0 - 12 * 2) / math.sqrt(38 * 12 * 48 * 2)  # negative, so not corrected for continuity
    down = math.sqrt((0.96 - low2) ** 2 - 2 * phi * (0.96 - low2) * (high1 - 0.76) + (high1 - 0.76) ** 2)
    up = math.sqrt((high2 - 0.96) ** 2 - 2 * phi * (high2 - 0.96) * (0.76 - low1) + (0.76 - low1) ** 2)
    assert accuracy_difference_interval(first, second) == pytest.approx((0.2 - down, 0.2 + up))
    assert accuracy_difference_interval(first, second) == pytest.approx((0.0569, 0.3404), abs=5e-5)


@pytest.mark.parametrize(
    ("table", "covariance"),
    [
        ((30, 5, 12, 13), 30 * 13 - 5 * 12 - 30),  # less half of the 60 instances
        ((12, 4, 3, 1), 0),  # 12 · 1 − 4 · 3
        ((10, 2, 3, 2), 10 * 2 - 2 * 3 - 8.5),
        ((10, 2, 3, 1), 0),  # 4, which is less than half of the 16 instances
        ((10, 5, 3, 1), 10 * 1 - 5 * 3),  # negative: not corrected
    ],
)
def test_paired_interval_corrects_positive_correlation_for_continuity(table, covariance):
    """Newcombe's method 10, with his correction worked out by hand; Wilson's limits by statsmodels."""
    both, only_first, only_second, _ = table
    count, right1, right2 = sum(table), both + only_first, both + only_second
    (low1, high1), (low2, high2) = (proportion_confint(right, count, method="wilson") for right in (right1, right2))
    share1, share2 = right1 / count, right2 / count
    phi = covariance / math.sqrt(right1 * (count - right1) * right2 * (count - right2))
    down = math.sqrt((share2 - low2) ** 2 - 2 * phi * (share2 - low2) * (high1 - share1) + (high1 - share1) ** 2)
    up = math.sqrt((high2 - share2) ** 2 - 2 * phi * (high2 - share2) * (share1 - low1) + (share1 - low1) ** 2)
    expected = share2 - share1 - down, share2 - share1 + up
    assert accuracy_difference_interval(*_answers(*table)) == pytest.approx(expected)


def test_paired_interval_is_the_textbooks_for_many():
    first, second = _answers(4000, 1000, 1500, 3500)
    difference, count = 0.05, 10_000
    error = math.sqrt((1000 + 1500) / count - difference**2) / math.sqrt(count)
    expected = (difference - 1.96 * error, difference + 1.96 * error)
    assert accuracy_difference_interval(first, second) == pytest.approx(expected, abs=3e-4)


@pytest.mark.parametrize("shares", [(0.6, 0.1, 0.2, 0.1), (0.3, 0.25, 0.25, 0.2), (0.9, 0.02, 0.06, 0.02)])
def test_paired_interval_holds_what_it_promises(shares):
    """Of many experiments, about 95 % have intervals that contain the truth."""
    generator = np.random.default_rng(1)
    truth = shares[2] - shares[1]
    tables = generator.multinomial(60, shares, size=1500)
    intervals = [accuracy_difference_interval(*_answers(*table)) for table in tables]
    covered = np.mean([low <= truth <= high for low, high in intervals])
    assert 0.93 <= covered <= 0.985


def test_paired_interval_turns_around_with_the_systems():
    first, second = _answers(30, 5, 12, 13)
    low, high = accuracy_difference_interval(first, second)
    assert accuracy_difference_interval(second, first) == pytest.approx((-high, -low))


@pytest.fixture(scope="module")
def translations():
    """Two systems with errors of their own, as sacrebleu's tests would get them."""
    generator = np.random.default_rng(5)
    words = [f"w{i}" for i in range(60)]
    references = [" ".join(generator.choice(words, generator.integers(4, 25))) for _ in range(70)]

    def system(rate: float) -> list[str]:
        return [
            " ".join(w if generator.random() > rate else str(generator.choice(words)) for w in line.split())
            for line in references
        ]

    return references, system(0.27), system(0.25)


SCORERS = {"BLEU": BLEU, "chrF": CHRF, "TER": TER}


@pytest.mark.parametrize("metric", SCORERS)
def test_randomisation_equals_sacrebleu(translations, metric):
    references, first, second = translations
    systems = [("first", first), ("second", second)]
    _, found = PairedTest(systems, {metric: SCORERS[metric]()}, [references], "ar", n_samples=1500)()
    expected = list(found.values())[-1][1]
    items = [measure(metric, "sentence", side, references).statistics for side in (first, second)]
    p = approximate_randomisation(*items, formula(metric), trials=1500)
    ties = _trials_that_tie(metric, *items, trials=1500)  # counted by us, not by sacrebleu
    assert p == pytest.approx(expected.p_value + ties / 1501, abs=1e-12)
    assert (ties > 0) == (metric == "TER")
    assert 0.001 < p < 0.999


def _trials_that_tie(metric: str, first, second, trials: int) -> int:
    """Line by line, with sacrebleu's own formula."""
    scorer = SCORERS[metric]()
    kept = np.random.default_rng(12345).integers(2, size=(trials, len(first)), dtype=bool)
    observed = abs(_score(scorer, first) - _score(scorer, second))
    ties = 0
    for row in kept:
        one, other = np.where(row[:, None], first, second), np.where(row[:, None], second, first)
        ties += abs(abs(_score(scorer, one) - _score(scorer, other)) - observed) < 1e-9
    return ties


def _score(scorer, items) -> float:
    return scorer._compute_score_from_stats([float(total) for total in items.sum(0)]).score


@pytest.mark.parametrize("metric", SCORERS)
def test_bootstrap_equals_sacrebleu(translations, metric):
    references, first, second = translations
    systems = [("first", first), ("second", second)]
    _, found = PairedTest(systems, {metric: SCORERS[metric]()}, [references], "bs", n_samples=700)()
    expected = list(found.values())[-1][1]
    items = [measure(metric, "sentence", side, references).statistics for side in (first, second)]
    p, (low, high) = paired_bootstrap(*items, formula(metric), resamples=700)
    assert p == pytest.approx(expected.p_value, abs=1e-12)
    assert resampled(items[1], formula(metric), 700).mean() == pytest.approx(expected.mean, abs=1e-4)
    assert low < high


def test_bootstrap_interval_of_a_mean_is_the_textbooks():
    generator = np.random.default_rng(2)
    first, second = generator.normal(size=400), generator.normal(0.3, 1, size=400)
    items = [np.stack([values, np.ones(400)], axis=1) for values in (first, second)]
    _, (low, high) = paired_bootstrap(*items, mean_formula, resamples=4000)
    expected = stats.ttest_rel(second, first).confidence_interval(0.95)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.02)


def test_systems_that_differ_in_one_line_do_not_differ(translations):
    """However the line is dealt, the systems are as far apart as they are."""
    references, first, _ = translations
    items = measure("BLEU", "sentence", first, references).statistics
    other = items.copy()
    other[3] = measure("BLEU", "sentence", [references[3]], [references[3]]).statistics[0]
    assert approximate_randomisation(items, other, formula("BLEU"), trials=200) == 1
    assert approximate_randomisation(items, items, formula("BLEU"), trials=200) == 1
    assert paired_bootstrap(items, items, formula("BLEU"), resamples=200)[0] == 1


def test_permutation_equals_scipy():
    """Of pairs, in the usual form: exactly where all signs are tried, else within what chance allows."""
    generator = np.random.default_rng(3)

    def difference(x, y, axis):
        return y.mean(axis) - x.mean(axis)

    for count, tolerance in ((9, 1e-12), (40, 0.02)):
        first = generator.normal(size=count)
        second = first + generator.normal(0.2, 0.7, size=count)
        expected = stats.permutation_test(
            (first, second), difference, permutation_type="samples", vectorized=True, n_resamples=5000, rng=7
        )
        assert permutation_of_means(first, second, trials=5000) == pytest.approx(expected.pvalue, abs=tolerance)


def test_permutation_by_hand():
    """All four differences up: one of sixteen, and its mirror image."""
    zeros = np.zeros(4)
    assert permutation_of_means(zeros, np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(2 / 16)


@pytest.mark.parametrize(("ours", "theirs"), [("holm", "holm"), ("benjamini-hochberg", "fdr_bh")])
def test_corrections_equal_statsmodels(ours, theirs):
    p_values = [0.04, 0.001, 0.3, 0.012, 0.012, 0.9, 0.02]
    assert corrected(p_values, ours) == pytest.approx(multipletests(p_values, method=theirs)[1])
    assert corrected([0.03], ours) == pytest.approx([0.03])
    assert corrected([], ours) == []


def test_no_correction_and_stars():
    assert corrected([0.04, 0.001], "none") == [0.04, 0.001]
    assert [stars(p) for p in (0.009, 0.01, 0.049, 0.05)] == ["**", "*", "*", ""]
