"""What a report is made from: runs, and the result files in their folders or given besides."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from focat.analysis.results import ANALYSIS_KIND, AnalysisResults
from focat.config import Settings
from focat.corpus.text_files import Lines, is_blank
from focat.errors import FocatError
from focat.evaluation.results import (
    EVALUATION_KIND,
    ContrastResults,
    EvaluationResults,
    InstanceResult,
    validated_result,
)
from focat.files import split_name
from focat.model.stored_weights import count_weights
from focat.run import Run

RESULTS_FOLDER = "results"
"""The folder of a run where results are looked for."""
_ENDINGS = tuple(f"{kind}{packed}" for kind in (".json", ".jsonl") for packed in ("", ".gz", ".xz", ".zst"))

Content = TypeVar("Content")


@dataclass(frozen=True)
class ReportedRun:
    """A run, and its name on the page."""

    name: str
    run: Run

    @cached_property
    def settings(self) -> Settings:
        """The settings of training."""
        return self.run.settings

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """The log of training, without a line that is still being written."""
        return self.run.log_records()

    def logged(self, kind: str) -> list[dict[str, Any]]:
        """The records of training, or of validation."""
        return [record for record in self.log if record.get("kind") == kind]

    @cached_property
    def parameters(self) -> int | None:
        """The number of weights; None before the first checkpoint."""
        return count_weights(self.run.weights_folder()) if self.run.has_weights else None


@dataclass(frozen=True)
class ResultFile(Generic[Content]):
    """A file of results, the system they belong to, and what it holds."""

    system: str
    path: Path
    content: Content

    @property
    def date(self) -> str:
        """When it was written."""
        return datetime.fromtimestamp(self.path.stat().st_mtime, timezone.utc).strftime("%-d %B %Y, %H:%M UTC")


@dataclass(frozen=True)
class CollectedResults:
    """All result files, by what they hold."""

    instances: list[ResultFile[list[InstanceResult]]] = field(default_factory=list)
    contrasts: list[ResultFile[ContrastResults]] = field(default_factory=list)
    evaluations: list[ResultFile[EvaluationResults]] = field(default_factory=list)
    analyses: list[ResultFile[AnalysisResults]] = field(default_factory=list)


def open_reported_runs(arguments: Iterable[str | Path]) -> list[ReportedRun]:
    """Open runs from `RUN` or `NAME=RUN`; one without a name is called after its folder."""
    found: list[ReportedRun] = []
    for argument in arguments:
        name, path = split_name(argument)
        run = ReportedRun(name or path.resolve().name, Run.open(path))
        if any(other.name == run.name for other in found):
            raise FocatError(f"{path}: there is another run called {run.name}; name it, as in NAME={path}")
        found.append(run)
    return found


def collect_results(runs: Sequence[ReportedRun], given: Sequence[str | Path] = ()) -> CollectedResults:
    """Read the results in the folders of runs, ignoring other files there, then those that are given."""
    results = CollectedResults()
    for run in runs:
        folder = run.run.path / RESULTS_FOLDER
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name.endswith(_ENDINGS)):
            _add(results, run.name, path)
    only = runs[0].name if len(runs) == 1 else None
    for argument in given:
        name, path = split_name(argument)
        if not _add(results, name or only, path):
            raise FocatError(
                f"{path}: is no result of `focat contrast`, `focat evaluate` or `focat analyse`; give a file "
                "that --instances or --json of one of them wrote"
            )
    return results


def _add(results: CollectedResults, system: str | None, path: Path) -> bool:
    """Add a file by what it holds; False if it holds no results."""
    records = _read(path)
    first = records[0] if records else {}
    name, kind = system or str(first.get("system") or path.name.split(".")[0]), first.get("kind")
    if kind == EVALUATION_KIND:
        evaluation = validated_result(EvaluationResults, first, str(path), "focat evaluate")
        results.evaluations.append(ResultFile(name, path, evaluation))
    elif kind == ANALYSIS_KIND:
        analysis = validated_result(AnalysisResults, first, str(path), "focat analyse")
        results.analyses.append(ResultFile(name, path, analysis))
    elif kind == "contrast":
        contrast = validated_result(ContrastResults, first, str(path), "focat contrast")
        results.contrasts.append(ResultFile(name, path, contrast))
    elif "correct" in first and "suite" in first:
        instances = [
            validated_result(InstanceResult, record, f"{path}, instance {number}", "focat contrast --instances")
            for number, record in enumerate(records, 1)
        ]
        results.instances.append(ResultFile(name, path, instances))
    else:
        return False
    return True


def _read(path: Path) -> list[dict[str, Any]]:
    """The JSON object that a file is, or those of its lines."""
    try:
        content = json.loads("\n".join(Lines(path)))
    except (ValueError, RecursionError):
        return list(_objects(Lines(path)))
    return [content] if isinstance(content, dict) else []


def _objects(lines: Lines) -> Iterator[dict[str, Any]]:
    """The JSON object of each line."""
    for line in lines:
        if is_blank(line):
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise lines.error("is no JSON object; the file is damaged, or of another kind")
        yield record
