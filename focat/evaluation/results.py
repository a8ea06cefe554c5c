"""The results of `focat contrast`, `evaluate`, `score` and `compare`, as written to JSON and read again.

A field that was not set is left out of the file, so reading and writing a file again gives the same file.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictInt,
    ValidationError,
    computed_field,
    field_validator,
)

from focat.choices import Correction, ScoringRule
from focat.errors import FocatError
from focat.evaluation.significance import Interval, stars
from focat.files import write_atomic, write_json

Metric = Literal["BLEU", "chrF", "chrF++", "TER", "COMET"]
Level = Literal["sentence", "fragment", "document"]
Outcome = Literal["right", "wrong", "both", "neither"]
"""Which candidate a translation agrees with."""
SuiteFormat = Literal["voita", "contrapro", "ctxpro", "discevalmt", "own"]

EVALUATION_KIND: Literal["focat evaluation"] = "focat evaluation"


class JsonResult(BaseModel):
    """A result that can be written to a JSON file and read again."""

    model_config = ConfigDict(frozen=True)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the fields that were set, as JSON values."""
        return self.model_dump(mode="json", exclude_unset=True)

    def to_line(self) -> str:
        """Return the result as one line of JSON, with its line feed."""
        return json.dumps(self.to_json(), ensure_ascii=False) + "\n"

    def write(self, path: Path) -> None:
        """Write an indented JSON file."""
        write_json(path, self.to_json())


_CLEARER = {  # than pydantic's own words
    "extra_forbidden": "unknown field; what is yours alone goes under `labels`",
    "string_pattern_mismatch": "is empty",
}


def first_problem(error: ValidationError) -> str:
    """Return the first problem that pydantic found, in a few words: `dst[1]`: Input should be a valid string."""
    first = error.errors()[0]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    problem = _CLEARER.get(first["type"], first["msg"])
    return f"`{field}`: {problem}" if field else problem


ResultModel = TypeVar("ResultModel", bound=JsonResult)


def validated_result(model: type[ResultModel], content: object, where: str, command: str) -> ResultModel:
    """Check the content of a result file.

    Args:
        model: the kind of result.
        content: the parsed JSON.
        where: the file, and the line if it has many results, for the error message.
        command: the command that writes such files.

    Raises:
        FocatError: a field is missing or has the wrong type.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problem = first_problem(error)
        raise FocatError(f"{where}: not a complete result of `{command}` ({problem}); write it again") from None


class AccuracyResult(JsonResult):
    """An accuracy in per cent, with its 95 % interval and what it was computed from."""

    name: str
    accuracy: float
    low: float
    high: float
    right: int | None = None
    """Correct instances; not set for a mean of accuracies."""
    total: int
    columns: tuple[str, ...] = ()
    """The accuracies that a summary (Disc. and its variants) was computed from."""


class ContrastSection(JsonResult):
    """One table: accuracies on one suite, or over several."""

    title: str
    signature: str
    figures: tuple[AccuracyResult, ...]
    other_rules: dict[ScoringRule, float] = Field(default_factory=dict)
    """Overall accuracy by the other scoring rules."""
    remarks: tuple[str, ...] = ()


class SuiteResult(JsonResult):
    """Which suite was scored, and the accuracy on it by each scoring rule."""

    name: str
    format: SuiteFormat
    sha256: str
    context_sha256: str | None
    instances: int
    candidates: int
    accuracy: dict[ScoringRule, float]
    signature: str


class ContrastResults(JsonResult):
    """What `focat contrast --json` writes."""

    kind: Literal["contrast"]
    version: str
    rule: ScoringRule
    suites: tuple[SuiteResult, ...]
    sections: tuple[ContrastSection, ...]


class InstanceResult(JsonResult):
    """The result on one instance of a suite: a line of `focat contrast --instances`."""

    suite: str
    id: StrictInt | str
    phenomenon: str = ""
    distance: StrictInt | None = None
    """Sentences between the current one and the one that decides; None if not annotated."""
    labels: dict[str, JsonValue] = Field(default_factory=dict)
    right: JsonValue = None
    """Index of the correct candidate."""
    chosen: int | None = None
    """Index of the candidate that the model prefers."""
    correct: StrictBool
    rule: str = ""
    scores: dict[str, list[float]] = Field(default_factory=dict)
    """By scoring rule, the score of each candidate."""
    translation: str | None = None
    produced: Outcome | None = None
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()


class EvaluationFigure(JsonResult):
    """The score of a metric, and what each line contributes to it."""

    name: str
    metric: Metric
    level: Level
    score: float
    interval: Interval
    signature: str
    statistics: list[list[int | float]]
    """(lines, statistics of the metric)."""

    @field_validator("statistics")
    @classmethod
    def _equally_many(cls, statistics: list[list[int | float]]) -> list[list[int | float]]:
        if len({len(line) for line in statistics}) > 1:
            raise ValueError("lines have different numbers of statistics")
        if not all(abs(number) <= sys.float_info.max for line in statistics for number in line):
            raise ValueError("a number is too large, or none")
        return statistics


class ReferenceResult(JsonResult):
    """Which references translations were evaluated against."""

    sha256: str
    sentences: int
    documents: int


class TranslationSetup(JsonResult):
    """How translations were made."""

    runs: tuple[str, ...]
    weights: tuple[str, ...]
    context: str
    constrained: bool
    window: int
    beam: int
    length_penalty: float
    cut: int
    """Translations that reached the maximum length."""


class EvaluationResults(JsonResult):
    """What `focat evaluate --json` writes: all that `focat compare` needs."""

    kind: Literal["focat evaluation"]
    focat: str
    system: str
    translated: TranslationSetup | None
    reference: ReferenceResult
    figures: tuple[EvaluationFigure, ...]
    translations: list[list[str]]

    def write(self, path: Path) -> None:
        """Write an indented JSON file, with the statistics of a line on one line."""
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False)
        # No text can look like this: a line feed inside a JSON string is written as \n.
        write_atomic(path, re.sub(r"\[\n[\s\d.,eE+-]+\]", lambda found: "".join(found[0].split()), text) + "\n")


class ScoreResults(JsonResult):
    """What `focat score --json` writes."""

    documents: int
    sentences: int
    tokens: int
    log_probability: float
    per_sentence: float
    per_token: float
    perplexity: float
    shortened: int
    """Sentences that lost context because their window was too long."""
    signature: str


class Finding(JsonResult):
    """One score of a system compared with that of another."""

    baseline: str
    system: str
    column: str
    difference: float
    """system − baseline."""
    interval: Interval
    """95 % interval of the difference."""
    p: float
    corrected: float
    """The p-value, corrected for multiple comparisons."""
    test: str

    @computed_field  # type: ignore[prop-decorator]
    @property
    def stars(self) -> str:
        """Stars of the corrected p-value."""
        return stars(self.corrected)


class ComparisonResults(JsonResult):
    """What `focat compare --json` writes."""

    baseline: str | None
    """None where all pairs were compared."""
    correction: Correction
    systems: dict[str, dict[str, float]]
    items: dict[str, str]
    signatures: dict[str, str]
    findings: tuple[Finding, ...]
