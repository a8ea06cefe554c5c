"""Measuring a trained system for a plan: contrastive suites, test sets and analyses, each as a typed result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from focat.analysis.analyse import AnalysisConfig, analyse
from focat.analysis.corpora import CorpusSelection
from focat.choices import ScoringRule
from focat.config import Settings
from focat.config.corpora import IdsCorpus, TextCorpus
from focat.corpus.readers import read_documents
from focat.evaluation.contrast import ContrastConfig, ScoredSuite, instance_results, run_contrast
from focat.evaluation.disc import distance_of
from focat.evaluation.quality import evaluate, evaluation_results
from focat.evaluation.suites import TextNormalization
from focat.evaluation.test_sets import translate_documents
from focat.experiments.experiment import Experiment, metrics_of
from focat.experiments.plan import SuitePlan, TestPlan
from focat.experiments.results import (
    AnalyseResult,
    ContrastResult,
    EvaluateResult,
    LineStatistics,
    MetricResult,
    PackedAnswers,
    Step,
)
from focat.files import digest_of, write_atomic
from focat.run import TrainedSystem

_DISTANCES = {"d=0": "0", "d=1": "1", "d=2": "2", "d=3": "3", "d>3": ">", "unknown distance": "?"}


def measure_step(
    experiment: Experiment, system: TrainedSystem, settings: Settings, step: Step, details: Path
) -> ContrastResult | EvaluateResult | AnalyseResult:
    """Run a step that measures a system, and write every item of it to the file `details`."""
    if step.kind == "contrast":
        return _contrast(experiment, system, step, details)
    if step.kind == "evaluate":
        return _evaluate(experiment, system, settings, step, details)
    return _analyse(experiment, system, settings, details)


def measuring_command(experiment: Experiment, run_folder: Path, step: Step) -> list[str]:
    """The arguments of a `focat` command that measures the same as a step."""
    plan, run = experiment.plan, str(run_folder)
    again = ["focat", "reproduce", experiment.loaded.where, "--only", step.system]  # where no other command does
    window = [] if step.window is None else ["--window", str(step.window)]
    if step.kind == "contrast":
        suite = plan.suites[step.dataset]
        if suite.path is None:
            return again
        shared = ["--suite", str(suite.path), "--rule", plan.rules[0]]
        return ["focat", "contrast", run, *shared, *_suite_options(suite), *window]
    if step.kind == "evaluate":
        test = plan.tests[step.dataset]
        if not isinstance(test.corpus, TextCorpus | IdsCorpus | None):
            return again
        shared = ["--context", step.context, "--metrics", test.metrics]
        return ["focat", "evaluate", run, *shared, *window, *_test_options(test)]
    options = ["--split", plan.analyse, "--analyses", ",".join(plan.analyses)]
    limit = plan.analyse_sentences
    return ["focat", "analyse", run, *options, *([] if limit is None else ["--limit", str(limit)])]


def _contrast(experiment: Experiment, system: TrainedSystem, step: Step, details: Path) -> ContrastResult:
    planned, suite = experiment.plan.suites[step.dataset], experiment.suite(step.dataset)
    rules = experiment.plan.rules
    normalization = TextNormalization(planned.detokenise, planned.lowercase)
    config = ContrastConfig(rules[0], window=step.window, normalization=normalization)
    (scored,), setup = run_contrast(system, [suite], config, experiment.progress)
    write_atomic(details, "".join(result.to_line() for result in instance_results(scored, rules[0])))
    return ContrastResult(
        kind="contrast",
        signature={rule: replace(setup, rule=rule).signature([suite]) for rule in rules},
        suite=suite.name,
        suite_sha256=suite.sha256,
        chance=100 * suite.chance,
        accuracy={rule: scored.accuracy(rule) for rule in rules},
        answers=_packed(scored, rules),
    )


def _evaluate(
    experiment: Experiment, system: TrainedSystem, settings: Settings, step: Step, details: Path
) -> EvaluateResult:
    test = experiment.plan.tests[step.dataset]
    corpora = [test.corpus] if test.corpus else settings.data.test
    documents = [document for corpus in corpora for document in read_documents(corpus)]
    experiment.progress.log(f"{step}: {sum(len(d.source) for d in documents):,} sentences")
    texts, made = translate_documents(
        system,
        documents,
        experiment.progress,
        step.context or None,
        constrained=test.constrained,
        window=step.window,
        beam=test.beam,
    )
    scores = evaluate(texts, metrics_of(test), experiment.progress)
    results = evaluation_results(step.system, texts, scores, made)
    results.write(details)
    fields = ("context", "constrained", "window", "beam", "length_penalty")
    return EvaluateResult(
        kind="evaluate",
        signature="|".join(["evaluate", *(f"{name}:{getattr(made, name)}" for name in fields)]),
        cut=made.cut,
        reference=results.reference,
        figures={
            figure.name: MetricResult(score=figure.score, interval=figure.interval, signature=figure.signature)
            for figure in results.figures
        },
        lines={
            score.name: LineStatistics.pack(score.statistics, metric=score.metric, level=score.level)
            for score in scores
        },
    )


def _analyse(experiment: Experiment, system: TrainedSystem, settings: Settings, details: Path) -> AnalyseResult:
    selection = CorpusSelection(experiment.plan.analyse, limit=experiment.plan.analyse_sentences)
    config = AnalysisConfig(analyses=experiment.plan.analyses)
    found = analyse([system.runs[0].path], selection, config, experiment.progress, settings.training.device).results
    found.write(details)
    (analysed,) = found.systems.values()
    attention, losses = analysed.attention, analysed.losses
    return AnalyseResult(
        kind="analyse",
        signature=f"analyse|split:{experiment.plan.analyse}|sentences:{found.corpus.sentences}",
        share=attention.share if attention else {},
        entropy=attention.entropy if attention else {},
        losses=losses.end if losses else None,
    )


def _suite_options(suite: SuitePlan) -> list[str]:
    options = ["--detokenise"] * suite.detokenise + ["--lowercase"] * suite.lowercase
    if suite.context_source is None or suite.context_target is None:
        return options
    return [
        *("--context-source", str(suite.context_source), "--context-target", str(suite.context_target)),
        *options,
    ]


def _test_options(test: TestPlan) -> list[str]:
    options = [] if test.beam is None else ["--beam", str(test.beam)]
    options += ["--unconstrained"] * (not test.constrained) + ["--lowercase"] * test.lowercase
    options += [] if test.fragments is None else ["--fragments", str(test.fragments)]
    if isinstance(test.corpus, TextCorpus | IdsCorpus):
        options += ["--source", str(test.corpus.source), "--reference", str(test.corpus.target)]
    if isinstance(test.corpus, IdsCorpus):
        options += ["--documents", str(test.corpus.documents)]
    return options


def _packed(scored: ScoredSuite, rules: Sequence[ScoringRule]) -> PackedAnswers:
    """Whether each answer is correct, and the phenomenon and distance of its instance."""
    instances = scored.suite.instances
    return PackedAnswers(
        phenomena=tuple((name, len(list(run))) for name, run in groupby(one.phenomenon for one in instances)),
        distances="".join(_DISTANCES[distance_of(one)] for one in instances),
        ids=digest_of([[str(one.id), one.right] for one in instances]),
        correct={rule: "".join("01"[correct] for correct in scored.correct(rule)) for rule in rules},
    )
