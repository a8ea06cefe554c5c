"""Markdown: the text of headings, paragraphs, list items and table cells is translated; all else stays byte for byte.

markdown-it parses the file (CommonMark, with tables and strikethrough), and `markdown_inline` finds what it has found
in the lines of the file. A translation that would change what the parser finds is not written.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from focat.translation.formats.blocks import Block
from focat.translation.formats.lines import InputLines
from focat.translation.formats.markdown_inline import HARD_BREAK, Mismatch, Spelling, inline_parts, structure_of
from focat.translation.formats.markup import read_text
from focat.translation.formats.segments import FileSegment, FormatOptions, verbatim
from focat.translation.inline import InlineText, Part, Tag
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence

_SPACES_AT_END = re.compile(
    r" {2,}(?=[\r\n])"
)  # they make a line break a hard one, unless a backslash stands before them
_FRONT_MATTER = re.compile(r"\ufeff?(-{3}|\+{3})[ \t]*\n.*?^\1[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
# paragraphs that are commands of some dialect: admonitions, containers, templates, a place for the contents, formulas
_COMMAND = re.compile(r"!!!|\?\?\?|:::|\{%|\{\{|\[TOC\]|\[\[|\$\$")
# what would be more than text at the beginning of a line
_MARK = re.compile(r"[-+*](?=\s|$)|[>#|~=]|```|-{2,}|<[A-Za-z/!?]")
_NUMBER = re.compile(r"(\d{1,9})([.)](?:\s|$))")


# notes, attributes and emoji that CommonMark takes for text
_KEPT = re.compile(r"(\[\^[^\[\]\s]+\]:?|\{[:#.][^{}\n]*\}|(?<![\w:]):[a-z][a-z0-9_+-]+:(?![\w:])|\A\[[ xX]\](?=\s))")

Lines = list[tuple[int, int]]
"""Where each line of a block begins and ends in the file."""


@dataclass(frozen=True)
class MarkdownBlock:
    """The text of a paragraph, a heading or a cell."""

    line: int
    """Where it begins."""
    source: str
    """As it stands in the file."""
    content: str
    """As the parser sees it, without the marks of quotes and lists in front of its lines."""
    joints: Sequence[str]
    """What stands between its lines in the file."""
    pieces: Sequence[Block | Tag]
    """Its text, and hard line breaks."""
    parse: Callable[[str], Sequence[Token]]

    @property
    def sentences(self) -> list[InputSentence]:
        """What is translated."""
        return [sentence for piece in self.pieces if isinstance(piece, Block) for sentence in piece.sentences]

    def write(self, translations: Sequence[Translation]) -> str:
        """The block with its translations; as it was, if they would change what a parser finds in it."""
        written = self._written(translations)
        return self.source if written is None else written

    def notes(self, translations: Sequence[Translation]) -> Iterator[tuple[str, int]]:
        """What the user is told of the block, and its line."""
        if self._written(translations) is None:
            yield "left as it was, since its translation would be read as other mark-up", self.line

    def _written(self, translations: Sequence[Translation]) -> str | None:
        """The block with its translations; None if they would change what a parser finds in it."""
        before = structure_of(self.parse(self.content))
        for aligned in (translations, [replace(translation, alignment=None) for translation in translations]):
            content, written = self._render(aligned)
            if structure_of(self.parse(content)) == before:
                return written
        return None

    def _render(self, translations: Sequence[Translation]) -> tuple[str, str]:
        """The block as the parser sees it, and as it stands in the file."""
        following, joints = iter(translations), iter(self.joints)
        known = {line.strip() for line in self.content.split("\n")}  # a line that was there is text
        content = written = ""
        for piece in self.pieces:
            if isinstance(piece, Tag):
                content += piece.text
                written += ("\\" if piece.text.startswith("\\") else "") + next(joints)
                continue
            text = piece.write([next(following) for _ in piece.sentences])
            own = list(itertools.islice(joints, _line_feeds(piece)))
            for i, line in enumerate(re.split(r"[ \t]*\n[ \t]*", text)):
                if i and _starts_mark(line) and line.strip() not in known:
                    content, written = content + " ", written + " "
                elif i:
                    content, written = content + "\n", written + _SPACES_AT_END.sub(" ", own.pop(0))
                content, written = content + line, written + line
        if _starts_mark(content) and not _starts_mark(self.content):
            content, written = _escape_mark(content), _escape_mark(written)
        return content, written


def markdown_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """A segment for each block of the file, and for what stands between them."""
    text = read_text(lines)
    rows = re.findall(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+", text)
    starts = [0, *itertools.accumulate(map(len, rows))]
    plain = re.sub(r"\r\n?", "\n", text)
    front = _FRONT_MATTER.match(plain)
    hidden = front.end() if front else 0
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    environment: dict[str, Any] = {}  # the references of the file
    found = parser.parse("\n" * plain[:hidden].count("\n") + plain[hidden:].removeprefix("\ufeff"), environment)
    written = cursor = 0  # up to where the file is written, and searched
    for before, token in itertools.pairwise(found):
        in_table = before.type in ("th_open", "td_open")
        span = _find(token, rows, starts, cursor if in_table else None)
        if span is None or token.map is None:
            continue
        first, last = span[0][0], span[-1][1]
        cursor = last
        joints = [text[end:start] for (_, end), (start, _) in itertools.pairwise(span)]
        pieces = _pieces(token, in_table, options)
        parse = partial(_parse_inline, parser, environment)
        block = MarkdownBlock(token.map[0] + 1, text[first:last], token.content, joints, pieces, parse)
        if block.sentences:
            yield verbatim(block.line, text[written:first])
            yield FileSegment(block.line, block.sentences, block.write, notes=block.notes)
            written = last
    yield verbatim(len(rows), text[written:])


def _parse_inline(parser: MarkdownIt, environment: dict[str, Any], content: str) -> Sequence[Token]:
    (token,) = parser.parseInline(content, environment)
    return token.children or []


def _find(token: Token, rows: Sequence[str], starts: Sequence[int], cell_from: int | None) -> Lines | None:
    """Where the lines of a block are; None if there is nothing to translate.

    `cell_from`: where the search for a cell of a table begins, of which a line has several.
    """
    if token.type != "inline" or token.map is None or _COMMAND.match(token.content):
        return None
    found = []
    for row, line in enumerate(token.content.split("\n"), token.map[0]):
        content = line.strip(" \t")
        if not content or row >= len(rows):
            return None
        if cell_from is None:
            column = rows[row].rfind(content)  # behind it are white space and the marks of a heading at most
        else:
            content = content.replace("|", "\\|")
            column = rows[row].find(content, max(cell_from - starts[row], 0))
        if column < 0:
            return None
        found.append((starts[row] + column, starts[row] + column + len(content)))
    return found


def _pieces(token: Token, in_table: bool, options: FormatOptions) -> list[Block | Tag]:
    """The text of a block and its hard line breaks; nothing, if it cannot be told apart from its mark-up."""
    spelling = Spelling(in_table)
    try:
        parts = inline_parts(token.content, token.children or (), spelling)
    except Mismatch:
        return []
    pieces: list[Block | Tag] = []
    waiting: list[Part] = []
    for part in [*parts, None]:
        if part is not None and not (isinstance(part, Tag) and part.name == HARD_BREAK):
            waiting += _kept_apart(part)
            continue
        pieces.append(Block(InlineText(waiting), options.languages[0], spelling.write))
        waiting = []
        if part is not None:
            pieces.append(part)
    return pieces


def _kept_apart(part: Part) -> Iterator[Part]:
    """Text without what other dialects take for mark-up."""
    if isinstance(part, Tag):
        yield part
        return
    for i, piece in enumerate(_KEPT.split(part)):
        if piece:
            yield Tag(piece, "single") if i % 2 else piece


def _line_feeds(block: Block) -> int:
    return sum((part if isinstance(part, str) else part.text).count("\n") for part in block.text.parts)


def _escape_mark(line: str) -> str:
    return _NUMBER.sub(r"\1\\\2", line, count=1) if _NUMBER.match(line) else "\\" + line


def _starts_mark(line: str) -> bool:
    return bool(_MARK.match(line) or _NUMBER.match(line))
