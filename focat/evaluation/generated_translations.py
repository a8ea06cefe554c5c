"""Whether a model's translation of an instance agrees with the right candidate or with a wrong one.

A sentence is translated in its context, and its words are compared with those that tell the right candidate from the
wrong ones: the pronoun that a suite is annotated with, or else all words in which candidates differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from focat.config.schema import SearchSettings
from focat.corpus.tokenizer import Tokenizer
from focat.decoding.engine import Engine
from focat.decoding.requests import Request
from focat.evaluation.contrastive import ContextConfig, candidate_group
from focat.evaluation.results import Outcome
from focat.evaluation.suites.ctxpro import contains_form
from focat.evaluation.suites.instance import Instance
from focat.model.transformer import Transformer
from focat.progress import NULL_PROGRESS, Progress
from focat.windows.builder import close_sentences, join_window

_CHUNK = 1024  # sentences between two reports of progress
_WORD = re.compile(r"\w+(?:[-']\w+)*")


@dataclass(frozen=True)
class GeneratedTranslation:
    """A translation of an instance, and which candidate it agrees with."""

    text: str
    outcome: Outcome


def words(text: str) -> Counter[str]:
    """Count the words of a sentence, case-folded."""
    return Counter(word.casefold() for word in _WORD.findall(text))


def outcome(text: str, instance: Instance) -> Outcome:
    """Return which of the candidates a translation agrees with.

    With an expected form (CTXPro): whether it occurs, and else whether another form does. With annotated words: whether
    the right one occurs, and any of the wrong ones. Without, the words in which right and wrong candidates differ are
    counted: most of them decide; as many of both is `both`.
    """
    if instance.expected is not None:
        right_form = contains_form(text, instance.expected)
        other_form = not right_form and any(contains_form(text, form) for form in instance.forms or ())
        return _outcome(right_form, other_form)
    produced = words(text)
    pronouns = _annotated(instance)
    if pronouns is not None:
        right_word, wrong_words = pronouns
        return _outcome(right_word in produced, any(word in produced for word in wrong_words))
    right = words(instance.candidates[instance.right])
    wrong = [words(text) for i, text in enumerate(instance.candidates) if i != instance.right]
    for_right = max((_agreement(produced, right, other) for other in wrong), default=0)
    for_wrong = max((_agreement(produced, other, right) for other in wrong), default=0)
    if for_right == for_wrong:
        return _outcome(for_right > 0, for_wrong > 0)
    return "right" if for_right > for_wrong else "wrong"


def _outcome(right: bool, wrong: bool) -> Outcome:
    if right and wrong:
        return "both"
    return "right" if right else "wrong" if wrong else "neither"


def _agreement(produced: Counter[str], one: Counter[str], other: Counter[str]) -> int:
    """Count the words of a translation that one candidate has and the other has not."""
    return sum((produced & (one - other)).values())


def _annotated(instance: Instance) -> tuple[str, set[str]] | None:
    """Return the right word and the wrong ones; None if they are not annotated, or not words of the candidates."""
    if instance.forms is None:
        return None
    forms = [form.casefold() for form in instance.forms]
    occur = all(form in words(text) for form, text in zip(forms, instance.candidates, strict=True))
    right = forms[instance.right]
    wrong = {form for i, form in enumerate(forms) if i != instance.right}
    return (right, wrong) if occur and right not in wrong else None


def translate_instances(
    model: Transformer,
    tokenizer: Tokenizer,
    instances: Sequence[Instance],
    config: ContextConfig,
    search: SearchSettings,
    progress: Progress = NULL_PROGRESS,
) -> list[GeneratedTranslation]:
    """Translate the current sentence of each instance after its target context, and judge the translation."""
    requests: dict[tuple[tuple[str, ...], tuple[str, ...]], Request] = {}
    keys = []
    for instance in instances:
        group = candidate_group(instance, config, tokenizer)
        keys.append((group.source, group.target))
        if keys[-1] not in requests:
            source = join_window(map(tokenizer.source.encode, group.source))
            prefix = close_sentences(map(tokenizer.target.encode, group.target))
            requests[keys[-1]] = Request(source, prefix, sentences=len(group.target) + 1)
    engine, texts = Engine([model], search), {}
    order = sorted(requests, key=lambda key: len(requests[key].source))
    with progress.bar("translating", "sentences", len(order)) as bar:
        for start in range(0, len(order), _CHUNK):
            some = order[start : start + _CHUNK]
            for key, best in zip(some, engine([requests[key] for key in some]), strict=True):
                texts[key] = tokenizer.target.decode(best[0].tokens)
            bar.advance(len(some))
    return [
        GeneratedTranslation(texts[key], outcome(texts[key], instance))
        for key, instance in zip(keys, instances, strict=True)
    ]
