"""Which differences between systems are more than chance, and how large they are: `focat compare`.

Accuracy: McNemar's test. Metrics of a corpus and ratios: approximate randomisation, or the paired bootstrap. Means: a
permutation test. Every difference comes with its interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from focat.choices import Correction, SignificanceTest
from focat.errors import FocatError
from focat.evaluation.results import ComparisonResults, Finding
from focat.evaluation.scores import Score, SystemScores, shared_items
from focat.evaluation.significance import (
    RESAMPLES,
    SEED,
    TRIALS,
    Interval,
    accuracy_difference,
    approximate_randomisation,
    corrected,
    paired_bootstrap,
    permutation_of_means,
)
from focat.progress import NULL_PROGRESS, Progress


@dataclass(frozen=True)
class Comparison:
    """Systems, the scores that all of them have, and the tested differences."""

    systems: Sequence[SystemScores]
    names: Sequence[str]
    findings: Sequence[Finding]
    correction: Correction
    all_pairs: bool

    def score(self, name: str) -> Score:
        """Return the score of that name of the first system: what it measures, on what and how is shared by all."""
        return self.systems[0].scores[name]

    def best(self, name: str) -> float:
        """Return the best value of a score over all systems."""
        values = [system.scores[name].value for system in self.systems]
        return max(values) if self.score(name).higher_is_better else min(values)

    def results(self) -> ComparisonResults:
        """Return what `focat compare --json` writes."""
        return ComparisonResults(
            baseline=None if self.all_pairs else self.systems[0].name,
            correction=self.correction,
            systems={system.name: {name: system.scores[name].value for name in self.names} for system in self.systems},
            items={name: self.score(name).population for name in self.names},
            signatures={name: self.score(name).signature for name in self.names},
            findings=tuple(self.findings),
        )


def compare(
    systems: Sequence[SystemScores],
    progress: Progress = NULL_PROGRESS,
    all_pairs: bool = False,
    test: SignificanceTest = "randomisation",
    correction: Correction = "holm",
    trials: int = TRIALS,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Comparison:
    """Compare every system with the first, or all with each other, in the scores that all of them have.

    Raises:
        FocatError: there is one system only, or `paired_differences` cannot compare them.
    """
    if len(systems) < 2:
        raise FocatError(f"compare: there is only {systems[0].name}; give two systems or more")
    names = shared_scores(systems, progress)
    kept = [SystemScores(system.name, {name: system.scores[name] for name in names}) for system in systems]
    pairs = list(combinations(kept, 2)) if all_pairs else [(kept[0], system) for system in kept[1:]]
    findings = paired_differences(pairs, progress, test, correction, trials, resamples, seed)
    return Comparison(systems, names, findings, correction, all_pairs)


def paired_differences(
    pairs: Sequence[tuple[SystemScores, SystemScores]],
    progress: Progress = NULL_PROGRESS,
    test: SignificanceTest = "randomisation",
    correction: Correction = "holm",
    trials: int = TRIALS,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[Finding]:
    """Test every score that both systems of a pair have, on the items that both have.

    p-values are corrected over all pairs, within each family of scores.

    Raises:
        FocatError: two systems were measured on different items, or in different ways.
    """
    tested = []
    for baseline, system in pairs:
        for name in baseline.scores:
            if name in system.scores:
                _check_comparable(baseline, system, name)
                if both := shared_items(baseline.scores[name], system.scores[name]):
                    tested.append((baseline.name, system.name, *both))
    found: list[tuple[float, Interval, str]] = []
    with progress.bar("significance", "tests", len(tested)) as bar:
        for _, _, first, second in tested:
            found.append(_test(first, second, test, trials, resamples, seed))
            bar.advance()
    families = np.array([first.family for _, _, first, _ in tested])
    after = np.ones(len(tested))
    for family in set(families.tolist()):
        chosen = np.flatnonzero(families == family)
        after[chosen] = corrected([found[i][0] for i in chosen], correction)
    return [
        Finding(
            baseline=baseline,
            system=system,
            column=first.name,
            difference=second.value - first.value,
            interval=interval,
            p=p,
            corrected=float(p_corrected),
            test=test_name,
        )
        for (baseline, system, first, second), (p, interval, test_name), p_corrected in zip(
            tested, found, after, strict=True
        )
    ]


def shared_scores(systems: Sequence[SystemScores], progress: Progress) -> list[str]:
    """Return the names of the scores that all systems have."""
    first, *others = systems
    names = [name for name in first.scores if all(name in system.scores for system in others)]
    if not names:
        listed = "; ".join(f"{system.name} has {', '.join(system.scores)}" for system in systems)
        raise FocatError(f"compare: no figure is common to all systems: {listed}")
    if left_out := {name for system in systems for name in system.scores} - set(names):
        progress.log(f"left out, because not all systems have it: {', '.join(sorted(left_out))}")
    return names


def _check_comparable(baseline: SystemScores, system: SystemScores, name: str) -> None:
    one, other = baseline.scores[name], system.scores[name]
    if one.population != other.population:
        raise FocatError(
            f"{name}: {baseline.name} was measured on {one.population}, but {system.name} on {other.population}; "
            "only figures of the same items can be compared"
        )
    if one.signature != other.signature:
        raise FocatError(
            f"{name}: measured in different ways: {baseline.name} {one.signature}, {system.name} {other.signature}"
        )


def _test(
    first: Score, second: Score, test: SignificanceTest, trials: int, resamples: int, seed: int
) -> tuple[float, Interval, str]:
    """Return the p-value, the interval of second − first, and the name of the test."""
    if first.kind == "accuracy":
        return accuracy_difference(first.statistics[:, 0] > 0, second.statistics[:, 0] > 0)
    statistics = first.statistics, second.statistics
    bootstrap_p, interval = paired_bootstrap(*statistics, first.formula, resamples, seed)
    if first.kind == "mean":
        p = permutation_of_means(first.statistics[:, 0], second.statistics[:, 0], trials, seed)
        return p, interval, "permutation"
    if test == "bootstrap":
        return bootstrap_p, interval, "paired bootstrap"
    return approximate_randomisation(*statistics, first.formula, trials, seed), interval, "approximate randomisation"
