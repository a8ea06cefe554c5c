"""Schedules over the training budget: the learning rate, the discount, and the end of training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from focat.config.schema import BudgetSettings, DiscountSchedule, TrainingSettings


@dataclass(frozen=True)
class Elapsed:
    """How long training has run."""

    updates: int = 0
    epochs: float = 0.0
    minutes: float = 0.0


def budget_fraction(budget: BudgetSettings, elapsed: Elapsed) -> float:
    """The fraction of the budget that is used up: 0 at the start, 1 when any of its limits is reached."""
    limits = (
        (budget.updates, elapsed.updates),
        (budget.epochs, elapsed.epochs),
        (budget.minutes, elapsed.minutes),
    )
    return min(1.0, max(used / limit for limit, used in limits if limit is not None))


def learning_rate(settings: TrainingSettings, update: int, fraction: float) -> float:
    """The learning rate of an update, counted from 1, at this fraction of the budget.

    Warm-up is a straight line. The rate falls with the inverse square root of the update after it (the paper), or all
    along a half cosine or a straight line to zero at the end of the budget.
    """
    peak, warmup = settings.learning_rate, settings.warmup
    if update < warmup:
        peak = settings.warmup_from + (peak - settings.warmup_from) * update / warmup
    if settings.schedule == "inverse-sqrt":
        return peak * math.sqrt(max(warmup, 1) / max(warmup, update))
    if settings.schedule == "cosine":
        return peak * 0.5 * (1 + math.cos(math.pi * fraction))
    return peak * (1 - fraction)


def discount_at(discount: float | DiscountSchedule, fraction: float) -> float:
    """The context discount at this fraction of the budget."""
    if not isinstance(discount, DiscountSchedule):
        return discount
    progress = (fraction - discount.begin_at) / (discount.end_at - discount.begin_at)
    progress = min(1.0, max(0.0, progress))
    return discount.start + (discount.end - discount.start) * progress
