"""JSON lines: a document, or a sentence of one, on each line; translations are added to what is in the line.

{"id": 7, "sentences": ["Where is the cat?", "It is asleep."]}     adds "translations": [...]
{"document": "talk-7", "source": "Where is the cat?"}              adds "translation": "..."
["Where is the cat?", "It is asleep."]                             becomes the list of translations
"Where is the cat?"                                                becomes its translation
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from focat.corpus.text_files import is_blank
from focat.translation.formats.lines import InputLines
from focat.translation.formats.segments import FileSegment, OutputOptions, verbatim
from focat.translation.result import Translation

_EXPECTED = "expected an object with `sentences` or `source`, a list of sentences, or a sentence"


def jsonl_segments(lines: InputLines, options: OutputOptions) -> Iterator[FileSegment]:
    """A segment for each line. Consecutive single sentences with the same `document` belong to one document."""
    before: FileSegment | None = None
    name_before: object = None
    for text, end in lines.plain():
        if is_blank(text):
            segment, name = verbatim(lines.number, end), name_before
        else:
            record = _read(lines, text)
            sentences, name = _sentences(lines, record), _document(record)
            segment = FileSegment(lines.number, sentences, partial(_write, record, options, end))
        if before is not None:
            yield replace(before, ends_document=name is None or name != name_before)
        before, name_before = segment, name
    if before is not None:
        yield before


def _read(lines: InputLines, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise lines.error(f"not JSON at column {error.colno} ({error.msg}); {_EXPECTED}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
        raise lines.error(f"not JSON that can be read ({error})") from error


def _sentences(lines: InputLines, record: Any) -> tuple[str, ...]:
    value, where = record, "the line"
    if isinstance(record, dict):
        field = next((name for name in ("sentences", "source") if name in record), None)
        if field is None:
            raise lines.error(f"no field `sentences` or `source`; {_EXPECTED}")
        value, where = record[field], f"`{field}`"
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list):
        raise lines.error(f"{where} is neither a sentence nor a list of sentences; {_EXPECTED}")
    for i, sentence in enumerate(found):
        if not isinstance(sentence, str):
            raise lines.error(f"entry {i + 1} of {where} is not a string; {_EXPECTED}")
    try:
        json.dumps(record, ensure_ascii=False).encode()  # JSON can spell half a character, which no file can hold
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise lines.error(f"holds {half}, half of a surrogate pair; write the whole character") from error
    return tuple(found)


def _document(record: Any) -> object:
    """The name of the document that a single sentence belongs to; None if it has none."""
    name = record.get("document") if isinstance(record, dict) and _is_single(record) else None
    return None if name is None else json.dumps(name, sort_keys=True)


def _write(record: Any, options: OutputOptions, end: str, translations: Sequence[Translation]) -> str:
    texts = [translation.text for translation in translations]
    single = _is_single(record)
    if not isinstance(record, dict):
        if options.plain:
            return _dump(texts[0] if single else texts) + end
        record = {"source" if single else "sentences": record}
    added: dict[str, Any] = {"translation": texts[0]} if single else {"translations": texts}
    if options.scores:
        scores = [translation.score for translation in translations]
        added |= {"score": scores[0]} if single else {"scores": scores}
    if options.nbest > 1:
        nbest = [
            [
                {"text": alternative.text, "score": alternative.score}
                for alternative in options.alternatives(translation)
            ]
            for translation in translations
        ]
        added["nbest"] = nbest[0] if single else nbest
    return _dump({**record, **added}) + end


def _is_single(record: Any) -> bool:
    """Whether it is a single sentence rather than a list of sentences."""
    value = record.get("sentences", record.get("source")) if isinstance(record, dict) else record
    return isinstance(value, str)


def _dump(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False)
