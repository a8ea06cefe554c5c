"""`focat evaluate` as a user runs it."""

import json
import shutil

import pytest
import yaml
from sacrebleu.metrics import BLEU, TER

from focat.corpus.generated import generate
from focat.evaluation.test_sets import documents_of
from focat.run import Run
from tests.evaluation.commands import focat, refused
from tests.training.runs import settings_tree

REFERENCE = [
    ["Wo ist die Katze?", "Sie schläft auf dem alten Sofa.", "Ach so."],
    ["Guten Abend, Frau Maier!", "Kommen Sie bitte herein.", "Ja.", "Der Regen hört nicht auf."],
]
HYPOTHESIS = [
    ["Wo ist die Katze?", "Es schläft auf dem alten Bett.", "Ach so."],
    ["guten Abend Frau Maier", "Komm bitte herein.", "", "Der Regen hört heute nicht auf."],
]


def _text(documents) -> str:
    return "\n\n".join("\n".join(document) for document in documents) + "\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ref.de").write_text(_text(REFERENCE), encoding="utf-8")
    (tmp_path / "hyp.de").write_text(_text(HYPOTHESIS), encoding="utf-8")
    return tmp_path


def _figures(folder, name="figures.json"):
    record = json.loads((folder / name).read_text(encoding="utf-8"))
    return record, {figure["name"]: figure for figure in record["figures"]}


def test_figures_are_sacrebleus_on_each_kind_of_line(folder):
    done = focat(
        folder, "evaluate", "--hypothesis", "hyp.de", "--reference", "ref.de",
        "--fragments", 2, "--lowercase", "--json", "figures.json",
    )  # fmt: skip
    record, figures = _figures(folder)
    pairs = [list(map(list, zip(h, r, strict=True))) for h, r in zip(HYPOTHESIS, REFERENCE, strict=True)]
    lines = {
        "BLEU": [[pair] for document in pairs for pair in document],
        "f-BLEU": [document[i : i + 2] for document in pairs for i in range(0, len(document), 2)],
        "d-BLEU": pairs,
    }
    for name, groups in lines.items():
        hypotheses, references = ([" ".join(s for s in side if s) for side in sides] for sides in _sides(groups))
        expected = BLEU(lowercase=True).corpus_score(hypotheses, [references])
        assert figures[name]["score"] == pytest.approx(expected.score), name
        assert len(figures[name]["statistics"]) == len(groups)
        low, high = figures[name]["interval"]
        assert low <= figures[name]["score"] <= high
        assert f"{name} = {expected.score:.2f}  nrefs:1|case:lc" in done.stdout
    flat = [[line for document in side for line in document] for side in (HYPOTHESIS, REFERENCE)]
    assert figures["TER"]["score"] == pytest.approx(TER().corpus_score(flat[0], [flat[1]]).score)
    assert "d-TER" not in figures
    assert record["translations"] == HYPOTHESIS
    assert record["reference"]["sentences"] == 7


def _sides(groups):
    return [[[pair[side] for pair in group] for group in groups] for side in (0, 1)]


def test_documents_by_name(folder):
    """The same lines without blank ones, and a file that says where they belong."""
    for name, side in (("hyp", HYPOTHESIS), ("ref", REFERENCE)):
        (folder / f"{name}.flat").write_text("\n".join(line for d in side for line in d) + "\n", encoding="utf-8")
    (folder / "ids").write_text("one\n" * 3 + "two\n" * 4)
    focat(folder, "evaluate", "--hypothesis", "hyp.de", "--reference", "ref.de", "--json", "figures.json")
    focat(
        folder, "evaluate", "--hypothesis", "hyp.flat", "--reference", "ref.flat",
        "--documents", "ids", "--json", "named.json",
    )  # fmt: skip
    (record, figures), (named, named_figures) = _figures(folder), _figures(folder, "named.json")
    assert figures == named_figures
    assert record["reference"] == named["reference"]


