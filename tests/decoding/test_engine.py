"""Beam search against its definition: all translations tried, or hypothesis after hypothesis."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import END, SEPARATOR, SPECIALS
from focat.decoding.engine import Engine
from focat.decoding.requests import Hypothesis, Request
from focat.errors import FocatError
from focat.model.greedy import greedy_decode
from focat.windows.batch import PaddedSequences
from focat.windows.segments import segments_of
from tests.decoding.slow_search import all_translations, scored, slow_beam, small

ATTENTION = ["full", "long-short", "group", "gated-group"]
SHIFTS: list[Any] = [0, 7, "avg-sequence"]
POSITIONS = ["sinusoidal", "learned", "rotary"]
SEGMENTS = [
    {"segment_embeddings": kind, "segment_embeddings_at": where}
    for kind, where in product(("none", "sinusoidal", "learned", "one-hot"), ("input", "every-layer"))
    if kind != "none" or where == "input"
]


def source(*lengths: int, words: int, seed: int = 0) -> list[int]:
    """A window whose sentences have so many words."""
    draw = random.Random(seed)
    tokens = [t for n in lengths for t in (*(draw.randrange(SPECIALS, SPECIALS + words) for _ in range(n)), SEPARATOR)]
    return [*tokens[:-1], END]


def tokens_of(found: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[hypothesis.tokens for hypothesis in best] for best in found]


REQUESTS = [
    Request(source(2, 1, words=3), max_length=4),
    Request(source(3, words=3), max_length=4, sentences=1),
    Request(source(1, 2, words=3), max_length=5, sentences=2),
    Request(source(1, 1, 2, words=3), prefix=[4, SEPARATOR, 5, 6, SEPARATOR], max_length=4, sentences=3),
    Request(source(2, 2, words=3), prefix=[4, SEPARATOR, 6], max_length=4),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_beam_that_holds_everything_finds_the_best_of_all(request_: Request) -> None:
    model = small(words=3)
    every = list(all_translations(request_, request_.max_length or 0, vocabulary=7))
    totals = [sum(scored([model], request_, tokens)) for tokens in every]
    for penalty in (0.0, 0.6, 1.5):
        [best] = Engine([model], SearchSettings(beam=400, nbest=5, length_penalty=penalty))([request_])
        ranked = sorted(
            ((t / len(tokens) ** penalty, tokens) for t, tokens in zip(totals, every, strict=True)), reverse=True
        )
        assert [hypothesis.tokens for hypothesis in best] == [tokens for _, tokens in ranked[:5]]
        assert [h.score for h in best] == pytest.approx([score for score, _ in ranked[:5]], abs=1e-5)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("beam", [1, 2, 4])
def test_a_beam_is_what_its_definition_says(beam: int, penalty: float) -> None:
    for seed in (0, 1, 7):  # of 7, the best ends with its first word, and the second best late
        model = small(words=4, seed=seed)
        requests = [
            Request(source(2, 2, words=4, seed=seed), max_length=9),
            Request(source(2, 2, words=4, seed=seed), max_length=9, sentences=2),
            Request(source(1, 3, words=4, seed=seed), max_length=7, sentences=2, prefix=[5, 6, SEPARATOR]),
        ]
        nbest = max(beam // 2, 1)
        found = Engine([model], SearchSettings(beam=beam, nbest=nbest, length_penalty=penalty))(requests)
        for request, best in zip(requests, found, strict=True):
            wanted = slow_beam([model], request, request.max_length or 0, beam, penalty)[:nbest]
            assert [hypothesis.tokens for hypothesis in best] == [tokens for _, tokens in wanted]
            assert [h.score for h in best] == pytest.approx([score for score, _ in wanted], abs=1e-5)


@pytest.mark.parametrize(("closed", "left"), [(0, 12), (1, 9), (2, 5), (3, 5)])
def test_work_is_estimated_by_what_the_prefix_leaves_of_the_source(closed: int, left: int) -> None:
    request = Request(source(2, 3, 4, words=5), prefix=[5, 6, SEPARATOR] * closed)
    assert request.remaining_source() == left


def test_an_ensemble_is_the_mean_of_probabilities() -> None:
    models = [small(words=4, seed=seed, shift=seed) for seed in (3, 4, 5)]
    requests = [Request(source(2, 2, words=4, seed=seed), max_length=7) for seed in range(3)]
    found = Engine(models, SearchSettings(beam=3, nbest=3))(requests)
    for request, best in zip(requests, found, strict=True):
        wanted = slow_beam(models, request, 7, 3, 0.6)
        assert [hypothesis.tokens for hypothesis in best] == [tokens for _, tokens in wanted]
        for hypothesis in best:
            assert hypothesis.token_scores == pytest.approx(scored(models, request, hypothesis.tokens), abs=1e-5)


def test_results_do_not_depend_on_the_batch() -> None:
    model = small(words=30, scale=2.0, attention="long-short", segment_embeddings="learned")
    requests = [
        Request(
            source(*(1 + (seed * 7 + k) % 5 for k in range(1 + seed % 3)), words=30, seed=seed),
            prefix=[9, 8, SEPARATOR] if seed % 3 and seed % 2 else [],
            sentences=1 + seed % 3 if seed % 4 else None,
        )
        for seed in range(8)
    ]
    requests = [replace(request, max_length=2 * len(request.source)) for request in requests]
    for settings in (SearchSettings(nbest=3), SearchSettings(beam=1), SearchSettings(sample=True, nbest=3, top_p=0.9)):
        alone = Engine([model], settings.model_copy(update={"batch_tokens": 1}))(requests)
        for budget, stride in ((60, 1), (1000, 3), (1000, 7)):
            limited = settings.model_copy(update={"batch_tokens": budget})
            engine = Engine([model], limited, static=stride > 1, stride=stride)  # as on a GPU with larger strides
            together = engine(requests)
            assert tokens_of(together) == tokens_of(alone)
            for here, there in zip(together, alone, strict=True):
                assert here[0].token_scores == pytest.approx(there[0].token_scores, abs=1e-5)
        backwards = [replace(request, seed=i) for i, request in enumerate(requests)][::-1]
        assert tokens_of(Engine([model], settings)(backwards)) == tokens_of(alone)[::-1]


def test_a_beam_of_one_is_greedy() -> None:
    model = small(words=30)
    windows = [source(2, 3, words=30, seed=1), source(4, 1, words=30, seed=2)]
    tokens = torch.tensor(windows)
    padded = PaddedSequences(tokens, segments_of(tokens), torch.tensor([1, 1]))
    rows = greedy_decode(model, padded, max_length_ratio=2.0, max_length_offset=20)
    found = Engine([model], SearchSettings(beam=1))([Request(window) for window in windows])
    for row, [hypothesis] in zip(rows.tolist(), found, strict=True):
        length = len(hypothesis.tokens) - hypothesis.truncated  # greedy does not close what the limit cuts
        assert hypothesis.tokens[:length] == row[:length]


@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_scores_are_those_of_teacher_forcing(positions: str, shift: Any, attention: str) -> None:
    """Whatever the model, in float32, hypotheses are seen as training saw its targets.

    A third of the segment embeddings with each, so that all come together with every other feature.
    """
    third = (POSITIONS.index(positions) + SHIFTS.index(shift) + ATTENTION.index(attention)) % 3
    layers = {"global_layers": (1,)} if attention.endswith("group") else {}
    requests = [
        Request(source(2, 1, 3, words=20), sentences=3, max_length=12),
        Request(source(3, 2, words=20), sentences=2, prefix=[8, 9, SEPARATOR], max_length=6),
    ]
    for segments in SEGMENTS[third::3]:
        model = small(words=20, shift=shift, positions=positions, attention=attention, **layers, **segments).float()
        found = Engine([model], SearchSettings(beam=3, nbest=2))(requests)
        for request, best in zip(requests, found, strict=True):
            assert len(best) == 2
            for hypothesis in best:
                assert hypothesis.token_scores == pytest.approx(scored([model], request, hypothesis.tokens), abs=1e-4)
                assert hypothesis.log_probability == pytest.approx(sum(hypothesis.token_scores))
                length = len(hypothesis.tokens)
                assert hypothesis.score == pytest.approx(hypothesis.log_probability / length**0.6, abs=1e-5)


def test_the_current_sentence_need_not_be_the_last() -> None:
    model = small(words=20, segment_embeddings="learned")
    last, first = (Request(source(2, 2, words=20), max_length=5, current=current) for current in (None, 0))
    for request, [best] in zip((last, first), Engine([model], SearchSettings())([last, first]), strict=True):
        assert best.token_scores == pytest.approx(scored([model], request, best.tokens), abs=1e-5)
    assert scored([model], last, best.tokens) != pytest.approx(scored([model], first, best.tokens), abs=1e-3)


def split_at_the_last_separator(tokens: list[int]) -> tuple[list[int], list[int]]:
    start = len(tokens) - tokens[::-1].index(SEPARATOR)
    return tokens[:start], tokens[start:]


def test_greedy_reuses_what_it_regenerates() -> None:
    """The context that was decoded, forced as a prefix, leads to the same current sentence, with the same scores."""
    model = small(words=30, shift=5)
    windows = [source(2, 3, 2, words=30, seed=seed) for seed in range(12)]
    engine = Engine([model], SearchSettings(beam=1))
    regenerated = [best for [best] in engine([Request(w, sentences=3, max_length=30) for w in windows])]
    halves = [split_at_the_last_separator(best.tokens) for best in regenerated]
    again = [
        Request(window, prefix=context, sentences=3, max_length=30 - len(context))
        for window, (context, _) in zip(windows, halves, strict=True)
    ]
    for best, [reused], (_, current) in zip(regenerated, engine(again), halves, strict=True):
        assert reused.tokens == current
        assert reused.token_scores == pytest.approx(best.token_scores[-len(current) :], abs=1e-5)


def test_an_exhaustive_beam_reuses_what_it_regenerates() -> None:
    """Where nothing is lost from the beam and scores are sums, the best window ends with the best current sentence."""
    model = small(words=3)
    engine = Engine([model], SearchSettings(beam=400, length_penalty=0))
    window = source(1, 2, words=3)
    [[best]] = engine([Request(window, sentences=2, max_length=6)])
    context, current = split_at_the_last_separator(best.tokens)
    [[reused]] = engine([Request(window, prefix=context, sentences=2, max_length=6 - len(context))])
    assert reused.tokens == current


def test_the_limit_is_relative_to_the_source_and_closes_what_is_open() -> None:
    model = small(words=20)
    with torch.no_grad():
        model.output_weight[[END, SEPARATOR]] = 0.0
        model.output_weight[SPECIALS:] += 1.0
    settings = SearchSettings(beam=1, max_length_ratio=1.5, max_length_offset=3)
    window = source(3, 4, words=20)  # 9 tokens
    for sentences in (None, 2):
        [[best]] = Engine([model], settings)([Request(window, sentences=sentences)])
        assert len(best.tokens) == 16
        assert best.tokens[-1] == END
        assert best.truncated
        assert best.tokens.count(SEPARATOR) == (sentences or 1) - 1
    [[shortest]] = Engine([model], settings)([Request(window, sentences=2, max_length=1)])
    assert len(shortest.tokens) == 4
    assert not math.isinf(shortest.score)
    assert Engine([model], settings)([]) == []


@pytest.mark.parametrize("static", [False, True])
def test_nan_scores_are_an_error(static: bool) -> None:
    """Scores that are no numbers never end a hypothesis; without a check the search would not end either."""
    model = small(words=20)
    with torch.no_grad():
        model.output_weight[:] = torch.nan
    engine = Engine([model], SearchSettings(beam=2), static=static)
    with pytest.raises(FocatError, match="not numbers"):
        engine([Request(source(2, 3, words=20), max_length=6)])


def test_out_of_memory_says_what_to_set() -> None:
    engine = Engine([small(words=3)], SearchSettings(batch_tokens=4000))
    with pytest.raises(FocatError, match=r"decoding\.batch_tokens = 4000: does not fit into memory.*say 1000"):
        engine([Request(source(2, words=3), max_length=10**13)])
