"""`focat contrast` as a user runs it, on suites of the generated corpus and a system that has learned nothing."""

import json

import pytest

from focat.corpus.generated import write_suites
from focat.errors import FocatError
from focat.evaluation import contrast
from focat.evaluation.suites import ContextFiles, read_suite
from focat.progress import NULL_PROGRESS
from focat.run import load_system
from tests.evaluation.commands import focat
from tests.evaluation.systems_on_hand import make_run


@pytest.fixture(scope="module")
def suites(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suites")
    write_suites(folder, 12, 7)
    return folder


def pronouns(suites):
    context = ["--context-source", suites / "contrapro.context.en", "--context-target", suites / "contrapro.context.de"]
    return ["--suite", suites / "contrapro.json", *context]


@pytest.fixture(scope="module")
def asked(contrast_run, suites, tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    files = ["--json", folder / "figures.json", "--instances", folder / "instances.jsonl"]
    given = [*pronouns(suites), "--suite", suites / "deixis.json", "--suite", suites / "ellipsis_vp.json"]
    done = focat(folder, "contrast", contrast_run.path, *given, *files)
    lines = (folder / "instances.jsonl").read_text(encoding="utf-8").splitlines()
    figures = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    return done, figures, [json.loads(line) for line in lines]


def test_figures_are_those_of_the_instances(asked):
    _, figures, lines = asked
    assert [suite["name"] for suite in figures["suites"]] == ["contrapro", "deixis", "ellipsis_vp"]
    for suite in figures["suites"]:
        mine = [line for line in lines if line["suite"] == suite["name"]]
        assert len(mine) == suite["instances"]
        assert sum(len(line["scores"]["window-mean"]) for line in mine) == suite["candidates"]
        assert suite["accuracy"]["current-sum"] == pytest.approx(
            100 * sum(line["correct"] for line in mine) / len(mine)
        )
        for rule, accuracy in suite["accuracy"].items():  # none of the scores of an untrained model are tied
            preferred = [max(range(len(line["scores"][rule])), key=line["scores"][rule].__getitem__) for line in mine]
            right = sum(best == line["right"] for best, line in zip(preferred, mine, strict=True))
            assert accuracy == pytest.approx(100 * right / len(mine))
    by_name = {section["title"].split(":")[0]: section for section in figures["sections"]}
    for figure in by_name["contrapro"]["figures"]:
        if figure["name"].startswith("d="):
            mine = [line["correct"] for line in lines if line["suite"] == "contrapro"]
            at = [line["distance"] == int(figure["name"][2:]) for line in lines if line["suite"] == "contrapro"]
            assert figure["right"] == sum(c for c, here in zip(mine, at, strict=True) if here)
            assert figure["low"] <= figure["accuracy"] <= figure["high"]
    names = [figure["name"] for figure in by_name["contrapro"]["figures"]]
    assert names == ["d=0", "d=1", "d=2", "d=3", "all", "Disc.", "Disc_avg", "Disc_all-d"]
    assert by_name["contrapro"]["remarks"] == ["no instance has d>3: Disc. is over d=1, d=2 and d=3 alone"]
    assert [f["name"] for f in by_name["By phenomenon"]["figures"]] == [
        *("pronoun", "deixis", "ellipsis_vp", "Disc.", "Disc_avg", "Disc_all-d", "all"),
    ]
    disc = [line["correct"] for line in lines if line["distance"] != 0]
    (figure,) = [f for f in by_name["By phenomenon"]["figures"] if f["name"] == "Disc."]
    assert (figure["right"], figure["total"]) == (sum(disc), len(disc))
    assert by_name["By phenomenon"]["remarks"][0] == (
        "no instance is about lex_cohesion or ellipsis_infl: Disc. is over deixis, ellipsis_vp, d=1, d=2 and d=3 alone"
    )


def test_an_instance_says_all_there_is_to_say(asked):
    _, _, lines = asked
    for line in lines:
        scores = line["scores"][line["rule"]]
        assert set(line["scores"]) == {"current-sum", "current-mean", "window-mean"}
        assert (line["chosen"] == line["right"]) == line["correct"]
        assert scores[line["chosen"]] == max(scores)
    assert lines[0]["labels"]["ref pronoun"]
    assert len({(line["suite"], line["id"]) for line in lines}) == len(lines)


def test_every_table_is_signed(asked, suites):
    done, figures, _ = asked
    signatures = [section["signature"] for section in figures["sections"]]
    for signature in signatures:
        assert signature in done.stdout
    files = ContextFiles(suites / "contrapro.context.en", suites / "contrapro.context.de")
    suite = read_suite(suites / "contrapro.json", files)
    digest = f"{suite.sha256[:8]}.{suite.context_sha256[:8]}"
    assert signatures[0].startswith(
        f"contrast|suite:contrapro#{digest}|rule:current-sum|ties:wrong|window:4to4|context:gold|missing:shorter|"
        "form:published|precision:float32|weights:"
    )
    assert "ties:first" in signatures[1]
    assert "beam" not in signatures[0]
    assert "chance 33.33" in done.stdout
    assert "all by other rules: current-mean" in done.stdout


def test_another_rule_is_the_same_scores(asked, contrast_run, suites, tmp_path):
    _, figures, _ = asked
    focat(tmp_path, "contrast", contrast_run.path, *pronouns(suites), "--rule", "window-mean", "--json", "w.json")
    found = json.loads((tmp_path / "w.json").read_text(encoding="utf-8"))
    assert found["suites"][0]["accuracy"] == figures["suites"][0]["accuracy"]
    assert found["sections"][0]["other_rules"].keys() == {"current-sum", "current-mean"}
    overall = next(f["accuracy"] for f in found["sections"][0]["figures"] if f["name"] == "all")
    assert overall == found["suites"][0]["accuracy"]["window-mean"]


def test_without_context_it_is_chance(contrast_run, suites, tmp_path):
    """Even without the context files, which windows of one sentence do not need."""
    given = ["--suite", suites / "contrapro.json", "--suite", suites / "deixis.json", "--window", 1]
    focat(tmp_path, "contrast", contrast_run.path, *given, "--json", "one.json")
    sections = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))["sections"]
    figures = {figure["name"]: figure["accuracy"] for figure in sections[1]["figures"]}
    assert set(figures.values()) == {50.0}
    disc = next(figure for figure in sections[0]["figures"] if figure["name"] == "Disc.")
    assert disc["accuracy"] == pytest.approx(100 / 3)
    assert "window:1to1" in sections[0]["signature"]


