"""Sentences cut in two, worked out by hand."""

from __future__ import annotations

from pathlib import Path

from focat.config.data import DataSettings
from focat.corpus.document import Document
from focat.corpus.halving import halve_sentences
from focat.corpus.prepare import prepare
from focat.corpus.store import Store
from focat.progress import NULL_PROGRESS


def test_pairs_are_cut_in_the_middle() -> None:
    document = Document(
        "talk",
        ["a b c d e f", "a b c d e f g", "1 2 3 4 5 6 7 8", "one two three four five six seven"],
        ["A B", "A B C", "I II III IV V", "Eins"],
    )
    halved = halve_sentences(document)
    assert halved.source == ["a b c d e f", "a b c", "d e f g", "1 2 3 4", "5 6 7 8", document.source[3]]
    assert halved.target == ["A B", "A", "B C", "I II", "III IV V", "Eins"]
    assert halved.name == "talk"


def test_a_store_of_halves_has_the_tokenizer_of_whole_sentences(tmp_path: Path) -> None:
    corpus = {"format": "generated", "documents": 40}
    stores = []
    for split in ("none", "middle"):
        data = {"store": tmp_path / split, "train": [corpus], "dev": [corpus], "split": split}
        prepare(DataSettings.model_validate(data | {"tokenizer": {"vocabulary": 400}}), NULL_PROGRESS)
        stores.append(Store(tmp_path / split))
    whole, halves = stores
    models = [store.path / "tokenizer" / "source.model" for store in stores]
    assert models[0].read_bytes() == models[1].read_bytes()
    assert halves.manifest["keys"]["dev"] == whole.manifest["keys"]["dev"]
    assert halves.manifest["keys"]["train"] != whole.manifest["keys"]["train"]
    split = halves.manifest["splits"]["train"]
    assert split["read"] == whole.manifest["splits"]["train"]["read"] < split["pairs"]
