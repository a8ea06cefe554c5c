"""`focat analyse`: all analyses of some runs over the same documents, one run at a time, and how they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from focat._version import __version__
from focat.analysis.attention import corpus_attention
from focat.analysis.contributions import context_contributions, droppable
from focat.analysis.corpora import (
    AnalysedSystem,
    CorpusSelection,
    corpus_identity,
    opened_split,
    runs_by_name,
    texts_of,
)
from focat.analysis.losses import logged_losses, window_losses
from focat.analysis.phenomena import SuiteInstance, context_effects, instances_of
from focat.analysis.results import (
    ANALYSIS_KIND,
    AnalysedSuite,
    AnalysisResults,
    ContextResults,
    CorpusResult,
    ItemResult,
    LossResults,
    SignificanceSetup,
    SystemAnalysis,
)
from focat.analysis.robustness import robustness_of
from focat.choices import ANALYSES, AnalysisName, DropSide, ScoringRule
from focat.corpus.store import Split
from focat.evaluation.comparison import paired_differences
from focat.evaluation.scores import Score, SystemScores
from focat.evaluation.significance import SEED, TRIALS
from focat.evaluation.suites import Suite
from focat.progress import Progress
from focat.run import TrainedSystem, load_system
from focat.windows.corpus_windows import Indices, cut_windows


@dataclass(frozen=True)
class AnalysisConfig:
    """Which analyses to run, and how."""

    analyses: Sequence[AnalysisName] = ANALYSES
    sizes: Sequence[int] = (1, 2, 3, 4, 5, 6)
    """Window sizes, for robustness."""
    drop: Sequence[DropSide] = ("both",)
    """From which sides context sentences are dropped."""
    suites: Sequence[Suite] = ()
    """For robustness and context by phenomenon."""
    rule: ScoringRule = "current-sum"
    """What candidates of suites are ranked by."""
    bleu: bool = False
    """Whether to translate with windows of every size."""
    trials: int = TRIALS
    seed: int = SEED


@dataclass(frozen=True)
class Analysis:
    """The results of all systems, and the scores they were computed from."""

    results: AnalysisResults
    scores: Sequence[SystemScores]
    instances: Sequence[SuiteInstance]
    document_of: Indices
    """(sentences,) the document of each sentence."""

    def items(self) -> Iterator[ItemResult]:
        """Return the figures of each window, and of each instance of a suite, of each system."""
        for system in self.scores:
            for item, figures in _by_item(system.scores.values(), "windows"):
                yield ItemResult(
                    system=system.name, sentence=item, document=int(self.document_of[item]), figures=figures
                )
            for item, figures in _by_item(system.scores.values(), "instances"):
                one = self.instances[item]
                yield ItemResult(
                    system=system.name,
                    suite=one.suite,
                    id=one.instance.id,
                    phenomenon=one.phenomenon,
                    distance=one.instance.distance,
                    figures=figures,
                )


def analyse(
    paths: Sequence[Path],
    selection: CorpusSelection,
    config: AnalysisConfig,
    progress: Progress,
    device: str | torch.device = "auto",
    overrides: Sequence[str] = (),
) -> Analysis:
    """Analyse runs one after the other, then compare all with the first.

    Args:
        overrides: settings of decoding to use instead of those of the runs, as in `decoding.beam=8`.
    """
    runs = runs_by_name(paths)
    identity = corpus_identity(runs, selection)
    instances = instances_of(config.suites)
    systems: dict[str, SystemAnalysis] = {}
    scores: list[SystemScores] = []
    for name, run in runs.items():
        trained = load_system(run.path, device, overrides)
        with opened_split(run, trained.tokenizer, selection) as split:
            document_of = np.array(split.document_of)
            identity |= {"sentences": len(split), "documents": len(split.documents) - 1}
            systems[name], found = _analyse_system(name, trained, split, selection, config, instances, progress)
        scores.append(found)
    pairs = [(scores[0], other) for other in scores[1:]]
    findings = paired_differences(pairs, progress, trials=config.trials, seed=config.seed) if pairs else []
    results = AnalysisResults(
        kind=ANALYSIS_KIND,
        focat=__version__,
        corpus=CorpusResult.model_validate(identity),
        suites=tuple(
            AnalysedSuite(name=suite.name, sha256=suite.sha256, instances=len(suite.instances), rule=config.rule)
            for suite in config.suites
        ),
        significance=SignificanceSetup(trials=config.trials, seed=config.seed, correction="holm"),
        systems=systems,
        findings=tuple(findings),
    )
    return Analysis(results, scores, instances, document_of)


def _analyse_system(
    name: str,
    trained: TrainedSystem,
    split: Split,
    selection: CorpusSelection,
    config: AnalysisConfig,
    instances: Sequence[SuiteInstance],
    progress: Progress,
) -> tuple[SystemAnalysis, SystemScores]:
    """Run the configured analyses of one system."""
    system = AnalysedSystem(name, trained.model, trained.settings, trained.tokenizer)
    cut = cut_windows(split, system.windows)
    if len(cut.too_long):
        progress.log(f"{name}: left out {len(cut.too_long):,} sentences, longer than its windows.max_tokens")
    results = SystemAnalysis(
        run=str(trained.runs[0].path),
        weights=trained.weights[0].name,
        weights_sha256=trained.weights_digests[0],
        windows=trained.settings.windows.model_dump(mode="json"),
        discount=trained.settings.objective.model_dump(mode="json")["discount"],
        shift=trained.model.shift,
        windows_shortened=cut.shortened,
        sentences_too_long=len(cut.too_long),
    )
    scores: dict[str, Score] = {}
    if "attention" in config.analyses:
        attention = corpus_attention(system, split, progress)
        results = results.model_copy(update={"attention": attention.results()})
        scores |= attention.scores()
    if "losses" in config.analyses:
        losses = window_losses(system, split, progress)
        curves = logged_losses(trained.runs[0])
        results = results.model_copy(update={"losses": LossResults(end=losses.results(), curves=curves)})
        scores |= losses.scores()
    if "robustness" in config.analyses:
        count = len(split.documents) - 1
        texts = texts_of(trained.runs[0], selection, count, progress) if config.bleu else None
        robustness = robustness_of(system, split, config.sizes, instances, config.rule, texts, progress)
        results = results.model_copy(update={"robustness": robustness.results})
        scores |= robustness.scores
    if "context" in config.analyses:
        sides = [side for side in config.drop if droppable(system.windows, side)]
        context = ContextResults(dropped=(), phenomena=())
        if sides:
            contributions = context_contributions(system, split, sides, progress)
            context = context.model_copy(update={"dropped": contributions.results(config.trials, config.seed)})
            scores |= contributions.scores()
        if sides and instances:
            effects = context_effects(system, instances, sides, config.rule, progress)
            context = context.model_copy(update={"phenomena": effects.results()})
            scores |= effects.scores()
        results = results.model_copy(update={"context": context})
    return results, SystemScores(name, scores)


def _by_item(scores: Iterable[Score], population: str) -> Iterator[tuple[int, dict[str, float]]]:
    """Return each item of a population, in order, with the scores that it has."""
    chosen = [
        (score.name, score.items, score.item_values)
        for score in scores
        if score.kind != "corpus" and score.population == population and score.items is not None
    ]
    if not chosen:
        return
    table = np.full((1 + max(int(items[-1]) for _, items, _ in chosen), len(chosen)), np.nan)
    for column, (_, items, values) in enumerate(chosen):
        table[items, column] = values
    for item in np.flatnonzero(~np.isnan(table).all(1)).tolist():
        row = zip((name for name, _, _ in chosen), table[item].tolist(), strict=True)
        yield item, {name: value for name, value in row if not np.isnan(value)}
