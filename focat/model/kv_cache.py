"""The KV cache of step-by-step decoding: keys and values of the source and of the target tokens read so far.

The hypotheses of a window share prefixes: they are branches of a tree whose nodes are the target tokens. Keys and
values of a node are stored once, in one column of the cache; a hypothesis is a mask over the nodes of its branch. To
reorder hypotheses is to copy masks; keys and values are never copied for it (tree attention).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from focat.corpus.vocabulary import PAD, SEPARATOR
from focat.model.attention import LayerKV
from focat.model.masks import causal_mask_with_padding
from focat.windows.batch import PaddedSequences, Sequences

CAPACITY_STEP = 64  # tokens of each hypothesis by which the cache grows


@dataclass(frozen=True)
class EncoderOutput:
    """Encoded windows."""

    hidden: Tensor  # (windows, source length, width)
    source: Sequences
    shift: Tensor  # (windows,) segment shift of each window, for both sides
    context: Tensor | None = None  # (windows, source length, width) where the decoder attends to context encoded apart

    def select(self, rows: Tensor) -> EncoderOutput:
        """Some windows, in any order, any number of times: say, one for each candidate translation."""
        context = None if self.context is None else self.context[rows]
        return EncoderOutput(self.hidden[rows], self.source.map(lambda tensor: tensor[rows]), self.shift[rows], context)


@dataclass(frozen=True)
class AttentionInputs:
    """What the decoder's self-attention needs for new tokens; `queries` is beam · new, hypothesis by hypothesis."""

    mask: Tensor  # (windows, 1, queries, columns) True on the branch of each token, itself included
    key_segments: Tensor  # (windows, columns) opened segment of each node
    query_segments: Tensor  # (windows, queries) opened segment of each new token
    layers: list[LayerKV]


class KVMemory:
    """Memory in which one batch after the other has its keys and values.

    Memory that is freed and taken again is cleared by the system, page by page, which takes as long as to fill it.
    """

    def __init__(self) -> None:
        self._tensors: dict[str, Tensor] = {}

    def empty(self, key: str, like: Tensor, *shape: int) -> Tensor:
        """A tensor of this shape, and of the type and device of another, in the memory of earlier ones with its key.

        It holds zeros and what earlier ones held, which was finite: a mask does not stop a NaN.
        """
        count = math.prod(shape)
        if key not in self._tensors or self._tensors[key].numel() < count:
            self._tensors.pop(key, None)  # freed first
            self._tensors[key] = like.new_zeros(count)
        return self._tensors[key][:count].view(shape)


