"""CTXPro (Wicks and Post, 2023): sentences whose translation needs context, each with the form that a right one has.

A translation is right if the form occurs in it: so its authors measure, and so do we. Where the file has the other
forms of the same pronoun, the reference with one of them in its place is a wrong candidate as well.
"""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from focat.corpus.text_files import Lines
from focat.evaluation.suites.contrapro import ContextFiles, ContextFolder, Contexts, SegmentEntry
from focat.evaluation.suites.instance import Instance, Text

JOINED_BY = "<eos>"
"""Stands between the sentences of a line in the published inputs; the last of them is the current one."""
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_GENDERS = frozenset(["MASC", "FEM", "NEUT"])
_LABELS = ("src pronoun", "src verb", "src noun", "intrasegmental", "document id", "segment id")


class CtxProEntry(SegmentEntry):
    """One entry of the published JSON."""

    expected: Text
    rule: Text

    @property
    def position(self) -> tuple[str, int]:
        """The document, without the folders in front of its name, and the number of the segment."""
        document, segment = super().position
        return document.rpartition("/")[2], segment


def contains_form(text: str, form: str) -> bool:
    """Whether a translation has the expected form: the rule of `ctxpro score`.

    Case does not matter, ASCII punctuation is deleted, and the form stands between spaces.
    """
    return f" {form.lower()} " in f" {text.lower().translate(_WITHOUT_PUNCTUATION)} "


def ctxpro_instances(
    entries: Sequence[object],
    context: ContextFiles | ContextFolder | None = None,
    phenomenon: str = "",
    where: str = "suite",
) -> list[Instance]:
    """Read the published JSON with its context: the published inputs, or documents."""
    read = [CtxProEntry.read(entry, f"{where}, entry {i}") for i, entry in enumerate(entries, 1)]
    contexts: Contexts = [((), ())] * len(read)
    if isinstance(context, ContextFolder):
        contexts = context.read(read)
    elif context is not None:
        contexts = _inputs(context.source, read)
        if context.target is not None:
            targets = _inputs(context.target, read, with_current=False)
            contexts = [(source, target) for (source, _), (target, _) in zip(contexts, targets, strict=True)]
    forms = _other_forms(read)
    return [
        _instance(entry, *sides, forms, phenomenon, number)
        for number, (entry, sides) in enumerate(zip(read, contexts, strict=True))
    ]


def _instance(
    entry: CtxProEntry,
    source: Sequence[str],
    target: Sequence[str],
    forms: Mapping[str, Mapping[str, str]],
    phenomenon: str,
    number: int,
) -> Instance:
    others = forms[entry.rule]
    candidates = [entry.reference]
    found = _occurrences(entry)
    if len(found) == 1:  # or nobody knows which of them is meant
        begin, end = found[0].span()
        for other in others.values():
            # Words that agree with the form stay as they are.
            written = other[0].upper() + other[1:] if _starts_sentence(entry.reference, begin) else other
            candidates.append(entry.reference[:begin] + written + entry.reference[end:])
    labels = {name: value for name in _LABELS if (value := entry.extra(name)) is not None}
    return Instance(
        [*source, entry.source],
        target,
        candidates,
        0,
        entry.distance,
        strict=True,
        phenomenon=phenomenon,
        id=number,
        labels={"rule": entry.rule, "expected": entry.expected, **labels},
        forms=[entry.expected, *others],
        expected=entry.expected,
    )


def _inputs(path: Path, entries: Sequence[CtxProEntry], with_current: bool = True) -> Contexts:
    """The context of each entry from a line of its own; the line ends with the current sentence, if it is an input."""
    lines = Lines(path)
    texts = list(lines)
    if len(texts) != len(entries):
        raise lines.error(f"the last line, but the suite has {len(entries):,} entries, each with a line of context")
    contexts: list[tuple[list[str], list[str]]] = []
    for number, (text, entry) in enumerate(zip(texts, entries, strict=True), 1):
        sentences = [sentence.strip() for sentence in text.split(JOINED_BY)]
        if with_current and "".join(sentences.pop().split()) != "".join(entry.source.split()):
            raise entry.error(f"line {number} of {path} does not end with its `src segment`; it is of another suite")
        contexts.append(([sentence for sentence in sentences if sentence], []))
    return contexts


def _other_forms(entries: Sequence[CtxProEntry]) -> dict[str, dict[str, str]]:
    """For each rule, the forms of the rules that differ from it in gender or formality alone, as they are written."""
    spelled: dict[str, Counter[str]] = defaultdict(Counter)  # by form: how it is written inside a sentence
    rules: dict[str, Counter[str]] = defaultdict(Counter)  # by rule: its forms
    for entry in entries:
        form = entry.expected.lower()
        rules[entry.rule][form] += 1
        for found in _occurrences(entry):
            if not _starts_sentence(entry.reference, found.start()):
                spelled[entry.rule][found[0]] += 1
    groups: dict[str, list[str]] = defaultdict(list)
    for rule in rules:
        groups[_slot(rule) or rule].append(rule)
    others: dict[str, dict[str, str]] = {}
    for rule, forms in rules.items():
        same_slot = [other for other in groups[_slot(rule) or rule] if other != rule] if _slot(rule) else []
        others[rule] = {}
        for other in same_slot:
            form = rules[other].most_common(1)[0][0]
            written = spelled[other].most_common(1)
            if form not in forms:
                others[rule].setdefault(form, written[0][0] if written else form)
    return others


def _slot(rule: str) -> str | None:
    """What the forms that could stand in the same place have in common: case, number, possessor; None if unknown.

    Of formality, subjects are left out: the verb would have to agree.
    """
    case, *features = rule.split(".")
    if any(feature.startswith(("FORM", "INFORM")) for feature in features):
        return None if case == "NOM" or features[-1] in ("ALT", "ALT1", "LIAS") else f"{case} of address"
    if _GENDERS & set(features):
        return ".".join([case, *(feature for feature in features if feature not in _GENDERS)])
    return None


def _occurrences(entry: CtxProEntry) -> list[re.Match[str]]:
    return list(re.finditer(rf"(?<!\w){re.escape(entry.expected)}(?!\w)", entry.reference, re.IGNORECASE))


def _starts_sentence(text: str, begin: int) -> bool:
    """Whether a word is the first of a sentence."""
    before = text[:begin].rstrip(" \"'«„“-–—")
    return not before or before[-1] in ".!?…:"
