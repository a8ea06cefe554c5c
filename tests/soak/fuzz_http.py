"""Fuzzed requests to `focat serve`: a real server in the process of the cases, and requests sent to it as bytes.

An answer is a success, or an error of the client in one line. After each request, the server still answers others.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from tests.soak.fuzz_case import Build, FuzzCase
from tests.soak.mutations import mutate_json, mutate_text, odd_text
from tests.soak.seeds import Seeds

_SECONDS = 60.0  # for an answer, on however busy a machine
_TEXT = "Where is the cat? It is here.\n\nDo you see it?"
_SENTENCES = ["Where is the cat?", "It is here."]
_NATIVE: dict[str, dict[str, Any]] = {
    "/v1/documents": {
        **{"sentences": _SENTENCES, "source": "en", "target": "de", "breaks": [1], "start": 0, "nbest": 2},
        **{"context": [{"source": "Look!", "translation": "Schau!"}], "translations": ["Wo?", None], "stream": False},
    },
    "/v1/explain": {"sentences": _SENTENCES, "translations": ["Wo ist sie?", "Hier."], "index": 1},
}
_OTHERS: dict[str, dict[str, Any]] = {
    "/v2/translate": {
        **{"text": _SENTENCES, "target_lang": "DE", "source_lang": "EN", "context": "Look!", "split_sentences": "1"},
        **{"tag_handling": "html", "session": "a"},
    },
    "/translate": {"q": _TEXT, "source": "en", "target": "de", "format": "html", "alternatives": 1, "session": "b"},
    "/detect": {"q": _TEXT},
}
_servers: dict[Path, tuple[str, int]] = {}  # of this process, by the run that they serve
_running = ExitStack()  # what keeps them running; never closed, they end with the process


def _server(run: Path) -> tuple[str, int]:
    """Start a server for a run in threads of this process, unless there is one; its address."""
    from focat.serving.options import ServeOptions
    from focat.serving.server import HttpServer, listen, load_runs, started

    if run not in _servers:
        options = ServeOptions(port=0, max_body=100_000, max_sentences=50, timeout=_SECONDS)
        listening = _running.enter_context(listen(options))
        server = HttpServer(_running.enter_context(started(load_runs([run], "cpu", (), None, {}), options)))
        threading.Thread(target=server.run, args=([listening],), daemon=True).start()
        while not server.started:
            time.sleep(0.002)
        _servers[run] = listening.getsockname()[:2]
    return _servers[run]


def _send(run: Path, request: bytes) -> int:
    """Send a request: 0 if it was answered, 2 if it was refused; prints the error as a command would."""
    with socket.create_connection(_server(run), _SECONDS) as connection:
        connection.sendall(request)
        answer = bytearray()
        while part := connection.recv(1 << 16):
            answer += part
    status, body = _parsed(bytes(answer))
    if status >= 500 or status == 0:
        print(f"status {status}: {body[:500]!r}")
        return 1
    if status < 400:
        return 0
    error = json.loads(body) if body.startswith(b"{") else body.decode()
    print(f"focat: {json.dumps(_message(error))}")  # as JSON has it, with control characters escaped
    return 2


def _parsed(answer: bytes) -> tuple[int, bytes]:
    """Status and body; (0, …) if there was no answer, as to what is no HTTP request."""
    if not answer:
        return 0, b"no answer"
    response = http.client.HTTPResponse(_Answer(answer))
    response.begin()
    return response.status, response.read()


class _Answer:
    """Bytes as the socket that `HTTPResponse` reads from."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._content)


def _message(error: Any) -> str:
    """The message of an error in the form of each API."""
    while isinstance(error, dict):
        error = error.get("error", error.get("message"))
    return str(error)


def _request(path: str, kind: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _case(seeds: Seeds, request: bytes, folder: Path) -> FuzzCase:
    (folder / "request").write_bytes(request)
    return FuzzCase(["serve", str(seeds.run)], call=lambda: _send(seeds.run, request), check=_still_answers(seeds))


def _still_answers(seeds: Seeds) -> Callable[[int], list[str]]:
    def check(code: int) -> list[str]:
        connection = http.client.HTTPConnection(*_server(seeds.run), timeout=_SECONDS)
        connection.request("GET", "/ready")
        status = connection.getresponse().status
        connection.close()
        return [] if status == 200 else [f"the server is not ready any more, but answers {status}"]

    return check


def bodies(templates: dict[str, dict[str, Any]], forms: bool) -> Build:
    """Changed bodies for these addresses, of JSON or of forms; some are said to be something else."""

    def build(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
        path, content = draw.choice(list(templates.items()))
        if forms and draw.random() < 0.3:
            kind = "application/x-www-form-urlencoded"
            body = mutate_text(draw, urllib.parse.urlencode(content, doseq=True).encode())
        else:
            kind, body = "application/json", mutate_json(draw, json.dumps(content).encode())
        if draw.random() < 0.05:
            kind = draw.choice(("text/plain", "multipart/form-data", "multipart/form-data; boundary=x", "a"))
        return _case(seeds, _request(path, kind, body[:20_000]), folder)

    return build


def files(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    """Changed files in forms, and changed forms."""
    source = draw.choice(seeds.files("inputs/*"))
    data = source.read_bytes()
    data = mutate_text(draw, data)[:1500] if draw.random() < 0.7 else data
    name = source.name if draw.random() < 0.9 else urllib.parse.quote(odd_text(draw))[:100]
    path, fields = draw.choice(
        (
            ("/v1/files", {}),
            ("/v1/export", {"translations": json.dumps(["A.", "B.", None])}),
            ("/translate_file", {"source": "en", "target": "de"}),
        )
    )
    parts = [f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()]
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = "".join(parts).encode() + head.encode() + data + b"\r\n--x--\r\n"
    body = mutate_text(draw, body)[:20_000] if draw.random() < 0.3 else body
    return _case(seeds, _request(path, "multipart/form-data; boundary=x", body), folder)


HTTP: dict[str, tuple[Build, int]] = {
    "http-native": (bodies(_NATIVE, forms=False), 40),
    "http-others": (bodies(_OTHERS, forms=True), 40),
    "http-files": (files, 30),
}
