"""Step by step, a hypothesis must be seen exactly as teacher forcing sees it, whatever the settings."""

from __future__ import annotations

import itertools
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from focat.config.schema import WindowSettings
from focat.corpus.vocabulary import PAD, START
from focat.model import EncoderOutput, Transformer
from focat.windows.batch import PaddedSequences
from focat.windows.segments import decoder_input
from tests.model.examples import MARIAN, pair, side, tiny, window

SEGMENTS = [
    {"segment_embeddings": kind, "segment_embeddings_at": where}
    for kind, where in product(("none", "sinusoidal", "learned", "one-hot"), ("input", "every-layer"))
    if kind != "none" or where == "input"
]


def step_by_step(model: Transformer, memory: EncoderOutput, target: PaddedSequences, chunks: list[int]) -> Tensor:
    """Hidden representations, reading the decoder's input in pieces of these lengths."""
    cache = model.init_cache(memory, current=target.current)
    pieces = decoder_input(target).tokens.split(chunks, 1)
    return torch.cat([model.decode_step(cache, piece) for piece in pieces], 1)


@pytest.mark.parametrize("attention", ["full", "long-short", "group", "gated-group"])
@pytest.mark.parametrize("shift", [0, 7, "avg-sequence"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_step_by_step_is_teacher_forcing(positions: str, shift: Any, attention: str) -> None:
    source, target = pair()
    length = target.tokens.shape[1]
    real = target.tokens != PAD
    layers = {"global_layers": (1,)} if attention.endswith("group") else {}
    for segments, norm in zip(SEGMENTS, itertools.cycle(["post", "pre"] if shift == 7 else ["pre", "post"])):
        model = tiny(shift, encoder_layers=1, positions=positions, norm=norm, attention=attention, **layers, **segments)
        memory = model.encode(source)
        forced = model.decode(memory, decoder_input(target))
        for chunks in ([1] * length, [3, 1, length - 4]):
            stepped = step_by_step(model, memory, target, chunks)
            torch.testing.assert_close(stepped[real], forced[real], atol=1e-5, rtol=0)


@pytest.mark.parametrize("variant", [MARIAN, MARIAN | {"position_offset": 2}, {"position_offset": 2, "norm": "pre"}])
def test_models_of_other_toolkits_step_by_step(variant: dict[str, Any]) -> None:
    source, target = pair()
    real = target.tokens != PAD
    model = tiny(7, **variant)
    memory = model.encode(source)
    stepped = step_by_step(model, memory, target, [3, 1, target.tokens.shape[1] - 4])
    torch.testing.assert_close(stepped[real], model.decode(memory, decoder_input(target))[real], atol=1e-5, rtol=0)


@pytest.mark.parametrize("attention", ["full", "long-short", "group", "gated-group"])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 1)])
def test_with_fewer_sentences_on_the_target(attention: str, before: int, after: int) -> None:
    """s3to1 and windows with a future: the current sentence of the target is found from the source's."""
    windows = WindowSettings(before=2, after=2, target_before=before, target_after=after, max_tokens=40)
    layers = {"global_layers": (1,)} if attention.endswith("group") else {}
    model = tiny(4, windows, attention=attention, segment_embeddings="learned", **layers)
    source = side(window(1, 2, 3, 1, 2), window(2, 2, 1), current=[2, 0])
    rows = ([2] * (before + 1 + after), [3] * (1 + after))
    target = side(*(window(*lengths) for lengths in rows), current=[before, 0])
    cache = model.init_cache(model.encode(source))
    assert torch.equal(cache.current, target.current)
    stepped = torch.cat([model.decode_step(cache, column) for column in decoder_input(target).tokens.split(1, 1)], 1)
    real = target.tokens != PAD
    torch.testing.assert_close(stepped[real], model(source, target)[real])


