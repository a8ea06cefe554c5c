"""Masks against loops over queries and keys."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focat.config.schema import ModelSettings, WindowSettings
from focat.corpus.vocabulary import SEPARATOR, START
from focat.errors import FocatError
from focat.model import masks
from focat.windows.batch import PaddedSequences
from focat.windows.segments import decoder_input
from tests.model.examples import pair, side, tiny, window

LENGTHS = st.lists(st.integers(1, 4), min_size=1, max_size=3)


def slow_mask(query_sentences: list[int], key_sentences: list[int], visible: list[list[bool]]) -> list[list[bool]]:
    """Own sentence if anything of it is visible, else all that is."""
    mask = []
    for query, sees in zip(query_sentences, visible, strict=True):
        own = [query == key and seen for key, seen in zip(key_sentences, sees, strict=True)]
        mask.append(own if any(own) else sees)
    return mask


def labels(target: PaddedSequences) -> list[list[int]]:
    """The sentence of the label that each decoder position predicts: what the masks of the decoder go by."""
    return [[max(segment, 0) for segment in row] for row in target.segments.tolist()]


def test_a_decoder_position_is_in_the_sentence_of_its_label() -> None:
    target = side(window(2, 1, 3), window(2), window(2, 2))
    opened = masks.opened_segments(decoder_input(target))
    real = target.segments >= 0
    assert (opened == target.segments)[real].all()
    tokens = torch.tensor([[START, 9, SEPARATOR, SEPARATOR, 9]])
    assert masks.opened_segments(replace(target, tokens=tokens)).tolist() == [[0, 0, 1, 2, 2]]


@given(st.lists(LENGTHS, min_size=1, max_size=3), st.integers(0, 2))
def test_own_sentence_in_the_encoder(lengths: list[list[int]], pads: int) -> None:
    source = side(*(window(*each) for each in lengths), pads=pads)
    visible = masks.padding_mask(source.segments >= 0)
    found = masks.own_sentence_mask(source.segments, source.segments, visible)[:, 0]
    for segments, mask in zip(source.segments.tolist(), found.tolist(), strict=True):
        real = [segment >= 0 for segment in segments]
        assert mask == slow_mask(segments, segments, [real] * len(segments))


@given(LENGTHS)
def test_own_sentence_in_the_decoder(lengths: list[int]) -> None:
    target_input = decoder_input(side(window(*lengths)))
    opened = masks.opened_segments(target_input)
    length = opened.shape[1]
    found = masks.own_sentence_mask(opened, opened, masks.causal_mask(length, length, opened.device))[0, 0]
    for q in range(length):
        for k in range(length):
            assert found[q, k] == (k <= q and opened[0, q] == opened[0, k])


@given(st.integers(1, 4), st.lists(st.booleans(), min_size=4, max_size=7))
def test_causality_over_padding(queries: int, real: list[bool]) -> None:
    found = masks.causal_mask_with_padding(torch.tensor([real]), queries)[0, 0]
    for q in range(queries):
        at = len(real) - queries + q
        assert found[q].tolist() == [k == at or (k < at and real[k]) for k in range(len(real))]


def test_long_short_and_group() -> None:
    own, visible = torch.eye(3, dtype=torch.bool)[None, None], torch.ones(1, 1, 1, 3, dtype=torch.bool)
    mask = masks.long_short_mask(own, visible, heads=4, local_heads=3)
    assert mask.shape == (1, 4, 3, 3)
    for head in range(4):
        assert torch.equal(mask[0, head], own[0, 0] if head < 3 else visible.expand(1, 1, 3, 3)[0, 0])
    group = ModelSettings(preset="tiny", attention="group", global_layers=(1, 3))
    found = masks.group_masks(group, 4, "encoder", own, visible)
    assert [mask is visible for mask in found] == [False, True, False, True]
    gated = ModelSettings(preset="tiny", attention="gated-group", global_layers=(1, 3))
    found = masks.group_masks(gated, 4, "encoder", own, visible)
    assert [isinstance(mask, masks.GatedMask) for mask in found] == [False, True, False, True]
    assert found[1] == (own, visible)


def test_the_top_two_layers_are_global_by_default() -> None:
    segments = torch.tensor([[0, 1]])
    visible = masks.padding_mask(segments >= 0)
    for layers, given_layers, wanted in ((4, None, [2, 3]), (1, None, [0]), (3, (0,), [0])):
        chosen = ModelSettings(preset="tiny", attention="group", global_layers=given_layers)
        found = masks.layer_masks(chosen, layers, segments, segments, visible, "encoder")
        assert [i for i, mask in enumerate(found) if mask is visible] == wanted


@pytest.mark.parametrize("pattern", ["full", "long-short", "group", "gated-group"])
@settings(max_examples=15, deadline=None)
@given(LENGTHS, LENGTHS)
def test_attention_weights_are_zero_where_masked(
    pattern: str, source_lengths: list[int], target_lengths: list[int]
) -> None:
    """The whole model, s3to3 or s3to1: a weight is zero exactly where a walk through the window says so."""
    source, target = side(window(*source_lengths), pads=2), side(window(*target_lengths), pads=1)
    chosen = (
        {"local_heads": 1} if pattern == "long-short" else {"global_layers": (1,)} if pattern.endswith("group") else {}
    )
    model = tiny(attention=pattern, **chosen)
    weights = model.attention(source, target)
    real = [segment >= 0 for segment in source.segments[0].tolist()]
    source_distance = (source.current[:, None] - source.segments)[0].tolist()
    opened = labels(target)[0][: len(window(*target_lengths))]
    target_distance = [int(target.current) - sentence for sentence in opened]
    before = [[k <= q for k in range(len(opened))] for q in range(len(opened))]
    cases = (
        (weights.encoder, source_distance, source_distance, [real] * len(real)),
        (weights.decoder, target_distance, target_distance, before),
        (weights.cross, target_distance, source_distance, [real] * len(opened)),
    )
    for layers, queries, keys, visible in cases:
        local = slow_mask(queries, keys, visible)
        for layer, found in enumerate(layers):
            for head in range(4):
                is_local = (pattern == "long-short" and head < 1) or (pattern.endswith("group") and layer == 0)
                shown = (found[0, head, : len(queries), : len(keys)] > 0).tolist()
                assert shown == (local if is_local else visible)


@pytest.mark.parametrize("pattern", ["long-short", "group", "gated-group"])
def test_more_sentences_than_the_source_has(pattern: str) -> None:
    source, _ = pair()
    target = side(window(1, 1, 1, 1), window(1, 1, 1), window(1, 2, 1, 1), current=[2, 0, 1])
    assert tiny(attention=pattern)(source, target).isfinite().all()


def test_a_layer_that_does_not_exist_is_refused() -> None:
    with pytest.raises(FocatError, match=r"layer 2: layers are counted from 0 to 1"):
        tiny(attention="group", global_layers=(0, 2))


def test_the_decoder_may_have_other_global_layers() -> None:
    """Ma et al. (2020): context enters by the lower layers of the encoder; top layers and decoder see the current one.

    So another context changes the current sentence's states, and what the decoder sees of context sentences does not
    count.
    """
    windows = WindowSettings(before=2, target_before=0, max_tokens=40)
    model = tiny(0, windows, attention="group", global_layers=(0,), decoder_global_layers=())
    context, other, current, target = window(2, seed=1), window(2, seed=2), window(3, seed=3), side(window(2, seed=4))
    source = side([*context[:-1], SEPARATOR, *current])
    changed = side([*other[:-1], SEPARATOR, *current])
    assert not torch.allclose(model(source, target), model(changed, target))
    encoded = model.encode(source)
    of_context = (source.segments == 0)[..., None]
    damaged = replace(encoded, hidden=torch.where(of_context, torch.randn_like(encoded.hidden), encoded.hidden))
    given = decoder_input(target)
    torch.testing.assert_close(model.decode(damaged, given), model.decode(encoded, given))
    full = tiny(0, windows, attention="group", global_layers=(0,))
    assert not torch.allclose(full.decode(damaged, given), full.decode(encoded, given))
