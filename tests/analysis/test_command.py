"""`focat analyse` as a user runs it, on real runs."""

import json
import shutil
from pathlib import Path

import pytest

from focat.config import load_settings
from focat.corpus.prepare import prepare
from focat.progress import NULL_PROGRESS


def test_everything_about_three_systems(workshop):
    arguments = [
        *(workshop / name for name in ("plain", "focused", "base")),
        *("--suite", workshop / "deixis_test.json", "--suite", workshop / "pronouns.json"),
        *("--context-source", workshop / "context.en", "--context-target", workshop / "context.de"),
        *("--windows", "1-4", "--drop", "both,source", "--by", "head", "--trials", "200"),
        *("--items", workshop / "items.jsonl", "--overwrite"),
    ]
    record = workshop.record(*arguments)
    assert record["kind"] == "focat analysis"
    assert record["corpus"]["split"] == "test"
    assert record["corpus"]["documents"] == 5
    systems = record["systems"]
    assert list(systems) == ["plain", "focused", "base"]
    for name, found in systems.items():
        sees = name != "base"
        assert (found["attention"]["share"]["encoder"] is not None) == sees
        assert (found["losses"]["end"]["ratio"] is not None) == sees
        assert found["losses"]["curves"]["validation"][-1]["update"] == 12
        sizes = found["robustness"]["sizes"]
        assert [entry["size"] for entry in sizes] == [1, 2, 3, 4]
        assert set(sizes[0]["accuracy"]) == {"deixis", "pronoun", "all"}
        trained = sizes[found["robustness"]["trained"] - 1]
        assert trained["loss"] == pytest.approx(found["losses"]["end"]["current"])
        assert bool(found["context"]["dropped"]) == bool(found["context"]["phenomena"]) == sees
    columns = {finding["column"] for finding in record["findings"] if finding["system"] == "focused"}
    assert {
        "attention.share.encoder",
        "attention.entropy.mean-then-entropy.all",
        "losses.ratio",
        "robustness.loss.4",
        "robustness.accuracy.deixis.2",
        "context.both.1",
        "context.margin.pronoun.source.2",
    } <= columns
    lines = [json.loads(line) for line in (workshop / "items.jsonl").read_text(encoding="utf-8").splitlines()]
    windows = [line for line in lines if line["system"] == "focused" and "sentence" in line]
    assert len(windows) == record["corpus"]["sentences"]
    shares = [
        line["figures"]["attention.share.cross"] for line in windows if "attention.share.cross" in line["figures"]
    ]
    assert len(shares) == systems["focused"]["attention"]["windows_with_context"]
    assert all(0 < share < 1 for share in shares)
    asked = [line for line in lines if line["system"] == "focused" and line.get("phenomenon") == "deixis"]
    right = [line["figures"]["robustness.accuracy.deixis.2"] for line in asked]
    assert sum(right) / len(right) == systems["focused"]["robustness"]["sizes"][1]["accuracy"]["deixis"]


def test_what_it_prints(workshop):
    said = workshop.analyse(workshop / "focused", "--by", "layer", "--windows", "1,4", "--trials", "100")
    for words in ("Attention by layer", "mean-then-entropy", "Losses per token", "by window size", "all context", "["):
        assert words in said
    only = workshop.analyse(workshop / "focused", "--analyses", "losses")
    assert "Losses per token" in only
    assert "Attention" not in only
    assert "by window size" not in only


def test_the_validation_of_training_is_found_again(workshop):
    """The loss of the best checkpoint on the dev set is what training logged for it."""
    end = workshop.record(workshop / "focused", "--split", "dev", "--analyses", "losses")["systems"]["focused"][
        "losses"
    ]
    best = min(row["current"] for row in end["curves"]["validation"])
    assert end["end"]["smoothed"]["current"] == pytest.approx(best, rel=1e-4)


def test_files_equal_the_split_they_were_made_from(workshop):
    own = ["--source", workshop / "own.en", "--target", workshop / "own.de", "--analyses", "attention,losses"]
    from_files = workshop.record(workshop / "focused", *own)
    from_store = workshop.record(workshop / "focused", "--analyses", "attention,losses")
    assert from_files["systems"] == from_store["systems"]
    assert from_files["corpus"]["sentences"] == from_store["corpus"]["sentences"]


