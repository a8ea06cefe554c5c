"""Examples of a report: where systems disagree about a suite, and their translations of a document side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from focat.errors import FocatError
from focat.evaluation.quality import reference_digest
from focat.evaluation.results import EvaluationResults, InstanceResult
from focat.evaluation.suites import Instance, Suite
from focat.evaluation.test_sets import TEST_SPLITS, documents_of
from focat.reporting.collect import CollectedResults, ReportedRun, ResultFile

_CONTEXT_SHOWN = 6  # sentences of a document around those in which translations differ


@dataclass(frozen=True)
class TextSpan:
    """Consecutive words, and whether they are highlighted."""

    text: str
    highlighted: bool = False


HighlightedText = list[TextSpan]
"""A sentence, with the words highlighted in which it differs from another."""


@dataclass(frozen=True)
class ShownCandidate:
    """A candidate, whether it is the correct one, and which systems prefer it."""

    text: HighlightedText
    right: bool
    chosen_by: list[str]


@dataclass(frozen=True)
class Disagreement:
    """An instance that some systems answer correctly and others do not."""

    suite: str
    id: str
    phenomenon: str
    distance: int | None
    instance: Instance
    candidates: list[ShownCandidate]
    right: list[str]  # systems
    wrong: list[str]

    @property
    def context(self) -> list[tuple[str, str, bool]]:
        """Context sentences, source and target, and whether that is the one that decides."""
        source, target = list(self.instance.source[:-1]), list(self.instance.target)
        target = [""] * (len(source) - len(target)) + target
        back = range(len(source), 0, -1)
        return [(s, t, d == self.distance) for s, t, d in zip(source, target, back, strict=False)]


@dataclass(frozen=True)
class Translated:
    """A document and its translations by several systems, sentence by sentence."""

    title: str
    source: Sequence[str]
    systems: Mapping[str, Sequence[str]]
    reference: Sequence[str] = ()

    def rows(self) -> Iterator[tuple[str, str, dict[str, HighlightedText], bool]]:
        """Source, reference, the translation of each system, and whether translations differ.

        Words are highlighted that differ from the reference if there is one, else from the first system.
        """
        columns = self.source, self.reference, *self.systems.values()
        for source, reference, *translations in zip_longest(*columns, fillvalue=""):
            other = reference or translations[0]
            shown = {name: highlight(text, other) for name, text in zip(self.systems, translations, strict=True)}
            yield source, reference, shown, len(set(translations)) > 1


@dataclass(frozen=True)
class DisagreementCount:
    """How often only one of two systems is right."""

    first: str
    second: str
    only_first: int
    only_second: int


def highlight(text: str, other: str) -> HighlightedText:
    """A sentence, with the words highlighted that the other does not have in their place."""
    words, others = _words(text), _words(other)
    matcher = SequenceMatcher(None, [word.lower() for word in words], [word.lower() for word in others], autojunk=False)
    spans = [("".join(words[i:j]), kind != "equal") for kind, i, j, _, _ in matcher.get_opcodes() if i < j]
    return [TextSpan(text, differs and not text.isspace()) for text, differs in spans]


def disagreements(
    results: CollectedResults, suites: Sequence[Suite], most: int
) -> tuple[list[Disagreement], list[DisagreementCount]]:
    """Instances that only some systems answer correctly, as varied as can be, and how many there are in all.

    Args:
        results: the results of systems.
        suites: for the texts of instances.
        most: how many instances to return.
    """
    answers: dict[tuple[str, str], dict[str, InstanceResult]] = {}
    for file in results.instances:
        for result in file.content:
            answers.setdefault((result.suite, str(result.id)), {})[file.system] = result
    texts = {(suite.name, str(instance.id)): instance for suite in suites for instance in suite.instances}
    found: list[Disagreement] = []
    for key, of_systems in answers.items():
        right = [name for name, result in of_systems.items() if result.correct]
        wrong = [name for name in of_systems if name not in right]
        instance = texts.get(key) or _instance_in(next(iter(of_systems.values())))
        if right and wrong and instance is not None:
            found.append(_disagreement(key, of_systems, instance, right, wrong))
    # Varied first by phenomenon, then by which systems are right, then by distance.
    chosen = _interleave(found, lambda one: one.phenomenon, lambda one: tuple(one.right), lambda one: one.distance)[
        :most
    ]
    return sorted(chosen, key=lambda one: (one.phenomenon, one.distance or 0)), _disagreement_counts(answers)


def _interleave(items: Sequence[Disagreement], *kinds: Callable[[Disagreement], Any]) -> list[Disagreement]:
    """One of each kind, then a second one of each, and so on; items of one kind are interleaved by the next."""
    if not kinds:
        return list(items)
    groups: dict[Any, list[Disagreement]] = {}
    for one in items:
        groups.setdefault(kinds[0](one), []).append(one)
    queues = [_interleave(group, *kinds[1:]) for group in groups.values()]
    return [one for row in zip_longest(*queues) for one in row if one is not None]


def _disagreement(
    key: tuple[str, str],
    answers: Mapping[str, InstanceResult],
    instance: Instance,
    right: list[str],
    wrong: list[str],
) -> Disagreement:
    first = next(iter(answers.values()))
    correct = instance.candidates[instance.right]
    rivals = [text for text in instance.candidates if text != correct] or [correct]
    shown = []
    for i, text in enumerate(instance.candidates):
        chosen_by = [name for name, result in answers.items() if result.chosen == i]
        if i == instance.right or chosen_by:
            other = rivals[0] if i == instance.right else correct
            shown.append(ShownCandidate(highlight(text, other), i == instance.right, chosen_by))
    shown.sort(key=lambda candidate: not candidate.right)
    return Disagreement(*key, first.phenomenon or key[0], first.distance, instance, shown, right, wrong)


def _instance_in(result: InstanceResult) -> Instance | None:
    """The instance itself, if the result has its source, target and candidates."""
    if not result.source or not result.candidates or not isinstance(result.right, int):
        return None
    return Instance(result.source, result.target, result.candidates, result.right, result.distance, False)


def _disagreement_counts(answers: Mapping[tuple[str, str], Mapping[str, InstanceResult]]) -> list[DisagreementCount]:
    systems = list(dict.fromkeys(name for of_systems in answers.values() for name in of_systems))
    counts = []
    for other in systems[1:]:
        pairs = [(a[systems[0]].correct, a[other].correct) for a in answers.values() if {systems[0], other} <= a.keys()]
        if pairs:
            counts.append(DisagreementCount(systems[0], other, pairs.count((True, False)), pairs.count((False, True))))
    return counts


def translated_document(results: CollectedResults, runs: Sequence[ReportedRun]) -> Translated | None:
    """The document of a test set in which most sentences differ between systems, if its texts can be found."""
    if len(results.evaluations) < 2:
        return None
    digest = results.evaluations[0].content.reference.sha256
    files = [file for file in results.evaluations if file.content.reference.sha256 == digest]
    texts = _texts_of(files, runs, digest)
    systems = {file.system: file.content.translations for file in files}
    if texts is None or len(systems) < 2 or not all(systems.values()):
        return None
    sources, references = texts
    documents = list(zip(*systems.values(), strict=True))  # (documents, systems) of sentences

    def differing(document: int) -> float:
        lines = list(zip(*documents[document], strict=True))
        return sum(len(set(line)) > 1 for line in lines) / (len(lines) + 4)

    chosen = max(range(len(documents)), key=differing)
    if not differing(chosen):
        return None
    of_document = dict(zip(systems, documents[chosen], strict=True))
    title = f"Document {chosen + 1} of {len(documents)}"
    return _cut(Translated(title, sources[chosen], of_document, references[chosen]))


def _cut(whole: Translated) -> Translated:
    """A long document from shortly before the first difference on."""
    differ = [i for i, (*_, different) in enumerate(whole.rows()) if different]
    most = 4 * _CONTEXT_SHOWN
    if len(whole.source) <= most:
        return whole
    start = max(0, min(differ[0] - _CONTEXT_SHOWN, len(whole.source) - most))
    part = slice(start, start + most)
    return Translated(
        f"{whole.title}, sentences {start + 1} to {start + most}",
        whole.source[part],
        {name: sentences[part] for name, sentences in whole.systems.items()},
        whole.reference[part],
    )


def _texts_of(
    files: Sequence[ResultFile[EvaluationResults]], runs: Sequence[ReportedRun], digest: str
) -> tuple[list[list[str]], list[list[str]]] | None:
    """Sources and references from the corpora of a run, if they are those that were translated."""
    names = [file.system for file in files]
    for reported in (reported for reported in runs if reported.name in names):
        for split in TEST_SPLITS:
            try:
                documents = documents_of(reported.run, split)
            except FocatError:  # the run was copied here without its corpora
                continue
            references = [list(document.target) for document in documents]
            if reference_digest(references) == digest:
                return [list(document.source) for document in documents], references
    return None


def _words(text: str) -> list[str]:
    """Words, marks and the spaces between them; together they are the text."""
    return re.findall(r"\w+|\s+|[^\w\s]", text)
