"""From the files of a corpus to its documents: one reader for each format declared in `focat.config.data`.

Everything streams: a document is in memory only while it is in use, however large its corpus.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from focat.config.corpora import (
    AnyCorpus,
    Corpus,
    DatasetCorpus,
    FragmentsCorpus,
    GeneratedCorpus,
    IdsCorpus,
    JsonlCorpus,
    LanguagesCorpus,
    OpusCorpus,
    OpusXmlCorpus,
    ParadocsCorpus,
    ParquetCorpus,
    PoCorpus,
    SubtitlesCorpus,
    TextCorpus,
    TmxCorpus,
    TsvCorpus,
    Wit3Corpus,
)
from focat.corpus.document import SENTENCE_BREAK, Document
from focat.corpus.opus import read_aligned, read_moses
from focat.corpus.paradocs import read_paradocs
from focat.corpus.po import po_files, read_po
from focat.corpus.subtitle_pairs import read_subtitles, subtitle_files
from focat.corpus.tables import read_table, table_files
from focat.corpus.text_files import DEFAULT_LIMIT, LineLimit, Lines, is_blank, parallel_lines
from focat.corpus.tmx import read_tmx
from focat.corpus.wit3 import read_talks
from focat.errors import FocatError

NamedPair = tuple[str, str, str]
"""The name of its document, a source sentence, its translation."""


def read_documents(corpus: AnyCorpus, left_out: Counter[str] | None = None) -> Iterator[Document]:
    """Yield the documents of a corpus in order, up to its `max_pairs` and `max_documents`.

    Args:
        corpus: which files, and how they are read.
        left_out: counts pairs that a reader cannot give, by reason: `untranslated` (a side is missing), `fuzzy`,
            `unaligned`, `filtered`.

    Raises:
        FocatError: a file is missing or malformed, or the corpus has no sentence pair.
    """
    left_out = Counter() if left_out is None else left_out
    before = left_out.copy()
    pairs_left = corpus.max_pairs
    count = 0
    for count, document in enumerate(_read(corpus, left_out), start=1):
        if pairs_left is not None:
            if len(document.source) >= pairs_left:
                yield Document(document.name, document.source[:pairs_left], document.target[:pairs_left])
                return
            pairs_left -= len(document.source)
        yield document
        if count == corpus.max_documents:
            return
    if count == 0:
        reasons = ", ".join(f"{number} {reason}" for reason, number in (left_out - before).items())
        found = f" ({reasons})" if reasons else ""
        raise FocatError(f"{_files(corpus)}: not a single sentence pair{found}; is this the right file?")


def _read(corpus: AnyCorpus, left_out: Counter[str]) -> Iterator[Document]:
    limit = _line_limit(corpus)
    match corpus:
        case TextCorpus():
            return _grouped(_text_pairs(corpus))
        case IdsCorpus():
            return _grouped(_ids_pairs(corpus))
        case TsvCorpus():
            return _grouped(_tsv_pairs(corpus))
        case JsonlCorpus():
            return _jsonl_documents(corpus)
        case Wit3Corpus():
            return read_talks(corpus.source, corpus.target, limit)
        case FragmentsCorpus():
            return _fragments(corpus)
        case OpusCorpus():
            return read_moses(corpus, limit)
        case OpusXmlCorpus():
            return read_aligned(corpus, _languages(corpus), limit, left_out)
        case TmxCorpus():
            return read_tmx(corpus, _languages(corpus), limit, left_out)
        case PoCorpus():
            return read_po(corpus, _languages(corpus)[1], limit, left_out)
        case ParquetCorpus() | DatasetCorpus():
            return read_table(corpus, _languages(corpus), left_out)
        case ParadocsCorpus():
            return read_paradocs(corpus, limit, left_out)
        case SubtitlesCorpus():
            return read_subtitles(corpus, limit, left_out)
        case GeneratedCorpus():
            from focat.corpus.generated import generate

            return generate(corpus.documents, corpus.seed)


def input_files(corpus: AnyCorpus) -> dict[str, list[Path]]:
    """Return the files that a corpus is read from, in order, by the setting that names them."""
    match corpus:
        case PoCorpus():
            return {"path": po_files(corpus, _languages(corpus)[1])}
        case ParquetCorpus() | DatasetCorpus():
            return {"path": table_files(corpus)}
        case SubtitlesCorpus():
            return {side: [*subtitle_files(getattr(corpus, side)).values()] for side in ("source", "target")}
    paths = {name: value for name, value in corpus if isinstance(value, Path)}
    return {
        name: sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        for name, path in paths.items()
    }


def _languages(corpus: LanguagesCorpus) -> tuple[str, str]:
    if corpus.source_language is None or corpus.target_language is None:
        raise FocatError("set source_language and target_language of the corpus")
    return corpus.source_language, corpus.target_language


def _line_limit(corpus: Corpus) -> LineLimit:
    """How long a line of a corpus may be."""
    return LineLimit(corpus.max_line_bytes or DEFAULT_LIMIT.bytes, "max_line_bytes of the corpus")


def _files(corpus: AnyCorpus) -> str:
    match corpus:
        case GeneratedCorpus():
            return "the generated corpus"
        case OpusXmlCorpus():
            return str(corpus.alignment)
        case (
            TsvCorpus()
            | JsonlCorpus()
            | TmxCorpus()
            | PoCorpus()
            | ParquetCorpus()
            | DatasetCorpus()
            | ParadocsCorpus()
        ):
            return str(corpus.path)
        case _:
            return f"{corpus.source} and {corpus.target}"


def _grouped(pairs: Iterable[NamedPair]) -> Iterator[Document]:
    """Neighbouring pairs of the same name are one document."""
    for name, group in groupby(pairs, key=itemgetter(0)):
        _, source, target = zip(*group, strict=True)
        yield Document(name, list(source), list(target))


def _lines(path: Path, corpus: Corpus) -> Lines:
    return Lines(path, _line_limit(corpus))


def _name(lines: Lines) -> str:
    """A name for the document that starts at the line last read, for corpora that name none themselves."""
    return f"{lines.path.name}:{lines.number}"


def _text_pairs(corpus: TextCorpus) -> Iterator[NamedPair]:
    sources, targets = _lines(corpus.source, corpus), _lines(corpus.target, corpus)
    name = None
    for source, target in parallel_lines(sources, targets):
        if is_blank(source) or is_blank(target):
            if not (is_blank(source) and is_blank(target)):
                blank, other = (sources, targets) if is_blank(source) else (targets, sources)
                raise blank.error(
                    f"blank, but the same line of {other.path} is not; a blank line between documents "
                    f"stands on both sides (format `ids` can hold empty sentences)"
                )
            name = None
            continue
        name = name or _name(sources)
        yield name, source, target


def _ids_pairs(corpus: IdsCorpus) -> Iterator[NamedPair]:
    ids = _lines(corpus.documents, corpus)
    for source, target, document in parallel_lines(_lines(corpus.source, corpus), _lines(corpus.target, corpus), ids):
        if is_blank(document):
            raise ids.error("no document id; every sentence needs one")
        yield document, source, target


def _tsv_pairs(corpus: TsvCorpus) -> Iterator[NamedPair]:
    lines = _lines(corpus.path, corpus)
    name = None
    expected, first = 0, 0  # the number of columns, and the line that set it
    for line in lines:
        if "\t" not in line and is_blank(line):
            name = None
            continue
        columns = line.split("\t")
        if len(columns) != expected:
            if expected:
                raise lines.error(f"{_counted(columns)} between tabs, but line {first} has {expected}")
            if len(columns) not in (2, 3):
                raise lines.error(
                    f"{_counted(columns)} between tabs; expected `source, target` or `document, source, target`"
                )
            expected, first = len(columns), lines.number
        if expected == 3:
            name = columns[0]
            if is_blank(name):
                raise lines.error("the first of three columns, the document's id, is empty")
        name = name or _name(lines)
        yield name, columns[-2], columns[-1]


def _counted(columns: list[str]) -> str:
    return "1 column" if len(columns) == 1 else f"{len(columns)} columns"


def _fragments(corpus: FragmentsCorpus) -> Iterator[Document]:
    sources, targets = _lines(corpus.source, corpus), _lines(corpus.target, corpus)
    for source, target in parallel_lines(sources, targets):
        document = Document(_name(sources), source.split(SENTENCE_BREAK), target.split(SENTENCE_BREAK))
        if len(document.source) != len(document.target):
            raise sources.error(
                f"unequal numbers of sentences: {len(document.source)} here, {len(document.target)} "
                f"in the same line of {targets.path}; "
                f"sentences joined by `{SENTENCE_BREAK}` must correspond one by one"
            )
        yield document


def _jsonl_documents(corpus: JsonlCorpus) -> Iterator[Document]:
    """Lines that are a sentence are joined to documents by their id; lines that are a document stand alone."""
    lines = _lines(corpus.path, corpus)
    pieces = (_json_piece(lines, line) for line in lines if not is_blank(line))
    for _, group in groupby(pieces, key=itemgetter(0)):
        documents = [document for _, document in group]
        source = [sentence for document in documents for sentence in document.source]
        target = [sentence for document in documents for sentence in document.target]
        if source:
            yield Document(documents[0].name, source, target)


def _json_piece(lines: Lines, line: str) -> tuple[str | int, Document]:
    """A document or a part of one, and what joins it to the other parts: the id, or else its own line number."""
    record = _json_object(lines, line)
    name = _json_document_name(lines, record)
    source = _json_sentences(lines, record, "source")
    target = _json_sentences(lines, record, "target")
    is_sentence = isinstance(record["source"], str)
    if is_sentence != isinstance(record["target"], str):
        raise lines.error("`source` and `target` must be both one sentence or both a list of sentences")
    if len(source) != len(target):
        raise lines.error(f"unequal numbers of sentences: {len(source)} in `source`, {len(target)} in `target`")
    if not is_sentence:
        return lines.number, Document(name or _name(lines), source, target)
    if not name:
        raise lines.error("no field `document`; a sentence needs the id of its document")
    return name, Document(name, source, target)


def _json_object(lines: Lines, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise lines.error(f"not JSON at column {error.colno} ({error.msg}); expected one object per line") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
        raise lines.error(f"not JSON that can be read ({error})") from error
    if not isinstance(record, dict):
        raise lines.error(f"{_json_type(record)}; expected an object with `source`, `target` and `document`")
    return record


def _json_document_name(lines: Lines, record: dict[str, Any]) -> str | None:
    name = record.get("document")
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    if name is not None and not isinstance(name, str):
        raise lines.error(f"`document` is {_json_type(name)}; expected a string or a number without fraction")
    return None if name is None else _json_text(lines, "document", name)


def _json_sentences(lines: Lines, record: dict[str, Any], field: str) -> list[str]:
    """The sentences of a field that holds one or a list of them."""
    if field not in record:
        raise lines.error(f"no field `{field}`; expected `source`, `target` and `document`")
    value = record[field]
    if isinstance(value, str):
        return [_json_text(lines, field, value)]
    if not isinstance(value, list):
        raise lines.error(f"`{field}` is {_json_type(value)}; expected a sentence or a list of sentences")
    return [_json_text(lines, f"{field}[{index}]", sentence) for index, sentence in enumerate(value)]


def _json_text(lines: Lines, field: str, value: object) -> str:
    if not isinstance(value, str):
        raise lines.error(f"`{field}` is {_json_type(value)}; expected a string")
    try:
        value.encode()  # JSON can spell half a character, which no UTF-8 file could take
    except UnicodeEncodeError as error:
        half = f"\\u{ord(value[error.start]):04x}"
        raise lines.error(f"`{field}` holds {half}, half of a surrogate pair; write the whole character") from error
    return value


def _json_type(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