@pytest.mark.parametrize("attention", ["full", "long-short", "group", "gated-group"])
@pytest.mark.parametrize("front", [True, False])
def test_prefixes_of_different_lengths(attention: str, front: bool) -> None:
    """Shorter prefixes are padded, in front or behind; the rows go on as if they had been alone."""
    source, target = pair()
    layers = {"global_layers": (1,)} if attention.endswith("group") else {}
    model = tiny(4, attention=attention, segment_embeddings="learned", **layers)
    forced = model(source, target)
    tokens = decoder_input(target).tokens
    lengths = [4, 1, 3]
    prefix = torch.full((3, 4), PAD)
    for row, length in enumerate(lengths):
        prefix[row, 4 - length if front else 0 :][:length] = tokens[row, :length]
    cache = model.init_cache(model.encode(source))
    assert model.decode_step(cache, prefix).isfinite().all()
    for i in range(2):
        column = torch.stack([tokens[row, length + i] for row, length in enumerate(lengths)])
        hidden = model.decode_step(cache, column[:, None])
        wanted = torch.stack([forced[row, length + i] for row, length in enumerate(lengths)])
        torch.testing.assert_close(hidden[:, 0], wanted)


def test_rows_of_a_beam_share_their_source() -> None:
    """Two rows for each window, exchanged and copied on the way, against each of them decoded alone."""
    source, _ = pair()
    windows = [
        window(*lengths, seed=seed) for seed, lengths in enumerate([(2, 3), (1, 4), (3, 2), (5,), (1, 1, 1), (4, 1)])
    ]
    target = side(*windows, current=[2, 2, 0, 0, 1, 1])
    for settings in (
        {"attention": "group", "global_layers": (1,)},
        {"attention": "gated-group", "global_layers": (1,)},
        {"attention": "long-short"},
        {},
    ):
        model = tiny("avg-sequence", segment_embeddings="sinusoidal", **settings)
        memory = model.encode(source)
        twice = memory.select(torch.tensor([0, 0, 1, 1, 2, 2]))
        tokens = decoder_input(target).tokens[:, :5]
        cache = model.init_cache(memory, beam=2)
        model.decode_step(cache, tokens[:, :3])
        rows = torch.tensor([1, 0, 3, 3, 4, 5])
        cache.reorder(rows)
        tokens = torch.cat((tokens[rows, :3], tokens[:, 3:]), 1)
        whole = PaddedSequences(tokens, decoder_side_segments(tokens), target.current)
        forced = model.decode(twice, whole)
        torch.testing.assert_close(model.decode_step(cache, tokens[:, 3:4]), forced[:, 3:4])
        kept = torch.tensor([4, 5, 1, 0])
        cache.select_rows(kept)
        torch.testing.assert_close(model.decode_step(cache, tokens[kept, 4:5]), forced[kept, 4:5])


@pytest.mark.parametrize("settings", [{}, {"attention": "group", "global_layers": (1,)}, {"positions": "rotary"}])
def test_nodes_of_abandoned_hypotheses_are_removed(settings: dict[str, Any]) -> None:
    """Two rows for each window; one of them is abandoned after three tokens, and in two windows again after four."""
    source, _ = pair()
    windows = [window(*n, seed=seed) for seed, n in enumerate([(2, 3), (1, 4), (3, 2), (5,), (1, 1, 1), (4, 1)])]
    target = side(*windows, current=[2, 2, 0, 0, 1, 1])
    model = tiny(3, **settings)
    memory = model.encode(source)
    tokens = decoder_input(target).tokens[:, :5].clone()
    cache = model.init_cache(memory, beam=2)
    model.decode_step(cache, tokens[:, :3])
    first, second = torch.tensor([1, 1, 2, 2, 4, 4]), torch.tensor([0, 0, 2, 3, 5, 5])
    cache.reorder(first)
    tokens[:, :3] = tokens[first, :3]
    model.decode_step(cache, tokens[:, 3:4])
    cache.reorder(second)
    tokens[:, :4] = tokens[second, :4]
    cache.prune(least=4)
    assert cache.length == 8  # the second window has five nodes on its branches, and so three columns are free
    cache.prune(least=3)
    assert (cache.length, int(cache.write_pos)) == (5, 5)
    forced = model.decode(
        memory.select(torch.tensor([0, 0, 1, 1, 2, 2])),
        PaddedSequences(tokens, decoder_side_segments(tokens), target.current),
    )
    torch.testing.assert_close(model.decode_step(cache, tokens[:, 4:5]), forced[:, 4:5])


