"""Tables of a report: what systems are, and what they score, as `focat compare` finds it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from focat.errors import FocatError
from focat.evaluation.comparison import Comparison, compare
from focat.evaluation.quality import Measures, figure_text
from focat.evaluation.significance import (
    RESAMPLES,
    SEED,
    TRIALS,
    Interval,
    accuracy_interval,
    percentile_interval,
    resampled,
)
from focat.evaluation.systems import Answer, Column, System, columns_of_answers, read_systems
from focat.progress import QUIET
from focat.report.gather import Record, ResultFile, Results, Trained
from focat.training.reporting import duration


@dataclass(frozen=True)
class Cell:
    """A figure, where it lies with 95 % confidence, and how it stands among the others."""

    text: str
    interval: str = ""
    stars: str = ""
    best: bool = False


@dataclass(frozen=True)
class Obtained:
    """How figures came about: what to run, what says so, and where they are kept."""

    what: str
    facts: dict[str, str | list[str]]


@dataclass(frozen=True)
class Table:
    """Systems down, figures across."""

    title: str
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]
    caption: str = ""
    differences: list[list[str]] = field(default_factory=list)  # of each finding: the pair, then its figures
    correction: str = ""
    obtained: list[Obtained] = field(default_factory=list)
    points: dict[str, dict[str, tuple[float, Interval]]] = field(default_factory=dict)  # system → column → figure


def systems_table(runs: Sequence[Trained]) -> Table:
    """What the systems are: the settings in which they differ, their size, and how training went."""
    flat = [_flat(trained.settings.model_dump(mode="json")) for trained in runs]
    names = [name for name in flat[0] if any(name in other for other in flat)]
    names += [name for other in flat[1:] for name in other if name not in names]
    ignored = ("data.store", "training.run", "training.seed", "training.budget.")
    differ = [
        name
        for name in dict.fromkeys(names)
        if not name.startswith(ignored) and len({_shown(other.get(name)) for other in flat}) > 1
    ]
    columns: dict[str, Callable[[Trained], str]] = {
        "window": lambda t: f"{t.settings.windows.size}",
        "weights": lambda t: "–" if t.parameters is None else f"{t.parameters:,}",
        "updates": lambda t: f"{max((record['update'] for record in t.log), default=0):,}",
        "time": lambda t: duration(max((r.get("minutes", 0.0) for r in t.log), default=0.0)),
        "seed": lambda t: f"{t.settings.training.seed}",
        "best validation": _best,
    }
    rows = [
        (
            trained.name,
            [Cell(_shown(settings.get(name))) for name in differ] + [Cell(show(trained)) for show in columns.values()],
        )
        for trained, settings in zip(runs, flat, strict=True)
    ]
    obtained = [
        Obtained(
            trained.name,
            {
                "command": f"focat train {shlex.quote(str(trained.run.path / 'config.yaml'))}",
                "seed": str(trained.settings.training.seed),
                "weights": trained.run.weights_folder().name if trained.parameters else "none yet",
                "file": str(trained.run.log),
            },
        )
        for trained in runs
    ]
    caption = "Settings that all systems share are left out." if len(runs) > 1 else ""
    return Table("Systems", [*map(_setting_name, differ), *columns], rows, caption, obtained=obtained)


def contrast_tables(results: Results) -> list[Table]:
    """Accuracy by phenomenon over all suites, if there are several; then of each suite by distance."""
    suites = dict.fromkeys(str(record["suite"]) for file in results.answers for record in file.records)
    phenomena = {str(record.get("phenomenon") or "") for file in results.answers for record in file.records}
    tables = []
    if len(phenomena) > 1:
        tables += _scored("By phenomenon", results.answers, "phenomenon", results.contrasts)
    for suite in suites:
        files = [
            replace(file, records=[record for record in file.records if record["suite"] == suite])
            for file in results.answers
            if any(record["suite"] == suite for record in file.records)
        ]
        distances = {record.get("distance") for file in files for record in file.records} - {None}
        if distances and (len(distances) > 1 or len(phenomena) < 2):
            title = f"{suite}, by distance in sentences" if len(suites) > 1 else "By distance in sentences"
            tables += _scored(title, files, "distance", results.contrasts)
        elif len(phenomena) < 2:
            tables += _scored(suite, files, "suite", results.contrasts)
    return tables


def quality_tables(results: Results) -> list[Table]:
    """BLEU and its like; systems measured on the same references stand in one table."""
    references: dict[str, list[ResultFile]] = {}
    for file in results.evaluations:
        reference = file.records[0].get("reference")
        key = str(reference.get("sha256")) if isinstance(reference, dict) else ""
        references.setdefault(key, []).append(file)
    tables = []
    for files in references.values():
        first = files[0].records[0].get("reference") or {}
        size = f"{first.get('sentences', 0):,} sentences, {first.get('documents', 0):,} documents"
        tables += _scored(f"Translation quality, {size}", files, None, ())
    return tables


def _scored(title: str, files: Sequence[ResultFile], by: str | None, contrasts: Sequence[ResultFile]) -> list[Table]:
    """One table of what these files say, with significance where there are two systems or more."""
    arguments = [f"{file.system}={file.path}" for file in files]
    systems = read_systems(arguments, QUIET, Measures(())) if by is None else _asked(files, by)
    names = list(dict.fromkeys(name for system in systems for name in system.columns))
    comparison = compare(systems, QUIET) if len(systems) > 1 else None
    shared = list(comparison.columns) if comparison else names
    found = {(f.system, f.column): f for f in comparison.findings} if comparison else {}
    best = {name: _best_score(systems, name) for name in shared} if comparison else {}
    rows, points = [], {}
    for system in systems:
        cells = []
        points[system.name] = {name: (system.columns[name].score, _interval(system.columns[name])) for name in shared}
        for name, (score, (low, high)) in points[system.name].items():
            finding = found.get((system.name, name))
            cells.append(
                Cell(
                    figure_text(name, score),
                    f"{figure_text(name, low)} to {figure_text(name, high)}",
                    finding.stars if finding else "",
                    best.get(name) == score,
                )
            )
        rows.append((system.name, cells))
    asked = [f"--by {by}"] if by else []
    facts: dict[str, str | list[str]] = {
        "command": shlex.join(["focat", "compare", *arguments, *" ".join(asked).split()]),
        "items": [f"{name}: {systems[0].columns[name].about}" for name in shared],
        "signature": [f"{name}: {systems[0].columns[name].signature}" for name in shared],
        "signature of each system": [
            f"{file.system}: {suite['signature']}"
            for file in contrasts
            for suite in file.records[0].get("suites", [])
            if "signature" in suite
        ],
        "seed": f"{SEED}, of {TRIALS:,} trials and {RESAMPLES:,} resamples",
        "files": [f"{file.path} ({file.date})" for file in files],
    }
    return [
        Table(
            title,
            shared,
            rows,
            _caption(systems, by is not None, comparison),
            _differences(comparison),
            comparison.correction if comparison else "",
            [Obtained(title, {name: fact for name, fact in facts.items() if fact})],
            points,
        )
    ]


def _asked(files: Sequence[ResultFile], by: str) -> list[System]:
    """The answers of systems, which `focat compare` would read from the same files."""
    answers: dict[str, list[Answer]] = {}
    for file in files:
        answers.setdefault(file.system, []).extend(_answer(record, file) for record in file.records)
    found = []
    for name, given in answers.items():
        columns = columns_of_answers(given, by, next(file.path for file in files if file.system == name))
        found.append(System(name, {column.name: column for column in columns}))
    return found


def _answer(record: Record, file: ResultFile) -> Answer:
    try:
        return Answer(
            suite=str(record["suite"]),
            id=str(record["id"]),
            phenomenon=str(record.get("phenomenon") or ""),
            distance=record.get("distance"),
            labels=record.get("labels") or {},
            right=record.get("right"),
            correct=record["correct"],
            rule=str(record.get("rule", "")),
        )
    except KeyError as missing:
        raise FocatError(
            f"{file.path}: an instance has no field {missing}; make it again with `focat contrast --instances`"
        ) from None


def _caption(systems: Sequence[System], percent: bool, comparison: Comparison | None) -> str:
    unit = "Right answers in per cent; below each, " if percent else "Below each figure, "
    text = f"{unit}where it lies with 95 % confidence."
    if comparison is None:
        return text
    return f"{text} Best in bold. Differs from {systems[0].name}: * p < 0.05, ** p < 0.01 ({_correction(comparison)})."


def _correction(comparison: Comparison) -> str:
    return {"holm": "Holm’s correction", "benjamini-hochberg": "Benjamini and Hochberg’s correction"}.get(
        comparison.correction, "not corrected"
    )


def _differences(comparison: Comparison | None) -> list[list[str]]:
    if comparison is None:
        return []
    return [
        [
            f"{finding.system} − {finding.baseline}",
            finding.column,
            figure_text(finding.column, finding.difference, "+"),
            " to ".join(figure_text(finding.column, end, "+") for end in finding.interval),
            _p(finding.p),
            _p(finding.corrected),
            finding.test,
        ]
        for finding in comparison.findings
    ]


def _p(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def _interval(column: Column) -> Interval:
    if column.kind == "accuracy":
        low, high = accuracy_interval(int(column.items[:, 0].sum()), len(column.items))
        return Interval(100 * low, 100 * high)
    return percentile_interval(resampled(column.items, column.formula))


def _best_score(systems: Sequence[System], name: str) -> float:
    scores = [system.columns[name].score for system in systems]
    return max(scores) if systems[0].columns[name].higher_is_better else min(scores)


def _best(trained: Trained) -> str:
    """The figure that the best checkpoint was chosen by."""
    chosen = [record for record in trained.logged("validation") if record.get("best")]
    return (
        f"{chosen[-1]['best_value']:.4f} ({chosen[-1]['criterion']}, update {chosen[-1]['update']:,})"
        if chosen
        else "–"
    )


def _flat(tree: Record, prefix: str = "") -> Record:
    flat: Record = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _shown(value: Any) -> str:
    return "–" if value is None else ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _setting_name(name: str) -> str:
    return name.removeprefix("model.").removeprefix("objective.").removeprefix("windows.").replace("_", " ")
