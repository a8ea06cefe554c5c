"""The results of a plan: one typed JSON file for each step, and all of them together as results.json.

What is the same whenever a step runs is kept apart from its provenance (dates, seconds, hardware), so that a plan that
was interrupted ends with the same results.json, byte for byte, as one that was not.
"""

from __future__ import annotations

import base64
import platform
import time
import zlib
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from focat._version import __version__
from focat.analysis.results import CorpusLosses, EntropyOrder, Stack
from focat.choices import ScoringRule, TargetContext
from focat.errors import FocatError
from focat.evaluation.results import JsonResult, Level, Metric, ReferenceResult, validated_result
from focat.evaluation.significance import Floats, Interval
from focat.files import disk_errors, read_json_object, sha256, write_json
from focat.hardware import hardware

RESULT_VERSION = 3
"""Of the files of results; it is part of every digest of inputs."""
_NOT_IN_SUMMARY: Any = {"kind": True, "version": True, "provenance": True, "result": {"answers", "lines"}}

StepKind = Literal["train", "contrast", "evaluate", "analyse"]


class Step(BaseModel):
    """One step of a plan: train or measure one system with one seed."""

    model_config = ConfigDict(frozen=True)

    system: str
    seed: int
    kind: StepKind
    dataset: str = ""
    """The suite, or the test set."""
    context: TargetContext | Literal[""] = ""
    """For a test set, where target context comes from."""
    window: int | None = None
    """A window size other than that of training."""

    @property
    def name(self) -> str:
        """The step without its system, such as contrast.deixis or evaluate.test.reuse.window3."""
        size = "" if self.window is None else f"window{self.window}"
        return ".".join(filter(None, (self.kind, self.dataset, self.context, size)))

    @property
    def id(self) -> str:
        """The system, the seed and the name: what its result file is called."""
        return f"{self.system}.{self.seed}.{self.name}"

    def __str__(self) -> str:
        return f"{self.system} (seed {self.seed}): {self.name.replace('.', ' ')}"


class Validation(JsonResult):
    """Losses on the development set at one update; only what was logged is set."""

    update: int
    epochs: float | None = None
    current: float | None = None
    context: float | None = None
    ratio: float | None = None
    full: float | None = None
    current_nll: float | None = None
    bleu: float | None = None


class TrainResult(JsonResult):
    """A trained system."""

    kind: Literal["train"]
    signature: str = ""
    updates: int = 0
    epochs: float = 0.0
    best_update: int | None = None
    best_value: float | None = None
    """Of the criterion, at the best validation."""
    criterion: str = ""
    weights: str = ""
    """The folder of the weights in the run: a checkpoint or an average."""
    weights_sha256: str = ""
    window: int
    discount: JsonValue
    """A number, or a schedule."""
    shift: JsonValue
    segment_embeddings: str
    init_from: str | None = None
    validations: tuple[Validation, ...] = ()

    @property
    def best_validation(self) -> Validation | None:
        """The losses at the best update, whatever criterion it was best by."""
        return next((one for one in self.validations if one.update == self.best_update), None)


class PackedAnswers(JsonResult):
    """Whether each instance of a suite was answered correctly, in a character each."""

    phenomena: tuple[tuple[str, int], ...]
    """Run lengths: the phenomenon of so many instances in a row."""
    distances: str
    """`0` to `3`, `>` beyond three, `?` where unknown."""
    ids: str
    """Digest of the instances, so that only answers to the same instances are compared."""
    correct: dict[ScoringRule, str]
    """`1` or `0`."""


class ContrastResult(JsonResult):
    """Accuracy of a system on one suite."""

    kind: Literal["contrast"]
    signature: dict[ScoringRule, str] = Field(default_factory=dict)
    suite: str
    suite_sha256: str = ""
    chance: float = 0.0
    accuracy: dict[ScoringRule, float] = Field(default_factory=dict)
    answers: PackedAnswers


class PackedArray(JsonResult):
    """A table of numbers, compressed; counts are stored as integers."""

    shape: tuple[int, ...]
    type: Literal["<i4", "<f8"]
    packed: str

    @model_validator(mode="after")
    def _can_be_unpacked(self) -> PackedArray:
        """A damaged table is noticed when its file is read."""
        try:
            self.unpack()
        except (ValueError, zlib.error):
            raise ValueError("cannot be decompressed") from None
        return self

    @classmethod
    def pack(cls, numbers: Floats, **more: Any) -> PackedArray:
        """Compress a table."""
        counts = (numbers == np.rint(numbers)).all() and np.abs(numbers).max(initial=0) < 2**31
        kind: Literal["<i4", "<f8"] = "<i4" if counts else "<f8"
        text = base64.b85encode(zlib.compress(numbers.astype(kind).tobytes(), 9)).decode()
        return cls(shape=numbers.shape, type=kind, packed=text, **more)

    def unpack(self) -> Floats:
        """The table that was packed."""
        data = zlib.decompress(base64.b85decode(self.packed))
        numbers: Floats = np.frombuffer(data, self.type).reshape(self.shape).astype(np.float64)
        return numbers


