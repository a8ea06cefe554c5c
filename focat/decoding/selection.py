"""How hypotheses go on: with the likeliest tokens, or with tokens drawn at random."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from focat.corpus.vocabulary import END, SEPARATOR, SPECIALS
from focat.decoding.constraints import Allowed

_BLOCK = 128  # words whose highest logit is looked at first


@dataclass(frozen=True)
class Continuations:
    """Hypotheses one token longer, (windows, beam) each; of no probability where there is none."""

    parent: Tensor  # the hypothesis it continues
    token: Tensor
    log_probability: Tensor  # of the token
    total: Tensor  # of the whole hypothesis

    def map(self, change: Callable[[Tensor], Tensor]) -> Continuations:
        """The same with every tensor changed."""
        return Continuations(*map(change, (self.parent, self.token, self.log_probability, self.total)))

    def where(self, true: Tensor) -> Continuations:
        """The same, of no probability elsewhere."""
        return Continuations(self.parent, self.token, self.log_probability, self.total.masked_fill(~true, -math.inf))


# What ends here, and what goes on
Choice = tuple[Continuations, Continuations]
# total log-probability of each hypothesis (windows, beam), scores of all tokens (windows, beam, vocabulary), what may
# come → what was chosen
Chooser = Callable[[Tensor, Tensor, Allowed], Choice]


def likeliest(totals: Tensor, logits: Tensor, allowed: Allowed) -> Choice:
    """Beam search: of the 2 · beam best continuations, the first `beam` that do not end go on; those that end do so if
    they are among the first `beam` of all, as in the authors' code. 2 · beam are enough: each hypothesis ends once.
    """
    beam = totals.shape[1]
    normaliser = logits.logsumexp(-1, keepdim=True)  # (windows, beam, 1)
    closing = logits[..., END : SEPARATOR + 1].clone()  # (windows, beam, 2)
    words, ids = highest_words(logits, 2 * beam)  # (windows, beam, 2 · beam)
    tokens = torch.cat((ids, torch.full_like(ids[..., :1], END), torch.full_like(ids[..., :1], SEPARATOR)), -1)
    may = torch.stack((allowed.end, allowed.separator), -1)
    may = torch.cat((allowed.word[..., None].expand_as(ids), may), -1)
    scores = torch.where(may, torch.cat((words, closing), -1) - normaliser, -math.inf)  # (windows, beam, candidates)
    candidates = scores.shape[2]
    total, best = (totals[..., None] + scores).flatten(1).topk(2 * beam)  # (windows, 2 · beam)
    found = Continuations(
        best // candidates, tokens.flatten(1).gather(1, best), scores.flatten(1).gather(1, best), total
    )
    ends = found.token == END
    rank = torch.arange(2 * beam, device=total.device)
    going = (rank + 2 * beam * ends).topk(beam, largest=False).indices  # unique keys: no ties
    on = found.map(lambda each: each.gather(1, going))
    first = found.map(lambda each: each[:, :beam])
    return first.where(first.token == END), on.where(on.token != END)


def highest_words(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The highest logits of words, special tokens aside, and whose they are; (windows, beam, count) each.

    The highest of `count` lie in the `count` blocks whose maxima are highest: one fast pass over the vocabulary, and a
    selection among few. Where the vocabulary has fewer words, the special tokens fill up, without probability.
    """
    logits[..., :SPECIALS] = -math.inf
    vocabulary = logits.shape[-1]
    blocks = vocabulary // _BLOCK
    if blocks <= count:
        return logits.topk(min(count, vocabulary))
    inside = logits[..., : blocks * _BLOCK].view(*logits.shape[:2], blocks, _BLOCK)
    chosen = inside.amax(-1).topk(count).indices[..., None]  # (windows, beam, count, 1)
    within = torch.arange(_BLOCK, device=logits.device)
    rest = torch.arange(blocks * _BLOCK, vocabulary, device=logits.device).expand(*logits.shape[:2], -1)
    ids = torch.cat(((chosen * _BLOCK + within).flatten(2), rest), -1)
    values, places = logits.gather(-1, ids).topk(count)
    return values, ids.gather(-1, places)


def drawn(totals: Tensor, logits: Tensor, allowed: Allowed, luck: Tensor, temperature: float, top_p: float) -> Choice:
    """Sampling: every hypothesis goes on alone, with a token that a number from [0, 1) picks, (windows, beam)."""
    possible = torch.where(allowed.word[..., None], logits, -math.inf)
    possible[..., :END] = -math.inf
    for token, may in ((SEPARATOR, allowed.separator), (END, allowed.end)):
        possible[..., token] = torch.where(may, logits[..., token], -math.inf)
    probability, ids = (possible.double() / temperature).softmax(-1).sort(stable=True, descending=True)
    before = probability.cumsum(-1) - probability
    up_to = probability.masked_fill(before >= top_p, 0).cumsum(-1)  # the likeliest always stays
    place = (up_to <= luck[..., None] * up_to[..., -1:]).sum(-1, keepdim=True)  # (windows, beam, 1)
    tokens = ids.gather(-1, place.clamp(max=ids.shape[-1] - 1))
    scores = (logits.gather(-1, tokens) - logits.logsumexp(-1, keepdim=True))[..., 0]
    itself = torch.arange(totals.shape[1], device=totals.device).expand_as(totals)
    found = Continuations(itself, tokens[..., 0], scores, totals + scores)
    return found.where(found.token == END), found.where(found.token != END)
