"""`focat serve` as a process: what it says, what it refuses, how it stops."""

from __future__ import annotations

import signal
import socket
import threading
import time
from pathlib import Path

import pytest
import requests

from focat.cli.serve import read_keys
from focat.corpus.generated import generate
from focat.errors import FocatError
from focat.serving.server import load_runs
from tests.training.launcher import Command, Launcher

DOCUMENT = list(next(iter(generate(1, 9))).source)[:4]


def url_of(command: Command) -> str:
    """What the server says when it is ready."""
    late = time.monotonic() + 60
    while "\n" not in command.output and command.running() and time.monotonic() < late:
        time.sleep(0.02)
    line = command.output.splitlines()[0]
    assert line.startswith("serving en to de on http://127.0.0.1:")
    return line.rpartition(" ")[2]


def test_it_finishes_what_it_has_and_refuses_new(launcher: Launcher, run: Path, tmp_path: Path) -> None:
    """Told to stop under load, it answers every request that it took on, completely, and ends with exit code 0."""
    command = launcher.start(["serve", str(run), "--port", "0"], tmp_path)
    url = url_of(command)
    body = {"sentences": DOCUMENT * 5}
    complete, refused = [], []

    def ask() -> None:
        with requests.Session() as connection:
            while not refused:
                try:
                    answer = connection.post(f"{url}/v1/documents", json=body, timeout=60)
                except requests.ConnectionError:  # nothing of an answer has come
                    refused.append("connection")
                else:
                    (complete if answer.status_code == 200 else refused).append(answer)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(complete) < 4:
        time.sleep(0.02)
    command.send(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert command.wait() == 0
    assert command.output.splitlines()[-1] == "stopped"
    assert "Traceback" not in command.output
    assert not any(sentence in command.output for sentence in DOCUMENT)  # texts are not logged
    assert {len(answer.json()["sentences"]) for answer in complete} == {20}
    assert {answer.status_code for answer in refused if answer != "connection"} <= {503}
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{url}/health", timeout=5)


def test_texts_are_logged_if_asked(launcher: Launcher, run: Path, tmp_path: Path) -> None:
    command = launcher.start(["serve", str(run), "--port", "0", "--log-text"], tmp_path)
    body = {"q": "Tom sleeps.", "source": "en", "target": "de"}
    assert requests.post(f"{url_of(command)}/translate", json=body, timeout=60).status_code == 200
    command.send(signal.SIGINT)
    assert command.wait() == 0
    assert "'Tom sleeps.'" in command.output


def test_what_it_refuses(launcher: Launcher, run: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = launcher.refused(tmp_path, "serve", run, "--port", port)
    expected = "cannot listen there (Address already in use); choose another host or port"
    assert refused == f"--port 127.0.0.1:{port}: {expected}"
    assert launcher.refused(tmp_path, "serve", run, "--keys", tmp_path / "missing").startswith("--keys ")
    with pytest.raises(FocatError, match="as run-0 does; serve one run for each pair"):
        load_runs([run, run], "cpu", (), None, {})
    (tmp_path / "keys").write_text("# comment\n\nfirst\n second \n")
    assert read_keys(tmp_path / "keys") == {"first", "second"}
    (tmp_path / "keys").write_text("# comment\n")
    with pytest.raises(FocatError, match="has no key"):
        read_keys(tmp_path / "keys")
