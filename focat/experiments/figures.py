"""The figures of a plan's systems, by the names that the paper's tables have for them, and what tells systems apart."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from focat.choices import Correction
from focat.evaluation.comparison import Finding, compare
from focat.evaluation.disc import distance_of
from focat.evaluation.metrics import Figure
from focat.evaluation.significance import corrected
from focat.evaluation.systems import Answer, Column, System, columns_of_answers, figure_column
from focat.experiments.paper import TITLES
from focat.experiments.plan import Plan
from focat.experiments.results import Record, unpacked_numbers
from focat.progress import NULL_PROGRESS

OTHER_SIZE = re.compile(r"\.window(\d+)$")  # what the names of steps end with that ask with windows of another size
_METRICS = ("BLEU", "f-BLEU", "chrF", "COMET")  # that tables show; the files have more

Key = tuple[str, int]
"""A system and a seed."""


@dataclass(frozen=True)
class Cell:
    """A figure over the seeds of a system."""

    value: float
    spread: float | None = None  # standard deviation, of two seeds or more
    seeds: int = 1
    mark: str = ""

    @classmethod
    def of(cls, values: Sequence[float], mark: str = "") -> Cell:
        """Mean and spread."""
        spread = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), spread, len(values), mark)

    def record(self) -> Record:
        """For a JSON file."""
        found: Record = {"value": self.value}
        if self.spread is not None:
            found |= {"spread": self.spread, "seeds": self.seeds}
        return found | ({"mark": self.mark} if self.mark else {})


def results_of(records: Sequence[Record], key: Key, step: str) -> list[Record]:
    """The results of a system's steps whose name begins so, without those of other window sizes."""
    return [
        record
        for record in records
        if (record["system"], record["seed"]) == key
        and f"{record['step']}.".startswith(f"{step}.")
        and not OTHER_SIZE.search(record["step"])
    ]


def keys_of(records: Sequence[Record]) -> list[Key]:
    """Systems and seeds that have results, in their order."""
    return list(dict.fromkeys((record["system"], record["seed"]) for record in records))


# ------------------------------------------------------------------------------------------------ answers to suites


def accuracy_columns(results: Sequence[Record], rule: str) -> list[Column]:
    """Accuracy of each phenomenon, or distance where own sentences decide some instances; then Disc. and relatives."""
    answers = [answer for record in results for answer in _answers(record["result"], rule)]
    with_own = {answer.suite for answer in answers if answer.distance == 0}

    def group(answer: Answer) -> str:
        return distance_of(answer) if answer.suite in with_own else TITLES.get(answer.phenomenon, answer.phenomenon)

    return columns_of_answers(answers, group)


def _answers(result: Record, rule: str) -> list[Answer]:
    """Of one suite, as `focat contrast --instances` would have written them; a digest stands for their identities."""
    suite, packed = result["suite"]["name"], result["answers"]
    phenomena = [name for name, count in packed["phenomena"] for _ in range(count)]
    distances = [None if sign == "?" else 4 if sign == ">" else int(sign) for sign in packed["distances"]]
    right = [sign == "1" for sign in packed["correct"][rule]]
    return [
        Answer(suite, f"{i:06}", phenomenon, distance, {}, packed["ids"], correct, rule)
        for i, (phenomenon, distance, correct) in enumerate(zip(phenomena, distances, right, strict=True))
    ]


# ------------------------------------------------------------------------------------------------ translations


def quality_columns(plan: Plan, records: Sequence[Record], key: Key) -> list[Column]:
    """BLEU and its kin of each test set and kind of target context, with what each line contributes."""
    columns = []
    alone = any(record["result"]["window"] == 1 for record in results_of(records, key, "train"))
    for test, planned in plan.tests.items():
        for context in planned.contexts:
            measured = planned.contexts[0] if alone else context  # who sees one sentence has no target context
            found = results_of(records, key, f"evaluate.{test}.{measured}")
            for record in found[:1]:
                shown = [column for column in _quality(record["result"]) if column.name in _METRICS]
                columns += [replace(c, name=quality_name(plan, test, c.name, context)) for c in shown]
    return columns


def _quality(result: Record) -> list[Column]:
    """Of one test set, as `focat evaluate --json` would have written them."""
    figures = [
        Figure(lines["metric"], lines["level"], result["figures"][name]["signature"], unpacked_numbers(lines))
        for name, lines in result["lines"].items()
    ]
    return [figure_column(figure, result["reference"]["sha256"]) for figure in figures]


def quality_name(plan: Plan, test: str, metric: str, context: str) -> str:
    """BLEU regenerate; with the test set's name where there are several."""
    return f"{metric} {context}" if len(plan.tests) == 1 else f"{test}: {metric} {context}"


# ------------------------------------------------------------------------------------------------ all of a system


@dataclass(frozen=True)
class Measured:
    """All systems and seeds by one scoring rule."""

    plan: Plan
    rule: str
    systems: dict[Key, System]
    findings: list[tuple[int, Finding]]  # with the seed

    def names(self) -> list[str]:
        """Systems that have figures, in the order of the plan."""
        found = {name for name, _ in self.systems}
        return [name for name in self.plan.systems if name in found]

    def cell(self, system: str, column: str) -> Cell | None:
        """A figure of a system over its seeds."""
        values = []
        for (name, _), found in self.systems.items():
            if name == system and column in found.columns:
                values.append(found.columns[column].score)
        return Cell.of(values, self._mark(system, column)) if values else None

    def columns(self) -> list[str]:
        """All columns, in the order in which systems have them."""
        return list(dict.fromkeys(name for system in self.systems.values() for name in system.columns))

    def _mark(self, system: str, column: str) -> str:
        """A star if it is better than every system it is compared with, with every seed."""
        own = [(s, finding) for s, finding in self.findings if (finding.system, finding.column) == (system, column)]
        seeds = [seed for (name, seed), found in self.systems.items() if name == system and column in found.columns]
        asked = {(seed, baseline) for seed in seeds for baseline in self.plan.baselines_of(system)}
        all_asked = {(seed, finding.baseline) for seed, finding in own} == asked
        better = [finding.difference > 0 and finding.corrected < 0.05 for _, finding in own]
        return "*" if better and all_asked and all(better) else ""


def measured(plan: Plan, records: Sequence[Record], rule: str, quality: bool = True) -> Measured:
    """Figures of all systems, and every comparison that the plan asks for; of translations too if so asked."""
    systems = {}
    for key in keys_of(records):
        columns = [
            *accuracy_columns(results_of(records, key, "contrast"), rule),
            *(quality_columns(plan, records, key) if quality else ()),
        ]
        if columns:
            systems[key] = System(key[0], {column.name: column for column in columns})
    findings = [
        (seed, finding)
        for (name, seed), system in systems.items()
        for baseline in plan.baselines_of(name)
        for finding in _compared(systems.get((baseline, seed)), system)
    ]
    return Measured(plan, rule, systems, _after_correction(findings, plan.correction))


def _compared(baseline: System | None, system: System) -> Sequence[Finding]:
    if baseline is None:
        return []
    shared = [name for name in baseline.columns if name in system.columns]
    both = [System(s.name, {name: s.columns[name] for name in shared}) for s in (baseline, system)]
    return compare(both, NULL_PROGRESS, correction="none").findings if shared else []


def _after_correction(findings: list[tuple[int, Finding]], how: Correction) -> list[tuple[int, Finding]]:
    fixed = corrected([finding.p for _, finding in findings], how)
    return [(seed, replace(finding, corrected=p)) for (seed, finding), p in zip(findings, fixed, strict=True)]
