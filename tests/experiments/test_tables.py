"""Tables of results made by hand: every figure in them was worked out on paper."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from focat.evaluation.metrics import measure
from focat.evaluation.results import JsonResult
from focat.experiments.paper import paper
from focat.experiments.plan import Plan
from focat.experiments.result_tables import SeedMean
from focat.experiments.results import (
    RESULT_VERSION,
    AnalyseResult,
    ContrastResult,
    EvaluateResult,
    LineStatistics,
    PackedAnswers,
    PackedArray,
    Step,
    StepKind,
    StepResult,
    TrainResult,
    Validation,
)
from focat.experiments.scores import PlanResults, suite_scores
from focat.experiments.tables import build_tables, robustness_table

RULE = "current-sum"


def step(system: str, kind: StepKind, result: JsonResult, seed: int = 1, **more: Any) -> StepResult:
    return StepResult(
        kind="focat result",
        version=RESULT_VERSION,
        step=Step(system=system, seed=seed, kind=kind, **more),
        result=result.model_dump(exclude_unset=True),
    )


def contrast(
    system: str, phenomenon: str, distances: str, correct: str, seed: int = 1, other: str | None = None
) -> StepResult:
    """The result of a suite; `correct` has a sign for each instance."""
    answers = PackedAnswers(
        phenomena=((phenomenon, len(correct)),),
        distances=distances,
        ids=phenomenon,
        correct={RULE: correct, "window-mean": other or correct},
    )
    result = ContrastResult(kind="contrast", suite=phenomenon, answers=answers)
    return step(system, "contrast", result, seed, dataset=phenomenon)


def train(
    system: str,
    discount: float,
    losses: list[tuple[int, float, float]],
    window: int = 4,
    best: float | None = None,
) -> StepResult:
    """The result of training with these losses of current and context; `best` is the value of the best validation."""
    lowest = min(losses, key=lambda loss: loss[1], default=None)
    result = TrainResult(
        kind="train",
        best_update=None if lowest is None else lowest[0],
        best_value=None if lowest is None else best or lowest[1],
        validations=tuple(Validation(update=u, current=a, context=b, ratio=a / b) for u, a, b in losses),
        window=window,
        discount=discount,
        shift=0,
        segment_embeddings="none",
    )
    return step(system, "train", result)


def evaluate(system: str, context: str, figures: dict[str, Any], window: int | None = None, **more: Any) -> StepResult:
    result = EvaluateResult(kind="evaluate", figures=figures, **more)
    return step(system, "evaluate", result, dataset="test", context=context, window=window)


def plan(*systems: str, **more: Any) -> Plan:
    tree = {"data": {}, "systems": {name: {"recipe": "focat:base"} for name in systems}, "rules": [RULE], **more}
    tree.setdefault("suites", {"any": {"generated": "deixis"}})
    return Plan.model_validate(tree)


def lines(markdown: str) -> dict[str, list[str]]:
    """Rows by their first cell; the last of equals."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([[3, 0], [-2, 7]], "<i4"),
        ([[0.25, -1.5]], "<f8"),
        ([[2**31 - 1]], "<i4"),
        ([[2**31]], "<f8"),
        ([[1.0, float("nan")]], "<f8"),
        (np.zeros((0, 3)), "<i4"),
    ],
)
def test_packed_numbers_are_what_they_were(numbers: Any, kind: str) -> None:
    """Counts as integers, where they are small enough, and all else to the last bit."""
    table = np.array(numbers, np.float64)
    packed = PackedArray.pack(table)
    assert packed.type == kind
    np.testing.assert_array_equal(PackedArray.model_validate(packed.to_json()).unpack(), table)


def test_columns_of_phenomena() -> None:
    """3 of 4, and 1 of 2; Disc. is 4 of 6, whatever the distances, for no instance is decided by its own sentence."""
    results = [contrast("a", "deixis", "1123", "1101").result, contrast("a", "ellipsis_vp", "??", "10").result]
    found = {column.name: (column.value, len(column.statistics)) for column in suite_scores(results, RULE)}
    summaries = {"Disc.": (pytest.approx(400 / 6), 6), "Disc_avg": (62.5, 6)}
    assert found == {"Deixis": (75, 4), "Ell. vp": (50, 2), **summaries}


