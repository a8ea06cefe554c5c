"""Windows of 16 sentences: they train, translate with either kind of target context, and reach back 15 sentences."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

import focat
from focat.api import Model
from focat.choices import TargetContext
from focat.corpus.generated import generate
from tests.training.launcher import Launcher
from tests.training.runs import records, settings_tree

K = 16
LENGTH = 18  # of a document, in sentences


def long_documents(side: str, count: int, seed: int) -> list[list[str]]:
    """Documents that are longer than a window, joined from generated ones."""
    sentences = (sentence for document in generate(count * LENGTH, seed) for sentence in getattr(document, side))
    return [list(islice(sentences, LENGTH)) for _ in range(count)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Path:
    """A barely trained run."""
    folder = tmp_path_factory.mktemp("long")
    for language, side in (("en", "source"), ("de", "target")):
        text = "\n\n".join("\n".join(document) for document in long_documents(side, 12, 1))
        (folder / f"train.{language}").write_text(text + "\n", encoding="utf-8")
    tree = settings_tree(folder / "store", folder / "run", dev_documents=0)
    tree["data"]["train"] = [{"format": "text", "source": str(folder / "train.en"), "target": str(folder / "train.de")}]
    tree["windows"] = {"before": K - 1}
    tree["training"] |= {"budget": {"updates": 8}, "validate_every": 8, "learning_rate": 0.0005}
    # so little trained, it would translate nothing at all, or never end
    tree["decoding"] = {"beam": 2, "length_penalty": 3, "max_length_ratio": 0.5, "max_length_offset": 3}
    (folder / "config.yaml").write_text(json.dumps(tree), encoding="utf-8")  # JSON is YAML
    launcher.focat(folder, "prepare", folder / "config.yaml")
    launcher.focat(folder, "train", folder / "config.yaml")
    return folder / "run"


@pytest.fixture(scope="module")
def model(run: Path) -> Model:
    return focat.load(run, "cpu")


def test_training_learns_from_them(run: Path) -> None:
    log = records(run, "train")
    assert log[-1]["current"] < log[0]["current"]
    assert log[-1]["context"] > 0  # the loss of the 15 others, which a window of one sentence does not have


@pytest.mark.parametrize("context", ["reuse", "regenerate"])
def test_a_document_longer_than_a_window(
    run: Path, model: Model, tmp_path: Path, launcher: Launcher, context: TargetContext
) -> None:
    (document,) = long_documents("source", 1, 5)
    text, output = tmp_path / "talk.txt", tmp_path / "talk.de.txt"
    text.write_text("\n".join(document) + "\n", encoding="utf-8")
    launcher.focat(tmp_path, "translate", run, text, "-o", output, "--window", K, "--context", context)
    lines = output.read_text(encoding="utf-8").splitlines()
    assert len(lines) == LENGTH
    assert any(lines)
    assert lines == model.translate(document, context=context)  # 16 is how many sentences windows of training have


def test_how_far_they_reach(model: Model) -> None:
    """The last sentence sees the 15 before it, and none before those."""
    (document,) = long_documents("source", 1, 5)

    def last_score(changed: int | None) -> float | None:
        own = [sentence if i != changed else "Tom sleeps." for i, sentence in enumerate(document)]
        (translations,) = model.stream([own], context="regenerate", window=K, beam=1)
        return translations[-1].score

    expected = last_score(None)
    assert last_score(LENGTH - K - 1) == expected
    assert last_score(LENGTH - K) != expected