def test_what_a_user_can_do_wrong(folder):
    (folder / "short.de").write_text("eins\n")
    (folder / "full.de").write_text("x\n" * 8)
    given = ("evaluate", "--hypothesis", "hyp.de", "--reference", "ref.de")
    assert "short.de has 1 lines but hyp.de has 8" in refused(
        folder, "evaluate", "--hypothesis", "hyp.de", "--reference", "short.de"
    )
    assert refused(folder, "evaluate", "--hypothesis", "none.de", "--reference", "ref.de") == "none.de: no such file"
    assert "full.de, line 4: not blank" in refused(
        folder, "evaluate", "--hypothesis", "full.de", "--reference", "ref.de"
    )
    assert "give either a RUN" in refused(folder, "evaluate")
    assert "--reference" in refused(folder, "evaluate", "--hypothesis", "hyp.de")
    assert "--metrics blue: there is no such metric; choose from bleu" in refused(folder, *given, "--metrics", "blue")
    assert "hyp.de: exists" in refused(folder, *given, "--output", "hyp.de")
    assert "holds no run" in refused(folder, "evaluate", "nowhere")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that has hardly learned anything, with a test set of its own."""
    folder = tmp_path_factory.mktemp("run")
    settings = settings_tree(folder / "store", folder / "run")
    settings["data"]["test"] = [{"format": "generated", "documents": 3, "seed": 7}]
    settings["training"] |= {"budget": {"updates": 4}, "compile": "never"}
    settings["decoding"] = {
        "max_length_ratio": 1.0,
        "max_length_offset": 2,
    }  # who has learned nothing does not know when to stop
    (folder / "config.yaml").write_text(json.dumps(settings))
    for command in ("prepare", "train"):
        focat(folder, command, "config.yaml")
    return folder / "run"


def test_run_translates_its_test_set(run, tmp_path):
    search = ("decoding.beam=1", "--window", 2, "--context", "reuse", "--metrics", "chrf")
    focat(tmp_path, "evaluate", run, *search, "--output", "out.de", "--json", "figures.json")
    record, figures = _figures(tmp_path)
    documents = list(generate(3, 7))
    assert [len(document) for document in record["translations"]] == [len(d.target) for d in documents]
    assert record["system"] == "run"
    assert record["translated"]["beam"] == 1
    assert (record["translated"]["window"], record["translated"]["context"]) == (2, "reuse")
    kept = (tmp_path / "out.de").read_text(encoding="utf-8")
    assert kept == _text(record["translations"])

    # The same again, as translations that exist already.
    (tmp_path / "ref.de").write_text(_text(d.target for d in documents), encoding="utf-8")
    focat(
        tmp_path, "evaluate", "--hypothesis", "out.de", "--reference", "ref.de", "--metrics", "chrf",
        "--json", "again.json",
    )  # fmt: skip
    again, same = _figures(tmp_path, "again.json")
    assert again["reference"] == record["reference"]
    assert same == figures

    # And with files in place of the run's own test set.
    (tmp_path / "src.en").write_text(_text(d.source for d in documents), encoding="utf-8")
    focat(tmp_path, "evaluate", run, *search, "--source", "src.en", "--reference", "ref.de", "--json", "files.json")
    assert _figures(tmp_path, "files.json")[0]["translations"] == record["translations"]


def test_without_corpora_the_store_knows_the_test_set(run, tmp_path):
    """A run that names no test corpus: the tokens of its store are spelled out, which are of the same sentences."""
    config = (run / "config.yaml").read_text(encoding="utf-8")
    tree = yaml.safe_load(config)
    tree["data"] = {"store": tree["data"]["store"]}
    shutil.copytree(run, tmp_path / "bare")
    (tmp_path / "bare" / "config.yaml").write_text(json.dumps(tree))
    documents = documents_of(Run.open(tmp_path / "bare"), "test")
    expected = list(generate(3, 7))
    for side in ("source", "target"):
        spelled, texts = ([getattr(d, side) for d in some] for some in (documents, expected))
        assert [[s.split() for s in d] for d in spelled] == [[s.split() for s in d] for d in texts]
    done = focat(tmp_path, "evaluate", "bare", "--beam", 1, "--metrics", "bleu", "--json", "figures.json")
    assert "3 documents" in done.stdout
    record, _ = _figures(tmp_path)
    assert record["translated"]["beam"] == 1
    tree["data"]["store"] = str(tmp_path / "none")
    (tmp_path / "bare" / "config.yaml").write_text(json.dumps(tree))
    assert "its settings name no corpus under data.test, and its store" in refused(tmp_path, "evaluate", "bare")


def test_what_a_user_can_do_wrong_with_a_run(run, tmp_path):
    assert "'train' is not one of 'test', 'dev'" in refused(tmp_path, "evaluate", run, "--split", "train")
    assert "'own' is not one of 'regenerate', 'reuse', 'none'" in refused(tmp_path, "evaluate", run, "--context", "own")
    assert "--source" in refused(tmp_path, "evaluate", run, "--reference", "ref.de")
    assert "not installed" in refused(tmp_path, "evaluate", run, "--metrics", "comet", FOCAT_COMET_ENV="/nowhere")
