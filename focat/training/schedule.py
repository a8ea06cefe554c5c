"""What changes as training goes on: the learning rate and the discount, and when it is over."""

from __future__ import annotations

import math
from dataclasses import dataclass

from focat.config.schema import BudgetSettings, DiscountSchedule, TrainingSettings


@dataclass(frozen=True)
class Spent:
    """How much training there has been."""

    updates: int = 0
    epochs: float = 0.0
    minutes: float = 0.0


def share_spent(budget: BudgetSettings, spent: Spent) -> float:
    """How much of the budget is used up: 0 at the start, 1 when any of its limits is reached."""
    limits = (
        (budget.updates, spent.updates),
        (budget.epochs, spent.epochs),
        (budget.minutes, spent.minutes),
    )
    return min(1.0, max(used / limit for limit, used in limits if limit is not None))


def learning_rate(settings: TrainingSettings, update: int, share: float) -> float:
    """The learning rate of an update, counted from 1, when `share` of the budget is spent.

    Warm-up is a straight line. The rate falls with the inverse square root of the update after it (the paper), or all
    along a half cosine or a straight line to zero at the end of the budget.
    """
    peak, warmup = settings.learning_rate, settings.warmup
    if update < warmup:
        peak = settings.warmup_from + (peak - settings.warmup_from) * update / warmup
    if settings.schedule == "inverse-sqrt":
        return peak * math.sqrt(max(warmup, 1) / max(warmup, update))
    if settings.schedule == "cosine":
        return peak * 0.5 * (1 + math.cos(math.pi * share))
    return peak * (1 - share)


def discount_at(discount: float | DiscountSchedule, share: float) -> float:
    """CD when `share` of the budget is spent."""
    if not isinstance(discount, DiscountSchedule):
        return discount
    moved = (share - discount.begin_at) / (discount.end_at - discount.begin_at)
    moved = min(1.0, max(0.0, moved))
    return discount.start + (discount.end - discount.start) * moved
