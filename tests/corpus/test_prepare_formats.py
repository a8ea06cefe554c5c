"""`prepare` over formats whose readers leave pairs out: every pair is counted, and every file belongs to the key."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from focat.config.data import DataSettings
from focat.corpus.prepare import prepare
from focat.corpus.store import Store
from focat.progress import NULL_PROGRESS
from tests.corpus.test_po import GAME
from tests.corpus.test_subtitle_pairs import srt
from tests.corpus.test_tables import write_dataset
from tests.corpus.test_text_files import write
from tests.corpus.test_xml_corpora import MEMORY


def data_settings(folder: Path) -> DataSettings:
    """One corpus of each kind: files, trees, folders."""
    (folder / "po").mkdir(exist_ok=True)
    write(folder / "po" / "de.po", GAME)
    write(folder / "m.tmx", MEMORY)
    table = pa.table({"document": [1, 1], "en": ["One.", None], "de": ["Eins.", "Zwei."]})
    write_dataset(folder / "d", table)
    for language, text in (("en", "Yes."), ("de", "Ja.")):
        (folder / language).mkdir(exist_ok=True)
        write(folder / language / f"film.{language}.srt", srt([(1, 2, text), (8 if language == "en" else 5, 9, text)]))
    corpora = [
        {"format": "po", "path": folder / "po"},
        {"format": "tmx", "path": folder / "m.tmx"},
        {"format": "dataset", "path": folder / "d"},
        {"format": "subtitles", "source": folder / "en", "target": folder / "de", "target_shift": 0.1},
    ]
    return DataSettings.model_validate(
        {"store": folder / "store", "train": corpora, "dev": corpora, "tokenizer": {"vocabulary": 400}}
    )


def test_read_is_kept_and_removed(tmp_path: Path) -> None:
    data = data_settings(tmp_path)
    splits = prepare(data, NULL_PROGRESS)["splits"]
    # PO: 7, of which 2 are left out; TMX: 4, of which 1; table: 2, of which 1; film: 2.
    left_out = {"fuzzy": 1, "untranslated": 3}
    assert splits["dev"]["read"] == splits["train"]["read"] == 7 + 4 + 2 + 2
    assert {reason: count for reason, count in splits["dev"]["removed"].items() if count} == left_out
    removed = {reason: count for reason, count in splits["train"]["removed"].items() if count}
    assert removed == left_out | {"empty": 1}  # a unit of the TMX has an empty side; dev keeps it
    for split in splits.values():
        assert split["pairs"] + sum(split["removed"].values()) == split["read"]
    assert len(Store(data.store).split("dev").documents) - 1 == splits["dev"]["documents"] == 1 + 3 + 1 + 1


def test_a_change_of_any_file_of_a_folder_is_another_key(tmp_path: Path) -> None:
    data = data_settings(tmp_path)
    keys = [prepare(data, NULL_PROGRESS)["keys"]["dev"]]
    write(tmp_path / "po" / "fr.po", GAME)  # another language: not an input
    assert prepare(data, NULL_PROGRESS)["keys"]["dev"] == keys[0]
    write(tmp_path / "po" / "more-de.po", GAME)
    keys.append(prepare(data, NULL_PROGRESS, overwrite=True)["keys"]["dev"])
    write(tmp_path / "de" / "film.de.srt", srt([(1, 2, "Nein.")]))
    keys.append(prepare(data, NULL_PROGRESS, overwrite=True)["keys"]["dev"])
    assert len(set(keys)) == 3


def test_corpora_have_the_languages_of_the_data(tmp_path: Path) -> None:
    path = tmp_path / "m.tmx"
    corpora = [{"format": "tmx", "path": path}, {"format": "tmx", "path": path, "target_language": "de-AT"}]
    data = DataSettings.model_validate({"source_language": "fr", "target_language": "de", "train": corpora})
    assert [(one.source_language, one.target_language) for one in data.train] == [("fr", "de"), ("fr", "de-AT")]
    assert DataSettings.model_validate(data.model_dump()) == data
