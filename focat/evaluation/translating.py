"""Translations to evaluate: a run translates the sources of a test set, document by document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from focat.api import Model
from focat.corpus.document import Document
from focat.evaluation.quality import Texts
from focat.progress import Progress


def translate_documents(
    model: Model, documents: Sequence[Document], progress: Progress, **options: Any
) -> tuple[Texts, dict[str, Any]]:
    """Translations beside their references, and how they were made; options as of `Model.translator`."""
    translator = model.translator(**options)
    hypotheses, cut = [], 0
    with progress.bar("translating", "sentences", sum(len(document.source) for document in documents)) as bar:
        for translations in translator.translate(document.source for document in documents):
            hypotheses.append([translation.text for translation in translations])
            cut += sum(translation.truncated for translation in translations)
            bar.advance(len(translations))
    if cut:
        progress.log(f"{cut} translations reached the longest length allowed, and may lack their end")
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
