"""XML and HTML as tokens: tags, comments and text, exactly as they stand in the file.

Parsers give a tree, which can be written again only in their own way. These tokens are the file: joined, they are it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal
from xml.parsers import expat

from focat.errors import FocatError
from focat.translation.formats.lines import InputLines

_NAME = re.compile(r"</?([^\s<>/]+)")
_QUOTE = re.compile(r"=\s*([\"'])")
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+)))?""")
# how a piece that is neither tag nor text begins and ends
_OTHERS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">"))
_RAW = ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")  # no tags inside, in HTML

Kind = Literal["open", "close", "single", "text", "other"]


@dataclass(frozen=True)
class Token:
    """A piece of mark-up."""

    kind: Kind
    text: str
    """As it stands in the file."""
    name: str = ""
    """Of an element, without its namespace."""

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of a tag, as they are written."""
        start = _NAME.match(self.text)
        found = _ATTRIBUTE.finditer(self.text, start.end() if start else 0)
        return {match[1]: match[2] or match[3] or match[4] or "" for match in found}

    def with_attribute(self, name: str, value: str) -> Token:
        """The tag with an attribute, in its old place if it has one of this name."""
        pattern = re.compile(rf"(\s{re.escape(name)}\s*=\s*)(\"[^\"]*\"|'[^']*'|[^\s\"'=<>`]+)")
        if pattern.search(self.text):
            text = pattern.sub(lambda match: f'{match[1]}"{value}"', self.text, count=1)
        else:
            end = re.search(r"\s*/?>$", self.text)
            assert end is not None
            text = f'{self.text[: end.start()]} {name}="{value}"{end[0]}'
        return Token(self.kind, text, self.name)


def read_text(lines: InputLines) -> str:
    """A whole file.

    Raises:
        FocatError: it is too long.
    """
    pieces, length = [], 0
    for line in lines:
        length += len(line)
        if length > lines.limit.bytes:
            remedy = f"raise {lines.limit.setting}" if lines.limit.setting else "split it"
            raise lines.error(f"the file has more than {lines.limit.bytes:,} characters; {remedy}")
        pieces.append(line)
    return "".join(pieces)


def check_xml(name: str, text: str) -> None:
    """Refuse what is no XML.

    Raises:
        FocatError: with the name of the file and the line of the error.
    """
    parser = expat.ParserCreate("utf-8")
    try:
        parser.Parse(text.removeprefix("\ufeff").encode(), True)
    except expat.ExpatError as error:
        problem = f"is no XML ({expat.ErrorString(error.code)}); correct it"
        raise FocatError(f"{name}, line {error.lineno}: {problem}") from None


def tokens(text: str, html: bool = False) -> Iterator[Token]:
    """The tokens of a text; with `html`, names are in small letters, and scripts are text."""
    position = 0
    while position < len(text):
        start = text.find("<", position)
        if start < 0:
            start = len(text)
        if start > position:
            yield Token("text", text[position:start])
            position = start
            continue
        token = _markup(text, start, html)
        yield token
        position += len(token.text)
        if html and token.kind == "open" and token.name in _RAW:
            close = re.compile(f"</{token.name}(?=[\\s/>])", re.IGNORECASE).search(text, position)
            end = close.start() if close else len(text)
            if end > position:
                yield Token("text", text[position:end])
            position = end


def joined(found: Iterable[Token]) -> str:
    """The text that these are the tokens of."""
    return "".join(token.text for token in found)


def _markup(text: str, start: int, html: bool) -> Token:
    """What begins with this `<`: text, if it is no mark-up."""
    for opening, closing in _OTHERS:
        if text.startswith(opening, start):
            if html and opening in ("<?", "<![CDATA["):
                closing = ">"
            end = text.find(closing, start + len(opening))
            return Token("other", text[start:] if end < 0 else text[start : end + len(closing)])
    name = _NAME.match(text, start)
    if name is None or (html and not (name[1][0].isascii() and name[1][0].isalpha())):
        if html and text.startswith("</", start):  # browsers take it for a comment
            return Token("other", text[start : text.find(">", start) + 1] or text[start:])
        return Token("text", "<")
    tag_end = _tag_end(text, start)
    if tag_end is None:
        return Token("other", text[start:])
    written = text[start:tag_end]
    local = name[1].lower() if html else name[1].rpartition(":")[2]
    kind: Kind = "close" if written.startswith("</") else "single" if written.endswith("/>") else "open"
    return Token(kind, written, local)


def _tag_end(text: str, start: int) -> int | None:
    """Where a tag ends: at a `>` that is not in the value of an attribute."""
    position = start
    while (end := text.find(">", position)) >= 0:
        quote = _QUOTE.search(text, position, end)
        closing = text.find(quote[1], quote.end()) if quote else -1
        if closing < 0:
            return end + 1
        position = closing + 1
    return None
