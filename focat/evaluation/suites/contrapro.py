"""ContraPro (Müller et al., 2018, En→De) and the En→Fr set of Lopes et al. (2020), which shares its layout.

The sentences are in the JSON, their context is not: it comes as two text files with some lines for each candidate, or
as the folder of subtitle documents from which those lines were taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue

from focat.corpus.text_files import DECOMPRESSORS, read_lines
from focat.errors import FocatError
from focat.evaluation.suites.instance import Distance, Instance, SuiteEntry, Text

Contexts = Sequence[tuple[Sequence[str], Sequence[str]]]  # of each entry: on the source and on the target, oldest first
_LABELS = ("src pronoun", "ref pronoun", "intrasegmental", "document id", "segment id", "corpus")


class Distractor(SuiteEntry):
    """A wrong translation, and the word that replaces the right pronoun in it."""

    contrastive: Text
    replacement: JsonValue = None


class SegmentEntry(SuiteEntry):
    """A segment of OpenSubtitles with its translation; what is not a field here is kept as it is."""

    model_config = ConfigDict(extra="allow")

    source: Text = Field(alias="src segment")
    reference: Text = Field(alias="ref segment")
    distance: Distance = Field(None, alias="ante distance")

    @property
    def position(self) -> tuple[str, int]:
        """The document it is from, and the number of its segment there."""
        document, segment = self.extra("document id"), self.extra("segment id")
        if not isinstance(document, str) or not isinstance(segment, int):
            raise self.error("has no `document id` and `segment id`, by which context is found in documents")
        return document, segment

    def extra(self, name: str) -> JsonValue:
        """Return another field of the JSON; None if it is not there."""
        return (self.model_extra or {}).get(name)


class ContraProEntry(SegmentEntry):
    """One entry of the published JSON."""

    errors: Annotated[list[Distractor], Field(min_length=1)]

    @property
    def candidates(self) -> list[str]:
        """The reference, then the distractors."""
        return [self.reference, *(error.contrastive for error in self.errors)]

    def instance(self, source: Sequence[str], target: Sequence[str], phenomenon: str, number: int) -> Instance:
        """Return the instance in the common form, in its context."""
        annotated = [self.extra("ref pronoun"), *(error.replacement for error in self.errors)]
        forms = [form for form in annotated if isinstance(form, str) and form]
        return Instance(
            [*source, self.source],
            target,
            self.candidates,
            0,
            self.distance,
            strict=True,
            phenomenon=phenomenon,
            id=number,
            labels={name: value for name in _LABELS if (value := self.extra(name)) is not None},
            forms=forms if len(forms) == len(self.candidates) else None,
        )


@dataclass(frozen=True)
class ContextFiles:
    """Context as text: equally many lines for each candidate, oldest first; the reference, then its distractors."""

    source: Path
    target: Path | None = None
    """CTXPro has none."""

    def read(self, entries: Sequence[ContraProEntry]) -> Contexts:
        """Read the context of each entry.

        The files of the French set are in another order than its JSON; its sentences, in files beside them, identify
        the lines.
        """
        if self.target is None:
            raise FocatError("give both of context_source and context_target, or neither")
        paths = (self.source, self.target)
        beside = [_beside(path) for path in paths]
        order = list(range(len(entries)))
        if all(path.exists() for path in beside):
            order = _order_of([list(read_lines(path)) for path in beside], entries, str(beside[1]))
        in_order = [entries[i] for i in order]
        sides = [context_lines(list(read_lines(path)), in_order, str(path)) for path in paths]
        of_entry = dict(zip(order, zip(*sides, strict=True), strict=True))
        return [of_entry[i] for i in range(len(entries))]


@dataclass(frozen=True)
class ContextFolder:
    """Context as documents: a file per document and language, a line per segment, in folders of any depth."""

    folder: Path
    languages: tuple[str, str]  # the endings of the two files of a document
    most: int = 15  # sentences that are kept

    def read(self, entries: Sequence[SegmentEntry]) -> Contexts:
        """Read the context of each entry, by its `document id` and `segment id`."""
        if not self.folder.is_dir():
            raise FocatError(f"{self.folder}: no such folder; give the one that holds the documents")
        files = {_plain_name(path): path for path in sorted(self.folder.rglob("*")) if path.is_file()}
        documents: dict[str, tuple[list[str], list[str]]] = {}
        for entry in entries:
            name = entry.position[0]
            if name not in documents:
                documents[name] = self._document(name, files, entry)
        first = _counted_from(entries, documents)
        contexts = []
        for entry in entries:
            name, segment = entry.position
            (source, target), end = documents[name], segment - first
            kept = slice(max(0, end - self.most), end)
            contexts.append((_after_blank(source[kept]), _after_blank(target[kept])))
        return contexts

    def _document(self, name: str, files: dict[str, Path], entry: SegmentEntry) -> tuple[list[str], list[str]]:
        sides = []
        for language in self.languages:
            names = [f"{stem}.{language}" for stem in (name.rpartition(".")[0], name) if stem]
            found = [files[name] for name in names if name in files]
            if not found:
                raise entry.error(f"{self.folder} holds no {names[0]}, a side of document {name!r}")
            sides.append([line.strip() for line in read_lines(found[0])])
        source, target = sides
        if len(source) != len(target):
            raise entry.error(
                f"document {name!r} has {len(source)} lines on the source and {len(target)} on the target"
            )
        return source, target


def contrapro_instances(
    entries: Sequence[object],
    context: ContextFiles | ContextFolder | tuple[Sequence[str], Sequence[str]] | None = None,
    phenomenon: str = "pronoun",
    where: str = "suite",
) -> list[Instance]:
    """Read the published JSON with its context, which may also be given as the lines of the two files."""
    read = [ContraProEntry.read(entry, f"{where}, entry {i}") for i, entry in enumerate(entries, 1)]
    contexts: Contexts
    if context is None:
        contexts = [((), ())] * len(read)
    elif isinstance(context, tuple):
        contexts = list(zip(*(context_lines(lines, read, "context") for lines in context), strict=True))
    else:
        contexts = context.read(read)
    return [
        entry.instance(source, target, phenomenon, i)
        for i, (entry, (source, target)) in enumerate(zip(read, contexts, strict=True))
    ]


def context_lines(lines: Sequence[str], entries: Sequence[ContraProEntry], where: str) -> list[list[str]]:
    """Return the context of each entry from lines that are repeated for each of its candidates."""
    sizes = [len(entry.candidates) for entry in entries]
    candidates = sum(sizes)
    count, rest = divmod(len(lines), candidates)
    if rest or not count:
        raise FocatError(
            f"{where}: has {len(lines):,} lines for {candidates:,} candidates of {len(entries):,} entries; "
            "expected the same number for each candidate: it is of another suite, or cut short"
        )
    contexts, start = [], 0
    for entry, size in zip(entries, sizes, strict=True):
        blocks = [[line.strip() for line in lines[start + i * count :][:count]] for i in range(size)]
        if any(block != blocks[0] for block in blocks):
            raise entry.error(f"its candidates have different context in {where}, from line {start + 1} on")
        contexts.append(_after_blank(blocks[0]))
        start += count * size
    return contexts


def _beside(path: Path) -> Path:
    """Return the path of the sentences, X.current.src, beside X.context.src or, as published, X.c3.context.src."""
    name, dot, rest = path.name.rpartition(".context.")
    if not dot:
        return path / "none"
    own = path.with_name(f"{name}.current.{rest}")
    shared = path.with_name(f"{re.sub(r'[.]c[0-9]+$', '', name)}.current.{rest}")
    return own if own.exists() else shared


def _order_of(sentences: Sequence[Sequence[str]], entries: Sequence[ContraProEntry], where: str) -> list[int]:
    """Return the order in which the sentences of entries, a line for each candidate, occur in two files."""
    waiting: dict[tuple[str, ...], list[int]] = {}
    # Entries with the same sentences, in different films, are in the order of their documents, as the set was written.
    for i, entry in sorted(enumerate(entries), key=lambda pair: str(pair[1].extra("document id"))):
        waiting.setdefault(tuple(map(_squeezed, (entry.source, *entry.candidates))), []).append(i)
    sizes = {len(key) - 1 for key in waiting}
    pairs = [(_squeezed(source), _squeezed(target)) for source, target in zip(*sentences, strict=False)]
    order, line = [], 0
    while line < len(pairs):
        for size in sizes:
            key = (pairs[line][0], *(target for _, target in pairs[line : line + size]))
            if waiting.get(key):
                order.append(waiting[key].pop(0))
                line += size
                break
        else:
            raise FocatError(f"{where}, line {line + 1}: starts no entry of the suite; the files are of another suite")
    if len(order) != len(entries):
        raise FocatError(f"{where}: holds {len(order):,} of the {len(entries):,} entries of the suite")
    return order


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _after_blank(lines: Sequence[str]) -> list[str]:
    """Return what follows the last blank line; a blank line is before the start of the document."""
    begin = max((i + 1 for i, line in enumerate(lines) if not line), default=0)
    return list(lines[begin:])


def _counted_from(entries: Sequence[SegmentEntry], documents: dict[str, tuple[list[str], list[str]]]) -> int:
    """Return whether `segment id` counts from 1, as in ContraPro, or from 0, as in the French set, by the text."""

    def mismatch(first: int) -> SegmentEntry | None:
        return next((entry for entry in entries if not _is_at(entry, documents, first)), None)

    wrong = mismatch(1)
    if wrong is not None and mismatch(0) is not None:
        document, segment = wrong.position
        raise wrong.error(
            f"`src segment` is not what segment {segment} of document {document!r} says; "
            "the documents are others than those the suite was made from"
        )
    return 1 if wrong is None else 0


def _is_at(entry: SegmentEntry, documents: dict[str, tuple[list[str], list[str]]], first: int) -> bool:
    document, segment = entry.position
    source, i = documents[document][0], segment - first
    return 0 <= i < len(source) and _squeezed(source[i]) == _squeezed(entry.source)


def _plain_name(path: Path) -> str:
    return path.stem if path.suffix in DECOMPRESSORS else path.name
