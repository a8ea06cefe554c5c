"""ParaDocs as published: where its documents end, what is left out, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focat.config.corpora import AnyCorpus
from focat.corpus.document import Document
from focat.corpus.paradocs import COLUMNS
from focat.corpus.readers import read_documents
from tests.corpus.test_readers import corpora, corpus_settings, message_of
from tests.corpus.test_text_files import write


def line(source: str, target: str, **fields: object) -> str:
    """A line of the published file, of the page u."""
    defaults = {
        **{"src": source, "tgt": target, "similarity_one": 0.9, "similarity_two": 0.8, "collection": "cc"},
        **{"src_paragraph_id": 0, "tgt_paragraph_id": 0, "src_sentence_id": 0, "tgt_sentence_id": 0},
        **{"src_start_index": 1, "src_end_index": 1, "tgt_start_index": 1, "tgt_end_index": 1},
        **{"src_language_id": 0.99, "tgt_language_id": 0.9, "frequency": 3, "src_docid": "u", "tgt_docid": "v"},
    }
    assert tuple(defaults) == COLUMNS
    return "\t".join(str(value) for value in (defaults | fields).values()) + "\n"


def at(index: int) -> dict[str, object]:
    return dict.fromkeys(("src_start_index", "src_end_index", "tgt_start_index", "tgt_end_index"), index)


def paradocs(path: Path, text: str | bytes, **values: object) -> AnyCorpus:
    return corpus_settings("paradocs", path=write(path, text), **values)


texts = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=8)


@settings(max_examples=25, deadline=None)
@given(documents=corpora(texts), filtered=st.booleans())
def test_documents_come_back_as_they_were_written(documents: list[Document], filtered: bool) -> None:
    text = ""
    for number, document in enumerate(documents):
        for i, pair in enumerate(zip(document.source, document.target, strict=True)):
            front = f"{number:06}+000\t" if filtered else ""
            text += front + line(*pair, src_docid=f"http://{number}", **at(2 * i))
    with TemporaryDirectory() as folder:
        read = list(read_documents(paradocs(Path(folder) / "en-de-strict.gz", text)))
    assert [(one.source, one.target) for one in read] == [(one.source, one.target) for one in documents]


def test_where_documents_end(tmp_path: Path) -> None:
    """At another page, at a gap on either side, and at a line that is left out."""
    text = (
        line("a", "A", **at(1))
        + line("b", "B", **at(3))
        + line("c", "C", **at(6))  # three further
        + line("d", "D", **at(7) | {"tgt_start_index": 10})  # on the target, too
        + line("e", "E", tgt_docid="w", **at(8))
        + line("f", "F", frequency=101, **at(9))
        + line("g", "G", tgt_docid="w", **at(9))
        + line("h", "H", src_language_id=0.4)
        + line("i", "I", src_start_index="None")
        + line(" ", "J")
    )
    left_out = Counter[str]()
    read = list(read_documents(paradocs(tmp_path / "p.tsv", text), left_out))
    assert [one.source for one in read] == [["a", "b"], ["c"], ["d"], ["e"], ["g"]]
    assert [one.name for one in read] == ["u v:1", "u v:3", "u v:4", "u w:5", "u w:7"]
    assert left_out == {"filtered": 4}
    everything = paradocs(tmp_path / "p.tsv", text, max_frequency=None, min_language_probability=None)
    assert [one.source for one in read_documents(everything)][-3:] == [["f"], ["g"], ["h"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n", "p.tsv, line 1: columns between tabs: 2; ParaDocs has 18, or one more if filtered"),
        (line("a", "A", frequency="often"), "p.tsv, line 1: invalid literal for int() with base 10: 'often', where"),
        (line("a", "A", frequency=1000), "p.tsv: not a single sentence pair (1 filtered); is this the right file?"),
        (b"\xff", "p.tsv, line 1: byte 0xFF at column 1 is not UTF-8"),
    ],
)
def test_broken_files(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert message_of(paradocs(tmp_path / "p.tsv", text), tmp_path).startswith(message)
