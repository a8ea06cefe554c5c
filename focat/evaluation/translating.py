"""Translations to evaluate: a run translates the sources of a test set, document by document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from focat.api import Model
from focat.config.data import IdsCorpus, TextCorpus
from focat.corpus.document import Document
from focat.corpus.readers import read_documents
from focat.errors import FocatError
from focat.evaluation.quality import Texts
from focat.progress import Progress


def documents_of(
    model: Model,
    split: str = "test",
    source: Path | None = None,
    reference: Path | None = None,
    documents: Path | None = None,
) -> list[Document]:
    """The documents of two files, or else of the run's own corpora, as they were before any normalisation."""
    if source is not None and reference is not None:
        if documents is not None:
            corpus = IdsCorpus(format="ids", source=source, target=reference, documents=documents)
            return list(read_documents(corpus))
        return list(read_documents(TextCorpus(format="text", source=source, target=reference)))
    if split not in ("dev", "test"):
        raise FocatError(f"--split {split}: choose dev or test")
    corpora = getattr(model.settings.data, split)
    if not corpora:
        path = model.runs[0].path
        raise FocatError(f"{path}: its settings name no corpus under data.{split}; give --source and --reference")
    return [document for corpus in corpora for document in read_documents(corpus)]


def translate_documents(
    model: Model, documents: Sequence[Document], progress: Progress, **options: Any
) -> tuple[Texts, dict[str, Any]]:
    """Translations beside their references, and how they were made; options as of `Model.translator`."""
    translator = model.translator(**options)
    hypotheses, cut = [], 0
    with progress.bar("translating", "sentences", sum(len(document.source) for document in documents)) as bar:
        for translations in translator.translate(document.source for document in documents):
            hypotheses.append([translation.text for translation in translations])
            cut += sum(translation.cut for translation in translations)
            bar.advance(len(translations))
    if cut:
        progress.say(f"{cut} translations reached the longest length allowed, and may lack their end")
    made = {
        "runs": [str(run.path) for run in model.runs],
        "weights": [run.weights_folder().name for run in model.runs],
        "context": options.get("context") or model.settings.decoding.target_context,
        "constrained": translator.constrained,
        "window": translator.windows.size,
        "beam": translator.settings.beam,
        "length_penalty": translator.settings.length_penalty,
        "cut": cut,
    }
    texts = Texts(hypotheses, [document.target for document in documents], [document.source for document in documents])
    return texts, made
