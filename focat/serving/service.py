"""What all APIs share: the runs that are served, who asks, how much is taken on, and the way to a translation."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from focat.api import Model
from focat.config.explain import short_text
from focat.errors import FocatError, ParameterError
from focat.serving.clients import Client
from focat.serving.detection import Detected, detect
from focat.serving.errors import ApiError
from focat.serving.languages import same_language
from focat.serving.memory import Memory
from focat.serving.metrics import Metrics
from focat.serving.options import ServeOptions
from focat.serving.ticket import DocumentSentence, Ticket
from focat.serving.worker import Worker

_LOGGER = logging.getLogger("focat.serving")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ServedRun:
    """A run that is served."""

    id: str
    model: Model
    worker: Worker

    @property
    def source(self) -> str:
        """Code of the source language."""
        return self.model.settings.data.source_language

    @property
    def target(self) -> str:
        """Code of the target language."""
        return self.model.settings.data.target_language

    @property
    def before(self) -> int:
        """Sentences of context that a sentence may have."""
        return self.worker.windows.before

    async def call(self, function: Callable[[], Result]) -> Result:
        """Run a function in the thread of the run's worker; not if nobody waits for its result any more."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        def settle(set: Callable[..., None], value: object) -> None:
            if not future.done():
                set(value)

        def run() -> None:
            if future.done():
                return
            try:
                result = function()
            except Exception as error:
                loop.call_soon_threadsafe(settle, future.set_exception, error)
            else:
                loop.call_soon_threadsafe(settle, future.set_result, result)

        self.worker.call(run)
        return await future


