"""The API of Apertium's servers, as far as OmegaT uses it: of its connectors, this one takes another address."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from focat.serving.clients import identify
from focat.serving.conversation import TextRequest, translate_texts
from focat.serving.errors import ApiError
from focat.serving.service import Service


class ApertiumApi:
    """Its endpoints."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """Paths and what answers them."""
        return [
            Route("/translate", self.translate, methods=["GET"]),
            Route("/listPairs", self.pairs, methods=["GET"]),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate a segment, whose tags stand inside its sentences, as those of OmegaT do."""
        query = request.query_params
        source, bar, target = query.get("langpair", "").partition("|")
        if "q" not in query or not bar:
            raise ApiError(400, "q and langpair, as in en|de, are needed")
        client = identify(request, self._service.options.keys, query.get("key"), query.get("session"))
        run = self._service.run_for(source, target)
        (found,) = await translate_texts(self._service, TextRequest(client, run, [query["q"]], kind="xml"))
        return _answer({"translatedText": found.text})

    async def pairs(self, request: Request) -> Response:
        """The language pairs."""
        pairs = [{"sourceLanguage": run.source, "targetLanguage": run.target} for run in self._service.runs]
        return _answer(pairs)


def _answer(data: object) -> Response:
    """The answer in the order and with the blanks of Apertium's, which old versions of OmegaT look for."""
    content = {"responseData": data, "responseDetails": None, "responseStatus": 200}
    return Response(json.dumps(content), media_type="application/json")
