"""Shifted positions against a loop over tokens and the paper's own example; sinusoids against scalar arithmetic."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focat.choices import SINUSOIDS, Sinusoids
from focat.config.schema import WindowSettings
from focat.corpus.vocabulary import SEPARATOR
from focat.model.positions import (
    apply_rope,
    furthest_position,
    rope_angles,
    sequence_shift,
    shifted_positions,
    sinusoids,
)
from focat.windows.segments import decoder_input
from tests.model.examples import side, tiny, window

LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def slow_positions(tokens: list[int], shift: int) -> list[int]:
    """Walk through a window; after a separator, jump."""
    positions, jumped = [], 0
    for index, token in enumerate(tokens):
        positions.append(index + jumped)
        jumped += shift * (token == SEPARATOR)
    return positions


def test_the_papers_example() -> None:
    example = side(window(2, 1, 1))  # a b <S> c <S> d <E>
    positions = shifted_positions(example.segments, torch.tensor([10]))
    assert positions.tolist() == [[0, 1, 2, 13, 14, 25, 26]]


def test_the_start_symbol_is_not_shifted() -> None:
    example = decoder_input(side(window(2, 1, 1)))  # <start> a b <S> c <S> d
    positions = shifted_positions(example.segments, torch.tensor([10]))
    assert positions.tolist() == [[0, 1, 2, 3, 14, 15, 26]]


@given(st.lists(LENGTHS, min_size=1, max_size=4), st.integers(0, 30), st.integers(0, 3))
def test_positions_are_those_of_a_walk(lengths: list[list[int]], shift: int, pads: int) -> None:
    windows = [window(*each) for each in lengths]
    positions = shifted_positions(side(*windows, pads=pads).segments, torch.full((len(windows),), shift))
    for tokens, found in zip(windows, positions.tolist(), strict=True):
        assert found[: len(tokens)] == slow_positions(tokens, shift)


def test_padding_in_front_moves_nobody() -> None:
    segments = torch.tensor([[-1, -1, 0, 0, 1, 1]])
    assert shifted_positions(segments, torch.tensor([5]))[0, 2:].tolist() == [0, 1, 7, 8]


def test_the_mean_of_a_window_counts_separators_and_the_end() -> None:
    source = side(window(2, 1, 1), window(4), window(3, 2))  # 7/3, 5/1, 7/2
    assert sequence_shift(source).tolist() == [3, 5, 4]


@given(LENGTHS, st.integers(0, 3))
def test_the_mean_of_a_window_is_that_of_a_count(lengths: list[int], pads: int) -> None:
    tokens = window(*lengths)
    assert sequence_shift(side(tokens, pads=pads)).tolist() == [math.ceil(len(tokens) / len(lengths))]


@given(LENGTHS, LENGTHS)
def test_learned_positions_cover_every_window(source: list[int], target: list[int]) -> None:
    longest = max(len(window(*source)), len(window(*target)), 8)
    settings = WindowSettings(before=len(source) - 1, max_tokens=longest)
    tokens = window(*target[: len(source)])
    mean = sequence_shift(side(window(*source)))
    for shift, rows in ((int(mean), furthest_position(settings, "avg-sequence")), (7, furthest_position(settings, 7))):
        assert max(slow_positions(tokens, shift)) < rows


@pytest.mark.parametrize("kind", SINUSOIDS)
@pytest.mark.parametrize("width", [2, 8, 512])
def test_sinusoids_are_the_published_table(width: int, kind: Sinusoids) -> None:
    positions = [0, 1, 2, 13, 99, 1300]
    found = sinusoids(torch.tensor([positions]), width, kind)[0]
    half = width // 2
    last = half if kind == "marian" else max(half - 1, 1)
    for row, position in zip(found.tolist(), positions, strict=True):
        angles = [position / 10000 ** (i / last) for i in range(half)]
        wanted = [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
        assert row == pytest.approx(wanted, abs=1e-7 * (position + 5))  # an angle in float32 has seven digits


def test_rope_rotates_pairs_by_position() -> None:
    x = torch.randn(1, 1, 3, 8)
    found = apply_rope(x, rope_angles(torch.tensor([[0, 5, 9]]), 8))
    for t, position in enumerate([0, 5, 9]):
        for i in range(4):
            pair = complex(x[0, 0, t, i], x[0, 0, t, i + 4])
            angle = position / 10000 ** (i / 4)
            turned = pair * complex(math.cos(angle), math.sin(angle))
            assert complex(found[0, 0, t, i], found[0, 0, t, i + 4]) == pytest.approx(turned, abs=1e-5)


def test_a_runaway_hypothesis_stays_on_the_learned_table() -> None:
    model = tiny(shift=10, positions="learned")
    far = side(window(30, 2, 2, 2, 2, 2))  # more sentences and tokens than any window may have
    assert model(far, far).isfinite().all()
