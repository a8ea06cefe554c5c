"""CTXPro and DiscEvalMT as published: how they are read, what they are scored by, and `focat contrast` over them."""

import json
import shutil
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focat.corpus.generated import contrapro_suite
from focat.errors import FocatError
from focat.evaluation.generated_translations import outcome
from focat.evaluation.suites import ContextFiles, ContextFolder, contains_form, ctxpro_instances, read_suite
from focat.evaluation.suites.known import KNOWN_SUITES
from tests.evaluation.commands import focat, refused

GENDER = {
    "src pronoun": "it",
    "ante distance": 1,
    "intrasegmental": False,
    "src segment": "It sleeps.",
    "document id": "de-en/2017/2017_1_2",
    "segment id": 2,
}
SUITE = [
    GENDER | {"rule": "NOM.MASC.SING", "expected": "er", "ref segment": "Er schläft."},
    GENDER | {"rule": "NOM.FEM.SING", "expected": "sie", "ref segment": "Jetzt schläft sie."},
    GENDER | {"rule": "NOM.NEUT.SING", "expected": "es", "ref segment": "Es regnet, und es schläft."},
    GENDER | {"rule": "ACC.FEM.SING", "expected": "sie", "ref segment": "Ich weckte sie."},
]
FORMAL = [
    GENDER | {"rule": "DAT.FORM+PLUR", "expected": "ihnen", "ref segment": "Ich helfe Ihnen.", "ante distance": None},
    GENDER | {"rule": "DAT.INFORM.SING", "expected": "dir", "ref segment": "Dir helfe ich.", "ante distance": None},
    GENDER | {"rule": "NOM.FORM+PLUR", "expected": "sie", "ref segment": "Kommen Sie?", "ante distance": None},
    GENDER | {"rule": "NOM.INFORM.SING", "expected": "du", "ref segment": "Kommst du?", "ante distance": None},
]


def write(folder, entries, name="gender.opensubtitles.en-de.test", inputs=("A cat.", "Look!")):
    (folder / f"{name}.json").write_text(json.dumps(entries, indent=2), encoding="utf-8")
    lines = ("<eos> ".join([*inputs, entry["src segment"]]) + "\n" for entry in entries)
    (folder / name).write_text("".join(lines), encoding="utf-8")
    return folder / f"{name}.json", folder / name


def test_published_files(tmp_path):
    path, inputs = write(tmp_path, SUITE)
    suite = read_suite(path, ContextFiles(inputs))
    assert (suite.kind, suite.name) == ("ctxpro", "gender.opensubtitles.en-de.test")
    first = suite.generative[0]
    assert (first.source, first.target, first.distance) == (["A cat.", "Look!", "It sleeps."], [], 1)
    assert (first.expected, first.labels["rule"], first.phenomenon) == (
        "er",
        "NOM.MASC.SING",
        "gender.opensubtitles.en-de",
    )
    assert not read_suite(path).has_context


def test_candidates_have_the_other_forms_of_the_same_case(tmp_path):
    gender = ctxpro_instances(SUITE)
    assert gender[0].candidates == ["Er schläft.", "Sie schläft.", "Es schläft."]
    assert gender[1].candidates == ["Jetzt schläft sie.", "Jetzt schläft er.", "Jetzt schläft es."]
    assert gender[2].candidates == ["Es regnet, und es schläft."]  # which of the two is meant?
    assert gender[3].candidates == ["Ich weckte sie."]  # the only accusative
    formal = ctxpro_instances(FORMAL)
    assert formal[0].candidates == ["Ich helfe Ihnen.", "Ich helfe dir."]
    assert formal[1].candidates == ["Dir helfe ich.", "Ihnen helfe ich."]
    assert formal[2].candidates == ["Kommen Sie?"]  # the verb would have to agree
    path, _ = write(tmp_path, SUITE)
    suite = read_suite(path)
    assert [instance.id for instance in suite.instances] == [0, 1]
    assert [instance.id for instance in suite.generative] == [0, 1, 2, 3]


def test_context_as_documents(tmp_path):
    """Segments are counted from 0, as ctxpro does; its setup puts a folder for each year."""
    for language, lines in (("en", "A cat.\nLook!\nIt sleeps.\n"), ("de", "Ein Kater.\nSchau!\nEr schläft.\n")):
        (tmp_path / "2017").mkdir(exist_ok=True)
        (tmp_path / "2017" / f"2017_1_2.{language}").write_text(lines, encoding="utf-8")
    path, _ = write(tmp_path, SUITE)
    suite = read_suite(path, ContextFolder(tmp_path, ("en", "de")))
    assert suite.generative[0].source == ["A cat.", "Look!", "It sleeps."]
    assert suite.generative[0].target == ["Ein Kater.", "Schau!"]


