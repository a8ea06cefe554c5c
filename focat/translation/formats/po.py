"""PO files of gettext: entries without a translation, and fuzzy ones, are filled in; all else stays byte for byte.

The file is one document in the order of its entries, so a message is translated in the context of those before it:
with the translations that people have given, and with those just made. What is filled in is marked fuzzy, as gettext
does with guesses: a person looks at it, or clears the marks with `msgattrib --clear-fuzzy`.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from focat.errors import FocatError
from focat.translation.formats.encodings import declared_as
from focat.translation.formats.lines import InputLines, split_line_end
from focat.translation.formats.messages import Message
from focat.translation.formats.placeholders import placeholders
from focat.translation.formats.segments import FileSegment, FormatOptions, verbatim
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence

_KEYWORD = re.compile(r'\s*(msgctxt|msgid_plural|msgid|msgstr)\s*(?:\[\s*(\d+)\s*\])?\s*(".*")\s*$')
_STRING = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*$')
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]+)|(.))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_UNESCAPES = {"\\": "\\\\", '"': '\\"'} | {character: "\\" + name for name, character in _ESCAPES.items()}
_PLURALS = re.compile(r"Plural-Forms:\s*nplurals\s*=\s*(\d+)\s*;\s*plural\s*=\s*([^;\n]+)")
_CHARSET = re.compile(r"(charset=)([^\s\\;\"]+)")
_WIDTH = 79  # of a line that gettext writes
_MAX_FORMS = 6  # no language has more


@dataclass
class _Field:
    """A keyword with its string."""

    first: int
    """Index of its first line in the entry."""
    lines: int = 1
    text: str = ""
    wrapped: bool = False
    """Whether a line ends where the string has no line feed."""


@dataclass
class Entry:
    """A message with its comments and translations."""

    number: int
    """Of its first line in the file."""
    lines: list[str] = field(default_factory=list)
    fields: dict[str, _Field] = field(default_factory=dict)
    """By keyword: msgctxt, msgid, msgid_plural, msgstr, msgstr[0] …"""

    @property
    def translations(self) -> dict[str, str]:
        """The translations of its forms."""
        return {name: found.text for name, found in self.fields.items() if name.startswith("msgstr")}

    @property
    def is_header(self) -> bool:
        """Whether it describes the file."""
        return "msgid" in self.fields and not self.fields["msgid"].text and "msgctxt" not in self.fields

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """What follows `#,`: fuzzy, c-format …"""
        lines = (line for line in self.lines if line.startswith("#,"))
        return tuple(flag.strip() for line in lines for flag in line[2:].split(","))

    @property
    def is_translated(self) -> bool:
        """Whether all forms are there, and none is a guess."""
        return "fuzzy" not in self.flags and all(self.translations.values())


def po_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """A segment for each entry of the file."""
    forms = PluralForms()
    for entry in read_entries(lines):
        text = "".join(entry.lines)
        if entry.is_header:
            forms = PluralForms.of_header(entry.fields["msgstr"].text) if "msgstr" in entry.fields else forms
            declared = _CHARSET.sub(lambda match: match[1] + declared_as(match[2], options.encoding), text)
            yield verbatim(entry.number, declared)
        elif not entry.fields:
            yield verbatim(entry.number, text)
        elif entry.is_translated and not options.all_entries:
            yield FileSegment(entry.number, _context(entry, forms, options), partial(_copy, text))
        else:
            yield _filled(entry, forms, options)


def read_entries(lines: InputLines) -> Iterator[Entry]:
    """The entries of a file: each with all its lines, also those that separate it from the next."""
    entry, current = Entry(1), None
    obsolete = False  # whether the entry is one that is commented out
    for line in lines:
        content = line.removeprefix("\ufeff") if lines.number == 1 else line
        keyword, string = _KEYWORD.match(content), _STRING.match(content)
        name = (keyword[1] + (f"[{int(keyword[2])}]" if keyword[2] else "")) if keyword else ""
        begins = content.startswith("#") or name in ("msgctxt", "msgid")
        ends = obsolete and content.strip() and not content.startswith("#~")
        if ends or (begins and entry.translations):
            yield _checked(entry, lines)
            entry, current, obsolete = Entry(lines.number), None, False
        obsolete |= content.startswith("#~")
        if keyword:
            if name in entry.fields:
                raise lines.error(f"a second {name} of one entry; separate entries by a blank line")
            current = entry.fields[name] = _Field(len(entry.lines))
            string = _STRING.match(keyword[3])
        elif string and current:
            current.lines += 1
            current.wrapped |= current.text != "" and not current.text.endswith("\n")
        elif content.strip() and not content.startswith("#"):
            raise lines.error("is no line of a PO file (msgid, msgstr, a string in quotes or a comment)")
        if keyword or string:
            if string is None or current is None:
                raise lines.error("a string that does not end, or belongs to no keyword; correct it")
            current.text += unescape(string[1])
        entry.lines.append(line)
    yield _checked(entry, lines)


def _checked(entry: Entry, lines: InputLines) -> Entry:
    if entry.fields and not ("msgid" in entry.fields and entry.translations):
        raise FocatError(f"{lines.path}, line {entry.number}: an entry needs msgid and msgstr; correct it")
    return entry


@dataclass(frozen=True)
class PluralForms:
    """How many forms a message with a number has, and for which numbers each is."""

    count: int = 0
    """0 if the file does not say."""
    form_of: Callable[[int], int] = field(default=lambda n: int(n != 1))

    @classmethod
    def of_header(cls, header: str) -> PluralForms:
        """As the header of a file says; unknown if it does not."""
        match = _PLURALS.search(header)
        if match is None or not 1 <= int(match[1]) <= _MAX_FORMS:
            return cls()
        try:
            form_of = gettext.c2py(match[2].strip())
            form_of(1)
        except (ValueError, ZeroDivisionError):
            return cls()
        return cls(int(match[1]), form_of)

    def takes_singular(self, form: int, singular: str, plural: str) -> bool:
        """Whether a form is translated from the singular: that for 1, unless it must show other numbers too."""
        numbers = [n for n in range(201) if self.form_of(n) == form]
        return 1 in numbers and (numbers == [1] or placeholders(singular) == placeholders(plural))


def _context(entry: Entry, forms: PluralForms, options: FormatOptions) -> list[InputSentence]:
    """A message and its translation, as context of the following ones."""
    name = "msgstr" if "msgstr" in entry.fields else f"msgstr[{forms.form_of(1)}]"
    translation = entry.translations.get(name, "")
    message = Message(entry.fields["msgid"].text, options.languages[0])
    return list(message.with_translation(translation, options.languages[1]))


def _copy(text: str, translations: Sequence[Translation]) -> str:
    return text


def _filled(entry: Entry, forms: PluralForms, options: FormatOptions) -> FileSegment:
    """An entry whose translations are to be made."""
    language = options.languages[0]
    singular = Message(entry.fields["msgid"].text, language, entry.flags)
    sources = {"msgstr": singular}
    if "msgid_plural" in entry.fields:
        plural = Message(entry.fields["msgid_plural"].text, language, entry.flags)
        count = forms.count or len(entry.translations)
        takes_singular = [forms.takes_singular(i, singular.text, plural.text) for i in range(count)]
        sources = {f"msgstr[{i}]": singular if takes else plural for i, takes in enumerate(takes_singular)}
    messages = list(dict.fromkeys(sources.values()))  # each once, however many forms it is the source of
    sentences = [sentence for message in messages for sentence in message.sentences]
    replaces = options.all_entries or "fuzzy" in entry.flags
    return FileSegment(entry.number, sentences, partial(_write, entry, sources, messages, replaces))


def _write(
    entry: Entry,
    sources: dict[str, Message],
    messages: list[Message],
    replaces: bool,
    translations: Sequence[Translation],
) -> str:
    """The entry with its translations, marked fuzzy; forms that it has are kept, unless they are replaced."""
    written: dict[Message, str] = {}
    start = 0
    for message in messages:
        end = start + len(message.sentences)
        written[message] = message.write(translations[start:end])
        start = end
    keep = {} if replaces else {name: text for name, text in entry.translations.items() if text}
    eol = split_line_end(entry.lines[entry.fields["msgid"].first])[1] or "\n"
    wrapped = any(found.wrapped for found in entry.fields.values())
    old = [found for name, found in entry.fields.items() if name.startswith("msgstr")]
    first = min((found.first for found in old), default=len(entry.lines))
    last = max((found.first + found.lines for found in old), default=first)
    ending = entry.lines[last:]
    new = [
        line
        for name, message in sources.items()
        for line in _string_lines(name, keep.get(name, written[message]), wrapped, eol)
    ]
    if not ending and new and entry.lines and not split_line_end(entry.lines[-1])[1]:
        new[-1] = split_line_end(new[-1])[0]  # the last line of the file had no end
    return "".join([*_marked_fuzzy(entry.lines[:first], eol), *new, *ending])


def _marked_fuzzy(lines: list[str], eol: str) -> list[str]:
    """The lines above a translation, with the flag that it is a guess."""
    for i, line in enumerate(lines):
        if line.startswith("#,"):
            return lines if "fuzzy" in line else [*lines[:i], "#, fuzzy," + line[2:], *lines[i + 1 :]]
        if line.startswith("#|") or _KEYWORD.match(line):
            return [*lines[:i], "#, fuzzy" + eol, *lines[i:]]
    return lines


def _string_lines(name: str, text: str, wrapped: bool, eol: str) -> list[str]:
    """A keyword and its string, on several lines where it has line feeds, or was wrapped and is too long."""
    chunks = [escape(chunk) for chunk in re.findall(r"[^\n]*\n|[^\n]+", text)] or [""]
    if len(chunks) == 1 and (not wrapped or len(name) + 3 + len(chunks[0]) <= _WIDTH):
        return [f'{name} "{chunks[0]}"{eol}']
    lines = [line for chunk in chunks for line in (_wrap(chunk) if wrapped else [chunk])]
    return [f'{name} ""{eol}', *(f'"{line}"{eol}' for line in lines)]


def _wrap(text: str) -> Iterator[str]:
    """Parts of a string that fit on a line, broken after spaces."""
    line = ""
    for word in re.findall(r"\S*\s+|\S+", text):
        if line and len(line) + len(word) > _WIDTH - 2:
            yield line
            line = ""
        line += word
    yield line


def unescape(written: str) -> str:
    """The string that stands between quotes."""
    return _ESCAPE.sub(
        lambda match: (
            chr(int(match[1], 8))
            if match[1]
            else chr(int(match[2], 16) & 0xFF)
            if match[2]
            else _ESCAPES.get(match[3], match[3])
        ),
        written,
    )


def escape(text: str) -> str:
    """A string as it stands between quotes."""
    return "".join(_UNESCAPES.get(character, character) for character in text)
