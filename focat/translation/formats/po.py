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
from functools import partial

from focat.corpus.po_entries import ESCAPES, KEYWORD, PoEntry, read_entries
from focat.translation.formats.encodings import declared_as
from focat.translation.formats.lines import InputLines, split_line_end
from focat.translation.formats.messages import Message
from focat.translation.formats.placeholders import placeholders
from focat.translation.formats.segments import FileSegment, FormatOptions, verbatim
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence

_UNESCAPES = {"\\": "\\\\", '"': '\\"'} | {character: "\\" + name for name, character in ESCAPES.items()}
_PLURALS = re.compile(r"Plural-Forms:\s*nplurals\s*=\s*(\d{1,3})\s*;\s*plural\s*=\s*([^;\n]+)")
_CHARSET = re.compile(r"(charset=)([^\s\\;\"]+)")
_WIDTH = 79  # of a line that gettext writes
_MAX_FORMS = 6  # no language has more


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
        elif not entry.is_fuzzy and all(entry.translations.values()) and not options.all_entries:
            yield FileSegment(entry.number, _context(entry, forms, options), partial(_copy, text))
        else:
            yield _filled(entry, forms, options)


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


def _context(entry: PoEntry, forms: PluralForms, options: FormatOptions) -> list[InputSentence]:
    """A message and its translation, as context of the following ones."""
    name = "msgstr" if "msgstr" in entry.fields else f"msgstr[{forms.form_of(1)}]"
    translation = entry.translations.get(name, "")
    message = Message(entry.message, options.languages[0])
    return list(message.with_translation(translation, options.languages[1]))


def _copy(text: str, translations: Sequence[Translation]) -> str:
    return text


def _filled(entry: PoEntry, forms: PluralForms, options: FormatOptions) -> FileSegment:
    """An entry whose translations are to be made."""
    language = options.languages[0]
    singular = Message(entry.message, language, entry.flags)
    sources = {"msgstr": singular}
    if entry.plural is not None:
        plural = Message(entry.plural, language, entry.flags)
        count = forms.count or len(entry.translations)
        takes_singular = [forms.takes_singular(i, singular.text, plural.text) for i in range(count)]
        sources = {f"msgstr[{i}]": singular if takes else plural for i, takes in enumerate(takes_singular)}
    messages = list(dict.fromkeys(sources.values()))  # each once, however many forms it is the source of
    sentences = [sentence for message in messages for sentence in message.sentences]
    replaces = options.all_entries or entry.is_fuzzy
    return FileSegment(entry.number, sentences, partial(_write, entry, sources, messages, replaces))


def _write(
    entry: PoEntry,
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
        if line.startswith("#|") or KEYWORD.match(line):
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


def escape(text: str) -> str:
    """A string as it stands between quotes."""
    return "".join(_UNESCAPES.get(character, character) for character in text)