def slow_contains(text, form):
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    return form.lower() in kept.split(" ") if " " not in form else f" {form.lower()} " in f" {kept} "


@given(text=st.text("ab.' A-ß", max_size=12), form=st.text("abßA", min_size=1, max_size=2))
def test_the_rule_of_the_authors(text, form):
    assert contains_form(text, form) == slow_contains(text, form)


@pytest.mark.parametrize(
    ("text", "produced"),
    [
        ("Und er, er schläft.", "right"),
        ("ER!", "right"),
        ("Sie und er.", "right"),
        ("Sie schläft.", "wrong"),
        ("Da.", "neither"),
    ],
)
def test_what_a_translation_says(text, produced):
    assert outcome(text, ctxpro_instances(SUITE)[0]) == produced


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e, i: (e[:1], i), "the last line, but the suite has 1 entries, each with a line of context"),
        (lambda e, i: (e, i.replace("It sleeps.", "Other.", 1)), "entry 1: line 1 of "),
        (lambda e, i: ([e[0] | {"expected": " "}, *e[1:]], i), "entry 1: `expected`: is empty"),
        (lambda e, i: ([*e[:3], {"rule": "x", "expected": "y"}], i), "entry 4: `src segment`: Field required"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, change, message):
    path, inputs = write(tmp_path, SUITE)
    entries, lines = change(SUITE, inputs.read_text(encoding="utf-8"))
    path.write_text(json.dumps(entries), encoding="utf-8")
    inputs.write_text(lines, encoding="utf-8")
    with pytest.raises(FocatError, match=r"^[^\n]+$") as error:
        read_suite(path, ContextFiles(inputs))
    assert message in str(error.value)


