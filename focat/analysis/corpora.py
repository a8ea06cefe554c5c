"""What is analysed: trained systems, and the documents that all of them read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from pydantic import JsonValue

from focat.choices import TestSplit
from focat.config import Settings
from focat.config.corpora import IdsCorpus, TextCorpus
from focat.config.schema import WindowSettings
from focat.corpus.document import Document
from focat.corpus.readers import read_documents
from focat.corpus.store import Sentences, Split, Store, open_split, open_split_writer
from focat.corpus.tokenizer import Tokenizer
from focat.errors import FocatError
from focat.evaluation.test_sets import corpus_of_files, documents_of
from focat.files import digest_of, sha256
from focat.model.transformer import Transformer
from focat.progress import Progress
from focat.run import Run


@dataclass(frozen=True)
class CorpusSelection:
    """Which documents: a split of the store that each run was trained on, or two files."""

    split: TestSplit = "test"
    source: Path | None = None
    target: Path | None = None
    documents: Path | None = None
    """With files: the document of each line; if not given, a blank line ends a document."""
    limit: int | None = None
    """At most so many sentences, of whole documents from the first on."""

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            given, missing = ("source", "target") if self.target is None else ("target", "source")
            raise FocatError(f"analyse: {given} is given without {missing}; attention and loss need both sides")
        if self.documents is not None and self.source is None:
            raise FocatError("analyse: documents goes with source and target")

    @property
    def corpus(self) -> TextCorpus | IdsCorpus | None:
        """The corpus of the two files."""
        if self.source is None or self.target is None:
            return None
        return corpus_of_files(self.source, self.target, self.documents)


@dataclass(frozen=True)
class AnalysedSystem:
    """A trained system under a name."""

    name: str
    model: Transformer
    settings: Settings
    tokenizer: Tokenizer

    @property
    def windows(self) -> WindowSettings:
        """The windows it was trained with, all of full size."""
        return self.settings.windows.model_copy(update={"sampling": "fixed"})

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.output_weight.device


def runs_by_name(paths: Sequence[Path]) -> dict[str, Run]:
    """Open runs by name: that of the folder, or the whole path where two folders have the same."""
    if not paths:
        raise FocatError("name a run, or several")
    names = [path.resolve().name for path in paths]
    count = Counter(names)
    runs: dict[str, Run] = {}
    for name, path in zip(names, paths, strict=True):
        unique = name if count[name] == 1 else str(path)
        if unique in runs:
            raise FocatError(f"{path}: is given twice")
        runs[unique] = Run.open(path)
    return runs


@contextmanager
def opened_split(run: Run, tokenizer: Tokenizer, selection: CorpusSelection) -> Iterator[Split]:
    """Open the documents as tokens of a run. Text files are encoded into a temporary folder, not into memory."""
    if selection.corpus is None:
        yield _limited(_store_of(run, selection.split).split(selection.split), selection.limit)
        return
    with TemporaryDirectory(prefix="focat-analyse-") as folder:
        with open_split_writer(Path(folder), tokenizer) as writer:
            for document in read_documents(selection.corpus):
                writer.write([document])
            writer.finish()
        yield _limited(open_split(Path(folder)), selection.limit)


def texts_of(run: Run, selection: CorpusSelection, count: int, progress: Progress) -> list[Document]:
    """Return the first documents as text, before any normalization."""
    if selection.corpus is None:
        return documents_of(run, selection.split, progress)[:count]
    return list(islice(read_documents(selection.corpus), count))


def corpus_identity(runs: dict[str, Run], selection: CorpusSelection) -> dict[str, JsonValue]:
    """Return which documents are analysed: what `CorpusResult` says of them, but for their numbers.

    Raises:
        FocatError: a file is missing, or the splits of two runs were made from different documents.
    """
    if selection.corpus is not None:
        files = {"source": selection.source, "target": selection.target, "document_ids": selection.documents}
        given = {side: path for side, path in files.items() if path is not None}
        for path in given.values():
            if not path.is_file():
                raise FocatError(f"{path}: no such file")
        described: dict[str, JsonValue] = {
            side: {"name": path.name, "sha256": sha256(path)} for side, path in given.items()
        }
        return described | {"limit": selection.limit}
    found = {name: _inputs(run, selection.split) for name, run in runs.items()}
    first, *_ = found
    for name, inputs in found.items():
        if inputs != found[first]:
            raise FocatError(
                f"{runs[name].path}: its {selection.split} split holds other documents than that of "
                f"{runs[first].path}; give the same source and target files to both"
            )
    return {"split": selection.split, "sha256": digest_of(found[first]), "limit": selection.limit}


def _inputs(run: Run, split: str) -> list[JsonValue]:
    described = _store_of(run, split).manifest["splits"][split]
    return [described["documents"], described["pairs"], described.get("inputs")]


def _store_of(run: Run, split: str) -> Store:
    path = run.settings.data.store
    if not (path / "manifest.json").exists():
        raise FocatError(
            f"{run.path}: the token store it was trained on, {path}, is not there; give source and target files instead"
        )
    store = Store(path)
    if split not in store.splits:
        raise FocatError(
            f"{path}: has no {split} split (it has {', '.join(store.splits)}); choose another split, "
            "or give source and target files"
        )
    store.verify()
    return store


def _limited(split: Split, limit: int | None) -> Split:
    if not len(split):
        raise FocatError("analyse: there is not a single sentence to look at")
    if limit is None or limit >= len(split):
        return split
    count = max(1, int(np.searchsorted(split.documents, limit, "right")) - 1)
    last = int(split.documents[count])

    def first(sentences: Sentences) -> Sentences:
        return Sentences(sentences.tokens, sentences.offsets[: last + 1])

    return Split(first(split.source), first(split.target), split.documents[: count + 1])