class Service:
    """Everything that requests share. It belongs to the event loop."""

    def __init__(self, runs: Sequence[ServedRun], options: ServeOptions) -> None:
        self.runs, self.options = runs, options
        self.stopping = False
        """Whether the server finishes what it has, and takes on nothing new."""
        self.waiting = 0
        """Sentences that are not answered yet."""
        self._waiting_of: Counter[str] = Counter()  # the same for each owner of clients
        self.metrics = Metrics()
        self.metrics.watch("focat_waiting_sentences", "Sentences that are not answered yet", lambda: self.waiting)
        self.metrics.watch("focat_remembered_clients", "Clients whose sentences are kept", lambda: len(self.memory))
        self.memory = Memory(options.remember)
        self._tickets: dict[tuple[Client, str], Ticket] = {}  # by client and id

    def run_for(self, source: str | None, target: str | None) -> ServedRun:
        """The run for a language pair; a language that is not given may be any.

        Raises:
            ApiError: no run has this pair.
        """
        for run in self.runs:
            if (source is None or same_language(source, run.source)) and (
                target is None or same_language(target, run.target)
            ):
                return run
        for name, code, served in (
            ("source", source, {run.source for run in self.runs}),
            ("target", target, {run.target for run in self.runs}),
        ):
            if code is not None and not any(same_language(code, other) for other in served):
                known = ", ".join(sorted(served))
                raise ApiError(400, f"{short_text(code)} is not supported; choose from {known}", name)
        pairs = ", ".join(f"{run.source} to {run.target}" for run in self.runs)
        raise ApiError(400, f"{source} to {target} is not supported; there are: {pairs}", "target")

    def run_for_text(self, text: str, target: str) -> tuple[ServedRun, Detected]:
        """The run into a language for a text whose language is to be found out, and what was found."""
        first = self.run_for(None, target)
        detected = detect(text, self.languages)
        for found in detected:
            for run in self.runs:
                if same_language(run.target, first.target) and same_language(run.source, found.language):
                    return run, detected[0]
        return first, detected[0]

    @property
    def languages(self) -> list[str]:
        """Codes of all languages, sources and targets."""
        return list(dict.fromkeys(code for run in self.runs for code in (run.source, run.target)))

    @asynccontextmanager
    async def ticket(
        self,
        client: Client,
        run: ServedRun,
        documents: Sequence[Sequence[DocumentSentence]],
        nbest: int = 1,
        id: str | None = None,
    ) -> AsyncIterator[Ticket]:
        """Submit documents; what is not translated when the block ends is dropped.

        Args:
            client: who asks, for the limit on what one client may have waiting.
            id: under which `cancel` finds it.

        Raises:
            ApiError: too much, too much at once, or the server is stopping.
        """
        if nbest > run.worker.nbest:
            raise ApiError(400, f"nbest: at most {run.worker.nbest}, the beam of this run", "nbest")
        ticket = Ticket(documents, nbest)
        key = client, id or uuid.uuid4().hex
        if key in self._tickets:
            raise ApiError(409, f"id: {short_text(key[1])} is being translated already; choose another", "id")
        # A client that is slow to read its answer does not count as one that waits for it.
        ticket.on_finished = release = self.admit(client, ticket.sentences)
        self._tickets[key] = ticket
        try:
            run.worker.submit(ticket)
            if self.options.log_text:
                _log_text(run, ticket)
            yield ticket
            self.metrics.sentences.inc(ticket.wanted)
        except FocatError as error:
            raise _server_error(error) from error
        finally:
            ticket.cancelled = True
            del self._tickets[key]
            release()

    def _count(self, owner: str, sentences: int) -> None:
        """Add to what waits."""
        self.waiting += sentences
        self._waiting_of[owner] += sentences
        if not self._waiting_of[owner]:
            del self._waiting_of[owner]

    async def in_time(self, work: Awaitable[Result]) -> Result:
        """Wait for a result.

        Raises:
            ApiError: it takes too long, or was cancelled.
        """
        try:
            return await asyncio.wait_for(work, self.options.timeout)
        except asyncio.TimeoutError:
            raise self.too_late() from None

    def too_late(self) -> ApiError:
        """The error of a request that takes too long."""
        return ApiError(504, f"not translated within {self.options.timeout:g} seconds; send less, or try again later")

    def cancel(self, client: Client, id: str) -> None:
        """Cancel a request.

        Raises:
            ApiError: this client has no request of this id.
        """
        ticket = self._tickets.get((client, id))
        if ticket is None:
            raise ApiError(404, "id: nothing of this id is being translated", "id")
        ticket.cancel()

    def admit(self, client: Client, sentences: int) -> Callable[[], None]:
        """Take on work that counts for so many sentences; returns what ends it, and may be called again.

        Raises:
            ApiError: too much, too much at once, or the server is stopping.
        """
        options, owner = self.options, client.owner
        if self.stopping:
            raise ApiError.later(503, "the server is stopping; try again in a moment", 5)
        self.check_size(sentences)
        if self._waiting_of[owner] + sentences > options.max_client:
            raise ApiError.later(429, "too many of your sentences are waiting; send more when these are answered", 5)
        if self.waiting + sentences > options.max_queue:
            raise ApiError.later(503, "too many sentences are waiting; try again later", 10)
        self._count(owner, sentences)
        return _once(lambda: self._count(owner, -sentences))

    def check_size(self, sentences: int) -> None:
        """Refuse a request of too many sentences.

        Raises:
            ApiError: it has more than the limit.
        """
        most = self.options.max_sentences
        if sentences > most:
            raise ApiError(413, f"{sentences} sentences are too many; send at most {most}")


def _log_text(run: ServedRun, ticket: Ticket) -> None:
    for document in ticket.documents:
        for sentence in document:
            _LOGGER.info("%s to %s: %r", run.source, run.target, sentence.sentence.text)


def _once(function: Callable[[], None]) -> Callable[[], None]:
    """A function that does something the first time it is called."""
    left = [function]
    return lambda: left.pop()() if left else None


def _server_error(error: FocatError) -> ApiError:
    """The error of a translation as an answer: a wrong parameter, or a failure of the model."""
    return ApiError.of_parameter(error) if isinstance(error, ParameterError) else ApiError(500, str(error))
