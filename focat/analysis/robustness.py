"""Windows of sizes not seen in training: what they do to loss, to contrastive accuracy and to BLEU (section 4.5.3).

All sizes are measured on the same sentences; only the number of context sentences around them differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from focat.analysis.losses import losses_of
from focat.analysis.measures import Measure, Measures
from focat.analysis.phenomena import Question, accuracy_measures, answer, groups_of
from focat.analysis.systems import System
from focat.choices import ScoringRule
from focat.config.schema import WindowSettings
from focat.corpus.document import Document
from focat.corpus.store import Split
from focat.evaluation.metrics import formula_of, measure
from focat.progress import Progress
from focat.translation.translator import Translator


@dataclass(frozen=True)
class Robustness:
    """What was measured with windows of each size."""

    trained: int
    sizes: list[int]
    shortened: dict[int, int]  # windows that lost context because they were too long
    by_name: Measures  # losses, accuracies and BLEU
    signature: str  # of BLEU

    def measures(self) -> Measures:
        """By name and size, as in robustness.loss.4."""
        return self.by_name

    def record(self) -> dict[str, Any]:
        """One entry for each size."""
        entries: list[dict[str, Any]] = []
        for size in self.sizes:
            entry: dict[str, Any] = {"size": size, "seen": size <= self.trained, "shortened": self.shortened[size]}
            for name, found in self.by_name.items():
                _, what, *phenomenon, of_size = name.split(".")
                if of_size == str(size):
                    if phenomenon:
                        entry.setdefault(what, {})[".".join(phenomenon)] = found.value
                    else:
                        entry[what] = found.value
            entries.append(entry)
        return {"trained": self.trained, "sizes": entries, **({"bleu": self.signature} if self.signature else {})}


def robustness_of(
    system: System,
    split: Split,
    sizes: Sequence[int],
    questions: Sequence[Question],
    rule: ScoringRule,
    documents: Sequence[Document] | None,
    progress: Progress,
) -> Robustness:
    """Loss with windows of each size; accuracy where there are questions, BLEU where there are documents."""
    found: Measures = {}
    shortened: dict[int, int] = {}
    signature = ""
    longest = max((len(question.instance.source) for question in questions), default=0)  # a larger window is the same
    for size in sizes:
        windows = _windows(system, size)
        if windows is None:
            progress.log(f"{system.name}: left out windows of {size}, which its positions or its windows do not allow")
            continue
        losses = losses_of(system, split, progress, windows, f"losses, windows of {size}")
        shortened[size] = losses.shortened
        found[f"robustness.loss.{size}"] = losses.current()
        if questions and size <= longest:
            answers = answer(system, questions, groups_of(system, questions, windows), rule, progress)
            for phenomenon, right in accuracy_measures(answers, questions).items():
                found[f"robustness.accuracy.{phenomenon}.{size}"] = right
        if documents is not None:
            found[f"robustness.bleu.{size}"], signature = bleu_of(system, windows, documents, progress, size)
    return Robustness(system.windows.size, list(shortened), shortened, found, signature)


def bleu_of(
    system: System, windows: WindowSettings, documents: Sequence[Document], progress: Progress, size: int
) -> tuple[Measure, str]:
    """BLEU of translations through such windows, and its signature; all else as in the settings of the run."""
    search = system.settings.decoding
    translator = Translator([system.model], system.tokenizer, windows, search, context=search.target_context)
    count = sum(len(document.source) for document in documents)
    hypotheses: list[str] = []
    with progress.bar(f"{system.name}: translating, windows of {size}", "sentences", count) as bar:
        for translations in translator.translate(document.source for document in documents):
            hypotheses += (translation.text for translation in translations)
            bar.advance(len(translations))
    references = [sentence for document in documents for sentence in document.target]
    figure = measure("BLEU", "sentence", hypotheses, references)
    items = np.arange(len(figure.statistics))
    return Measure(items, figure.statistics, formula_of("BLEU"), "corpus"), figure.signature


def _windows(system: System, size: int) -> WindowSettings | None:
    """Windows of this size; None if the model looks further ahead, or learned positions end before."""
    if size <= system.windows.after:
        return None
    if system.model.settings.positions == "learned" and size > system.windows.size:
        return None
    return system.windows.of_size(size)
