"""A document: the sentences of one text in order, with their translations. What every reader produces."""

from __future__ import annotations

from dataclasses import dataclass

SENTENCE_BREAK = " _eos "
"""Stands between the sentences of a line in the files of Voita et al. (2019)."""


@dataclass(frozen=True)
class Document:
    """Sentence `i` of `source` is translated by sentence `i` of `target`; both lists are of the same length."""

    name: str
    source: list[str]
    target: list[str]
