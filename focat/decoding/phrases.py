"""Phrases that a translation must contain, compiled to an automaton over tokens that finds them.

A form occurs in a hypothesis where its tokens follow one another, at the boundaries of words on both sides. A phrase
must occur as often as it is required; each place where one of its forms ends counts once.

The automaton (Aho-Corasick) is in the state of the longest end of a hypothesis that is the beginning of a form. Whether
a form that ends within a word has occurred is known with the next token only: until then, the phrase is *pending*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from focat.corpus.vocabulary import END
from focat.corpus.word_boundaries import WordBoundaries

INSIDE, BETWEEN = 0, 1  # states outside all forms: after a token that a word continues through, or after a boundary

Form = tuple[int, ...]
Phrases = tuple[tuple[Form, ...], ...]
"""Phrases, each with its forms, each of them tokens."""


@dataclass(frozen=True)
class PhraseAutomaton:
    """The automaton of one request, and what it knows about each state and phrase."""

    alphabet: NDArray[np.int64]  # (tokens,) all tokens of all forms
    transitions: NDArray[np.int64]  # (states, tokens) the next state; any other token leads to INSIDE or BETWEEN
    closed: NDArray[np.bool_]  # (states,) whether forms that end here end with a boundary, whatever comes next
    complete: NDArray[np.int64]  # (states, phrases) whether a form of the phrase ends here
    progress: NDArray[np.int64]  # (states, phrases) 0 outside its forms; else 1 + tokens saved by going on
    kept_progress: NDArray[np.int64]  # (states, phrases) the same, of forms whose next token loses nothing pending
    lengths: NDArray[np.int64]  # (phrases,) tokens of the shortest form that may begin after any token
    required: NDArray[np.int64]  # (phrases,) how often each must occur

    def read(self, tokens: Sequence[int], boundaries: WordBoundaries) -> tuple[int, NDArray[np.int64]]:
        """State and numbers of occurrences, (phrases,), after these tokens at the beginning of a sentence."""
        index = {int(token): i for i, token in enumerate(self.alphabet)}
        state, found = BETWEEN, np.zeros_like(self.required)
        for token in tokens:
            if self.closed[state] or boundaries.before[token]:
                found = found + self.complete[state]
            outside = BETWEEN if boundaries.after[token] else INSIDE
            state = int(self.transitions[state, index[token]]) if token in index else outside
        return state, found


@dataclass(frozen=True)
class RequiredPhrases:
    """The phrases of a request, and how many of them its prefix has already."""

    automaton: PhraseAutomaton
    segment: int  # of the target, which must contain them; -1 for the last one of any number
    state: int  # after the prefix
    missing: NDArray[np.int64]  # (phrases,) how often each must still occur

    @property
    def size(self) -> int:
        """Of the automaton: the largest of its numbers of tokens, phrases and beginnings of forms."""
        return max(len(self.automaton.alphabet), len(self.automaton.closed) - 2)

    @property
    def need(self) -> int:
        """Tokens in which the missing ones can be produced."""
        return int((self.missing * self.automaton.lengths).sum())


class PhraseCompiler:
    """Compiles phrases for one vocabulary; equal ones once."""

    def __init__(self, boundaries: WordBoundaries) -> None:
        self.boundaries = boundaries
        self.compile = lru_cache(1 << 8)(self._compile)  # long phrases take megabytes

    def start(self, phrases: Phrases, segment: int, prefix: Sequence[int]) -> RequiredPhrases:
        """Phrases that a segment of the target must contain, where a prefix of it is given; see `RequiredPhrases`."""
        automaton = self.compile(phrases)
        state, found = automaton.read(prefix, self.boundaries)
        return RequiredPhrases(automaton, segment, state, np.maximum(automaton.required - found, 0))

    def _compile(self, phrases: Phrases) -> PhraseAutomaton:
        """The automaton of these phrases; one that is listed several times must occur as often."""
        listed = Counter(tuple(dict.fromkeys(forms)) for forms in phrases)
        counted = _automaton(list(listed), np.array(list(listed.values())), self.boundaries)
        # where a phrase is part of another one, its occurrences there do not count for it
        within = np.array([self._least_found(counted, forms) for forms in listed])  # (phrases, phrases)
        required = (counted.required[:, None] * np.maximum(within, np.eye(len(listed), dtype=np.int64))).sum(0)
        return PhraseAutomaton(**{**vars(counted), "required": required})

    def _least_found(self, automaton: PhraseAutomaton, forms: Sequence[Form]) -> NDArray[np.int64]:
        """How often each phrase occurs in any of these forms, (phrases,)."""
        found = [automaton.read((*form, END), self.boundaries)[1] for form in forms]
        least: NDArray[np.int64] = np.min(found, axis=0)
        return least


def _automaton(
    phrases: Sequence[Sequence[Form]], required: NDArray[np.int64], boundaries: WordBoundaries
) -> PhraseAutomaton:
    alphabet = sorted({token for forms in phrases for form in forms for token in form})
    column = {token: i for i, token in enumerate(alphabet)}
    beginnings = {form[:n] for forms in phrases for form in forms for n in range(1, 1 + len(form))}
    states = {path: 2 + i for i, path in enumerate(sorted(beginnings, key=lambda path: (len(path), path)))}
    children: dict[Form, list[tuple[int, int]]] = {}  # of a path: the column of the token that follows, and its state
    for path, state in states.items():
        children.setdefault(path[:-1], []).append((column[path[-1]], state))
    outside = np.where(boundaries.after[alphabet], BETWEEN, INSIDE)
    transitions = np.tile(outside, (2 + len(states), 1))
    for i, state in children[()]:
        transitions[BETWEEN, i] = state
        transitions[INSIDE, i] = state if boundaries.before[alphabet[i]] else outside[i]
    lengths = [min((len(f) for f in forms if boundaries.before[f[0]]), default=len(forms[0])) for forms in phrases]
    closed = np.zeros(len(transitions), np.bool_)
    complete, progress, kept = (np.zeros((len(transitions), len(phrases)), np.int64) for _ in range(3))
    shorter: dict[Form, int] = {}  # the state of the longest end of a path that is a beginning of a form, too
    for path, state in states.items():  # the shorter paths first, so that what they lead to is known
        last = column[path[-1]]
        shorter[path] = int(transitions[shorter[path[:-1]], last] if len(path) > 1 else outside[last])
        transitions[state] = transitions[shorter[path]]
        for i, child in children.get(path, ()):
            transitions[state, i] = child
        closed[state] = boundaries.after[path[-1]]
        for i, forms in enumerate(phrases):
            for form in forms:
                if form == path:
                    complete[state, i] = 1
                elif form[: len(path)] == path:
                    saved = 1 + max(lengths[i] - (len(form) - len(path)), 0)
                    progress[state, i] = max(progress[state, i], saved)
                    if closed[state] or boundaries.before[form[len(path)]]:
                        kept[state, i] = max(kept[state, i], saved)
        for of_states in (complete, progress, kept):
            np.maximum(of_states[state], of_states[shorter[path]], out=of_states[state])
    return PhraseAutomaton(
        np.array(alphabet), transitions, closed, complete, progress, kept, np.array(lengths), required
    )
