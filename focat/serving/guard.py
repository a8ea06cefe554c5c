"""The outermost layer: requests arrive completely or are refused, and work for clients that are gone ends.

It reads the whole body, within limits of size and time, before an API sees the request. Then it watches the connection.
It also sets the headers that every answer has.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from focat.serving.errors import ApiError
from focat.serving.service import Service

_READING_SECONDS = 60.0  # in which a client must have read its answer, after the time for the answer itself
_MAX_BODIES = 32  # of the greatest size, that all requests together may keep in memory
_LOGGER = logging.getLogger("focat.serving")
CONTENT_POLICY = "; ".join(
    (
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:"),
        *("font-src 'self'", "connect-src 'self'", "manifest-src 'self'", "base-uri 'none'", "form-action 'none'"),
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",  # translations are not for the disk of a browser or a proxy
}


class Guard:
    """An application around another."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service, self._options = app, service, service.options
        self._held = 0  # bytes of the bodies of all requests that are not answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.monotonic(), 499  # the client has gone, if there is no other
        parts: list[bytes] = []

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if self._service.stopping:  # the client need not find out by its next request
                    headers["Connection"] = "close"
            await send(message)

        try:
            if await self._read(scope, receive, parts):
                await self._answer(scope, b"".join(parts), receive, send_with_headers)
        except ApiError as error:
            response = error.response(scope["path"])
            response.headers["Connection"] = "close"  # the rest of the body is not read
            await response(scope, receive, send_with_headers)
        finally:
            self._held -= sum(map(len, parts))
            self._service.metrics.observe(scope["method"], scope["path"], status, time.monotonic() - start)

    async def _read(self, scope: Scope, receive: Receive, parts: list[bytes]) -> bool:
        """Read the body of a request into a list; False if the client has gone before its end."""
        most = self._options.max_body
        too_large = ApiError(413, f"the request is too large; send at most {most} bytes")
        if any(name == b"content-length" and int(value) > most for name, value in scope["headers"]):
            raise too_large
        size = 0
        deadline = time.monotonic() + self._options.read_timeout
        while True:
            try:
                message = await asyncio.wait_for(receive(), deadline - time.monotonic())
            except asyncio.TimeoutError:
                raise ApiError(408, "the request did not arrive in time; send it faster") from None
            if message["type"] == "http.disconnect":
                return False
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            self._held += len(parts[-1])
            if size > most:
                raise too_large
            if self._held > _MAX_BODIES * most:
                raise ApiError.later(503, "too many large requests at once; try again later", 10)
            if not message.get("more_body", False):
                return True

    async def _answer(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Run the application with the body that was read; it is cancelled when the client goes."""
        gone = asyncio.ensure_future(_disconnect(receive))
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return unread.pop() if unread else await asyncio.shield(gone)

        work = asyncio.ensure_future(self._run(scope, replay, send))
        tasks: set[asyncio.Future[Any]] = {gone, work}
        try:
            # An API has its own limit; this one is for clients that do not read their answer.
            await asyncio.wait(
                tasks, timeout=self._options.timeout + _READING_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; what it does not expect is logged, and answered by 500 without details."""
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception:
            _LOGGER.exception("%s %r failed", scope["method"], scope["path"])  # a path may have line breaks
            if not started:
                await ApiError(500, "the server has failed; its log says why").response(scope["path"])(
                    scope, receive, send
                )


async def _disconnect(receive: Receive) -> Message:
    """Wait until the client has gone."""
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message
