"""Learning rate, discount and budget at points worked out by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from focat.config.schema import BudgetSettings, DiscountSchedule, TrainingSettings
from focat.training.schedule import Elapsed, budget_fraction, discount_at, learning_rate


def settings(schedule: str, warmup: int = 10) -> TrainingSettings:
    return TrainingSettings(schedule=schedule, learning_rate=1.0, warmup=warmup, warmup_from=0.2)


@pytest.mark.parametrize(
    ("update", "rate"),
    [
        (5, 0.6),  # half way from 0.2 to 1
        (9, 0.92),
        (10, 1.0),
        (40, 0.5),  # √(10 / 40)
        (1000, 0.1),
    ],
)
def test_inverse_square_root(update: int, rate: float) -> None:
    """The share of the budget plays no part: training may go on for ever."""
    for share in (0.0, 0.7, 1.0):
        assert learning_rate(settings("inverse-sqrt"), update, share) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("update", "share", "rate"),
    [
        (10, 0.0, 1.0),
        (100, 1 / 3, 0.75),  # cos 60° = 1/2
        (150, 0.5, 0.5),
        (200, 2 / 3, 0.25),
        (300, 1.0, 0.0),
        (5, 0.5, 0.3),  # still in the warm-up: half of what it would be
    ],
)
def test_cosine(update: int, share: float, rate: float) -> None:
    assert learning_rate(settings("cosine"), update, share) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("update", "share", "rate"), [(10, 0.1, 0.9), (75, 0.75, 0.25), (100, 1.0, 0.0), (5, 0.05, 0.57)]
)
def test_linear(update: int, share: float, rate: float) -> None:
    assert learning_rate(settings("linear"), update, share) == pytest.approx(rate)


@pytest.mark.parametrize("schedule", ["inverse-sqrt", "cosine", "linear"])
@pytest.mark.parametrize("warmup", [0, 1, 30])
def test_there_is_no_jump_and_only_one_peak(schedule: str, warmup: int) -> None:
    budget = 1000
    rates = [learning_rate(settings(schedule, warmup), u, (u - 1) / budget) for u in range(1, budget + 1)]
    peak = rates.index(max(rates))
    assert all(later >= earlier for earlier, later in pairwise(rates[: peak + 1]))
    assert all(later <= earlier for earlier, later in pairwise(rates[peak:]))
    assert abs(peak + 1 - warmup) <= 1
    if warmup == 30:  # no update is far from its neighbours: the steepest part is the warm-up, 0.8 / 30 at a time
        assert max(abs(later - earlier) for earlier, later in pairwise(rates)) < 0.027
    if schedule != "inverse-sqrt":
        assert rates[-1] < 0.002


def test_warmup_of_the_paper() -> None:
    """4000 updates from 1e-7, then the inverse square root."""
    paper = TrainingSettings(learning_rate=1e-3, warmup=4000, warmup_from=1e-7)
    assert learning_rate(paper, 1, 0) < 4e-7
    assert learning_rate(paper, 4000, 0) == pytest.approx(1e-3)
    assert learning_rate(paper, 16000, 0) == pytest.approx(5e-4)


def test_constant_discount() -> None:
    assert [discount_at(0.01, share) for share in (0.0, 0.5, 1.0)] == [0.01] * 3


@pytest.mark.parametrize(
    ("share", "discount"), [(0.0, 1.0), (0.2, 1.0), (0.3, 0.75), (0.4, 0.5), (0.6, 0.0), (0.8, 0.0), (1.0, 0.0)]
)
def test_moving_discount(share: float, discount: float) -> None:
    """From 1 at 20 % of the budget to 0 at 60 % of it."""
    schedule = DiscountSchedule(start=1.0, end=0.0, begin_at=0.2, end_at=0.6)
    assert discount_at(schedule, share) == pytest.approx(discount)


def test_moving_discount_may_rise() -> None:
    assert discount_at(DiscountSchedule(start=0.0, end=0.5, begin_at=0.0, end_at=1.0), 0.5) == pytest.approx(0.25)


def test_share_spent_is_that_of_the_nearest_limit() -> None:
    spent = Elapsed(updates=50, epochs=1.5, minutes=3.0)
    assert budget_fraction(BudgetSettings(updates=100), spent) == 0.5
    assert budget_fraction(BudgetSettings(epochs=2), spent) == 0.75
    assert budget_fraction(BudgetSettings(minutes=30.0), spent) == pytest.approx(0.1)
    assert budget_fraction(BudgetSettings(updates=100, epochs=2, minutes=30.0), spent) == 0.75
    assert budget_fraction(BudgetSettings(updates=40, epochs=9), spent) == 1.0
    assert budget_fraction(BudgetSettings(updates=100, epochs=2, minutes=1.0), Elapsed()) == 0.0


def test_the_schedules_end_with_the_budget_whatever_it_is_counted_in() -> None:
    linear = settings("linear", warmup=0)
    half = Elapsed(updates=7, epochs=1.0, minutes=0.5)
    for budget in (BudgetSettings(updates=14), BudgetSettings(epochs=2), BudgetSettings(minutes=1.0)):
        assert learning_rate(linear, 8, budget_fraction(budget, half)) == pytest.approx(0.5)
    assert math.isclose(
        learning_rate(linear, 14, budget_fraction(BudgetSettings(updates=14), Elapsed(updates=14))), 0.0
    )
