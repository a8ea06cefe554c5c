"""Inline mark-up of Markdown: what a parser has found, found again in the text, so that each piece has its place.

The parser decides what is emphasis, a link or code. Its tokens have no positions, but they are in order; so the text
is read once more, token by token. Where the two do not agree, the block is left alone.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from markdown_it.token import Token

from focat.translation.inline import Part, Tag

_CODE = re.compile(r"(`+)(?!`)(?:.*?[^`])??\1(?!`)", re.DOTALL)
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_TITLE = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\((?:\\.|[^()\\])*\))"""
_DESTINATION = r"(?:<(?:\\.|[^<>\\\n])*>|(?:\\.|[^\s()\\]|\((?:\\.|[^\s()\\])*\))*)"
_INLINE_TARGET = re.compile(rf"\(\s*{_DESTINATION}(?:\s+{_TITLE})?\s*\)", re.DOTALL)
_LABEL = re.compile(r"\[(?:\\.|[^\[\]\\])*\]", re.DOTALL)
_BREAKS = {"softbreak": re.compile(r"[ \t]*\n[ \t]*"), "hardbreak": re.compile(r"(?:\\|[ \t]{2,})\n[ \t]*")}
_HTML_NAME = re.compile(r"<(/?)([A-Za-z][\w-]*)")
_VOID = {"br", "hr", "img", "input", "wbr"}
HARD_BREAK = "break"
"""Name of the tag of a hard line break."""
_SPECIAL = "\\`*_[]<~"


class Mismatch(Exception):
    """The text is not what the parser has made of it, as far as can be told here."""


class Spelling:
    """How characters are written in a block: escaped where they would be mark-up, unless they were not before."""

    def __init__(self, in_table: bool) -> None:
        self._escaped: dict[str, str] = {}
        self._plain: set[str] = set()
        self._special = _SPECIAL + "|" * in_table

    def note(self, character: str, written: str) -> None:
        """Remember how a character is written."""
        if written == character:
            self._plain.add(character)
        else:
            self._escaped.setdefault(character, written)

    def write(self, text: str) -> str:
        """Text as Markdown."""
        return "".join(map(self._write, text))

    def _write(self, character: str) -> str:
        escaped = self._escaped.get(character)
        if escaped and (character not in self._plain or character in "&" + self._special):
            return escaped
        special = character in self._special and (character not in self._plain or character == "|")
        return f"\\{character}" if special else character


def inline_parts(content: str, children: Sequence[Token], spelling: Spelling) -> list[Part]:
    """Text and tags of a block. A line break is a line feed, a hard one a tag named HARD_BREAK.

    Raises:
        Mismatch: these tokens cannot be found in the content.
    """
    reader = _Reader(content, spelling)
    for token in children:
        reader.read(token)
    if reader.position != len(content):
        raise Mismatch
    return reader.parts


class _Reader:
    """Reads the content of a block, token by token."""

    def __init__(self, content: str, spelling: Spelling) -> None:
        self.content, self.position = content, 0
        self.parts: list[Part] = []
        self._spelling = spelling
        self._links: list[int] = []  # where the part is that opens each link

    def read(self, token: Token) -> None:
        """Find a token behind those before it."""
        kind, at = token.type, self.position
        if kind in ("text", "text_special"):
            self._read_text(token.content)
        elif kind in _BREAKS:
            found = self._match(_BREAKS[kind])
            self.parts.append("\n" if kind == "softbreak" else Tag(found, "single", HARD_BREAK))
        elif kind == "code_inline":
            self.parts.append(Tag(self._match(_CODE), "single"))
        elif kind == "html_inline":
            self._take(token.content)
            name = _HTML_NAME.match(token.content)
            single = name is None or name[2].lower() in _VOID or token.content.endswith("/>")
            self.parts.append(
                Tag(token.content, "single" if single or name is None else "close" if name[1] else "open",
                    "" if name is None else name[2].lower())
            )  # fmt: skip
        elif kind == "image":
            self._skip_brackets(at + 1)
            self._match_target()
            self.parts.append(Tag(self.content[at : self.position], "single"))
        elif kind == "link_open":
            self._take("<" if token.markup == "autolink" else "[")
            self._links.append(len(self.parts))
            self.parts.append(Tag(self.content[at : self.position], "open", "link"))
        elif kind == "link_close":
            self._close_link(token)
        elif kind.endswith(("_open", "_close")):  # emphasis and the like
            self._take(token.markup)
            self.parts.append(Tag(token.markup, "open" if kind.endswith("_open") else "close", kind.partition("_")[0]))
        else:
            raise Mismatch

    def _close_link(self, token: Token) -> None:
        at, first = self.position, self._links.pop()
        if token.markup == "autolink":
            self._take(">")
        else:
            self._take("]")
            target = self._match_target()
            if target not in ("", "[]"):
                self.parts.append(Tag("]" + target, "close", "link"))
                return
        # the text is an address, or the name of a reference: it stays
        inside = "".join(part if isinstance(part, str) else part.text for part in self.parts[first + 1 :])
        start = self.content.rindex(self.parts[first].text + inside, 0, at)  # type: ignore[union-attr]
        self.parts[first:] = [Tag(self.content[start : self.position], "single")]

    def _match_target(self) -> str:
        """What follows the text of a link or image: `(address)`, `[name]` or nothing."""
        for pattern in (_INLINE_TARGET, _LABEL):
            found = pattern.match(self.content, self.position)
            if found:
                self.position = found.end()
                return found[0]
        return ""

    def _skip_brackets(self, at: int) -> None:
        """Go behind the bracket that closes this one."""
        depth = 0
        while at < len(self.content):
            character = self.content[at]
            at += 2 if character == "\\" else 1
            depth += (character == "[") - (character == "]")
            if not depth:
                self.position = at
                return
        raise Mismatch

    def _read_text(self, text: str) -> None:
        for character in text:
            at = self.position
            reference = _REFERENCE.match(self.content, at)
            if self.content.startswith("\\" + character, at):
                self.position += 2
            elif reference and html.unescape(reference[0]) == character:
                self.position = reference.end()
            else:
                self._take(character)
            self._spelling.note(character, self.content[at : self.position])
        self.parts.append(text)

    def _take(self, expected: str) -> None:
        if not expected or not self.content.startswith(expected, self.position):
            raise Mismatch
        self.position += len(expected)

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.content, self.position)
        if found is None:
            raise Mismatch
        self.position = found.end()
        return found[0]


def structure_of(children: Sequence[Token]) -> list[tuple[str, ...]]:
    """What is in a block besides text, each with what encloses it; the same before and after a translation."""
    found: list[tuple[str, ...]] = []
    path: list[str] = []
    for token in children:
        if token.nesting < 0:
            path.pop()
        elif token.type not in ("text", "text_special", "softbreak"):
            code = token.content if token.type in ("code_inline", "html_inline") else ""
            found.append((*path, token.type, code, *sorted(f"{k}={v}" for k, v in token.attrs.items() if k != "alt")))
            if token.nesting > 0:
                path.append(token.type)
    return sorted(found)
