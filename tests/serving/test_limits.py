"""What a hostile client could fill or slow down: memory, connections, the queue, texts that are slow to read."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from starlette.types import Message, Receive, Scope, Send

from focat.api import Model
from focat.corpus.generated import generate
from focat.serving import guard, server
from focat.serving.clients import Client
from focat.serving.guard import Guard
from focat.serving.memory import Memory, MemoryLimits
from focat.serving.texts import read_text
from focat.serving.ticket import DocumentSentence, Ticket
from focat.translation.formats.placeholders import placeholders
from focat.translation.phrases import PhraseEncoder
from focat.translation.sentence import InputSentence
from tests.serving.running import RunningServer, running

DOCUMENT = list(next(iter(generate(1, 9))).source)[:4]
PAIR = {"source": "en", "target": "de"}


def conversation(name: str, owner: str = "address") -> Client:
    return Client(owner, (name,))


def test_memory_is_bounded() -> None:
    now = 0.0
    memory = Memory(10, MemoryLimits(clients=3, of_one_owner=2, characters=100), lambda: now)
    memory.remember(conversation("other", "another"), "run", [("a", "b")])
    for name in ("1", "2", "3"):
        memory.remember(conversation(name), "run", [(name, "b")])
    assert len(memory) == 3
    assert not memory.recall(conversation("1"), "run", 9)  # the oldest of this owner
    assert memory.recall(conversation("other", "another"), "run", 9) == [("a", "b")]
    memory.remember(conversation("third", "third"), "run", [("a", "b")])
    assert len(memory) == 3
    assert not memory.recall(conversation("other", "another"), "run", 9)  # the oldest of all
    memory.remember(conversation("3"), "run", [("x" * 95, "y")])
    assert [memory.recall(conversation(name), "run", 9) for name in ("2", "3")] == [[], [("3", "b"), ("x" * 95, "y")]]
    now = 11.0
    memory.remember(conversation("4"), "run", [("x" * 99, "y")])
    assert len(memory) == 1
    memory = Memory(10)
    memory.remember(conversation("5"), "run", [("first", "b"), *[("a", "b")] * 63, ("z" * 3000, "z")])
    assert memory.recall(conversation("5"), "run", 99) == [("first", "b"), *[("a", "b")] * 63]
    memory.remember(conversation("5"), "run", [("a", "b")])
    assert memory.recall(conversation("5"), "run", 99) == [("a", "b")] * 64


def test_memory_is_for_a_while() -> None:
    """Ten seconds after its last request a client is forgotten, whoever else asks in the meantime."""
    now = 0.0
    memory = Memory(10, clock=lambda: now)
    for now, name in ((0.0, "1"), (1.0, "2"), (9.0, "1")):  # noqa: B007 (the clock reads it)
        memory.remember(conversation(name), "run", [(name, "b")])
    for now, left in ((11.0, ["1", "2"]), (11.5, ["1"]), (19.5, [])):  # noqa: B007
        assert [name for name in ("1", "2") if memory.recall(conversation(name), "run", 9)] == left
        assert len(memory) == len(left)


def test_a_session_is_no_way_around_the_limits(run: Path) -> None:
    """Sessions, keys that nobody checks and web pages tell conversations apart; limits count by address."""
    with running(run, max_client=30) as limited:
        held = threading.Event()
        limited.service.runs[0].worker.call(lambda: held.wait(30) and None)
        body = {"sentences": ["Tom."] * 20}
        first = threading.Thread(target=limited.post, args=("/v1/documents", body))
        try:
            first.start()
            while limited.service.waiting < 20:
                time.sleep(0.01)
            names = ({"X-Session": "b"}, {"Authorization": "Bearer b"}, {"Origin": "https://b.example"})
            found = [limited.post("/v1/documents", body, headers=headers).status_code for headers in names]
        finally:
            held.set()
            first.join()
    assert found == [429] * 3


def test_conversations_are_kept_apart(run: Path) -> None:
    """By key and session, whatever blanks are in them, and by web page."""
    with running(run, keys=frozenset({"a", "a b"})) as guarded:

        def translated(key: str, session: str, **headers: str) -> str:
            body = {"q": DOCUMENT[3], **PAIR, "api_key": key, "session": session}
            return guarded.post("/translate", body, headers=headers).json()["translatedText"]

        alone = translated("a", "alone")
        body = {"q": DOCUMENT[:3], **PAIR, "api_key": "a b", "session": "c"}
        assert guarded.post("/translate", body).status_code == 200
        assert translated("a", "b c") == alone
        assert translated("a b", "c", Origin="https://page.example") == alone
        assert translated("a b", "c") != alone
        assert guarded.post("/translate", {**body, "session": "x" * 201}).status_code == 400


def test_long_sentences_count_as_several(run: Path) -> None:
    with running(run, max_sentences=2) as limited:
        assert limited.post("/v1/documents", {"sentences": ["Tom. " * 300]}).status_code == 200
        assert limited.post("/v1/documents", {"sentences": ["Tom. " * 500]}).status_code == 413
        huge = {"sentences": [""] * 100_000, "breaks": list(range(100_000, 200_000))}
        assert limited.post("/v1/documents", huge).status_code == 413


@pytest.mark.parametrize("text", ["a", "%0", "%(", "{", "$", "http://", "a@", "-", "中", "<x>", "</x>", "<", "&", "[X"])
def test_long_texts_are_read_in_linear_time(text: str) -> None:
    """Quadratic time would be a quarter of an hour here."""
    long = text * (200_000 // len(text))
    placeholders(f"%{long}_")
    for kind in ("text", "xml", "sentence"):
        read_text(long, kind, "en", "de", ("x",))


def test_long_phrases_are_not_enforced(server: RunningServer, model: Model) -> None:
    """A web address of many tokens would be an automaton that fills the memory; it is put in afterwards."""
    encoder = PhraseEncoder(model.tokenizer.target)
    chunks: list[Any] = [type("Chunk", (), {"start": 0})]
    assert encoder.by_chunk([("a" * 501,)], [], "", chunks) == [()]
    assert encoder.by_chunk([("a" * 500, "b" * 501)], [], "", chunks) == encoder.by_chunk(
        [("a" * 500,)], [], "", chunks
    )
    address = f"https://example.org/{'ab/' * 300}"
    found = server.post("/translate", {"q": f"See {address} now.", **PAIR}).json()["translatedText"]
    assert address in found
    required = {"sentences": ["Tom."], "required": [[["a" * 2001]]]}
    assert server.post("/v1/documents", required).status_code == 400


def test_what_fails_fails_alone(server: RunningServer, model: Model) -> None:
    """A document that cannot be read or decoded leaves those of the same wave, and the worker, as they are."""
    worker = server.service.runs[0].worker

    async def translate() -> list[Any]:
        held = threading.Event()
        worker.call(lambda: held.wait(30) and None)  # so that all are in one wave
        broken = [
            InputSentence("Tom.", required=((5,),)),  # type: ignore[arg-type]
            InputSentence("Tom.", translation=5),  # type: ignore[arg-type]
        ]
        tickets = [Ticket([[DocumentSentence.of(each)]]) for each in (DOCUMENT[0], *broken, DOCUMENT[1])]
        for ticket in tickets:
            worker.submit(ticket)
        held.set()
        return await asyncio.gather(*(ticket.translations() for ticket in tickets), return_exceptions=True)

    first, *failed, last = asyncio.run(translate())
    assert [first[0].text, last[0].text] == [model.translate([sentence])[0] for sentence in DOCUMENT[:2]]
    assert all(isinstance(each, Exception) for each in failed)


def test_work_that_nobody_waits_for_is_not_done(server: RunningServer) -> None:
    run, held, done = server.service.runs[0], threading.Event(), []

    async def give_up() -> None:
        run.worker.call(lambda: held.wait(30) and None)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(run.call(lambda: done.append("dropped")), 0.05)
        held.set()
        await run.call(lambda: done.append("wanted"))

    asyncio.run(give_up())
    assert done == ["wanted"]


def test_too_many_connections(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a number on, they are answered by 503; from twice as many on, closed."""
    monkeypatch.setattr(server, "_MAX_CONNECTIONS", 3)
    with running(run) as limited:
        parts = urlsplit(limited.url)
        opened = [socket.create_connection((parts.hostname, parts.port), timeout=5) for _ in range(6)]
        try:
            opened[5].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert opened[5].recv(100).startswith(b"HTTP/1.1 503 ")
            while len(opened) < 20:  # that one may be closed by now
                opened.append(socket.create_connection((parts.hostname, parts.port), timeout=5))
            try:
                opened[-1].sendall(b"GET /health HTTP/1.1\r\n\r\n")
                received = opened[-1].recv(100)
            except ConnectionError:
                received = b""
            assert received == b""
        finally:
            for connection in opened:
                connection.close()
        late = time.monotonic() + 20
        status = 503
        while status != 200 and time.monotonic() < late:
            try:
                status = limited.request("GET", "/health").status_code
            except requests.ConnectionError:
                time.sleep(0.05)
        assert status == 200


