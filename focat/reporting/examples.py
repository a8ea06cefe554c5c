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
from focat.evaluation.suites import Instance, Suite
from focat.evaluation.test_sets import TEST_SPLITS, documents_of
from focat.reporting.gather import Record, ResultFile, Results, Trained

_CONTEXT_SHOWN = 6  # sentences of a document around those in which translations differ


@dataclass(frozen=True)
class Stretch:
    """Some words, and whether they are what matters."""

    text: str
    marked: bool = False


Marked = list[Stretch]
"""A sentence whose words stand out where it differs from another."""


@dataclass(frozen=True)
class Candidate:
    """A possible translation, whether it is right, and which systems prefer it."""

    text: Marked
    right: bool
    chosen_by: list[str]


@dataclass(frozen=True)
class Disagreement:
    """An instance about which some systems are right and others wrong."""

    suite: str
    id: str
    phenomenon: str
    distance: int | None
    instance: Instance
    candidates: list[Candidate]
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
    """A document and what systems make of it, sentence by sentence."""

    title: str
    source: Sequence[str]
    systems: Mapping[str, Sequence[str]]
    reference: Sequence[str] = ()

    def rows(self) -> Iterator[tuple[str, str, dict[str, Marked], bool]]:
        """Source, reference, and what each system says, with the words marked in which it differs; and if any does.

        From the reference if there is one, else from the first system.
        """
        for source, reference, *said in zip_longest(self.source, self.reference, *self.systems.values(), fillvalue=""):
            model = reference or said[0]
            shown = {name: marked(text, model) for name, text in zip(self.systems, said, strict=True)}
            yield source, reference, shown, len(set(said)) > 1


@dataclass(frozen=True)
class Tally:
    """How often two systems disagree, which way."""

    first: str
    second: str
    only_first: int
    only_second: int


def marked(text: str, other: str) -> Marked:
    """A sentence, with the words marked that the other does not have in their place."""
    words, others = _words(text), _words(other)
    matcher = SequenceMatcher(None, [word.lower() for word in words], [word.lower() for word in others], autojunk=False)
    stretches = [Stretch("".join(words[i:j]), kind != "equal") for kind, i, j, _, _ in matcher.get_opcodes() if i < j]
    return [Stretch(each.text, each.marked and not each.text.isspace()) for each in stretches]


def disagreements(results: Results, suites: Sequence[Suite], most: int) -> tuple[list[Disagreement], list[Tally]]:
    """Some instances on which systems part, as many of each phenomenon and way as can be; and how many there are."""
    answers: dict[tuple[str, str], dict[str, Record]] = {}
    for file in results.answers:
        for record in file.records:
            answers.setdefault((str(record["suite"]), str(record["id"])), {})[file.system] = record
    texts = {(suite.name, str(instance.id)): instance for suite in suites for instance in suite.instances}
    found: list[Disagreement] = []
    for key, of_systems in answers.items():
        right = [name for name, record in of_systems.items() if record["correct"] is True]
        wrong = [name for name in of_systems if name not in right]
        instance = texts.get(key) or _instance_in(next(iter(of_systems.values())))
        if right and wrong and instance is not None:
            found.append(_disagreement(key, of_systems, instance, right, wrong))
    # As different as can be: of each phenomenon, then each way to disagree, then each distance, one after the other.
    chosen = _in_turn(found, lambda one: one.phenomenon, lambda one: tuple(one.right), lambda one: one.distance)[:most]
    return sorted(chosen, key=lambda one: (one.phenomenon, one.distance or 0)), _tallies(answers)


def _in_turn(items: Sequence[Disagreement], *kinds: Callable[[Disagreement], Any]) -> list[Disagreement]:
    """One of each kind, then a second one of each, and so on; the same within kinds, by what else tells them apart."""
    if not kinds:
        return list(items)
    groups: dict[Any, list[Disagreement]] = {}
    for one in items:
        groups.setdefault(kinds[0](one), []).append(one)
    queues = [_in_turn(group, *kinds[1:]) for group in groups.values()]
    return [one for row in zip_longest(*queues) for one in row if one is not None]


