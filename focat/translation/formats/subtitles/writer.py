"""Cues with their translations: sentences laid over cues, broken into lines, and compared with the limits."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from focat.translation.formats.segments import SubtitleOptions
from focat.translation.formats.subtitles.cues import Cue, Piece, Syntax, Utterance, split_lines
from focat.translation.formats.subtitles.layout import (
    CLAUSE_END,
    READING_SPEED,
    Share,
    Word,
    break_lines,
    join_words,
    lay_over_cues,
    split_words,
)
from focat.translation.inline import InlineText
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence


@dataclass(frozen=True)
class CuePieces:
    """A cue, and the pieces of its text."""

    cue: Cue
    pieces: Sequence[Piece]
    syntax: Syntax

    @property
    def utterances(self) -> list[Utterance]:
        """What is said in it."""
        return [piece for piece in self.pieces if isinstance(piece, Utterance)]

    @property
    def first(self) -> Utterance | None:
        """The utterance that it begins with, if no text is before it that is copied."""
        return self._outermost(self.pieces)

    @property
    def last(self) -> Utterance | None:
        """The utterance that it ends with."""
        return self._outermost(self.pieces[::-1])

    def _outermost(self, pieces: Sequence[Piece]) -> Utterance | None:
        for piece in pieces:
            if isinstance(piece, Utterance):
                return piece
            if self.syntax.tag.sub("", piece).strip():
                return None
        return None


@dataclass(frozen=True)
class StrandSentence:
    """A sentence of a strand."""

    text: InlineText
    spans: Sequence[tuple[int, int, int]]
    """What each utterance has of it: the number of the utterance, and where its part begins and ends."""

    @property
    def input(self) -> InputSentence:
        """What is translated; aligned if it runs across cues, to know which words belong to which."""
        sentence = self.text.sentence
        return replace(sentence, align=True) if len(self.spans) > 1 else sentence


@dataclass(frozen=True)
class Strand:
    """What one person says without a pause for another."""

    utterances: Sequence[Utterance]
    sentences: Sequence[StrandSentence]


@dataclass(frozen=True)
class Block:
    """Cues that share sentences, and the text between them."""

    items: Sequence[str | CuePieces]
    strands: Sequence[Strand]

    @property
    def line(self) -> int:
        """Where the text of its first cue begins."""
        return next(item.cue.line for item in self.items if isinstance(item, CuePieces))

    @property
    def raw(self) -> str:
        """The block as it stands in the file."""
        return "".join(item if isinstance(item, str) else item.cue.text for item in self.items)

    @cached_property
    def inputs(self) -> list[str]:
        """The sentences that are translated."""
        return [sentence.text.sentence.text for strand in self.strands for sentence in strand.sentences]


class BlockWriter:
    """Writes a block with the translations of its sentences."""

    def __init__(self, block: Block, syntax: Syntax, options: SubtitleOptions, separator: str) -> None:
        self._block, self._syntax, self._options, self._separator = block, syntax, options, separator

    def write(self, translations: Sequence[Translation]) -> str:
        """The block as it is written; if every sentence is its own translation, as it was."""
        if [translation.text for translation in translations] == self._block.inputs:
            return self._block.raw
        return "".join(text for _, text in self._items(translations))

    def notes(self, translations: Sequence[Translation]) -> Iterator[tuple[str, int]]:
        """What was lost, and which limits are exceeded, each with the line of the cue."""
        for strand in self._block.strands:
            for utterance in strand.utterances:
                if utterance.lost:
                    yield f"{utterance.lost} could not be kept", utterance.cue.line
        for cue, text in self._items(translations):
            if cue is not None:
                yield from self._exceeded(cue, text)

    def _exceeded(self, cue: Cue, text: str) -> Iterator[tuple[str, int]]:
        options, syntax = self._options, self._syntax
        shown = [syntax.unescape(syntax.tag.sub("", line)).strip() for line, _ in split_lines(text, syntax.line_end)]
        shown = [line for line in shown if line]
        if options.line_length and any(len(line) > options.line_length for line in shown):
            yield f"longer than {options.line_length} characters", cue.line
        if options.max_lines and len(shown) > options.max_lines:
            yield f"more than {options.max_lines} lines", cue.line
        if options.reading_speed and sum(map(len, shown)) > options.reading_speed * (cue.end - cue.start):
            yield f"faster than {options.reading_speed:g} characters a second", cue.line

    def _items(self, translations: Sequence[Translation]) -> Iterator[tuple[Cue | None, str]]:
        """The text of each cue, and what is between them."""
        remaining = iter(translations)
        words: dict[int, list[Word]] = {}  # of each utterance
        for strand in self._block.strands:
            own = list(itertools.islice(remaining, len(strand.sentences)))
            for utterance, said in zip(strand.utterances, self._said(strand, own), strict=True):
                words[id(utterance)] = said
        for item in self._block.items:
            if isinstance(item, str):
                yield None, item
            elif not item.utterances:
                yield item.cue, item.cue.text
            else:
                most = self._options.max_lines and max(1, self._options.max_lines // len(item.utterances))
                pieces = (
                    piece if isinstance(piece, str) else self._written(piece, words[id(piece)], most)
                    for piece in item.pieces
                )
                yield item.cue, "".join(pieces)

    def _said(self, strand: Strand, translations: Sequence[Translation]) -> list[list[Word]]:
        """The words of each utterance of a strand."""
        said: list[list[Word]] = [[] for _ in strand.utterances]
        for sentence, translation in zip(strand.sentences, translations, strict=True):
            rendered = sentence.text.render(translation, self._syntax.escape)
            words = split_words(rendered, self._syntax.tag, self._syntax.unescape)
            if words:
                words[0] = replace(words[0], spaced=bool(self._separator))
            if len(sentence.spans) < 2:
                said[sentence.spans[0][0] if sentence.spans else 0] += words
                continue
            cues = [strand.utterances[i].cue for i, _, _ in sentence.spans]
            plain = sentence.text.sentence.text
            shares = [
                Share(end - start, cue.end - cue.start, plain[:end].rstrip()[-1:] in CLAUSE_END)
                for cue, (_, start, end) in zip(cues, sentence.spans, strict=True)
            ]
            belongs = _belongs(words, translation, sentence.spans)
            parts = lay_over_cues(words, shares, self._options.reading_speed or READING_SPEED, belongs)
            for (i, _, _), part in zip(sentence.spans, self._balanced(parts), strict=True):
                said[i] += part
        return said

    def _written(self, utterance: Utterance, words: list[Word], most: int | None) -> str:
        """An utterance with these words, broken into lines."""
        if words and utterance.lead:
            words = [Word(utterance.lead + words[0].written, utterance.lead + words[0].shown), *words[1:]]
        if words and utterance.trail:
            words = [*words[:-1], words[-1].extended(utterance.trail, utterance.trail)]
        opening, closing = utterance.each_line
        first, *others = map(join_words, break_lines(words, utterance.lines, utterance.width, most))
        last = len(others)
        lines = (
            f"{opening}{utterance.before * (i == 0)}{line}{utterance.after * (i == last)}{closing}"
            for i, line in enumerate([first, *others])
        )
        return utterance.line_end.join(lines)

    def _balanced(self, parts: Sequence[Sequence[Word]]) -> list[list[Word]]:
        """The words of each cue; tags that enclose words of two cues are closed in the one and opened in the other."""
        balanced = [list(part) for part in parts]
        for i, (part, following) in enumerate(itertools.pairwise(balanced)):
            if not part or not following:
                continue
            later = [tag for each in balanced[i + 1 :] for word in each for tag in self._tags(word)]
            opened: list[tuple[str, str]] = []  # text and name
            for tag_text, kind, name in itertools.chain.from_iterable(map(self._tags, part)):
                if kind == "open":
                    opened.append((tag_text, name))
                elif kind == "close" and opened and opened[-1][1] == name:
                    opened.pop()
            for tag_text, name in reversed(opened):
                close = next((text for text, kind, other in later if kind == "close" and other == name), None)
                if close is not None:
                    part[-1] = part[-1].extended(close)
                    following[0] = replace(following[0], written=tag_text + following[0].written)
        return balanced

    def _tags(self, word: Word) -> Iterator[tuple[str, str, str]]:
        for text in self._syntax.tag.findall(word.written):
            tag = self._syntax.tag_of(text)
            yield text, tag.kind, tag.name


def _belongs(
    words: Sequence[Word], translation: Translation, spans: Sequence[tuple[int, int, int]]
) -> list[list[float]] | None:
    """For each word, how much it belongs to each part of the sentence, by the alignment with the source."""
    alignment = translation.alignment
    if alignment is None:
        return None
    part_of = [  # of each source word
        next((i for i, (_, _, end) in enumerate(spans) if start < end), len(spans) - 1) for start, _ in alignment.source
    ]
    by_part = np.stack([alignment.weights[:, np.equal(part_of, i)].sum(1) for i in range(len(spans))], 1)
    ends = [end for _, end in alignment.target]
    found: list[list[float]] = []
    position = 0
    for word in words:
        start = position
        while start < len(translation.text) and translation.text[start].isspace():
            start += 1
        position = start + len(word.shown)
        shares = np.zeros(len(spans))
        for j in range(bisect.bisect_right(ends, start), len(ends)):
            begin, end = alignment.target[j]
            if begin >= position:
                break
            shares += (min(end, position) - max(begin, start)) * by_part[j]
        total = shares.sum()
        found.append((shares / total).tolist() if total else [1 / len(spans)] * len(spans))
    return found
