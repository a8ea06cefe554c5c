"""An imported model is a run like any other: it translates, scores, averages, and is read by one API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import focat
from focat.errors import FocatError
from focat.evaluation.prefix_scoring import CandidateGroup, score_candidates
from focat.interop.import_model import import_model
from focat.model.stored_weights import read_weights
from focat.run import Run
from focat.training.averaging import average_checkpoints
from tests.interop.marian_models import random_marian, sentences, transformers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """hf/ and the run/ imported from it; languages/, a multilingual model."""
    folder = tmp_path_factory.mktemp("imported")
    random_marian(folder / "hf")
    import_model(folder / "hf", folder / "run")
    random_marian(folder / "languages", languages=True)
    return folder


def scores_of_transformers(folder: Path, pairs: list[tuple[str, str]]) -> list[list[float]]:
    """Log-probabilities of the tokens of each target, its end included."""
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    scores = []
    for source, target in pairs:
        labels = tokenizer(text_target=target, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            logits = model(**tokenizer(source, return_tensors="pt"), labels=labels).logits[0]
        scores.append((-F.cross_entropy(logits, labels[0], reduction="none")).tolist())
    return scores


def test_scores_are_those_of_transformers(folder: Path) -> None:
    source, target = sentences("source")[:6], sentences("target")[:6]
    wanted = scores_of_transformers(folder / "hf", list(zip(source, target, strict=True)))
    model = focat.load(folder / "run", device="cpu")
    for found, theirs in zip(model.score(source, target), wanted, strict=True):
        assert found.token_scores == pytest.approx(theirs, abs=1e-4)
    candidates = score_candidates(
        model.system.model, model.tokenizer, [CandidateGroup((source[0],), (), tuple(target))]
    )
    wanted = scores_of_transformers(folder / "hf", [(source[0], each) for each in target])
    assert candidates.current.tolist() == pytest.approx([sum(each) for each in wanted], abs=1e-3)


def test_translations_are_text(folder: Path) -> None:
    model = focat.load(folder / "run", device="cpu")
    texts = sentences("source")[:4]
    found = model.translate(texts)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder / "hf")
    for text in sentences("target")[:10]:
        ids = tokenizer(text_target=text)["input_ids"]
        ours = model.tokenizer.target.decode(model.tokenizer.target.encode(text))
        # what no piece stands for is shown, as in SentencePiece; transformers leaves it out
        assert ours.replace(" ⁇ ", "") == tokenizer.decode(ids, skip_special_tokens=True)
    assert len(found) == 4
    assert not any("▁" in text for text in found)
    for translated, exact in zip(model.translate(texts, int8=True), found, strict=True):
        assert isinstance(translated, str)
        assert bool(translated) == bool(exact)


def test_attention_adds_up_to_one(folder: Path) -> None:
    model = focat.load(folder / "run", device="cpu")
    weights: Any = model.attention(sentences("source")[:1], sentences("target")[:1])
    assert weights.source[-1] == weights.target[-1] == "<E>"


def test_the_average_of_one_checkpoint_is_itself(folder: Path) -> None:
    run = Run.open(folder / "run")
    before = read_weights(run.weights_folder())
    assert average_checkpoints(run) == [0]
    assert run.weights_folder() == run.averaged
    after = read_weights(run.averaged)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_runs_of_two_target_languages_are_no_ensemble(folder: Path) -> None:
    for language in ("deu", "nld"):
        import_model(folder / "languages", folder / language, target_language=language)
    with pytest.raises(FocatError, match="its source vocabulary is not that of"):
        focat.load([folder / "deu", folder / "nld"], device="cpu")