def _disagreement(
    key: tuple[str, str],
    answers: Mapping[str, Record],
    instance: Instance,
    right: list[str],
    wrong: list[str],
) -> Disagreement:
    first = next(iter(answers.values()))
    correct = instance.candidates[instance.right]
    rivals = [text for text in instance.candidates if text != correct] or [correct]
    shown = []
    for i, text in enumerate(instance.candidates):
        chosen_by = [name for name, record in answers.items() if record.get("chosen") == i]
        if i == instance.right or chosen_by:
            shown.append(
                Candidate(marked(text, rivals[0] if i == instance.right else correct), i == instance.right, chosen_by)
            )
    shown.sort(key=lambda candidate: not candidate.right)
    distance = first.get("distance")
    return Disagreement(*key, str(first.get("phenomenon") or key[0]), distance, instance, shown, right, wrong)


def _instance_in(record: Record) -> Instance | None:
    """The instance itself, if the answer to it tells it: source, target and candidates."""
    try:
        return Instance(
            [str(text) for text in record["source"]],
            [str(text) for text in record["target"]],
            [str(text) for text in record["candidates"]],
            int(record["right"]),
            record.get("distance"),
            False,
        )
    except (KeyError, TypeError, ValueError):
        return None


def _tallies(answers: Mapping[tuple[str, str], Mapping[str, Record]]) -> list[Tally]:
    systems = list(dict.fromkeys(name for of_systems in answers.values() for name in of_systems))
    tallies = []
    for other in systems[1:]:
        pairs = [
            (a[systems[0]]["correct"], a[other]["correct"]) for a in answers.values() if {systems[0], other} <= a.keys()
        ]
        if pairs:
            tallies.append(Tally(systems[0], other, pairs.count((True, False)), pairs.count((False, True))))
    return tallies


def translated_document(results: Results, runs: Sequence[Trained]) -> Translated | None:
    """The document of a test set in which most sentences differ between systems, if its texts can be found."""
    first = next((file.records[0] for file in results.evaluations), None)
    if first is None or len(results.evaluations) < 2:
        return None
    digest = first["reference"]["sha256"]
    files = [file for file in results.evaluations if file.records[0]["reference"]["sha256"] == digest]
    texts = _texts_of(files, runs, digest)
    systems = {file.system: file.records[0].get("translations") for file in files}
    if texts is None or len(systems) < 2 or not all(systems.values()):
        return None
    sources, references = texts
    said = list(zip(*systems.values(), strict=True))  # (documents, systems) of sentences

    def differing(document: int) -> float:
        lines = list(zip(*said[document], strict=True))
        return sum(len(set(line)) > 1 for line in lines) / (len(lines) + 4)

    chosen = max(range(len(said)), key=differing)
    if not differing(chosen):
        return None
    of_document = dict(zip(systems, said[chosen], strict=True))
    title = f"Document {chosen + 1} of {len(said)}"
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
        {name: said[part] for name, said in whole.systems.items()},
        whole.reference[part],
    )


def _texts_of(
    files: Sequence[ResultFile], runs: Sequence[Trained], digest: str
) -> tuple[list[list[str]], list[list[str]]] | None:
    """Sources and references from the corpora of a run, if they are those that were translated."""
    names = [file.system for file in files]
    for trained in (trained for trained in runs if trained.name in names):
        for split in TEST_SPLITS:
            try:
                documents = documents_of(trained.run, split)
            except FocatError:  # the run was copied here without its corpora
                continue
            references = [list(document.target) for document in documents]
            if reference_digest(references) == digest:
                return [list(document.source) for document in documents], references
    return None


def _words(text: str) -> list[str]:
    """Words, marks and the spaces between them; together they are the text."""
    return re.findall(r"\w+|\s+|[^\w\s]", text)
