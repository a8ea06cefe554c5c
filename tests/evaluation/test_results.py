"""Typed results: committed figures can be read, a file that is read and written again is the same file."""

import json
import math
from pathlib import Path

import pytest

from focat.analysis.results import CorpusLosses, Stack
from focat.errors import FocatError
from focat.evaluation.results import (
    EvaluationFigure,
    EvaluationResults,
    Finding,
    InstanceResult,
    ReferenceResult,
    validated_result,
)

COMMITTED = sorted((Path(__file__).parents[2] / "results").glob("*/*.json"))


def _steps(kind):
    records = (json.loads(path.read_text(encoding="utf-8")) for path in COMMITTED)
    results = (record["result"] for record in records if record.get("kind") == "focat result")
    return [result for result in results if result["kind"] == kind]


def test_committed_figures_can_be_read():
    """The parts of a step's result that `focat evaluate` and `focat analyse` wrote."""
    evaluations, analyses = _steps("evaluate"), _steps("analyse")
    assert evaluations
    assert analyses
    for result in evaluations:
        assert ReferenceResult.model_validate(result["reference"]).to_json() == result["reference"]
    for result in analyses:
        assert CorpusLosses.model_validate(result["losses"]).to_json() == result["losses"]
        assert set(result["share"]) == set(Stack.__args__)


def test_what_was_not_set_is_not_written():
    answer = InstanceResult(suite="deixis", id=3, distance=None, correct=True)
    assert answer.to_line() == '{"suite": "deixis", "id": 3, "distance": null, "correct": true}\n'
    assert InstanceResult.model_validate_json(answer.to_line()) == answer


def test_stars_are_those_of_the_corrected_p_value():
    finding = Finding(
        baseline="a", system="b", column="BLEU", difference=1.0, interval=(0.5, 1.5), p=0.001, corrected=0.02, test="t"
    )
    assert finding.stars == "*"
    assert list(finding.to_json())[-1] == "stars"
    assert finding.model_copy(update={"corrected": 0.2}).stars == ""
    assert Finding.model_validate(finding.to_json()) == finding


def test_an_incomplete_result_is_one_line():
    with pytest.raises(FocatError, match=r"^x.json: .*complete.*\(`system`: Field required"):
        validated_result(EvaluationResults, {"kind": "focat evaluation", "focat": "1"}, "x.json", "focat evaluate")


@pytest.mark.parametrize(
    ("statistics", "problem"),
    [
        ([[1, 2], [1]], "lines have different numbers of statistics"),
        ([[1, 10**400]], "a number is too large, or none"),
        ([[1.0, math.nan]], "a number is too large, or none"),
    ],
)
def test_statistics_that_are_none_are_refused(statistics, problem):
    figure = {"name": "BLEU", "metric": "BLEU", "level": "sentence", "score": 1.0, "interval": [0, 2], "signature": ""}
    with pytest.raises(FocatError, match=rf"`statistics`: .*{problem}"):
        validated_result(EvaluationFigure, {**figure, "statistics": statistics}, "x.json", "focat evaluate")
