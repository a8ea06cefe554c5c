"""How hypotheses are continued: by the most probable tokens (beam search) or by sampled ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from focat.corpus.vocabulary import END, SEPARATOR, SPECIALS
from focat.decoding.constraints import Limits, NextTokenMask, next_token_mask
from focat.decoding.top_tokens import can_find_top_tokens, top_tokens
from focat.hardware import runs_kernels

LANES = 1024  # of the vocabulary, of which the kernel keeps a maximum each, see `top_tokens_kernel`
_MAX_FUSED = 64  # words that the kernel finds, one after the other
_MAX_CANDIDATES = 8192  # that it has in registers
_BLOCK = 128  # vocabulary entries whose maximum is compared first, see `top_words`


@dataclass(frozen=True)
class Candidates:
    """Hypotheses extended by one token, (windows, beam) each; total is -inf where there is none."""

    parent: Tensor  # index of the hypothesis that is extended
    token: Tensor
    log_probability: Tensor  # of the token
    total: Tensor  # of the whole hypothesis

    def map(self, function: Callable[[Tensor], Tensor]) -> Candidates:
        """Apply a function to every tensor."""
        return Candidates(*map(function, (self.parent, self.token, self.log_probability, self.total)))

    def where(self, valid: Tensor) -> Candidates:
        """Set the total of all others to -inf."""
        return Candidates(self.parent, self.token, self.log_probability, self.total.masked_fill(~valid, -math.inf))


@dataclass(frozen=True)
class TopTokens:
    """The most probable next tokens of each hypothesis: all that a step of beam search needs of the vocabulary."""

    closing: Tensor  # (windows, beam, 2) log-probabilities of END and SEPARATOR
    words: Tensor  # (windows, beam, count) those of the most probable words
    ids: Tensor  # (windows, beam, count) their tokens

    @classmethod
    def of(cls, logits: Tensor, count: int) -> TopTokens:
        """Of these logits, (windows, beam, vocabulary), which may be overwritten."""
        if has_top_tokens_kernel(logits, count):
            from focat.decoding.top_tokens_kernel import fused_top_tokens  # imports Triton, some 80 MB

            return cls(*fused_top_tokens(logits, count, LANES))
        if can_find_top_tokens(logits, count):
            words, ids, normaliser = top_tokens(logits, count)
            return cls(logits[..., END : SEPARATOR + 1] - normaliser, words - normaliser, ids)
        logits = logits.float()
        if logits.is_cuda:
            normaliser = logits.logsumexp(-1, keepdim=True)  # (windows, beam, 1)
        else:  # one kernel, where the logarithm of the sum is four passes
            logits, normaliser = logits.log_softmax(-1), torch.zeros(())
        closing = logits[..., END : SEPARATOR + 1] - normaliser
        words, ids = top_words(logits, count)
        return cls(closing, words - normaliser, ids)

    @classmethod
    def concatenate(cls, parts: Sequence[TopTokens]) -> TopTokens:
        """Those of all windows of several parts."""
        return cls(*(torch.cat(tensors) for tensors in zip(*((p.closing, p.words, p.ids) for p in parts), strict=True)))

    def expand_beams(self, beam: int) -> TopTokens:
        """The same for `beam` hypotheses, in place of one to a window."""
        return TopTokens(*(tensor.expand(-1, beam, -1) for tensor in (self.closing, self.words, self.ids)))


def has_top_tokens_kernel(logits: Tensor, count: int) -> bool:
    """Whether a kernel finds so many words of these logits, (…, vocabulary); each of its lanes must have a word."""
    vocabulary = logits.shape[-1]
    depth = 1 << (-(-vocabulary // LANES) - 1).bit_length()
    return (
        runs_kernels(logits.device)
        and logits.dtype in (torch.bfloat16, torch.float16, torch.float32)
        and 0 < count <= _MAX_FUSED
        and vocabulary >= 2 * LANES
        and depth * (1 << (count - 1).bit_length()) <= _MAX_CANDIDATES
        and logits.numel() > 0
    )


# candidates that end with END, and candidates that continue
Selection = tuple[Candidates, Candidates]
# (total log-probability of each hypothesis (windows, beam), limits) → what may follow them, selection
Selector = Callable[[Tensor, Limits], tuple[NextTokenMask, Selection]]


def within_limits(choose: Callable[[Tensor, NextTokenMask], Selection]) -> Selector:
    """A selector that chooses by totals and mask, where limits alone determine the mask."""

    def select(totals: Tensor, limits: Limits) -> tuple[NextTokenMask, Selection]:
        mask = next_token_mask(*limits)
        return mask, choose(totals, mask)

    return select


def beam_topk(top: TopTokens, totals: Tensor, mask: NextTokenMask) -> Selection:
    """Select the candidates of one step of beam search.

    Of the 2 · beam best candidates, the first `beam` that do not end continue; those that end do so if they are among
    the first `beam` of all, as in the authors' code. 2 · beam are enough: each hypothesis ends at most once.

    Args:
        top: the 2 · beam most probable words of each hypothesis.
        totals: log-probabilities of the hypotheses, (windows, beam).
        mask: what may follow them.
    """
    beam, ids = totals.shape[1], top.ids
    tokens = torch.cat((ids, torch.full_like(ids[..., :1], END), torch.full_like(ids[..., :1], SEPARATOR)), -1)
    allowed = torch.stack((mask.end, mask.separator), -1)
    allowed = torch.cat((mask.word[..., None].expand_as(ids), allowed), -1)
    scores = torch.where(allowed, torch.cat((top.words, top.closing), -1), -math.inf)  # (windows, beam, options)
    options = scores.shape[2]
    total, best = (totals[..., None] + scores).flatten(1).topk(2 * beam)  # (windows, 2 · beam)
    found = Candidates(best // options, tokens.flatten(1).gather(1, best), scores.flatten(1).gather(1, best), total)
    ends, live, _ = split_by_end(found, beam)
    return ends, live


def split_by_end(found: Candidates, beam: int) -> tuple[Candidates, Candidates, Tensor]:
    """Of 2 · beam candidates, the best first: those that end, those that continue, and the indices of the latter."""
    ends = found.token == END
    rank = torch.arange(2 * beam, device=ends.device)
    continuing = (rank + 2 * beam * ends).topk(beam, largest=False).indices  # unique keys: no ties
    live = found.map(lambda values: values.gather(1, continuing))
    first = found.map(lambda values: values[:, :beam])
    return first.where(first.token == END), live.where(live.token != END), continuing


def top_words(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest logits of words and their ids, (windows, beam, count) each; overwrites those of specials.

    They lie in the `count` blocks of the vocabulary with the highest maxima: one fast pass over the vocabulary, and a
    top-k among few. If the vocabulary has fewer words, special tokens with logit -inf fill up.
    """
    logits[..., :SPECIALS] = -math.inf
    vocabulary = logits.shape[-1]
    blocks = vocabulary // _BLOCK
    if blocks <= count:
        return logits.topk(min(count, vocabulary))
    blocked = logits[..., : blocks * _BLOCK].view(*logits.shape[:2], blocks, _BLOCK)
    chosen = blocked.amax(-1).topk(count).indices[..., None]  # (windows, beam, count, 1)
    within = torch.arange(_BLOCK, device=logits.device)
    rest = torch.arange(blocks * _BLOCK, vocabulary, device=logits.device).expand(*logits.shape[:2], -1)
    ids = torch.cat(((chosen * _BLOCK + within).flatten(2), rest), -1)
    values, indices = logits.gather(-1, ids).topk(count)
    return values, ids.gather(-1, indices)


