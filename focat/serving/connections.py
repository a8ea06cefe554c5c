"""Connections that do not wait for ever, and are not too many: uvicorn's, with a clock for the head of a request."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedConnection(H11Protocol):
    """A connection that is closed if the head of a request does not arrive in time.

    uvicorn has a clock between two requests (`timeout_keep_alive`), which it stops at the first byte. This one also
    runs before the first request, and until the head is complete.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock; close the connection if there are far too many.

        uvicorn answers requests on more than `limit_concurrency` connections by 503, but keeps the connections.
        """
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > 2 * self.limit_concurrency:
            transport.abort()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        """Let the clock run on while the head is incomplete."""
        clock, self.timeout_keep_alive_task = self.timeout_keep_alive_task, None
        super().data_received(data)
        if clock is None:
            return
        if self.timeout_keep_alive_task is None and (self.cycle is None or self.cycle.response_complete):
            self.timeout_keep_alive_task = clock
        else:
            clock.cancel()