def test_documents_named_by_a_third_file(workshop, tmp_path):
    """The same documents, without the blank lines and with a name for each line."""
    arguments: list[str | Path] = [workshop / "focused", "--analyses", "losses"]
    for language, option in (("en", "--source"), ("de", "--target")):
        documents = (workshop / f"own.{language}").read_text(encoding="utf-8").strip().split("\n\n")
        (tmp_path / f"own.{language}").write_text("\n".join(documents) + "\n", encoding="utf-8")
        arguments += [option, tmp_path / f"own.{language}"]
    names = [f"talk-{i}" for i, document in enumerate(documents) for _ in document.split("\n")]
    (tmp_path / "own.ids").write_text("\n".join(names) + "\n", encoding="utf-8")
    by_name = workshop.record(*arguments, "--documents", tmp_path / "own.ids")
    assert by_name["systems"] == workshop.record(workshop / "focused", "--analyses", "losses")["systems"]
    assert by_name["corpus"]["documents"] == 5


def test_runs_with_other_documents_are_not_compared(workshop, tmp_path):
    shutil.copytree(workshop / "store", tmp_path / "store")
    shutil.copytree(workshop / "focused", tmp_path / "other")
    documents = "data.test=[{format: generated, documents: 5, seed: 4}]"
    settings = load_settings(workshop / "config.yaml", [f"data.store={tmp_path}/store", documents])
    prepare(settings.data, NULL_PROGRESS, overwrite=True)
    config = (tmp_path / "other" / "config.yaml").read_text(encoding="utf-8")
    changed = config.replace(str(workshop / "store"), str(tmp_path / "store"))
    (tmp_path / "other" / "config.yaml").write_text(changed, encoding="utf-8")
    said = workshop.analyse(workshop / "focused", tmp_path / "other", expect=2)
    assert "holds other documents" in said


def test_limit_keeps_whole_documents(workshop):
    record = workshop.record(workshop / "focused", "--analyses", "losses", "--limit", "1")
    assert record["corpus"]["documents"] == 1
    assert record["corpus"]["sentences"] > 1


def test_bleu_by_size(workshop):
    record = workshop.record(
        *(
            workshop / "focused",
            "decoding.beam=1",
            "--analyses",
            "robustness",
            "--bleu",
            "--windows",
            "1,2",
            "--limit",
            "1",
        )
    )
    robustness = record["systems"]["focused"]["robustness"]
    assert all(0 <= entry["bleu"] <= 100 for entry in robustness["sizes"])
    assert "nrefs:1" in robustness["bleu"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nowhere"], "holds no run"),
        (["focused", "focused"], "given twice"),
        (["focused", "decoding.beam=0"], "settings: decoding.beam = 0: should be greater than 0"),
        (["decoding.beam=1"], "name a run, or several"),
        (["focused", "--split", "train"], "'train' is not one of 'test', 'dev'"),
        (["focused", "--source", "own.en"], "without target"),
        (["focused", "--source", "none.en", "--target", "own.de"], "none.en: no such file"),
        (["focused", "--source", "own.en", "--target", "context.de"], "line"),
        (["focused", "--analyses", "loss"], "--analyses loss: choose from attention, losses, robustness, context"),
        (["focused", "--by", "word"], "'word' is not one of 'layer', 'head'"),
        (["focused", "--windows", "0"], "--windows 0"),
        (["focused", "--drop", "left"], "--drop left"),
        (["focused", "--suite", "pronouns.json"], "give --context-source and --context-target"),
        (["focused", "--suite", "none.json"], "none.json"),
        (["focused", "--items", "own.en"], "own.en: exists"),
        (["focused", "--device", "cuda:99"], "--device cuda:99"),
    ],
)
def test_bad_input_is_one_line(workshop, arguments, line):
    names = {"focused", "nowhere", "own.en", "own.de", "none.en", "context.de", "pronouns.json", "none.json"}
    said = workshop.analyse(*(workshop / word if word in names else word for word in arguments), expect=2)
    assert line in said
    assert said.startswith("focat: ")
    assert said.count("\n") == 1


def test_a_run_without_its_store(workshop, tmp_path):
    """A run that was moved away from its store says what to give instead; and with files it works."""
    moved = tmp_path / "moved"
    shutil.copytree(workshop / "focused", moved)
    config = (moved / "config.yaml").read_text(encoding="utf-8")
    (moved / "config.yaml").write_text(
        config.replace(str(workshop / "store"), str(tmp_path / "gone")), encoding="utf-8"
    )
    assert "give source and target files" in workshop.analyse(moved, expect=2)
    workshop.analyse(moved, "--analyses", "losses", "--source", workshop / "own.en", "--target", workshop / "own.de")
