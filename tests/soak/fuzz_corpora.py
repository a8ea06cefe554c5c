"""Fuzzed corpora of every format, and SentencePiece models: what `focat prepare` reads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

from tests.soak.fuzz_case import Build, FuzzCase, Mutate
from tests.soak.mutations import (
    compressed,
    mutate_binary,
    mutate_json,
    mutate_json_lines,
    mutate_text,
    mutate_yaml,
)
from tests.soak.seeds import SETTINGS, Seeds

_LANGUAGES = {"source_language": "en", "target_language": "de"}


def corpus(format: str, patterns: dict[str, str], mutate: Mutate = mutate_text, **more: object) -> Build:
    """Corpora of a format, by the pattern of files for each setting. One is drawn, and one file of it changed."""

    def build(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
        files = {setting: seeds.files(f"corpora/{pattern}") for setting, pattern in patterns.items()}
        number = draw.randrange(min(map(len, files.values())))
        changed = draw.choice(list(files))
        settings = {"format": format, **more}
        for setting, choices in files.items():
            name, data = choices[number].name, choices[number].read_bytes()
            if setting == changed:
                name, data = compressed(draw, name, mutate(draw, data))
            (folder / name).write_bytes(data)
            settings[setting] = name
        return prepare(draw, seeds, folder, settings)

    return build


def prepare(draw: Random, seeds: Seeds, folder: Path, settings: dict[str, object]) -> FuzzCase:
    """Prepare a corpus with these settings, cleaned and normalised in some way."""
    cleaning = {"identical": True, "max_characters": 200, "max_length_ratio": 3.0} if draw.random() < 0.5 else {}
    normalisation = {"unicode": draw.choice(["none", "NFC", "NFKC"]), "lowercase": draw.random() < 0.5}
    tokenizer = {"source_model": str(seeds.store / "tokenizer/source.model")}
    data_settings = {"store": "store", "tokenizer": tokenizer, "cleaning": cleaning, "normalisation": normalisation}
    tree = {"data": {**data_settings, draw.choice(["dev", "test"]): [settings], "train": [settings]}}
    (folder / "c.yaml").write_text(json.dumps(tree))
    return FuzzCase(["prepare", "c.yaml", "--quiet"], ("store*",), kept_if_refused=("store", "store/*/*"))


def opus_xml(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    """An alignment with its documents in folders, or in zip files."""
    source, target, others = draw.choice((("", "", "*.zip"), ("/en.zip", "/de.zip", "??")))
    changed_copy(draw, seeds.corpora / "opus-xml", folder / "corpus", others)
    files = {"alignment": "corpus/de-en.xml", "source": f"corpus{source}", "target": f"corpus{target}"}
    return prepare(draw, seeds, folder, {"format": "opus-xml", **_LANGUAGES, **files})


def dataset(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    """Arrow files, and state.json that lists them."""
    changed_copy(draw, seeds.corpora / "dataset", folder / "corpus")
    return prepare(draw, seeds, folder, {"format": "dataset", **_LANGUAGES, "path": "corpus"})


def changed_copy(draw: Random, source: Path, copy: Path, without: str = "") -> str:
    """Copy a folder with one of its files changed, missing, or empty; returns which. `without`: what is left out."""
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(without))
    path = draw.choice(sorted(p for p in copy.rglob("*") if p.is_file()))
    if draw.random() < 0.06:
        path.unlink()
    else:
        by_suffix: dict[str, Mutate] = {
            ".json": mutate_json,
            ".yaml": mutate_yaml,
            ".jsonl": mutate_json_lines,
            ".xml": mutate_text,
            "": mutate_text,
        }
        path.write_bytes(by_suffix.get(path.suffix, mutate_binary)(draw, path.read_bytes()))
    return str(path.relative_to(copy))


def tokenizer_model(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    model = (seeds.store / "tokenizer/source.model").read_bytes()
    (folder / "m.model").write_bytes(mutate_binary(draw, model))
    data = {
        **SETTINGS["data"],
        "train": [{"format": "generated", "documents": 3}],
        "tokenizer": {"source_model": "m.model"},
    }
    (folder / "c.yaml").write_text(json.dumps({"data": data}))
    return FuzzCase(["prepare", "c.yaml", "--quiet"], ("store*",), kept_if_refused=("store", "store/*/*"))


CORPORA: dict[str, tuple[Build, int]] = {
    "corpus-text": (corpus("text", {"source": "text*.en", "target": "text*.de"}), 40),
    "corpus-ids": (corpus("ids", {"source": "ids.en", "target": "ids.de", "documents": "ids.documents"}), 40),
    "corpus-tsv": (corpus("tsv", {"path": "*.tsv"}), 40),
    "corpus-jsonl": (corpus("jsonl", {"path": "*.jsonl"}, mutate_json_lines), 40),
    "corpus-wit3": (corpus("wit3", {"source": "[tx][am][gl]*.en", "target": "[tx][am][gl]*.de"}), 40),
    "corpus-fragments": (corpus("fragments", {"source": "fragments.en", "target": "fragments.de"}), 40),
    "corpus-opus": (corpus("opus", {"source": "opus.en", "target": "opus.de", "ids": "opus.ids"}), 40),
    "corpus-opus-xml": (opus_xml, 40),
    "corpus-tmx": (corpus("tmx", {"path": "memory.tmx"}, documents="document", **_LANGUAGES), 40),
    "corpus-po": (corpus("po", {"path": "messages.po"}, **_LANGUAGES), 40),
    "corpus-parquet": (corpus("parquet", {"path": "*.parquet"}, mutate_binary, **_LANGUAGES), 40),
    "corpus-dataset": (dataset, 40),
    "corpus-paradocs": (corpus("paradocs", {"path": "paradocs.txt"}), 40),
    "corpus-subtitles": (corpus("subtitles", {"source": "film.en.srt", "target": "film.de.srt"}), 40),
    "tokenizer-model": (tokenizer_model, 20),
}
