"""Corpora in Parquet files and in datasets saved to disk, written by pyarrow as others write them."""

from __future__ import annotations

import json
import struct
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focat.config.corpora import AnyCorpus
from focat.corpus.document import Document
from focat.corpus.readers import read_documents
from tests.corpus.test_readers import corpora, corpus_settings, message_of

LANGUAGES = {"source_language": "en", "target_language": "de"}
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def write_parquet(path: Path, table: pa.Table, **values: object) -> AnyCorpus:
    pq.write_table(table, path, row_group_size=3)
    return corpus_settings("parquet", path=path, **LANGUAGES | values)


def write_dataset(folder: Path, table: pa.Table, **values: object) -> AnyCorpus:
    """As `save_to_disk` does: shards of Arrow streams, listed in state.json."""
    folder.mkdir(exist_ok=True)
    half = table.num_rows // 2
    names = []
    for i, part in enumerate((table.slice(0, half), table.slice(half))):
        names.append(f"data-{i:05}-of-00002.arrow")
        with pa.OSFile(str(folder / names[-1]), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(part, max_chunksize=2)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")
    return corpus_settings("dataset", path=folder, **LANGUAGES | values)


def rows_of(documents: list[Document]) -> list[tuple[str, str, str]]:
    return [(each.name, *pair) for each in documents for pair in zip(each.source, each.target, strict=True)]


@settings(max_examples=25, deadline=None)
@given(documents=corpora(texts))
def test_tables_come_back_as_they_were_written(documents: list[Document]) -> None:
    """Rows of sentences, of Hugging Face's translations, and of whole documents; in both formats."""
    names, source, target = map(list, zip(*rows_of(documents), strict=True))
    sentences = pa.table({"document": names, "source": source, "target": target})
    translations = pa.table(
        {"doc": names, "translation": [{"de": b, "en": a} for a, b in zip(source, target, strict=True)]}
    )
    whole = pa.table(
        {
            "document": [each.name for each in documents],
            "en": [each.source for each in documents],
            "de": [each.target for each in documents],
        }
    )
    tables: list[tuple[pa.Table, dict[str, Any]]] = [(sentences, {}), (translations, {"documents": "doc"}), (whole, {})]
    with TemporaryDirectory() as name:
        folder = Path(name)
        for i, (table, values) in enumerate(tables):
            assert list(read_documents(write_parquet(folder / f"{i}.parquet", table, **values))) == documents
            assert list(read_documents(write_dataset(folder / str(i), table, **values))) == documents


def test_what_a_document_is(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 1, 2], "src": ["a", None, "c"], "mt": ["A", "B", "C"]})
    values = {"source_column": "src", "target_column": "mt"}

    def read(documents: str) -> list[tuple[str, list[str]]]:
        left_out = Counter[str]()
        corpus = write_parquet(tmp_path / "t.parquet", table, **values, documents=documents)
        found = [(one.name, one.target) for one in read_documents(corpus, left_out)]
        assert left_out == {"untranslated": 1}
        return found

    assert read("id") == [("1", ["A"]), ("2", ["C"])]
    assert read("each") == [("t.parquet:1", ["A"]), ("t.parquet:3", ["C"])]
    assert read("file") == [("t.parquet", ["A", "C"])]


def test_a_folder_of_files(tmp_path: Path) -> None:
    for i in (1, 0):
        write_parquet(tmp_path / f"train-{i}.parquet", pa.table({"source": [f"s{i}"], "target": [f"t{i}"]}))
    corpus = corpus_settings("parquet", path=tmp_path, documents="file", **LANGUAGES)
    assert [one.source for one in read_documents(corpus)] == [["s0"], ["s1"]]


@pytest.mark.parametrize(
    ("table", "values", "message"),
    [
        ({"a": ["x"], "b": ["y"]}, {}, "no column translation.en, source, en; it has a, b: set source_column of the"),
        ({"source": ["x"], "b": ["y"]}, {"target_column": "c"}, "no column c; it has source, b: set target_column"),
        ({"source": ["x"], "target": ["y"]}, {}, "nothing says what a document is; set documents of the corpus to a"),
        ({"source": ["x"], "target": ["y"]}, {"documents": "id"}, "no column id, which documents of the corpus names"),
        ({"source": ["x"], "target": [1]}, {"documents": "each"}, "row 1: source and target hold something else than"),
        ({"source": [["x"]], "target": ["y"]}, {"documents": "each"}, "row 1: source and target must be both one"),
        ({"source": [["x"], ["a"]], "target": [["y"], []]}, {}, "row 2: unequal numbers of sentences: 1 and 0"),
        ({"source": ["x"], "target": ["y"], "document": [None]}, {}, "row 1: nothing in the column document"),
        ({"source": ["x"], "target": [None]}, {"documents": "each"}, "not a single sentence pair (1 untranslated)"),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, table: dict[str, Any], values: dict[str, str], message: str) -> None:
    problem = message_of(write_parquet(tmp_path / "t.parquet", pa.table(table), **values), tmp_path)
    assert problem.startswith(f"t.parquet{', ' if message.startswith('row') else ': '}{message}")


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    table = pa.table({"document": ["1"] * 9, "source": ["x"] * 9, "target": ["y"] * 9})
    corpus = write_parquet(tmp_path / "t.parquet", table)
    whole = (tmp_path / "t.parquet").read_bytes()
    for content in (b"", b"no parquet at all", whole[:-20], whole[:4] + bytes(40) + whole[44:]):
        (tmp_path / "t.parquet").write_bytes(content)
        assert message_of(corpus, tmp_path).startswith("t.parquet: not a whole Parquet file, or damaged after row ")
    (tmp_path / "t.parquet").unlink()
    assert message_of(corpus, tmp_path) == "t.parquet: no such file"

    dataset = write_dataset(tmp_path / "d", table)
    shard = tmp_path / "d" / "data-00001-of-00002.arrow"
    shard.write_bytes(shard.read_bytes()[:150])
    assert message_of(dataset, tmp_path).startswith("d/data-00001-of-00002.arrow: not a whole Arrow file, or damaged")
    shard.unlink()
    assert message_of(dataset, tmp_path) == "d/data-00001-of-00002.arrow: no such file"
    (tmp_path / "d" / "state.json").write_text("{}")
    assert message_of(dataset, tmp_path).startswith("d/state.json: names no files of a dataset; give a folder that")
    (tmp_path / "d" / "state.json").unlink()
    assert message_of(dataset, tmp_path).startswith("d: has no state.json; give a folder that save_to_disk")
    write_dataset(tmp_path / "d" / "train", table)
    (tmp_path / "d" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    assert message_of(dataset, tmp_path) == "d: holds the splits train; give the folder of one, as d/train"


def test_offsets_that_lead_outside_a_text_are_refused(tmp_path: Path) -> None:
    """A damaged Arrow file, whose text would be read with what lies behind it in memory."""
    table = pa.table({"en": ["aaaa", "bbbbb"], "de": ["c", "d"]})
    corpus = write_dataset(tmp_path / "d", pa.concat_tables([table, table]), documents="file")
    for path in (tmp_path / "d").glob("*.arrow"):
        content = path.read_bytes()
        assert content.count(struct.pack("<3i", 0, 4, 9)) == 1
        path.write_bytes(content.replace(struct.pack("<3i", 0, 4, 9), struct.pack("<3i", 0, 4, 40)))
    assert "not a whole Arrow file, or damaged after row 0" in message_of(corpus, tmp_path)
