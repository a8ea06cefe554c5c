"""The native API: documents with their context, fixed translations, alternatives, one sentence after the other."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from pydantic import Field, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from focat.errors import FocatError
from focat.serving.bodies import StrictBody, read_json
from focat.serving.clients import Client, identify
from focat.serving.errors import ApiError
from focat.serving.explain import ExplainedSentence, explain
from focat.serving.files import align_sentence, file_of, read_form, text_field, text_of, written
from focat.serving.service import ServedRun, Service
from focat.serving.texts import run_by_size, split_text
from focat.serving.ticket import DocumentSentence, Ticket
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence, Sentence, as_input

_REQUIRED_CHARACTERS = 2_000  # of all phrases of a sentence, which are compiled to an automaton
_KEEP_ALIVE_SECONDS = 10.0  # between comments in a stream that has nothing to say


class ContextBody(StrictBody):
    """A sentence before the document."""

    source: str
    """The sentence."""
    translation: str | None = None
    """Its translation; if there is none, the server translates it."""


class DocumentBody(StrictBody):
    """A document to translate."""

    source: str | None = None
    """Source language; that of the first run if not given."""
    target: str | None = None
    """Target language; that of the first run if not given."""
    sentences: list[str] | None = None
    """The sentences of the document."""
    text: str | None = None
    """Running text, which the server splits into sentences, instead of `sentences`."""
    breaks: list[NonNegativeInt] = Field(default_factory=list)
    """Sentences that begin another document: nothing before them is their context."""
    context: list[ContextBody] = Field(default_factory=list)
    """Sentences before the document, the oldest first."""
    translations: list[str | None] = Field(default_factory=list)
    """Translations that are fixed, such as a person's corrections: they are context, and not translated again."""
    required: list[list[list[str]]] = Field(default_factory=list)
    """For each sentence the phrases that its translation must contain; of each, one of the forms in its list."""
    start: NonNegativeInt = 0
    """Translate from this sentence on; those before it are context."""
    nbest: PositiveInt = 1
    """Alternatives to return of each sentence."""
    stream: bool = False
    """Send each sentence as a server-sent event as soon as it is translated."""
    id: str | None = None
    """Name under which the request can be cancelled; the server chooses one if not given."""


class ExplainBody(StrictBody):
    """A translated sentence of a document, to be explained."""

    source: str | None = None
    """Source language; that of the first run if not given."""
    target: str | None = None
    """Target language; that of the first run if not given."""
    sentences: list[str]
    """The sentences of the document."""
    translations: list[str | None]
    """Their translations, at least up to the sentence."""
    index: NonNegativeInt
    """The sentence."""


@dataclass(frozen=True)
class _Document:
    """A document of the native API, as the service takes it."""

    sentences: list[str]
    paragraphs: list[int] | None
    fixed: list[str | None]
    start: int
    nbest: int
    parts: list[list[DocumentSentence]]

    def answer(self, index: int, translation: Translation) -> dict[str, object]:
        """What is sent of a sentence; `index` counts from the first that is translated."""
        index += self.start
        sent: dict[str, object] = {
            "index": index,
            "source": self.sentences[index],
            "translation": translation.text,
            "score": translation.score,
            "alternatives": [
                {"text": other.text, "score": other.score} for other in translation.alternatives[: self.nbest]
            ],
            "fixed": self.fixed[index] is not None,
        }
        if self.paragraphs is not None:
            sent["paragraph"] = self.paragraphs[index]
        return sent


