"""Whether a translation says the right thing, where a suite knows what is right: scoring is not translating.

A sentence is translated in its context, and its words are compared with those that tell the right candidate from the
wrong ones: the pronoun that a suite is annotated with, or else all words in which candidates differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from focat.config.schema import SearchSettings
from focat.corpus.tokenizer import Tokenizer
from focat.corpus.vocabulary import END, SEPARATOR
from focat.decoding.engine import Engine
from focat.decoding.requests import Request
from focat.evaluation.contrastive import Context, group_of
from focat.evaluation.suites.instance import Instance
from focat.model.transformer import Transformer
from focat.progress import NULL_PROGRESS, Progress

Outcome = Literal["right", "wrong", "both", "neither"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_AT_A_TIME = 1024  # sentences between two signs of life
_WORD = re.compile(r"\w+(?:[-']\w+)*")


@dataclass(frozen=True)
class Produced:
    """What a model said, and what is to be thought of it."""

    text: str
    outcome: Outcome


def words(text: str) -> Counter[str]:
    """The words of a sentence, without regard to case."""
    return Counter(word.casefold() for word in _WORD.findall(text))


def outcome(text: str, instance: Instance) -> Outcome:
    """Which of the candidates a translation agrees with.

    With annotated words: whether the right one is there, and any of the wrong ones. Without, the words in which right
    and wrong candidates differ are counted: most of them decide; as many of both is `both`.
    """
    said = words(text)
    pronouns = _annotated(instance)
    if pronouns is not None:
        right_word, wrong_words = pronouns
        return _of_two(right_word in said, any(word in said for word in wrong_words))
    right = words(instance.candidates[instance.right])
    wrong = [words(text) for i, text in enumerate(instance.candidates) if i != instance.right]
    for_right = max((_agreement(said, right, other) for other in wrong), default=0)
    for_wrong = max((_agreement(said, other, right) for other in wrong), default=0)
    if for_right == for_wrong:
        return _of_two(for_right > 0, for_wrong > 0)
    return "right" if for_right > for_wrong else "wrong"


def _of_two(right: bool, wrong: bool) -> Outcome:
    if right and wrong:
        return "both"
    return "right" if right else "wrong" if wrong else "neither"


def _agreement(said: Counter[str], one: Counter[str], other: Counter[str]) -> int:
    """How many of the words that one candidate has and the other has not were said."""
    return sum((said & (one - other)).values())


def _annotated(instance: Instance) -> tuple[str, set[str]] | None:
    """The word that is right and those that are wrong; None if they are not words in which the candidates differ."""
    if instance.forms is None:
        return None
    forms = [form.casefold() for form in instance.forms]
    there = all(form in words(text) for form, text in zip(forms, instance.candidates, strict=True))
    right = forms[instance.right]
    wrong = {form for i, form in enumerate(forms) if i != instance.right}
    return (right, wrong) if there and right not in wrong else None


def produce(
    model: Transformer,
    tokenizer: Tokenizer,
    instances: Sequence[Instance],
    given: Context,
    search: SearchSettings,
    progress: Progress = NULL_PROGRESS,
) -> list[Produced]:
    """Translate the current sentence of each instance after its target context, and judge it."""
    requests: dict[tuple[tuple[str, ...], tuple[str, ...]], Request] = {}
    keys = []
    for instance in instances:
        group = group_of(instance, given, tokenizer)
        keys.append((group.source, group.target))
        if keys[-1] not in requests:
            source = _closed(tokenizer.source.encode(sentence) for sentence in group.source)
            source[-1] = END
            prefix = _closed(tokenizer.target.encode(sentence) for sentence in group.target)
            requests[keys[-1]] = Request(source, prefix, sentences=len(group.target) + 1)
    engine, texts = Engine([model], search), {}
    order = sorted(requests, key=lambda key: len(requests[key].source))
    with progress.bar("translating", "sentences", len(order)) as bar:
        for start in range(0, len(order), _AT_A_TIME):
            some = order[start : start + _AT_A_TIME]
            for key, best in zip(some, engine([requests[key] for key in some]), strict=True):
                texts[key] = tokenizer.target.decode(best[0].tokens)
            bar.advance(len(some))
    return [Produced(texts[key], outcome(texts[key], instance)) for key, instance in zip(keys, instances, strict=True)]


def _closed(sentences: Iterable[list[int]]) -> list[int]:
    return [token for sentence in sentences for token in (*sentence, SEPARATOR)]
