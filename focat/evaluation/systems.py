"""What systems are compared by: their answers to a suite, the statistics of their translations, or plain numbers.

Every figure of a system becomes a column: a score that is a function of sums over items which all systems share.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from focat.corpus.text_files import Lines, is_blank
from focat.errors import FocatError
from focat.evaluation.metrics import Figure, formula_of, higher_is_better
from focat.evaluation.quality import KIND, Measures, evaluate, figures_of, read_texts, reference_digest
from focat.evaluation.significance import Floats, Formula, mean_formula
from focat.files import digest_of
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


Group = Callable[[Answer], str | None]


def read_systems(
    arguments: Sequence[str],
    progress: Progress,
    measures: Measures,
    reference: Path | None = None,
    by: str | None = None,
) -> list[System]:
    """Systems from `FILE` or `NAME=FILE`; files of the same name belong to the same system."""
    files: dict[str, list[Path]] = {}
    for name, path in zip(*_named(arguments), strict=True):
        files.setdefault(name, []).append(path)
    return [_read_system(name, paths, progress, measures, reference, by) for name, paths in files.items()]


def _named(arguments: Sequence[str]) -> tuple[list[str], list[Path]]:
    """A file that is not named is called after itself, or by its whole path where that is not enough."""
    split = [(None, each) if Path(each).exists() else _split(each) for each in arguments]
    paths = [Path(path) for _, path in split]
    stems = [path.stem for path in paths]
    names = [
        name or (str(path) if stems.count(path.stem) > 1 else path.stem)
        for (name, _), path in zip(split, paths, strict=True)
    ]
    return names, paths


def _split(argument: str) -> tuple[str | None, str]:
    name, equals, path = argument.partition("=")
    return (name, path) if equals and name and path else (None, argument)


def _read_system(
    name: str, paths: list[Path], progress: Progress, measures: Measures, reference: Path | None, by: str | None
) -> System:
    answers: list[Answer] = []
    columns: list[Column] = []
    for path in paths:
        found = _read(path, progress, measures, reference)
        if isinstance(found[0], Answer):
            answers += (answer for answer in found if isinstance(answer, Answer))
        else:
            columns += (column for column in found if isinstance(column, Column))
    if answers:
        columns = [*columns_of_answers(answers, by, paths[0]), *columns]
    names = [column.name for column in columns]
    for column in names:
        if names.count(column) > 1:
            raise FocatError(f"{name}: has {column} more than once, from {', '.join(map(str, paths))}; give it once")
    return System(name, dict(zip(names, columns, strict=True)))


def _read(path: Path, progress: Progress, measures: Measures, reference: Path | None) -> list[Answer] | list[Column]:
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
        return [_figure_column(figure, about) for figure in evaluate(texts, measures, progress)]
    return [_read_numbers(path)]


def _read_evaluation(path: Path, record: dict[str, Any]) -> list[Column]:
    try:
        about = str(record["reference"]["sha256"])
        return [_figure_column(figure, about) for figure in figures_of(record)]
    except (KeyError, TypeError, ValueError) as error:
        raise FocatError(f"{path}: is no whole evaluation ({error!r}); make it again with `focat evaluate`") from None


def _figure_column(figure: Figure, about: str) -> Column:
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
            record = json.loads(line)
            correct = record["correct"]
            if not isinstance(correct, bool):
                raise lines.error("`correct` is neither true nor false")
            distance = record.get("distance")
            answers.append(
                Answer(
                    str(record["suite"]),
                    str(record["id"]),
                    str(record.get("phenomenon") or ""),
                    None if distance is None else int(distance),
                    record.get("labels") or {},
                    record.get("right"),
                    correct,
                    str(record.get("rule", "")),
                )
            )
        except (KeyError, TypeError, ValueError) as error:
            why = f"has no field {error}" if isinstance(error, KeyError) else "is no JSON object of an instance"
            raise lines.error(f"{why}; expected a line of `focat contrast --instances`") from None
    if not answers:
        raise FocatError(f"{path}: holds no answers")
    return answers


def columns_of_answers(answers: Sequence[Answer], by: str | None, path: Path) -> list[Column]:
    """Accuracy of each group; Disc., of all that other sentences decide; Disc. all-d, of all, if some need no other."""
    group = _grouping(answers, by)
    names = list(dict.fromkeys(name for name in map(group, answers) if name is not None))  # as the file has them
    if all(name.startswith("d ") for name in names):
        names.sort()
    answers = sorted(answers, key=lambda answer: (answer.suite, answer.id))  # so that systems agree, whatever the file
    for one, next_one in pairwise(answers):
        if (one.suite, one.id) == (next_one.suite, next_one.id):
            raise FocatError(f"{path}: has instance {one.id} of {one.suite} twice")
    named = {name: [answer for answer in answers if group(answer) == name] for name in names}
    beyond = [answer for answer in answers if answer.distance != 0]
    if beyond:
        named["Disc."] = beyond
    if beyond and len(beyond) < len(answers):
        named["Disc. all-d"] = answers
    return [_accuracy_column(name, members) for name, members in named.items()]


def _grouping(answers: Sequence[Answer], by: str | None) -> Group:
    """By phenomenon if there are several, else by distance (all beyond three together), else by a label."""
    if by is None:
        by = "phenomenon" if len({answer.phenomenon for answer in answers}) > 1 else "distance"
    if by == "phenomenon":
        return lambda answer: answer.phenomenon or "other"
    if by == "suite":
        return lambda answer: answer.suite
    if by == "distance":
        return lambda answer: (
            None if answer.distance is None else "d > 3" if answer.distance > 3 else f"d = {answer.distance}"
        )
    labels = sorted({label for answer in answers for label in answer.labels})
    if by not in labels:
        known = ", ".join(["phenomenon", "distance", "suite", *labels])
        raise FocatError(f"--by {by}: the instances have no such label; choose from {known}")
    return lambda answer: str(answer.labels[by]) if by in answer.labels else None


def _accuracy_column(name: str, answers: Sequence[Answer]) -> Column:
    correct = np.array([answer.correct for answer in answers], np.float64)
    identity = [(answer.suite, answer.id, answer.right) for answer in answers]
    suites = ", ".join(dict.fromkeys(answer.suite for answer in answers))
    rules = "+".join(sorted({answer.rule for answer in answers}))
    return Column(
        name,
        "accuracy",
        np.stack([correct, np.ones_like(correct)], axis=1),
        lambda sums: 100 * mean_formula(sums),
        True,
        f"{len(answers)} instances of {suites} ({digest_of(identity)[:12]})",
        f"rule:{rules}",
    )
