"""Contrastive accuracy: how often a model prefers the right translation, given its context."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from focat.config.schema import WindowSettings
from focat.corpus.tokenizer import Tokenizer
from focat.evaluation.scoring import Rule, score_texts
from focat.evaluation.suites import Instance
from focat.model.transformer import Transformer
from focat.windows.texts import WindowText


def window_of(instance: Instance, candidate: str, settings: WindowSettings) -> WindowText:
    """What a model with these windows sees of an instance; the target has gold context."""
    context = list(instance.source[:-1])
    before, target_before = settings.before, settings.target[0]
    return WindowText(
        [*context[len(context) - min(before, len(context)) :], instance.source[-1]],
        [*instance.target[len(instance.target) - min(target_before, len(instance.target)) :], candidate],
    )


def is_right(scores: Sequence[float], instance: Instance) -> bool:
    """Whether the right candidate has the best score, by the suite's own rule for ties."""
    right = scores[instance.right]
    others = [score for i, score in enumerate(scores) if i != instance.right]
    if instance.strict:
        return all(right > score for score in others)
    return scores.index(max(scores)) == instance.right


def contrast(
    model: Transformer,
    tokenizer: Tokenizer,
    instances: Sequence[Instance],
    settings: WindowSettings,
    rule: Rule = "current-sum",
) -> list[bool]:
    """For each instance, whether the model is right about it."""
    windows = [window_of(instance, candidate, settings) for instance in instances for candidate in instance.candidates]
    scores = iter(score_texts(model, tokenizer, windows, rule).tolist())
    return [is_right([next(scores) for _ in instance.candidates], instance) for instance in instances]


def accuracy_by_distance(instances: Sequence[Instance], right: Sequence[bool]) -> dict[int | None, float]:
    """The share of right answers for each distance, nearest first."""
    answers: dict[int | None, list[bool]] = defaultdict(list)
    for instance, answer in zip(instances, right, strict=True):
        answers[instance.distance].append(answer)
    return {d: sum(answers[d]) / len(answers[d]) for d in sorted(answers, key=lambda d: -1 if d is None else d)}
