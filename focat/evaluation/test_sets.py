"""Test sets as text (two files, the corpora of a run's settings, or its token store), and translations of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from focat.choices import TargetContext, TestSplit
from focat.config.corpora import IdsCorpus, TextCorpus
from focat.corpus.document import Document
from focat.corpus.readers import read_documents
from focat.corpus.store import Split, Store
from focat.corpus.tokenizer import Tokenizer
from focat.errors import FocatError
from focat.evaluation.metrics import Documents
from focat.evaluation.quality import Texts
from focat.evaluation.results import TranslationSetup
from focat.progress import NULL_PROGRESS, Progress
from focat.run import Run, TrainedSystem
from focat.translation.translator import Translator

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
    store.verify()
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


def translated_texts(
    translator: Translator, documents: Documents, progress: Progress, label: str = "translating"
) -> tuple[list[list[str]], int]:
    """Translate documents, and show progress.

    Returns:
        The translations, and how many of them reached the longest length allowed.
    """
    texts, truncated = [], 0
    with progress.bar(label, "sentences", sum(map(len, documents))) as bar:
        for translations in translator.translate(documents):
            texts.append([translation.text for translation in translations])
            truncated += sum(translation.truncated for translation in translations)
            bar.advance(len(translations))
    return texts, truncated


def translate_documents(
    system: TrainedSystem,
    documents: Sequence[Document],
    progress: Progress,
    context: TargetContext | None = None,
    constrained: bool = True,
    window: int | None = None,
    beam: int | None = None,
) -> tuple[Texts, TranslationSetup]:
    """Translate a test set; what is not given is as in the settings of the run.

    Args:
        system: one run, or an ensemble.
        documents: a test set.
        progress: where progress is shown.
        context: where target context comes from.
        constrained: whether every window has as many target as source sentences.
        window: sentences in a window.
        beam: hypotheses kept at each step.

    Returns:
        The translations beside their sources and references, and how they were made.
    """
    translator = Translator.from_system(system, context, constrained, window, beam=beam)
    sources = [document.source for document in documents]
    hypotheses, cut = translated_texts(translator, sources, progress)
    if cut:
        progress.log(f"{cut} translations reached the longest length allowed, and may lack their end")
    setup = TranslationSetup(
        runs=tuple(str(run.path) for run in system.runs),
        weights=tuple(folder.name for folder in system.weights),
        context=context or system.settings.decoding.target_context,
        constrained=translator.constrained,
        window=translator.windows.size,
        beam=translator.settings.beam,
        length_penalty=translator.settings.length_penalty,
        cut=cut,
    )
    return Texts(hypotheses, [document.target for document in documents], sources), setup
