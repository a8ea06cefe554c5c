"""`focat score` and `Model.score`: translations of a user's own, each sentence in its context."""

import json
import math

import numpy as np
import pytest
import torch

import focat as focat_package
from focat.errors import FocatError
from focat.evaluation.document_scores import AlignedSentence, SentenceScore, score_documents, score_results
from focat.evaluation.scoring import score_texts
from focat.windows.corpus_windows import cut_windows, gather_batch
from focat.windows.texts import WindowText, batch_texts
from tests.evaluation.commands import focat
from tests.evaluation.systems_on_hand import make_run
from tests.windows.corpora import build_split

SOURCE = ["Here is the lamp.", "It is new.", "Do you have time?", "I am here.", "It is new."]
TARGET = ["Hier ist die Lampe.", "Sie ist neu.", "Hast du Zeit?", "Ich bin hier.", "Es ist neu."]


@pytest.fixture
def files(tmp_path):
    """Two documents: three sentences, and two."""
    for name, lines in (("s.en", SOURCE), ("t.de", TARGET)):
        (tmp_path / name).write_text("\n".join([*lines[:3], "", *lines[3:]]) + "\n", encoding="utf-8")
    return tmp_path


def test_scores_are_those_of_each_window(contrast_run, files):
    focat(files, "score", contrast_run.path, "s.en", "t.de", "-o", "scores.jsonl", "--json", "figures.json")
    lines = [json.loads(line) for line in (files / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    starts = [0, 0, 0, 3, 3]
    windows = [WindowText(SOURCE[start : i + 1], TARGET[start : i + 1]) for i, start in enumerate(starts)]
    expected = score_texts(contrast_run.load_model(), contrast_run.tokenizer, windows)
    for i, line in enumerate(lines):
        assert line["log_probability"] == pytest.approx(expected.current[i], abs=1e-4)
        assert line["mean"] == pytest.approx(expected.by("current-mean")[i], abs=1e-4)
        assert math.fsum(score for _, score in line["tokens"]) == pytest.approx(line["log_probability"])
        assert line["tokens"][-1][0] == "<E>"
        assert "".join(token for token, _ in line["tokens"][:-1]).replace("▁", " ").strip() == TARGET[i]
    assert [(line["line"], line["document"]) for line in lines] == [(1, 0), (2, 0), (3, 0), (5, 1), (6, 1)]
    figures = json.loads((files / "figures.json").read_text(encoding="utf-8"))
    total = sum(line["log_probability"] for line in lines)
    assert figures["signature"].startswith("score|window:4to4|precision:float32|weights:")
    assert figures["per_sentence"] == pytest.approx(total / 5)
    assert figures["perplexity"] == pytest.approx(math.exp(-total / figures["tokens"]))


@pytest.mark.parametrize("score", [-800.0, math.nan])
def test_scores_of_damaged_weights_are_refused(score: float) -> None:
    found = [[SentenceScore("a", "b", ("b",), (score,))]]
    with pytest.raises(
        FocatError, match=rf"log-probabilities of a token are {score:.3g} on average: the model's weights"
    ):
        score_results(found, "score")


def test_a_table_in_a_pipe(contrast_run, files):
    done = focat(files, "score", contrast_run.path, "s.en", "t.de", "--window", 1)
    header, *rows = (line.split("\t") for line in done.stdout.splitlines())
    assert header == ["line", "document", "log_probability", "mean", "tokens", "source", "target"]
    assert [row[5:] for row in rows] == [list(pair) for pair in zip(SOURCE, TARGET, strict=True)]
    assert float(rows[1][2]) != float(rows[4][2])
    alone = score_texts(contrast_run.load_model(), contrast_run.tokenizer, [WindowText(SOURCE[1:2], TARGET[1:2])])
    assert float(rows[1][2]) == pytest.approx(alone.current[0], abs=1e-3)


def test_from_python(contrast_run):
    model = focat_package.load(contrast_run.path, device="cpu")
    scores = model.score(SOURCE[:3], TARGET[:3])
    windows = [WindowText(SOURCE[: i + 1], TARGET[: i + 1]) for i in range(3)]
    expected = score_texts(contrast_run.load_model(), contrast_run.tokenizer, windows)
    assert [score.log_probability for score in scores] == pytest.approx(expected.current.tolist(), abs=1e-4)
    with pytest.raises(focat_package.api.FocatError, match="3 sentences have 2 translations"):
        model.score(SOURCE[:3], TARGET[:2])


def test_several_models_decide_together(contrast_store, contrast_run, tmp_path):
    other = make_run(contrast_store, tmp_path / "other", {"before": 3}, seed=2)
    models = [contrast_run.load_model(), other.load_model()]
    document = [AlignedSentence(SOURCE[0], TARGET[0], 1)]
    (score,) = score_documents(models, contrast_run.tokenizer, [document], contrast_run.settings.windows)[0]
    batch = batch_texts(contrast_run.tokenizer, [WindowText(SOURCE[:1], TARGET[:1])])
    with torch.no_grad():
        chances = sum(model.project(model(batch.source, batch.target))[0].softmax(-1) for model in models) / 2
    expected = [math.log(float(chances[t, token])) for t, token in enumerate(batch.target.tokens[0].tolist())]
    assert score.token_scores == pytest.approx(expected, abs=1e-4)


def test_sentences_behind_the_current_one(contrast_store, tmp_path):
    """A sentence that others follow is scored as in training: on the target it ends with `<S>`, not with `<E>`."""
    run = make_run(contrast_store, tmp_path / "ahead", {"before": 1, "after": 1}, segment_embeddings="learned")
    model, tokenizer, windows = run.load_model(), run.tokenizer, run.settings.windows
    pairs = [AlignedSentence(source, target, i) for i, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True))]
    scores = score_documents([model], tokenizer, [pairs], windows)[0]
    encoded = [[(tokenizer.source.encode(pair.source), tokenizer.target.encode(pair.target)) for pair in pairs]]
    split = build_split(encoded, "<i8")
    batch = gather_batch(cut_windows(split, windows), np.arange(len(pairs)), 100, 100)  # as training has it
    with torch.no_grad():
        logits = model.project(model(batch.source, batch.target)).log_softmax(-1)
    for i, score in enumerate(scores):
        mine = (batch.target.segments[i] == batch.target.current[i]).nonzero()[:, 0].tolist()
        labels = batch.target.tokens[i, mine].tolist()
        assert list(score.tokens) == [tokenizer.target.piece(token) for token in labels]
        assert score.tokens[-1] == ("<S>" if i < len(pairs) - 1 else "<E>")
        assert score.token_scores == pytest.approx(logits[i, mine, labels].tolist(), abs=1e-4)