def decoder_side_segments(tokens: Tensor) -> Tensor:
    """The start symbol is in segment 0; a loop counts separators."""
    return torch.tensor([[int((row[:t] == 3).sum()) if row[t] else -1 for t in range(len(row))] for row in tokens])


def test_candidates_share_a_prefix() -> None:
    """A prefix read once, then rows multiplied, is each candidate read from its start."""
    source, target = pair()
    model = tiny(3)
    memory = model.encode(source)
    cache = model.init_cache(memory)
    tokens = decoder_input(target).tokens
    model.decode_step(cache, tokens[:, :3])
    rows = torch.tensor([2, 0, 0, 1, 2])
    cache.select_rows(rows)
    ends = torch.tensor([[4, 5], [6, 3], [8, 9], [10, 11], [12, 13]])
    whole = torch.cat((tokens[rows, :3], ends), 1)
    forced = model.decode(
        memory.select(rows), PaddedSequences(whole, decoder_side_segments(whole), target.current[rows])
    )
    torch.testing.assert_close(model.decode_step(cache, ends), forced[:, 3:])


def test_hypotheses_longer_than_the_cache_was_made_for() -> None:
    target = side(window(100, 60))
    model = tiny(5, WindowSettings(before=2, max_tokens=200), heads=2)
    forced = model(target, target)
    stepped = step_by_step(model, model.encode(target), target, [1, 70, 1, 80, 10])
    torch.testing.assert_close(stepped, forced)


def test_the_first_token_is_the_start_symbol() -> None:
    source, target = pair()
    assert (decoder_input(target).tokens[:, 0] == START).all()
    model = tiny()
    cache = model.init_cache(model.encode(source))
    assert cache.length == 0
    torch.testing.assert_close(model.decode_step(cache, torch.full((3, 1), START)), model(source, target)[:, :1])


@pytest.mark.parametrize("kind", ["learned", "sinusoidal"])
def test_the_start_symbol_has_the_segment_embedding_of_the_current_sentence(kind: str) -> None:
    """The label of the authors' code, in teacher forcing and in the first step; context has other labels."""
    source, target = pair()
    model = tiny(3, segment_embeddings=kind)
    assert model.segment_embedding is not None
    encoded, target_input = model.encode(source), decoder_input(target)

    def first_position() -> Tensor:
        forced = model.decode(encoded, target_input)
        cache = model.init_cache(encoded, current=target.current)
        prefix = model.decode_step(cache, target_input.tokens[:, :2])  # what a forced prefix begins with
        torch.testing.assert_close(prefix, forced[:, :2])
        return forced[:, 0]

    before = first_position()
    with torch.no_grad():
        model.segment_embedding.table[2:] += 1.0  # of all context sentences
        torch.testing.assert_close(first_position(), before)
        model.segment_embedding.table[1] += torch.linspace(0, 1, 16)
        assert not torch.isclose(first_position(), before).all(1).any()


def test_windows_that_are_kept_continue() -> None:
    """Windows leave and others take their place, in a cache with more room than is used."""
    source, target = pair()
    model = tiny(3)
    memory = model.encode(source)
    cache = model.init_cache(memory, capacity=50)
    tokens = decoder_input(target).tokens
    model.decode_step(cache, tokens[:, :3])
    kept = torch.tensor([0, 2])
    cache.keep_windows(kept)
    forced = model.decode(
        memory.select(kept), PaddedSequences(tokens[kept], decoder_side_segments(tokens[kept]), target.current[kept])
    )
    torch.testing.assert_close(model.decode_step(cache, tokens[kept, 3:4]), forced[:, 3:4])
    cache.expand_beams(2)
    again = model.decode_step(cache, tokens[kept, 4:5].repeat_interleave(2, 0))
    torch.testing.assert_close(again, forced[:, 4:5].repeat_interleave(2, 0))
    assert cache.capacity == 50
