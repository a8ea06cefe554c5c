"""Where words begin and end between tokens, so that a search can tell a word from a part of a longer one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focat.corpus.vocabulary import SPECIALS

_SPACE_MARK = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>$")
# Thai, Lao, Tibetan, Burmese, Khmer, kana, Chinese: words are not separated, so that every character is a boundary
UNSPACED = "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"


@dataclass(frozen=True)
class WordBoundaries:
    """For each token, (vocabulary,) each; special tokens are boundaries."""

    before: NDArray[np.bool_]
    """Whether a word before it has ended: it begins with a space or with punctuation."""
    after: NDArray[np.bool_]
    """Whether a word may begin after it without a space: it ends with a space or with punctuation."""


def word_boundaries(pieces: Sequence[str]) -> WordBoundaries:
    """The boundaries between tokens, given SentencePiece's pieces that follow the special tokens."""
    texts = [_text(piece) for piece in pieces]
    before, after = (np.ones(SPECIALS + len(pieces), np.bool_) for _ in range(2))
    before[SPECIALS:] = [not _in_word(text[:1]) for text in texts]
    after[SPECIALS:] = [not _in_word(text[-1:]) for text in texts]
    return WordBoundaries(before, after)


def _text(piece: str) -> str:
    """The text of a piece; a byte that is not a character alone is taken for a letter."""
    byte = _BYTE.match(piece)
    if byte is None:
        return piece
    code = int(byte[1], 16)
    return chr(code) if code < 128 else "x"


def _in_word(character: str) -> bool:
    """Whether words continue through this character."""
    if not character or character == _SPACE_MARK or re.match(UNSPACED, character):
        return False
    return character == "_" or unicodedata.category(character)[0] in "LMN"
