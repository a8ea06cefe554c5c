"""Test sets as text: from two files, from the corpora of a run's settings, or from the store it was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from focat.choices import TestSplit
from focat.config.data import IdsCorpus, TextCorpus
from focat.corpus.document import Document
from focat.corpus.readers import read_documents
from focat.corpus.store import Split, Store
from focat.corpus.tokenizer import Tokenizer
from focat.errors import FocatError
from focat.progress import NULL_PROGRESS, Progress
from focat.run import Run

TEST_SPLITS: tuple[TestSplit, ...] = get_args(TestSplit)


def corpus_of_files(source: Path, target: Path, documents: Path | None = None) -> TextCorpus | IdsCorpus:
    """Return a corpus of two parallel files; a blank line ends a document, unless `documents` names them."""
    if documents is None:
        return TextCorpus(format="text", source=source, target=target)
    return IdsCorpus(format="ids", source=source, target=target, documents=documents)


def documents_of(run: Run, split: TestSplit, progress: Progress = NULL_PROGRESS) -> list[Document]:
    """Read a split of a run's corpora as text; where only its store has the split, decode the tokens."""
    data = run.settings.data
    if corpora := getattr(data, split):
        return [document for corpus in corpora for document in read_documents(corpus)]
    if not (data.store / "manifest.json").exists() or split not in Store(data.store).splits:
        raise FocatError(
            f"{run.path}: its settings name no corpus under data.{split}, and its store, {data.store}, has no such "
            "split; give the texts as files"
        )
    progress.log(f"{split}: no corpus is named under data.{split}; its text is decoded from the tokens in {data.store}")
    store = Store(data.store)
    return decode_split(store.split(split), store.tokenizer)


def decode_split(split: Split, tokenizer: Tokenizer) -> list[Document]:
    """Decode the documents of a split; normalisation of the text is not undone."""
    return [
        Document(
            str(number),
            [tokenizer.source.decode(split.source[i].tolist()) for i in range(first, last)],
            [tokenizer.target.decode(split.target[i].tolist()) for i in range(first, last)],
        )
        for number, (first, last) in enumerate(zip(split.documents[:-1], split.documents[1:], strict=True))
    ]
