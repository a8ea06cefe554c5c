"""Losses of windows against a loop over tokens; robustness to window size; curves from the log of a run."""

import json
import math

import numpy as np
import pytest
import torch

from focat.analysis.losses import logged_losses, window_losses
from focat.analysis.robustness import robustness_of
from focat.errors import FocatError
from focat.progress import NULL_PROGRESS
from focat.run import Run
from focat.windows.corpus_windows import cut_windows, gather_batch
from tests.analysis.corpora import VARIANTS, split, system


def slow_losses(tested, corpus, settings):
    """For each current sentence: losses and tokens of current and context, token by token, no padding."""
    windows = cut_windows(corpus, settings)
    found = {}
    for row in range(len(windows)):
        batch = gather_batch(windows, np.array([row]))
        with torch.no_grad():
            logits = tested.model.project(tested.model(batch.source, batch.target))[0].tolist()
        sums = {True: [0.0, 0], False: [0.0, 0]}
        for scores, label, segment in zip(
            logits, batch.target.tokens[0].tolist(), batch.target.segments[0].tolist(), strict=True
        ):
            mine = sums[segment == int(batch.target.current[0])]
            mine[0] += math.log(sum(math.exp(score) for score in scores)) - scores[label]
            mine[1] += 1
        found[int(batch.sentences[0])] = (*sums[True], *sums[False])
    return found


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_equal_a_loop_over_tokens(variant):
    corpus, tested = split(4, 1, 5), system(**variant)
    found = window_losses(tested, corpus, NULL_PROGRESS)
    expected = slow_losses(tested, corpus, tested.windows)
    for i, sentence in enumerate(found.sentences.tolist()):
        current, current_tokens, context, context_tokens = expected[sentence]
        assert found.plain[i].tolist() == pytest.approx([current, context], abs=1e-4)  # losses are float32
        assert found.tokens[i].tolist() == [current_tokens, context_tokens]
    in_context = [row for row in expected.values() if row[3]]
    sums = np.array(in_context).sum(0)
    values = {name: score.value for name, score in found.scores().items()}
    everyone = np.array(list(expected.values())).sum(0)
    assert values["losses.current"] == pytest.approx(everyone[0] / everyone[1], abs=1e-5)
    assert values["losses.context"] == pytest.approx(sums[2] / sums[3], abs=1e-5)
    assert values["losses.ratio"] == pytest.approx((sums[0] / sums[1]) / (sums[2] / sums[3]), abs=1e-5)


def test_robustness_is_of_the_same_sentences():
    corpus, tested = split(6, 2), system()
    found = robustness_of(tested, corpus, [1, 3, 5], [], "current-sum", None, NULL_PROGRESS)
    for size in (1, 3, 5):
        score = found.scores[f"robustness.loss.{size}"]
        assert score.items.tolist() == list(range(8))
        windows = tested.windows.model_copy(update={"before": size - 1})
        expected = slow_losses(tested, corpus, windows)
        assert score.item_values.tolist() == pytest.approx(
            [expected[i][0] / expected[i][1] for i in range(8)], abs=1e-5
        )
    sizes = found.results.sizes
    assert [(entry.size, entry.seen) for entry in sizes] == [(1, True), (3, True), (5, False)]
    assert len({entry.loss for entry in sizes}) == 3


def test_robustness_leaves_out_what_a_model_cannot_read():
    tested = system(positions="learned")
    found = robustness_of(tested, split(4), [2, 3, 4], [], "current-sum", None, NULL_PROGRESS)
    assert [entry.size for entry in found.results.sizes] == [2, 3]
    ahead = system(windows={"before": 1, "after": 1})
    found = robustness_of(ahead, split(4), [1, 2], [], "current-sum", None, NULL_PROGRESS)
    assert [entry.size for entry in found.results.sizes] == [2]


def test_curves_are_what_was_logged(workshop):
    found = logged_losses(Run.open(workshop / "focused"))
    lines = [json.loads(line) for line in (workshop / "focused" / "log.jsonl").read_text().splitlines()]
    for kind in ("train", "validation"):
        logged = [line for line in lines if line["kind"] == kind]
        rows = getattr(found, kind)
        assert [row.update for row in rows] == [line["update"] for line in logged]
        for name in ("current", "context", "ratio"):
            assert [getattr(row, name) for row in rows] == [line[name] for line in logged]
    assert found.validation


def test_a_log_that_is_cut_off_and_one_that_is_damaged(tmp_path):
    good = json.dumps({"kind": "train", "update": 1, "current": 2.0})
    (tmp_path / "log.jsonl").write_text(f'{good}\n{{"kind": "tr')
    assert [row.update for row in logged_losses(Run(tmp_path)).train] == [1]
    (tmp_path / "log.jsonl").write_text(f'{{"kind": "tr\n{good}\n')
    with pytest.raises(FocatError, match="line 1"):
        logged_losses(Run(tmp_path))
    assert logged_losses(Run(tmp_path / "none")).to_json() == {"train": [], "validation": []}