def test_own_context_and_what_translations_say(contrast_run, suites, tmp_path):
    """An untrained model says nothing to the point, but all of it is there, and the outcomes add up."""
    given = ["--suite", suites / "deixis.json", "--target-context", "own", "--translate", "--lowercase"]
    done = focat(tmp_path, "contrast", contrast_run.path, *given, "--instances", "i.jsonl", "--json", "f.json")
    lines = [json.loads(line) for line in (tmp_path / "i.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {line["produced"] for line in lines} <= {"right", "wrong", "both", "neither"}
    assert all(isinstance(line["translation"], str) for line in lines)
    produced = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))["sections"][1]
    shares = {figure["name"]: figure["right"] for figure in produced["figures"]}
    assert sum(shares[name] for name in ("right", "wrong", "both", "neither")) == len(lines)
    assert "|context:own|" in done.stdout
    assert "|form:lowercase|" in done.stdout
    assert produced["signature"].startswith("produced|suite:deixis#")
    assert "|beam:2|penalty:0.6|window:4to4|" in produced["signature"]
    assert "|beam:" in done.stdout.split("what its translations say")[0]  # context is the model's own
    gold = ["--suite", suites / "deixis.json", "--lowercase", "--instances", "gold.jsonl"]
    focat(tmp_path, "contrast", contrast_run.path, *gold)
    first = json.loads((tmp_path / "gold.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first["scores"] != lines[0]["scores"]


def test_filling_what_is_missing_changes_windows(contrast_run, suites, tmp_path):
    outputs = []
    files = ["--json", "f.json", "--instances", "i", "--overwrite"]
    for options in ([], ["--pad-context", "..."], ["--missing-target", "source"]):
        focat(tmp_path, "contrast", contrast_run.path, *pronouns(suites), *options, *files)
        signature = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))["sections"][0]["signature"]
        outputs.append((signature.split("|")[6], (tmp_path / "i").read_text(encoding="utf-8")))
    assert [missing for missing, _ in outputs] == ["missing:shorter", "missing:...", "missing:source"]
    assert outputs[0][1] != outputs[1][1]
    assert outputs[0][1] == outputs[2][1]  # this suite has as much on both sides