def test_too_many_bodies(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_MAX_BODIES", 1)
    with running(run, max_body=20_000) as limited:
        parts = urlsplit(limited.url)
        head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 15000\r\n\r\n"
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as slow:
            slow.sendall(head + b" " * 14_000)
            time.sleep(0.2)
            assert limited.post("/translate", {"q": " " * 10_000, **PAIR}).status_code == 503
        late = time.monotonic() + 20
        while limited.post("/translate", {"q": " " * 10_000, **PAIR}).status_code != 200:
            assert time.monotonic() < late
            time.sleep(0.05)


def test_a_path_cannot_write_lines_into_the_log(server: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("broken")

    async def ask() -> int:
        sent: list[Message] = []
        waiting: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Message:
            return waiting.pop() if waiting else await asyncio.Future()

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/a\nforged line", "headers": []}
        await Guard(failing, server.service)(scope, receive, send)
        return int(sent[0]["status"])

    with caplog.at_level(logging.ERROR, "focat.serving"):
        assert asyncio.run(ask()) == 500
    assert "forged" in caplog.text
    assert "\nforged" not in caplog.text


def test_what_browsers_and_proxies_keep(server: RunningServer) -> None:
    """Files of the page until they change, translations never."""
    page = server.request("GET", "/app.js")
    assert page.headers["cache-control"] == "no-cache"
    again = server.request("GET", "/app.js", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.headers["cache-control"]) == (304, "no-cache")
    answer = server.request("GET", "/translate", params={"q": "Tom.", "langpair": "en|de"})
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")


def test_the_window_that_is_served(run: Path) -> None:
    with running(run, window=2) as narrow:
        (model,) = narrow.request("GET", "/v1/models").json()["models"]
        assert model["window"] == 2
        assert narrow.service.runs[0].before == 1
