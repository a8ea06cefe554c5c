"""Limits, keys, clients that are slow or gone, hostile input: the right status each, and the server stays alive."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import deepl
import pytest
import requests

from focat.corpus.generated import generate
from tests.serving.running import RunningServer, running

DOCUMENT = list(next(iter(generate(1, 9))).source)[:4]
TEXT = {"q": "Tom sleeps.", "source": "en", "target": "de"}


@pytest.fixture(scope="module")
def strict(run: Path) -> Iterator[RunningServer]:
    """A server with keys and narrow limits."""
    limits: dict[str, Any] = {"max_body": 20_000, "max_sentences": 20, "max_client": 30, "max_queue": 50}
    keys = frozenset({"first", "second", "third"})
    with running(run, keys=keys, read_timeout=1, cors=("https://good.example",), **limits) as server:
        yield server


def key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


def send(server: RunningServer, data: bytes, close: bool = False) -> bytes:
    """Send bytes as they are; what the server answers until it closes, or is silent."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=5) as connection:
        connection.sendall(data)
        if close:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while part := connection.recv(65536):
                received += part
        except (TimeoutError, ConnectionError):
            pass
        return received


def test_keys(strict: RunningServer) -> None:
    for path, body, status in (
        ("/translate", TEXT, 403),
        ("/detect", {"q": "Tom"}, 403),
        ("/v2/translate", {"text": ["Tom."], "target_lang": "DE"}, 403),
        ("/v1/documents", {"sentences": ["Tom."]}, 401),
        ("/translate", {"text": "Tom.", "target_lang": "DE"}, 401),
    ):
        assert strict.post(path, body).status_code == status
        assert strict.post(path, body, headers=key("wrong")).status_code == status
        assert strict.post(path, body, headers=key("first")).status_code == 200
    assert strict.post("/translate", {**TEXT, "api_key": "second"}).status_code == 200
    assert strict.request("GET", "/v1/models").headers["www-authenticate"] == "Bearer"
    with pytest.raises(deepl.AuthorizationException):
        deepl.DeepLClient("wrong", server_url=strict.url).translate_text("Tom.", target_lang="DE")
    for path in ("/health", "/ready", "/languages", "/docs"):
        assert strict.request("GET", path).status_code == 200


def test_each_key_has_a_usage_of_its_own(strict: RunningServer) -> None:
    def count(name: str) -> int:
        answer: dict[str, int] = strict.request("GET", "/v2/usage", headers=key(name)).json()
        return answer["character_count"]

    second, third = count("second"), count("third")
    strict.post("/v2/translate", {"text": ["Tom."], "target_lang": "DE"}, headers=key("second"))
    assert (count("second"), count("third")) == (second + len("Tom."), third)


def test_too_much(strict: RunningServer) -> None:
    def status(body: Any) -> int:
        return strict.post("/v1/documents", body, headers=key("first")).status_code

    assert status({"sentences": ["Tom."] * 20}) == 200
    assert status({"sentences": ["Tom."] * 21}) == 413
    assert status({"sentences": ["Tom." * 10_000]}) == 413
    chunked = requests.post(
        f"{strict.url}/v1/documents", data=iter([b"x" * 8000] * 4), headers=key("first"), timeout=60
    )
    assert chunked.status_code == 413
    assert chunked.json()["error"]["message"].startswith("the request is too large")


def test_a_full_queue(strict: RunningServer) -> None:
    """One client may not have more than 30 sentences waiting, all clients together no more than 50."""
    held = threading.Event()
    worker = strict.service.runs[0].worker
    worker.call(lambda: held.wait(30) and None)  # nothing is decoded meanwhile
    answers: list[requests.Response] = []

    def ask(name: str) -> None:
        answers.append(strict.post("/v1/documents", {"sentences": ["Tom."] * 20}, headers=key(name)))

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("first", "second")]
    try:
        for thread in threads:
            thread.start()
        while strict.service.waiting < 40:
            time.sleep(0.01)
        own = strict.post("/v1/documents", {"sentences": ["Tom."] * 20}, headers=key("first"))
        others = strict.post("/v1/documents", {"sentences": ["Tom."] * 20}, headers=key("third"))
        some = strict.service.waiting
    finally:
        held.set()
        for thread in threads:
            thread.join()
    assert (own.status_code, others.status_code, some) == (429, 503, 40)
    assert int(own.headers["retry-after"]) > 0
    assert int(others.headers["retry-after"]) > 0
    assert [answer.status_code for answer in answers] == [200, 200]
    assert strict.service.waiting == 0


def test_out_of_time(run: Path) -> None:
    with running(run, timeout=0.3) as server:
        held = threading.Event()
        server.service.runs[0].worker.call(lambda: held.wait(30) and None)
        late = server.post("/translate", TEXT)
        stream = server.post("/v1/documents", {"sentences": DOCUMENT, "stream": True})
        held.set()
        assert late.status_code == 504
        assert "event: error" in stream.text
        assert '"status": 504' in stream.text
        while server.service.waiting:
            time.sleep(0.01)
        assert server.post("/translate", TEXT).status_code == 200