def sample(
    logits: Tensor, uniforms: Tensor, temperature: float, top_p: float, totals: Tensor, mask: NextTokenMask
) -> Selection:
    """Sample the next token of every hypothesis by inverting the cumulative distribution at `uniforms`.

    `uniforms` are numbers from [0, 1), (windows, beam). Log-probabilities are the model's own, whatever the
    temperature and top_p.
    """
    possible = torch.where(mask.word[..., None], logits, -math.inf)
    possible[..., :END] = -math.inf
    for token, allowed in ((SEPARATOR, mask.separator), (END, mask.end)):
        possible[..., token] = torch.where(allowed, logits[..., token], -math.inf)
    probability, ids = (possible.double() / temperature).softmax(-1).sort(stable=True, descending=True)
    before = probability.cumsum(-1) - probability
    cumulative = probability.masked_fill(before >= top_p, 0).cumsum(-1)  # the most probable token always stays
    index = (cumulative <= uniforms[..., None] * cumulative[..., -1:]).sum(-1, keepdim=True)  # (windows, beam, 1)
    tokens = ids.gather(-1, index.clamp(max=ids.shape[-1] - 1))
    scores = (logits.gather(-1, tokens) - logits.logsumexp(-1, keepdim=True))[..., 0]
    parent = torch.arange(totals.shape[1], device=totals.device).expand_as(totals)
    found = Candidates(parent, tokens[..., 0], scores, totals + scores)
    return found.where(found.token == END), found.where(found.token != END)
