"""What is kept between the steps of decoding: the encoded source, and what the decoder has read so far.

The hypotheses of a window have much in common: they are the branches of a tree, whose nodes are the tokens read. Keys
and values of a node are kept once, and a hypothesis is the set of nodes on its branch, which it attends to. To go on
with other hypotheses is then to note other sets; keys and values are never copied for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from focat.corpus.vocabulary import PAD, SEPARATOR
from focat.model.attention import Past
from focat.model.masks import causal_over
from focat.windows.batch import PaddedSequences

BLOCK = 64  # tokens of each hypothesis for which room is made at a time


@dataclass(frozen=True)
class Memory:
    """Encoded windows."""

    hidden: Tensor  # (windows, source length, width)
    source: PaddedSequences
    shift: Tensor  # (windows,) segment shift of each window, for both sides

    def select(self, rows: Tensor) -> Memory:
        """Some windows, in any order, any number of times: say, one for each candidate translation."""
        return Memory(self.hidden[rows], self.source.map(lambda tensor: tensor[rows]), self.shift[rows])


@dataclass(frozen=True)
class Reading:
    """Where new tokens stand in their trees; `queries` is beam · new, the tokens of one hypothesis side by side."""

    visible: Tensor  # (windows, 1, queries, columns) what lies on the branch of each token, itself included
    sentences: Tensor  # (windows, columns) the sentence each node helps to produce
    queries: Tensor  # (windows, queries) the same of the new tokens alone
    pasts: list[Past]  # of each layer


@dataclass
class DecoderCache:
    """Hypotheses in the making: `beam` for each window of the memory. A row is one of them, (window, hypothesis)."""

    past: Tensor  # (layers, 2, windows, capacity, heads, head width) keys and values of all nodes
    branch: Tensor  # (windows, beam, capacity) the nodes that each hypothesis consists of
    sentences: Tensor  # (windows, capacity) the sentence each node helps to produce: separators up to and including it
    read: Tensor  # (windows, beam) tokens of each hypothesis, from the start symbol on; PAD does not count
    closed: Tensor  # (windows, beam) separators among them
    used: Tensor  # () columns in use, where the device can see it
    remembered: Tensor  # (layers, 2, windows, heads, source length, head width) keys and values of the source
    source: PaddedSequences
    shift: Tensor  # (windows,)
    current: Tensor  # (windows,) segment of the current sentence on the target
    length: int = 0  # columns in use

    @classmethod
    def joined(cls, parts: Sequence[DecoderCache], room: int) -> DecoderCache:
        """The windows of several caches of as many hypotheses, with room for so many columns.

        Columns and source tokens that a part does not have are on no branch and in no segment.
        """
        length = max(part.length for part in parts)
        first = parts[0].past
        windows = [len(part.current) for part in parts]
        past = first.new_empty(*first.shape[:2], sum(windows), room, *first.shape[4:])
        for part, into in zip(parts, torch.split(past, windows, 2), strict=True):
            into[:, :, :, : part.length] = part.past[:, :, :, : part.length]
            into[:, :, :, part.length : length] = 0  # no mask would stop a NaN

        def cat(tensors: list[Tensor], columns: int, fill: int = 0) -> Tensor:
            return torch.cat([F.pad(tensor, (0, columns - tensor.shape[-1]), value=fill) for tensor in tensors])

        sides = [part.source for part in parts]
        longest = max(side.tokens.shape[1] for side in sides)
        return cls(
            past=past,
            branch=cat([part.branch[..., : part.length] for part in parts], room),
            sentences=cat([part.sentences[..., : part.length] for part in parts], room),
            read=torch.cat([part.read for part in parts]),
            closed=torch.cat([part.closed for part in parts]),
            used=parts[0].used.new_full((), length),
            remembered=torch.cat(
                [F.pad(part.remembered, (0, 0, 0, longest - part.remembered.shape[-2])) for part in parts], 2
            ),
            source=PaddedSequences(
                cat([side.tokens for side in sides], longest, PAD),
                cat([side.segments for side in sides], longest, -1),
                torch.cat([side.current for side in sides]),
            ),
            shift=torch.cat([part.shift for part in parts]),
            current=torch.cat([part.current for part in parts]),
            length=length,
        )

    @property
    def beam(self) -> int:
        """Hypotheses for each window."""
        return self.branch.shape[1]

    @property
    def capacity(self) -> int:
        """Columns there is room for."""
        return self.branch.shape[2]

    def append(self, tokens: Tensor, columns: int | None = None) -> Reading:
        """Take note of new tokens (rows, new), which become beam · new nodes, and say what each of them sees.

        They look at the first `columns` columns, or at those in use if not given.
        """
        windows, beam, _ = self.branch.shape
        new = tokens.shape[1]
        if columns is None:
            columns = self.length + beam * new
            self._make_room(columns)
        at = self.used + torch.arange(beam * new, device=tokens.device)  # columns of the new nodes
        real = tokens != PAD
        apart = torch.eye(beam, dtype=torch.bool, device=tokens.device)
        sentences = (tokens == SEPARATOR).cumsum(-1) + self.closed.view(-1, 1)  # (rows, new)
        self.sentences.index_copy_(1, at, sentences.reshape(windows, -1))
        own = causal_over(real, new).reshape(windows, beam, new, 1, new) & apart[:, None, :, None]
        visible = self.branch[:, :, None, :columns].repeat(1, 1, new, 1).view(windows, beam * new, columns)
        visible.index_copy_(2, at, own.view(windows, beam * new, beam * new))
        added = real.reshape(windows, beam, 1, new) & apart[..., None]
        self.branch.index_copy_(2, at, added.view(windows, beam, beam * new))
        self.read += real.sum(-1).view_as(self.read)
        self.closed.copy_(sentences[:, -1].view_as(self.closed))
        self.used += beam * new
        self.length += beam * new
        pasts = [Past(keys, values, at, columns) for keys, values in self.past]
        return Reading(visible[:, None], self.sentences[:, :columns], sentences.reshape(windows, -1), pasts)

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on from what row rows[i] has read. Rows stay with their window."""
        for of_rows in (self.branch, self.read, self.closed):
            of_rows.copy_(of_rows.flatten(0, 1).index_select(0, rows).view_as(of_rows))

    def select(self, rows: Tensor) -> None:
        """Go on with these rows, in any order and number, as long as `beam` at a time are of one window."""
        windows = rows[:: self.beam] // self.beam
        self.branch, self.read, self.closed = (
            of_rows.flatten(0, 1)[rows.view(-1, self.beam)] for of_rows in (self.branch, self.read, self.closed)
        )
        self.past, self.remembered = self.past.index_select(2, windows), self.remembered.index_select(2, windows)
        self._note(windows)

    def widen(self, beam: int) -> None:
        """Go on with `beam` hypotheses of each window, all from what its only one has read."""
        self.branch, self.read, self.closed = (
            of_rows.repeat_interleave(beam, 1) for of_rows in (self.branch, self.read, self.closed)
        )

    def keep(self, windows: Tensor) -> None:
        """Go on with these windows alone, each at most once; those that keep their place are not copied."""
        moved = (windows != torch.arange(len(windows), device=windows.device)).nonzero()[:, 0]
        for of_windows in (self.past[:, :, :, : self.length], self.remembered):
            of_windows[:, :, moved] = of_windows[:, :, windows[moved]]
        self.past, self.remembered = self.past[:, :, : len(windows)], self.remembered[:, :, : len(windows)]
        self.branch, self.read, self.closed = self.branch[windows], self.read[windows], self.closed[windows]
        self._note(windows)

    def become(self, other: DecoderCache) -> None:
        """Take over, in place, what another has, whose windows and columns may be fewer, and hypotheses one for all.

        Columns it does not have are on no branch; the other windows stay as they are.
        """
        windows, length = len(other.current), other.length
        past = self.past[:, :, :windows]
        past[:, :, :, :length] = other.past[:, :, :, :length]
        past[:, :, :, length:] = 0  # looked at before it is written, and no mask would stop a NaN
        for mine, theirs in ((self.branch, other.branch), (self.sentences, other.sentences)):
            mine[:windows, ..., :length] = theirs[..., :length]
            mine[:windows, ..., length:] = 0
        self.remembered[:, :, :windows] = other.remembered
        for mine, theirs in zip(self._of_windows, other._of_windows, strict=True):
            mine[:windows] = theirs
        self.used.copy_(other.used)
        self.length = length

    def admit(self, rows: Tensor, others: DecoderCache) -> None:
        """Give these windows, (how many,), up for as many of another cache, the first ones.

        It has no more columns in use, and no more source tokens. What it has read is the newest here.
        """
        count, new, source = len(rows), others.length, others.source.tokens.shape[1]
        newest = slice(self.length - new, self.length)
        self.past[:, :, rows, newest] = others.past[:, :, :count, :new]
        self.remembered[:, :, rows, :, :source] = others.remembered[:, :, :count]
        self.branch.index_fill_(0, rows, 0)
        self.branch[rows, :, newest] = others.branch[:count, :, :new]
        self.sentences[rows, newest] = others.sentences[:count, :new]
        self.source.tokens.index_fill_(0, rows, PAD)
        self.source.segments.index_fill_(0, rows, -1)
        for mine, theirs in zip(self._of_windows, others._of_windows, strict=True):
            if mine.ndim == 1:
                mine[rows] = theirs[:count]
            else:
                mine[rows, : theirs.shape[1]] = theirs[:count]

    def clear(self) -> None:
        """Nothing has been read."""
        self.past.zero_()  # looked at before it is written, and no mask would stop a NaN
        self.remembered.zero_()
        self.branch.zero_()
        self.used.zero_()
        self.length = 0

    def slide(self, columns: int, length: int) -> None:
        """Keep the newest columns alone, and have them end at this length; no hypothesis may consist of older ones."""
        old, new = slice(self.length - columns, self.length), slice(length - columns, length)
        for past in self.past:
            past[:, :, new] = past[:, :, old].clone()
        for of_columns in (self.branch, self.sentences):
            kept = of_columns[..., old].clone()
            of_columns.zero_()
            of_columns[..., new] = kept
        self.used.fill_(length)
        self.length = length

    @property
    def _of_windows(self) -> tuple[Tensor, ...]:
        """What else there is of each window."""
        source = self.source
        return (self.read, self.closed, source.tokens, source.segments, source.current, self.shift, self.current)

    def _note(self, windows: Tensor) -> None:
        self.source = self.source.map(lambda tensor: tensor[windows])
        self.sentences, self.shift, self.current = (
            of_windows[windows] for of_windows in (self.sentences, self.shift, self.current)
        )

    def _make_room(self, columns: int) -> None:
        """Room for more nodes. What is in it does not matter, for none is looked at before it is written."""
        missing = columns - self.capacity
        if missing > 0:
            room = self.beam * BLOCK * -(-missing // (self.beam * BLOCK))
            layers, two, windows, _, *head = self.past.shape
            self.past = torch.cat((self.past, self.past.new_empty(layers, two, windows, room, *head)), 3)
            self.branch = torch.cat((self.branch, self.branch.new_zeros(windows, self.beam, room)), 2)
            self.sentences = torch.cat((self.sentences, self.sentences.new_zeros(windows, room)), 1)
