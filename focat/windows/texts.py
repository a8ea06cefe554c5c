"""Windows of plain sentences, as users and test suites have them, rather than of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from focat.corpus.tokenizer import Tokenizer, Vocabulary
from focat.corpus.vocabulary import END, PAD, SEPARATOR
from focat.windows.batch import Batch, Side
from focat.windows.segments import segments_of


@dataclass(frozen=True)
class WindowText:
    """The sentences of a window on both sides; the last of each is the current one."""

    source: Sequence[str]
    target: Sequence[str]


def batch_of_texts(tokenizer: Tokenizer, windows: Sequence[WindowText]) -> Batch:
    """A batch of these windows; its `sentences` are their places in the list."""
    return Batch(
        side_of_texts(tokenizer.source, [window.source for window in windows]),
        side_of_texts(tokenizer.target, [window.target for window in windows]),
        torch.arange(len(windows)),
    )


def side_of_texts(vocabulary: Vocabulary, windows: Sequence[Sequence[str]]) -> Side:
    """One side of windows, each a list of sentences with the current one last."""
    rows = [_joined([vocabulary.encode(sentence) for sentence in sentences]) for sentences in windows]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    return Side(tokens, segments_of(tokens), torch.tensor([len(sentences) - 1 for sentences in windows]))


def _joined(sentences: list[list[int]]) -> Tensor:
    tokens = [token for sentence in sentences for token in (*sentence, SEPARATOR)]
    return torch.tensor([*tokens[:-1], END])
