"""Tables of a report: the settings of systems, and their scores, compared as `focat compare` does."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from focat.choices import Correction
from focat.evaluation.comparison import Comparison, compare
from focat.evaluation.comparison_files import evaluation_scores
from focat.evaluation.instance_scores import check_unique, grouping, instance_scores
from focat.evaluation.results import ContrastResults, InstanceResult
from focat.evaluation.scores import Score, SystemScores
from focat.evaluation.significance import RESAMPLES, SEED, TRIALS, Interval, p_text
from focat.reporting.collect import CollectedResults, ReportedRun, ResultFile
from focat.reporting.table import MISSING, Cell, Row, Table, row
from focat.training.logger import duration

STARS_NOTE = "*\u00a0p\u00a0<\u00a00.05, **\u00a0p\u00a0<\u00a00.01"  # without line breaks
_CORRECTIONS: dict[Correction, str] = {
    "holm": "Holm’s correction",
    "benjamini-hochberg": "Benjamini and Hochberg’s correction",
    "none": "not corrected",
}
# Settings that say where a run is or how it is observed; seed and budget are shown in any case.
_NOT_SHOWN = (
    *("data.store", "training.output_dir", "training.seed", "training.budget.", "training.compile"),
    *("training.device", "training.keep_checkpoints", "training.log_every", "training.log_samples"),
    *("training.save_minutes", "training.validate_every"),
)


@dataclass(frozen=True)
class Provenance:
    """How figures were obtained: the command, signatures, seeds and files."""

    facts: Mapping[str, str | list[str]]


@dataclass(frozen=True)
class ReportTable:
    """A table of the page: systems down, figures across."""

    table: Table
    caption: str = ""
    differences: Table | None = None
    provenance: Sequence[Provenance] = ()
    points: Mapping[str, Mapping[str, tuple[float, Interval | None]]] = field(default_factory=dict)
    """By system and column: the figure and its interval, for a plot."""

    @property
    def systems(self) -> list[str]:
        """The systems, in the order of the rows."""
        return [str(one.cells[0].text) for one in self.table.rows]


@dataclass(frozen=True)
class SystemsTable:
    """What the systems are: facts of all, and the settings in which they differ, each with a value per system."""

    names: list[str]
    facts: dict[str, list[str]]
    settings: dict[str, list[str]]
    provenance: list[Provenance]


def systems_table(runs: Sequence[ReportedRun]) -> SystemsTable:
    """The size of systems, how training went, and the settings in which they differ."""
    flat = [_flat(run.settings.model_dump(mode="json")) for run in runs]
    values = {name: [_shown(settings.get(name)) for settings in flat] for settings in flat for name in settings}
    facts: dict[str, Callable[[ReportedRun], str]] = {
        "window": lambda run: f"{run.settings.windows.size}",
        "weights": lambda run: MISSING if run.parameters is None else f"{run.parameters:,}",
        "updates": lambda run: f"{max((record['update'] for record in run.log), default=0):,}",
        "time": lambda run: duration(max((record.get("minutes", 0.0) for record in run.log), default=0.0)),
        "seed": lambda run: f"{run.settings.training.seed}",
        "best validation": _best_validation,
    }
    provenance = [
        Provenance(
            {
                "command": f"focat train {shlex.quote(str(run.run.path / 'config.yaml'))}",
                "seed": str(run.settings.training.seed),
                "weights": run.run.weights_folder().name if run.parameters else "none yet",
                "file": str(run.run.log),
            }
        )
        for run in runs
    ]
    return SystemsTable(
        [run.name for run in runs],
        {name: [show(run) for run in runs] for name, show in facts.items()},
        {name: found for name, found in values.items() if not name.startswith(_NOT_SHOWN) and len(set(found)) > 1},
        provenance,
    )


def contrast_tables(results: CollectedResults) -> list[ReportTable]:
    """Accuracy by phenomenon, if there are several, then by distance; suites of the same systems together."""
    systems: dict[str, set[str]] = {}
    for file in results.instances:
        for instance in file.content:
            systems.setdefault(instance.suite, set()).add(file.system)
    tables = []
    for same_systems in dict.fromkeys(map(frozenset, systems.values())):
        tables += _suite_tables(results, [suite for suite in systems if systems[suite] == same_systems])
    return tables


def _suite_tables(results: CollectedResults, suites: Sequence[str]) -> list[ReportTable]:
    files = _of_suites(results.instances, suites)
    phenomena = {instance.phenomenon for file in files for instance in file.content}
    tables = [_instance_table("By phenomenon", files, "phenomenon", results)] if len(phenomena) > 1 else []
    for suite in suites:
        own = _of_suites(files, [suite])
        distances = {instance.distance for file in own for instance in file.content} - {None}
        if distances and (len(distances) > 1 or not tables):
            title = f"{suite}, by distance in sentences" if len(suites) > 1 else "By distance in sentences"
            tables.append(_instance_table(title, own, "distance", results))
        elif len(phenomena) < 2:
            tables.append(_instance_table(suite, own, "suite", results))
    return tables


def _of_suites(
    files: Sequence[ResultFile[list[InstanceResult]]], suites: Sequence[str]
) -> list[ResultFile[list[InstanceResult]]]:
    """The same files with only the instances of some suites."""
    kept = [ResultFile(f.system, f.path, [one for one in f.content if one.suite in suites]) for f in files]
    return [file for file in kept if file.content]


def _instance_table(
    title: str, files: Sequence[ResultFile[list[InstanceResult]]], by: str, results: CollectedResults
) -> ReportTable:
    instances: dict[str, list[InstanceResult]] = {}
    for file in files:
        instances.setdefault(file.system, []).extend(file.content)
    systems = []
    for name, own in instances.items():
        check_unique([(file.path, one) for file in files if file.system == name for one in file.content])
        systems.append(_system_scores(name, instance_scores(own, grouping(own, by))))
    suites = {instance.suite for own in instances.values() for instance in own}
    signatures = _signatures(results.contrasts, suites)
    return _score_table(title, systems, files, "Right answers in per cent; below each, ", ["--by", by], signatures)


def _signatures(contrasts: Sequence[ResultFile[ContrastResults]], suites: set[str]) -> list[str]:
    return [
        f"{file.system}: {suite.signature}"
        for file in contrasts
        for suite in file.content.suites
        if suite.name in suites
    ]


def quality_tables(results: CollectedResults) -> list[ReportTable]:
    """Metrics of translations; a table for each set of references."""
    tables = []
    for digest in dict.fromkeys(file.content.reference.sha256 for file in results.evaluations):
        files = [file for file in results.evaluations if file.content.reference.sha256 == digest]
        scores: dict[str, list[Score]] = {}
        for file in files:
            scores.setdefault(file.system, []).extend(evaluation_scores(file.content))
        reference = files[0].content.reference
        title = f"Translation quality, {reference.sentences:,} sentences, {reference.documents:,} documents"
        systems = [_system_scores(name, own) for name, own in scores.items()]
        tables.append(_score_table(title, systems, files, "Below each figure, ", [], []))
    return tables


def _system_scores(name: str, scores: Sequence[Score]) -> SystemScores:
    return SystemScores(name, {score.name: score for score in scores})


def _score_table(
    title: str,
    systems: Sequence[SystemScores],
    files: Sequence[ResultFile[Any]],
    unit: str,
    options: Sequence[str],
    signatures: list[str],
) -> ReportTable:
    """The scores of systems with their intervals, and their comparison where there are two systems or more."""
    comparison = compare(systems) if len(systems) > 1 else None
    names = list(comparison.names if comparison else systems[0].scores)
    stars = {(f.system, f.column): f.stars for f in comparison.findings} if comparison else {}
    rows: list[Row] = []
    points = {}
    for system in systems:
        scores = {name: system.scores[name] for name in names}
        intervals = {name: score.interval() for name, score in scores.items()}
        points[system.name] = {name: (score.value, intervals[name]) for name, score in scores.items()}
        cells = [
            Cell(
                score.text(score.value),
                stars=stars.get((system.name, name), ""),
                interval=" to ".join(map(score.text, intervals[name])),
                best=comparison is not None and comparison.best(name) == score.value,
            )
            for name, score in scores.items()
        ]
        rows.append(row(system.name, *cells))
    arguments = [f"{file.system}={file.path}" for file in files]
    facts: dict[str, str | list[str]] = {
        "command": shlex.join(["focat", "compare", *arguments, *options]),
        "figures": [f"{n}: {systems[0].scores[n].population}, {systems[0].scores[n].signature}" for n in names],
        "signatures": signatures,
        "seed": f"{SEED}, of {TRIALS:,} trials and {RESAMPLES:,} resamples",
        "files": [f"{file.path} ({file.date})" for file in files],
    }
    return ReportTable(
        Table(title, ("", *names), rows),
        _caption(systems, unit, comparison),
        None if comparison is None else difference_table(comparison),
        [Provenance({name: fact for name, fact in facts.items() if fact})],
        points,
    )


def _caption(systems: Sequence[SystemScores], unit: str, comparison: Comparison | None) -> str:
    names = {name for system in systems for name in system.scores}
    text = f"{unit}where it lies with 95 % confidence."
    if "Disc." in names:
        text += " Disc. is of all that other sentences decide"
        text += "; Disc_all-d also of what the sentence itself does" if "Disc_all-d" in names else ""
        text += "; Disc_avg is the mean of its columns." if "Disc_avg" in names else "."
    if comparison is None:
        return text
    correction = _CORRECTIONS[comparison.correction]
    return f"{text} Best in bold. Differs from {systems[0].name}: {STARS_NOTE} ({correction})."


def difference_table(comparison: Comparison) -> Table:
    """Every tested difference with its interval and p-values."""
    rows = []
    for finding in comparison.findings:
        score = comparison.score(finding.column)
        rows.append(
            row(
                f"{finding.system} − {finding.baseline}",
                finding.column,
                score.text(finding.difference, "+"),
                " to ".join(score.text(end, "+") for end in finding.interval),
                p_text(finding.p),
                Cell(p_text(finding.corrected), stars=finding.stars),
                finding.test,
            )
        )
    columns = (
        "systems",
        "figure",
        "difference",
        "95 % interval",
        "p",
        f"p, corrected ({comparison.correction})",
        "test",
    )
    return Table("Differences", columns, rows, labels=2)


def _best_validation(run: ReportedRun) -> str:
    """The value that the best checkpoint was chosen by."""
    best = next((record for record in reversed(run.logged("validation")) if record.get("best")), None)
    return MISSING if best is None else f"{best['best_value']:.4f}, {best['criterion']}, at {best['update']:,}"


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _shown(value: Any) -> str:
    return MISSING if value is None else ("yes" if value else "no") if isinstance(value, bool) else str(value)