class NativeApi:
    """Its endpoints."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """Paths and what answers them."""
        return [
            Route("/v1/models", self.models),
            Route("/v1/documents", self.documents, methods=["POST"]),
            Route("/v1/documents/{id}", self.cancel, methods=["DELETE"]),
            Route("/v1/memory", self.forget, methods=["DELETE"]),
            Route("/v1/explain", self.explain, methods=["POST"]),
            Route("/v1/files", self.files, methods=["POST"]),
            Route("/v1/export", self.export, methods=["POST"]),
        ]

    async def models(self, request: Request) -> Response:
        """The runs that are served."""
        self._client(request)
        return JSONResponse({"models": [_described(run) for run in self._service.runs]})

    async def documents(self, request: Request) -> Response:
        """Translate a document, at once or as a stream."""
        client = self._client(request)
        body = await read_json(request, DocumentBody)
        run = self._service.run_for(body.source, body.target)
        self._service.check_size(max(len(body.sentences or ()), len(body.context)))
        document = await run_by_size(len(body.text or ""), _read, body, run)
        id = body.id or uuid.uuid4().hex
        head = {"id": id, "source": run.source, "target": run.target}
        async with AsyncExitStack() as stack:
            opened = self._service.ticket(client, run, document.parts, body.nbest, id)
            ticket = await stack.enter_async_context(opened)
            if body.stream:
                events = self._events(ticket, document, head, stack.pop_all())
                return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
            found = await self._service.in_time(ticket.translations())
        return JSONResponse({**head, "sentences": [document.answer(i, each) for i, each in enumerate(found)]})

    async def _events(
        self, ticket: Ticket, document: _Document, head: dict[str, str], stack: AsyncExitStack
    ) -> AsyncIterator[str]:
        """Server-sent events: `sentence` for each, then `done`; or `error`."""
        async with stack:
            try:
                translations = aiter(ticket)
                deadline = asyncio.get_running_loop().time() + self._service.options.timeout
                while True:
                    following = asyncio.ensure_future(anext(translations, None))
                    try:
                        while not following.done():
                            left = deadline - asyncio.get_running_loop().time()
                            await asyncio.wait({following}, timeout=min(max(left, 0), _KEEP_ALIVE_SECONDS))
                            if not following.done():
                                if left <= 0:
                                    raise self._service.too_late()
                                yield ": still translating\n\n"
                    finally:
                        following.cancel()
                    event = following.result()
                    if event is None:
                        break
                    yield _event("sentence", document.answer(*event))
                yield _event("done", {**head, "sentences": ticket.wanted})
            except ApiError as error:
                yield _event("error", {"message": error.message, "status": error.status})
            except FocatError as error:
                yield _event("error", {"message": str(error), "status": 500})

    async def cancel(self, request: Request) -> Response:
        """Cancel a document that is being translated."""
        self._service.cancel(self._client(request), request.path_params["id"])
        return Response(status_code=204)

    async def forget(self, request: Request) -> Response:
        """Forget the last sentences of a client, or of one of its sessions."""
        key, session = request.query_params.get("api_key"), request.query_params.get("session")
        client = identify(request, self._service.options.keys, key, session, status=401)
        self._service.memory.forget(client)
        return Response(status_code=204)

    async def explain(self, request: Request) -> Response:
        """What mattered for the translation of a sentence."""
        client = self._client(request)
        body = await read_json(request, ExplainBody)
        run = self._service.run_for(body.source, body.target)
        sentence = ExplainedSentence.checked(body.sentences, body.translations, body.index)
        alone = [[DocumentSentence.of(body.sentences[body.index])]]
        async with self._service.ticket(client, run, alone) as ticket:
            (translation,) = await self._service.in_time(ticket.translations())
        with self._admitted(client, 1 + run.before):
            found = await self._service.in_time(run.call(lambda: explain(run.model, sentence)))
        return JSONResponse({"index": body.index, "alone": translation.text, **found})

    async def files(self, request: Request) -> Response:
        """The sentences of a file."""
        self._client(request)
        form = await read_form(request)
        file, run = await file_of(form), self._run_of(form)
        text = text_of(await run_in_threadpool(file.segments, run))
        given = [as_input(sentence) for sentence in text.sentences]
        answer = {
            "format": file.format,
            "sentences": [sentence.text for sentence in given],
            "breaks": text.breaks,
            "translations": [sentence.translation for sentence in given],
            "required": [sentence.required for sentence in given],
        }
        return JSONResponse(answer)

    async def export(self, request: Request) -> Response:
        """A file, sent again, with translations in place of its sentences."""
        client = self._client(request)
        form = await read_form(request)
        file, run = await file_of(form), self._run_of(form)
        try:
            translations = TypeAdapter(list[str]).validate_json(text_field(form, "translations") or "")
        except ValidationError:
            raise ApiError(400, "translations: should be a JSON list of strings", "translations") from None
        segments = await run_in_threadpool(file.segments, run)
        sentences = text_of(segments).sentences
        if len(translations) != len(sentences):
            problem = f"translations: the file has {len(sentences)} sentences, and there are {len(translations)}"
            raise ApiError(400, problem, "translations")
        with self._admitted(client, len(sentences)):
            filled = await self._service.in_time(_aligned(run, sentences, translations))
        content = await run_in_threadpool(written, file, segments, filled)
        return Response(content, media_type="application/octet-stream")

    @contextmanager
    def _admitted(self, client: Client, sentences: int) -> Iterator[None]:
        """Count work that is no translation for as long as it takes."""
        release = self._service.admit(client, sentences)
        try:
            yield
        finally:
            release()

    def _run_of(self, form: FormData) -> ServedRun:
        return self._service.run_for(text_field(form, "source"), text_field(form, "target"))

    def _client(self, request: Request) -> Client:
        return identify(request, self._service.options.keys, session=request.headers.get("x-session"), status=401)


def _described(run: ServedRun) -> dict[str, object]:
    windows = run.worker.windows
    reuse = windows.target[0] > 0
    return {"id": run.id, "source": run.source, "target": run.target, "window": windows.size, "reuse": reuse,
            "nbest": run.worker.nbest}  # fmt: skip


async def _aligned(run: ServedRun, sentences: Sequence[Sentence], translations: Sequence[str]) -> list[Translation]:
    """Translations as a file takes them; between two sentences, the worker may do what else it has to."""
    pairs = zip(sentences, translations, strict=True)
    return [await run.call(partial(align_sentence, run.model, *pair)) for pair in pairs]


def _event(name: str, data: dict[str, object]) -> str:
    """A server-sent event; JSON has no line breaks."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def _read(body: DocumentBody, run: ServedRun) -> _Document:
    """The document of a request: split if it is text, with context before it and breaks inside."""
    if (body.sentences is None) == (body.text is None):
        raise ApiError(400, "give either sentences or text", "sentences")
    paragraphs = None
    if body.text is not None:
        split = split_text(body.text, run.source, run.target)
        sentences, paragraphs = [as_input(each).text for each in split.sentences], split.paragraphs
    else:
        sentences = body.sentences or []
    if len(body.translations) > len(sentences):
        raise ApiError(400, f"translations: {len(body.translations)} for {len(sentences)} sentences", "translations")
    if body.start > len(sentences):
        raise ApiError(400, f"start: {body.start} is behind the last of {len(sentences)} sentences", "start")
    if len(body.required) > len(sentences):
        raise ApiError(400, f"required: {len(body.required)} for {len(sentences)} sentences", "required")
    if any(not form.strip() for phrases in body.required for forms in phrases for form in forms or [""]):
        raise ApiError(400, "required: a phrase has no form, or an empty one", "required")
    if any(sum(len(form) for forms in phrases for form in forms) > _REQUIRED_CHARACTERS for phrases in body.required):
        raise ApiError(400, f"required: at most {_REQUIRED_CHARACTERS} characters for a sentence", "required")
    breaks = set(body.breaks)
    fixed = [*body.translations, *[None] * (len(sentences) - len(body.translations))]
    required = [*body.required, *[[]] * (len(sentences) - len(body.required))]
    first = [
        DocumentSentence(InputSentence(each.source, translation=each.translation), wanted=False)
        for each in body.context
    ]
    parts = [first]
    for i, (sentence, translation, phrases) in enumerate(zip(sentences, fixed, required, strict=True)):
        if i in breaks:
            parts.append([])
        read = InputSentence(sentence, tuple(map(tuple, phrases)), translation=translation)
        parts[-1].append(DocumentSentence(read, i >= body.start))
    return _Document(
        sentences, paragraphs, fixed, body.start, body.nbest, [_shortened(part, run.before) for part in parts]
    )


def _shortened(part: Sequence[DocumentSentence], before: int) -> list[DocumentSentence]:
    """A document without the sentences that are neither wanted nor near enough to be context of one that is."""
    first = next((i for i, sentence in enumerate(part) if sentence.wanted), len(part) + before)
    return list(part[max(first - before, 0) :])
