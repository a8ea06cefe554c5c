"""What systems are compared by: their answers to a suite, the statistics of their translations, or plain numbers.

Every figure of a system becomes a column: a score that is a function of sums over items which all systems share.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from focat.corpus.text_files import Lines, is_blank
from focat.errors import FocatError
from focat.evaluation.disc import DISTANCES, OWN_SENTENCE, UNKNOWN, column_of, counts, distance_of
from focat.evaluation.metrics import Figure, formula_of, higher_is_better
from focat.evaluation.quality import KIND, Measures, evaluate, figures_of, read_texts, reference_digest
from focat.evaluation.significance import Floats, Formula, mean_formula
from focat.files import digest_of, split_name
from focat.progress import Progress

Kind = Literal["accuracy", "figure", "mean"]


@dataclass(frozen=True)
class Column:
    """One figure of a system, and what each item contributes to it."""

    name: str
    kind: Kind
    items: Floats  # (items, statistics)
    formula: Formula
    higher_is_better: bool
    about: str  # what the items are; systems with other items cannot be compared
    signature: str  # how the figure was obtained; has to be the same too

    @property
    def score(self) -> float:
        """Of all items together."""
        return float(self.formula(self.items.sum(0)[None])[0])


@dataclass(frozen=True)
class System:
    """A system and its columns, by name."""

    name: str
    columns: dict[str, Column]


@dataclass(frozen=True)
class Answer:
    """What a system said to one instance of a suite, as `focat contrast --instances` writes it."""

    suite: str
    id: str
    phenomenon: str
    distance: int | None
    labels: dict[str, Any]
    right: Any
    correct: bool
    rule: str

    @classmethod
    def of(cls, record: dict[str, Any]) -> Answer:
        """From a line of that file."""
        distance = record.get("distance")
        if not isinstance(record["correct"], bool):
            raise ValueError("`correct` is neither true nor false")
        return cls(
            str(record["suite"]),
            str(record["id"]),
            str(record.get("phenomenon") or ""),
            None if distance is None else int(distance),
            record.get("labels") or {},
            record.get("right"),
            record["correct"],
            str(record.get("rule", "")),
        )


Group = Callable[[Answer], str | None]
_DISTANCES = (OWN_SENTENCE, *DISTANCES, UNKNOWN)  # in the order of columns


def read_systems(
    arguments: Sequence[str],
    progress: Progress,
    measures: Measures,
    reference: Path | None = None,
    by: str | None = None,
) -> list[System]:
    """Systems from `FILE` or `NAME=FILE`; files of the same name belong to the same system."""
    files: dict[str, list[Path]] = {}
    for name, path in zip(*_names_and_paths(arguments), strict=True):
        files.setdefault(name, []).append(path)
    return [_read_system(name, paths, progress, measures, reference, by) for name, paths in files.items()]


def _names_and_paths(arguments: Sequence[str]) -> tuple[list[str], list[Path]]:
    """A file that is not named is called after itself, or by its whole path where that is not enough."""
    given = [split_name(argument) for argument in arguments]
    paths = [path for _, path in given]
    stems = [path.stem for path in paths]
    names = [name or (str(path) if stems.count(path.stem) > 1 else path.stem) for name, path in given]
    return names, paths


def _read_system(
    name: str, paths: list[Path], progress: Progress, measures: Measures, reference: Path | None, by: str | None
) -> System:
    answers: list[Answer] = []
    columns: list[Column] = []
    for path in paths:
        for found in _read(path, progress, measures, reference):
            if isinstance(found, Answer):
                answers.append(found)
            else:
                columns.append(found)
    if answers:
        check_once(answers, paths[0])
        columns = [*columns_of_answers(answers, grouping(answers, by)), *columns]
    names = [column.name for column in columns]
    for column in names:
        if names.count(column) > 1:
            raise FocatError(f"{name}: has {column} more than once, from {', '.join(map(str, paths))}; give it once")
    return System(name, dict(zip(names, columns, strict=True)))


def _read(
    path: Path, progress: Progress, measures: Measures, reference: Path | None
) -> Sequence[Answer] | Sequence[Column]:
    """What a file holds, by what its first line looks like."""
    lines = Lines(path)
    first = next((line for line in lines if not is_blank(line)), "")
    if reference is None and first.lstrip().startswith("{"):
        whole = "\n".join(lines)
        try:
            record = json.loads(whole)
        except ValueError:
            return _read_answers(path)  # one object per line
        if isinstance(record, dict) and record.get("kind") == KIND:
            return _read_evaluation(path, record)
        return _read_answers(path)
    if reference is not None:
        texts = read_texts(path, reference)
        about = reference_digest(texts.references)
        return [figure_column(figure, about) for figure in evaluate(texts, measures, progress)]
    return [_read_numbers(path)]


def _read_evaluation(path: Path, record: dict[str, Any]) -> list[Column]:
    try:
        about = str(record["reference"]["sha256"])
        columns = [figure_column(figure, about) for figure in figures_of(record)]
    except (KeyError, TypeError, ValueError) as error:
        raise FocatError(f"{path}: is no whole evaluation ({error!r}); make it again with `focat evaluate`") from None
    if not columns:
        raise FocatError(f"{path}: holds no figure; make it again with `focat evaluate`")
    return columns


def figure_column(figure: Figure, about: str) -> Column:
    """The column of a figure; `about` is the digest of its references."""
    kind: Kind = "mean" if figure.metric == "COMET" else "figure"
    return Column(
        figure.name,
        kind,
        figure.statistics,
        formula_of(figure.metric),
        higher_is_better(figure.metric),
        f"references {about[:12]}, {len(figure.statistics)} lines",
        figure.signature,
    )


def _read_numbers(path: Path) -> Column:
    """One number per line: entropies, scores, anything that has a mean."""
    lines = Lines(path)
    numbers = []
    for line in lines:
        try:
            numbers.append(float(line))
        except ValueError:
            raise lines.error(
                f"{line.strip()[:40]!r} is no number; give --reference if these are translations "
                "(else results of `focat contrast --instances` or `focat evaluate --json`, or a number per line)"
            ) from None
        if not np.isfinite(numbers[-1]):
            raise lines.error(f"{line.strip()} is not finite")
    if not numbers:
        raise FocatError(f"{path}: is empty")
    values = np.array(numbers)
    items = np.stack([values, np.ones_like(values)], axis=1)
    return Column("mean", "mean", items, mean_formula, True, f"{len(values)} numbers", "")


def _read_answers(path: Path) -> list[Answer]:
    lines = Lines(path)
    answers = []
    for line in lines:
        if is_blank(line):
            continue
        try:
            answers.append(Answer.of(json.loads(line)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            why = f"has no field {error}" if isinstance(error, KeyError) else f"is no answer to an instance ({error})"
            raise lines.error(f"{why}; expected a line of `focat contrast --instances`") from None
    if not answers:
        raise FocatError(f"{path}: holds no answers")
    return answers


def columns_of_answers(answers: Sequence[Answer], group: Group) -> list[Column]:
    """Accuracy of each group; Disc. and its relatives (`focat.evaluation.disc`); of all, where that is not one of them.

    Answers of no group (None) count all the same.
    """
    names = list(dict.fromkeys(name for name in map(group, answers) if name is not None))  # as the file has them
    if any(name in DISTANCES for name in names):
        names.sort(key=lambda name: _DISTANCES.index(name) if name in _DISTANCES else -1)
    answers = sorted(answers, key=lambda answer: (answer.suite, answer.id))  # so that systems agree, whatever the file
    columns = [accuracy_column(name, [answer for answer in answers if group(answer) == name]) for name in names]
    inside = [answer for answer in answers if counts(column_of(answer))]
    with_own = [answer for answer in answers if answer.distance == 0 or counts(column_of(answer))]
    if inside:
        columns.append(accuracy_column("Disc.", inside))
        if len(set(map(column_of, inside))) > 1:
            columns.append(_average_column("Disc_avg", inside))
        if len(with_own) > len(inside):
            columns.append(accuracy_column("Disc_all-d", with_own))
    if answers and all(len(column.items) < len(answers) for column in columns):
        columns.append(accuracy_column("all", answers))
    return columns


def check_once(answers: Sequence[Answer], path: Path) -> None:
    """Refuse two answers to the same instance."""
    ((suite, instance), times), *_ = Counter((answer.suite, answer.id) for answer in answers).most_common(1)
    if times > 1:
        raise FocatError(f"{path}: has instance {instance} of {suite} twice")


def grouping(answers: Sequence[Answer], by: str | None = None) -> Group:
    """By phenomenon if there are several, else by distance (all beyond three together), else by a label."""
    if by is None:
        by = "phenomenon" if len({answer.phenomenon for answer in answers}) > 1 else "distance"
    if by == "phenomenon":
        return lambda answer: answer.phenomenon or "other"
    if by == "suite":
        return lambda answer: answer.suite
    if by == "distance":
        return lambda answer: None if answer.distance is None else distance_of(answer)
    labels = sorted({label for answer in answers for label in answer.labels})
    if by not in labels:
        known = ", ".join(["phenomenon", "distance", "suite", *labels])
        raise FocatError(f"--by {by}: the instances have no such label; choose from {known}")
    return lambda answer: str(answer.labels[by]) if by in answer.labels else None


def accuracy_column(name: str, answers: Sequence[Answer]) -> Column:
    """The share of right answers, in per cent."""
    correct = np.array([answer.correct for answer in answers], np.float64)
    items = np.stack([correct, np.ones_like(correct)], axis=1)
    return Column(name, "accuracy", items, lambda sums: 100 * mean_formula(sums), True, *_identity(answers))


def _average_column(name: str, answers: Sequence[Answer]) -> Column:
    """The plain mean of the accuracies in the columns of Disc."""
    columns = [column_of(answer) for answer in answers]
    places = {column: i for i, column in enumerate(dict.fromkeys(columns))}
    there = np.eye(len(places))[[places[column] for column in columns]]  # (answers, columns)
    correct = np.array([answer.correct for answer in answers], np.float64)
    items = np.concatenate([correct[:, None] * there, there], axis=1)  # (answers, 2 · columns)
    return Column(name, "figure", items, _mean_of_columns, True, *_identity(answers))


def _mean_of_columns(sums: Floats) -> Floats:
    """A column that a resample missed does not count in it."""
    right, asked = np.split(sums, 2, axis=1)
    shares = np.divide(right, asked, out=np.zeros_like(right), where=asked > 0)
    mean: Floats = 100 * shares.sum(1) / (asked > 0).sum(1)
    return mean


def _identity(answers: Sequence[Answer]) -> tuple[str, str]:
    """Which questions these are the answers to, and how they were obtained."""
    questions = digest_of([(answer.suite, answer.id, answer.right) for answer in answers])
    suites = ", ".join(dict.fromkeys(answer.suite for answer in answers))
    rules = "+".join(sorted({answer.rule for answer in answers}))
    return f"{len(answers)} instances of {suites} ({questions[:12]})", f"rule:{rules}"