def test_columns_of_distances() -> None:
    """d=0: 1 of 2, d=1: 2 of 3, d>3: 0 of 1; Disc. 2 of 4, with d=0 3 of 6, all 5 of 8."""
    (record,) = [contrast("a", "pronoun", "0011 1>??".replace(" ", ""), "10110011")]
    found = {column.name: (column.value, len(column.statistics)) for column in suite_scores([record.result], RULE)}
    assert found == {
        "d=0": (50, 2),
        "d=1": (pytest.approx(200 / 3), 3),
        "d>3": (0, 1),
        "Disc.": (50, 4),
        "Disc_avg": (pytest.approx(100 / 3), 4),
        "Disc_all-d": (50, 6),
        "unknown distance": (100, 2),
        "all": (62.5, 8),
    }


def test_what_a_suite_lacks_is_said() -> None:
    (first, *_) = build_tables(plan("a", pair="en-de"), "Title", [contrast("a", "pronoun", "01?", "111")]).tables
    assert any("the suite has d=1: Disc. is over no more" in note for note in first.notes)
    assert "Instances of unknown distance count under all, and not in Disc." in first.notes


def test_the_papers_first_table() -> None:
    """Stars by McNemar: 12 of 20 against 20 of 20 is 8 to none, p = 2/2⁸; 5 to none is p = 2/2⁵, which is too much."""
    phenomena = ("deixis", "lex_cohesion", "ellipsis_infl", "ellipsis_vp")
    answers = {
        "base": ["1" * 12 + "0" * 8, "1" * 15 + "0" * 5, "0" * 20, "1" * 20],
        "s4to4-cd": ["1" * 20, "1" * 20, "0" * 20, "1" * 10 + "0" * 10],
    }
    records = [
        contrast(system, phenomenon, "1" * 20, correct)
        for system, of_suites in answers.items()
        for phenomenon, correct in zip(phenomena, of_suites, strict=True)
    ]
    asked = plan("base", "s4to4-cd", pair="en-ru", against=["base"])
    found = build_tables(asked, "Title", records)
    first = found.table(f"table1.{RULE}")
    assert first.columns == ("Deixis", "Lex co.", "Ell. inf", "Ell. vp", "Disc.")
    rows = lines(first.markdown())
    assert rows["base"] == ["60.00", "75.00", "0.00", "**100.00**", "58.75"]
    assert rows["s4to4-cd"] == ["**100.00**\\*", "**100.00**", "0.00", "50.00", "**62.50**"]
    assert rows["*– in the paper*"] == ["*87.16*", "*46.40*", "*81.00*", "*78.20*", "*73.42*"]
    (deixis,) = [f for f in found.findings if f.column == "Deixis"]
    assert deixis.p == pytest.approx(2 / 2**8)
    assert (deixis.difference, deixis.test) == (40, "McNemar, exact")
    assert lines(found.table("significance").markdown())["s4to4-cd − base: Deixis"][::3] == ["40.00", "0.0078"]
    eighth = found.table(f"table8.{RULE}")
    assert lines(eighth.markdown())["base"][-1] == "58.75"  # Disc_avg: the columns are of the same size
    assert any("47.67 printed; the columns give 43.67" in note for note in eighth.notes)
    assert json.loads(json.dumps(found.to_json()))["tables"][0]["rows"][1]["paper"] is True


def test_compared_systems_stand_beside_the_published_ones() -> None:
    """Table 4: our CADec with the published figures below it, the others after; and what is known about the table."""
    phenomena = ("deixis", "lex_cohesion", "ellipsis_infl", "ellipsis_vp")
    records = [contrast("mine", phenomenon, "1" * 4, "1110") for phenomenon in phenomena]
    asked = plan("mine", pair="en-ru", against=[])
    asked = asked.model_copy(update={"systems": {"mine": asked.systems["mine"].model_copy(update={"paper": "cadec"})}})
    table = build_tables(asked, "Title", records).table(f"table4.{RULE}")
    names = [row.system for row in table.rows]
    assert names[:2] == ["mine", "– Voita et al. (2019), CADec, as published"]
    assert names[2:] == [f"{name}, as published" for name in paper().of_pair("en-ru")[2].literature]
    rows = lines(table.markdown())
    assert rows["mine"] == ["75.00"] * 5
    published = rows["*– Voita et al. (2019), CADec, as published*"]
    assert published == ["*81.60*", "*58.10*", "*72.20*", "*80.00*", "*73.45*"]
    assert any("retracted" in note for note in table.notes)


