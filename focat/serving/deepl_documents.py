"""Documents in DeepL's API: a client sends a file, asks until it is translated, and fetches it once."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from focat.config.explain import short_text
from focat.serving.bodies import LenientBody, check_fields, read_fields
from focat.serving.clients import identify
from focat.serving.errors import ApiError
from focat.serving.files import ClientFile, download, file_of, read_form, text_field, text_of, written
from focat.serving.service import Service
from focat.serving.ticket import DocumentSentence, Ticket
from focat.translation.formats import FileSegment

_KEPT = 32  # documents at most; then the oldest is dropped


@dataclass(frozen=True)
class _Document:
    """A document that a client has sent."""

    key: str
    """A secret of the client's, besides its API key."""
    name: str
    """Of the translated file."""
    characters: int
    work: asyncio.Task[bytes]
    """What translates it."""


class DeepLDocumentBody(LenientBody):
    """Which document."""

    document_key: str
    """The key that came with its id."""
    auth_key: str | None = None
    """An API key."""


class DeepLDocuments:
    """Its endpoints.

    Args:
        service: translates.
        check: refuses what a client wishes and this server does not do, by the names of fields.
        count: is told of characters that a client has had translated.
    """

    def __init__(
        self,
        service: Service,
        check: Callable[[str | None, str | None], None],
        count: Callable[[Request, int], None],
    ) -> None:
        self._service, self._check, self._count = service, check, count
        self._documents: OrderedDict[str, _Document] = OrderedDict()  # by id, the oldest first

    def routes(self) -> list[Route]:
        """Paths and what answers them."""
        return [
            Route("/v2/document", self.upload, methods=["POST"]),
            Route("/v2/document/{id}", self.status, methods=["POST"]),
            Route("/v2/document/{id}/result", self.result, methods=["POST"]),
        ]

    async def upload(self, request: Request) -> Response:
        """Begin to translate a file."""
        form = await read_form(request)
        client = identify(request, self._service.options.keys, text_field(form, "auth_key"))
        self._check(text_field(form, "formality"), text_field(form, "glossary_id"))
        file, target = await file_of(form), text_field(form, "target_lang")
        if target is None:
            raise ApiError(400, "target_lang: is missing", "target_lang")
        wanted = text_field(form, "output_format")
        if wanted is not None and wanted.lower() != file.suffix.removeprefix("."):
            raise ApiError(
                400, f"output_format: {short_text(wanted)} is not that of the file, the only one it can have"
            )
        source = text_field(form, "source_lang")
        if source:
            run = self._service.run_for(source, target)
        else:
            run, _ = self._service.run_for_text(await run_in_threadpool(file.shown_text, self._service.runs[0]), target)
        segments = await run_in_threadpool(file.segments, run)
        text = text_of(segments)
        documents = [[DocumentSentence.of(sentence) for sentence in part] for part in text.documents]
        async with AsyncExitStack() as stack:
            ticket = await stack.enter_async_context(self._service.ticket(client, run, documents))
            work = asyncio.create_task(self._translate(stack.pop_all(), ticket, file, segments))
        work.add_done_callback(lambda task: task.cancelled() or task.exception())  # somebody has looked at it
        characters = sum(len(sentence.sentence.text) for part in documents for sentence in part)
        self._count(request, characters)
        id, key = secrets.token_hex(16), secrets.token_hex(32)
        self._documents[id] = _Document(key, file.translated_name(run.target), characters, work)
        while len(self._documents) > _KEPT:
            _, oldest = self._documents.popitem(last=False)
            oldest.work.cancel()
        return JSONResponse({"document_id": id, "document_key": key})

    async def status(self, request: Request) -> Response:
        """How far a document is."""
        id, document = await self._asked_for(request)
        answer: dict[str, object] = {"document_id": id, "status": "translating"}
        if document.work.done():
            error = asyncio.CancelledError() if document.work.cancelled() else document.work.exception()
            answer["status"] = "done" if error is None else "error"
            if error is None:
                answer["billed_characters"] = document.characters
            else:
                answer["error_message"] = error.message if isinstance(error, ApiError) else "the translation has failed"
        return JSONResponse(answer)

    async def result(self, request: Request) -> Response:
        """A translated document; it can be fetched once."""
        id, document = await self._asked_for(request)
        if not document.work.done():
            raise ApiError.later(503, "the document is not translated yet; ask for its status", 1)
        if document.work.cancelled() or document.work.exception() is not None:
            raise ApiError(404, "the document could not be translated; its status says why")
        del self._documents[id]
        return download(document.name, document.work.result())

    async def _asked_for(self, request: Request) -> tuple[str, _Document]:
        """The document of a request, and its id."""
        body = check_fields(await read_fields(request), DeepLDocumentBody)
        identify(request, self._service.options.keys, body.auth_key)
        id = request.path_params["id"]
        document, key = self._documents.get(id), body.document_key.encode("utf-8", "replace")
        if document is None or not secrets.compare_digest(key, document.key.encode()):
            raise ApiError(404, "there is no such document, or not with this document_key; it may have been fetched")
        return id, document

    async def _translate(
        self, ticket_open: AsyncExitStack, ticket: Ticket, file: ClientFile, segments: Sequence[FileSegment]
    ) -> bytes:
        async with ticket_open:
            found = await self._service.in_time(ticket.translations())
        return await run_in_threadpool(written, file, segments, found)