# ------------------------------------------------------------------------------------------------ focat contrast


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The generated pronouns in the layout of CTXPro."""
    entries, source, _ = contrapro_suite(24, 7)
    rules = {"er": "MASC", "sie": "FEM", "es": "NEUT", "ihn": "MASC"}
    folder = tmp_path_factory.mktemp("ctxpro")
    converted, contexts, start = [], [], 0
    for entry in entries:
        form = entry["ref pronoun"].lower()
        case = "ACC" if "ihn" in {form, *(error["replacement"].lower() for error in entry["errors"])} else "NOM"
        kept = {
            name: entry[name] for name in ("src segment", "ref segment", "ante distance", "document id", "segment id")
        }
        converted.append(kept | {"expected": form, "rule": f"{case}.{rules[form]}.SING"})
        contexts.append([line for line in source[start : start + 3] if line])
        start += 3 * (1 + len(entry["errors"]))
    path, inputs = write(folder, converted)
    lines = ["<eos> ".join([*c, e["src segment"]]) + "\n" for c, e in zip(contexts, converted, strict=True)]
    inputs.write_text("".join(lines), encoding="utf-8")
    return path, inputs


def test_the_command(contrast_run, generated, tmp_path):
    path, inputs = generated
    given = ["contrast", contrast_run.path, "--suite", path, "--context-source", inputs, "--target-context", "own"]
    done = focat(tmp_path, *given, "--json", "f.json", "--instances", "i.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "i.jsonl").read_text(encoding="utf-8").splitlines()]
    figures = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    assert len(lines) == figures["suites"][0]["instances"] == 24
    for line in lines:
        assert (
            line["correct"]
            == (line["produced"] == "right")
            == contains_form(line["translation"], line["labels"]["expected"])
        )
    forms, contrast = figures["sections"]
    assert "24 translations, the expected form is produced" in forms["title"]
    by_rule = {figure["name"]: figure for figure in forms["figures"]}
    for rule in {line["labels"]["rule"] for line in lines}:
        mine = [line["correct"] for line in lines if line["labels"]["rule"] == rule]
        assert (by_rule[rule]["right"], by_rule[rule]["total"]) == (sum(mine), len(mine))
    assert by_rule["all"]["right"] == sum(line["correct"] for line in lines)
    scored = [line for line in lines if line["scores"]]
    assert figures["suites"][0]["candidates"] == sum(len(line["scores"]["current-sum"]) for line in scored)
    overall = next(figure for figure in contrast["figures"] if figure["name"] == "all")
    assert (overall["right"], overall["total"]) == (sum(line["chosen"] == 0 for line in scored), len(scored))
    assert all("chosen" not in line or line["chosen"] is None for line in lines if not line["scores"])
    assert forms["signature"] in done.stdout
    assert "context:own" in forms["signature"]
    shutil.copy(tmp_path / "i.jsonl", tmp_path / "j.jsonl")
    assert "rule:produced" in focat(tmp_path, "compare", "i.jsonl", "j.jsonl").stdout


def test_what_the_command_refuses(contrast_run, generated, tmp_path):
    path, inputs = generated
    given = ["contrast", contrast_run.path, "--suite", path]
    assert "its context is in other files; give --context-source" in refused(tmp_path, *given)
    assert refused(tmp_path, *given, "--context-source", inputs).startswith(
        "--target-context gold: gender.opensubtitles.en-de.test has context on the source only; take own"
    )
    ellipsis = [GENDER | {"rule": "DO.ELL", "expected": "geht", "ref segment": "Das geht."}]
    alone, context = write(tmp_path, ellipsis, "auxiliary.opensubtitles.en-de.test")
    assert "has no candidates to compare; `focat contrast` judges translations of it" in refused(
        tmp_path, "analyse", contrast_run.path, "--suite", alone, "--context-source", context
    )
    done = focat(tmp_path, "contrast", contrast_run.path, "--suite", alone, "--window", 1, "--instances", "i.jsonl")
    assert "DO.ELL" in done.stdout
    assert json.loads((tmp_path / "i.jsonl").read_text())["chosen"] is None


def test_the_list_of_known_suites(tmp_path):
    listed = focat(tmp_path, "contrast", "--list").stdout
    for suite in KNOWN_SUITES:
        assert all(part in listed for part in (suite.name, suite.citation, suite.url, *suite.files))


# ---------------------------------------------------------------------------------------------------- DiscEvalMT

ANAPHORA = {
    "2": {"src": ["c", "d"], "trg": [{"semi-correct": ["C", "D"], "incorrect": ["C", "E"], "type": "f.sg"}]},
    "1": {
        "inspired by": ["x", "y"],
        "src": ["The cat.", "It sleeps."],
        "trg": [
            {"correct": ["Le chat.", "Il dort."], "incorrect": ["Le chat.", "Elle dort."], "type": "m.sg"},
            {"correct": ["La chatte.", "Elle dort."], "incorrect": ["La chatte.", "Il dort."], "type": "f.sg"},
        ],
    },
}
CHOICE = {
    "1": {
        "type": "repet",
        "examples": [
            {"src": ["a", "b"], "trg": {"correct": ["A", "B"], "incorrect": ["A", "F"]}},
            {"src": ["a", "b"], "trg": {"correct": ["G", "F"], "incorrect": ["G", "B"]}},
        ],
    }
}


def test_discevalmt(tmp_path):
    path = tmp_path / "anaphora.json"
    path.write_text(json.dumps(ANAPHORA, indent=2))
    suite = read_suite(path)
    assert (suite.kind, suite.chance, [one.id for one in suite.instances]) == ("discevalmt", 0.5, [0, 1, 2])
    second = suite.instances[1]
    assert (second.source, second.target) == (["The cat.", "It sleeps."], ["La chatte."])
    assert (second.candidates, second.right, second.distance) == (["Elle dort.", "Il dort."], 0, 1)
    assert (second.labels, second.strict) == ({"type": "f.sg", "translation": "correct"}, True)
    assert suite.instances[2].labels["translation"] == "semi-correct"
    path.write_text(json.dumps(CHOICE, indent=2))
    assert [one.candidates for one in read_suite(path).instances] == [["B", "F"], ["F", "B"]]
    assert read_suite(path).instances[0].labels["type"] == "repet"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"1": {"src": ["a", "b"], "trg": [{"incorrect": ["A", "B"]}]}},
            "block 1, translation 1: has neither `correct`",
        ),
        ({"1": {"src": ["a"], "trg": [{}]}}, "block 1: `src`: List should have at least 2 items"),
        ({"one": {"src": ["a", "b"], "trg": [{}]}}, "its blocks are not numbered"),
        ({"1": {"trg": [], "src": ["a", "b"]}}, "block 1: `trg`: List should have at least 1 item"),
        (
            {"1": {"src": ["a", "b"], "trg": [{"correct": ["A", "B"], "incorrect": ["X", "C"]}]}},
            "translation 1: its translations follow different sentences",
        ),
        ({"1": {"what": 1}}, "no suite that is known"),
        ({"1": {"src segment": "x"}}, "no suite that is known: neither a list, nor a line for each instance"),
    ],
)
def test_discevalmt_that_is_wrong(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content, indent=2))
    with pytest.raises(FocatError, match=r"^[^\n]+$") as error:
        read_suite(path)
    assert message in str(error.value)
