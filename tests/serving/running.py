"""A real server in a thread of the tests, and a client for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from focat.serving.options import ServeOptions
from focat.serving.server import HttpServer, listen, load_runs, started, url_of
from focat.serving.service import Service


class RunningServer:
    """A server that answers."""

    def __init__(self, url: str, service: Service) -> None:
        self.url, self.service = url, service

    def request(self, method: str, path: str, **options: Any) -> requests.Response:
        """Send a request on a connection of its own."""
        return requests.request(method, self.url + path, timeout=60, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> requests.Response:
        """Send JSON."""
        return self.request("POST", path, json=body, **options)

    def translated(self, **body: Any) -> list[str]:
        """The translations of a document of the native API."""
        response = self.post("/v1/documents", body)
        assert response.status_code == 200, response.text
        return [sentence["translation"] for sentence in response.json()["sentences"]]


@contextmanager
def running(*runs: Path, beam: int | None = None, window: int | None = None, **options: Any) -> Iterator[RunningServer]:
    """A server for these runs, on any free port."""
    chosen = ServeOptions(**{"port": 0, "stop_timeout": 10, **options})
    served = load_runs(runs, "cpu", (), window, {"beam": beam})
    with listen(chosen) as listening, started(served, chosen) as service:
        server = HttpServer(service)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.005)
            yield RunningServer(url_of(listening), service)
        finally:
            server.should_exit = True
            thread.join()
