"""What is analysed: the systems of some runs, one after the other, and the documents all of them are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from focat.choices import TestSplit
from focat.config import Settings
from focat.config.data import IdsCorpus, TextCorpus
from focat.config.schema import WindowSettings
from focat.corpus.document import Document
from focat.corpus.readers import read_documents
from focat.corpus.store import Sentences, Split, Store, open_split, writing_split
from focat.corpus.tokenizer import Tokenizer
from focat.errors import FocatError
from focat.evaluation.test_sets import corpus_of_files, documents_of
from focat.files import digest_of, sha256
from focat.model.transformer import Transformer
from focat.progress import Progress
from focat.run import Run


@dataclass(frozen=True)
class Chosen:
    """Which documents: a split of the store each run was trained on, or two files; of either, perhaps only some."""

    split: TestSplit = "test"
    source: Path | None = None
    target: Path | None = None
    documents: Path | None = None
    """With files: the document of each line; else a blank line ends one."""
    limit: int | None = None
    """Whole documents from the first on, until there are so many sentences."""

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            given, missing = ("--source", "--target") if self.target is None else ("--target", "--source")
            raise FocatError(f"analyse: {given} is given without {missing}; attention and loss need both sides")
        if self.documents is not None and self.source is None:
            raise FocatError("analyse: --documents goes with --source and --target")

    @property
    def corpus(self) -> TextCorpus | IdsCorpus | None:
        """The corpus of the two files."""
        if self.source is None or self.target is None:
            return None
        return corpus_of_files(self.source, self.target, self.documents)


@dataclass(frozen=True)
class System:
    """One trained system, ready to be looked into."""

    name: str
    run: Run
    settings: Settings
    model: Transformer

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The run's own."""
        return self.run.tokenizer

    @property
    def windows(self) -> WindowSettings:
        """The windows it was trained with, all of full size."""
        return self.settings.windows.model_copy(update={"sampling": "fixed"})

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.output_weight.device

    def described(self) -> dict[str, Any]:
        """What it is, for the record."""
        weights = self.run.weights_folder()
        return {
            "run": str(self.run.path),
            "weights": weights.name,
            "weights_sha256": sha256(weights / "weights.safetensors"),
            "windows": self.settings.windows.model_dump(),
            **self.settings.objective.model_dump(include={"discount"}),
            "shift": self.model.shift,
        }


def open_runs(paths: Sequence[Path]) -> dict[str, Run]:
    """Runs by name: that of the folder, or the whole path where two folders have the same."""
    names = [path.resolve().name for path in paths]
    count = Counter(names)
    runs: dict[str, Run] = {}
    for name, path in zip(names, paths, strict=True):
        unique = name if count[name] == 1 else str(path)
        if unique in runs:
            raise FocatError(f"{path}: is given twice")
        runs[unique] = Run.open(path)
    return runs


def load_system(name: str, run: Run, device: torch.device) -> System:
    """A system on a device."""
    return System(name, run, run.settings, run.load_model(device=device))


@contextmanager
def opened_split(system: System, chosen: Chosen) -> Iterator[Split]:
    """The documents as this system's tokens. Text is encoded into a folder for the time being, not into memory."""
    if chosen.corpus is None:
        yield _limited(_store_of(system.run, chosen.split).split(chosen.split), chosen.limit)
        return
    with TemporaryDirectory(prefix="focat-analyse-") as folder:
        with writing_split(Path(folder), system.tokenizer) as writer:
            for document in read_documents(chosen.corpus):
                writer.write([document])
            writer.finish()
        yield _limited(open_split(Path(folder)), chosen.limit)


def texts_of(system: System, chosen: Chosen, count: int, progress: Progress) -> list[Document]:
    """The first documents as text, as they were before any normalisation."""
    if chosen.corpus is None:
        return documents_of(system.run, chosen.split, progress)[:count]
    return list(islice(read_documents(chosen.corpus), count))


def corpus_identity(runs: dict[str, Run], chosen: Chosen) -> dict[str, Any]:
    """What was analysed, for the record; runs whose splits were made from different documents cannot be compared."""
    if chosen.corpus is not None:
        files = {"source": chosen.source, "target": chosen.target, "document_ids": chosen.documents}
        given = {side: path for side, path in files.items() if path is not None}
        for path in given.values():
            if not path.is_file():
                raise FocatError(f"{path}: no such file")
        return {
            **{side: {"name": path.name, "sha256": sha256(path)} for side, path in given.items()},
            "limit": chosen.limit,
        }
    found = {name: _inputs(run, chosen.split) for name, run in runs.items()}
    first, *_ = found
    for name, inputs in found.items():
        if inputs != found[first]:
            raise FocatError(
                f"{runs[name].path}: its {chosen.split} split holds other documents than that of {runs[first].path}; "
                "give the same --source and --target to both"
            )
    return {"split": chosen.split, "sha256": digest_of(found[first]), "limit": chosen.limit}


def _inputs(run: Run, split: str) -> Any:
    described = _store_of(run, split).manifest["splits"][split]
    return [described["documents"], described["pairs"], described.get("inputs")]


def _store_of(run: Run, split: str) -> Store:
    path = run.settings.data.store
    if not (path / "manifest.json").exists():
        raise FocatError(
            f"{run.path}: the token store it was trained on, {path}, is not there; give --source and --target instead"
        )
    store = Store(path)
    if split not in store.splits:
        raise FocatError(
            f"{path}: has no {split} split (it has {', '.join(store.splits)}); choose another --split, "
            "or give --source and --target"
        )
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
