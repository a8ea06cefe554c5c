"""The application: all endpoints, and what lies around them."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from focat.serving.apertium import ApertiumApi
from focat.serving.deepl import DeepLApi
from focat.serving.errors import ApiError
from focat.serving.guard import Guard
from focat.serving.libretranslate import LibreTranslateApi
from focat.serving.native import NativeApi
from focat.serving.reference import FOLDER, openapi, reference_page
from focat.serving.service import Service

PAGE = Path(__file__).parent / "page"


class Page(StaticFiles):
    """The files of the page; a browser asks each time whether one has changed, and so shows a new version at once."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, or 304 if the browser has it."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def build_app(service: Service) -> ASGIApp:
    """The application that answers all requests."""
    options = service.options

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        if service.stopping:
            raise ApiError.later(503, "the server is stopping", 5)
        return JSONResponse({"status": "ok"})

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def specification(request: Request) -> Response:
        return JSONResponse(openapi())

    async def docs(request: Request) -> Response:
        return HTMLResponse(reference_page())

    async def style(request: Request) -> Response:
        return FileResponse(FOLDER / "reference.css")

    routes = [
        Route("/health", health),
        Route("/ready", ready),
        Route("/metrics", metrics),
        Route("/openapi.json", specification),
        Route("/spec", specification),
        Route("/docs", docs),
        Route("/docs/reference.css", style),
        *NativeApi(service).routes(),
        *LibreTranslateApi(service).routes(),
        *DeepLApi(service).routes(),
        *ApertiumApi(service).routes(),
    ]
    service.metrics.know({route.path for route in routes})
    page = Mount("/", Page(directory=PAGE, html=True, check_dir=False))
    cors = Middleware(
        CORSMiddleware, allow_origins=list(options.cors), allow_methods=["*"], allow_headers=["*"], max_age=3600
    )
    handlers = {ApiError: _api_error, HTTPException: _http_error}
    app = Starlette(routes=[*routes, page], middleware=[cors], exception_handlers=handlers)
    return Guard(app, service)


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response(request.url.path)


async def _http_error(request: Request, error: Exception) -> Response:
    """Errors of the framework: no such path, no such method."""
    assert isinstance(error, HTTPException)
    status, headers = error.status_code, error.headers
    routes = [route for route in request.app.routes if isinstance(route, Route) and route.path == request.url.path]
    methods = sorted({method for route in routes for method in route.methods or ()})
    if status == 404 and methods:  # an address of an API with another method, which the page has taken for a file
        status, headers = 405, {"Allow": ", ".join(methods)}
    of_these = f"; use {' or '.join(methods)}" if methods else ""
    messages = {404: "there is nothing at this address", 405: f"{request.method} is not possible here{of_these}"}
    return ApiError(status, messages.get(status, error.detail), headers=headers).response(request.url.path)
