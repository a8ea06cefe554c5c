"""Search for translations with required phrases as its definition reads, one hypothesis after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from focat.corpus.vocabulary import END, SEPARATOR, SPECIALS
from focat.corpus.word_boundaries import WordBoundaries
from focat.decoding.requests import Request
from focat.model import Transformer
from tests.decoding.slow_search import log_probabilities

Form = tuple[int, ...]


def occurrences(forms: Sequence[Form], tokens: Sequence[int], words: WordBoundaries, pending: bool) -> int:
    """Places in a sentence where one of these forms ends; `pending`: what follows the sentence is a boundary."""
    return sum(any(_ends_at(form, tokens, end, words, pending) for form in forms) for end in range(1, len(tokens) + 1))


def _ends_at(form: Form, tokens: Sequence[int], end: int, words: WordBoundaries, pending: bool) -> bool:
    start = end - len(form)
    if start < 0 or tuple(tokens[start:end]) != form or not _may_begin(form, tokens, start, words):
        return False
    return words.after[form[-1]] or (words.before[tokens[end]] if end < len(tokens) else pending)


def _may_begin(form: Form, tokens: Sequence[int], start: int, words: WordBoundaries) -> bool:
    return start == 0 or words.before[form[0]] or words.after[tokens[start - 1]]


@dataclass
class Lack:
    """What a sentence lacks: occurrences, tokens in which they can be produced, whether it is inside of one."""

    left: int
    need: int
    open: bool


class SlowPhrases:
    """The phrases of a request."""

    def __init__(self, request: Request, words: WordBoundaries) -> None:
        self.words, self.phrases = words, list(dict.fromkeys(tuple(dict.fromkeys(p)) for p in request.required))
        listed = [tuple(dict.fromkeys(p)) for p in request.required]
        self.required = [
            sum(
                1 if other == phrase else min(occurrences(phrase, form, words, True) for form in other)
                for other in listed
            )
            for phrase in self.phrases
        ]
        self.shortest = [min(len(form) for form in forms if words.before[form[0]]) for forms in self.phrases]
        self.alphabet = {token for forms in self.phrases for form in forms for token in form}

    def lack(self, sentence: Sequence[int]) -> Lack:
        """What this sentence lacks, when it may go on."""
        now, then = (
            [
                max(count - occurrences(forms, sentence, self.words, pending), 0)
                for forms, count in zip(self.phrases, self.required, strict=True)
            ]
            for pending in (False, True)
        )
        savings = list(self._savings(sentence))  # phrase, tokens saved, whether what is pending stays
        kept = max((saved for i, saved, keeps in savings if then[i] and keeps), default=0)
        lost = max((saved for i, saved, _ in savings if now[i]), default=0)
        need = min(self._length(then) - kept, self._length(now) - lost)
        return Lack(sum(then), need, any(then[i] for i, _, _ in savings))

    def _length(self, counts: list[int]) -> int:
        return sum(count * length for count, length in zip(counts, self.shortest, strict=True))

    def _savings(self, sentence: Sequence[int]):
        for i, forms in enumerate(self.phrases):
            for form in forms:
                for done in range(1, len(form)):
                    start = len(sentence) - done
                    begun = start >= 0 and tuple(sentence[start:]) == form[:done]
                    if begun and _may_begin(form, sentence, start, self.words):
                        keeps = self.words.after[sentence[-1]] or self.words.before[form[done]]
                        yield i, max(self.shortest[i] - (len(form) - done), 0), keeps


def slow_phrase_beam(
    models: Sequence[Transformer], request: Request, limit: int, beam: int, penalty: float, words: WordBoundaries
) -> list[tuple[float, list[int]]]:
    """(score, tokens) of the finished hypotheses, the best first."""
    rules = _Rules(request, limit, words)
    live: list[tuple[float, list[int], float]] = [(0.0, [], 0.0)]  # the last: of its open phrase, without its first
    ended: list[tuple[float, list[int]]] = []
    while live and len(ended) < beam:
        found = []
        for total, tokens, inside in live:
            following = log_probabilities(models, request, [*tokens, END])[-1].tolist()
            for token in rules.next_tokens(tokens, following, beam):
                new, score = [*tokens, token], following[token]
                found.append((total + score, new, inside + score if rules.goes_on(tokens, new) else 0.0))
        found.sort(key=lambda each: each[0] - 0.9 * each[2], reverse=True)
        ranks: dict[str, int] = {}
        order = []
        for i, (_, tokens, _) in enumerate(found):
            bank = rules.bank(tokens)
            ranks[bank] = ranks.get(bank, -1) + 1
            order.append((ranks[bank], i))
        found = [found[i] for _, i in sorted(order)]
        ended += [(t / len(tokens) ** penalty, tokens) for t, tokens, _ in found[:beam] if tokens[-1] == END]
        live = [each for each in found if each[1][-1] != END][:beam]
    return sorted(ended, reverse=True)[:beam]


class _Rules:
    def __init__(self, request: Request, limit: int, words: WordBoundaries) -> None:
        self.request, self.limit, self.phrases = request, limit, SlowPhrases(request, words)
        self.segment = request.required_segment
        self.whole = self.phrases.lack([]).need

    def bank(self, tokens: list[int]) -> str:
        """The bank of a hypothesis."""
        lack = self._lack(tokens)
        return "all" if lack.left == 0 else "open" if lack.open else "other"

    def goes_on(self, tokens: list[int], new: list[int]) -> bool:
        """Whether a hypothesis is inside of a phrase, and its continuation goes on with it."""
        now, then = self._lack(tokens), self._lack(new)
        return now.open and then.open and then.need < now.need

    def _lack(self, tokens: list[int]) -> Lack:
        closed, sentence = self._open(tokens)
        if self._active(closed):
            return self.phrases.lack(sentence)
        return Lack(sum(self.phrases.required) if closed < self.segment else 0, 0, False)

    def next_tokens(self, tokens: list[int], following: list[float], beam: int) -> list[int]:
        """What is offered to a hypothesis."""
        ids = range(SPECIALS, len(following))
        best = sorted(ids, key=lambda token: following[token], reverse=True)
        offered = [*best[: 2 * beam], *(t for t in best[2 * beam :] if t in self.phrases.alphabet), END, SEPARATOR]
        legal = [token for token in offered if self._legal(tokens, token)]
        closed, sentence = self._open(tokens)
        now = self.phrases.lack(sentence) if self._active(closed) else None
        if now and now.left:
            free = self.request.sentences is None
            closing = END if free or closed == self.request.sentences - 1 else SEPARATOR
            can_close = bool(tokens) if free else bool(sentence)
            others = [best[0], SEPARATOR] if free else [best[0]]
            if can_close and all(following[closing] > following[other] for other in others):
                words = [t for t in legal if t >= SPECIALS]
                return [t for t in words if self.phrases.lack([*sentence, t]).need < now.need]
        return legal

    def _legal(self, tokens: list[int], token: int) -> bool:
        """Whether a hypothesis may go on with a token, and come to an end within the limit."""
        closed, sentence = self._open(tokens)
        free, count = self.request.sentences is None, self.request.sentences
        met = not self._active(closed) or self.phrases.lack(sentence).left == 0
        if token == END:
            return met and (bool(tokens) if free else bool(sentence) and closed == count - 1)
        if token == SEPARATOR and not free and not (met and sentence and closed < count - 1):
            return False
        return len(tokens) + 1 + self._to_end([*tokens, token]) <= self.limit

    def _to_end(self, tokens: list[int]) -> int:
        """Tokens that a hypothesis needs at least to end."""
        closed, sentence = self._open(tokens)
        if self.request.sentences is None:
            return self.phrases.lack(sentence).need + 1
        to_close = 2 * (self.request.sentences - closed) - 1
        if closed < self.segment:
            return to_close + (not sentence) + self.whole - 1
        need = self.phrases.lack(sentence).need if closed == self.segment else 0
        return to_close + (need or (not sentence))

    def _active(self, closed: int) -> bool:
        return self.request.sentences is None or closed == self.segment

    def _open(self, tokens: list[int]) -> tuple[int, list[int]]:
        """How many sentences a hypothesis has closed, and the tokens of the open one; END is left out."""
        whole = [t for t in [*self.request.prefix, *tokens] if t != END]
        start = max((i + 1 for i, t in enumerate(whole) if t == SEPARATOR), default=0)
        return whole.count(SEPARATOR), whole[start:]
