"""The hypotheses of a batch of windows: those in the making, and the best that have ended.

Everything is a tensor of a fixed shape that is changed in place, and nothing waits for the device, so that a step of
the search is the same few kernels again and again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from torch import Tensor

from focat.corpus.vocabulary import PAD, SEPARATOR
from focat.decoding.constraints import allowed_next
from focat.decoding.selection import Chooser, Continuations

IDLE = -1  # instead of the number of a window

Tensors = TypeVar("Tensors", bound="_Tensors")


class _Tensors:
    """A dataclass of tensors whose first dimension is the windows."""

    def map(self: Tensors, change: Callable[[Tensor], Tensor]) -> Tensors:
        """The same with every tensor changed."""
        return type(self)(*(change(getattr(self, field.name)) for field in fields(self)))  # type: ignore[arg-type]

    def become(self: Tensors, other: Tensors) -> None:
        """Take over the values of another, in place."""
        for field in fields(self):  # type: ignore[arg-type]
            getattr(self, field.name).copy_(getattr(other, field.name))


@dataclass
class Branches(_Tensors):
    """Hypotheses, (windows, beam) each unless said otherwise; the likeliest first."""

    tokens: Tensor  # (windows, beam, longest) what was decoded, from the left
    scores: Tensor  # (windows, beam, longest) their log-probabilities
    cut: Tensor  # whether the limit had to close it
    rank: Tensor  # what orders them: log-probability while in the making, score at the end; -inf where there is none

    def one_longer(self, by: Continuations, at: Tensor, cut: Tensor, rank: Tensor) -> Branches:
        """What these continuations, at this place of each, make of them; (windows, 1)."""
        taken = self.map(lambda each: gather(each, by.parent))
        last = at[..., None].expand(-1, by.token.shape[1], 1)
        taken.tokens.scatter_(2, last, by.token[..., None])
        taken.scores.scatter_(2, last, by.log_probability[..., None])
        return Branches(taken.tokens, taken.scores, taken.cut | gather(cut, by.parent), rank)


@dataclass
class Windows(_Tensors):
    """What the search needs to know of each window."""

    number: Tensor  # (windows,) the chain that its request belongs to; IDLE if it is there to fill a shape
    step: Tensor  # (windows, 1) tokens decoded so far, until it is over
    limit: Tensor  # (windows, 1) most tokens
    sentences: Tensor  # (windows, 1) how many the target must have, prefix included; 0 for any number
    closed: Tensor  # (windows, beam) how many each hypothesis has closed
    empty: Tensor  # (windows, beam) whether the one in the making has no word yet
    lengths: Tensor  # (windows, beam) of the hypotheses that have ended
    over: Tensor  # (windows,) whether nothing better can be found
    luck: Tensor  # (windows, beam, longest) for sampling, numbers from [0, 1)


class Hypotheses:
    """The search through a batch of windows, one step at a time."""

    def __init__(self, windows: Windows, longest: int, nbest: int, length_penalty: float, alike: bool) -> None:
        count, beam = windows.closed.shape
        device = windows.closed.device
        self.live, self.ended = (
            Branches(
                tokens=torch.zeros(count, beam, longest, dtype=torch.long, device=device),
                scores=torch.zeros(count, beam, longest, device=device),
                cut=torch.zeros(count, beam, dtype=torch.bool, device=device),
                rank=torch.zeros(count, beam, device=device),
            )
            for _ in range(2)
        )
        self.windows, self.nbest, self.length_penalty, self.alike = windows, nbest, length_penalty, alike
        self.restart()

    def restart(self) -> None:
        """Back to the beginning, in place."""
        self.live.rank.fill_(-math.inf)
        # hypotheses that begin alike would go on alike, unless by chance: let one of them begin
        self.live.rank[:, : 1 if self.alike else None] = 0
        self.ended.rank.fill_(-math.inf)
        self.live.cut.fill_(False)

    def become(self, other: Hypotheses) -> None:
        """Take over, in place, a search with fewer windows; what is left of these is over, and has no number."""
        count = len(other.windows.over)
        for mine, theirs in ((self.live, other.live), (self.ended, other.ended), (self.windows, other.windows)):
            mine.map(lambda each: each[:count]).become(theirs)  # type: ignore[arg-type]
        self.rest_from(count)

    def admit(self, rows: Tensor, others: Hypotheses) -> None:
        """Give these windows, (how many,), up for as many of the others, the first ones, which may be shorter."""
        for mine, theirs in ((self.live, others.live), (self.ended, others.ended), (self.windows, others.windows)):
            for field in fields(mine):
                new = getattr(theirs, field.name)[: len(rows)]
                into = getattr(mine, field.name)
                (into if into.ndim < 3 else into[..., : new.shape[-1]]).index_copy_(0, rows, new)

    def rest_from(self, count: int) -> None:
        """The windows after the first so many are idle."""
        self.windows.over[count:] = True
        self.windows.number[count:] = IDLE

    def leave(self, windows: Tensor) -> None:
        """These windows, which are over, have been seen to, (how many,): they are idle now."""
        self.windows.number.index_fill_(0, windows, IDLE)

    @property
    def last(self) -> Tensor:
        """The newest token of each row, (rows, 1), for the decoder to read; nothing where the window is over."""
        newest = _at(self.live.tokens, (self.windows.step - 1).clamp(min=0))
        return newest.masked_fill(self.windows.over[:, None], PAD).view(-1, 1)

    @property
    def luck(self) -> Tensor:
        """The number from [0, 1) that decides about the next token of each hypothesis, (windows, beam)."""
        return _at(self.windows.luck, self._next)

    @property
    def _next(self) -> Tensor:
        """Where the next token goes, (windows, 1); windows that are over need none, and have room for no more."""
        return self.windows.step.clamp(max=self.live.tokens.shape[2] - 1)

    def advance(self, logits: Tensor, choose: Chooser) -> Tensor:
        """One token more, by its logits (windows, beam, vocabulary); returns which row each row goes on from."""
        windows = self.windows
        allowed = allowed_next(windows.closed, windows.empty, windows.limit - windows.step, windows.sentences)
        ends, on = choose(self.live.rank, logits, allowed)
        length = windows.step + 1
        score = ends.total / length**self.length_penalty
        ending = self.live.one_longer(ends, self._next, allowed.forced, score)
        self._gather_ended(ending, length)
        self.live.become(self.live.one_longer(on, self._next, allowed.forced, on.total))
        closes = on.token == SEPARATOR
        windows.closed.copy_(gather(windows.closed, on.parent) + closes)
        windows.empty.copy_(closes)
        self._finish()
        windows.step.add_(~windows.over[:, None])
        beam = on.parent.shape[1]
        first = torch.arange(len(on.parent), device=on.parent.device)[:, None] * beam
        return (first + on.parent).view(-1)

    def _gather_ended(self, ending: Branches, length: Tensor) -> None:
        """Keep the best of those that have ended."""
        beam = ending.rank.shape[1]
        both = [torch.cat((getattr(self.ended, f.name), getattr(ending, f.name)), 1) for f in fields(ending)]
        lengths = torch.cat((self.windows.lengths, length.expand_as(ending.rank)), 1)
        best = Branches(*both).rank.topk(beam).indices
        self.ended.become(Branches(*both).map(lambda each: gather(each, best)))
        self.windows.lengths.copy_(lengths.gather(1, best))

    def _finish(self) -> None:
        """A window is over when `beam` hypotheses have ended, or none in the making can come among the n best.

        Log-probabilities only add up to less, and the longest hypothesis divides them by most.
        """
        attainable = self.live.rank.amax(-1) / self.windows.limit[:, 0] ** self.length_penalty
        enough = (self.ended.rank > -math.inf).all(-1)
        self.windows.over |= enough | (self.ended.rank[:, self.nbest - 1] >= attainable)
        self.live.rank.masked_fill_(self.windows.over[:, None], -math.inf)

    def keep(self, windows: Tensor) -> None:
        """Go on with these windows alone."""
        for name in ("live", "ended", "windows"):
            setattr(self, name, getattr(self, name).map(lambda each: each[windows]))


def _at(values: Tensor, places: Tensor) -> Tensor:
    """Of values (windows, beam, length), those at one place of each window, (windows, 1): (windows, beam)."""
    return values.gather(2, places[..., None].expand(-1, values.shape[1], 1))[..., 0]


def gather(values: Tensor, hypotheses: Tensor) -> Tensor:
    """Values (windows, beam, …) of these hypotheses, (windows, any number)."""
    index = hypotheses.view(*hypotheses.shape, *(1 for _ in values.shape[2:]))
    return values.gather(1, index.expand(-1, -1, *values.shape[2:]))