def test_slow_senders(strict: RunningServer) -> None:
    """Half a head is closed, half a body is answered by 408, and neither keeps others waiting."""
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\n"
    answers: dict[str, bytes] = {}
    slow = {"nothing": b"", "head": head, "body": head + b"Content-Length: 100\r\n\r\n{"}
    threads = [
        threading.Thread(target=lambda name, data: answers.update({name: send(strict, data)}), args=item)
        for item in slow.items()
    ]
    for thread in threads:
        thread.start()
    assert strict.post("/translate", TEXT, headers=key("first")).status_code == 200
    for thread in threads:
        thread.join()
    assert answers["nothing"] == answers["head"] == b""
    assert answers["body"].startswith(b"HTTP/1.1 408 ")


def test_clients_that_go_free_their_place(server: RunningServer) -> None:
    """While it waits for a translation, while it sends, and with a connection that is half closed."""
    body = json.dumps({"sentences": DOCUMENT * 500}).encode()
    head = f"POST /v1/documents HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    parts = urlsplit(server.url)
    for sent in (head + body, head + body[:1000], head):
        with socket.create_connection((parts.hostname, parts.port)) as connection:
            connection.sendall(sent)
            while sent == head + body and not server.service.waiting:
                time.sleep(0.001)
    send(server, head + body, close=True)
    late = time.monotonic() + 20
    while server.service.waiting and time.monotonic() < late:
        time.sleep(0.01)
    assert server.service.waiting == 0
    assert server.translated(sentences=DOCUMENT[:1])


def test_web_origins(server: RunningServer, strict: RunningServer) -> None:
    asked = {"Origin": "https://any.example", "Access-Control-Request-Method": "POST"}
    assert server.request("OPTIONS", "/translate", headers=asked).headers["access-control-allow-origin"] == "*"
    assert server.post("/translate", TEXT, headers=asked).headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-origin" not in strict.request("OPTIONS", "/translate", headers=asked).headers
    good = strict.request("OPTIONS", "/translate", headers={**asked, "Origin": "https://good.example"})
    assert good.headers["access-control-allow-origin"] == "https://good.example"


BODIES: list[bytes] = [
    b"",
    b"{",
    b"null",
    b"[" * 100_000,
    b'{"q": NaN, "source": "en", "target": "de"}',
    b'{"q": "\\ud800", "source": "en", "target": "de"}',
    b'{"sentences": ["\\udfff"]}',
    b'{"text": "\\ud800", "target_lang": "de"}',
    b"\xff\xfe\x00",
    b'{"sentences": [' + b'"",' * 100_000 + b'""]}',
    b'{"q": [[["x"]]], "source": {}, "target": []}',
    b'{"sentences": ["Tom."], "nbest": 1e99}',
    b'{"sentences": ["Tom."], "start": -1}',
    b'{"sentences": ["Tom."], "translations": [{}]}',
    b'{"sentences": ["Tom."], "breaks": [99999999999999999999999]}',
    b'{"index": 0, "sentences": [], "translations": []}',
    b"q=%ff&source=en&target=de",
    b"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"../../a.srt\"\r\n\r\n\x00\r\n--x--\r\n",
    b"--x\r\nContent-Disposition: form-data",
]  # fmt: skip
PATHS = ["/translate", "/v2/translate", "/v1/documents", "/v1/explain", "/detect", "/v1/files", "/v1/export"]
PATHS += ["/translate_file", "/v2/document", "/v2/document/x", "/v2/document/x/result"]
KINDS = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"]


@pytest.mark.parametrize("path", PATHS)
def test_hostile_bodies(server: RunningServer, path: str) -> None:
    draw = random.Random(path)
    valid = json.dumps({**TEXT, "sentences": DOCUMENT, "text": ["Tom."], "target_lang": "de"}).encode()
    mutated = []
    for _ in range(40):
        changed = bytearray(valid)
        for _ in range(draw.randint(1, 6)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        mutated.append(bytes(changed[: draw.randint(1, len(changed))]))
    with requests.Session() as connection:
        for kind in KINDS:
            for body in BODIES + (mutated if kind == KINDS[0] else mutated[:5]):
                response = connection.post(server.url + path, data=body, headers={"Content-Type": kind}, timeout=60)
                assert response.status_code in (200, 400, 413), (kind, body[:100], response.text)
                assert "Traceback" not in response.text
                assert isinstance(response.json(), dict | list)


def test_hostile_connections(strict: RunningServer) -> None:
    """What is no HTTP is answered by 400, or closed."""
    draw = random.Random(1)
    for data in (b"\x00" * 100, b"GET\r\n\r\n", b"GET / HTTP/9\r\n\r\n", draw.randbytes(500) + b"\r\n\r\n"):
        answer = send(strict, data)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    huge = send(strict, b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n")
    assert huge == b"" or huge.startswith(b"HTTP/1.1 4")
    smuggled = (
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    assert send(strict, smuggled).startswith(b"HTTP/1.1 400 ")
    for path in ("/..%2f..%2fetc/passwd", "/%00", "/docs/../../server.py", "/" + "a" * 5000):
        assert strict.request("GET", path).status_code in (400, 404)
    assert strict.post("/translate", TEXT, headers=key("first")).status_code == 200


def test_nothing_of_a_request_is_shown_as_mark_up(server: RunningServer) -> None:
    hostile = "<script>alert(1)</script>"
    for response in (
        server.post("/translate", {**TEXT, "target": hostile}),
        server.request("GET", f"/{hostile}"),
        server.request("GET", f"/v1/{hostile}"),
        server.post("/v1/documents", {"sentences": [], hostile: 1}),
    ):
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-content-type-options"] == "nosniff"
