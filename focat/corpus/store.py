"""The token store: a corpus as flat arrays on disk, memory-mapped.

Every sentence is stored with the separator that closes it, so that a window of consecutive sentences is one slice:
`x1 <S> x2 <S> … xn <S>`, whose last token becomes `<E>` when the window is cut out. Layout: docs/formats.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

import numpy as np
from numpy.typing import NDArray

from focat.corpus.document import Document
from focat.corpus.tokenizer import Tokenizer
from focat.corpus.vocabulary import SEPARATOR
from focat.errors import FocatError
from focat.files import read_json_object, sha256, write_json

STORE_VERSION = 2  # of the layout
_ARRAYS = ("documents", "source.tokens", "source.offsets", "target.tokens", "target.offsets")  # of a split
_STAGE = "stage.json"  # in each folder of a store: the key of the stage, and the SHA-256 of its other files
_PREPARE_AGAIN = "run `focat prepare` again: it makes damaged parts anew"
_MANIFEST = {  # what readers of a manifest rely on
    **{"splits": dict, "keys": dict, "source_language": str, "target_language": str},
    **{"source_vocabulary": int, "target_vocabulary": int, "joint": bool},
}
SIDES = ("source", "target")
SPLITS = ("train", "dev", "test")
_STAGE_FILES = {  # all that a stage may consist of
    *(_STAGE, "split.json", "tokenizer.json", *_ARRAYS),
    *(f"{side}.{ending}" for side in SIDES for ending in ("model", "pieces.json")),
}
_KEY = re.compile("[0-9a-f]{64}")
Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Sentences:
    """All sentences of one side of a split, in the order of the corpus."""

    tokens: Integers  # (tokens,) ids, each sentence closed by a separator
    offsets: NDArray[np.int64]  # (sentences + 1,) where each sentence begins, and where the last one ends

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, sentence: int) -> Integers:
        """The tokens of one sentence, without its separator."""
        return self.tokens[self.offsets[sentence] : self.offsets[sentence + 1] - 1]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(sentences,) tokens of each sentence, its separator included."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Split:
    """One split of a corpus: its sentences on both sides and where its documents begin."""

    source: Sentences
    target: Sentences
    documents: NDArray[np.int64]  # (documents + 1,) first sentence of each document, and the number of sentences

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def document_of(self) -> NDArray[np.int64]:
        """(sentences,) the document of each sentence."""
        return np.repeat(np.arange(len(self.documents) - 1), np.diff(self.documents))


class Store:
    """A prepared corpus: splits, tokenizer and manifest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / "manifest.json").exists():
            raise FocatError(f"{path}: is no finished token store; run `focat prepare` with this data.store")
        self.manifest = read_json_object(path / "manifest.json", _PREPARE_AGAIN)
        version = self.manifest.get("version")
        if version != STORE_VERSION:
            raise FocatError(
                f"{path}: is a token store of version {version}, and this focat reads version {STORE_VERSION};"
                " run `focat prepare --overwrite`"
            )
        for name, kind in _MANIFEST.items():
            if not isinstance(self.manifest.get(name), kind):
                raise FocatError(f"{path}/manifest.json: says nothing of {name}, or is damaged; {_PREPARE_AGAIN}")

    def find_damage(self) -> str | None:
        """Read all files and compare them with their checksums; return what is wrong, or None.

        A store of 90 MB, 1.6 million pairs, takes a tenth of a second.
        """
        keys = self.manifest.get("keys")
        for name in ("tokenizer", *self.splits):
            damage = stage_damage(self.path / name)
            if damage is not None:
                return damage
            if not isinstance(keys, dict) or stage_key(self.path / name) != keys.get(name):
                return f"{self.path}/{name} is not the one that manifest.json names"
        for name, described in self.manifest["splits"].items():
            if read_json_object(self.path / name / "split.json", _PREPARE_AGAIN) != described:
                return f"{self.path}/manifest.json does not match {name}/split.json"
        return None

    def verify(self) -> None:
        """Refuse a store that was damaged after it was made, before anything is trained on it."""
        damage = self.find_damage()
        if damage is not None:
            raise FocatError(f"{damage}; {_PREPARE_AGAIN}")

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that made the tokens."""
        return Tokenizer.load(self.path / "tokenizer")

    @property
    def splits(self) -> list[str]:
        """The splits it has, of train, dev and test."""
        return list(self.manifest["splits"])

    def split(self, name: str) -> Split:
        """Open one split, memory-mapped."""
        if name not in self.manifest["splits"]:
            remedy = f"see data.{name}" if name in SPLITS else "choose one of these"
            raise FocatError(f"{self.path}: has no {name} split (it has {', '.join(self.splits)}); {remedy}")
        return open_split(self.path / name)

    @property
    def average_length(self) -> float:
        """Mean tokens of a training sentence on the source: what `shift: avg-corpus` rounds."""
        return float(self.manifest["splits"]["train"]["source"]["average_length"])


def finish_stage(folder: Path, key: str) -> None:
    """Write the key of a stage and the checksums of its files, which makes its folder complete."""
    digests = {file.name: sha256(file) for file in sorted(folder.iterdir())}
    write_json(folder / _STAGE, {"key": key, "sha256": digests})


def stage_key(folder: Path) -> str | None:
    """Return the key of the stage that `focat prepare` made in a folder; None if the folder holds no such stage."""
    try:
        key = read_json_object(folder / _STAGE, "").get("key")
    except FocatError:
        return None
    return key if is_key(key) else None


def is_key(value: object) -> TypeGuard[str]:
    """Whether a value is the key of a stage: a digest, which no other tool writes by chance."""
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def foreign_file(folder: Path) -> Path | None:
    """Return a file in the folder of a stage that is none of its own; None if there is none."""
    return next((path for path in sorted(folder.iterdir()) if path.name not in _STAGE_FILES), None)


def stage_damage(folder: Path) -> str | None:
    """Compare the files of a stage with their checksums; return what is wrong, or None."""
    try:
        expected = read_json_object(folder / _STAGE, "").get("sha256")
    except FocatError:
        return f"{folder / _STAGE} is missing or damaged"
    if not isinstance(expected, dict) or not expected:
        return f"{folder / _STAGE} has no checksums"
    models = (name for name in ("source.model", "target.model") if (folder / name).exists())
    needed = ("split.json", *_ARRAYS) if (folder / "split.json").exists() else ("tokenizer.json", *models)
    if unknown := sorted(set(needed) - expected.keys()):
        return f"{folder / _STAGE} has no checksum of {', '.join(unknown)}"
    for name, digest in expected.items():
        path = folder / Path(name).name
        try:
            if sha256(path) != digest:
                return f"{path} does not match its checksum"
        except OSError as error:
            return f"{path} cannot be read ({error.strerror})"
    return None


def open_split(folder: Path) -> Split:
    """Open the arrays of a split, memory-mapped.

    Raises:
        FocatError: a file is missing, or its size is not what split.json says.
    """
    described = read_json_object(folder / "split.json", _PREPARE_AGAIN)

    def mapped(name: str, dtype: str, length: int) -> Any:
        path = folder / name
        expected, found = np.dtype(dtype).itemsize * length, path.stat().st_size if path.exists() else 0
        if found != expected:
            raise FocatError(f"{path}: has {found} bytes instead of {expected}; {_PREPARE_AGAIN}")
        return np.memmap(path, dtype, "r", shape=(length,)) if length else np.empty(0, dtype)

    try:
        pairs = described["pairs"]
        source, target = (
            Sentences(
                mapped(f"{side}.tokens", described["dtype"], described[side]["tokens"]),
                mapped(f"{side}.offsets", "<i8", pairs + 1),
            )
            for side in SIDES
        )
        return Split(source, target, mapped("documents", "<i8", described["documents"] + 1))
    except (KeyError, TypeError, ValueError):
        raise FocatError(f"{folder}/split.json: does not describe a split; {_PREPARE_AGAIN}") from None


class SplitWriter:
    """Encodes documents and appends them to the files of a split; memory does not grow with the corpus."""

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        self._vocabularies = {"source": tokenizer.source, "target": tokenizer.target}
        largest = max(v.size for v in self._vocabularies.values())
        self.dtype = "<u2" if largest <= 1 << 16 else "<u4"
        self._files: dict[str, BinaryIO] = {}
        for name in ("documents", *(f"{side}.{what}" for side in SIDES for what in ("tokens", "offsets"))):
            self._files[name] = (folder / name).open("wb")
        self._tokens = dict.fromkeys(SIDES, 0)
        self._pairs = self._documents = 0
        self._folder = folder
        for name in ("documents", *(f"{side}.offsets" for side in SIDES)):
            self._append(name, np.zeros(1, "<i8"))

    def write(self, documents: Sequence[Document]) -> None:
        """Append some documents."""
        sizes = np.array([len(document.source) for document in documents], "<i8")
        self._append("documents", self._pairs + np.cumsum(sizes))
        for side in SIDES:
            sentences = [sentence for document in documents for sentence in getattr(document, side)]
            tokens, lengths = _close_sentences(*self._vocabularies[side].encode_all(sentences))
            self._append(f"{side}.tokens", tokens.astype(self.dtype))
            self._append(f"{side}.offsets", (self._tokens[side] + np.cumsum(lengths)).astype("<i8"))
            self._tokens[side] += len(tokens)
        self._pairs += int(sizes.sum())
        self._documents += len(documents)

    def finish(self, **more: Any) -> dict[str, Any]:
        """Close the files and write split.json, which makes the split complete; return its content."""
        self.close()
        described: dict[str, Any] = {"documents": self._documents, "pairs": self._pairs, "dtype": self.dtype}
        for side in SIDES:
            words = self._tokens[side] - self._pairs  # without separators
            described[side] = {
                "tokens": self._tokens[side],
                "average_length": round(words / self._pairs, 4) if self._pairs else 0.0,
            }
        described |= more
        write_json(self._folder / "split.json", described)
        return described

    def close(self) -> None:
        """Close all files, even if one of them cannot be flushed."""
        with ExitStack() as stack:
            for file in self._files.values():
                stack.callback(file.close)

    def _append(self, name: str, values: Integers) -> None:
        self._files[name].write(np.ascontiguousarray(values).data)  # unlike tofile, raises the system's own error


@contextmanager
def open_split_writer(folder: Path, tokenizer: Tokenizer) -> Iterator[SplitWriter]:
    """A `SplitWriter` whose files are closed in the end, also after an error."""
    writer = SplitWriter(folder, tokenizer)
    try:
        yield writer
    finally:
        writer.close()


def _close_sentences(
    tokens: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Put a separator behind each sentence."""
    return np.insert(tokens, np.cumsum(lengths), SEPARATOR), lengths + 1


def counts_line(counted: dict[str, Any]) -> str:
    """Format the counts of a split on one line: documents, pairs, and what cleaning removed."""
    removed = ", ".join(f"{count:,} {reason}" for reason, count in counted["removed"].items() if count)
    return (
        f"{counted['documents']:,} documents, {counted['pairs']:,} of {counted['read']:,} pairs"
        f" ({'removed: ' + removed if removed else 'nothing removed'})"
    )
