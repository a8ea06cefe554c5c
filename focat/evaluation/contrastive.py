"""Contrastive accuracy: how often a model prefers the right translation, given its context."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from focat.choices import SCORING_RULES, MissingTarget, Precision, ScoringRule, SuiteContext
from focat.config.schema import WindowSettings
from focat.corpus.tokenizer import Tokenizer
from focat.evaluation.prefix_scoring import Group, score_groups
from focat.evaluation.suites.instance import Instance
from focat.model.transformer import Transformer
from focat.progress import NULL_PROGRESS, Progress
from focat.windows.builder import cut_window


@dataclass(frozen=True)
class Context:
    """Which context sentences a model is given with each candidate."""

    before: int
    """Sentences in front of the current one, on the source."""
    target_before: int
    """The same on the target."""
    target: SuiteContext = "gold"
    """The suite's own context, the model's translation of it, or none on the target."""
    missing_target: MissingTarget = "shorter"
    """Where there is less context on the target than a model is used to: `shorter` cuts the source to as much, so that
    windows look as at the start of a document; `source` keeps all of the source."""
    pad_context: str | None = None
    """Stands in for every sentence that is missing, on either side; the paper's authors have `...`."""
    max_tokens: int = 1024
    """Longest window, in tokens of one side; a longer one loses its oldest sentences."""

    @classmethod
    def of(cls, settings: WindowSettings, **changes: Any) -> Context:
        """The context that windows with these settings have."""
        return cls(settings.before, settings.target[0], max_tokens=settings.max_tokens, **changes)

    def __str__(self) -> str:
        missing = self.missing_target if self.pad_context is None else self.pad_context
        return f"window:{self.before + 1}to{self.target_before + 1}|context:{self.target}|missing:{missing}"


def context_of(instance: Instance, given: Context) -> tuple[list[str], list[str]]:
    """The context sentences of an instance, source and target."""
    source = list(instance.source[:-1])
    target = [] if given.target == "none" else list(instance.target)
    if given.pad_context is not None:
        source = [given.pad_context] * (given.before - len(source)) + source
        target = [given.pad_context] * (given.target_before - len(target)) + target if given.target != "none" else []
    of_source = min(given.before, len(source))
    wanted = min(given.target_before, of_source)
    of_target = min(wanted, len(target))
    if of_target < wanted and given.missing_target == "shorter":
        of_source = of_target  # what training makes of a document that begins where the known target does
    return source[len(source) - of_source :], target[len(target) - of_target :]


def group_of(instance: Instance, given: Context, tokenizer: Tokenizer) -> Group:
    """What a model sees of an instance; a window that is too long loses its oldest sentences."""
    source, target = context_of(instance, given)
    sources, candidates = [*source, instance.source[-1]], list(instance.candidates)
    targets = [*target, max(candidates, key=lambda text: len(text.encode()))]
    # No tokenizer makes more tokens of a sentence than it has bytes, and one: most windows need no closer look.
    if max(sum(len(text.encode()) + 2 for text in side) for side in (sources, targets)) > given.max_tokens:
        span = cut_window(
            [len(tokenizer.source.encode(text)) for text in sources],
            [0] * (len(source) - len(target))  # the target context may begin later
            + [len(tokenizer.target.encode(text)) for text in target]
            + [max(len(tokenizer.target.encode(text)) for text in candidates)],
            len(source),
            WindowSettings(before=len(source), target_before=len(target), max_tokens=given.max_tokens),
        )
        source, target = sources[span.source.start : -1], target[len(target) - span.target_current :]
    return Group((*source, instance.source[-1]), tuple(target), tuple(candidates))


def chosen(scores: Sequence[float], instance: Instance) -> int:
    """The candidate that is preferred. Of equals the first; where a tie is wrong, the first that is not right."""
    best = max(scores)
    first = [i for i, score in enumerate(scores) if score == best]
    if instance.strict and len(first) > 1:
        first = [i for i in first if i != instance.right]
    return first[0]


@dataclass(frozen=True)
class Answer:
    """What a model made of one instance, by every rule."""

    instance: Instance
    scores: Mapping[ScoringRule, Sequence[float]]

    def chosen(self, rule: ScoringRule) -> int:
        """The candidate that the model prefers."""
        return chosen(self.scores[rule], self.instance)

    def correct(self, rule: ScoringRule) -> bool:
        """Whether it is the right one."""
        return self.chosen(rule) == self.instance.right


def answers(
    model: Transformer,
    tokenizer: Tokenizer,
    instances: Sequence[Instance],
    given: Context,
    precision: Precision = "float32",
    progress: Progress = NULL_PROGRESS,
) -> list[Answer]:
    """Every instance with the scores of its candidates. `own` context must be in the instances already."""
    groups = [group_of(instance, given, tokenizer) for instance in instances]
    scores = score_groups(model, tokenizer, groups, precision, progress)
    ends = np.cumsum([len(instance.candidates) for instance in instances])[:-1]
    by_rule = {rule: np.split(scores.by(rule), ends) for rule in SCORING_RULES}
    return [
        Answer(instance, {rule: by_rule[rule][i].tolist() for rule in SCORING_RULES})
        for i, instance in enumerate(instances)
    ]


def contrast(
    model: Transformer,
    tokenizer: Tokenizer,
    instances: Sequence[Instance],
    settings: WindowSettings,
    rule: ScoringRule = "current-sum",
) -> list[bool]:
    """For each instance, whether the model is right about it."""
    return [answer.correct(rule) for answer in answers(model, tokenizer, instances, Context.of(settings))]


def accuracy_by_distance(instances: Sequence[Instance], right: Sequence[bool]) -> dict[int | None, float]:
    """The share of right answers for each distance, nearest first."""
    found: dict[int | None, list[bool]] = defaultdict(list)
    for instance, answer in zip(instances, right, strict=True):
        found[instance.distance].append(answer)
    return {d: sum(found[d]) / len(found[d]) for d in sorted(found, key=lambda d: -1 if d is None else d)}


Translate = Callable[[Sequence[Sequence[str]]], list[list[str]]]


def with_own_context(instances: Sequence[Instance], translate: Translate) -> list[Instance]:
    """The same instances with translations of the source context in place of the gold target context."""
    contexts = list(dict.fromkeys(tuple(instance.source[:-1]) for instance in instances))
    contexts = [context for context in contexts if context]
    own = dict(zip(contexts, translate(contexts), strict=True))
    return [replace(instance, target=own.get(tuple(instance.source[:-1]), [])) for instance in instances]
