"""A request while it is translated: its documents on the way in, its translations on the way out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from focat.serving.errors import ApiError
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence, Sentence, as_input

_COUNTED_CHARACTERS = 1_000  # a longer sentence counts as several


@dataclass(frozen=True)
class DocumentSentence:
    """A sentence of a document to translate."""

    sentence: InputSentence
    wanted: bool = True
    """Whether it is part of the answer; if not, it is context only."""

    @classmethod
    def of(cls, sentence: Sentence, wanted: bool = True) -> DocumentSentence:
        """A sentence that may be a plain string."""
        return cls(as_input(sentence), wanted)


Event = tuple[int, Translation] | Exception
"""The translation of a sentence and its index among those that are wanted, or an error, after which nothing follows."""


class Ticket:
    """One request of one client. It belongs to the event loop; a worker reads it, and delivers into it."""

    def __init__(self, documents: Sequence[Sequence[DocumentSentence]], nbest: int = 1) -> None:
        self.documents, self.nbest = documents, nbest
        self.wanted = sum(sentence.wanted for document in documents for sentence in document)
        self.sentences = sum(
            1 + len(each.sentence.text) // _COUNTED_CHARACTERS for document in documents for each in document
        )
        """What it counts for in limits: its sentences, and more for those that are as long as several."""
        self.cancelled = False
        """Set when nobody waits for the answer any more: the worker drops what is not decoded yet."""
        self.loop = asyncio.get_running_loop()
        self.on_finished: Callable[[], None] = lambda: None
        """Called in the event loop when the worker has nothing more to do for it."""
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._missing = self.wanted

    def deliver(self, event: Event) -> None:
        """Take an event of the worker; called in the event loop."""
        self._events.put_nowait(event)
        self._missing -= 1
        if isinstance(event, Exception) or not self._missing:
            self.on_finished()

    def cancel(self) -> None:
        """Give up: whoever waits for translations gets no more of them."""
        self.cancelled = True
        self.deliver(ApiError(409, "cancelled"))

    async def __aiter__(self) -> AsyncIterator[tuple[int, Translation]]:
        """Each wanted sentence with its index, in the order of its document, as soon as it is translated."""
        for _ in range(self.wanted):
            event = await self._events.get()
            if isinstance(event, Exception):
                raise event
            yield event

    async def translations(self) -> list[Translation]:
        """All wanted sentences, in order."""
        found = {index: translation async for index, translation in self}
        return [found[index] for index in range(self.wanted)]
