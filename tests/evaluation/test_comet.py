"""COMET through the real package and a tiny model made on the spot, where its environment exists; errors everywhere."""

import json
import os
import subprocess
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from focat.evaluation import comet
from focat.progress import Progress
from tests.evaluation.commands import focat, refused

HERE = Path(__file__).parent
needs_comet = pytest.mark.skipif(
    not os.environ.get(comet.VARIABLE),
    reason=f"COMET is not installed here; `focat doctor --install-comet`, then set {comet.VARIABLE}",
)

SOURCE = [["Where is the cat?", "It is asleep.", "Where is it?"], ["It is asleep."]]
HYPOTHESIS = [["Wo ist die Katze?", "Es schläft.", "Wo ist es?"], ["Es schläft."]]
REFERENCE = [["Wo ist die Katze?", "Sie schläft.", "Wo ist sie?"], ["Sie schläft."]]


def _write(folder: Path) -> None:
    for name, documents in (("src.en", SOURCE), ("hyp.de", HYPOTHESIS), ("ref.de", REFERENCE)):
        text = "\n\n".join("\n".join(document) for document in documents) + "\n"
        (folder / name).write_text(text, encoding="utf-8")


FILES = ("--hypothesis", "hyp.de", "--reference", "ref.de", "--metrics", "comet")


def test_without_an_environment(tmp_path):
    _write(tmp_path)
    nowhere = {comet.VARIABLE: str(tmp_path / "nowhere")}
    line = refused(tmp_path, "evaluate", *FILES, "--source", "src.en", **nowhere)
    assert line.startswith("COMET is not installed")
    assert "focat doctor --install-comet" in line
    assert "COMET reads the source too" in refused(tmp_path, "evaluate", *FILES, **nowhere)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comet") / "tiny"
    subprocess.run([comet.python(), "-I", HERE / "make_tiny_comet.py", folder], check=True, capture_output=True)
    return folder / "checkpoints" / "model.ckpt"


@needs_comet
def test_scores_are_those_of_the_package(model, tmp_path):
    """With context and without, against a slow version: one sentence at a time, its tokens pooled in a loop."""
    _write(tmp_path)
    focat(
        tmp_path, "evaluate", *FILES, "--source", "src.en", "--comet-model", model, "--comet-context", 1,
        "--json", "figures.json",
    )  # fmt: skip
    record = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    figures = {figure["name"]: figure for figure in record["figures"]}
    slow = subprocess.run(
        [comet.python(), "-I", HERE / "slow_comet.py", model],
        input=json.dumps([SOURCE, HYPOTHESIS, REFERENCE]), capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = json.loads(slow.stdout.splitlines()[-1])
    for name, context in (("COMET", "0"), ("d-COMET", "1")):
        scores = [line[0] for line in figures[name]["statistics"]]
        assert scores == pytest.approx(expected[context], abs=1e-4), name
        assert figures[name]["score"] == pytest.approx(np.mean(expected[context]), abs=1e-4)
        assert f"model:tiny/model.ckpt|context:{context}|version:2." in figures[name]["signature"]
    assert expected["0"][1] == pytest.approx(expected["0"][3], abs=1e-4)  # the same sentence
    assert abs(expected["1"][1] - expected["1"][3]) > 1e-3  # with and without something before it


@needs_comet
def test_long_context_loses_its_oldest_sentence(model):
    """The encoder has room for 38 tokens: 30 words and the current sentence do not fit, so it is as without them."""
    long, plain = " ".join(["0"] * 30), ["It is asleep."]
    documents = [[long, "It is asleep."], plain]
    said = StringIO()
    figures = comet.comet(documents, documents, documents, Progress(said), str(model), (0, 1))
    assert "1 sentences lost their oldest context" in said.getvalue()
    assert figures[1].statistics[:, 0] == pytest.approx(figures[0].statistics[:, 0], abs=1e-4)


@needs_comet
def test_model_that_is_not_there(tmp_path):
    _write(tmp_path)
    line = refused(tmp_path, "evaluate", *FILES, "--source", "src.en", "--comet-model", "none/model.ckpt")
    assert line == "none/model.ckpt: no such file"
    (tmp_path / "model.ckpt").write_text("not a model")
    line = refused(tmp_path, "evaluate", *FILES, "--source", "src.en", "--comet-model", "model.ckpt")
    assert line.startswith("COMET with model.ckpt: ")
