"""Glossaries and do-not-translate lists: which terms a sentence has, and what its translation must contain for each.

A glossary is a table, `source<TAB>target` on each line, with further forms of the target in further columns or after
`|`; or with a header that names the columns. A list of terms to keep has one on each line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from focat.corpus.text_files import Lines
from focat.corpus.word_boundaries import UNSPACED
from focat.errors import ParameterError
from focat.translation.arguments import check_sentence, check_type, list_of
from focat.translation.options import GlossaryInput, KeepInput

_COMMENT = re.compile(r"\s*(?:#(?:\s|$)|$)")  # a blank line, too; `#tag` is a term
_WORD = re.compile(rf"{UNSPACED}|(?:(?!{UNSPACED})\w)+|[^\w\s]")
_SENSITIVE = {"": None, "yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


class Term(NamedTuple):
    """A term that occurs in a sentence."""

    forms: tuple[str, ...]
    """What its translation may be."""
    start: int
    """Where in the sentence it begins."""


@dataclass(frozen=True)
class _Entry:
    source: str
    forms: tuple[str, ...]
    sensitive: bool  # to case

    def occurs(self, text: str, start: int) -> bool:
        """Whether it occurs at this place of a text, as whole words."""
        end = start + len(self.source)
        found = text[start:end]
        if found != self.source and (self.sensitive or found.lower() != self.source.lower()):
            return False
        return end == len(text) or not (_in_word(text[end - 1]) and _in_word(text[end]))


class Terminology:
    """The terms of a job, found in sentences: of those that begin at the same word, the longest."""

    def __init__(self, glossary: GlossaryInput | None = None, keep: KeepInput | None = None) -> None:
        """Read a glossary and a list of terms to keep.

        Args:
            glossary: a file, or targets by source: one form, or several.
            keep: a file, or terms, which translations must contain as they are.

        Raises:
            FocatError: a file cannot be read, or one of its lines; the error names it.
        """
        forms: dict[tuple[str, bool], dict[str, None]] = {}
        for source, targets, sensitive in _glossary_entries(glossary):
            for form in targets:
                forms.setdefault((source, sensitive), {}).update({form: None, form[0].upper() + form[1:]: None})
        self.entries = [_Entry(term, (term,), sensitive=True) for term in _kept_terms(keep)]
        self.entries += [_Entry(source, tuple(targets), sensitive) for (source, sensitive), targets in forms.items()]
        self._by_word: dict[str, list[_Entry]] = {}  # by the first word, the longest first; of equal ones, what is kept
        for entry in sorted(self.entries, key=lambda entry: -len(entry.source)):
            first = _WORD.search(entry.source)
            if first:
                self._by_word.setdefault(first[0].lower(), []).append(entry)

    def find(self, text: str, required: Iterable[tuple[str, ...]] = ()) -> list[Term]:
        """The terms of a sentence, in order, without phrases that are required already; none overlaps another."""
        found: list[Term] = []
        already = Counter(required)
        end = 0
        for word in _WORD.finditer(text):
            if word.start() < end:
                continue
            for entry in self._by_word.get(word[0].lower(), ()):
                if entry.occurs(text, word.start()):
                    already[entry.forms] -= 1
                    if already[entry.forms] < 0:
                        found.append(Term(entry.forms, word.start()))
                    end = word.start() + len(entry.source)
                    break
        return found


def _glossary_entries(glossary: GlossaryInput | None) -> Iterator[tuple[str, list[str], bool]]:
    """Source, forms of the target, and whether case matters."""
    if isinstance(glossary, str | Path):
        yield from _read_glossary(Lines(Path(glossary)))
    elif glossary is not None:
        check_type("glossary", glossary, Mapping, "a file, or a dictionary of targets by source")
        for source, target in glossary.items():
            check_sentence("glossary", source)
            forms = [target] if isinstance(target, str) else list_of(f"glossary[{source!r}]", target, "forms")
            for form in forms:
                check_sentence(f"glossary[{source!r}]", form)
            if not source.strip() or not forms or not all(form.strip() for form in forms):
                raise ParameterError("glossary", repr(source), "has an empty source, or an empty target")
            yield source.strip(), [form.strip() for form in forms], _has_inner_capital(source.strip())


def _read_glossary(lines: Lines) -> Iterator[tuple[str, list[str], bool]]:
    header: list[str] | None = None
    first = True
    for line in lines:
        if _COMMENT.match(line):
            continue
        cells = [cell.strip() for cell in line.rstrip("\r\n").split("\t")]
        names = [cell.lower() for cell in cells]
        if first and "source" in names and "target" in names:
            header, first = names, False
            continue
        first = False
        if len(cells) < 2:
            raise lines.error("has no tab; a line is `source`, a tab, `target`")
        case = None
        if header is None:
            sources, targets = cells[0], cells[1:]
        else:
            named = dict(zip(header, cells, strict=False))
            sources, targets = named["source"], [named.get("target", "")]
            if named.get("case", "").lower() not in _SENSITIVE:
                raise lines.error(f"case is `{named['case']}`; write yes, no, or nothing")
            case = _SENSITIVE[named.get("case", "").lower()]
        forms = [form for target in targets for form in _forms(target)]
        if not _forms(sources) or not forms:
            raise lines.error(
                f"has no {'target' if _forms(sources) else 'source'}; a line is `source`, a tab, `target`"
            )
        for source in _forms(sources):
            yield source, forms, _has_inner_capital(source) if case is None else case


def _forms(cell: str) -> list[str]:
    """The forms of a cell, between bars."""
    return [form.strip() for form in cell.split("|") if form.strip()]


def _kept_terms(keep: KeepInput | None) -> Iterator[str]:
    if isinstance(keep, str | Path):
        lines = Lines(Path(keep))
        for line in lines:
            if _COMMENT.match(line):
                continue
            if "\t" in line.strip():
                raise lines.error("has a tab; a list of terms to keep has one term on each line")
            yield line.strip()
    elif keep is not None:
        for i, term in enumerate(list_of("keep", keep, "a file, or a list of terms")):
            check_sentence(f"keep[{i}]", term)
            if not term.strip():
                raise ParameterError(f"keep[{i}]", repr(term), "is empty")
            yield term.strip()


def _has_inner_capital(source: str) -> bool:
    """Whether a term has capitals beyond its first letter, as `IT`: then case matters."""
    return any(character.isupper() for character in source[1:])


def _in_word(character: str) -> bool:
    return bool(re.match(r"\w", character)) and not re.match(UNSPACED, character)


def occurrences(forms: Iterable[str], text: str) -> int:
    """How often one of these forms occurs in a text as whole words; of those that overlap, the first counts."""
    return len(list(_pattern(tuple(sorted(forms, key=len, reverse=True))).finditer(text)))


def _pattern(forms: tuple[str, ...]) -> re.Pattern[str]:
    parts = []
    for form in forms:
        left = rf"(?<!(?!{UNSPACED})\w)" if _in_word(form[0]) else ""
        right = rf"(?!(?!{UNSPACED})\w)" if _in_word(form[-1]) else ""
        parts.append(left + re.escape(form) + right)
    return re.compile("|".join(parts))
