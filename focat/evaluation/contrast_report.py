"""`focat contrast`: what a system makes of suites, as tables, JSON and one line for each instance."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from focat._version import __version__
from focat.choices import SCORING_RULES, Precision, ScoringRule
from focat.config.schema import SearchSettings
from focat.evaluation.contrastive import Answer, Context
from focat.evaluation.disc import (
    Accuracy,
    Figure,
    by_distance,
    column_of,
    count,
    disc_of,
    pooled,
)
from focat.evaluation.generated_accuracy import OUTCOMES, Produced
from focat.evaluation.suites.instance import Instance, Suite
from focat.evaluation.suites.normalization import Form


@dataclass(frozen=True)
class Setup:
    """How answers were obtained: what the signature of a figure says."""

    rule: ScoringRule
    context: Context
    form: Form
    precision: Precision
    weights: str  # digest
    search: SearchSettings  # where something was translated

    def signature(self, suites: Sequence[Suite], task: str = "contrast") -> str:
        """In the manner of sacrebleu: with it, anybody can obtain the same figure."""
        named = "+".join(suite.identity for suite in suites)
        ties = "+".join(dict.fromkeys("wrong" if s.instances[0].strict else "first" for s in suites))
        how = f"rule:{self.rule}|ties:{ties}|" if task == "contrast" else ""
        if task != "contrast" or self.context.target == "own":
            how += f"beam:{self.search.beam}|penalty:{self.search.length_penalty}|"
        return (
            f"{task}|suite:{named}|{how}{self.context}|form:{self.form}|"
            f"precision:{self.precision}|weights:{self.weights[:8]}|version:{__version__}"
        )


@dataclass(frozen=True)
class Result:
    """The answers to one suite."""

    suite: Suite
    answers: Sequence[Answer]
    produced: Sequence[Produced] = field(default_factory=tuple)  # translations, if they were asked for

    def right(self, rule: ScoringRule) -> list[bool]:
        """Whether each answer is right."""
        return [answer.correct(rule) for answer in self.answers]


@dataclass(frozen=True)
class Section:
    """One table: figures of one suite, or over several."""

    title: str
    figures: Sequence[Figure]
    remarks: Sequence[str]
    signature: str
    others: Mapping[ScoringRule, float] = field(default_factory=dict)  # overall accuracy by the other rules

    def record(self) -> dict[str, Any]:
        """For a JSON file."""
        figures = [figure.record() for figure in self.figures]
        return {
            "title": self.title,
            "signature": self.signature,
            "figures": figures,
            "other_rules": dict(self.others),
            "remarks": list(self.remarks),
        }


def sections(results: Sequence[Result], setup: Setup) -> list[Section]:
    """A table for each suite; one more over phenomena, where there are several."""
    found = []
    for result in results:
        found.append(_section(result, setup))
        if result.produced:
            found.append(_produced_section(result, setup))
    suites = [result.suite for result in results]
    phenomena = _together(results, setup.rule, lambda instance: instance.phenomenon)
    if len(phenomena) > 1:
        figures = [_figure(name, column) for name, column in phenomena.items()]
        summary, remarks = disc_of(_together(results, setup.rule, column_of))
        overall = sum(phenomena.values(), Accuracy(0, 0))
        figures += summary
        if not summary or summary[0].total < overall.total:
            figures.append(_figure("all", overall))
        others = {
            rule: 100 * pooled("all", _together(results, rule, column_of)).share
            for rule in SCORING_RULES
            if rule != setup.rule
        }
        found.append(Section("By phenomenon", figures, remarks, setup.signature(suites), others))
    return found


def _section(result: Result, setup: Setup) -> Section:
    instances, right = result.suite.instances, result.right(setup.rule)
    distances = by_distance(instances, right)
    figures = [_figure(name, column) for name, column in distances.items()] if len(distances) > 1 else []
    figures.append(_figure("all", Accuracy(sum(right), len(right))))
    remarks: list[str] = []
    if result.suite.kind != "voita":  # whose Disc. is over phenomena
        summary, remarks = disc_of(count(instances, right, column_of))
        figures += summary
    others = {rule: 100 * sum(result.right(rule)) / len(instances) for rule in SCORING_RULES if rule != setup.rule}
    title = f"{result.suite.name}: {len(instances):,} instances, {result.suite.candidates:,} candidates"
    return Section(
        f"{title}, chance {100 * result.suite.chance:.2f}", figures, remarks, setup.signature([result.suite]), others
    )


def _produced_section(result: Result, setup: Setup) -> Section:
    """What was produced, of all instances: the outcomes add up to one."""
    total = len(result.produced)
    counted = {outcome: Accuracy(sum(p.outcome == outcome for p in result.produced), total) for outcome in OUTCOMES}
    figures = [_figure(outcome, share) for outcome, share in counted.items()]
    decided = counted["right"].right + counted["wrong"].right
    if decided:
        figures.append(_figure("right, of right and wrong", Accuracy(counted["right"].right, decided)))
    signature = setup.signature([result.suite], "produced")
    return Section(f"{result.suite.name}: what its translations say", figures, (), signature)


def _together(results: Sequence[Result], rule: ScoringRule, by: Callable[[Instance], str]) -> dict[str, Accuracy]:
    """The instances of all suites, by some name they have."""
    instances = [instance for result in results for instance in result.suite.instances]
    return count(instances, [right for result in results for right in result.right(rule)], by)


def _figure(name: str, accuracy: Accuracy) -> Figure:
    return Figure(name, accuracy.share, accuracy.interval, accuracy.total, accuracy.right)


def show(found: Sequence[Section], rule: ScoringRule, console: Console) -> None:
    """Tables in a terminal; in a pipe, columns between tabs."""
    for section in found:
        rows = [
            (
                figure.name,
                f"{100 * figure.share:.2f}",
                f"{100 * figure.interval[0]:.2f} to {100 * figure.interval[1]:.2f}",
                "" if figure.right is None else f"{figure.right:,}",
                f"{figure.total:,}",
            )
            for figure in section.figures
        ]
        header = ("", "%", "95 % interval", "right", "of")
        if console.is_terminal:
            table = Table(*header, title=section.title, title_justify="left")
            for column in table.columns[1:]:
                column.justify = "right"
            for row in rows:
                table.add_row(*row)
            console.print(table)
        else:
            print(section.title, *("\t".join(row) for row in (header, *rows)), sep="\n")
        if section.others:
            others = ", ".join(f"{name} {share:.2f}" for name, share in section.others.items())
            print(f"by {rule}; all by other rules: {others}")
        for remark in section.remarks:
            print(remark)
        print(section.signature, end="\n\n")


def figures(results: Sequence[Result], found: Sequence[Section], setup: Setup) -> dict[str, Any]:
    """All figures, for a JSON file."""
    return {
        "kind": "contrast",
        "version": __version__,
        "rule": setup.rule,
        "suites": [
            {
                "name": result.suite.name,
                "format": result.suite.kind,
                "sha256": result.suite.sha256,
                "context_sha256": result.suite.context_sha256 or None,
                "instances": len(result.suite.instances),
                "candidates": result.suite.candidates,
                "accuracy": {rule: 100 * sum(result.right(rule)) / len(result.answers) for rule in SCORING_RULES},
                "signature": setup.signature([result.suite]),
            }
            for result in results
        ],
        "sections": [section.record() for section in found],
    }


def instance_lines(results: Sequence[Result], rule: ScoringRule) -> str:
    """One JSON object for each instance, to a line."""
    lines = []
    for result in results:
        for i, answer in enumerate(result.answers):
            instance = answer.instance
            record: dict[str, Any] = {
                "suite": result.suite.name,
                "id": instance.id,
                "phenomenon": instance.phenomenon,
                "distance": instance.distance,
                "labels": dict(instance.labels),
                "right": instance.right,
                "chosen": answer.chosen(rule),
                "correct": answer.correct(rule),
                "rule": rule,
                "scores": {name: list(scores) for name, scores in answer.scores.items()},
            }
            if result.produced:
                record["translation"] = result.produced[i].text
                record["produced"] = result.produced[i].outcome
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    return "".join(lines)
