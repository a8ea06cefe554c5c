"""Tables of a report: what systems are, and what they score, as `focat compare` finds it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from focat.evaluation.comparison import Comparison, compare
from focat.evaluation.comparison_files import read_systems
from focat.evaluation.instance_scores import check_unique, grouping, instance_scores
from focat.evaluation.quality import MetricConfig
from focat.evaluation.results import InstanceResult
from focat.evaluation.scores import SystemScores
from focat.evaluation.significance import RESAMPLES, SEED, TRIALS, Interval, p_text
from focat.progress import NULL_PROGRESS
from focat.reporting.gather import Record, ResultFile, Results, Trained
from focat.training.logger import duration

STARS = "*\u00a0p\u00a0<\u00a00.05, **\u00a0p\u00a0<\u00a00.01"  # that no line is broken in
# Settings that say where a run lies or how it is watched; seed and budget are shown in any case.
_NOT_THE_SYSTEM = (
    "data.store",
    *(
        f"training.{name}"
        for name in (
            "output_dir",
            "seed",
            "budget.",
            "compile",
            "device",
            "keep_checkpoints",
            "log_every",
            "log_samples",
        )
    ),
    "training.save_minutes",
    "training.validate_every",
)


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
    differ = [
        name
        for name in dict.fromkeys(names)
        if not name.startswith(_NOT_THE_SYSTEM) and len({_shown(other.get(name)) for other in flat}) > 1
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
            [Cell(show(trained)) for show in columns.values()] + [Cell(_shown(settings.get(name))) for name in differ],
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
    return Table("Systems", [*columns, *differ], rows, caption, obtained=obtained)


def contrast_tables(results: Results) -> list[Table]:
    """Accuracy by phenomenon, if there are several, then by distance; suites of the same systems together."""
    systems: dict[str, set[str]] = {}
    for file in results.answers:
        for suite in dict.fromkeys(str(record["suite"]) for record in file.records):
            systems.setdefault(suite, set()).add(file.system)
    tables = []
    for same in dict.fromkeys(map(frozenset, systems.values())):
        suites = [suite for suite in systems if systems[suite] == same]
        tables += _answered(results, suites)
    return tables


def _answered(results: Results, suites: Sequence[str]) -> list[Table]:
    files = _about(results.answers, suites)
    phenomena = {str(record.get("phenomenon") or "") for file in files for record in file.records}
    tables = [_scored("By phenomenon", files, "phenomenon", results.contrasts)] if len(phenomena) > 1 else []
    for suite in suites:
        of_suite = _about(files, [suite])
        distances = {record.get("distance") for file in of_suite for record in file.records} - {None}
        if distances and (len(distances) > 1 or not tables):
            title = f"{suite}, by distance in sentences" if len(suites) > 1 else "By distance in sentences"
            tables.append(_scored(title, of_suite, "distance", results.contrasts))
        elif len(phenomena) < 2:
            tables.append(_scored(suite, of_suite, "suite", results.contrasts))
    return tables


def _about(files: Sequence[ResultFile], suites: Sequence[str]) -> list[ResultFile]:
    """The same files with nothing but the answers to some suites."""
    kept = [replace(file, records=[r for r in file.records if str(r["suite"]) in suites]) for file in files]
    return [file for file in kept if file.records]


def quality_tables(results: Results) -> list[Table]:
    """BLEU and its like; systems measured on the same references stand in one table."""
    references: dict[str, list[ResultFile]] = {}
    for file in results.evaluations:
        references.setdefault(str(file.records[0]["reference"].get("sha256")), []).append(file)
    tables = []
    for files in references.values():
        first = files[0].records[0]["reference"]
        size = f"{first['sentences']:,} sentences, {first['documents']:,} documents"
        tables.append(_scored(f"Translation quality, {size}", files, None, ()))
    return tables


def _scored(title: str, files: Sequence[ResultFile], by: str | None, contrasts: Sequence[ResultFile]) -> Table:
    """One table of what these files say, with significance where there are two systems or more."""
    arguments = [f"{file.system}={file.path}" for file in files]
    systems = _evaluated(files) if by is None else _asked(files, by)
    names = list(dict.fromkeys(name for system in systems for name in system.scores))
    comparison = compare(systems, NULL_PROGRESS) if len(systems) > 1 else None
    shared = list(comparison.names) if comparison else names
    found = {(f.system, f.column): f for f in comparison.findings} if comparison else {}
    best = {name: comparison.best(name) for name in shared} if comparison else {}
    rows, points = [], {}
    for system in systems:
        cells = []
        points[system.name] = {name: (system.scores[name].value, system.scores[name].interval()) for name in shared}
        for name, (score, (low, high)) in points[system.name].items():
            finding = found.get((system.name, name))
            cells.append(
                Cell(
                    system.scores[name].text(score),
                    f"{system.scores[name].text(low)} to {system.scores[name].text(high)}",
                    finding.stars if finding else "",
                    best.get(name) == score,
                )
            )
        rows.append((system.name, cells))
    suites = {record.get("suite") for file in files for record in file.records}
    facts: dict[str, str | list[str]] = {
        "command": shlex.join(["focat", "compare", *arguments, *(["--by", by] if by else [])]),
        "figures": [
            f"{name}: {systems[0].scores[name].population}, {systems[0].scores[name].signature}" for name in shared
        ],
        "signatures": [
            f"{file.system}: {suite['signature']}"
            for file in contrasts
            for suite in file.records[0].get("suites", [])
            if "signature" in suite and suite.get("name") in suites
        ],
        "seed": f"{SEED}, of {TRIALS:,} trials and {RESAMPLES:,} resamples",
        "files": [f"{file.path} ({file.date})" for file in files],
    }
    return Table(
        title,
        shared,
        rows,
        _caption(systems, by is not None, comparison),
        _differences(comparison),
        comparison.correction if comparison else "",
        [Obtained(title, {name: fact for name, fact in facts.items() if fact})],
        points,
    )


def _evaluated(files: Sequence[ResultFile]) -> list[SystemScores]:
    """What `focat compare` reads from evaluations; under numbers, because a name may have = in it, as in lr=0.1."""
    names = list(dict.fromkeys(file.system for file in files))
    found = read_systems([f"{names.index(file.system)}={file.path}" for file in files], NULL_PROGRESS, MetricConfig(()))
    return [replace(system, name=names[int(system.name)]) for system in found]


def _asked(files: Sequence[ResultFile], by: str) -> list[SystemScores]:
    """The answers of systems, which `focat compare` would read from the same files."""
    answers: dict[str, list[InstanceResult]] = {}
    for file in files:
        answers.setdefault(file.system, []).extend(map(InstanceResult.model_validate, file.records))
    found = []
    for name, given in answers.items():
        check_unique(given, next(file.path for file in files if file.system == name))
        scores = instance_scores(given, grouping(given, by))
        found.append(SystemScores(name, {score.name: score for score in scores}))
    return found


def _caption(systems: Sequence[SystemScores], percent: bool, comparison: Comparison | None) -> str:
    unit = "Right answers in per cent; below each, " if percent else "Below each figure, "
    text = f"{unit}where it lies with 95 % confidence."
    if _has("Disc.", systems):
        text += " Disc. is of all that other sentences decide"
        text += "; Disc_all-d also of what the sentence itself does" if _has("Disc_all-d", systems) else ""
        text += "; Disc_avg is the mean of its columns." if _has("Disc_avg", systems) else "."
    if comparison is None:
        return text
    how = f"({_correction(comparison)})"
    return f"{text} Best in bold. Differs from {systems[0].name}: {STARS} {how}."


def _has(column: str, systems: Sequence[SystemScores]) -> bool:
    return any(column in system.scores for system in systems)


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
            comparison.score(finding.column).text(finding.difference, "+"),
            " to ".join(comparison.score(finding.column).text(end, "+") for end in finding.interval),
            p_text(finding.p),
            p_text(finding.corrected),
            finding.test,
        ]
        for finding in comparison.findings
    ]


def _best(trained: Trained) -> str:
    """The figure that the best checkpoint was chosen by."""
    chosen = [record for record in trained.logged("validation") if record.get("best")]
    return f"{chosen[-1]['best_value']:.4f}, {chosen[-1]['criterion']}, at {chosen[-1]['update']:,}" if chosen else "–"


def _flat(tree: Record, prefix: str = "") -> Record:
    flat: Record = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _shown(value: Any) -> str:
    return "–" if value is None else ("yes" if value else "no") if isinstance(value, bool) else str(value)
