"""Translations to evaluate: a trained system translates the sources of a test set, document by document."""

from __future__ import annotations

from collections.abc import Sequence

from focat.choices import TargetContext
from focat.corpus.document import Document
from focat.evaluation.quality import Texts
from focat.evaluation.results import TranslationSetup
from focat.progress import Progress
from focat.run import TrainedSystem
from focat.translation.translator import Translator


def translate_documents(
    system: TrainedSystem,
    documents: Sequence[Document],
    progress: Progress,
    context: TargetContext | None = None,
    constrained: bool = True,
    window: int | None = None,
    beam: int | None = None,
) -> tuple[Texts, TranslationSetup]:
    """Translate documents; what is not given is as in the settings of the run.

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
    decoding = system.settings.decoding
    search = decoding if beam is None else decoding.model_validate(decoding.model_dump() | {"beam": beam})
    context = context or decoding.target_context
    windows = system.windows(window)
    translator = Translator(system.models, system.tokenizer, windows, search, context, constrained)
    hypotheses, cut = [], 0
    with progress.bar("translating", "sentences", sum(len(document.source) for document in documents)) as bar:
        for translations in translator.translate(document.source for document in documents):
            hypotheses.append([translation.text for translation in translations])
            cut += sum(translation.truncated for translation in translations)
            bar.advance(len(translations))
    if cut:
        progress.log(f"{cut} translations reached the longest length allowed, and may lack their end")
    setup = TranslationSetup(
        runs=tuple(str(run.path) for run in system.runs),
        weights=tuple(folder.name for folder in system.weights),
        context=context,
        constrained=translator.constrained,
        window=translator.windows.size,
        beam=translator.settings.beam,
        length_penalty=translator.settings.length_penalty,
        cut=cut,
    )
    texts = Texts(hypotheses, [document.target for document in documents], [document.source for document in documents])
    return texts, setup
