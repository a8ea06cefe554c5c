"""Scores as formulas over sums of items; comparisons on shared items, by the right test, corrected by family."""

import numpy as np
import pytest

from focat.analysis.losses import ratio_formula
from focat.errors import FocatError
from focat.evaluation.comparison import compare, paired_differences
from focat.evaluation.scores import Score, SystemScores, accuracy_score, mean_score, ratio_score, shared_items
from focat.evaluation.significance import corrected, mcnemar, mean_formula, permutation_of_means, resampled


def numbers(name, values, items=None, family=""):
    values = np.array(values, np.float64)
    items = np.arange(len(values)) if items is None else np.array(items)
    return ratio_score(name, items, values, np.ones(len(values)), "windows", family)


def system(name, *scores):
    return SystemScores(name, {score.name: score for score in scores})


def test_ratio_leaves_out_items_that_count_nothing():
    found = ratio_score("x", np.array([7, 3, 5]), np.array([6.0, 9.0, 2.0]), np.array([3.0, 0.0, 1.0]))
    assert found.items.tolist() == [5, 7]
    assert found.item_values.tolist() == [2, 2]
    assert found.value == 8 / 4
    assert ratio_score("x", np.arange(2), np.zeros(2), np.zeros(2)) is None


def test_ratio_of_means_by_hand():
    """(2 + 4) / (1 + 2) over (3 + 1) / (2 + 2)."""
    found = Score("x", "ratio", np.array([[2.0, 1, 3, 2], [4, 2, 1, 2]]), ratio_formula)
    assert found.value == 2
    assert mean_formula(np.array([[3.0, 2.0]])).tolist() == [1.5]


def test_intervals_and_digits():
    share = accuracy_score("q", np.array([True] * 30 + [False] * 10))
    assert share.value == 75
    low, high = share.interval()
    assert (low, high) == pytest.approx((59.81, 85.81), abs=0.01)  # Wilson, by hand
    mean = mean_score("mean", np.arange(50.0), "50 numbers")
    low, high = mean.interval()
    drawn = resampled(mean.statistics, mean_formula)
    assert (drawn < low).mean() == pytest.approx(0.025, abs=0.002)
    assert (drawn > high).mean() == pytest.approx(0.025, abs=0.002)
    assert (share.text(1.23456), mean.text(1.23456, "+")) == ("1.23", "+1.2346")


def test_only_shared_items_are_compared():
    first, second = shared_items(numbers("x", [1, 2, 3], [4, 5, 6]), numbers("x", [20, 30, 40], [5, 6, 9]))
    assert first.items.tolist() == second.items.tolist() == [5, 6]
    assert first.item_values.tolist() == [2, 3]
    assert second.item_values.tolist() == [20, 30]


def test_differences_are_corrected_within_their_family():
    draw = np.random.default_rng(1)
    one = draw.normal(size=60)
    other = one + 0.05 * draw.normal(size=60)
    first = system("a", *(numbers(n, one, family=f) for n, f in (("x", "att"), ("same", "att"), ("y", "loss"))))
    second = system(
        "b", numbers("x", one + 1, family="att"), numbers("same", one, family="att"), numbers("y", other, family="loss")
    )
    found = {finding.column: finding for finding in paired_differences([(first, second)], trials=2000)}
    assert found["x"].difference == pytest.approx(1)
    assert found["x"].stars == "**"
    assert found["same"].p == 1
    # the exchange of items is the permutation of signs
    assert found["y"].p == pytest.approx(permutation_of_means(one, other, 20_000), abs=0.04)
    both = corrected([found["x"].p, found["same"].p], "holm")
    assert [found["x"].corrected, found["same"].corrected] == both
    assert found["y"].corrected == found["y"].p
    assert found["x"].interval.low <= 1 <= found["x"].interval.high + 1e-9


def test_the_kind_of_a_score_decides_its_test():
    one, other = np.array([True] * 20 + [False] * 20), np.array([True] * 12 + [False] * 28)
    values = np.random.default_rng(2).normal(size=40)
    first, second = (
        system(name, accuracy_score("q", right), mean_score("m", numbers, ""), Score("c", "corpus", statistics))
        for name, right, numbers, statistics in (
            ("a", one, values, np.ones((40, 2))),
            ("b", other, values + 1, np.full((40, 2), 2.0)),
        )
    )
    accuracy, mean, corpus = paired_differences([(first, second)], trials=500)
    assert accuracy.p == mcnemar(one, other)[0]
    assert accuracy.difference == pytest.approx(-20)
    assert [found.test.split(",")[0] for found in (accuracy, mean, corpus)] == [
        *("McNemar", "permutation", "approximate randomisation"),
    ]
    assert paired_differences([(first, second)], test="bootstrap")[2].test == "paired bootstrap"


def test_a_score_that_one_lacks_is_not_compared():
    first, second = system("a", numbers("1", [1, 2])), system("b", numbers("1", [3, 4], [7, 8]), numbers("2", [1, 2]))
    assert paired_differences([(first, second)]) == []


def test_scores_of_other_items_are_refused():
    first, second = (system(name, mean_score("m", np.ones(n), f"{n} numbers")) for name, n in (("a", 2), ("b", 3)))
    with pytest.raises(FocatError, match="a was measured on 2 numbers, but b on 3 numbers"):
        compare([first, second])
