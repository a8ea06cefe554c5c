"""Segments against an example worked out by hand, and against a walk over tokens one by one."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from focat.corpus.vocabulary import END, PAD, SEPARATOR, START
from focat.windows.batch import PaddedSequences
from focat.windows.segments import decoder_input, segments_of
from tests.windows.corpora import many

A, B, C, D = 10, 11, 12, 13
WINDOW = [A, B, SEPARATOR, C, SEPARATOR, D, END]

# Windows as lists of sentences; an empty one is nothing but its separator.
windows = st.lists(st.lists(st.lists(st.integers(4, 30), max_size=4), min_size=1, max_size=5), min_size=1, max_size=5)


def joined(sentences: list[list[int]]) -> tuple[list[int], list[int]]:
    """The tokens of a window and the sentence of each, written down sentence by sentence."""
    tokens, segments = [], []
    for index, sentence in enumerate(sentences):
        closing = END if index == len(sentences) - 1 else SEPARATOR
        for token in [*sentence, closing]:
            tokens.append(token)
            segments.append(index)
    return tokens, segments


def padded(rows: list[list[int]], filler: int) -> torch.Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [filler] * (longest - len(row)) for row in rows])


def test_a_separator_belongs_to_the_sentence_it_closes() -> None:
    assert segments_of(torch.tensor([WINDOW])).tolist() == [[0, 0, 0, 1, 1, 2, 2]]


def test_shifted_positions_of_the_example_follow_from_segments() -> None:
    # With shift 10, `a b <S> c <S> d <E>` stands at 0 1 2 13 14 25 26.
    positions = torch.arange(len(WINDOW)) + 10 * segments_of(torch.tensor([WINDOW]))
    assert positions.tolist() == [[0, 1, 2, 13, 14, 25, 26]]


def test_padding_has_no_segment() -> None:
    tokens = torch.tensor([[A, SEPARATOR, B, END], [C, END, PAD, PAD]])
    assert segments_of(tokens).tolist() == [[0, 0, 1, 1], [0, 0, -1, -1]]


@many
@given(windows)
def test_segments_equal_a_walk_over_sentences(windows: list[list[list[int]]]) -> None:
    rows = [joined(sentences) for sentences in windows]
    tokens = padded([tokens for tokens, _ in rows], PAD)
    assert segments_of(tokens).tolist() == padded([segments for _, segments in rows], -1).tolist()


def test_the_decoder_reads_the_example_one_step_later() -> None:
    tokens = torch.tensor([WINDOW])
    read = decoder_input(PaddedSequences(tokens, segments_of(tokens), torch.tensor([2])))
    assert read.tokens.tolist() == [[START, A, B, SEPARATOR, C, SEPARATOR, D]]
    # The start symbol is in segment 0, and a separator still belongs to the sentence it closes.
    assert read.segments.tolist() == [[0, 0, 0, 0, 1, 1, 2]]
    assert read.current.tolist() == [2]


@many
@given(windows)
def test_decoder_input_equals_a_walk_over_tokens(windows: list[list[list[int]]]) -> None:
    rows = [joined(sentences) for sentences in windows]
    tokens, segments = padded([row[0] for row in rows], PAD), padded([row[1] for row in rows], -1)
    target = PaddedSequences(tokens, segments, torch.tensor([len(sentences) - 1 for sentences in windows]))
    before = tokens.clone(), segments.clone()

    read = decoder_input(target)
    for row in range(len(windows)):
        for step in range(tokens.shape[1]):
            seen = (START, 0) if step == 0 else (tokens[row, step - 1].item(), segments[row, step - 1].item())
            assert (read.tokens[row, step].item(), read.segments[row, step].item()) == seen
    # What must be produced stays as it was: the loss still needs it.
    assert torch.equal(target.tokens, before[0])
    assert torch.equal(target.segments, before[1])
