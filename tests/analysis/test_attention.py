"""Attention against a loop over every query and key, and against numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch

from focat.analysis import attention
from focat.analysis.attention import AttentionTallies, corpus_attention, entropy, read_attention
from focat.analysis.gates import recorded_gates
from focat.analysis.results import ENTROPY_ORDERS, STACKS, SystemAnalysis
from focat.corpus.vocabulary import END, SEPARATOR
from focat.model.context import Gate
from focat.progress import NULL_PROGRESS
from focat.reporting.analysis_tables import analysis_tables
from focat.windows.corpus_windows import cut_windows, gather_batch
from tests.analysis.corpora import VARIANTS, split, system
from tests.model.examples import side


def slow_entropy(row):
    return -sum(p * math.log(p) for p in row if p > 0)


def slow_window(weights, query_sentence, query_current, key_sentence, key_current, has_context):
    """Of one stack of one unpadded window: sums over queries, with a loop over everything."""
    layers, heads = len(weights), weights[0].shape[1]
    found = {"queries": 0, "current": 0, "share": 0.0, "mean-then-entropy": 0.0, "entropy-then-mean": 0.0}
    by_head = {(i, j): [0.0, 0.0] for i in range(layers) for j in range(heads)}
    for q in range(len(query_sentence)):
        rows = {(i, j): weights[i][0, j, q].tolist() for i, j in by_head}
        mean_row = [sum(rows[key][k] for key in rows) / len(rows) for k in range(len(key_sentence))]
        found["queries"] += 1
        found["mean-then-entropy"] += slow_entropy(mean_row)
        found["entropy-then-mean"] += sum(slow_entropy(row) for row in rows.values()) / len(rows)
        of_current = query_sentence[q] == query_current and has_context
        found["current"] += of_current
        for key, row in rows.items():
            by_head[key][1] += slow_entropy(row)
            if of_current:
                by_head[key][0] += sum(p for p, s in zip(row, key_sentence, strict=True) if s == key_current)
    found["share"] = sum(share for share, _ in by_head.values()) / len(by_head)
    return found, by_head


def slow_attention(model, windows):
    """Every window alone, without padding."""
    found = []
    for row in range(len(windows)):
        batch = gather_batch(windows, np.array([row]))
        weights = model.attention(batch.source, batch.target)
        s, t = batch.source.segments[0].tolist(), batch.target.segments[0].tolist()
        s_now, t_now = int(batch.source.current[0]), int(batch.target.current[0])
        found.append(
            {
                "encoder": slow_window(weights.encoder, s, s_now, s, s_now, max(s) > 0),
                # a decoder state belongs to the sentence whose token it predicts
                "decoder": slow_window(weights.decoder, t, t_now, t, t_now, t_now > 0),
                "cross": slow_window(weights.cross, t, t_now, s, s_now, max(s) > 0),
            }
        )
    return found


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_equals_a_loop_over_queries_and_keys(variant, monkeypatch):
    corpus, tested = split(5, 1, 3), system(**variant)
    windows = cut_windows(corpus, tested.windows)
    monkeypatch.setitem(attention._WEIGHTS, "cpu", 4 * 24**2 * 3)  # a few windows at a time, so that sums are added up
    found = corpus_attention(tested, corpus, NULL_PROGRESS)
    expected = slow_attention(tested.model, windows)
    record = found.results()
    for stack in STACKS:
        for name in ("queries", "current", "share", *ENTROPY_ORDERS):
            slow = [window[stack][0][name] for window in expected]
            assert found.of_windows[stack][name] == pytest.approx(slow, abs=1e-9), (stack, name)
        queries, current = (sum(w[stack][0][name] for w in expected) for name in ("queries", "current"))
        assert record.entropy["mean-then-entropy"][stack] == pytest.approx(
            sum(w[stack][0]["mean-then-entropy"] for w in expected) / queries
        )
        for i, layer in enumerate(record.stacks[stack].layers):
            for j, head in enumerate(layer.heads):
                share, spread = (sum(w[stack][1][i, j][k] for w in expected) for k in (0, 1))
                assert head.entropy == pytest.approx(spread / queries)
                assert head.share == pytest.approx(share / current)
            assert layer.share == pytest.approx(np.mean([head.share for head in layer.heads]))
            assert layer.entropy["entropy-then-mean"] == pytest.approx(np.mean([head.entropy for head in layer.heads]))
    pooled = sum(w[s][0]["entropy-then-mean"] for w in expected for s in STACKS)
    assert record.entropy["entropy-then-mean"]["all"] == pytest.approx(
        pooled / sum(w[s][0]["queries"] for w in expected for s in STACKS)
    )


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_shares_of_all_sentences_sum_to_one(variant):
    corpus, tested = split(6, 4), system(**variant)
    record = corpus_attention(tested, corpus, NULL_PROGRESS).results()
    for stack in STACKS:
        by_distance = record.stacks[stack].share_by_distance
        assert sum(by_distance.values()) == pytest.approx(1)
        assert by_distance["0"] == pytest.approx(record.share[stack])


def test_by_hand():
    """`a <S> b <E>`, two heads. b and <E> give 0.5 + 0.25 and 0 + 1 to their sentence by head 1, all by head 2."""
    window = side([9, SEPARATOR, 8, END], pads=2)
    first = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0, 0.5, 0.25], [0, 0, 0.5, 0.5]]
    second = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    weights = torch.zeros(1, 2, 6, 6, dtype=torch.float64)
    weights[0, :, :4, :4] = torch.tensor([first, second])
    weights[0, :, 4:] = 1 / 6  # of padding, whose queries do not count
    reader = AttentionTallies(window, window, before=1, after=0, causal=False)
    reader.append(weights)
    found = reader.tallies()
    assert found.queries.tolist() == [4]
    assert found.current.tolist() == [2]
    assert found.towards[0, 0].tolist() == [[1.75, 0.25], [2, 0]]  # at distances 0 and 1
    # head 1: 0, log 2, 1.5 log 2, log 2; head 2 never hesitates
    assert found.entropy[0, 0].tolist() == pytest.approx([3.5 * math.log(2), 0])
    # the heads' mean: 1; ¼ ¾; ⅛ ¾ ⅛; ¼ ¾
    quarter = 0.25 * math.log(4) + 0.75 * math.log(4 / 3)
    eighth = 0.25 * math.log(8) + 0.75 * math.log(4 / 3)
    assert found.mean_entropy.item() == pytest.approx(2 * quarter + eighth)
    assert found.layer_entropy.tolist() == [[pytest.approx(2 * quarter + eighth)]]


def test_entropy_by_hand():
    rows = torch.tensor([[0.5, 0.25, 0.25, 0.0], [1.0, 0, 0, 0], [0.25] * 4], dtype=torch.float64)
    assert entropy(rows).tolist() == pytest.approx([1.5 * math.log(2), 0, math.log(4)])


def test_a_sentence_alone_has_no_share():
    """There is nothing else to look at; and a system without context has no share at all."""
    corpus, tested = split(3, 1, 1), system()
    found = corpus_attention(tested, corpus, NULL_PROGRESS)
    assert (found.of_windows["encoder"]["current"] > 0).tolist() == [False, True, True, False, False]
    alone = corpus_attention(system(windows={"before": 0}), corpus, NULL_PROGRESS).results()
    assert alone.share == dict.fromkeys(STACKS)
    assert alone.entropy["mean-then-entropy"]["encoder"] > 0


def test_local_layers_keep_all_attention():
    """The first layer of `group` sees its own sentence alone, on all three sides."""
    corpus, tested = split(5, 4), system(attention="group", global_layers=(1,))
    record = corpus_attention(tested, corpus, NULL_PROGRESS).results()
    for stack in STACKS:
        first, second = record.stacks[stack].layers
        assert first.share == pytest.approx(1)
        assert second.share < 0.99


def test_nothing_of_the_weights_is_kept():
    corpus, tested = split(4), system()
    windows = cut_windows(corpus, tested.windows)
    reader = AttentionTallies(*[gather_batch(windows, np.arange(4), 20, 20).source] * 2, 2, 0, causal=False)
    tested.model.encode(gather_batch(windows, np.arange(4), 20, 20).source, reader)
    assert len(reader) == 0
    assert read_attention(tested.model, gather_batch(windows, np.arange(4), 20, 20), tested.windows).keys() == {*STACKS}


@pytest.mark.parametrize(
    "model",
    [
        {"context": {"hierarchical": True}},
        {"context": {"encoder": "separate", "at": "every-layer"}},
        {"context": {"at": "global-layer"}},
        {"windows": {"before": 2}, "context": {"hierarchical": True, "of": "both"}},
        {"attention": "gated-group", "global_layers": (1,)},
    ],
    ids=str,
)
def test_gates_equal_a_mean_over_current_tokens(model):
    """A gate of constant weights keeps as much of every token; others are compared with windows one by one."""
    corpus, tested = split(4, 1, 3), system(**{"windows": {"before": 2, "target_before": 0}, **model})
    gates = {name: module for name, module in tested.model.named_modules() if isinstance(module, Gate)}
    found = corpus_attention(tested, corpus, NULL_PROGRESS).results().gates
    assert found.keys() == gates.keys()
    cut = cut_windows(corpus, tested.windows)
    sums = dict.fromkeys(gates, 0.0)
    tokens = dict.fromkeys(gates, 0)
    for i in range(len(cut)):
        batch = gather_batch(cut, np.array([i]))
        if batch.source.segments.max() == 0:
            continue
        with recorded_gates(tested.model) as tallies:
            tested.model(batch.source, batch.target)
            tallies.add(batch)
        for name in gates:
            sums[name] += tallies.sums[name]
            tokens[name] += tallies.tokens[name]
    assert found == pytest.approx({name: sums[name] / tokens[name] for name in gates})
    for gate in gates.values():
        torch.nn.init.zeros_(gate.proj.weight)
        torch.nn.init.constant_(gate.proj.bias, math.log(3))
    found = corpus_attention(tested, corpus, NULL_PROGRESS).results().gates
    assert found == pytest.approx(dict.fromkeys(gates, 0.75), abs=1e-6)


def test_the_second_decoder_of_two_passes_reads_the_current_sentence_alone():
    corpus, tested = split(4, 1, 3), system(shift=0, second_pass={"layers": 2})
    record = corpus_attention(tested, corpus, NULL_PROGRESS).results()
    assert record.share["encoder"] == record.share["decoder"] == pytest.approx(1)
    by_distance = record.stacks["cross"].share_by_distance
    assert sum(by_distance.values()) == pytest.approx(1)
    assert 0 < by_distance["0"] < 1
    assert record.stacks["decoder"].queries == sum(corpus.target.offsets[1:] - corpus.target.offsets[:-1])


def test_every_gate_has_a_column():
    """One for each attention that has two halves: of the encoder, of the decoder, and to the source."""
    corpus = split(4, 3)
    tested = {
        "g-transformer": system(attention="gated-group", global_layers=(1,)),
        "han-joint": system(windows={"before": 2}, context={"hierarchical": True, "of": "both"}),
    }
    found = {name: corpus_attention(each, corpus, NULL_PROGRESS).results() for name, each in tested.items()}
    analyses = {name: SystemAnalysis.model_construct(attention=attention) for name, attention in found.items()}
    (table,) = (each for each in analysis_tables(analyses)["attention"] if each.title == "What gates keep, %")
    columns = {name: list(values) for name, values in table.values.items()}
    assert columns == {"g-transformer": ["encoder 2", "decoder 2", "cross 2"], "han-joint": ["top", "target"]}
    shown = found["g-transformer"].gates["decoder.1.global_cross_attention.gate"]
    assert table.values["g-transformer"]["cross 2"] == pytest.approx(100 * shown)
