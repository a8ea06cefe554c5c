"""What the server remembers of its clients: their last sentences and the translations of these, for a while.

Programs that translate sentence by sentence send no context. What a client has sent just before is the context of what
it sends now. Nothing of it is written anywhere, and no client sees what another has sent.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_SENTENCES = 64  # that are kept of a client; a `context` that repeats one of them need not be translated again


@dataclass
class _Remembered:
    """The last sentences of a client in one language pair, oldest first, with their translations."""

    time: float
    pairs: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=_SENTENCES))


class Memory:
    """The last sentences of each client. It belongs to the event loop."""

    def __init__(self, seconds: float, max_clients: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        """Forget a client `seconds` after its last request; of too many, those that have been silent longest."""
        self._seconds, self._max_clients, self._clock = seconds, max_clients, clock
        self._clients: OrderedDict[tuple[str, str], _Remembered] = OrderedDict()  # by client and run, oldest first

    def __len__(self) -> int:
        self._expire()
        return len(self._clients)

    def recall(self, client: str, run: str, count: int) -> list[tuple[str, str]]:
        """The last sentences of a client with their translations, oldest first."""
        pairs = self._pairs(client, run)
        return pairs[max(len(pairs) - count, 0) :]

    def translation_of(self, client: str, run: str, source: str) -> str | None:
        """How a sentence of a client was translated the last time, if that is still known."""
        pairs = reversed(self._pairs(client, run))
        return next((translation for known, translation in pairs if known == source), None)

    def remember(self, client: str, run: str, pairs: Iterable[tuple[str, str]]) -> None:
        """Add sentences and their translations."""
        if self._seconds <= 0:
            return
        self._expire()
        found = self._clients.setdefault((client, run), _Remembered(0.0))
        found.pairs.extend(pairs)
        found.time = self._clock()
        self._clients.move_to_end((client, run))
        while len(self._clients) > self._max_clients:
            self._clients.popitem(last=False)

    def forget(self, client: str) -> None:
        """Forget a client."""
        for key in [key for key in self._clients if key[0] == client]:
            del self._clients[key]

    def _pairs(self, client: str, run: str) -> list[tuple[str, str]]:
        self._expire()
        found = self._clients.get((client, run))
        return list(found.pairs) if found else []

    def _expire(self) -> None:
        late = self._clock() - self._seconds
        while self._clients and next(iter(self._clients.values())).time < late:
            self._clients.popitem(last=False)
