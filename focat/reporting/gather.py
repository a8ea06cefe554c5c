"""What a report is made from: runs, and the files of results that lie in their folders or are given besides."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import safe_open

from focat.config import Settings
from focat.corpus.text_files import Lines, is_blank
from focat.errors import FocatError
from focat.evaluation.results import EVALUATION_KIND
from focat.files import split_name
from focat.run import Run

RESULTS = "results"  # the folder of a run where results are looked for
Record = dict[str, Any]


@dataclass(frozen=True)
class Trained:
    """One run, and the name it has on the page."""

    name: str
    run: Run

    @cached_property
    def settings(self) -> Settings:
        """What it was trained with."""
        return self.run.settings

    @cached_property
    def log(self) -> list[Record]:
        """Everything that training wrote down, but for a line that it is just writing."""
        if not self.run.log.exists():
            return []
        lines = Lines(self.run.log)
        return list(_objects(lines, whole=self.run.log.read_bytes().count(b"\n")))

    def logged(self, kind: str) -> list[Record]:
        """The records of training, or of validation."""
        return [record for record in self.log if record.get("kind") == kind]

    @cached_property
    def parameters(self) -> int | None:
        """How many weights it has, by the shapes that its checkpoint names; None before the first checkpoint."""
        try:
            path = self.run.weights_folder() / "weights.safetensors"
        except FocatError:
            return None
        try:
            with safe_open(path, "numpy") as weights:
                shapes: list[list[int]] = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118
                return sum(map(math.prod, shapes))
        except (OSError, ValueError, RuntimeError) as error:
            raise FocatError(f"{path}: is damaged ({error}); use another checkpoint") from None


@dataclass(frozen=True)
class ResultFile:
    """One file of results, whose they are, and what it holds."""

    system: str
    path: Path
    records: list[Record]

    @property
    def date(self) -> str:
        """When it was written, unless it says so itself."""
        written = datetime.fromtimestamp(self.path.stat().st_mtime, timezone.utc)
        return str(self.records[0].get("date") or written.strftime("%-d %B %Y, %H:%M UTC"))


@dataclass(frozen=True)
class Results:
    """All files of results, by what they hold."""

    answers: list[ResultFile] = field(default_factory=list)  # focat contrast --instances
    contrasts: list[ResultFile] = field(default_factory=list)  # focat contrast --json
    evaluations: list[ResultFile] = field(default_factory=list)  # focat evaluate --json
    analyses: list[ResultFile] = field(default_factory=list)  # focat analyse --json


def open_runs(arguments: Iterable[str | Path]) -> list[Trained]:
    """Runs from `RUN` or `NAME=RUN`; one that is not named is called after its folder."""
    found: list[Trained] = []
    for argument in arguments:
        name, path = split_name(argument)
        trained = Trained(name or path.resolve().name, Run.open(path))
        if any(other.name == trained.name for other in found):
            raise FocatError(f"{path}: there is another run called {trained.name}; name it, as in NAME={path}")
        found.append(trained)
    return found


def result_files(run: Run) -> list[Path]:
    """What is looked for: every .json and .jsonl file in the run's folder of results, compressed or not."""
    endings = (".json", ".jsonl", ".json.gz", ".jsonl.gz", ".json.xz", ".jsonl.xz", ".json.zst", ".jsonl.zst")
    folder = run.path / RESULTS
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name.endswith(endings))


def gather(runs: Sequence[Trained], given: Sequence[str | Path] = ()) -> Results:
    """Results that lie in the folders of the runs (what else lies there is passed over), then those that are given."""
    results = Results()
    for trained in runs:
        for path in result_files(trained.run):
            _sort(results, trained.name, path)
    alone = runs[0].name if len(runs) == 1 else None
    for argument in given:
        name, path = split_name(argument)
        if not _sort(results, name or alone, path):
            raise FocatError(
                f"{path}: is no result of `focat contrast`, `focat evaluate` or `focat analyse`; give a file "
                "that --instances or --json of one of them wrote"
            )
    return results


def _sort(results: Results, system: str | None, path: Path) -> bool:
    """Put a file where it belongs, by what is in it; False if it belongs nowhere."""
    records = _read(path)
    first = records[0] if records else {}
    kind = str(first.get("kind", ""))
    if kind == EVALUATION_KIND:
        _check_evaluation(first, path)
        place = results.evaluations
    elif "correct" in first and "suite" in first:
        _check_answers(records, path)
        place = results.answers
    elif kind.removeprefix("focat ") in ("contrast", "contrastive"):
        place = results.contrasts
    elif kind.removeprefix("focat ") == "analysis":
        place = results.analyses
    else:
        return False
    place.append(ResultFile(system or str(first.get("system") or path.name.split(".")[0]), path, records))
    return True


def _check_answers(records: Sequence[Record], path: Path) -> None:
    """Each with what it is known by, its distance if there is one, and whether it is right."""
    for number, record in enumerate(records, 1):
        distance = record.get("distance")
        if not (
            isinstance(record.get("suite"), str)
            and isinstance(record.get("id"), str | int)
            and isinstance(record.get("correct"), bool)
            and (distance is None or isinstance(distance, int))
            and isinstance(record.get("labels") or {}, dict)
            and isinstance(record.get("scores") or {}, dict)
        ):
            raise FocatError(
                f"{path}: instance {number} is not whole (suite, id, distance, correct, labels, scores); "
                "make it again with `focat contrast --instances`"
            )


def _check_evaluation(record: Record, path: Path) -> None:
    """With its references and at least one figure; what else is missing, `focat compare` finds."""
    reference = record.get("reference")
    counts = [reference.get(name) for name in ("sentences", "documents")] if isinstance(reference, dict) else [None]
    if not all(isinstance(count, int) for count in counts) or not record.get("figures"):
        raise FocatError(f"{path}: is no whole evaluation; make it again with `focat evaluate`")


def _read(path: Path) -> list[Record]:
    """The one object that a file is, or the objects of its lines."""
    lines = list(Lines(path))
    try:
        whole = json.loads("\n".join(lines))
    except ValueError:
        return list(_objects(Lines(path)))
    return [whole] if isinstance(whole, dict) else []


def _objects(lines: Lines, whole: int | None = None) -> Iterator[Record]:
    """An object of each line; of so many lines, if not of all."""
    for line in lines:
        if whole is not None and lines.number > whole:
            return
        if is_blank(line):
            continue
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise lines.error("is no JSON object; the file is damaged, or of another kind")
        yield record
