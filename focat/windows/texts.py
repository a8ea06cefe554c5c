"""Windows of text, as users and test suites have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from focat.corpus.tokenizer import Tokenizer, Vocabulary
from focat.windows.batch import Batch, PaddedSequences
from focat.windows.builder import join_window, pad_windows


@dataclass(frozen=True)
class WindowText:
    """The sentences of a window on both sides; the last of each is the current one."""

    source: Sequence[str]
    target: Sequence[str]


def batch_texts(tokenizer: Tokenizer, windows: Sequence[WindowText]) -> Batch:
    """Tokenize windows and pad them to a batch; its `sentences` are their indices in the list."""
    return Batch(
        pad_texts(tokenizer.source, [window.source for window in windows]),
        pad_texts(tokenizer.target, [window.target for window in windows]),
        torch.arange(len(windows)),
    )


def pad_texts(vocabulary: Vocabulary, windows: Sequence[Sequence[str]]) -> PaddedSequences:
    """Tokenize and pad one side of windows, each a list of sentences with the current one last."""
    joined = [join_window(map(vocabulary.encode, sentences)) for sentences in windows]
    return pad_windows(joined, [len(sentences) - 1 for sentences in windows])
