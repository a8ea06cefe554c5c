"""Where the tags of a sentence go in its translation: a range of target words for each tag, by word alignment.

Tags form a tree. Inside the range of its parent, a tag gets the contiguous words whose alignment falls on its own
words most; tags beside each other get words that do not overlap. So they are well nested whatever the alignment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float64]

_LEAST = 0.1  # of a word's alignment: with less, it is not taken for the translation of a tag's words


@dataclass(frozen=True)
class Element:
    """A tag with what it encloses, or a tag that stands for itself."""

    start: int
    """The first source word that it encloses."""
    end: int
    """The first source word behind it."""
    children: Sequence[Element] = ()
    is_cut: bool = False
    """Whether it divides its sentence: the other end of it is in another sentence."""


@dataclass
class Placement:
    """Where an element goes, in target words."""

    start: int
    end: int
    children: list[Placement] = field(default_factory=list)


def place_elements(elements: Sequence[Element], weights: Weights) -> list[Placement]:
    """Place the elements of a sentence.

    Args:
        elements: in the order of the source, none overlapping another.
        weights: (target words, source words), how much each target word belongs to each source word.

    Returns:
        A placement for each element. Those with words do not overlap; those without stand between others.
    """
    found: list[Placement] = []
    start, waiting = 0, list[Element]()
    for element in elements:
        if not element.is_cut:
            waiting.append(element)
            continue
        cut = _best_cut(weights, element.start, range(start, len(weights) + 1))
        found += [*_place(waiting, weights, range(start, cut), None), Placement(cut, cut)]
        start, waiting = cut, []
    return found + _place(waiting, weights, range(start, len(weights)), None)


def _place(elements: Sequence[Element], weights: Weights, words: range, parent: Element | None) -> list[Placement]:
    """Place elements among these target words, which are those of their parent."""
    taken: list[range] = []
    found: dict[int, Placement] = {}
    first, last = (0, weights.shape[1]) if parent is None else (parent.start, parent.end)
    for i, element in enumerate(elements):
        if element.start == element.end:
            continue
        whole = (element.start, element.end) == (first, last)
        chosen = words if whole and not taken else _best_range(weights, element, _free(words, taken))
        if chosen:
            taken.append(chosen)
            inner = _place(element.children, weights, chosen, element)
            found[i] = Placement(chosen.start, chosen.stop, inner)
    between = [gap for gap in range(words.start, words.stop + 1) if not any(_inside(gap, r) for r in taken)]
    for i, element in enumerate(elements):
        if i not in found:
            gap = _best_cut(weights, element.start, between)
            found[i] = Placement(gap, gap, _place(element.children, weights, range(gap, gap), element))
    return [found[i] for i in range(len(elements))]


def _best_range(weights: Weights, element: Element, free: Iterator[range]) -> range | None:
    """The words with the most gain, where a word gains what it has of the element and loses the rest."""
    mass = weights[:, element.start : element.end].sum(1)
    best, most = None, 0.0
    likeliest, likeliest_mass = None, _LEAST
    for words in free:
        total, start = 0.0, words.start
        for i in words:
            if total <= 0.0:
                total, start = 0.0, i
            total += 2.0 * mass[i] - 1.0
            if total > most:
                best, most = range(start, i + 1), total
            if mass[i] > likeliest_mass:
                likeliest, likeliest_mass = range(i, i + 1), mass[i]
    return best or likeliest


def _best_cut(weights: Weights, source_cut: int, gaps: Sequence[int]) -> int:
    """The gap between target words that divides them as the source words are divided."""
    side = weights[:, :source_cut].sum(1) - weights[:, source_cut:].sum(1)
    before = np.concatenate([[0.0], np.cumsum(side)])  # by gap
    return max(gaps, key=lambda gap: before[gap])  # the first of several


def _free(words: range, taken: Sequence[range]) -> Iterator[range]:
    """The words that are not taken, in runs."""
    start = words.start
    for other in sorted(taken, key=lambda r: r.start):
        if start < other.start:
            yield range(start, other.start)
        start = other.stop
    if start < words.stop:
        yield range(start, words.stop)


def _inside(gap: int, words: range) -> bool:
    return words.start < gap < words.stop