@dataclass
class TreeKVCache:
    """Hypotheses in progress, `beam` for each window. A row is one of them, (window, hypothesis)."""

    self_kv: Tensor  # (layers, 2, windows, capacity, heads, head width) keys and values of all nodes
    ancestor_mask: Tensor  # (windows, beam, capacity) the nodes on the branch of each hypothesis
    opened_segments: Tensor  # (windows, capacity) separators up to and including each node (`masks.opened_segments`)
    lengths: Tensor  # (windows, beam) tokens of each hypothesis, from the start symbol on, without PAD
    num_separators: Tensor  # (windows, beam) separators among them
    write_pos: Tensor  # () columns in use, on the device
    cross_kv: Tensor  # (layers, 2, windows, heads, source length, head width) keys and values of the source; then, as
    # many layers again, those of the context, where the decoder attends to it
    source: PaddedSequences
    shift: Tensor  # (windows,)
    current: Tensor  # (windows,) segment of the current sentence on the target
    length: int = 0  # columns in use, on the host

    @classmethod
    def concatenate(cls, parts: Sequence[TreeKVCache], capacity: int, memory: KVMemory) -> TreeKVCache:
        """All windows of several caches with the same beam, in one cache of so many columns.

        Columns and source tokens that a part does not have are on no branch and in no segment.
        """
        length = max(part.length for part in parts)
        first = parts[0].self_kv
        windows = [len(part.current) for part in parts]
        self_kv = memory.empty("self", first, *first.shape[:2], sum(windows), capacity, *first.shape[4:])
        for part, into in zip(parts, torch.split(self_kv, windows, 2), strict=True):
            into[:, :, :, : part.length] = part.self_kv[:, :, :, : part.length]
        sources = [part.source for part in parts]
        longest = max(source.tokens.shape[1] for source in sources)
        layers, two, _, heads, _, width = parts[0].cross_kv.shape
        cross_kv = memory.empty("cross", first, layers, two, sum(windows), heads, longest, width)
        for part, into in zip(parts, torch.split(cross_kv, windows, 2), strict=True):
            into[..., : part.cross_kv.shape[4], :] = part.cross_kv

        def cat(tensors: list[Tensor], columns: int, fill: int = 0) -> Tensor:
            return torch.cat([F.pad(tensor, (0, columns - tensor.shape[-1]), value=fill) for tensor in tensors])

        return cls(
            self_kv=self_kv,
            ancestor_mask=cat([part.ancestor_mask[..., : part.length] for part in parts], capacity),
            opened_segments=cat([part.opened_segments[..., : part.length] for part in parts], capacity),
            lengths=torch.cat([part.lengths for part in parts]),
            num_separators=torch.cat([part.num_separators for part in parts]),
            write_pos=parts[0].write_pos.new_full((), length),
            cross_kv=cross_kv,
            source=PaddedSequences(
                cat([source.tokens for source in sources], longest, PAD),
                cat([source.segments for source in sources], longest, -1),
                torch.cat([source.current for source in sources]),
            ),
            shift=torch.cat([part.shift for part in parts]),
            current=torch.cat([part.current for part in parts]),
            length=length,
        )

    @property
    def beam(self) -> int:
        """Hypotheses for each window."""
        return self.ancestor_mask.shape[1]

    @property
    def capacity(self) -> int:
        """Columns allocated."""
        return self.ancestor_mask.shape[2]

    def append(self, tokens: Tensor, columns: int | None = None, branches: Tensor | None = None) -> AttentionInputs:
        """Add a node for each of the new tokens.

        Args:
            tokens: (rows, new); PAD is on no branch.
            columns: attention spans so many columns; by default those in use, and the cache grows as needed.
            branches: (windows, new, new) True where a token, the second, is on the branch of another, or that token.
                For an empty cache with one row to a window, whose tokens are a whole tree: nothing can follow it.
                By default, the new tokens of a row are one branch.

        Returns:
            What self-attention needs to compute the representations of the new tokens.
        """
        if branches is not None:
            return self._append_tree(tokens, branches)
        windows, beam, _ = self.ancestor_mask.shape
        new = tokens.shape[1]
        write_columns = self.write_pos + torch.arange(beam * new, device=tokens.device)  # (beam · new,)
        kv_columns: Tensor | slice = write_columns
        if columns is None:
            columns = self.length + beam * new
            self._grow(columns)
            kv_columns = slice(self.length, columns)  # faster than columns by their indices
        real = tokens != PAD
        same_beam = torch.eye(beam, dtype=torch.bool, device=tokens.device)
        opened = (tokens == SEPARATOR).cumsum(-1) + self.num_separators.view(-1, 1)  # (rows, new)
        self.opened_segments.index_copy_(1, write_columns, opened.reshape(windows, -1))
        own = causal_mask_with_padding(real, new).reshape(windows, beam, new, 1, new) & same_beam[:, None, :, None]
        mask = self.ancestor_mask[:, :, None, :columns].repeat(1, 1, new, 1).view(windows, beam * new, columns)
        mask.index_copy_(2, write_columns, own.view(windows, beam * new, beam * new))
        added = real.reshape(windows, beam, 1, new) & same_beam[..., None]
        self.ancestor_mask.index_copy_(2, write_columns, added.view(windows, beam, beam * new))
        self.lengths += real.sum(-1).view_as(self.lengths)
        self.num_separators.copy_(opened[:, -1].view_as(self.num_separators))
        self.write_pos += beam * new
        self.length += beam * new
        layers = [LayerKV(keys, values, kv_columns, columns) for keys, values in self.self_kv]
        return AttentionInputs(mask[:, None], self.opened_segments[:, :columns], opened.reshape(windows, -1), layers)

    def _append_tree(self, tokens: Tensor, branches: Tensor) -> AttentionInputs:
        nodes = tokens.shape[1]
        self._grow(nodes)
        opened = (branches & (tokens == SEPARATOR)[:, None]).sum(-1)  # (windows, nodes)
        layers = [LayerKV(keys, values, slice(nodes), nodes) for keys, values in self.self_kv]
        return AttentionInputs(branches[:, None], opened, opened, layers)

    def reorder(self, rows: Tensor) -> None:
        """Continue row i from the hypothesis of row rows[i], which must be of the same window."""
        for of_rows in self._of_rows:
            of_rows.copy_(of_rows.flatten(0, 1).index_select(0, rows).view_as(of_rows))

    def select_rows(self, rows: Tensor) -> None:
        """Keep these rows, in any order and number, as long as `beam` at a time are of one window."""
        windows = rows[:: self.beam] // self.beam
        self.ancestor_mask, self.lengths, self.num_separators = (
            of_rows.flatten(0, 1)[rows.view(-1, self.beam)] for of_rows in self._of_rows
        )
        self.self_kv, self.cross_kv = self.self_kv.index_select(2, windows), self.cross_kv.index_select(2, windows)
        self._select_windows(windows)

    def expand_beams(self, beam: int) -> None:
        """Continue the only hypothesis of each window as `beam` hypotheses."""
        self.ancestor_mask, self.lengths, self.num_separators = (
            of_rows.repeat_interleave(beam, 1) for of_rows in self._of_rows
        )

    def keep_windows(self, windows: Tensor) -> None:
        """Keep these windows alone, each at most once; those whose index changes come from behind all that are kept."""
        for kv in (self.self_kv[:, :, :, : self.length], self.cross_kv):
            for new, old in enumerate(windows.tolist()):  # window by window: faster than by a tensor of indices
                if new != old:
                    assert old >= len(windows)
                    kv[:, :, new] = kv[:, :, old]
        self.self_kv, self.cross_kv = self.self_kv[:, :, : len(windows)], self.cross_kv[:, :, : len(windows)]
        self.ancestor_mask, self.lengths, self.num_separators = (of_rows[windows] for of_rows in self._of_rows)
        self._select_windows(windows)

    def copy_from(self, other: TreeKVCache) -> None:
        """Copy another cache into this one, in place; it may have fewer windows and columns, and a beam of one.

        Columns that the other does not have are on no branch; further windows of this one stay as they are.
        """
        windows, length = len(other.current), other.length
        self_kv = self.self_kv[:, :, :windows]
        self_kv[:, :, :, :length] = other.self_kv[:, :, :, :length]
        self_kv[:, :, :, length:] = 0  # read before it is written, and a mask does not stop a NaN
        pairs = ((self.ancestor_mask, other.ancestor_mask), (self.opened_segments, other.opened_segments))
        for mine, theirs in pairs:
            mine[:windows, ..., :length] = theirs[..., :length]
            mine[:windows, ..., length:] = 0
        self.cross_kv[:, :, :windows] = other.cross_kv
        for mine, theirs in zip(self._of_windows, other._of_windows, strict=True):
            mine[:windows] = theirs
        self.write_pos.copy_(other.write_pos)
        self.length = length

    def insert_windows(self, rows: Tensor, other: TreeKVCache) -> None:
        """Replace the windows `rows`, (count,), by the first `count` windows of another cache.

        The other has no more columns in use, and no more source tokens. Its columns become the newest ones here.
        """
        count, new, source = len(rows), other.length, other.source.tokens.shape[1]
        newest = slice(self.length - new, self.length)
        self.self_kv[:, :, rows, newest] = other.self_kv[:, :, :count, :new]
        self.cross_kv[:, :, rows, :, :source] = other.cross_kv[:, :, :count]
        self.ancestor_mask.index_fill_(0, rows, 0)
        self.ancestor_mask[rows, :, newest] = other.ancestor_mask[:count, :, :new]
        self.opened_segments[rows, newest] = other.opened_segments[:count, :new]
        self.source.tokens.index_fill_(0, rows, PAD)
        self.source.segments.index_fill_(0, rows, -1)
        for mine, theirs in zip(self._of_windows, other._of_windows, strict=True):
            if mine.ndim == 1:
                mine[rows] = theirs[:count]
            else:
                mine[rows, : theirs.shape[1]] = theirs[:count]

    def clear(self) -> None:
        """Remove all tokens."""
        self.self_kv.zero_()  # read before it is written, and a mask does not stop a NaN
        self.cross_kv.zero_()
        self.ancestor_mask.zero_()
        self.write_pos.zero_()
        self.length = 0

    def prune(self, least: int) -> None:
        """Remove nodes that are on no branch any more, if at least so many columns become free.

        Hypotheses that were given up leave such nodes behind, and attention would compute scores for them.
        """
        live = self.ancestor_mask[..., : self.length].any(1)  # (windows, columns)
        columns = int(live.sum(1).amax())  # of the window that has most
        if self.length - columns < max(least, 1):
            return
        kept = (~live).byte().argsort(dim=1, stable=True)[:, :columns]  # those on a branch first, in their order
        rows = (kept + self.capacity * torch.arange(len(kept), device=kept.device)[:, None]).flatten()
        for layer in self.self_kv:
            for nodes in layer:  # (windows, capacity, heads, head width)
                nodes[:, :columns] = nodes.flatten(0, 1).index_select(0, rows).view_as(nodes[:, :columns])
        self.opened_segments[:, :columns] = self.opened_segments.gather(1, kept)
        self.ancestor_mask[..., :columns] = self.ancestor_mask.gather(2, kept[:, None].expand(-1, self.beam, -1))
        self.write_pos.fill_(columns)
        self.length = columns

    def compact(self, columns: int, length: int) -> None:
        """Keep the newest columns alone, moved so that they end at `length`; no hypothesis may have older ones."""
        old, new = slice(self.length - columns, self.length), slice(length - columns, length)
        for layer in self.self_kv:
            layer[:, :, new] = layer[:, :, old].clone()
        for of_columns in (self.ancestor_mask, self.opened_segments):
            kept = of_columns[..., old].clone()
            of_columns.zero_()
            of_columns[..., new] = kept
        self.write_pos.fill_(length)
        self.length = length

    @property
    def _of_rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """What is kept of each row, (windows, beam, …)."""
        return self.ancestor_mask, self.lengths, self.num_separators

    @property
    def _of_windows(self) -> tuple[Tensor, ...]:
        """What is kept of each window, besides masks, keys and values."""
        source = self.source
        return (
            self.lengths,
            self.num_separators,
            source.tokens,
            source.segments,
            source.current,
            self.shift,
            self.current,
        )

    def _select_windows(self, windows: Tensor) -> None:
        self.source = self.source.map(lambda tensor: tensor[windows])
        self.opened_segments, self.shift, self.current = (
            of_windows[windows] for of_windows in (self.opened_segments, self.shift, self.current)
        )

    def _grow(self, columns: int) -> None:
        """Allocate at least so many columns; new ones are uninitialised, since none is read before it is written."""
        missing = columns - self.capacity
        if missing > 0:
            step = self.beam * CAPACITY_STEP
            added = step * -(-missing // step)
            layers, two, windows, _, *head = self.self_kv.shape
            self.self_kv = torch.cat((self.self_kv, self.self_kv.new_empty(layers, two, windows, added, *head)), 3)
            self.ancestor_mask = F.pad(self.ancestor_mask, (0, added))
            self.opened_segments = F.pad(self.opened_segments, (0, added))
