"""Segment embeddings: which index each sentence has, and what each kind of table holds."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focat.config.schema import WindowSettings
from focat.errors import FocatError
from focat.model.embeddings import SegmentEmbedding, distance_index
from focat.windows.segments import decoder_input
from tests.model.examples import side, tiny, window


def slow_index(segment: int, current: int, before: int, after: int) -> int:
    """Count sentences from the current one: first the ones before it, then the ones after it."""
    order = [current - d for d in range(before + 1)] + [current + d for d in range(1, after + 1)]
    return order.index(segment) + 1


def test_the_current_sentence_is_one_and_the_previous_two() -> None:
    example = side(window(2, 1, 1), window(1), pads=1)
    assert distance_index(example.segments, example.current_segments, 2, 0).tolist() == [
        [3, 3, 3, 2, 2, 1, 1, 0],
        [1, 1, 0, 0, 0, 0, 0, 0],
    ]


def test_the_start_symbol_is_in_the_first_sentence() -> None:
    example = decoder_input(side(window(1, 1)))
    assert distance_index(example.segments, example.current_segments, 2, 0).tolist() == [[2, 2, 2, 1]]


@given(st.integers(0, 3), st.integers(0, 3), st.data())
def test_indices_count_sentences(before: int, after: int, data: st.DataObject) -> None:
    current = data.draw(st.integers(0, before))
    following = data.draw(st.integers(0, after))
    segments = list(range(current + following + 1))
    found = distance_index(torch.tensor([segments]), torch.tensor([[current]]), before, after)
    assert found.tolist() == [[slow_index(segment, current, before, after) for segment in segments]]


def test_a_sentence_outside_the_window_counts_as_the_last_inside() -> None:
    segments = torch.tensor([[0, 1, 2, 3, 4, 5, 6]])
    assert distance_index(segments, torch.tensor([[3]]), 2, 1).tolist() == [[3, 3, 2, 1, 4, 4, 4]]
    assert distance_index(segments, torch.tensor([[3]]), 2, 0).tolist() == [[3, 3, 2, 1, 1, 1, 1]]


def test_tables() -> None:
    windows, width = WindowSettings(before=2), 8
    one_hot = SegmentEmbedding("one-hot", windows, width).table
    assert one_hot.tolist() == [[float(i == j and i > 0) for j in range(width)] for i in range(4)]
    sinusoidal = SegmentEmbedding("sinusoidal", windows, width).table
    for index in (1, 2, 3):
        angles = [index / 10000 ** (i / 3) for i in range(4)]
        wanted = [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
        assert sinusoidal[index].tolist() == pytest.approx(wanted, abs=1e-6)
    assert not sinusoidal[0].any()
    learned = SegmentEmbedding("learned", windows, width)
    assert [name for name, _ in learned.named_parameters()] == ["table"]
    assert not learned.table[0].any()
    assert learned.table[1:].any(1).all()


def test_one_hot_needs_a_wide_enough_model() -> None:
    with pytest.raises(FocatError, match=r"model\.d_model of 10"):
        SegmentEmbedding("one-hot", WindowSettings(before=8), 8)


def test_encoder_and_decoder_share_one_table() -> None:
    model = tiny(segment_embeddings="learned")
    assert [name for name, _ in model.named_parameters() if "segment" in name] == ["segment_embedding.table"]


@pytest.mark.parametrize("where", ["input", "every-layer"])
def test_persistent_embeddings_enter_every_layer_once(where: str) -> None:
    """Layers that pass their input on unchanged show how often the embedding was added."""
    model = tiny(segment_embeddings="one-hot", segment_embeddings_at=where, norm="pre", encoder_layers=3)
    plain = tiny(norm="pre", encoder_layers=3)
    source = side(window(2, 1))
    for each in (model, plain):
        each.encoder_norm = torch.nn.Identity()
        for layer in each.encoder:
            layer.forward = lambda x, *_: x
    plain.load_state_dict(model.state_dict(), strict=False)
    added = model.encode(source).hidden - plain.encode(source).hidden
    times = 3 if where == "every-layer" else 1
    expected = torch.eye(16)[distance_index(source.segments, source.current_segments, 2, 0)] * times
    torch.testing.assert_close(added, expected.double())
