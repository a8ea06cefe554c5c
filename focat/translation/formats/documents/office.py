"""Office Open XML, of Word (`.docx`) and PowerPoint (`.pptx`): the text of their paragraphs is translated.

A paragraph is a row of runs, each with a format of its own. The format that most of a text has is its own; parts with
another one are put around the words that translate theirs, as are links, notes and fields. Breaks and tabs divide a
paragraph. What has been deleted is copied, comments are too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from focat.translation.formats.blocks import Block
from focat.translation.formats.documents.archives import Archive, ReadMember
from focat.translation.formats.documents.paragraphs import (
    BlockText,
    Nest,
    Paragraph,
    element_end,
    paragraph_segments,
)
from focat.translation.formats.entities import Spelling
from focat.translation.formats.languages import with_language
from focat.translation.formats.lines import InputLines
from focat.translation.formats.markup import Token, joined, tokens
from focat.translation.formats.segments import FileSegment, FormatOptions, verbatim
from focat.translation.inline import InlineText, Part, Tag

_TYPES = "[Content_Types].xml"
# how the content types of files end that are translated
_WORD = (
    ".document.main+xml",
    ".document.macroenabled.main+xml",
    ".template.main+xml",
    ".header+xml",
    ".footer+xml",
    ".footnotes+xml",
    ".endnotes+xml",
)
_POWERPOINT = (".slide+xml", ".notesslide+xml")
_BOTH = (".chart+xml", ".diagramdata+xml", ".diagramdrawing+xml")
# those that say in which language all text is that says nothing itself
_STYLES = (".styles+xml", ".presentation.main+xml", ".slidemaster+xml", ".slidelayout+xml")
_PARAGRAPHS = frozenset(["p"])
_WRAPPERS = frozenset(["hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdt", "fldSimple", "dir", "bdo"])
_DROPPED = frozenset(["proofErr", "lastRenderedPageBreak", "softHyphen"])  # about the words that were there
_BREAKS = frozenset(["tab", "br", "cr", "ptab"])
_ENDS = frozenset(["pPr", "endParaRPr"])  # stay where they are
_MOST_NESTED = 20  # fields inside each other, as Word has at most
# what a spelling checker has left in formats
_LANGUAGE = re.compile(r"<\w+:(?:lang|noProof)\b[^<>]*/>|\s(?:lang|altLang|dirty|err|smtClean|noProof)=\"[^\"]*\"")
_EMPTY = re.compile(r"<(\w+:rPr)(?:/>|></\1>)")


def docx_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """The segments of a document: its text, headers, footers, notes and charts."""
    yield from _segments(Archive(lines, "DOCX"), _WORD + _BOTH, options)


def pptx_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """The segments of a presentation: its slides, with charts and notes."""
    yield from _segments(Archive(lines, "PPTX"), _POWERPOINT + _BOTH, options)


def _segments(archive: Archive, types: tuple[str, ...], options: FormatOptions) -> Iterator[FileSegment]:
    def read(name: str) -> Iterator[FileSegment]:
        of_file = partial(read_paragraph, language=options.languages[0])
        return paragraph_segments(tokens(archive.read_xml(name)), _PARAGRAPHS, frozenset(), of_file)

    def copy(name: str) -> Iterator[FileSegment]:
        found = with_language(tokens(archive.read_xml(name)), ["w:val"], options.languages, element="lang")
        yield verbatim(1, joined(with_language(found, ["lang"], options.languages)))

    members: dict[str, ReadMember] = {}
    for name, content_type in _content_types(archive).items():
        for endings, reader in ((types, read), (_STYLES, copy)):
            if content_type.lower().endswith(endings):
                members[name] = reader
    return archive.segments(members)


def _content_types(archive: Archive) -> dict[str, str]:
    """The type of each file, which stands for its name or for all that end as it does."""
    by_name, by_ending = {}, {}
    for token in tokens(archive.read_xml(_TYPES)):
        attributes = token.attributes if token.name in ("Override", "Default") else {}
        if "PartName" in attributes:
            by_name[attributes["PartName"].removeprefix("/")] = attributes.get("ContentType", "")
        elif "Extension" in attributes:
            by_ending[attributes["Extension"].lower()] = attributes.get("ContentType", "")
    names = [info.filename for info in archive.files]
    return {name: by_name.get(name) or by_ending.get(name.rpartition(".")[2].lower(), "") for name in names}


@dataclass(frozen=True)
class _Text:
    """Text of one format."""

    text: str
    format: str
    written: str
    """As a run of its own."""


@dataclass(frozen=True)
class _Break:
    """What divides the text of a paragraph."""

    tag: Tag

    @property
    def written(self) -> str:
        return self.tag.text


class _Format(Tag):
    """Where text in another format begins or ends; `text` is the format."""


_Item = _Text | _Break | Tag


def read_paragraph(found: Sequence[Token], nest: Nest, language: str) -> Paragraph:
    """A paragraph, `<w:p>` or `<a:p>`, with the nested elements that `nest` reads."""
    reader = _Reader(found, nest)
    content: list[BlockText | Tag] = [Tag(found[0].text, "single")]
    for is_break, group in groupby(reader.items, lambda item: isinstance(item, _Break)):
        if is_break:
            content += [item.tag for item in group if isinstance(item, _Break)]
            continue
        items = list(group)
        usual = _usual_format(items)
        block = Block(InlineText(list(_parts(items, usual))), language)
        content.append(
            BlockText(block, partial(_write_runs, prefix=reader.prefix, usual=usual, spelling=reader.spelling))
        )
    return Paragraph([*content, Tag(found[-1].text, "single")])


class _Reader:
    """Reads the runs of a paragraph, and what stands between them."""

    def __init__(self, found: Sequence[Token], nest: Nest) -> None:
        self.items: list[_Item] = []
        self.spelling = Spelling()
        self.prefix = found[0].text[1:].partition("p")[0]
        """Of the names of elements, with its colon."""
        self._nest = nest
        self._fields: list[_Field] = []  # open ones, the innermost last
        self._letters = 0  # texts with letters that were read
        self._closing = ""  # of an element whose own closing tag follows
        i = 1
        while i < len(found) - 1:
            i = self._read_child(found, i)

    def _read_child(self, found: Sequence[Token], i: int) -> int:
        """Read what begins here; returns where it ends."""
        token = found[i]
        name, end = token.name, i + 1
        if token.kind == "close":
            if name == "sdtContent":
                self._closing = token.text
            else:
                self.items.append(Tag(self._closing + token.text, "close", name))
                self._closing = ""
        elif token.kind == "open" and name in _WRAPPERS and (begun := _wrapper_start(found, i)):
            end = begun
            self.items.append(Tag(joined(found[i:end]), "open", name))
        elif token.kind not in ("text", "other") and name not in _DROPPED:
            end = element_end(found, i)
            element = found[i:end]
            if name == "r":
                self._read_run(element)
            elif name in _ENDS or name in _BREAKS:
                self.items.append(_Break(self._nest(element)))
            else:
                self.items.append(self._range_tag(token) or self._nest(element))
        elif token.kind == "open":
            end = element_end(found, i)
        return end

    def _range_tag(self, token: Token) -> Tag | None:
        """A mark where a bookmark, a comment or the like begins or ends, which is a pair of elements of one id."""
        for ending, kind in (("Start", "open"), ("End", "close")):
            if token.kind == "single" and token.name.endswith(ending):
                id = next((value for name, value in token.attributes.items() if name.endswith("id")), "")
                return Tag(token.text, kind, f"{token.name.removesuffix(ending)} {id}")  # type: ignore[arg-type]
        return None

    def _read_run(self, run: Sequence[Token]) -> None:
        opening, closing = f"<{self.prefix}r>", f"</{self.prefix}r>"
        format, i = "", 1
        while i < len(run) - 1:
            end = element_end(run, i)
            token, element = run[i], run[i:end]
            i = end
            if token.name == "rPr":
                format = _plain_format(joined(element))
                continue
            if token.kind in ("text", "other") or token.name in _DROPPED:
                continue
            if token.name in ("t", "noBreakHyphen"):
                text = "\u2011" if token.name == "noBreakHyphen" else self._read_text(element)
                self._letters += any(map(str.isalpha, text))
                self.items.append(_Text(text, format, _run(self.prefix, format, self.spelling.write(text))))
                continue
            nesting = self._nest(element)
            pieces = (f"{opening}{format}", *nesting.pieces, closing) if nesting.pieces else ()
            tag = replace(nesting, text=f"{opening}{format}{nesting.text}{closing}", pieces=pieces)
            if token.name == "fldChar":
                self._read_field(token, tag)
            else:
                self.items.append(_Break(tag) if token.name in _BREAKS else tag)

    def _read_text(self, element: Sequence[Token]) -> str:
        text = self.spelling.read("".join(token.text for token in element if token.kind == "text"))
        keeps = self.prefix != "w:" or element[0].attributes.get("xml:space") == "preserve"
        return text if keeps else text.strip(" \t\r\n")

    def _read_field(self, token: Token, tag: Tag) -> None:
        """A field is what computes it, which is one tag, and its result, which is text unless it has no letters."""
        kind = next((value for name, value in token.attributes.items() if name.endswith("fldCharType")), "")
        if kind == "begin":
            self._fields.append(_Field(len(self.items), too_deep=len(self._fields) >= _MOST_NESTED))
        field = self._fields[-1] if self._fields else None
        if kind == "end" and field is not None:
            self._fields.pop()
        if kind == "begin" or (field is not None and field.too_deep):
            self.items.append(tag)
        elif kind == "separate" and field is not None and field.letters is None:
            self._collapse(field.start, tag, "open")
            field.letters = self._letters
        elif kind == "end" and field is not None and field.letters in (None, self._letters):
            self._collapse(field.start, tag, "single")
        else:  # where it begins is not in this paragraph, or its result has letters
            self.items.append(Tag(tag.text, "close" if kind == "end" else "single", "field"))

    def _collapse(self, start: int, last: Tag, kind: str) -> None:
        """Make one tag of everything from here on."""
        written = [item.text if isinstance(item, Tag) else item.written for item in self.items[start:]]
        self.items[start:] = [Tag("".join([*written, last.text]), kind, "field")]  # type: ignore[arg-type]


@dataclass
class _Field:
    """A field whose end has not been read."""

    start: int
    """The item that it begins with."""
    too_deep: bool
    """Whether it is inside so many others that it stays in pieces."""
    letters: int | None = None
    """Texts with letters that were read before its result; None until that begins."""


def _wrapper_start(found: Sequence[Token], i: int) -> int | None:
    """Where the content of an element begins that encloses runs, behind its properties; None if it has none."""
    end, name = i + 1, found[i].name
    while found[end].kind == "text" or found[end].name.endswith("Pr"):
        end = element_end(found, end)
    if name != "sdt":
        return end
    return end + 1 if found[end].name == "sdtContent" and found[end].kind == "open" else None


def _plain_format(written: str) -> str:
    """The format of a run without what concerns the language of its words; empty if nothing else is in it."""
    plain = _LANGUAGE.sub("", written)
    return "" if _EMPTY.fullmatch(plain) else plain


def _usual_format(items: Iterable[_Item]) -> str:
    """The format that most characters have."""
    counts: Counter[str] = Counter()
    for item in items:
        if isinstance(item, _Text):
            counts[item.format] += len(item.text)
    return counts.most_common(1)[0][0] if counts else ""


def _parts(items: Iterable[_Item], usual: str) -> Iterator[Part]:
    """Text, with tags around what has another format than the usual one."""
    for format, group in groupby(items, lambda item: item.format if isinstance(item, _Text) else None):
        if format is None:
            yield from (item for item in group if isinstance(item, Tag))
            continue
        text = "".join(item.text for item in group if isinstance(item, _Text))
        yield from (
            (text,) if format == usual else (_Format(format, "open", "run"), text, _Format(format, "close", "run"))
        )


def _write_runs(parts: Iterable[Part], prefix: str, usual: str, spelling: Spelling) -> str:
    """Runs with text, and tags between them."""
    written: list[str] = []
    formats, waiting = [usual], ""
    for part in (*parts, Tag("", "single")):
        if isinstance(part, str):
            waiting += part
            continue
        if waiting:
            written.append(_run(prefix, formats[-1], spelling.write(waiting)))
            waiting = ""
        if not isinstance(part, _Format):
            written.append(part.text)
        elif part.kind == "open":
            formats.append(part.text)
        elif len(formats) > 1:
            formats.pop()
    return "".join(written)


def _run(prefix: str, format: str, text: str) -> str:
    space = ' xml:space="preserve"' if prefix == "w:" else ""
    return f"<{prefix}r>{format}<{prefix}t{space}>{text}</{prefix}t></{prefix}r>"
