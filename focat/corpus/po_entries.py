"""The entries of a PO file (gettext), each with its lines as they are: for corpora, and for files to translate.

Parsed by hand, because a translated file keeps its lines byte for byte, and an error names the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from focat.corpus.text_files import Lines
from focat.errors import FocatError

KEYWORD = re.compile(r'\s*(msgctxt|msgid_plural|msgid|msgstr)\s*(?:\[\s*(\d{1,3})\s*\])?\s*(".*")\s*$')
"""A line with a keyword, the number of a plural form, and a string in quotes."""
_STRING = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*$')
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]+)|(.))")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
"""What stands for a character after a backslash, where it is not the character itself."""
_SHOWN = 60  # characters of a line in an error


@dataclass
class PoField:
    """A keyword with its string."""

    first: int
    """Index of its first line in the entry."""
    lines: int = 1
    parts: list[str] = field(default_factory=list)
    """What each line adds to the string; joined at the end, because strings may have a hundred thousand lines."""
    length: int = 0
    """Characters of the string."""
    wrapped: bool = False
    """Whether a line ends where the string has no line feed."""

    @cached_property
    def text(self) -> str:
        """The string, when all its lines are there."""
        return "".join(self.parts)

    @property
    def is_inside_a_line(self) -> bool:
        """Whether what was read so far ends without a line feed."""
        return bool(self.parts) and not self.parts[-1].endswith("\n")

    def append(self, part: str) -> None:
        """Add what stands in a line."""
        if part:
            self.parts.append(part)
            self.length += len(part)


@dataclass
class PoEntry:
    """A message with its comments and translations."""

    number: int
    """Of its first line in the file."""
    lines: list[str] = field(default_factory=list)
    fields: dict[str, PoField] = field(default_factory=dict)
    """By keyword: msgctxt, msgid, msgid_plural, msgstr, msgstr[0] …; empty if the entry is obsolete."""

    @property
    def message(self) -> str:
        """What is to be translated."""
        return self.fields["msgid"].text

    @property
    def plural(self) -> str | None:
        """The message for several things, if it has one."""
        return self.fields["msgid_plural"].text if "msgid_plural" in self.fields else None

    @property
    def translations(self) -> dict[str, str]:
        """The translations of its forms, by keyword."""
        return {name: found.text for name, found in self.fields.items() if name.startswith("msgstr")}

    @property
    def is_header(self) -> bool:
        """Whether it describes the file."""
        return "msgid" in self.fields and not self.message and "msgctxt" not in self.fields

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """What follows `#,`: fuzzy, c-format …"""
        lines = (line for line in self.lines if line.startswith("#,"))
        return tuple(flag.strip() for line in lines for flag in line[2:].split(","))

    @property
    def is_fuzzy(self) -> bool:
        """Whether its translations are guesses."""
        return "fuzzy" in self.flags


def read_entries(lines: Lines) -> Iterator[PoEntry]:
    """The entries of a file: each with all its lines, also those that separate it from the next.

    Raises:
        FocatError: a line is none of a PO file, or an entry is not whole.
    """
    entry, current = PoEntry(1), None
    obsolete = False  # whether the entry is one that is commented out
    for line in lines:
        content = line.removeprefix("\ufeff") if lines.number == 1 else line
        keyword, string = KEYWORD.match(content), _STRING.match(content)
        name = (keyword[1] + (f"[{int(keyword[2])}]" if keyword[2] else "")) if keyword else ""
        begins = content.startswith("#") or name in ("msgctxt", "msgid")
        ends = obsolete and content.strip() and not content.startswith("#~")
        if ends or (begins and entry.translations):
            yield _checked(entry, lines)
            entry, current, obsolete = PoEntry(lines.number), None, False
        obsolete |= content.startswith("#~")
        if keyword:
            if name in entry.fields:
                raise lines.error(f"a second {name} of one entry; separate entries by a blank line")
            current = entry.fields[name] = PoField(len(entry.lines))
            string = _STRING.match(keyword[3])
        elif string and current:
            current.lines += 1
            current.wrapped |= current.is_inside_a_line
        elif content.strip() and not content.startswith("#"):
            shown = content.strip()[:_SHOWN]
            raise lines.error(f"{shown}: is no line of a PO file (msgid, msgstr, a string in quotes or a comment)")
        if keyword or string:
            if string is None or current is None:
                raise lines.error("a string that does not end, or belongs to no keyword; correct it")
            current.append(unescape(string[1]))
            if current.length > lines.limit.bytes:
                raise lines.error(f"a string of more than {lines.limit.bytes:,} characters; {lines.limit.remedy}")
        entry.lines.append(line)
    yield _checked(entry, lines)


def _checked(entry: PoEntry, lines: Lines) -> PoEntry:
    if entry.fields and not ("msgid" in entry.fields and entry.translations):
        raise FocatError(f"{lines.path}, line {entry.number}: an entry needs msgid and msgstr; correct it")
    return entry


def unescape(written: str) -> str:
    """The string that stands between quotes."""
    return _ESCAPE.sub(_character, written) if "\\" in written else written


def _character(escape: re.Match[str]) -> str:
    octal, hexadecimal, other = escape.groups()
    if octal:
        return chr(int(octal, 8))
    return chr(int(hexadecimal, 16) & 0xFF) if hexadecimal else ESCAPES.get(other, other)
