"""Accuracies of a system from its results on the instances of suites: by phenomenon, distance or label, and Disc."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from focat.errors import FocatError, ParameterError
from focat.evaluation.disc import DISTANCES, OWN_SENTENCE, UNKNOWN, column_of, counts, distance_of
from focat.evaluation.results import InstanceResult
from focat.evaluation.scores import Score, accuracy_score
from focat.evaluation.significance import Floats
from focat.files import digest_of

GroupBy = Callable[[InstanceResult], str | None]
"""The name of the group that an instance belongs to; None if to none."""
_DISTANCES = (OWN_SENTENCE, *DISTANCES, UNKNOWN)


def instance_scores(results: Sequence[InstanceResult], group_by: GroupBy) -> list[Score]:
    """Return the accuracy of each group, then Disc. and its variants, then of all where that is not one of them.

    Instances of no group count in Disc. and in the overall accuracy.
    """
    names = list(dict.fromkeys(name for name in map(group_by, results) if name is not None))  # in the file's order
    if any(name in DISTANCES for name in names):
        names.sort(key=lambda name: _DISTANCES.index(name) if name in _DISTANCES else -1)
    ordered = sorted(results, key=lambda result: (result.suite, str(result.id)))  # the same items for all systems
    scores = [_accuracy(name, [result for result in ordered if group_by(result) == name]) for name in names]
    in_disc = [result for result in ordered if counts(column_of(result))]
    with_own_sentence = [result for result in ordered if result.distance == 0 or counts(column_of(result))]
    if in_disc:
        scores.append(_accuracy("Disc.", in_disc))
        if len(set(map(column_of, in_disc))) > 1:
            scores.append(_mean_accuracy("Disc_avg", in_disc))
        if len(with_own_sentence) > len(in_disc):
            scores.append(_accuracy("Disc_all-d", with_own_sentence))
    if ordered and all(len(score.statistics) < len(ordered) for score in scores):
        scores.append(_accuracy("all", ordered))
    return scores


def chance_levels(results: Sequence[InstanceResult]) -> dict[str, float]:
    """Return the accuracy of guessing in per cent, by phenomenon, from the number of candidates of each instance."""
    levels: dict[str, list[float]] = {}
    for result in results:
        candidates = max((len(scores) for scores in result.scores.values()), default=0)
        if candidates:
            levels.setdefault(result.phenomenon or "other", []).append(100 / candidates)
    return {name: sum(shares) / len(shares) for name, shares in levels.items()}


def check_unique(results: Sequence[tuple[Path, InstanceResult]]) -> None:
    """Raise an error if an instance of a system occurs twice, in one file or in two."""
    (repeated, times), *_ = Counter((result.suite, result.id) for _, result in results).most_common(1)
    if times > 1:
        paths = dict.fromkeys(str(path) for path, result in results if (result.suite, result.id) == repeated)
        raise FocatError(f"{', '.join(paths)}: instance {repeated[1]} of {repeated[0]} twice; give it once")


def grouping(results: Sequence[InstanceResult], by: str | None = None) -> GroupBy:
    """Return how to group instances: by phenomenon if there are several, else by distance, unless `by` says else.

    Args:
        results: the instances.
        by: phenomenon, distance (all beyond three together), suite, or a label of the instances.
    """
    if by is None:
        by = "phenomenon" if len({result.phenomenon for result in results}) > 1 else "distance"
    if by == "phenomenon":
        return lambda result: result.phenomenon or "other"
    if by == "suite":
        return lambda result: result.suite
    if by == "distance":
        return lambda result: None if result.distance is None else distance_of(result)
    labels = sorted({label for result in results for label in result.labels})
    if by not in labels:
        known = ", ".join(["phenomenon", "distance", "suite", *labels])
        raise ParameterError("by", by, f"the instances have no such label; choose from {known}")
    return lambda result: str(result.labels[by]) if by in result.labels else None


def _accuracy(name: str, results: Sequence[InstanceResult]) -> Score:
    correct = np.array([result.correct for result in results], bool)
    return accuracy_score(name, correct, None, *_identity(results))


def _mean_accuracy(name: str, results: Sequence[InstanceResult]) -> Score:
    """The plain mean of the accuracies in the columns of Disc."""
    columns = [column_of(result) for result in results]
    indices = {column: i for i, column in enumerate(dict.fromkeys(columns))}
    member = np.eye(len(indices))[[indices[column] for column in columns]]  # (instances, columns)
    correct = np.array([result.correct for result in results], np.float64)
    statistics = np.concatenate([correct[:, None] * member, member], axis=1)  # (instances, 2 · columns)
    population, signature = _identity(results)
    return Score(name, "corpus", statistics, _mean_of_columns, population=population, signature=signature)


def _mean_of_columns(sums: Floats) -> Floats:
    """A column of which a resample has no instance is left out of the mean."""
    correct, total = np.split(sums, 2, axis=1)
    shares = np.divide(correct, total, out=np.zeros_like(correct), where=total > 0)
    mean: Floats = 100 * shares.sum(1) / (total > 0).sum(1)
    return mean


def _identity(results: Sequence[InstanceResult]) -> tuple[str, str]:
    """Which instances these are, and how their results were obtained."""
    digest = digest_of([(result.suite, str(result.id), result.right) for result in results])
    suites = ", ".join(dict.fromkeys(result.suite for result in results))
    rules = "+".join(sorted({result.rule for result in results}))
    return f"{len(results)} instances of {suites} ({digest[:12]})", f"rule:{rules}"
