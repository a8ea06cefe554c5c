"""`focat compare`: which differences between systems are more than chance, and how large they are.

Accuracy: McNemar's test. Corpus metrics: approximate randomisation, or the paired bootstrap. Means: a permutation test.
A star is not a size, so every difference comes with its interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from focat.choices import Correction, SignificanceTest
from focat.errors import FocatError
from focat.evaluation.quality import figure_text
from focat.evaluation.significance import (
    RESAMPLES,
    SEED,
    TRIALS,
    Interval,
    accuracy_difference,
    approximate_randomisation,
    corrected,
    p_text,
    paired_bootstrap,
    permutation_of_means,
    stars,
)
from focat.evaluation.systems import Column, System
from focat.progress import Progress


@dataclass(frozen=True)
class Finding:
    """One system against another, in one column."""

    baseline: str
    system: str
    column: str
    difference: float  # system − baseline
    interval: Interval  # of the difference, 95 %
    p: float
    corrected: float
    test: str

    @property
    def stars(self) -> str:
        """By the corrected p-value."""
        return stars(self.corrected)


@dataclass(frozen=True)
class Comparison:
    """All systems, the columns they have in common, and what was found."""

    systems: Sequence[System]
    columns: Sequence[str]
    findings: Sequence[Finding]
    correction: Correction
    all_pairs: bool

    def record(self) -> dict[str, Any]:
        """Everything, to be written as JSON."""
        return {
            "baseline": None if self.all_pairs else self.systems[0].name,
            "correction": self.correction,
            "systems": {
                system.name: {name: system.columns[name].score for name in self.columns} for system in self.systems
            },
            "items": {name: self.systems[0].columns[name].about for name in self.columns},
            "signatures": {name: self.systems[0].columns[name].signature for name in self.columns},
            "findings": [{**asdict(finding), "stars": finding.stars} for finding in self.findings],
        }


def compare(
    systems: Sequence[System],
    progress: Progress,
    all_pairs: bool = False,
    test: SignificanceTest = "randomisation",
    correction: Correction = "holm",
    trials: int = TRIALS,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Comparison:
    """Each system against the first, or all against each other; p-values are corrected over all that is asked."""
    if len(systems) < 2:
        raise FocatError(f"compare: there is only {systems[0].name}; give two systems or more")
    columns = shared_columns(systems, progress)
    pairs = list(combinations(systems, 2)) if all_pairs else [(systems[0], system) for system in systems[1:]]
    found = []
    with progress.bar("tests", "", len(pairs) * len(columns)) as bar:
        for baseline, system in pairs:
            for name in columns:
                first, second = baseline.columns[name], system.columns[name]
                p, interval, how = _test(first, second, test, trials, resamples, seed)
                found.append((baseline.name, system.name, name, second.score - first.score, interval, p, how))
                bar.advance()
    after = corrected([row[5] for row in found], correction)
    findings = [Finding(*row[:6], fixed, row[6]) for row, fixed in zip(found, after, strict=True)]
    return Comparison(systems, columns, findings, correction, all_pairs)


def shared_columns(systems: Sequence[System], progress: Progress) -> list[str]:
    """The columns that all systems have, over the same items; other items under the same name are refused."""
    first, *others = systems
    for system in others:
        for name, one in first.columns.items():
            other = system.columns.get(name, one)
            if one.about != other.about:
                raise FocatError(
                    f"{name}: {first.name} was measured on {one.about}, but {system.name} on {other.about}; "
                    "only figures of the same items can be compared"
                )
            if one.signature != other.signature:
                raise FocatError(
                    f"{name}: measured in different ways: {first.name} {one.signature}, {system.name} {other.signature}"
                )
    everywhere = [name for name in first.columns if all(name in system.columns for system in others)]
    if not everywhere:
        had = "; ".join(f"{system.name} has {', '.join(system.columns)}" for system in systems)
        raise FocatError(f"compare: no figure is common to all systems: {had}")
    if left_out := {name for system in systems for name in system.columns} - set(everywhere):
        progress.log(f"left out, because not all systems have it: {', '.join(sorted(left_out))}")
    return everywhere


def _test(
    first: Column, second: Column, test: SignificanceTest, trials: int, resamples: int, seed: int
) -> tuple[float, Interval, str]:
    """p-value, interval of second − first, and the name of the test."""
    if first.kind == "accuracy":
        return accuracy_difference(first.items[:, 0] > 0, second.items[:, 0] > 0)
    bootstrap_p, interval = paired_bootstrap(first.items, second.items, first.formula, resamples, seed)
    if first.kind == "mean":
        return permutation_of_means(first.items[:, 0], second.items[:, 0], trials, seed), interval, "permutation"
    if test == "bootstrap":
        return bootstrap_p, interval, "paired bootstrap"
    p = approximate_randomisation(first.items, second.items, first.formula, trials, seed)
    return p, interval, "approximate randomisation"


def show_comparison(comparison: Comparison, console: Console) -> None:
    """The paper's kind of table (best in bold, stars against the baseline), then every difference with its interval."""
    _show_scores(comparison, console)
    table = Table("", "figure", "difference", "95 % interval", "p", _after(comparison.correction), "", "test")
    before = ""
    for finding in comparison.findings:
        pair = f"{finding.system} − {finding.baseline}"
        low, high = (figure_text(finding.column, end, "+") for end in finding.interval)
        table.add_row(
            pair if pair != before else "",
            finding.column,
            figure_text(finding.column, finding.difference, "+"),
            f"\\[{low}, {high}]",
            p_text(finding.p),
            p_text(finding.corrected),
            finding.stars,
            finding.test,
        )
        before = pair
    console.print("", table)


def _show_scores(comparison: Comparison, console: Console) -> None:
    marks = {(f.system, f.column): f.stars for f in comparison.findings} if not comparison.all_pairs else {}
    best = {}
    for name in comparison.columns:
        scores = [system.columns[name].score for system in comparison.systems]
        best[name] = max(scores) if comparison.systems[0].columns[name].higher_is_better else min(scores)
    baseline = comparison.systems[0].name
    against = "" if comparison.all_pairs else f"; differs from {baseline}: * p < 0.05, ** p < 0.01"
    table = Table("", *comparison.columns, caption=f"best in bold{against}")
    for system in comparison.systems:
        cells = [Text(system.name)]
        for name in comparison.columns:
            score = system.columns[name].score
            mark = marks.get((system.name, name), "")
            style = "bold" if score == best[name] else ""
            cells.append(Text(figure_text(name, score) + mark, style))
        table.add_row(*cells)
    console.print(table)
    for name in comparison.columns:
        column = comparison.systems[0].columns[name]
        console.print(f"{name}: {column.about}{'; ' if column.signature else ''}{column.signature}", soft_wrap=True)


def _after(correction: Correction) -> str:
    names = {"holm": "p (Holm)", "benjamini-hochberg": "p (B-H)", "none": "p (uncorrected)"}
    return names[correction]
