"""XLIFF 1.2 and 2: units without a translation are filled in; everything else stays byte for byte.

Each `<file>` is a document, in the order of its units. Units that are translated are context for those that follow.
What is filled in gets the state of a translation that nobody has looked at yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from focat.translation.formats.blocks import Block, as_context
from focat.translation.formats.encodings import declared_as
from focat.translation.formats.entities import Spelling
from focat.translation.formats.lines import InputLines
from focat.translation.formats.markup import Token, check_xml, joined, read_text, tokens
from focat.translation.formats.segments import FileSegment, FormatOptions, verbatim
from focat.translation.inline import InlineText, Part, Tag
from focat.translation.result import Translation

_UNITS = {"trans-unit", "segment"}  # of XLIFF 1.2, and of 2
_UNTRANSLATED = {"new", "needs-translation", "initial"}
_FILLED = {"trans-unit": "needs-review-translation", "segment": "translated"}
# elements that begin or end something that is not an element
_HALVES: dict[str, Literal["open", "close"]] = {
    **dict.fromkeys(("bx", "bpt", "sc", "sm"), "open"),
    **dict.fromkeys(("ex", "ept", "ec", "em"), "close"),
}
_PROTECTED = {"bpt", "ept", "ph", "it"}  # in XLIFF 1.2, their content is code


@dataclass(frozen=True)
class _Unit:
    """A unit with its source and, perhaps, its target."""

    tokens: list[Token]
    children: dict[str, range]
    """The tokens of source, seg-source and target, with their tags; by name."""

    @property
    def source(self) -> list[Token]:
        """What is to be translated: if it is divided into segments, with their tags."""
        return self._content("seg-source" if "seg-source" in self.children else "source")

    @property
    def target(self) -> list[Token]:
        """Its translation; empty if it has none."""
        return self._content("target")

    def _content(self, name: str) -> list[Token]:
        span = self.children.get(name)
        return self.tokens[span.start + 1 : span.stop - 1] if span else []

    @property
    def is_translated(self) -> bool:
        """Whether it has a translation that is meant as one."""
        target = self.children.get("target", range(0))
        states = {self.tokens[i].attributes.get("state") for i in (0, *target[:1])}
        return bool("".join(token.text for token in self.target).strip()) and not states & _UNTRANSLATED


def xliff_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """A segment for each unit of the file, and for what stands between them."""
    text = read_text(lines)
    check_xml(str(lines.path), text)
    line = first = 1
    pending: list[Token] = []  # not yet part of a segment
    in_unit = False
    translated: list[bool] = []  # whether the text of each open element is
    for token in _declared(tokens(text), options):
        if token.kind == "open":
            translated.append(all(translated[-1:]) and token.attributes.get("translate") != "no")
            if token.name in _UNITS and translated[-1]:
                yield verbatim(first, joined(pending))
                pending, first, in_unit = [], line, True
        pending.append(token)
        line += token.text.count("\n")
        if token.kind == "close":
            translated.pop()
            if token.name == "file" or (in_unit and token.name in _UNITS):
                yield _segment(first, pending, options) if in_unit else verbatim(first, joined(pending), True)
                pending, first, in_unit = [], line, False
    yield verbatim(first, joined(pending))


def _declared(found: Iterator[Token], options: FormatOptions) -> Iterator[Token]:
    """The tokens, with the right encoding and target language named."""
    for token in found:
        attributes = token.attributes if token.kind == "open" or token.text.startswith("<?xml ") else {}
        if token.text.startswith("<?xml ") and "encoding" in attributes:
            declared = declared_as(attributes["encoding"], options.encoding)
            if declared != attributes["encoding"]:
                token = Token(token.kind, token.text.replace(attributes["encoding"], declared))
        elif token.name == "file" and "source-language" in attributes and "target-language" not in attributes:
            token = token.with_attribute("target-language", options.languages[1])
        elif token.name == "xliff" and "srcLang" in attributes and "trgLang" not in attributes:
            token = token.with_attribute("trgLang", options.languages[1])
        yield token


def _children(found: Sequence[Token]) -> dict[str, range]:
    """Where the children of a unit are that matter here; not those of its children, such as alt-trans."""
    spans: dict[str, range] = {}
    depth, start = 0, 0
    for i, token in enumerate(found):
        if token.kind == "open":
            start = i if depth == 1 else start
            depth += 1
        elif token.kind == "close":
            depth -= 1
        if depth == 1 and token.kind in ("close", "single") and token.name in ("source", "seg-source", "target"):
            spans[token.name] = range(i if token.kind == "single" else start, i + 1)
    return spans


def _segment(line: int, found: list[Token], options: FormatOptions) -> FileSegment:
    unit = _Unit(found, _children(found))
    spelling = Spelling()
    block = Block(InlineText(list(_parts(unit.source, spelling))), options.languages[0], spelling.write)
    if unit.is_translated and not options.all_entries:
        target = Block(InlineText(list(_parts(unit.target, Spelling()))), options.languages[1])
        context = as_context(block.sentences, [sentence.text for sentence in target.sentences])
        return FileSegment(line, list(context), partial(_copy, joined(found)))
    if not block.sentences:
        return verbatim(line, joined(found))
    return FileSegment(line, block.sentences, partial(_write, unit, block))


def _copy(text: str, translations: Sequence[Translation]) -> str:
    return text


def _write(unit: _Unit, block: Block, translations: Sequence[Translation]) -> str:
    """The unit with its translation, in a new target or in the one that it has."""
    found, children = list(unit.tokens), unit.children
    unit_tag = found[0]
    source = children.get("seg-source") or children["source"]
    prefix = found[source.start].text[1:].partition(found[source.start].name)[0]  # of the namespace
    state = _FILLED[unit_tag.name]
    if "target" in children:
        span = children["target"]
        tag = found[span.start].text.rstrip("/>").rstrip() + ">"
        opening = Token("open", tag, "target")
    else:
        before = found[source.start - 1]
        indent = before.text if before.kind == "text" and not before.text.strip() else ""
        span = range(source.stop, source.stop)
        opening = Token("open", f"{indent}<{prefix}target>", "target")
    if unit_tag.name == "segment":
        found[0] = unit_tag.with_attribute("state", state)
    else:
        opening = opening.with_attribute("state", state)
    target = opening.text + block.write(translations) + f"</{prefix}target>"
    return joined(found[: span.start]) + target + joined(found[span.stop :])


def _parts(found: Sequence[Token], spelling: Spelling) -> Iterator[Part]:
    """Text and tags. What holds code or must not be translated is one tag, with all that is in it."""
    i = 0
    while i < len(found):
        token = found[i]
        end = i + 1
        if token.kind == "open" and _is_protected(token):
            depth = 1
            while depth:
                depth += (found[end].kind == "open") - (found[end].kind == "close")
                end += 1
        if token.kind == "text":
            yield spelling.read(token.text)
        else:
            yield _tag(token, joined(found[i:end]), whole=end > i + 1)
        i = end


def _is_protected(token: Token) -> bool:
    attributes = token.attributes
    return token.name in _PROTECTED or attributes.get("translate") == "no" or attributes.get("mtype") == "protected"


def _tag(token: Token, text: str, whole: bool) -> Tag:
    """A tag, which opens or closes something, or stands for itself; those that are two elements have a common id."""
    attributes = token.attributes
    pair = attributes.get("startRef") or attributes.get("rid") or attributes.get("id", "")
    if token.name in _HALVES and (whole or token.kind == "single"):
        return Tag(text, _HALVES[token.name], f"#{pair}")
    if whole or token.kind in ("single", "other"):
        return Tag(text, "single")
    return Tag(text, "close" if token.kind == "close" else "open", token.name)
