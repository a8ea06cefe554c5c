"""A training whose settings of data are not those of its store is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from focat.corpus.made_from import check_same_data
from focat.corpus.prepare import prepare
from focat.corpus.store import Store
from focat.errors import FocatError
from focat.progress import NULL_PROGRESS
from tests.corpus.test_prepare import settings, write_corpus


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made-from")
    prepare(settings(folder), NULL_PROGRESS)
    return folder


def text(folder: Path, name: str, **more: Any) -> list[dict[str, Any]]:
    return [{"format": "text", "source": str(folder / f"{name}.en"), "target": str(folder / f"{name}.de"), **more}]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda folder: {"tokenizer": {"vocabulary": 400}}, "data.tokenizer.vocabulary = 300, not 400"),
        (lambda folder: {"train": text(folder, "train", max_pairs=9)}, "data.train.0.max_pairs = null, not 9"),
        (lambda folder: {"train": text(folder, "train") * 2}, "data.train = 1 corpus, not 2 corpora"),
        (lambda folder: {"dev": text(folder, "train")}, "data.dev.0.source = dev.en, not train.en"),
        (lambda folder: {"source_language": "fr"}, "data.source_language = en, not fr"),
        (lambda folder: {"formality": 0.5}, "data.formality = 0.0, not 0.5"),
        (lambda folder: {"normalisation": {"lowercase": True}}, "data.normalisation.lowercase = false, not true"),
        (lambda folder: {"cleaning": {"identical": True}}, "data.cleaning.identical = false, not true"),
        (lambda folder: {"test": text(folder, "dev")}, "data.test = 0 corpora, not 1 corpus"),
    ],
)
def test_other_settings_are_refused(folder: Path, change: Any, problem: str) -> None:
    expected = f"{folder / 'store'}: was prepared with {problem}; set it back, or prepare another store"
    with pytest.raises(FocatError, match=re.escape(expected)):
        check_same_data(settings(folder, **change(folder)), Store(folder / "store"))


def test_what_changes_nothing_may_differ(folder: Path, tmp_path: Path) -> None:
    store = Store(folder / "store")
    check_same_data(settings(folder), store)
    check_same_data(settings(folder, dev=[]), store)  # a split that is not used
    check_same_data(settings(folder, train=[write_corpus(tmp_path, "train", 40)]), store)  # files that have moved
    check_same_data(settings(folder, train=[], tokenizer={"vocabulary": 400}), store)  # says nothing of the store


def test_stores_of_earlier_versions(folder: Path, tmp_path: Path) -> None:
    made = settings(tmp_path)
    prepare(made, NULL_PROGRESS)
    path = tmp_path / "store" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["settings"]
    path.write_text(json.dumps(manifest))
    check_same_data(settings(tmp_path, tokenizer={"vocabulary": 400}), Store(tmp_path / "store"))
    prepare(made, NULL_PROGRESS)  # nothing is made again, but they are known from now on
    with pytest.raises(FocatError, match="vocabulary = 300, not 400"):
        check_same_data(settings(tmp_path, tokenizer={"vocabulary": 400}), Store(tmp_path / "store"))
