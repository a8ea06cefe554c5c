"""Results of `focat contrast` from scored suites: accuracies by distance and phenomenon, Disc., and each instance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

from focat._version import __version__
from focat.choices import SCORING_RULES, ScoringRule
from focat.evaluation.contrast import ContrastSetup, ScoredSuite
from focat.evaluation.disc import Accuracy, by_distance, column_of, count, disc_of, pooled
from focat.evaluation.results import (
    ContrastResults,
    ContrastSection,
    InstanceResult,
    Outcome,
    SuiteResult,
)
from focat.evaluation.suites.instance import Instance


def contrast_results(suites: Sequence[ScoredSuite], setup: ContrastSetup) -> ContrastResults:
    """Return all accuracies: a section for each suite, and one over phenomena where there are several."""
    sections = []
    for scored in suites:
        sections.append(_suite_section(scored, setup))
        if scored.translations:
            sections.append(_translation_section(scored, setup))
    phenomena = _counted(suites, setup.rule, lambda instance: instance.phenomenon)
    if len(phenomena) > 1:
        sections.append(_phenomena_section(suites, phenomena, setup))
    return ContrastResults(
        kind="contrast",
        version=__version__,
        rule=setup.rule,
        suites=tuple(
            SuiteResult(
                name=scored.suite.name,
                format=scored.suite.kind,
                sha256=scored.suite.sha256,
                context_sha256=scored.suite.context_sha256 or None,
                instances=len(scored.suite.instances),
                candidates=scored.suite.candidates,
                accuracy={rule: scored.accuracy(rule) for rule in SCORING_RULES},
                signature=setup.signature([scored.suite]),
            )
            for scored in suites
        ),
        sections=tuple(sections),
    )


def instance_results(scored: ScoredSuite, rule: ScoringRule) -> list[InstanceResult]:
    """Return the result on each instance of a suite: the lines of `focat contrast --instances`."""
    results = []
    for i, one in enumerate(scored.scored):
        instance = one.instance
        result = InstanceResult(
            suite=scored.suite.name,
            id=instance.id,
            phenomenon=instance.phenomenon,
            distance=instance.distance,
            labels=dict(instance.labels),
            right=instance.right,
            chosen=one.chosen(rule),
            correct=one.correct(rule),
            rule=rule,
            scores={name: list(scores) for name, scores in one.scores.items()},
        )
        if scored.translations:
            generated = scored.translations[i]
            result = result.model_copy(update={"translation": generated.text, "produced": generated.outcome})
        results.append(result)
    return results


def _suite_section(scored: ScoredSuite, setup: ContrastSetup) -> ContrastSection:
    suite, correct = scored.suite, scored.correct(setup.rule)
    distances = by_distance(suite.instances, correct)
    figures = [accuracy.result(name) for name, accuracy in distances.items()] if len(distances) > 1 else []
    figures.append(Accuracy(sum(correct), len(correct)).result("all"))
    remarks: list[str] = []
    if suite.kind != "voita":  # whose Disc. is over phenomena
        summary, remarks = disc_of(count(suite.instances, correct, column_of))
        figures += summary
    title = f"{suite.name}: {len(suite.instances):,} instances, {suite.candidates:,} candidates"
    return ContrastSection(
        title=f"{title}, chance {100 * suite.chance:.2f}",
        signature=setup.signature([suite]),
        figures=tuple(figures),
        other_rules={rule: scored.accuracy(rule) for rule in SCORING_RULES if rule != setup.rule},
        remarks=tuple(remarks),
    )


def _translation_section(scored: ScoredSuite, setup: ContrastSetup) -> ContrastSection:
    """Which candidate the translations agree with; the outcomes add up to all instances."""
    total = len(scored.translations)
    found = [translation.outcome for translation in scored.translations]
    figures = [Accuracy(found.count(outcome), total).result(outcome) for outcome in get_args(Outcome)]
    right, wrong = found.count("right"), found.count("wrong")
    if right + wrong:
        figures.append(Accuracy(right, right + wrong).result("right, of right and wrong"))
    return ContrastSection(
        title=f"{scored.suite.name}: what its translations say",
        signature=setup.signature([scored.suite], "produced"),
        figures=tuple(figures),
        other_rules={},
        remarks=(),
    )


def _phenomena_section(
    suites: Sequence[ScoredSuite], phenomena: dict[str, Accuracy], setup: ContrastSetup
) -> ContrastSection:
    figures = [accuracy.result(name) for name, accuracy in phenomena.items()]
    summary, remarks = disc_of(_counted(suites, setup.rule, column_of))
    overall = sum(phenomena.values(), Accuracy(0, 0))
    figures += summary
    if not summary or summary[0].total < overall.total:
        figures.append(overall.result("all"))
    return ContrastSection(
        title="By phenomenon",
        signature=setup.signature([scored.suite for scored in suites]),
        figures=tuple(figures),
        other_rules={
            rule: pooled("all", _counted(suites, rule, column_of)).accuracy
            for rule in SCORING_RULES
            if rule != setup.rule
        },
        remarks=tuple(remarks),
    )


def _counted(
    suites: Sequence[ScoredSuite], rule: ScoringRule, group_by: Callable[[Instance], str]
) -> dict[str, Accuracy]:
    """Return the accuracy of each group of the instances of all suites."""
    instances = [instance for scored in suites for instance in scored.suite.instances]
    return count(instances, [correct for scored in suites for correct in scored.correct(rule)], group_by)
