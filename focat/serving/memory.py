"""What the server remembers of its clients: their last sentences and the translations of these, for a while.

Programs that translate sentence by sentence send no context. What a client has sent just before is the context of what
it sends now. Nothing of it is written anywhere, and no client sees what another has sent.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from focat.serving.clients import Client

_SENTENCES = 64  # that are kept of a client; a `context` that repeats one of them need not be translated again
_SENTENCE_CHARACTERS = 2_000  # a longer one fits into no window, and is not kept


@dataclass
class _Remembered:
    """The last sentences of a client in one language pair, oldest first, with their translations."""

    time: float
    pairs: deque[tuple[str, str]] = field(default_factory=deque)


@dataclass(frozen=True)
class MemoryLimits:
    """How much is remembered; of too much, what has been silent longest is forgotten."""

    clients: int = 10_000
    of_one_owner: int = 2_000
    """Conversations of one key or address, so that it cannot make the server forget all others."""
    characters: int = 50_000_000
    """Of all sentences and translations."""


class Memory:
    """The last sentences of each client. It belongs to the event loop."""

    def __init__(
        self, seconds: float, limits: MemoryLimits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Forget a client `seconds` after its last request."""
        self._seconds, self._limits, self._clock = seconds, limits or MemoryLimits(), clock
        self._clients: OrderedDict[tuple[Client, str], _Remembered] = OrderedDict()  # by client and run, oldest first
        self._of_owner: Counter[str] = Counter()
        self._characters = 0

    def __len__(self) -> int:
        self._expire()
        return len(self._clients)

    def recall(self, client: Client, run: str, count: int) -> list[tuple[str, str]]:
        """The last sentences of a client with their translations, oldest first."""
        pairs = self._pairs(client, run)
        return pairs[max(len(pairs) - count, 0) :]

    def translation_of(self, client: Client, run: str, source: str) -> str | None:
        """How a sentence of a client was translated the last time, if that is still known."""
        pairs = reversed(self._pairs(client, run))
        return next((translation for known, translation in pairs if known == source), None)

    def remember(self, client: Client, run: str, pairs: Iterable[tuple[str, str]]) -> None:
        """Add sentences and their translations."""
        if self._seconds <= 0:
            return
        self._expire()
        if (client, run) not in self._clients:
            self._clients[client, run] = _Remembered(0.0)
            self._of_owner[client.owner] += 1
        found = self._clients[client, run]
        for pair in pairs:
            if max(map(len, pair)) <= _SENTENCE_CHARACTERS:
                found.pairs.append(pair)
                self._characters += _characters(pair)
                if len(found.pairs) > _SENTENCES:
                    self._characters -= _characters(found.pairs.popleft())
        found.time = self._clock()
        self._clients.move_to_end((client, run))
        if self._of_owner[client.owner] > self._limits.of_one_owner:
            self._remove(next(key for key in self._clients if key[0].owner == client.owner))
        while len(self._clients) > self._limits.clients or self._characters > self._limits.characters:
            self._remove(next(iter(self._clients)))

    def forget(self, client: Client) -> None:
        """Forget a client."""
        for key in [key for key in self._clients if key[0] == client]:
            self._remove(key)

    def _pairs(self, client: Client, run: str) -> list[tuple[str, str]]:
        self._expire()
        found = self._clients.get((client, run))
        return list(found.pairs) if found else []

    def _expire(self) -> None:
        late = self._clock() - self._seconds
        while self._clients and next(iter(self._clients.values())).time < late:
            self._remove(next(iter(self._clients)))

    def _remove(self, key: tuple[Client, str]) -> None:
        owner = key[0].owner
        self._characters -= sum(map(_characters, self._clients.pop(key).pairs))
        self._of_owner[owner] -= 1
        if not self._of_owner[owner]:
            del self._of_owner[owner]


def _characters(pair: tuple[str, str]) -> int:
    return len(pair[0]) + len(pair[1])
