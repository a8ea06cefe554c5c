"""JSON lines: a document, or a sentence of one, on each line; what was in the line stays, translations are added.

{"id": 7, "sentences": ["Where is the cat?", "It is asleep."]}     adds "translations": [...]
{"document": "talk-7", "source": "Where is the cat?"}              adds "translation": "..."
["Where is the cat?", "It is asleep."]                             becomes the list of translations
"Where is the cat?"                                                becomes its translation
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from focat.corpus.text_files import is_blank
from focat.translation.formats.lines import InputLines
from focat.translation.formats.parts import Part, Showing, verbatim
from focat.translation.result import Translation

_EXPECTED = "expected an object with `sentences` or `source`, a list of sentences, or a sentence"


def jsonl_parts(lines: InputLines, showing: Showing) -> Iterator[Part]:
    """A part for each line. Neighbours that name the same `document` are one, if each is a single sentence."""
    before: Part | None = None
    name_before: object = None
    for text, end in lines.plain():
        if is_blank(text):
            part, name = verbatim(lines.number, end), name_before
        else:
            record = _read(lines, text)
            sentences, name = _sentences(lines, record), _document(record)
            part = Part(lines.number, sentences, partial(_write, record, showing, end))
        if before is not None:
            yield _ended(before, name is None or name != name_before)
        before, name_before = part, name
    if before is not None:
        yield before


def _ended(part: Part, ends: bool) -> Part:
    return Part(part.line, part.sentences, part.write, ends_document=ends, lost=part.lost)


def _read(lines: InputLines, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise lines.error(f"not JSON at column {error.colno} ({error.msg}); {_EXPECTED}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
        raise lines.error(f"not JSON that can be read ({error})") from error


def _sentences(lines: InputLines, record: Any) -> tuple[str, ...]:
    value, place = record, "the line"
    if isinstance(record, dict):
        field = next((name for name in ("sentences", "source") if name in record), None)
        if field is None:
            raise lines.error(f"no field `sentences` or `source`; {_EXPECTED}")
        value, place = record[field], f"`{field}`"
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list):
        raise lines.error(f"{place} is neither a sentence nor a list of sentences; {_EXPECTED}")
    for i, sentence in enumerate(found):
        if not isinstance(sentence, str):
            raise lines.error(f"entry {i + 1} of {place} is not a string; {_EXPECTED}")
    try:
        json.dumps(record, ensure_ascii=False).encode()  # JSON can spell half a character, which no file can hold
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise lines.error(f"holds {half}, half of a surrogate pair; write the whole character") from error
    return tuple(found)


def _document(record: Any) -> object:
    """What joins neighbouring sentences to a document; None if nothing does."""
    name = record.get("document") if isinstance(record, dict) and _is_one(record) else None
    return None if name is None else json.dumps(name, sort_keys=True)


def _write(record: Any, showing: Showing, end: str, translations: Sequence[Translation]) -> str:
    texts = [translation.text for translation in translations]
    alone = _is_one(record)
    if not isinstance(record, dict):
        if showing.plain:
            return _dumped(texts[0] if alone else texts) + end
        record = {"source" if alone else "sentences": record}
    added: dict[str, Any] = {"translation": texts[0]} if alone else {"translations": texts}
    if showing.scores:
        scores = [translation.score for translation in translations]
        added |= {"score": scores[0]} if alone else {"scores": scores}
    if showing.nbest > 1:
        nbest = [
            [
                {"text": alternative.text, "score": alternative.score}
                for alternative in showing.alternatives(translation)
            ]
            for translation in translations
        ]
        added["nbest"] = nbest[0] if alone else nbest
    return _dumped({**record, **added}) + end


def _is_one(record: Any) -> bool:
    """Whether it is a single sentence rather than a list of them."""
    value = record.get("sentences", record.get("source")) if isinstance(record, dict) else record
    return isinstance(value, str)


def _dumped(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False)
