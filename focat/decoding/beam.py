"""Beam search over a batch of windows: live hypotheses, and the best finished ones.

All state is in tensors of fixed shape that are updated in place, and no operation waits for the device, so that a step
can be captured as a CUDA graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from focat.corpus.vocabulary import PAD, SEPARATOR
from focat.decoding.phrase_search import PhraseSearch
from focat.decoding.selection import Candidates, Selector
from focat.decoding.tensor_struct import TensorStruct, gather_beams

IDLE = -1  # request id of a row that only fills up the batch


@dataclass
class Beams(TensorStruct):
    """Hypotheses, (windows, beam) each unless noted; the best first."""

    tokens: Tensor  # (windows, beam, max length) decoded tokens, from the left
    scores: Tensor  # (windows, beam, max length) their log-probabilities
    truncated: Tensor  # whether the maximum length forced a token
    rank: Tensor  # sort key: log-probability of live hypotheses, score of finished ones; -inf where there is none

    def extend(self, candidates: Candidates, index: Tensor, forced: Tensor, rank: Tensor) -> Beams:
        """New beams with each candidate's token written at `index`, (windows, 1)."""
        beams = self.map(lambda values: gather_beams(values, candidates.parent))
        last = index[..., None].expand(-1, candidates.token.shape[1], 1)
        beams.tokens.scatter_(2, last, candidates.token[..., None])
        beams.scores.scatter_(2, last, candidates.log_probability[..., None])
        return Beams(beams.tokens, beams.scores, beams.truncated | gather_beams(forced, candidates.parent), rank)


@dataclass
class BeamState(TensorStruct):
    """State of the search for each window."""

    request_id: Tensor  # (windows,) IDLE if the row only fills up the batch
    step: Tensor  # (windows, 1) tokens decoded so far, until it is finished
    max_length: Tensor  # (windows, 1) most tokens to decode
    sentences: Tensor  # (windows, 1) sentences the target must have, prefix included; 0 for any number
    closed: Tensor  # (windows, beam) sentences that each hypothesis has closed
    empty: Tensor  # (windows, beam) whether its open sentence has no word yet
    lengths: Tensor  # (windows, beam) lengths of the finished hypotheses
    finished: Tensor  # (windows,) whether no better hypothesis can be found
    uniforms: Tensor  # (windows, beam, max length) random numbers from [0, 1), for sampling