def test_windows_that_are_too_long_lose_context(contrast_run):
    model, tokenizer = contrast_run.load_model(), contrast_run.tokenizer
    pairs = [AlignedSentence(source, target, i) for i, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True))]
    windows = contrast_run.settings.windows.model_copy(update={"max_tokens": 30})
    scores = score_documents([model], tokenizer, [pairs], windows)[0]
    assert [score.shortened for score in scores] == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        ("a\nb\n", "A\n", [], "t.de has 1 lines but s.en has 2"),
        ("a\n\nb\n", "A\nX\nB\n", [], "s.en, line 2: is blank, but t.de has a sentence there"),
        ("\n", "\n", [], "s.en: holds no sentence"),
        ("a\n", "A\n", ["--format", "xml"], "Invalid value for '--format': 'xml' is not one of 'tsv', 'jsonl'"),
        ("a\n", "A\n", ["-o", "s.en"], "s.en: exists; give another file, or overwrite it"),
        ("a\n", "A\n", ["--ensemble", "nowhere"], "nowhere: holds no run"),
    ],
)
def test_what_a_user_can_mend_is_one_line(contrast_run, tmp_path, source, target, options, message):
    (tmp_path / "s.en").write_text(source)
    (tmp_path / "t.de").write_text(target)
    done = focat(tmp_path, "score", contrast_run.path, "s.en", "t.de", *options, expect=2)
    assert done.stderr.startswith(f"focat: {message}")
    assert done.stderr.count("\n") == 1