def test_correction_takes_stars_away() -> None:
    """p = 2/2⁶ = 0.031 in one of two columns is 0.0625 after Holm."""
    records = [
        contrast(system, name, "1" * 10, correct)
        for system, suites in {"a": ("1" * 4 + "0" * 6, "10" * 5), "b": ("1" * 10, "10" * 5)}.items()
        for name, correct in zip(("one", "two"), suites, strict=True)
    ]
    for correction, star in (("none", "**100.00**\\*"), ("holm", "**100.00**")):
        asked = plan("a", "b", against=["a"], correction=correction)
        (first, *_) = build_tables(asked, "Title", records[:1] + records[2:3] + [records[1], records[3]]).tables
        assert lines(first.markdown())["b"][0] == star


def test_several_seeds() -> None:
    """60 and 80 are 70 ± 14.14; a star needs every seed, and the second has no difference at all."""
    right = {1: ("0" * 10, "1" * 6 + "0" * 4), 2: ("1" * 8 + "0" * 2, "1" * 8 + "0" * 2)}
    records = [
        contrast(system, "deixis", "1" * 10, correct, seed)
        for seed, both in right.items()
        for system, correct in zip(("a", "b"), both, strict=True)
    ]
    asked = plan("a", "b", against=["a"], seeds=[1, 2])
    (first, *_) = build_tables(asked, "Title", records).tables
    assert lines(first.markdown())["b"][0] == "**70.00** ± 14.14"
    (first, *_) = build_tables(asked, "Title", [r for r in records if (r.step.system, r.step.seed) != ("a", 2)]).tables
    assert lines(first.markdown())["b"][0] == "**70.00** ± 14.14"  # with the second, nothing was compared
    only = plan("a", "b", against=["a"], seeds=[1])
    (first, *_) = build_tables(only, "Title", [r for r in records if r.step.seed == 1]).tables
    assert lines(first.markdown())["b"][0] == "**60.00**\\*"


def test_two_rules_are_two_tables() -> None:
    records = [contrast("a", "deixis", "11", "11", other="10")]
    asked = plan("a", rules=[RULE, "window-mean"])
    scores = {t.name: lines(t.markdown())["a"][0] for t in build_tables(asked, "Title", records).tables}
    assert scores == {"accuracy.current-sum": "100.00", "accuracy.window-mean": "50.00"}


def test_quality_stands_beside_the_papers() -> None:
    """A perfect translation has BLEU 100; base was measured once, for it has no target context. s4to4-cd has one figure
    less than s4to4, and none is made up."""
    documents = [["a b c d e", "f g h i j"], ["k l m n o"]]
    bad = [["a b c d x", "f g h i x"], ["k l m n x"]]
    records = [train("base", 1.0, [(1, 2.0, 2.0)], window=1), train("s4to4", 1.0, [(1, 2.0, 2.0)], window=4)]
    translated = (
        ("base", "reuse", bad),
        ("s4to4", "reuse", bad),
        ("s4to4", "regenerate", documents),
        ("s4to4-cd", "reuse", bad),
    )
    for system, context, said in translated:
        bleu = measure("BLEU", "sentence", [s for d in said for s in d], [s for d in documents for s in d])
        records.append(
            evaluate(
                system,
                context,
                {"BLEU": {"score": bleu.value, "signature": bleu.signature}},
                reference={"sha256": "0" * 64, "sentences": 3, "documents": 2},
                lines={"BLEU": LineStatistics.pack(bleu.statistics, metric="BLEU", level="sentence")},
            )
        )
    asked = plan("base", "s4to4", "s4to4-cd", pair="en-ru", tests={"test": {}}, suites={})
    first = build_tables(asked, "Title", records).table(f"table1.{RULE}")
    assert first.columns == ("BLEU reuse", "BLEU regenerate")
    rows = lines(first.markdown())
    assert rows["base"][0] == rows["base"][1] == rows["s4to4"][0]
    assert rows["s4to4"][1] == "**100.00**"
    assert rows["s4to4-cd"] == [rows["s4to4"][0], ""]
    assert rows["*– in the paper*"] == ["", "*32.37*"]


