"""JSON lines: a document, or a sentence of one, on each line; translations are added to what is in the line.

{"id": 7, "sentences": ["Where is the cat?", "It is asleep."]}     adds "translations": [...]
{"document": "talk-7", "source": "Where is the cat?"}              adds "translation": "..."
["Where is the cat?", "It is asleep."]                             becomes the list of translations
"Where is the cat?"                                                becomes its translation

The text of an object stays as it is, to the last digit and blank: fields are inserted before its closing brace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from focat.corpus.text_files import is_blank
from focat.translation.formats.lines import InputLines
from focat.translation.formats.segments import FileSegment, FormatOptions, verbatim
from focat.translation.result import Translation

_EXPECTED = "expected an object with `sentences` or `source`, a list of sentences, or a sentence"
_MAX_DIGITS = 1000  # of an integer that is converted; Python takes too long for very long ones, or refuses them
_JSON = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) <= _MAX_DIGITS else digits)
_BLANKS = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class Record:
    """A line of JSON."""

    text: str
    value: Any
    fields: dict[str, tuple[int, int]]
    """Where in the text the value of each field of an object begins and ends."""

    @property
    def is_single(self) -> bool:
        """Whether it is a single sentence rather than a list of sentences."""
        value = self.value
        return isinstance(value.get("sentences", value.get("source")) if isinstance(value, dict) else value, str)

    @property
    def document(self) -> str | None:
        """The name of the document that a single sentence belongs to; None if it has none."""
        name = self.value.get("document") if isinstance(self.value, dict) and self.is_single else None
        return None if name is None else json.dumps(name, sort_keys=True)

    def with_fields(self, added: dict[str, Any]) -> str:
        """The text of an object with more fields; those that it has already are replaced."""
        text = self.text
        new = "".join(f", {json.dumps(name)}: {_dump(added[name])}" for name in added if name not in self.fields)
        end = text.rindex("}")
        text = text[:end] + new + text[end:]
        for name in sorted(self.fields.keys() & added.keys(), key=lambda name: self.fields[name], reverse=True):
            start, end = self.fields[name]
            text = text[:start] + _dump(added[name]) + text[end:]
        return text


def jsonl_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """A segment for each line. Consecutive single sentences with the same `document` belong to one document."""
    document: str | None = None  # the one that may go on
    for text, end in lines.plain():
        if is_blank(text):
            yield verbatim(lines.number, text + end)
            continue
        record = _read(lines, text)
        sentences = _sentences(lines, record)
        _check_free(lines, record, options)
        if document is not None and document != record.document:
            yield verbatim(lines.number, "", ends_document=True)
        document = record.document
        yield FileSegment(
            lines.number, sentences, partial(_write, record, options, end), ends_document=document is None
        )


def _read(lines: InputLines, text: str) -> Record:
    try:
        value = _JSON.decode(text)
        fields = _fields(lines, text) if isinstance(value, dict) else {}
    except json.JSONDecodeError as error:
        raise lines.error(f"not JSON at column {error.colno} ({error.msg}); {_EXPECTED}") from error
    except RecursionError as error:  # thousands of brackets
        raise lines.error(f"not JSON that can be read ({error})") from error
    return Record(text, value, fields)


def _fields(lines: InputLines, text: str) -> dict[str, tuple[int, int]]:
    """Where the value of each field of an object begins and ends; the text is known to be an object."""
    fields: dict[str, tuple[int, int]] = {}
    position = _skip_blanks(text, text.index("{") + 1)
    while text[position] != "}":
        name, position = _JSON.raw_decode(text, position)
        start = _skip_blanks(text, _skip_blanks(text, position) + 1)  # behind the colon
        _, end = _JSON.raw_decode(text, start)
        if name in fields:
            raise lines.error(f"has two fields `{name}`; remove one")
        fields[name] = start, end
        position = _skip_blanks(text, end)
        if text[position] == ",":
            position = _skip_blanks(text, position + 1)
    return fields


def _skip_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match else position


def _sentences(lines: InputLines, record: Record) -> tuple[str, ...]:
    value, where = record.value, "the line"
    if isinstance(value, dict):
        field = next((name for name in ("sentences", "source") if name in value), None)
        if field is None:
            raise lines.error(f"no field `sentences` or `source`; {_EXPECTED}")
        value, where = value[field], f"`{field}`"
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list):
        raise lines.error(f"{where} is neither a sentence nor a list of sentences; {_EXPECTED}")
    for i, sentence in enumerate(found):
        if not isinstance(sentence, str):
            raise lines.error(f"entry {i + 1} of {where} is not a string; {_EXPECTED}")
        try:
            sentence.encode()  # JSON can spell half a character
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):04x}"
            raise lines.error(f"holds {half}, half of a surrogate pair; write the whole character") from error
    return tuple(found)


def _check_free(lines: InputLines, record: Record, options: FormatOptions) -> None:
    """Refuse a line that has a field where the translation is to be, unless it may be replaced."""
    for name in _added(record, options, ()):
        if name in record.fields and not options.replace_fields:
            raise lines.error(f"has a field `{name}` already; rename it, or overwrite")


def _write(record: Record, options: FormatOptions, end: str, translations: Sequence[Translation]) -> str:
    added = _added(record, options, translations)
    if isinstance(record.value, dict):
        return record.with_fields(added) + end
    name = "translation" if record.is_single else "translations"
    if options.plain:
        return _dump(added[name]) + end
    field = "source" if record.is_single else "sentences"
    return Record(f'{{"{field}": {record.text.strip()}}}', None, {}).with_fields(added) + end


def _added(record: Record, options: FormatOptions, translations: Sequence[Translation]) -> dict[str, Any]:
    """The fields that are added to a line."""
    added: dict[str, list[Any]] = {"translations": [translation.text for translation in translations]}
    if options.scores:
        added["scores"] = [translation.score for translation in translations]
    if options.nbest > 1:
        added["nbest"] = [
            [{"text": alternative.text, "score": alternative.score} for alternative in options.alternatives(each)]
            for each in translations
        ]
    if not record.is_single:
        return added
    return {name if name == "nbest" else name.removesuffix("s"): next(iter(all), None) for name, all in added.items()}


def _dump(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False)