def test_source_context_alone(contrast_store, suites, tmp_path):
    run = make_run(contrast_store, tmp_path / "s4to1", {"before": 3, "target_before": 0})
    done = focat(tmp_path, "contrast", run.path, *pronouns(suites), "--target-context", "none")
    assert "window:4to1|context:none" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--suite", "nowhere.json"], "nowhere.json: no such file"),
        (["--suite", "{contrapro}"], "its context is in other files; give --context-source and --context-target"),
        (["--suite", "{contrapro}", "--context-source", "x"], "give both of --context-source and --context-target"),
        (["--suite", "{contrapro}", "--context-source", "x", "--context-target", "x"], "x: no such file"),
        (["--suite", "{contrapro}", "--context-folder", "x"], "x: no such folder"),
        (["--suite", "{deixis}", "--context-folder", "x"], "are for a suite like ContraPro"),
        (["--suite", "{deixis}", "--suite", "{deixis}"], "another suite is called deixis too"),
        (
            ["--suite", "{deixis}", "--rule", "mean"],
            "'mean' is not one of 'current-sum', 'current-mean'",
        ),
        (["--suite", "{deixis}", "--target-context", "all"], "'all' is not one of 'gold', 'own', 'none'"),
        (["--suite", "{deixis}", "--missing-target", "all"], "'all' is not one of 'shorter', 'source'"),
        (["--suite", "{deixis}", "--precision", "int8"], "'int8' is not one of 'float32', 'bfloat16'"),
        (["--suite", "{deixis}", "--device", "abacus"], "--device abacus: there is no such device"),
        (["--suite", "{deixis}", "--instances", "{deixis}"], "exists; give another file, or overwrite it"),
    ],
)
def test_what_a_user_can_mend_is_one_line(contrast_run, suites, tmp_path, options, message):
    named = {"{contrapro}": suites / "contrapro.json", "{deixis}": suites / "deixis.json"}
    given = [named.get(option, option) for option in options]
    done = focat(tmp_path, "contrast", contrast_run.path, *given, expect=2)
    assert done.stderr.startswith("focat: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_malformed_suite_names_file_and_entry(contrast_run, suites, tmp_path):
    entries = json.loads((suites / "deixis.json").read_text(encoding="utf-8"))
    entries[4]["true_ind"] = 9
    (tmp_path / "bad.json").write_text(json.dumps(entries), encoding="utf-8")
    done = focat(tmp_path, "contrast", contrast_run.path, "--suite", "bad.json", "--instances", "i", expect=2)
    assert done.stderr == "focat: bad.json, entry 5: `true_ind` is 9, but the 2 candidates are counted from 0 to 1\n"
    assert not (tmp_path / "i").exists()


def test_an_instance_too_long_for_the_memory_is_one_line(contrast_run, suites, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1589019971 bytes")

    suite = read_suite(suites / "deixis.json")
    monkeypatch.setattr(contrast, "score_instances", refuse)
    with pytest.raises(FocatError, match=f"{suite.name}: its longest window does not fit into memory"):
        contrast.run_contrast(load_system(contrast_run.path), [suite], contrast.ContrastConfig(), NULL_PROGRESS)
