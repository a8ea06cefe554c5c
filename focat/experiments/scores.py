"""The scores of a plan's systems, under the names of the paper's columns, and the plan's comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from focat.choices import ScoringRule, TargetContext
from focat.evaluation.comparison import paired_differences
from focat.evaluation.disc import distance_of
from focat.evaluation.instance_scores import instance_scores
from focat.evaluation.metrics import metric_score
from focat.evaluation.results import Finding, InstanceResult
from focat.evaluation.scores import Score, SystemScores
from focat.evaluation.significance import corrected
from focat.experiments.paper import PHENOMENON_TITLES
from focat.experiments.plan import Plan
from focat.experiments.results import ContrastResult, EvaluateResult, Step, StepResult, TrainResult

_SHOWN = ("BLEU", "f-BLEU", "chrF", "COMET")  # the result files have more

SystemSeed = tuple[str, int]
AnyResult = TypeVar("AnyResult")


@dataclass(frozen=True)
class QualityColumn:
    """What a column with a metric shows."""

    name: str
    test: str
    metric: str
    context: TargetContext


@dataclass(frozen=True)
class PlanResults:
    """A plan and the results of its steps."""

    plan: Plan
    steps: Sequence[StepResult]

    def of_type(
        self, kind: type[AnyResult], system: str, seed: int | None = None, all_windows: bool = False
    ) -> list[tuple[Step, AnyResult]]:
        """The results of one kind of step of a system.

        Args:
            kind: the type of result.
            system: the name of the system.
            seed: one seed; all if None.
            all_windows: also steps with other window sizes than that of training.
        """
        return [
            (found.step, found.result)
            for found in self.steps
            if isinstance(found.result, kind)
            and found.step.system == system
            and seed in (None, found.step.seed)
            and (all_windows or found.step.window is None)
        ]

    @property
    def systems_and_seeds(self) -> list[SystemSeed]:
        """Systems and seeds that have results, in their order."""
        return list(dict.fromkeys((found.step.system, found.step.seed) for found in self.steps))

    def quality_columns(self) -> list[QualityColumn]:
        """The columns of metrics: BLEU regenerate, with the name of the test set where there are several."""
        return [
            QualityColumn(f"{prefix}{metric} {context}", test, metric, context)
            for test, planned in self.plan.tests.items()
            for prefix in ["" if len(self.plan.tests) == 1 else f"{test}: "]
            for context in planned.contexts
            for metric in _SHOWN
        ]


def suite_scores(results: Sequence[ContrastResult], rule: ScoringRule) -> list[Score]:
    """Accuracy by phenomenon, or by distance for suites with d=0; then Disc. and its variants."""
    answers = [answer for result in results for answer in _answers(result, rule)]
    with_own_sentence = {answer.suite for answer in answers if answer.distance == 0}

    def group(answer: InstanceResult) -> str:
        if answer.suite in with_own_sentence:
            return distance_of(answer)
        return PHENOMENON_TITLES.get(answer.phenomenon, answer.phenomenon)

    return instance_scores(answers, group)


def _answers(result: ContrastResult, rule: ScoringRule) -> list[InstanceResult]:
    """The answers to one suite; the digest of all instances stands for what each of them is."""
    packed = result.answers
    phenomena = [name for name, count in packed.phenomena for _ in range(count)]
    distances = [None if sign == "?" else 4 if sign == ">" else int(sign) for sign in packed.distances]
    correct = [sign == "1" for sign in packed.correct[rule]]
    return [
        InstanceResult(
            suite=result.suite,
            id=f"{i:06}",
            phenomenon=phenomenon,
            distance=distance,
            right=packed.ids,
            correct=right,
            rule=rule,
        )
        for i, (phenomenon, distance, right) in enumerate(zip(phenomena, distances, correct, strict=True))
    ]


def _quality_scores(found: PlanResults, system: str, seed: int) -> list[Score]:
    """The metrics of each test set and kind of target context, with the statistics of each line."""
    trained = found.of_type(TrainResult, system, seed)
    without_context = any(result.window == 1 for _, result in trained)
    evaluations = {(step.dataset, step.context): result for step, result in found.of_type(EvaluateResult, system, seed)}
    scores: list[Score] = []
    for column in found.quality_columns():
        # A system without target context is evaluated once, and its scores stand under each kind.
        first = found.plan.tests[column.test].contexts[0]
        result = evaluations.get((column.test, first if without_context else column.context))
        if result is not None and result.reference is not None and column.metric in result.lines:
            lines, figure = result.lines[column.metric], result.figures[column.metric]
            reference = result.reference.sha256
            score = metric_score(lines.metric, lines.level, figure.signature, lines.unpack(), reference)
            scores.append(replace(score, name=column.name))
    return scores


@dataclass(frozen=True)
class PlanScores:
    """The scores of all systems and seeds by one scoring rule."""

    found: PlanResults
    rule: ScoringRule
    systems: dict[SystemSeed, SystemScores]
    findings: list[tuple[int, Finding]]
    """Every comparison, with its seed."""

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self.found.plan

    def names(self) -> list[str]:
        """Systems that have scores, in the order of the plan."""
        scored = {name for name, _ in self.systems}
        return [name for name in self.plan.systems if name in scored]

    def columns(self) -> list[str]:
        """All scores, in the order in which systems have them."""
        return list(dict.fromkeys(name for system in self.systems.values() for name in system.scores))

    def values(self, system: str, column: str) -> list[float]:
        """A score of a system with each seed."""
        return [
            scores.scores[column].value
            for (name, _), scores in self.systems.items()
            if name == system and column in scores.scores
        ]

    def star(self, system: str, column: str) -> str:
        """A star if the system is better than every system it is compared with, with every seed."""
        own = [(s, finding) for s, finding in self.findings if (finding.system, finding.column) == (system, column)]
        seeds = [seed for (name, seed), scores in self.systems.items() if name == system and column in scores.scores]
        expected = {(seed, baseline) for seed in seeds for baseline in self.plan.baselines_of(system)}
        complete = {(seed, finding.baseline) for seed, finding in own} == expected
        better = [finding.difference > 0 and finding.corrected < 0.05 for _, finding in own]
        return "*" if better and complete and all(better) else ""


def score_systems(found: PlanResults, rule: ScoringRule, quality: bool = True) -> PlanScores:
    """Score all systems by one rule and compare them as the plan asks; `quality` includes the metrics of test sets."""
    plan = found.plan
    systems = {}
    for name, seed in found.systems_and_seeds:
        answered = [result for _, result in found.of_type(ContrastResult, name, seed)]
        scores = [*suite_scores(answered, rule), *(_quality_scores(found, name, seed) if quality else ())]
        if scores:
            systems[name, seed] = SystemScores(name, {score.name: score for score in scores})
    findings = [
        (seed, finding)
        for (name, seed), system in systems.items()
        for baseline in plan.baselines_of(name)
        for finding in _compared(systems.get((baseline, seed)), system)
    ]
    p_values = corrected([finding.p for _, finding in findings], plan.correction)
    findings = [
        (seed, finding.model_copy(update={"corrected": p}))
        for (seed, finding), p in zip(findings, p_values, strict=True)
    ]
    return PlanScores(found, rule, systems, findings)


def _compared(baseline: SystemScores | None, system: SystemScores) -> list[Finding]:
    return [] if baseline is None else paired_differences([(baseline, system)], correction="none")