class BeamSearch:
    """The search through a batch of windows, one token at a time."""

    def __init__(
        self,
        state: BeamState,
        max_length: int,
        nbest: int,
        length_penalty: float,
        single_start: bool,
        phrases: PhraseSearch | None = None,
    ) -> None:
        """Begin a search.

        Args:
            single_start: begin with one hypothesis, since identical ones would stay identical (unless sampled).
            phrases: selects candidates instead, where windows require phrases.
        """
        count, beam = state.closed.shape
        device = state.closed.device
        self.live, self.ended = (
            Beams(
                tokens=torch.zeros(count, beam, max_length, dtype=torch.long, device=device),
                scores=torch.zeros(count, beam, max_length, device=device),
                truncated=torch.zeros(count, beam, dtype=torch.bool, device=device),
                rank=torch.zeros(count, beam, device=device),
            )
            for _ in range(2)
        )
        self.state, self.nbest, self.length_penalty, self.single_start = state, nbest, length_penalty, single_start
        self.phrases = phrases
        self.reset()

    def reset(self) -> None:
        """Start again from the first token, in place."""
        self.live.rank.fill_(-math.inf)
        self.live.rank[:, : 1 if self.single_start else None] = 0
        self.ended.rank.fill_(-math.inf)
        self.live.truncated.fill_(False)

    def copy_(self, other: BeamSearch) -> None:
        """Copy a search with fewer windows, in place; the remaining rows are idle."""
        count = len(other.state.finished)
        for mine, theirs in zip(self._structs, other._structs, strict=True):
            mine.map(lambda values: values[:count]).copy_(theirs)
        self.mark_idle_from(count)

    def insert_rows(self, rows: Tensor, other: BeamSearch) -> None:
        """Replace these rows, (count,), by the first `count` of another search, whose max length may be smaller."""
        for mine, theirs in zip(self._structs, other._structs, strict=True):
            for field in fields(mine):  # type: ignore[arg-type]
                new = getattr(theirs, field.name)[: len(rows)]
                into = getattr(mine, field.name)
                (into if into.ndim < 3 else into[..., : new.shape[-1]]).index_copy_(0, rows, new)

    def mark_idle_from(self, count: int) -> None:
        """Mark all rows after the first `count` as finished and idle."""
        self.state.finished[count:] = True
        self.state.request_id[count:] = IDLE

    def release(self, rows: Tensor) -> None:
        """Mark finished rows, (count,), as idle, after their results were taken."""
        self.state.request_id.index_fill_(0, rows, IDLE)

    def keep(self, windows: Tensor) -> None:
        """Drop all other windows; replaces the tensors."""
        for name in ("live", "ended", "state"):
            setattr(self, name, getattr(self, name).map(lambda values: values[windows]))
        if self.phrases:
            self.phrases = self.phrases.keep(windows)

    @property
    def last_tokens(self) -> Tensor:
        """The newest token of each row, (rows, 1), for the decoder to read; PAD where the window is finished."""
        newest = _at(self.live.tokens, (self.state.step - 1).clamp(min=0))
        return newest.masked_fill(self.state.finished[:, None], PAD).view(-1, 1)

    @property
    def uniforms(self) -> Tensor:
        """The random numbers of the current step, (windows, beam)."""
        return _at(self.state.uniforms, self._next_index)

    def advance(self, select: Selector) -> Tensor:
        """Extend all hypotheses by one token; `select` chooses the candidates.

        Returns:
            For each row, the row it continues: (windows · beam,).
        """
        state = self.state
        limits = state.closed, state.empty, state.step, state.max_length, state.sentences
        mask, (ends, live) = select(self.live.rank, limits)
        length = state.step + 1
        score = ends.total / length**self.length_penalty
        self._merge_ended(self.live.extend(ends, self._next_index, mask.forced, score), length)
        self.live.copy_(self.live.extend(live, self._next_index, mask.forced, live.total))
        closes = live.token == SEPARATOR
        state.closed.copy_(gather_beams(state.closed, live.parent) + closes)
        state.empty.copy_(closes)
        self._update_finished()
        state.step.add_(~state.finished[:, None])
        beam = live.parent.shape[1]
        first = torch.arange(len(live.parent), device=live.parent.device)[:, None] * beam
        return (first + live.parent).view(-1)

    @property
    def _structs(self) -> tuple[TensorStruct, ...]:
        structs = self.live, self.ended, self.state
        return (*structs, self.phrases.phrases) if self.phrases else structs

    @property
    def _next_index(self) -> Tensor:
        """Where the next token goes, (windows, 1); clamped, as finished windows may have no free position."""
        return self.state.step.clamp(max=self.live.tokens.shape[2] - 1)

    def _merge_ended(self, new: Beams, length: Tensor) -> None:
        """Keep the best of the finished hypotheses, old and new."""
        beam = new.rank.shape[1]
        both = Beams(*(torch.cat((getattr(self.ended, f.name), getattr(new, f.name)), 1) for f in fields(new)))
        lengths = torch.cat((self.state.lengths, length.expand_as(new.rank)), 1)
        best = both.rank.topk(beam).indices
        self.ended.copy_(both.map(lambda values: gather_beams(values, best)))
        self.state.lengths.copy_(lengths.gather(1, best))

    def _update_finished(self) -> None:
        """A window is finished when `beam` hypotheses have ended, or no live one can reach the n best.

        Log-probabilities only decrease, and the maximum length divides them by most.
        """
        attainable = self.live.rank.amax(-1) / self.state.max_length[:, 0] ** self.length_penalty
        enough = (self.ended.rank > -math.inf).all(-1)
        self.state.finished |= enough | (self.ended.rank[:, self.nbest - 1] >= attainable)
        self.live.rank.masked_fill_(self.state.finished[:, None], -math.inf)


def _at(values: Tensor, index: Tensor) -> Tensor:
    """Values (windows, beam, length) at one index of each window, (windows, 1): (windows, beam)."""
    return values.gather(2, index[..., None].expand(-1, values.shape[1], 1))[..., 0]
