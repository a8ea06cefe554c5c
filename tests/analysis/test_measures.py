"""Comparisons: on shared items only, by the right test, corrected part by part."""

import numpy as np
import pytest

from focat.analysis.measures import Measure, accuracy, compare, mean, ratio_formula, shared
from focat.evaluation.significance import corrected, mcnemar, mean_formula, permutation_of_means
from focat.progress import NULL_PROGRESS


def numbers(values, items=None):
    values = np.array(values, np.float64)
    return mean(np.arange(len(values)) if items is None else np.array(items), values, np.ones(len(values)))


def test_mean_leaves_out_what_counts_nothing():
    found = mean(np.array([7, 3, 5]), np.array([6.0, 9.0, 2.0]), np.array([3.0, 0.0, 1.0]))
    assert found.items.tolist() == [5, 7]
    assert found.of_items.tolist() == [2, 2]
    assert found.value == 8 / 4
    assert mean(np.arange(2), np.zeros(2), np.zeros(2)) is None


def test_ratio_by_hand():
    """(2 + 4) / (1 + 2) over (3 + 1) / (2 + 2)."""
    found = Measure(np.arange(2), np.array([[2.0, 1, 3, 2], [4, 2, 1, 2]]), ratio_formula)
    assert found.value == 2


def test_only_shared_items_are_compared():
    first, second = shared(numbers([1, 2, 3], [4, 5, 6]), numbers([20, 30, 40], [5, 6, 9]))
    assert first.items.tolist() == second.items.tolist() == [5, 6]
    assert first.of_items.tolist() == [2, 3]
    assert second.of_items.tolist() == [20, 30]


def test_findings():
    draw = np.random.default_rng(1)
    one = draw.normal(size=60)
    systems = {
        "a": {"attention.x": numbers(one), "attention.same": numbers(one), "losses.y": numbers(one)},
        "b": {
            "attention.x": numbers(one + 1),
            "attention.same": numbers(one),
            "losses.y": numbers(one + 0.05 * draw.normal(size=60)),
        },
    }
    found = {finding.column: finding for finding in compare(systems, NULL_PROGRESS, trials=2000)}
    assert found["attention.x"].difference == pytest.approx(1)
    assert found["attention.x"].stars == "**"
    assert found["attention.same"].p == 1
    # the exchange of items is the permutation of signs
    other = permutation_of_means(one, systems["b"]["losses.y"].of_items, 20_000)
    assert found["losses.y"].p == pytest.approx(other, abs=0.04)
    both = corrected([found["attention.x"].p, found["attention.same"].p], "holm")
    assert [found["attention.x"].corrected, found["attention.same"].corrected] == both
    assert found["losses.y"].corrected == found["losses.y"].p
    assert found["attention.x"].interval.low <= 1 <= found["attention.x"].interval.high + 1e-9


def test_accuracy_is_compared_by_mcnemar():
    one, other = np.array([True] * 20 + [False] * 20), np.array([True] * 12 + [False] * 28)
    systems = {
        "a": {"robustness.q": accuracy(np.arange(40), one)},
        "b": {"robustness.q": accuracy(np.arange(40), other)},
    }
    (finding,) = compare(systems, NULL_PROGRESS)
    assert finding.p == mcnemar(one, other)[0]
    assert finding.difference == pytest.approx(-20)
    assert systems["a"]["robustness.q"].value == 50


def test_a_measure_that_one_lacks_is_not_compared():
    systems = {"a": {"x.1": numbers([1, 2])}, "b": {"x.1": numbers([3, 4], [7, 8]), "x.2": numbers([1, 2])}}
    assert compare(systems, NULL_PROGRESS) == []
    assert mean_formula(np.array([[3.0, 2.0]])).tolist() == [1.5]
