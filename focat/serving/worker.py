"""The thread that owns the engine of a run, and decodes the documents of all clients together.

Documents take turns: of each, one sentence is decoded at a time, since the next one needs its translation. What is
ready forms a wave; what arrives in the meantime joins the next one. So a long document does not keep a short one
waiting.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from focat.errors import FocatError
from focat.serving.ticket import Event, Ticket
from focat.translation.document_stream import DocumentStream, OutputSentence
from focat.translation.driver import Wave, WindowDriver
from focat.translation.result import Translation
from focat.translation.translator import Translator

_LOGGER = logging.getLogger("focat.serving")
_PATIENCE_SECONDS = 0.002  # after a wave of several clients, their next requests have a moment to arrive together
WAVE_TOKENS = 1024  # source tokens of a wave on a CPU, where a wave is decoded to its end before the next one starts


@dataclass(eq=False, kw_only=True)
class ServedDocument(DocumentStream):
    """A document of a client, and what is not delivered of it."""

    ticket: Ticket
    output: deque[tuple[int | None, OutputSentence, str | None]] = field(default_factory=deque)
    """Index in the answer, None for context; the sentence; its translation if it was given."""


class Lane:
    """Documents that are decoded with the same settings of the search."""

    def __init__(self, translator: Translator, wave_tokens: int) -> None:
        self.translator, self._wave_tokens = translator, wave_tokens
        self.driver = WindowDriver(translator.jobs, translator.decoder)
        self.ready: deque[ServedDocument] = deque()  # documents whose next sentence may be decoded, in turn
        self._open: dict[int, ServedDocument] = {}  # all that are not finished, by identity

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self.ready and self.driver.idle

    def add(self, ticket: Ticket) -> list[tuple[Ticket, Event]]:
        """Begin the documents of a request; returns the translations that were given with them."""
        index = 0
        events = []
        for sentences in ticket.documents:
            document = ServedDocument(deque(maxlen=self.translator.windows.before), closed=True, ticket=ticket)
            for number, sentence in enumerate(sentences):
                read = self.translator.read_sentence(sentence.sentence, number)
                if read.text:
                    document.waiting.append(read)
                given = sentence.sentence.translation
                document.output.append((index if sentence.wanted else None, read, given))
                index += sentence.wanted
            events += self._take_finished(document)
            if not document.finished:
                self.ready.append(document)
                self._open[id(document)] = document
        return events

    def step(self) -> list[tuple[Ticket, Event]]:
        """Decode a wave, or a few tokens of it on a GPU; returns what has finished."""
        wave = Wave(self._wave_tokens)
        events: list[tuple[Ticket, Event]] = []
        while self.ready and not wave.full:
            document = self.ready.popleft()
            try:
                job = None if document.ticket.cancelled else self.translator.jobs.next_job(document)
                if job is not None:
                    self.driver.submit(job)
            except Exception as error:  # of this document; all others go on
                document.ticket.cancelled, job = True, None
                events.append((document.ticket, _logged(error)))
            if job is None:
                self._open.pop(id(document), None)
                continue
            wave.add(job)
            if not document.busy:  # without target context, sentences do not wait for each other
                self.ready.append(document)
        try:
            for job in self.driver.step():
                served = job.document
                assert isinstance(served, ServedDocument)
                events += self._take_finished(served)
                if self.translator.reuse:
                    self.ready.append(served)
        except Exception as error:  # the engine has dropped all that was being decoded; what comes next may fare better
            events += self._drop_all(_logged(error))
        return events

    def _drop_all(self, error: Exception) -> list[tuple[Ticket, Event]]:
        """Give up all documents; returns the error for each request."""
        failed = {id(document.ticket): document.ticket for document in self._open.values()}
        self._open.clear()
        self.ready.clear()
        return [(ticket, error) for ticket in failed.values()]

    def _take_finished(self, document: ServedDocument) -> list[tuple[Ticket, Event]]:
        """Remove the first sentences of a document that are translated; those that are wanted are returned."""
        events: list[tuple[Ticket, Event]] = []
        while document.output and document.output[0][1].missing == 0:
            index, sentence, given = document.output.popleft()
            if index is not None:
                translation = Translation(sentence.source, given) if given is not None else None
                events.append((document.ticket, (index, translation or self.translator.translation(sentence))))
        return events


class Worker(threading.Thread):
    """Decodes until it is told to stop, and then what is left."""

    def __init__(self, translator: Translator, name: str) -> None:
        super().__init__(name=f"focat-{name}", daemon=True)
        self.windows = translator.windows
        """Of the translator: those of the run, or smaller or larger ones."""
        self.nbest = translator.settings.beam
        """Most alternatives that can be had of a sentence."""
        translator.engine.keep_memory_flat()
        tokens = translator.engine.batch_tokens if translator.engine.static else WAVE_TOKENS
        self._best = Lane(translator, tokens)
        self._several = Lane(translator.with_nbest(self.nbest), tokens)
        self._inbox: queue.SimpleQueue[Ticket | Callable[[], None] | None] = queue.SimpleQueue()
        self._stopping = False
        self._last_wave = 0  # events of the last wave

    def submit(self, ticket: Ticket) -> None:
        """Translate the documents of a request."""
        self._inbox.put(ticket)

    def call(self, function: Callable[[], None]) -> None:
        """Run a function between two waves: for other work with the model."""
        self._inbox.put(function)

    def stop(self) -> None:
        """Finish what was submitted, then end."""
        self._inbox.put(None)

    def run(self) -> None:
        """Receive and decode by turns."""
        lanes = self._best, self._several
        while not (self._stopping and all(lane.idle for lane in lanes)):
            self._receive(wait=all(lane.idle for lane in lanes))
            for lane in lanes:
                if not lane.idle:
                    self._step(lane)

    def _receive(self, wait: bool) -> None:
        """Take what has arrived; `wait` for the first, if there is nothing else to do."""
        if wait and not self._stopping:
            self._take(self._inbox.get())
            if self._last_wave > 1:
                time.sleep(_PATIENCE_SECONDS)
        while not self._inbox.empty():
            self._take(self._inbox.get())

    def _take(self, item: Ticket | Callable[[], None] | None) -> None:
        if item is None:
            self._stopping = True
        elif isinstance(item, Ticket):
            lane = self._best if item.nbest == 1 else self._several
            try:
                _deliver(lane.add(item))
            except Exception as error:
                item.cancelled = True
                _deliver([(item, _logged(error))])
        else:
            item()

    def _step(self, lane: Lane) -> None:
        events = lane.step()
        self._last_wave = len(events)
        _deliver(events)


def _logged(error: Exception) -> Exception:
    """The error, which is logged unless a user can do something about it."""
    if not isinstance(error, FocatError):
        _LOGGER.error("decoding failed", exc_info=error)
    return error


def _deliver(events: list[tuple[Ticket, Event]]) -> None:
    """Hand events over to the event loop."""

    def deliver() -> None:
        for ticket, event in events:
            ticket.deliver(event)

    if events:
        events[0][0].loop.call_soon_threadsafe(deliver)
