"""ParaDocs (Wicks et al., 2024): sentences of crawled web pages with their places in them, as TSV.

The published files have 18 columns; its own filter puts a document id in front of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from focat.config.corpora import ParadocsCorpus
from focat.corpus.document import Document
from focat.corpus.text_files import LineLimit, Lines, is_blank

COLUMNS = (
    *("src", "tgt", "similarity_one", "similarity_two", "collection", "src_paragraph_id", "tgt_paragraph_id"),
    *("src_sentence_id", "tgt_sentence_id", "src_start_index", "src_end_index", "tgt_start_index", "tgt_end_index"),
    *("src_language_id", "tgt_language_id", "frequency", "src_docid", "tgt_docid"),
)
_PLACE = slice(COLUMNS.index("src_paragraph_id"), COLUMNS.index("src_language_id"))  # where the sentences were
MAX_GAP = 2
"""How far apart two sentences of a page may be, by their indices, and still be neighbours in a document."""


class Line(NamedTuple):
    """What is needed of a line of the published file."""

    source: str
    target: str
    pages: str
    begins: tuple[int, int]
    ends: tuple[int, int]


def read_paradocs(corpus: ParadocsCorpus, limit: LineLimit, left_out: Counter[str]) -> Iterator[Document]:
    """The documents: consecutive sentences of the same two pages, without a gap."""
    lines = Lines(corpus.path, limit)
    for name, group in groupby(_named_pairs(corpus, lines, left_out), key=lambda named: named[0]):
        pairs = list(group)
        yield Document(name, [source for _, source, _ in pairs], [target for _, _, target in pairs])


def _named_pairs(corpus: ParadocsCorpus, lines: Lines, left_out: Counter[str]) -> Iterator[tuple[str, str, str]]:
    name = ""
    before: Line | None = None  # None at the start, and after a line that is left out
    for text in lines:
        columns = text.split("\t")
        if len(columns) == len(COLUMNS) + 1:  # filtered: its first column names the document
            yield columns[0], columns[1], columns[2]
            continue
        if len(columns) != len(COLUMNS):
            raise lines.error(
                f"columns between tabs: {len(columns)}; ParaDocs has {len(COLUMNS)}, or one more if filtered"
            )
        line = _accepted(columns, corpus, lines)
        if line is None:
            left_out["filtered"] += 1
        else:
            if before is None or not _follows(line, before):
                name = f"{line.pages}:{lines.number}"
            yield name, line.source, line.target
        before = line


def _accepted(columns: list[str], corpus: ParadocsCorpus, lines: Lines) -> Line | None:
    """The line; None if it has no known place, is too frequent, or uncertain in its language."""
    fields = dict(zip(COLUMNS, columns, strict=True))
    if "None" in columns[_PLACE] or is_blank(fields["src"]) or is_blank(fields["tgt"]):
        return None
    try:
        certainty = min(float(fields["src_language_id"]), float(fields["tgt_language_id"]))
        frequency = int(fields["frequency"])
        begins = int(fields["src_start_index"]), int(fields["tgt_start_index"])
        ends = int(fields["src_end_index"]), int(fields["tgt_end_index"])
    except ValueError as error:
        raise lines.error(f"{error}, where ParaDocs has a number") from None
    if corpus.max_frequency is not None and frequency > corpus.max_frequency:
        return None
    if corpus.min_language_probability is not None and certainty < corpus.min_language_probability:
        return None
    return Line(fields["src"], fields["tgt"], f"{fields['src_docid']} {fields['tgt_docid']}", begins, ends)


def _follows(line: Line, before: Line) -> bool:
    gaps = (begin - end for begin, end in zip(line.begins, before.ends, strict=True))
    return line.pages == before.pages and all(gap <= MAX_GAP for gap in gaps)
