"""The second version of DeepL's API: translation with `context`, documents, languages, usage.

DeepL's own servers translate the entries of `text` apart from each other. Here each is context of the next.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from focat.serving.bodies import LenientBody, check_fields, read_fields
from focat.serving.clients import identify
from focat.serving.conversation import TextRequest, translate_texts
from focat.serving.deepl_documents import DeepLDocuments
from focat.serving.errors import ApiError
from focat.serving.languages import language_name
from focat.serving.service import Service
from focat.serving.texts import TextKind

_LIMIT = 10**12  # characters, which clients want to see; nothing is counted against it


def _as_list(value: Any) -> Any:
    """A field of a form that is there once."""
    return [value] if isinstance(value, str) else value


def _names(value: Any) -> Any:
    """A list, also where a form has it between commas."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


class DeepLBody(LenientBody):
    """What to translate."""

    text: Annotated[list[str], BeforeValidator(_as_list)] = Field(min_length=1)
    """The texts of a document."""
    target_lang: str
    """Target language."""
    source_lang: str | None = None
    """Source language; found out if not given."""
    context: str | None = None
    """What stands before the text: read, and not translated."""
    split_sentences: Literal["0", "1", "nonewlines"] | bool = "1"
    """Whether texts are split into sentences."""
    tag_handling: Literal["html", "xml"] | None = None
    """Which tags a text may have."""
    ignore_tags: Annotated[list[str], BeforeValidator(_names)] = Field(default_factory=list)
    """Tags whose content is left alone."""
    formality: str = "default"
    """Only what the model does by itself, `default`, or a preference."""
    glossary_id: str | None = None
    """There are none."""
    show_billed_characters: bool = False
    """Whether the answer has the number of characters."""
    session: str | None = None
    """One of several documents of a client, whose last sentences are context of the next."""


class DeepLApi:
    """Its endpoints."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._characters: Counter[str] = Counter()  # by key; "" for all clients without one
        self._documents = DeepLDocuments(service, _check_wishes, self._count)

    def routes(self) -> list[Route]:
        """Paths and what answers them."""
        return [
            Route("/v2/translate", self.translate, methods=["POST"]),
            *self._documents.routes(),
            Route("/v2/languages", self.languages, methods=["GET", "POST"]),
            Route("/v2/usage", self.usage, methods=["GET", "POST"]),
            Route("/v2/glossary-language-pairs", self.glossary_pairs),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate texts as one document."""
        fields = await read_fields(request)
        key = fields.get("auth_key") if isinstance(fields.get("auth_key"), str) else None
        body = check_fields(fields, DeepLBody)
        session = body.session or request.headers.get("x-session")
        client = identify(request, self._service.options.keys, key, session)
        _check_wishes(body.formality, body.glossary_id)
        if body.source_lang:
            run = self._service.run_for(body.source_lang, body.target_lang)
        else:
            run, _ = self._service.run_for_text("\n".join(body.text), body.target_lang)
        found = await translate_texts(
            self._service,
            TextRequest(client, run, body.text, body.context or None, _kind(body), ignored=tuple(body.ignore_tags)),
        )
        self._count(request, sum(map(len, body.text)))
        translations: list[dict[str, object]] = [
            {"detected_source_language": run.source.upper(), "text": each.text} for each in found
        ]
        if body.show_billed_characters:
            for translation, text in zip(translations, body.text, strict=True):
                translation["billed_characters"] = len(text)
        return JSONResponse({"translations": translations})

    async def languages(self, request: Request) -> Response:
        """The languages that can be translated from, or into with `type=target`."""
        identify(request, self._service.options.keys)
        fields = await read_fields(request) if await request.body() else {}  # some clients send it there, also with GET
        targets = "target" in (request.query_params.get("type"), fields.get("type"))
        codes = sorted({run.target if targets else run.source for run in self._service.runs})
        described: list[dict[str, object]] = [{"language": code.upper(), "name": language_name(code)} for code in codes]
        if targets:
            for language in described:
                language["supports_formality"] = False
        return JSONResponse(described)

    async def glossary_pairs(self, request: Request) -> Response:
        """The pairs that have glossaries: none. Some clients ask before they translate."""
        identify(request, self._service.options.keys)
        return JSONResponse({"supported_languages": []})

    async def usage(self, request: Request) -> Response:
        """How many characters were translated since the server was started."""
        identify(request, self._service.options.keys)
        return JSONResponse({"character_count": self._characters[self._counted(request)], "character_limit": _LIMIT})

    def _count(self, request: Request, characters: int) -> None:
        self._characters[self._counted(request)] += characters

    def _counted(self, request: Request) -> str:
        return identify(request, self._service.options.keys).owner if self._service.options.keys else ""


def _check_wishes(formality: str | None, glossary: str | None) -> None:
    """Refuse what this server does not do.

    Raises:
        ApiError: something of that was wished for.
    """
    if glossary:
        raise ApiError(404, "glossary_id: this server has no glossaries")
    if formality in ("more", "less"):
        raise ApiError(400, "formality: this model chooses it by the context; send default, or prefer_more/prefer_less")


def _kind(body: DeepLBody) -> TextKind:
    if body.tag_handling is not None:
        return body.tag_handling
    return "sentence" if body.split_sentences in ("0", False) else "text"