@pytest.mark.parametrize(
    "numbers",
    [
        np.array([[1.0, 2.0], [3.0, 4e8]]),
        np.array([[0.25], [-1e300]]),
        np.array([[2.0**31 - 1, 1 - 2.0**31]]),
        np.array([[2.0**31]]),  # a count that four bytes do not hold
        np.zeros((0, 3)),
    ],
)
def test_packed_numbers_come_back(numbers: np.ndarray) -> None:
    packed = PackedArray.model_validate_json(PackedArray.pack(numbers).model_dump_json())
    assert packed.unpack().tolist() == numbers.tolist()
    assert packed.unpack().shape == numbers.shape


def test_losses_sweep_and_curves() -> None:
    losses = {1.0: [(1, 3.0, 3.0), (2, 2.0, 2.5)], 0.5: [(1, 2.5, 3.0), (2, 2.6, 3.0)], 0.0: [(1, 4.0, 5.0)]}
    records = [train(f"cd{round(100 * d)}", d, found) for d, found in losses.items()]
    share = {"encoder": 0.75, "decoder": 0.5, "cross": 0.25}
    entropy = {order: {"all": value} for order, value in (("mean-then-entropy", 2.0), ("entropy-then-mean", 1.0))}
    records.append(step("cd50", "analyse", AnalyseResult(kind="analyse", share=share, entropy=entropy)))
    found = build_tables(plan("cd0", "cd50", "cd100"), "Title", records)
    assert lines(found.table("losses").markdown())["cd100"] == ["2.0000", "2.5000", "0.8000"]
    sweep = found.table("sweep")
    assert [row.system for row in sweep.rows] == ["cd100", "cd50", "cd0"]
    assert lines(sweep.markdown())["cd50"] == ["0.500", "2.500", "0.750", "0.500"]
    assert lines(found.table("table5").markdown())["cd50"] == ["2.000", "1.000", "0.750", "0.500", "0.250"]
    assert [point.current for point in found.curves["cd50.1"]] == [2.5, 2.6]


def test_what_a_sweep_is_without() -> None:
    """A loss is a loss, by whatever the best validation was chosen; and where there was none, there is no loss."""
    records = [
        train("cd100", 1.0, [(1, 3.0, 3.0)], best=-31.5),  # BLEU, of which more is better
        train("cd50", 0.5, [(1, 2.5, 3.0)]),
        train("cd0", 0.0, []),
    ]
    rows = lines(build_tables(plan("cd0", "cd50", "cd100"), "Title", records).table("sweep").markdown())
    assert (rows["cd100"], rows["cd50"], rows["cd0"]) == (["1.000", "3.000"], ["0.500", "2.500"], ["0.000", ""])


def test_names_that_look_like_something_else() -> None:
    records = [contrast("a", "deixis", "11", "10")]
    (first, *_) = build_tables(plan(systems={"a": {"recipe": "focat:base", "title": "a | b"}}), "T", records).tables
    assert "| a \\| b | 50.00 |" in first.markdown()


def test_robustness_without_bleu() -> None:
    records = [train("s2to2", 1.0, [(1, 2.0, 2.0)], window=2)]
    records += [evaluate("s2to2", "reuse", {"chrF": {"score": 1}}, window) for window in (None, 3)]
    tests = {"test": {"contexts": ["reuse"], "windows": [3]}}
    assert robustness_table(PlanResults(plan("s2to2", tests=tests, suites={}), records)) is None


def test_robustness_beside_the_papers() -> None:
    """The paper's s2to2 has BLEU 32.73, and loses 9.23 with windows of three and 12.14 with windows of four."""
    records = [train("s2to2", 1.0, [(1, 2.0, 2.0)], window=2)]
    for window, score in ((None, 30.0), (3, 22.5), (4, 20.0)):
        records.append(evaluate("s2to2", "regenerate", {"BLEU": {"score": score}}, window))
    tests = {"test": {"contexts": ["regenerate"], "windows": [3, 4]}}
    found = robustness_table(PlanResults(plan("s2to2", pair="en-ru", tests=tests, suites={}), records))
    assert found is not None
    rows = lines(found.markdown())
    assert rows["s2to2 (regenerate)"] == ["30.00", "22.50", "20.00"]
    assert rows["*– in the paper*"] == ["*32.73*", "*23.50*", "*20.59*"]


def test_mean_and_spread() -> None:
    found = SeedMean.of([1.0, 2.0, 6.0])
    assert (found.value, found.spread, found.seeds) == (3.0, pytest.approx(np.sqrt(7.0)), 3)
    assert SeedMean.of([2.0]).spread is None
