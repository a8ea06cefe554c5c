"""Windows of sizes not seen in training: what they do to loss, to contrastive accuracy and to BLEU (section 4.5.3).

All sizes are measured on the same sentences; only the number of context sentences around them differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from focat.analysis.corpora import AnalysedSystem
from focat.analysis.losses import window_losses
from focat.analysis.phenomena import SuiteInstance, groups_of, phenomenon_accuracies, score_suites
from focat.analysis.results import RobustnessResults, WindowSizeResult
from focat.choices import ScoringRule
from focat.config.schema import WindowSettings
from focat.corpus.document import Document
from focat.corpus.store import Split
from focat.evaluation.metrics import measure
from focat.evaluation.scores import Score
from focat.evaluation.test_sets import translated_texts
from focat.progress import Progress
from focat.translation.translator import Translator


@dataclass(frozen=True)
class Robustness:
    """What was measured with windows of each size."""

    results: RobustnessResults
    scores: dict[str, Score]
    """Losses, accuracies and BLEU by name and size, as in robustness.loss.4."""


def robustness_of(
    system: AnalysedSystem,
    split: Split,
    sizes: Sequence[int],
    instances: Sequence[SuiteInstance],
    rule: ScoringRule,
    documents: Sequence[Document] | None,
    progress: Progress,
) -> Robustness:
    """Measure the loss with windows of each size, accuracy if there are instances, and BLEU if there are documents."""
    scores: dict[str, Score] = {}
    results: list[WindowSizeResult] = []
    signature: dict[str, str] = {}
    longest = max((len(one.instance.source) for one in instances), default=0)  # a larger window is the same
    for size in sizes:
        windows = _windows(system, size)
        if windows is None:
            progress.log(f"{system.name}: left out windows of {size}, which its positions or its windows do not allow")
            continue
        losses = window_losses(system, split, progress, windows, f"losses, windows of {size}")
        loss = losses.current(f"robustness.loss.{size}", "robustness")
        found = [loss]
        result = WindowSizeResult(
            size=size, seen=size <= system.windows.size, shortened=losses.shortened, loss=loss.value
        )
        if instances and size <= longest:
            scored = score_suites(system, instances, groups_of(system, instances, windows), rule, progress)
            accuracies = phenomenon_accuracies(scored, instances, "robustness.accuracy.{}." + str(size))
            found += accuracies.values()
            values = {phenomenon: score.value for phenomenon, score in accuracies.items()}
            result = result.model_copy(update={"accuracy": values})
        if documents is not None:
            bleu = bleu_of(system, windows, documents, progress, size)
            found.append(bleu)
            result = result.model_copy(update={"bleu": bleu.value})
            signature = {"bleu": bleu.signature}
        results.append(result)
        scores |= {score.name: score for score in found}
    return Robustness(RobustnessResults(trained=system.windows.size, sizes=tuple(results), **signature), scores)


def bleu_of(
    system: AnalysedSystem, windows: WindowSettings, documents: Sequence[Document], progress: Progress, size: int
) -> Score:
    """Compute BLEU of translations with such windows; all else is as in the settings of the run."""
    search = system.settings.decoding
    translator = Translator([system.model], system.tokenizer, windows, search, context=search.target_context)
    label = f"{system.name}: translating, windows of {size}"
    texts, _ = translated_texts(translator, [document.source for document in documents], progress, label)
    hypotheses = [sentence for document in texts for sentence in document]
    references = [sentence for document in documents for sentence in document.target]
    score = measure("BLEU", "sentence", hypotheses, references)
    items = np.arange(len(references))
    return replace(score, name=f"robustness.bleu.{size}", items=items, population="windows", family="robustness")


def _windows(system: AnalysedSystem, size: int) -> WindowSettings | None:
    """Return windows of this size; None if the model looks further ahead, or learned positions end before."""
    if size <= system.windows.after:
        return None
    if system.model.settings.positions == "learned" and size > system.windows.size:
        return None
    return system.windows.of_size(size)
