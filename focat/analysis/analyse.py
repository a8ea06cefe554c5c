"""`focat analyse`: all analyses of some runs over the same documents, one run at a time, and what tells them apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from focat._version import __version__
from focat.analysis.attention import attention_of
from focat.analysis.contributions import contributions_of, droppable
from focat.analysis.losses import curves, losses_of
from focat.analysis.measures import Measures, compare
from focat.analysis.phenomena import Question, effects_of, questions_of
from focat.analysis.robustness import robustness_of
from focat.analysis.systems import Chosen, System, corpus_identity, load_system, open_runs, opened_split, texts_of
from focat.choices import ANALYSES, AnalysisName, DropSide, ScoringRule
from focat.corpus.store import Split
from focat.evaluation.comparison import Finding
from focat.evaluation.significance import SEED, TRIALS, Floats
from focat.evaluation.suites import Suite
from focat.progress import Progress
from focat.windows.corpus_windows import cut_windows

KIND = "focat analysis"  # how a file of ours is known


@dataclass(frozen=True)
class Asked:
    """What is to be found out."""

    parts: Sequence[AnalysisName] = ANALYSES
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


@dataclass
class Analysis:
    """What was found out."""

    corpus: dict[str, Any]
    asked: Asked
    systems: dict[str, dict[str, Any]] = field(default_factory=dict)
    measures: dict[str, Measures] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    document_of: np.ndarray[Any, np.dtype[np.int64]] = field(default_factory=lambda: np.empty(0, np.int64))

    def record(self) -> dict[str, Any]:
        """Everything, to be written as JSON (docs/analysing.md)."""
        return {
            "kind": KIND,
            "focat": __version__,
            "corpus": self.corpus,
            "suites": [
                {"name": suite.name, "sha256": suite.sha256, "instances": len(suite.instances), "rule": self.asked.rule}
                for suite in self.asked.suites
            ],
            "significance": {"trials": self.asked.trials, "seed": self.asked.seed, "correction": "holm"},
            "systems": self.systems,
            "findings": [{**asdict(finding), "stars": finding.stars} for finding in self.findings],
        }

    def item_lines(self) -> Iterator[str]:
        """One JSON object for each window, and for each instance of a suite, of each system."""
        for name, measures in self.measures.items():
            for of_questions in (False, True):
                chosen = {
                    measure: (found.items, found.of_items)
                    for measure, found in measures.items()
                    if found.kind != "corpus" and _is_about_questions(measure) == of_questions
                }
                for item, values in _by_item(chosen):
                    about = self._question(item) if of_questions else self._sentence(item)
                    yield json.dumps({"system": name, **about, "figures": values}, ensure_ascii=False) + "\n"

    def _sentence(self, item: int) -> dict[str, Any]:
        return {"sentence": item, "document": int(self.document_of[item])}

    def _question(self, item: int) -> dict[str, Any]:
        question = self.questions[item]
        instance = question.instance
        return {
            "suite": question.suite,
            "id": instance.id,
            "phenomenon": question.phenomenon,
            "distance": instance.distance,
        }


def analyse(paths: Sequence[Path], chosen: Chosen, asked: Asked, progress: Progress, device: torch.device) -> Analysis:
    """Look into each run; then compare all with the first."""
    runs = open_runs(paths)
    found = Analysis(corpus_identity(runs, chosen), asked, questions=questions_of(asked.suites))
    for name, run in runs.items():
        system = load_system(name, run, device)
        with opened_split(system, chosen) as split:
            found.document_of = np.array(split.document_of)
            found.corpus |= {"sentences": len(split), "documents": len(split.documents) - 1}
            record, measures = _examine(system, split, chosen, asked, found.questions, progress)
        found.systems[name] = {**system.described(), **record}
        found.measures[name] = measures
    if len(runs) > 1:
        found.findings = compare(found.measures, progress, asked.trials, asked.seed)
    return found


def _examine(
    system: System, split: Split, chosen: Chosen, asked: Asked, questions: Sequence[Question], progress: Progress
) -> tuple[dict[str, Any], Measures]:
    """All that is asked about one system."""
    cut = cut_windows(split, system.windows)
    if len(cut.too_long):
        progress.log(f"{system.name}: left out {len(cut.too_long):,} sentences, longer than its windows.max_tokens")
    record: dict[str, Any] = {"windows_shortened": cut.shortened, "sentences_too_long": len(cut.too_long)}
    measures: Measures = {}
    if "attention" in asked.parts:
        attention = attention_of(system, split, progress)
        record["attention"] = attention.record()
        measures |= attention.measures()
    if "losses" in asked.parts:
        losses = losses_of(system, split, progress)
        record["losses"] = {"end": losses.record(), "curves": curves(system.run)}
        measures |= losses.measures()
    if "robustness" in asked.parts:
        texts = texts_of(system, chosen, len(split.documents) - 1, progress) if asked.bleu else None
        robustness = robustness_of(system, split, asked.sizes, questions, asked.rule, texts, progress)
        record["robustness"] = robustness.record()
        measures |= robustness.measures()
    if "context" in asked.parts:
        sides = [side for side in asked.drop if droppable(system.windows, side)]
        record["context"] = {"dropped": [], "phenomena": []}
        if sides:
            contributions = contributions_of(system, split, sides, progress)
            record["context"]["dropped"] = contributions.record(asked.trials, asked.seed)
            measures |= contributions.measures()
        if sides and questions:
            effects = effects_of(system, questions, sides, asked.rule, progress)
            record["context"]["phenomena"] = effects.record()
            measures |= effects.measures()
    return record, measures


def _is_about_questions(measure: str) -> bool:
    return measure.startswith(("robustness.accuracy.", "context.margin."))


def _by_item(
    measures: dict[str, tuple[np.ndarray[Any, np.dtype[np.int64]], Floats]],
) -> Iterator[tuple[int, dict[str, float]]]:
    """For each item, in order, the figures it has."""
    if not measures:
        return
    table = np.full((1 + max(int(items[-1]) for items, _ in measures.values()), len(measures)), np.nan)
    for column, (items, values) in enumerate(measures.values()):
        table[items, column] = values
    for item in np.flatnonzero(~np.isnan(table).all(1)).tolist():
        yield item, {name: float(value) for name, value in zip(measures, table[item], strict=True) if value == value}
