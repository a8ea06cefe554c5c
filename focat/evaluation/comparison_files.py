"""Scores of systems from files: results of `focat contrast` and `focat evaluate`, translations, or plain numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from focat.corpus.text_files import Lines, is_blank
from focat.errors import FocatError
from focat.evaluation.instance_scores import check_unique, grouping, instance_scores
from focat.evaluation.metrics import metric_score
from focat.evaluation.quality import MetricConfig, evaluate, read_texts
from focat.evaluation.results import EVALUATION_KIND, EvaluationResults, InstanceResult, first_problem, validated_result
from focat.evaluation.scores import Score, SystemScores, mean_score
from focat.files import split_name
from focat.progress import Progress

_COMPARED = "give a file that `focat contrast --instances` or `focat evaluate --json` wrote"


def read_systems(
    arguments: Sequence[str],
    progress: Progress,
    config: MetricConfig,
    reference: Path | None = None,
    by: str | None = None,
) -> list[SystemScores]:
    """Read the scores of systems.

    Args:
        arguments: `FILE` or `NAME=FILE`; files of the same name belong to the same system.
        progress: where progress is shown.
        config: which metrics to compute, with `reference`.
        reference: if given, the files are translations, evaluated against it.
        by: how to group the instances of suites (`grouping`).
    """
    given = [split_name(argument) for argument in arguments]
    stems = [path.stem for _, path in given]
    files: dict[str, list[Path]] = {}
    for name, path in given:
        own_name = str(path) if stems.count(path.stem) > 1 else path.stem
        files.setdefault(name or own_name, []).append(path)
    return [_read_system(name, paths, progress, config, reference, by) for name, paths in files.items()]


def evaluation_scores(results: EvaluationResults) -> list[Score]:
    """Return the scores of an evaluation, ready to be compared."""
    return [
        metric_score(
            figure.metric,
            figure.level,
            figure.signature,
            np.array(figure.statistics, np.float64),
            results.reference.sha256,
        )
        for figure in results.figures
    ]


def _read_system(
    name: str, paths: list[Path], progress: Progress, config: MetricConfig, reference: Path | None, by: str | None
) -> SystemScores:
    answers: list[tuple[Path, InstanceResult]] = []
    scores: list[Score] = []
    for path in paths:
        for found in _read(path, progress, config, reference):
            if isinstance(found, InstanceResult):
                answers.append((path, found))
            else:
                scores.append(found)
    if answers:
        check_unique(answers)
        instances = [result for _, result in answers]
        scores = [*instance_scores(instances, grouping(instances, by)), *scores]
    names = [score.name for score in scores]
    for repeated in names:
        if names.count(repeated) > 1:
            raise FocatError(f"{name}: has {repeated} more than once, from {', '.join(map(str, paths))}; give it once")
    return SystemScores(name, dict(zip(names, scores, strict=True)))


def _read(
    path: Path, progress: Progress, config: MetricConfig, reference: Path | None
) -> Sequence[InstanceResult] | Sequence[Score]:
    """Read what a file holds, by what its first line looks like."""
    if reference is not None:
        return evaluate(read_texts(path, reference), config, progress)
    if path.is_dir():
        raise FocatError(f"{path}: is a folder; {_COMPARED}")
    lines = Lines(path)
    first = next((line for line in lines if not is_blank(line)), "")
    if not first.lstrip().startswith("{"):
        return [_read_numbers(path)]
    try:
        content = json.loads("\n".join(lines))
    except ValueError:
        return _read_instances(path)  # one object per line
    if isinstance(content, dict) and "kind" in content and content["kind"] != EVALUATION_KIND:
        raise FocatError(f"{path}: holds figures that cannot be compared ({content['kind']}); {_COMPARED}")
    if not isinstance(content, dict) or content.get("kind") != EVALUATION_KIND:
        return _read_instances(path)
    scores = evaluation_scores(validated_result(EvaluationResults, content, str(path), "focat evaluate"))
    if not scores:
        raise FocatError(f"{path}: holds no figure; make it again with `focat evaluate`")
    return scores


def _read_numbers(path: Path) -> Score:
    """One number per line: entropies, scores, anything that has a mean."""
    lines = Lines(path)
    numbers = []
    for line in lines:
        try:
            numbers.append(float(line))
        except ValueError:
            raise lines.error(
                f"{line.strip()[:40]!r} is no number; give a reference if these are translations "
                "(else results of `focat contrast --instances` or `focat evaluate --json`, or a number per line)"
            ) from None
        if not np.isfinite(numbers[-1]):
            raise lines.error(f"{line.strip()} is not finite")
    if not numbers:
        raise FocatError(f"{path}: is empty")
    return mean_score("mean", np.array(numbers), f"{len(numbers)} numbers")


def _read_instances(path: Path) -> list[InstanceResult]:
    lines = Lines(path)
    results = []
    for line in lines:
        if is_blank(line):
            continue
        try:
            results.append(InstanceResult.model_validate_json(line))
        except ValidationError as error:
            problem = first_problem(error)
            raise lines.error(f"{problem}; expected a line of `focat contrast --instances`") from None
    if not results:
        raise FocatError(f"{path}: holds no instances")
    return results
