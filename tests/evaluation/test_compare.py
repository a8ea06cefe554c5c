"""`focat compare` as a user runs it, on everything that can be compared."""

import json
import random
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from focat.evaluation.disc import column_of, count, disc_of
from tests.evaluation.commands import focat, refused

WORDS = [f"wort{i}" for i in range(40)]
REFERENCES = [" ".join(random.Random(i).choices(WORDS, k=12)) for i in range(40)]


def _system(name: str, rate: float) -> list[str]:
    draw = random.Random(name)
    return [" ".join(w if draw.random() > rate else draw.choice(WORDS) for w in line.split()) for line in REFERENCES]


def _answers(name: str, accuracy: float, suite: str = "voita", count: int = 60) -> list[dict]:
    draw = random.Random(name)
    return [
        {
            "suite": suite,
            "id": f"{phenomenon}-{i}",
            "phenomenon": phenomenon,
            "distance": i % 5,
            "labels": {"number": "even" if i % 2 == 0 else "odd"},
            "right": 0,
            "chosen": 0,
            "correct": draw.random() < accuracy,
            "rule": "current-sum",
            "scores": {"current-sum": [-1.0, -2.0]},
        }
        for phenomenon in ("lex_cohesion", "deixis")
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    (folder / "ref.de").write_text("\n".join(REFERENCES) + "\n")
    for name, rate in (("base", 0.3), ("focused", 0.2), ("other", 0.29)):
        (folder / f"{name}.de").write_text("\n".join(_system(name, rate)) + "\n")
    for name, accuracy in (("base", 0.5), ("focused", 0.8)):
        _write(folder / f"{name}.jsonl", _answers(name, accuracy))
    for name, shift in (("base", 0.0), ("focused", 0.05)):
        generator = np.random.default_rng(len(name))
        (folder / f"{name}.txt").write_text("\n".join(map(str, generator.normal(shift, 1, 50))))
    return folder


def _write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def _findings(folder, *arguments):
    done = focat(folder, "compare", *arguments, "--json", "found.json", "--overwrite")
    record = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return record, {(f["baseline"], f["system"], f["column"]): f for f in record["findings"]}, done.stdout


def test_answers(folder):
    record, findings, shown = _findings(folder, "base.jsonl", "focused.jsonl")
    assert list(record["systems"]["base"]) == ["lex_cohesion", "deixis", "Disc.", "Disc_avg", "Disc_all-d"]
    columns = {
        "deixis": lambda answer: answer["phenomenon"] == "deixis",
        "Disc.": lambda answer: answer["distance"] > 0,
        "Disc_all-d": lambda answer: True,
    }
    both = list(zip(_answers("base", 0.5), _answers("focused", 0.8), strict=True))
    for name, member in columns.items():
        table = np.zeros((2, 2), int)
        for one, other in both:
            if member(one):
                table[int(not one["correct"]), int(not other["correct"])] += 1
        finding = findings["base", "focused", name]
        exact = table[0, 1] + table[1, 0] < 25
        assert finding["p"] == pytest.approx(mcnemar(table, exact=exact, correction=True).pvalue)
        assert finding["difference"] == pytest.approx(100 * (table[1, 0] - table[0, 1]) / table.sum())
        low, high = finding["interval"]
        assert low < finding["difference"] < high
        assert finding["test"].startswith("McNemar")
    found = record["findings"]
    assert [f["corrected"] for f in found] == pytest.approx(multipletests([f["p"] for f in found], method="holm")[1])
    assert "**" in shown
    assert "focused − base" in shown


def test_disc_is_that_of_contrast(folder):
    """Whatever has no distance is left out of Disc., and Disc_avg is the mean of its columns."""
    answers = {}
    for name in ("base", "focused"):
        distances = [0, 1, 1, 2, None, 7]
        answers[name] = [
            {**answer, "phenomenon": "pronoun", "id": i, "distance": distances[i % 6]}
            for i, answer in enumerate(_answers(name, {"base": 0.5, "focused": 0.8}[name]))
        ]
        _write(folder / f"{name}.pronouns.jsonl", answers[name])
    record, findings, _ = _findings(folder, "base=base.pronouns.jsonl", "focused=focused.pronouns.jsonl")
    for name, figures in record["systems"].items():
        mine = [SimpleNamespace(phenomenon=a["phenomenon"], distance=a["distance"]) for a in answers[name]]
        expected, _ = disc_of(count(mine, [answer["correct"] for answer in answers[name]], column_of))
        assert [(f.name, pytest.approx(f.accuracy)) for f in expected] == [
            (disc, figures[disc]) for disc in ("Disc.", "Disc_avg", "Disc_all-d")
        ]
        right = [answer["correct"] for answer in answers[name]]
        assert figures["all"] == pytest.approx(100 * sum(right) / len(right))
        _write(folder / f"{name}.nowhere.jsonl", [{**answer, "distance": None} for answer in answers[name]])
    average = findings["base", "focused", "Disc_avg"]
    assert average["test"] == "approximate randomisation"
    assert average["interval"][0] < average["difference"] < average["interval"][1]
    assert average["stars"] == "**"
    record, _, _ = _findings(folder, "base.nowhere.jsonl", "focused.nowhere.jsonl")
    assert list(record["systems"]["base.nowhere"]) == ["all"]


def test_answers_by_distance_and_label(folder):
    record, _, _ = _findings(folder, "base.jsonl", "focused.jsonl", "--by", "distance")
    assert list(record["systems"]["base"]) == ["d=0", "d=1", "d=2", "d=3", "d>3", "Disc.", "Disc_avg", "Disc_all-d"]
    record, _, _ = _findings(folder, "base.jsonl", "focused.jsonl", "--by", "number")
    assert list(record["systems"]["base"])[:2] == ["even", "odd"]


def test_order_of_instances_does_not_matter(folder):
    answers = _answers("focused", 0.8)
    _write(folder / "mixed.jsonl", random.Random(1).sample(answers, len(answers)))
    record, findings, _ = _findings(folder, "focused.jsonl", "mixed.jsonl")
    assert {finding["p"] for finding in findings.values()} == {1.0}
    assert {finding["difference"] for finding in findings.values()} == {0.0}
    assert not any(finding["stars"] for finding in record["findings"])


def test_translations_equal_sacrebleus_test(folder):
    systems = [("base", _system("base", 0.3)), ("new", _system("focused", 0.2))]
    for test, kind in (("randomisation", "ar"), ("bootstrap", "bs")):
        _, findings, _ = _findings(
            folder, "base.de", "new=focused.de", "--reference", "ref.de", "--metrics", "bleu",
            "--trials", 1000, "--test", test, "--correction", "none",
        )  # fmt: skip
        _, expected = PairedTest(systems, {"BLEU": BLEU()}, [REFERENCES], kind, n_samples=1000)()
        assert findings["base", "new", "BLEU"]["p"] == pytest.approx(expected["BLEU"][1].p_value)
        assert findings["base", "new", "BLEU"]["corrected"] == findings["base", "new", "BLEU"]["p"]


def test_evaluations_and_answers_in_one_table(folder):
    """The paper's table: accuracy beside BLEU, from files of their own."""
    for name in ("base", "focused"):
        focat(folder, "evaluate", "--hypothesis", f"{name}.de", "--reference", "ref.de", "--json", f"{name}.json")
    files = [f"{name}={name}.{kind}" for name in ("base", "focused") for kind in ("jsonl", "json")]
    record, findings, _ = _findings(folder, *files)
    assert list(record["systems"]) == ["base", "focused"]
    columns = record["systems"]["focused"]
    assert list(columns)[:5] == ["lex_cohesion", "deixis", "Disc.", "Disc_avg", "Disc_all-d"]
    expected = BLEU().corpus_score(_system("focused", 0.2), [REFERENCES]).score
    assert columns["BLEU"] == pytest.approx(expected)
    assert findings["base", "focused", "BLEU"]["test"] == "approximate randomisation"
    assert "signatures" in record


def test_numbers_and_all_pairs(folder):
    (folder / "third.txt").write_text("\n".join(map(str, np.linspace(1, 2, 50))))
    record, findings, _ = _findings(folder, "base.txt", "focused.txt", "third.txt", "--all-pairs", "--trials", 2000)
    assert set(findings) == {
        ("base", "focused", "mean"), ("base", "third", "mean"), ("focused", "third", "mean"),
    }  # fmt: skip
    assert record["baseline"] is None
    assert findings["base", "third", "mean"]["stars"] == "**"
    assert findings["base", "third", "mean"]["test"] == "permutation"


def test_what_cannot_be_compared(folder):
    _write(folder / "suite.jsonl", _answers("focused", 0.8, suite="contrapro"))
    _write(folder / "fewer.jsonl", _answers("focused", 0.8)[:100])
    _write(folder / "rule.jsonl", [{**answer, "rule": "window-mean"} for answer in _answers("focused", 0.8)])
    _write(folder / "twice.jsonl", [*_answers("focused", 0.8), *_answers("focused", 0.8)[:1]])
    _write(folder / "wrong.jsonl", [{"suite": "voita", "id": 1}])
    (folder / "few.txt").write_text("1\n2\n")
    (folder / "text.txt").write_text("1\nzwei\n")
    (folder / "short.de").write_text("eins\n")
    assert "60 instances of contrapro" in refused(folder, "compare", "base.jsonl", "suite.jsonl")
    assert "base was measured on 60 instances of voita" in refused(folder, "compare", "base.jsonl", "fewer.jsonl")
    assert "measured in different ways" in refused(folder, "compare", "base.jsonl", "rule.jsonl")
    assert "instance lex_cohesion-0 of voita twice" in refused(folder, "compare", "base.jsonl", "twice.jsonl")
    both = "fewer.jsonl, twice.jsonl: instance lex_cohesion-0 of voita twice; give it once"
    assert refused(folder, "compare", "base.jsonl", "a=fewer.jsonl", "a=suite.jsonl", "a=twice.jsonl") == both
    assert "wrong.jsonl, line 1: `correct`: Field required" in refused(folder, "compare", "base.jsonl", "wrong.jsonl")
    nothing = {"kind": "focat evaluation", "focat": "", "system": "", "translated": None, "translations": []}
    nothing |= {"reference": {"sha256": "", "sentences": 0, "documents": 0}, "figures": []}
    _write(folder / "nothing.json", [nothing])
    assert "nothing.json: holds no figure" in refused(folder, "compare", "base.jsonl", "nothing.json")
    _write(folder / "part.json", [{"kind": "focat evaluation", "figures": []}])
    assert "part.json: not a complete result" in refused(folder, "compare", "base.jsonl", "part.json")
    assert "50 numbers, but few on 2 numbers" in refused(folder, "compare", "base.txt", "few.txt")
    assert "text.txt, line 2: 'zwei' is no number" in refused(folder, "compare", "base.txt", "text.txt")
    assert "short.de has 1 lines" in refused(folder, "compare", "base.de", "short.de", "--reference", "ref.de")
    assert "no figure is common" in refused(folder, "compare", "base.jsonl", "base.txt")
    assert "give two systems or more" in refused(folder, "compare", "base.jsonl")
    assert refused(folder, "compare", "base.jsonl", "none.jsonl") == "none.jsonl: no such file"
    remedy = "give a file that `focat contrast --instances` or `focat evaluate --json` wrote"
    assert refused(folder, "compare", "base.jsonl", ".") == f".: is a folder; {remedy}"
    (folder / "figures.json").write_text('{\n"kind": "contrast"\n}')
    found = "figures.json: holds figures that cannot be compared (contrast)"
    assert refused(folder, "compare", "base.jsonl", "figures.json") == f"{found}; {remedy}"
    two = ("compare", "base.jsonl", "focused.jsonl")
    assert "'bonferroni' is not one of 'holm'" in refused(folder, *two, "--correction", "bonferroni")
    assert "--by gender" in refused(folder, *two, "--by", "gender")


def test_tables_are_written_for_papers(folder):
    two = ("compare", "base.jsonl", "focused.jsonl")
    focat(folder, *two, "--table", "paper.tex")
    focat(folder, *two, "--table", "paper.md")
    tex, markdown = ((folder / f"paper.{ending}").read_text(encoding="utf-8") for ending in ("tex", "md"))
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 2
    for column in focat(folder, *two).stdout.splitlines()[0].split("\t")[1:]:
        assert column.replace("_", r"\_") in tex
        assert column in markdown
    assert "paper.tex: exists; give another file" in refused(folder, *two, "--table", "paper.tex")
    assert refused(folder, *two, "--table", "t.html") == (
        "--table t.html: give a name that ends in .tex (LaTeX) or .md (Markdown)"
    )
    assert "is the other output, too" in refused(folder, *two, "--table", "a.md", "--json", "a.md")


def test_other_references_are_refused(folder):
    (folder / "ref2.de").write_text("\n".join([*REFERENCES[:-1], "anders"]) + "\n")
    for name, reference in (("one", "ref.de"), ("two", "ref2.de")):
        focat(
            folder, "evaluate", "--hypothesis", "base.de", "--reference", reference,
            "--metrics", "bleu", "--json", f"{name}.json",
        )  # fmt: skip
    assert "only figures of the same items can be compared" in refused(folder, "compare", "one.json", "two.json")


def test_commands_of_the_documentation(folder):
    """As they stand there, on files of those names; the expensive ones (a run, COMET) are tested elsewhere."""
    page = (Path(__file__).parents[2] / "docs" / "measuring-quality.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"```bash\n(.*?)```", page, re.DOTALL))
    lines = [line.split("  #")[0].split() for line in blocks.splitlines()]
    commands = [line[1:] for line in lines if "RUN" not in line and not any("comet" in word for word in line)]
    assert len(commands) == 11
    (folder / "test.de").write_text((folder / "ref.de").read_text())
    for command in commands:
        if "--json" in command:
            (folder / command[command.index("--json") + 1]).unlink(missing_ok=True)  # it is not overwritten
        if command != ["doctor"]:
            focat(folder, *command)
