"""Beam search for translations that contain required phrases (after Post and Vilar, 2018, with banks by phrase).

Besides its best words, every hypothesis is offered the tokens of its phrases. Candidates compete within three banks:
those that have all phrases, those that are inside of one, and the others. The beam takes the best of every bank before
the second best of any, so that a phrase is begun where that is likeliest, however unlikely it is. Inside of a phrase,
hypotheses are compared with a tenth of what follows its first token: that costs about the same wherever the phrase
stands, and one that has just begun would always win. No hypothesis ends before its phrases have occurred, and the
maximum length leaves room for those that are missing. One that would rather end than go on must go on with a phrase.

State is in tensors of fixed shape, as in `beam.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from focat.corpus.vocabulary import END, PAD, SEPARATOR
from focat.decoding.constraints import Limits, NextTokenMask, next_token_mask
from focat.decoding.phrases import BETWEEN, RequiredPhrases
from focat.decoding.selection import Candidates, Selection, split_by_end, top_words
from focat.decoding.tensor_struct import TensorStruct, gather_beams

_INSIDE_WEIGHT = 0.1  # of tokens of the open phrase after its first, where hypotheses are compared
_BANKS = 3  # hypotheses without an open phrase, with one, and with all phrases


@dataclass
class PhraseState(TensorStruct):
    """The automaton of each window (see `PhraseAutomaton`), and where each hypothesis is in it."""

    alphabet: Tensor  # (windows, tokens) PAD fills up
    transitions: Tensor  # (windows, states, tokens)
    features: Tensor  # (windows, states, 1 + 3 · phrases) closed, complete, progress, kept progress
    lengths: Tensor  # (windows, phrases)
    required: Tensor  # (windows, phrases)
    segment: Tensor  # (windows, 1) segment of the target that must contain the phrases; -1 where it is the last of any
    state: Tensor  # (windows, beam)
    missing: Tensor  # (windows, beam, phrases) how often each must still occur
    inside: Tensor  # (windows, beam) log-probability of the open phrase without its first token

    @classmethod
    def collate(cls, required: Sequence[RequiredPhrases | None], beam: int, size: int | None = None) -> PhraseState:
        """Lay automata side by side, one for each window, or none.

        Args:
            size: pad to automata of so many tokens, phrases and beginnings of forms; by default, to the largest.
        """
        known = [each.automaton for each in required if each]
        tokens = size or max(len(automaton.alphabet) for automaton in known)
        states = 2 + size if size else max(len(automaton.closed) for automaton in known)
        phrases = size or max(len(automaton.lengths) for automaton in known)
        count = len(required)
        alphabet, lengths, wanted = (np.zeros((count, n), np.int64) for n in (tokens, phrases, phrases))
        transitions = np.full((count, states, tokens), BETWEEN)
        features = np.zeros((count, states, 1 + 3 * phrases), np.int64)
        segment, state, missing = np.full((count, 1), -1), np.full((count, 1), BETWEEN), np.zeros((count, 1, phrases))
        for i, each in enumerate(required):
            if each is None:
                continue
            automaton = each.automaton
            n, a = automaton.transitions.shape
            p = len(automaton.lengths)
            alphabet[i, :a], transitions[i, :n, :a] = automaton.alphabet, automaton.transitions
            features[i, :n, 0] = automaton.closed
            of_phrases = features[i, :n, 1:].reshape(n, 3, phrases)
            of_phrases[..., :p] = np.stack((automaton.complete, automaton.progress, automaton.kept_progress), 1)
            features[i, :n, 1:] = of_phrases.reshape(n, -1)
            lengths[i, :p], wanted[i, :p], missing[i, 0, :p] = automaton.lengths, automaton.required, each.missing
            segment[i], state[i] = each.segment, each.state
        rows = (np.repeat(of_rows, beam, 1).astype(np.int64) for of_rows in (state, missing))
        arrays = alphabet, transitions, features, lengths, wanted, segment, *rows, np.zeros((count, beam), np.float32)
        return cls(*map(torch.from_numpy, arrays))

    def features_of(self, state: Tensor) -> Tensor:
        """Features of these states, (windows, …), as (windows, …, 1 + 3 · phrases)."""
        rows = gather_beams(self.features, state.flatten(1))
        return rows.view(*state.shape, -1)


@dataclass(frozen=True)
class Outlook:
    """What hypotheses lack, (windows, …) each."""

    left: Tensor  # occurrences that are missing, without pending ones
    need: Tensor  # tokens in which they can be produced
    open: Tensor  # whether the hypothesis is inside of a missing one

    @classmethod
    def of(cls, phrases: PhraseState, features: Tensor, missing: Tensor) -> Outlook:
        """Of hypotheses with these features and missing occurrences, (windows, …, phrases).

        Either the pending phrases count, and the next token must be one that they do not continue with, or not.
        """
        lengths = phrases.lengths.view(len(missing), *(1 for _ in missing.shape[2:]), -1)
        complete, progress, kept = features[..., 1:].chunk(3, -1)
        after = (missing - complete).clamp(min=0)
        saved = _largest(kept, after).clamp(min=1) - 1
        lost = _largest(progress, missing).clamp(min=1) - 1
        need = torch.minimum((after * lengths).sum(-1) - saved, (missing * lengths).sum(-1) - lost)
        return cls(after.sum(-1), need, _largest(progress, after) > 0)


def _largest(progress: Tensor, missing: Tensor) -> Tensor:
    return (progress * (missing > 0)).amax(-1)


class PhraseSearch:
    """Selects the candidates of windows with required phrases, and follows their hypotheses."""

    def __init__(self, phrases: PhraseState, before: Tensor, after: Tensor) -> None:
        """`before` and `after`: boundaries of words, (vocabulary,) each, see `WordBoundaries`."""
        self.phrases, self._before, self._after = phrases, before, after

    def keep(self, windows: Tensor) -> PhraseSearch:
        """The same for these windows alone."""
        return PhraseSearch(self.phrases.map(lambda values: values[windows]), self._before, self._after)

    def select(self, logits: Tensor, totals: Tensor, limits: Limits) -> tuple[NextTokenMask, Selection]:
        """Select the candidates of one step, and move on to the states of those that continue.

        Args:
            logits: of the next token, (windows, beam, vocabulary).
            totals: log-probabilities of the hypotheses, (windows, beam).
            limits: arguments of `next_token_mask`.
        """
        phrases, beam = self.phrases, totals.shape[1]
        closed, empty, decoded, max_length, sentences = limits
        free, last = sentences == 0, closed >= phrases.segment
        wanted = phrases.required.sum(-1, keepdim=True)  # (windows, 1)
        active = (wanted > 0) & (free | (closed == phrases.segment))  # (windows, beam)
        features = phrases.features_of(phrases.state)
        now = Outlook.of(phrases, features, phrases.missing)
        whole = (phrases.required * phrases.lengths).sum(-1, keepdim=True)  # tokens of all phrases
        need = torch.where(active, now.need, torch.where(last, 0, whole))
        one_word = (need > 0) & ~free & (empty | ~last)  # that is counted for the sentence anyway
        mask = next_token_mask(closed, empty, decoded, max_length - need + one_word.long(), sentences)
        unmet = active & (now.left > 0)

        normaliser = logits.logsumexp(-1, keepdim=True)
        closing = logits[..., END : SEPARATOR + 1].clone()  # (windows, beam, 2)
        words, ids = top_words(logits, 2 * beam)
        stuck = _prefers_to_close(closing, words[..., 0], mask, free)
        must_advance = unmet & (mask.forced | stuck)
        alphabet = phrases.alphabet[:, None].expand(-1, beam, -1)  # (windows, beam, tokens)
        ends = torch.tensor([END, SEPARATOR], device=ids.device).expand(*ids.shape[:2], 2)
        tokens = torch.cat((ids, alphabet, ends), -1)  # (windows, beam, options)
        scores = torch.cat((words, logits.gather(-1, alphabet), closing), -1) - normaliser

        state, missing = self._next(tokens, features, active, free)
        then = Outlook.of(phrases, phrases.features_of(state), missing)
        word = (mask.word & ~must_advance)[..., None]
        listed = (ids[..., None] == alphabet[:, :, None]).any(-1)  # they are offered with the alphabet
        advances = must_advance[..., None] & (then.need < now.need[..., None])[..., ids.shape[2] : -2]
        allowed = torch.cat(
            (
                word & ~listed,
                (alphabet != PAD) & (word | advances),
                (mask.end & ~unmet)[..., None],
                (mask.separator & ~torch.where(free, must_advance, unmet))[..., None],
            ),
            -1,
        )
        to_close = torch.where(free, 1, (2 * (sentences - closed) - 1).clamp(min=1))
        room = max_length - decoded - 1 - to_close
        feasible = ~active[..., None] | (then.need <= room[..., None])
        feasible[..., -2] = True  # END
        feasible[..., -1] |= ~free  # a separator of a given number of sentences closes what was counted
        scores = torch.where(allowed & feasible, scores, -math.inf)
        goes_on = (now.open[..., None] & then.open) & (then.need < now.need[..., None])
        inside = torch.where(goes_on & (scores > -math.inf), phrases.inside[..., None] + scores, 0)
        bank = torch.where(then.left == 0, _BANKS - 1, then.open.long())
        sums = totals[..., None] + scores
        chosen = _by_bank((sums - (1 - _INSIDE_WEIGHT) * inside).flatten(1), bank.flatten(1), 2 * beam)
        options = scores.shape[2]
        found = Candidates(
            chosen // options,
            tokens.flatten(1).gather(1, chosen),
            scores.flatten(1).gather(1, chosen),
            sums.flatten(1).gather(1, chosen),
        )
        ended, live, continuing = split_by_end(found, beam)
        kept = chosen.gather(1, continuing)
        phrases.state.copy_(state.flatten(1).gather(1, kept))
        phrases.missing.copy_(gather_beams(missing.flatten(1, 2), kept))
        phrases.inside.copy_(inside.flatten(1).gather(1, kept))
        return mask, (ended, live)

    def _next(self, tokens: Tensor, features: Tensor, active: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
        """States and missing occurrences after these tokens, (windows, beam, options), …."""
        phrases = self.phrases
        count = phrases.alphabet.shape[1]
        state = self._after[tokens].long()
        moves = gather_beams(phrases.transitions, phrases.state)  # (windows, beam, tokens)
        state[..., -2 - count : -2] = moves
        state = torch.where(active[..., None], state, BETWEEN)
        counts = (self._before[tokens] | (features[..., :1] > 0)) & active[..., None]
        complete = features[..., 1:].chunk(3, -1)[0]
        missing = phrases.missing[:, :, None] - complete[:, :, None] * counts[..., None]
        missing = missing.clamp(min=0)
        again = phrases.required[:, None]  # a sentence of any number may be the last one
        missing[:, :, -1] = torch.where(free[..., None], again, missing[:, :, -1])
        return state, missing


def _prefers_to_close(closing: Tensor, best_word: Tensor, mask: NextTokenMask, free: Tensor) -> Tensor:
    """Whether the token that closes the sentence is likelier than all others, (windows, beam)."""
    end, separator = closing.unbind(-1)
    ends = mask.end & (end > best_word) & (~free | (end > separator))
    return ends | (mask.separator & ~free & (separator > best_word))


def _by_bank(totals: Tensor, bank: Tensor, count: int) -> Tensor:
    """The first `count` candidates by their rank in their bank, and of equal ranks the likelier.

    With one bank, that is the order of totals. Returns indices, (windows, count).
    """
    totals, order = totals.sort(dim=-1, descending=True, stable=True)  # (windows, candidates)
    bank = bank.gather(1, order).masked_fill(totals == -math.inf, -1)
    of_bank = bank[..., None] == torch.arange(_BANKS, device=bank.device)  # (windows, candidates, banks)
    rank = (of_bank.cumsum(1) * of_bank).sum(-1).masked_fill(bank < 0, totals.shape[1] + 1)
    index = torch.arange(totals.shape[1], device=totals.device)
    first = (rank * totals.shape[1] + index).topk(count, largest=False).indices  # unique keys: no ties
    chosen: Tensor = order.gather(1, first)
    return chosen
