"""Contrastive scoring: which candidate translation a model prefers, given its context (section 4.1 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from focat.choices import SCORING_RULES, ContextControl, MissingTarget, Precision, ScoringRule, SuiteContext
from focat.config.schema import WindowSettings
from focat.corpus.tokenizer import Tokenizer
from focat.evaluation.prefix_scoring import CandidateGroup, score_candidates
from focat.evaluation.suites.instance import Instance
from focat.model.transformer import Transformer
from focat.progress import NULL_PROGRESS, Progress
from focat.windows.builder import cut_window
from focat.windows.splitmix64 import splitmix64


@dataclass(frozen=True)
class ContextConfig:
    """Which context sentences a model sees with each candidate."""

    before: int
    """Source sentences before the current one."""
    target_before: int
    """Target sentences before the current one."""
    target_context: SuiteContext = "gold"
    missing_target: MissingTarget = "shorter"
    """Where a suite has less target context than the window takes: `shorter` cuts the source context to as much, so
    that windows look as at the start of a document; `source` keeps all of the source context."""
    pad_context: str | None = None
    """Text in place of every missing context sentence, on either side; the paper's authors have `...`."""
    max_tokens: int = 1024
    """Longest window, in tokens of one side; a longer one loses its oldest sentences."""
    control: ContextControl = "real"
    """Whose context instances have; see `with_control`."""

    @classmethod
    def of(
        cls,
        windows: WindowSettings,
        target_context: SuiteContext = "gold",
        missing_target: MissingTarget = "shorter",
        pad_context: str | None = None,
        control: ContextControl = "real",
    ) -> ContextConfig:
        """Return the context that windows with these settings have."""
        before, target_before = windows.before, windows.target[0]
        return cls(before, target_before, target_context, missing_target, pad_context, windows.max_tokens, control)

    def __str__(self) -> str:
        missing = self.missing_target if self.pad_context is None else self.pad_context
        context = self.target_context if self.control == "real" else f"{self.control}-{self.target_context}"
        return f"window:{self.before + 1}to{self.target_before + 1}|context:{context}|missing:{missing}"


def context_of(instance: Instance, config: ContextConfig) -> tuple[list[str], list[str]]:
    """Return the context sentences of an instance, source and target, oldest first."""
    source = list(instance.source[:-1])
    target = [] if config.target_context == "none" else list(instance.target)
    if config.pad_context is not None:
        source = [config.pad_context] * (config.before - len(source)) + source
        if config.target_context != "none":
            target = [config.pad_context] * (config.target_before - len(target)) + target
    source_count = min(config.before, len(source))
    wanted = min(config.target_before, source_count)
    target_count = min(wanted, len(target))
    if target_count < wanted and config.missing_target == "shorter":
        source_count = target_count  # what training makes of a document that begins where the known target does
    return source[len(source) - source_count :], target[len(target) - target_count :]


def candidate_group(instance: Instance, config: ContextConfig, tokenizer: Tokenizer) -> CandidateGroup:
    """Return what a model sees of an instance; a window that is too long loses its oldest sentences."""
    source, target = context_of(instance, config)
    sources, candidates = [*source, instance.source[-1]], list(instance.candidates)
    targets = [*target, max(candidates, key=lambda text: len(text.encode()))]
    # No tokenizer makes more tokens of a sentence than it has bytes, and one: most windows need no closer look.
    if max(sum(len(text.encode()) + 2 for text in side) for side in (sources, targets)) > config.max_tokens:
        span = cut_window(
            [len(tokenizer.source.encode(text)) for text in sources],
            [0] * (len(source) - len(target))  # the target context may begin later
            + [len(tokenizer.target.encode(text)) for text in target]
            + [max(len(tokenizer.target.encode(text)) for text in candidates)],
            len(source),
            WindowSettings(before=len(source), target_before=len(target), max_tokens=config.max_tokens),
        )
        source, target = sources[span.source.start : -1], target[len(target) - span.target_current :]
    return CandidateGroup((*source, instance.source[-1]), tuple(target), tuple(candidates))


def preferred_candidate(scores: Sequence[float], instance: Instance) -> int:
    """Return the candidate with the best score: the first of equals; where a tie is wrong, the first wrong one."""
    best = max(scores)
    tied = [i for i, score in enumerate(scores) if score == best]
    if instance.strict and len(tied) > 1:
        tied = [i for i in tied if i != instance.right]
    return tied[0]


def score_instances(
    model: Transformer,
    tokenizer: Tokenizer,
    instances: Sequence[Instance],
    config: ContextConfig,
    precision: Precision = "float32",
    progress: Progress = NULL_PROGRESS,
) -> dict[ScoringRule, list[list[float]]]:
    """Score the candidates of each instance by every rule. The model's own context must already be in the instances."""
    if not instances:
        return {rule: [] for rule in SCORING_RULES}
    groups = [candidate_group(instance, config, tokenizer) for instance in instances]
    scores = score_candidates(model, tokenizer, groups, precision, progress)
    ends = np.cumsum([len(instance.candidates) for instance in instances])[:-1]
    return {rule: [part.tolist() for part in np.split(scores.by(rule), ends)] for rule in SCORING_RULES}


def with_own_context(
    instances: Sequence[Instance], translate: Callable[[Sequence[Sequence[str]]], list[list[str]]]
) -> list[Instance]:
    """Replace the gold target context of instances by translations of their source context."""
    contexts = list(dict.fromkeys(tuple(instance.source[:-1]) for instance in instances))
    contexts = [context for context in contexts if context]
    own = dict(zip(contexts, translate(contexts), strict=True))
    return [replace(instance, target=own.get(tuple(instance.source[:-1]), [])) for instance in instances]


def with_control(instances: Sequence[Instance], control: ContextControl) -> list[Instance]:
    """Give instances the context of others: what a system gains without the right context (Li et al., 2020).

    `random` gives each the context of another, always the same; `fixed` gives all that of the first which has the most.
    """
    if control == "real" or not instances:
        return list(instances)
    donors = np.argsort(splitmix64(len(instances), 8), kind="stable")
    if control == "fixed":
        donors = np.full(len(instances), max(range(len(instances)), key=lambda i: len(instances[i].source)))
    given = [(instances[donor].source[:-1], instances[donor].target) for donor in donors]
    return [
        replace(instance, source=[*source, instance.source[-1]], target=target)
        for instance, (source, target) in zip(instances, given, strict=True)
    ]
