"""`focat prepare`: from corpora to a token store, in stages that are each written atomically.

tokenizer/ → train/ → dev/ → test/ → manifest.json. Every stage carries a key, the digest of all it was made from; the
next call keeps the stages whose key still holds and makes the rest, so an interrupted call loses one stage at most.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from focat.config.corpora import AnyCorpus
from focat.config.data import CleaningSettings, DataSettings, TokenizerSettings
from focat.corpus.cleaning import Cleaner
from focat.corpus.document import Document
from focat.corpus.formality import tag_document
from focat.corpus.halving import halve_sentences
from focat.corpus.made_from import described_settings
from focat.corpus.readers import input_files, read_documents
from focat.corpus.store import (
    SPLITS,
    STORE_VERSION,
    Store,
    finish_stage,
    foreign_file,
    is_key,
    open_split_writer,
    stage_damage,
    stage_key,
)
from focat.corpus.tokenizer import Tokenizer, train_tokenizer
from focat.errors import FocatError
from focat.files import (
    PARTIAL_SUFFIX,
    atomic_folder,
    delete_folder,
    digest_of,
    disk_errors,
    locked_folder,
    read_json_object,
    sha256,
    write_json,
)
from focat.progress import Progress

STAGES = ("tokenizer", *SPLITS)
Inputs = list[dict[str, Any]]  # the corpora of a split, as its description names them
_KEY_VERSION = 1  # of what a stage's key is computed from, and of how its arrays are made
_CHUNK = 50_000  # pairs encoded at a time: enough for all cores, little enough for memory


def prepare(settings: DataSettings, progress: Progress, overwrite: bool = False) -> dict[str, Any]:
    """Make the token store of these settings, or complete it; do nothing if it is up to date.

    Args:
        settings: which corpora to read, how to clean and tokenize them, and where the store is.
        progress: for progress bars.
        overwrite: replace a store that was made from other corpora or settings.

    Returns:
        The store's manifest.
    """
    if not settings.train:
        raise FocatError("data.train: names no corpus; give at least one to train on")
    inputs = {name: _inputs(getattr(settings, name)) for name in SPLITS if getattr(settings, name)}
    keys = _stage_keys(settings, inputs)
    made_from = {
        "version": STORE_VERSION,
        "source_language": settings.source_language,
        "target_language": settings.target_language,
        "keys": keys,
    }
    store, described = settings.store, described_settings(settings)
    if os.path.lexists(store) and not store.is_dir():
        raise FocatError(f"{store}: is no folder; give another data.store")
    with disk_errors(store):
        store.mkdir(parents=True, exist_ok=True)
    with locked_folder(store, "another `focat prepare` is filling this store"):
        manifest = _own_manifest(store)
        if manifest is not None:
            version = manifest.get("version")
            same = {name: manifest.get(name) for name in made_from} == made_from | {"version": version}
            if same and version == STORE_VERSION:
                damage = Store(store).find_damage()
                if damage is None:
                    progress.log(f"{store} is up to date")
                    if manifest.get("settings") != described:  # an earlier version of focat did not write them
                        manifest |= {"settings": described}
                        write_json(store / "manifest.json", manifest)
                    return manifest
                progress.log(f"{damage}; making it again")
            elif same and version == 1:
                progress.log(f"{store} is a token store of version 1, which has no checksums; making it again")
            elif not overwrite:
                raise FocatError(
                    f"{store}: was prepared from other corpora or settings; "
                    "give another data.store, or overwrite this one"
                )
        _check_own_files(store)
        _clear(store, keys)
        tokenizer = _tokenizer_stage(settings, keys["tokenizer"], progress)
        splits = {
            name: _split_stage(settings, name, files, tokenizer, keys[name], progress) for name, files in inputs.items()
        }
        manifest = {
            **made_from,
            "source_vocabulary": tokenizer.source.size,
            "target_vocabulary": tokenizer.target.size,
            "joint": tokenizer.joint,
            "splits": splits,
            "settings": described,
        }
        write_json(store / "manifest.json", manifest)
        return manifest


def _own_manifest(store: Path) -> dict[str, Any] | None:
    """Return the manifest of the store; None if there is none, or one that is damaged beside stages of ours.

    Raises:
        FocatError: the folder holds something that `focat prepare` did not make, under a name that it would write.
    """
    own_stages = False
    for name in STAGES:
        folder = store / name
        if stage_key(folder) is not None:
            own_stages = True
        elif folder.is_symlink() or (folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))):
            raise FocatError(
                f"{folder}: was not made by `focat prepare`, which would replace it; "
                "move it away, or give another data.store"
            )
    path = store / "manifest.json"
    if not path.exists():
        return None
    try:
        manifest = read_json_object(path, "")
    except FocatError:
        manifest = {}
    stages = manifest.get("keys")
    if isinstance(stages, dict) and all(map(is_key, stages.values())):
        return manifest
    if own_stages and (not manifest or "keys" in manifest):  # ours, and damaged
        return None
    raise FocatError(f"{path}: is no manifest of a token store; move it away, or give another data.store")


def _check_own_files(store: Path) -> None:
    """Refuse to replace a stage that somebody has put a file into."""
    for folder in (store / name for name in STAGES if (store / name).exists()):
        found = foreign_file(folder)
        if found is not None:
            raise FocatError(f"{found}: was not made by `focat prepare`, which would delete it; move it away")


def _clear(store: Path, keys: dict[str, str]) -> None:
    """Delete what is not replaced: the old manifest, splits that are no longer wanted, partial files."""
    with disk_errors(store):
        (store / "manifest.json").unlink(missing_ok=True)
        (store / f"manifest.json{PARTIAL_SUFFIX}").unlink(missing_ok=True)
        for name in STAGES:
            if name not in keys and (store / name).exists():
                delete_folder(store / name)
            for leftover in (f"{name}{PARTIAL_SUFFIX}", f"{name}.older{PARTIAL_SUFFIX}"):
                shutil.rmtree(store / leftover, ignore_errors=True)


def _is_complete(folder: Path, key: str) -> bool:
    return stage_key(folder) == key and stage_damage(folder) is None


def _tokenizer_stage(settings: DataSettings, key: str, progress: Progress) -> Tokenizer:
    folder = settings.store / "tokenizer"
    if _is_complete(folder, key):
        return Tokenizer.load(folder)
    source, target = _EvenSample(settings.tokenizer.sample), _EvenSample(settings.tokenizer.sample)
    trained = settings.tokenizer.source_model is None and settings.tokenizer.from_run is None
    if trained:
        with progress.bar("reading train", "pairs") as bar:
            cleaner = Cleaner(settings.cleaning)
            for document in _tagged(cleaner.clean_all(_documents(settings.train, cleaner.left_out)), settings):
                source.extend(document.source)
                target.extend(document.target)
                bar.advance(len(document.source))
        if not source.kept:
            raise FocatError(f"data.train: cleaning left no pair ({_reasons(cleaner.removed)}); relax data.cleaning")
    with progress.bar(f"{'training' if trained else 'reading'} the tokenizer"):
        tokenizer = train_tokenizer(settings.tokenizer, settings.normalisation, source.drain(), target.drain())
    sizes = list(dict.fromkeys([tokenizer.source.size, tokenizer.target.size]))
    if trained and min(sizes) < settings.tokenizer.vocabulary:
        progress.log(
            f"data.tokenizer.vocabulary = {settings.tokenizer.vocabulary}: became {' and '.join(map(str, sizes))}, "
            "all that the training corpus can fill"
        )
    with atomic_folder(folder) as unfinished:
        tokenizer.save(unfinished)
        finish_stage(unfinished, key)
    return tokenizer


def _split_stage(
    settings: DataSettings, name: str, inputs: Inputs, tokenizer: Tokenizer, key: str, progress: Progress
) -> dict[str, Any]:
    folder = settings.store / name
    if not _is_complete(folder, key):
        corpora: tuple[AnyCorpus, ...] = getattr(settings, name)
        # What is measured on must stay as it is: only training pairs are ever removed.
        cleaner = Cleaner(settings.cleaning if name == "train" else CleaningSettings(empty=False))
        with (
            atomic_folder(folder) as unfinished,
            open_split_writer(unfinished, tokenizer) as writer,
            progress.bar(f"encoding {name}", "pairs") as bar,
        ):
            documents = cleaner.clean_all(_documents(corpora, cleaner.left_out))
            if name == "train" and settings.split == "middle":
                documents = map(halve_sentences, documents)
            if name == "train":
                documents = _tagged(documents, settings)
            for chunk in _chunks(documents):
                writer.write(chunk)
                bar.advance(sum(len(document.source) for document in chunk))
            if not cleaner.kept:
                raise FocatError(f"data.{name}: no pair is left ({_reasons(cleaner.removed)}); relax data.cleaning")
            writer.finish(read=cleaner.read, removed=cleaner.removed, inputs=inputs)
            finish_stage(unfinished, key)
    return read_json_object(folder / "split.json", "run `focat prepare` again")


# ------------------------------------------------------------------------------------------------ keys of stages


def _stage_keys(settings: DataSettings, inputs: dict[str, Inputs]) -> dict[str, str]:
    """A digest for each stage of all that it is made from: the bytes of its inputs, and its settings."""
    made_by: dict[str, Any] = {
        "version": _KEY_VERSION,
        "cleaning": settings.cleaning.model_dump(),
        "normalisation": settings.normalisation.model_dump(),
    }
    if settings.formality:
        made_by["formality"] = settings.formality
    tokenizer = settings.tokenizer.model_dump(mode="json", exclude={"source_model", "target_model", "from_run"})
    models = _tokenizer_files(settings.tokenizer)
    keys = {
        "tokenizer": digest_of(
            [made_by, tokenizer, [_digest(model) for model in models], None if models else inputs["train"]]
        )
    }
    for name, files in inputs.items():
        keys[name] = digest_of([made_by, keys["tokenizer"], files])
    if settings.split != "none":
        keys["train"] = digest_of([keys["train"], settings.split])
    return keys


def _tokenizer_files(settings: TokenizerSettings) -> list[Path]:
    """The files of a tokenizer that is brought along; none if it is trained."""
    if settings.from_run is not None:
        folder = settings.from_run / "tokenizer"
        return [folder / "tokenizer.json", *sorted(folder.glob("*.model")), *sorted(folder.glob("*.pieces.json"))]
    return [model for model in (settings.source_model, settings.target_model) if model]


def _inputs(corpora: Iterable[AnyCorpus]) -> Inputs:
    """Each corpus by its settings, with file names and digests in place of paths: moving files changes nothing."""
    described = []
    for corpus in corpora:
        fields = corpus.model_dump(exclude_none=True)
        for name, files in input_files(corpus).items():
            path: Path = fields[name]
            digest = _digest(path) if files == [path] else _folder_digest(path, files)
            fields[name] = {"file": path.name, "sha256": digest}
        described.append(fields)
    return described


def _folder_digest(folder: Path, files: Iterable[Path]) -> str:
    return digest_of([[str(file.relative_to(folder)), _digest(file)] for file in files])


def _digest(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise FocatError(f"{path}: cannot be read: {error.strerror}") from None


# ------------------------------------------------------------------------------------------------ streams of documents


def _documents(corpora: Iterable[AnyCorpus], left_out: Counter[str]) -> Iterator[Document]:
    return chain.from_iterable(read_documents(corpus, left_out) for corpus in corpora)


def _tagged(documents: Iterable[Document], settings: DataSettings) -> Iterator[Document]:
    """Training documents with tags of formality, if the settings ask for them."""
    if not settings.formality:
        return iter(documents)
    return (tag_document(document, settings.target_language, settings.formality) for document in documents)


def _chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    pairs = 0
    for document in documents:
        chunk.append(document)
        pairs += len(document.source)
        if pairs >= _CHUNK:
            yield chunk
            chunk, pairs = [], 0
    if chunk:
        yield chunk


class _EvenSample:
    """At most `limit` sentences, spread evenly over a stream of unknown length: every n-th, with n doubling."""

    def __init__(self, limit: int) -> None:
        self.kept: list[str] = []
        self._limit, self._stride, self._seen = limit, 1, 0

    def extend(self, sentences: list[str]) -> None:
        self.kept.extend(sentences[-self._seen % self._stride :: self._stride])
        self._seen += len(sentences)
        while len(self.kept) > self._limit:
            self.kept, self._stride = self.kept[::2], self._stride * 2

    def drain(self) -> Iterator[str]:
        """Yield the sentences and keep none of them: SentencePiece has a copy of those that it has read."""
        self.kept.reverse()
        while self.kept:
            yield self.kept.pop()


def _reasons(removed: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in removed.items() if count) or "nothing was removed"