class LineStatistics(PackedArray):
    """What each line contributes to a metric."""

    metric: Metric
    level: Level


class MetricResult(JsonResult):
    """The score of a metric."""

    score: float
    interval: Interval | None = None
    signature: str = ""


class EvaluateResult(JsonResult):
    """Quality of a system's translations of a test set."""

    kind: Literal["evaluate"]
    signature: str = ""
    cut: int = 0
    """Translations that reached the maximum length."""
    reference: ReferenceResult | None = None
    figures: dict[str, MetricResult]
    lines: dict[str, LineStatistics] = Field(default_factory=dict)


class AnalyseResult(JsonResult):
    """Where the attention of a system goes, and its losses."""

    kind: Literal["analyse"]
    signature: str = ""
    share: dict[Stack, float | None] = Field(default_factory=dict)
    entropy: dict[EntropyOrder, dict[str, float]] = Field(default_factory=dict)
    losses: CorpusLosses | None = None


class StepProvenance(JsonResult):
    """How, when and where a step ran: what differs the next time."""

    command: tuple[str, ...] = ()
    """Arguments that do the same again."""
    date: str = ""
    seconds: float = 0.0
    hardware: str = ""
    focat: str = ""
    torch: str = ""
    python: str = ""
    minutes: float = 0.0
    """Of training, over all sessions."""


Result = Annotated[TrainResult | ContrastResult | EvaluateResult | AnalyseResult, Field(discriminator="kind")]


class StepResult(JsonResult):
    """The file of one step."""

    kind: Literal["focat result"]
    version: int
    step: Step
    inputs: str = ""
    """Digest of everything that the result depends on."""
    result: Result
    provenance: StepProvenance = Field(default_factory=StepProvenance)


class ResultStore:
    """The folder of result files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, step: Step) -> Path:
        """The file of a step."""
        return self.folder / f"{step.id}.json"

    def load(self, step: Step, inputs: str) -> StepResult | None:
        """The result of a step, if it exists and was made from these inputs."""
        path = self.path(step)
        if not path.exists():
            return None
        found = read_result(path)
        return found if found.inputs == inputs else None

    def save(self, result: StepResult) -> None:
        """Write the file of a step, atomically."""
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.path(result.step), result.to_json())


def read_result(path: Path) -> StepResult:
    """Read the file of a step.

    Raises:
        FocatError: the file is damaged, of an older version, or not a result of a plan.
    """
    content = read_json_object(path, "delete it, and the step runs again")
    if content.get("kind") != "focat result":
        raise FocatError(f"{path}: not a result of a plan; move it elsewhere")
    if content.get("version") != RESULT_VERSION:
        raise FocatError(f"{path}: written by another version of focat; delete it, and the step runs again")
    return validated_result(StepResult, content, str(path), "focat reproduce")


def summary(title: str, results: Sequence[StepResult]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The contents of results.json and provenance.json: what was found, and how, when and where."""
    found = [r.model_dump(mode="json", exclude=_NOT_IN_SUMMARY, exclude_unset=True) for r in results]
    provenance = {r.step.id: r.provenance.to_json() for r in results}
    return (
        {"kind": "focat results", "version": RESULT_VERSION, "plan": title, "results": found},
        {"kind": "focat provenance", "steps": provenance},
    )


def provenance_of(command: Sequence[str], start: float, **more: float) -> StepProvenance:
    """The provenance of a step that started at this value of `time.monotonic`."""
    import torch

    return StepProvenance(
        command=tuple(command),
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - start, 3),
        hardware=hardware(),
        focat=__version__,
        torch=str(torch.__version__),
        python=platform.python_version(),
        **more,
    )


def fingerprint(value: Any) -> Any:
    """A value for a digest, with the digest of each file in place of its path: moving files changes nothing.

    Settings at their default are left out, so that a new setting changes no digest.
    """
    if isinstance(value, BaseModel):
        return fingerprint(value.model_dump(exclude_defaults=True))
    if isinstance(value, dict):
        return {str(key): fingerprint(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [fingerprint(inner) for inner in value]
    if isinstance(value, Path):
        try:
            if value.is_dir():
                files = sorted(path for path in value.rglob("*") if path.is_file())
                return [[str(path.relative_to(value)), sha256(path)] for path in files]
            return sha256(value)
        except OSError as error:
            raise FocatError(f"{value}: cannot be read: {error.strerror}") from None
    return value
