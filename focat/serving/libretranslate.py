"""The API of LibreTranslate, and that of DeepLX, which has the same address: programs need only another URL.

Beside what LibreTranslate has, `/translate` takes `context`, what stands before the text, and `session`, a name for one
of several documents of a client.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from pathlib import PurePath
from typing import Any

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from focat.config.explain import short_text
from focat.serving.bodies import LenientBody, check_fields, read_fields
from focat.serving.clients import Client, identify
from focat.serving.conversation import TextRequest, translate_texts
from focat.serving.detection import Detected, detect
from focat.serving.errors import ApiError
from focat.serving.files import download, file_of, read_form, text_field, text_of, written
from focat.serving.languages import language_name
from focat.serving.service import ServedRun, Service
from focat.serving.texts import TextKind
from focat.serving.ticket import DocumentSentence
from focat.translation.formats import FORMATS

_DETECTED = 5  # languages that /detect returns at most
_KEPT_FILES = 32  # translated files that wait for their download
_AUTO = "auto"


class TranslateBody(LenientBody):
    """What to translate."""

    q: str | list[str]
    """A text, or the texts of a document."""
    source: str
    """Source language, or auto."""
    target: str
    """Target language."""
    format: str = "text"
    """text or html."""
    alternatives: int = Field(0, ge=0)
    """Other translations to return, if there are so many."""
    api_key: str | None = None
    """An API key."""
    context: str | None = None
    """What stands before the text: read, and not translated."""
    session: str | None = None
    """One of several documents of a client, whose last sentences are context of the next."""


class DetectBody(LenientBody):
    """A text whose language is to be found."""

    q: str
    """The text."""
    api_key: str | None = None
    """An API key."""


class DeepLXBody(LenientBody):
    """What to translate, as DeepLX takes it."""

    text: str
    """A text."""
    source_lang: str = _AUTO
    """Source language, or auto."""
    target_lang: str
    """Target language."""
    context: str | None = None
    """What stands before the text: read, and not translated."""
    session: str | None = None
    """One of several documents of a client."""


class LibreTranslateApi:
    """Its endpoints."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._files: OrderedDict[str, tuple[str, bytes]] = OrderedDict()  # by a name that nobody can guess

    def routes(self) -> list[Route]:
        """Paths and what answers them."""
        return [
            Route("/translate", self.translate, methods=["POST"]),
            Route("/languages", self.languages),
            Route("/detect", self.detect, methods=["POST"]),
            Route("/translate_file", self.translate_file, methods=["POST"]),
            Route("/download_file/{name}", self.download_file),
            Route("/frontend/settings", self.settings),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate a text, or a list of texts as one document."""
        fields = await read_fields(request)
        if "q" not in fields and "target_lang" in fields:
            return await self._deeplx(request, fields)
        body = check_fields(fields, TranslateBody)
        client = self._client(request, body.api_key, body.session)
        if body.format not in ("text", "html"):
            raise ApiError(400, f"{short_text(body.format)} format is not supported; choose text or html", "format")
        texts = body.q if isinstance(body.q, list) else [body.q]
        run, detected = self._run(body.source, body.target, texts)
        nbest = min(body.alternatives + 1, run.worker.nbest)
        kind: TextKind = "html" if body.format == "html" else "text"
        found = await translate_texts(self._service, TextRequest(client, run, texts, body.context, kind, nbest))
        answer: dict[str, Any] = {"translatedText": [each.text for each in found]}
        if body.alternatives:
            answer["alternatives"] = [list(each.alternatives) for each in found]
        if detected is not None:
            answer["detectedLanguage"] = [_confidence(detected)] * len(texts)
        return JSONResponse(answer if isinstance(body.q, list) else {key: value[0] for key, value in answer.items()})

    async def _deeplx(self, request: Request, fields: dict[str, Any]) -> Response:
        try:
            body = check_fields(fields, DeepLXBody)
            client = self._client(request, request.query_params.get("token"), body.session, status=401)
            run, _ = self._run(body.source_lang, body.target_lang, [body.text])
            asked = TextRequest(client, run, [body.text], body.context, nbest=run.worker.nbest)
            (found,) = await translate_texts(self._service, asked)
        except ApiError as error:
            content = {"code": error.status, "message": error.message}
            return JSONResponse(content, error.status, headers=error.headers)
        answer = {"code": 200, "id": secrets.randbelow(10**10), "method": "Free", "data": found.text}
        answer |= {"alternatives": list(found.alternatives)}
        return JSONResponse({**answer, "source_lang": run.source.upper(), "target_lang": body.target_lang.upper()})

    async def languages(self, request: Request) -> Response:
        """The languages, and into which each can be translated."""
        runs = self._service.runs
        return JSONResponse(
            [
                {
                    "code": code,
                    "name": language_name(code),
                    "targets": sorted(run.target for run in runs if run.source == code),
                }
                for code in self._service.languages
            ]
        )

    async def detect(self, request: Request) -> Response:
        """The likeliest languages of a text, among those that are served."""
        body = check_fields(await read_fields(request), DetectBody)
        self._client(request, body.api_key)
        return JSONResponse([_confidence(each) for each in detect(body.q, self._service.languages)[:_DETECTED]])

    async def translate_file(self, request: Request) -> Response:
        """Translate a file; the answer says where it can be fetched."""
        form = await read_form(request)
        client = self._client(request, text_field(form, "api_key"))
        file = await file_of(form)
        target = text_field(form, "target")
        if target is None:
            raise ApiError(400, "target: is missing", "target")
        source = text_field(form, "source") or _AUTO
        shown = await run_in_threadpool(file.shown_text, self._service.runs[0])
        run, _ = self._run(source, target, [shown])
        segments = await run_in_threadpool(file.segments, run)
        text = text_of(segments)
        documents = [[DocumentSentence.of(sentence) for sentence in part] for part in text.documents]
        async with self._service.ticket(client, run, documents) as ticket:
            found = await self._service.in_time(ticket.translations())
        content = await run_in_threadpool(written, file, segments, found)
        name = f"{secrets.token_urlsafe(24)}{PurePath(file.name).suffix}"
        self._files[name] = file.translated_name(run.target), content
        while len(self._files) > _KEPT_FILES:
            self._files.popitem(last=False)
        return JSONResponse({"translatedFileUrl": str(request.url_for("download_file", name=name))})

    async def download_file(self, request: Request) -> Response:
        """A translated file; it can be fetched once."""
        name, content = self._files.pop(request.path_params["name"], (None, b""))
        if name is None:
            raise ApiError(404, "there is no such file; it may have been fetched already")
        return download(name, content)

    async def settings(self, request: Request) -> Response:
        """What a page of LibreTranslate would want to know."""
        options, run = self._service.options, self._service.runs[0]
        formats = sorted(suffix for format in FORMATS.values() for suffix in format.suffixes)
        pair = {"source": run.source, "target": run.target}
        return JSONResponse(
            {
                "apiKeys": bool(options.keys),
                "keyRequired": bool(options.keys),
                "charLimit": -1,
                "frontendTimeout": 500,
                "filesTranslation": True,
                "suggestions": False,
                "supportedFilesFormat": formats,
                "language": {side: {"code": code, "name": language_name(code)} for side, code in pair.items()},
            }
        )

    def _client(self, request: Request, key: str | None, session: str | None = None, status: int = 403) -> Client:
        return identify(request, self._service.options.keys, key, session, status)

    def _run(self, source: str, target: str, texts: list[str]) -> tuple[ServedRun, Detected | None]:
        """The run for a pair; if the source is to be found out, also what was found."""
        if source.lower() not in (_AUTO, ""):
            return self._service.run_for(source, target), None
        return self._service.run_for_text("\n".join(texts), target)


def _confidence(detected: Detected) -> dict[str, object]:
    return {"confidence": detected.confidence, "language": detected.language}
