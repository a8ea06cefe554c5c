"""The arrays of a token store against arrays worked out by hand, and the refusal of damaged ones.

The vocabulary is a pretended one, a character a token, so that every id can be read off the text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from focat.corpus.document import Document
from focat.corpus.prepare import prepare
from focat.corpus.store import STORE_VERSION, SplitWriter, Store, counts_line, open_split, open_split_writer
from focat.corpus.tokenizer import Tokenizer
from focat.errors import FocatError
from focat.progress import NULL_PROGRESS
from tests.corpus.test_prepare import files_in, settings

DOCUMENTS = [
    Document("one", ["\x14\x15", "\x16"], ["\x0a", "\x0b\x0c\x0d"]),
    Document("two", ["\x17\x18"], [""]),
]


class Characters:
    """A vocabulary whose tokens are code points."""

    def __init__(self, size: int) -> None:
        self.size = size

    def encode_all(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.array([ord(c) for text in texts for c in text], np.int64), np.array([len(text) for text in texts])


def characters(source: int = 100, target: int = 100) -> Tokenizer:
    return cast(Tokenizer, Tokenizer(Characters(source), Characters(target)))  # type: ignore[arg-type]


def written(folder: Path, *chunks: list[Document], tokenizer: Tokenizer | None = None) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    with open_split_writer(folder, tokenizer or characters()) as writer:
        for chunk in chunks:
            writer.write(chunk)
        return writer.finish()


@pytest.mark.parametrize("chunks", [[DOCUMENTS], [DOCUMENTS[:1], DOCUMENTS[1:]]])
def test_sentences_lie_one_behind_the_other_each_closed_by_a_separator(
    tmp_path: Path, chunks: list[list[Document]]
) -> None:
    """The same arrays however the documents arrive: `3` is the separator, an empty sentence is a separator alone."""
    described = written(tmp_path, *chunks)
    split = open_split(tmp_path)
    assert split.source.tokens.tolist() == [0x14, 0x15, 3, 0x16, 3, 0x17, 0x18, 3]
    assert split.source.offsets.tolist() == [0, 3, 5, 8]
    assert split.target.tokens.tolist() == [0x0A, 3, 0x0B, 0x0C, 0x0D, 3, 3]
    assert split.target.offsets.tolist() == [0, 2, 6, 7]
    assert split.documents.tolist() == [0, 2, 3]
    assert split.document_of.tolist() == [0, 0, 1]
    assert len(split) == len(split.source) == 3
    assert split.target[1].tolist() == [0x0B, 0x0C, 0x0D]
    assert split.target[2].tolist() == []
    assert split.target.lengths.tolist() == [2, 4, 1]
    assert described == {
        "documents": 2,
        "pairs": 3,
        "dtype": "<u2",
        "source": {"tokens": 8, "average_length": 1.6667},  # 2 + 1 + 2 tokens without separators, 3 sentences
        "target": {"tokens": 7, "average_length": 1.3333},
    }


def test_arrays_are_mapped_and_cannot_be_changed(tmp_path: Path) -> None:
    written(tmp_path, DOCUMENTS)
    split = open_split(tmp_path)
    assert isinstance(split.source.tokens, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        split.source.tokens[0] = 1


@pytest.mark.parametrize(
    ("source", "target", "dtype"),
    [(65536, 100, "<u2"), (65537, 100, "<u4"), (100, 65537, "<u4")],
)
def test_large_vocabularies_get_wider_tokens(tmp_path: Path, source: int, target: int, dtype: str) -> None:
    """65535 is the last id of a vocabulary of 65536 and of two bytes; one more, on either side, needs four."""
    largest = [chr(source - 1)], [chr(target - 1)]
    described = written(tmp_path, [Document("", *largest)], tokenizer=characters(source, target))
    split = open_split(tmp_path)
    assert described["dtype"] == dtype
    assert split.source.tokens.dtype == split.target.tokens.dtype == np.dtype(dtype)
    assert split.source[0].tolist() == [source - 1]
    assert split.target[0].tolist() == [target - 1]


def test_a_split_without_sentences_can_be_opened(tmp_path: Path) -> None:
    written(tmp_path)
    split = open_split(tmp_path)
    assert len(split) == 0
    assert split.documents.tolist() == [0]
    assert split.document_of.tolist() == []


def test_a_split_that_is_not_finished_does_not_exist(tmp_path: Path) -> None:
    with open_split_writer(tmp_path, characters()) as writer:
        writer.write(DOCUMENTS)
    with pytest.raises(FocatError, match=r"split\.json: cannot be read"):
        open_split(tmp_path)


def test_all_files_are_closed_even_if_one_refuses(tmp_path: Path) -> None:
    """What is left open is flushed when Python ends, and a full disk would then speak up a second time."""
    writer = SplitWriter(tmp_path, characters())
    files = list(writer._files.values())

    class Full:
        def close(self) -> None:
            raise OSError("full")

    writer._files = {"full": cast(Any, Full()), **writer._files}
    with pytest.raises(OSError, match="full"):
        writer.close()
    assert all(file.closed for file in files)


# ------------------------------------------------------------------------------------------------ what is damaged


@pytest.mark.parametrize(
    "name", ["documents", "source.tokens", "source.offsets", "target.tokens", "target.offsets", "split.json"]
)
@pytest.mark.parametrize("damage", ["cut short", "too long", "missing"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, damage: str) -> None:
    written(tmp_path, DOCUMENTS)
    path = tmp_path / name
    content = path.read_bytes()
    path.write_bytes(content[:-3] if damage == "cut short" else content + b"xx")
    if damage == "missing":
        path.unlink()
    with pytest.raises(FocatError, match=rf"{name}: .*; run `focat prepare` again"):
        open_split(tmp_path)


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FocatError, match="is no finished token store; run `focat prepare`"):
        Store(tmp_path)
    (tmp_path / "manifest.json").write_text('{"version": ')
    with pytest.raises(FocatError, match=r"manifest\.json: cannot be read"):
        Store(tmp_path)


def test_a_store_of_another_layout_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"version": STORE_VERSION + 1, "splits": {}}))
    with pytest.raises(FocatError, match=f"version {STORE_VERSION + 1}, and this focat reads version {STORE_VERSION}"):
        Store(tmp_path)


MANIFEST = {
    **{"version": STORE_VERSION, "splits": {}, "keys": {}, "source_language": "en", "target_language": "de"},
    **{"source_vocabulary": 40, "target_vocabulary": 40, "joint": True},
}


@pytest.mark.parametrize("field", [name for name in MANIFEST if name != "version"])
def test_a_manifest_that_lacks_something_is_refused(tmp_path: Path, field: str) -> None:
    for damaged in ({name: value for name, value in MANIFEST.items() if name != field}, {**MANIFEST, field: None}):
        (tmp_path / "manifest.json").write_text(json.dumps(damaged))
        with pytest.raises(FocatError, match=f"manifest.json: says nothing of {field}, or is damaged"):
            Store(tmp_path)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"key": "0" * 64}, "train is not the one that manifest.json names"),
        ({"sha256": {"../kept": hashlib.sha256(b"kept").hexdigest()}}, "train/kept cannot be read"),
    ],
)
def test_a_part_of_something_else_is_made_again(tmp_path: Path, change: dict[str, Any], found: str) -> None:
    data = settings(tmp_path)
    prepare(data, NULL_PROGRESS)
    before = files_in(data.store)
    (data.store / "kept").write_text("kept")
    path = data.store / "train" / "stage.json"
    described = json.loads(path.read_text())
    described["sha256"] |= change.pop("sha256", {})
    path.write_text(json.dumps(described | change))
    with pytest.raises(FocatError, match=f"{found}.*; run `focat prepare` again"):
        Store(data.store).verify()
    prepare(data, NULL_PROGRESS)
    (data.store / "kept").unlink()
    assert files_in(data.store) == before


def test_a_split_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({**MANIFEST, "splits": {"train": {}, "dev": {}}}))
    with pytest.raises(FocatError, match=r"has no test split \(it has train, dev\); see data\.test"):
        Store(tmp_path).split("test")
    with pytest.raises(FocatError, match=r"has no valid split \(it has train, dev\); choose one of these"):
        Store(tmp_path).split("valid")


# ------------------------------------------------------------------------------------------------ what is printed


def test_counts_in_one_line() -> None:
    counted = {"documents": 1200, "pairs": 34567, "read": 34570, "removed": {"empty": 3, "ratio": 0}}
    assert counts_line(counted) == "1,200 documents, 34,567 of 34,570 pairs (removed: 3 empty)"
    counted["removed"] = {"empty": 0}
    assert counts_line(counted).endswith("(nothing removed)")
