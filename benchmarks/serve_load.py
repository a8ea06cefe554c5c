"""Throughput and latency of `focat serve` under load, beside LibreTranslate with the same model, in one run.

Clients send one sentence, wait for its translation, and send the next one, each on a connection of its own. The two
servers are asked in turn at every level, so that whatever else the machine does falls on both.

    python -m venv lt && lt/bin/pip install libretranslate
    focat import zh_en.argosmodel -o zh-en
    python -m benchmarks.serve_load zh-en --peer lt/bin/python --argos zh_en.argosmodel

The model is Argos Translate's Chinese to English package, a Transformer-base. `benchmarks/serve_peer.py` starts
LibreTranslate without the network.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.serve_sentences import sentences
from focat.hardware import hardware


@dataclass
class Level:
    """What clients saw of a server."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    errors: int = 0
    cpu_seconds: float = 0.0
    """Of the server, which other processes disturb less than the time on the clock."""

    @property
    def rate(self) -> float:
        """Sentences per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, percent: int) -> float:
        """Latency in milliseconds."""
        return 1000 * statistics.quantiles(self.latencies, n=100, method="inclusive")[percent - 1]


class Client:
    """A client with one connection, which it opens again if the server has closed it."""

    def __init__(self, url: str, source: str = "zh", target: str = "en") -> None:
        parts = urlsplit(url)
        self._pair = {"source": source, "target": target}
        self._address = parts.hostname, parts.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def translate(self, text: str, session: str) -> tuple[int, str]:
        """Send a text; returns the status and the translation."""
        body = json.dumps({"q": text, **self._pair, "session": session}).encode()
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        writer.write(f"{head}\r\n\r\n".encode() + body)
        try:
            status_line = await reader.readuntil(b"\r\n")
            headers = await reader.readuntil(b"\r\n\r\n")
            named = dict(line.lower().split(b": ", 1) for line in headers.strip().split(b"\r\n"))
            answer = json.loads(await reader.readexactly(int(named[b"content-length"])))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            raise
        if named.get(b"connection") == b"close":
            self.close()
        return int(status_line.split()[1]), answer.get("translatedText", "")

    def unread(self) -> bool:
        """Whether the server has sent more than was asked for."""
        return self._streams is not None and bool(self._streams[0]._buffer)  # type: ignore[attr-defined]

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def load(url: str, clients: int, seconds: float, texts: Iterator[str]) -> Level:
    """Ask a server for so many seconds with so many clients; what is under way at the end counts as well."""
    level = Level()
    start = time.monotonic()

    async def ask(number: int) -> None:
        client = Client(url)
        while time.monotonic() < start + seconds:
            text, before = next(texts), time.monotonic()
            status, translation = await client.translate(text, f"client {number}")
            if status == 200 and translation:
                level.latencies.append(time.monotonic() - before)
            else:
                level.errors += 1
        client.close()

    await asyncio.gather(*(ask(number) for number in range(clients)))
    level.seconds = time.monotonic() - start
    return level


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def process(command: list[str], url: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server that answers at this URL, until the end of the block."""
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
        try:
            for _ in range(1200):
                try:
                    urllib.request.urlopen(f"{url}/health", timeout=5).read()
                    break
                except OSError:
                    if server.poll() is not None:
                        log.seek(0)
                        raise SystemExit(log.read().decode(errors="replace")) from None
                    time.sleep(0.1)
            yield server
        finally:
            server.terminate()
            server.wait(60)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run that focat serves")
    parser.add_argument("--peer", type=Path, help="python of an environment with LibreTranslate")
    parser.add_argument("--argos", type=Path, help="the package that the run was imported from")
    parser.add_argument("--clients", default="1,8,32,128")
    parser.add_argument("--seconds", type=float, default=20, help="of each level")
    parser.add_argument("--rounds", type=int, default=2, help="in turn")
    parser.add_argument("--options", default="--int8", help="options of focat serve")
    arguments = parser.parse_args()
    urls = {name: f"http://127.0.0.1:{free_port()}" for name in ("focat", "LibreTranslate")}
    with ExitStack() as stack:
        port = urls["focat"].rpartition(":")[2]
        command = [sys.executable, "-m", "focat", "serve", str(arguments.run), "--port", port]
        servers = {"focat": stack.enter_context(process([*command, *arguments.options.split()], urls["focat"]))}
        if arguments.peer is not None:
            home = stack.enter_context(tempfile.TemporaryDirectory())
            port = urls["LibreTranslate"].rpartition(":")[2]
            peer = [str(arguments.peer), str(Path(__file__).with_name("serve_peer.py")), str(arguments.argos), port]
            servers["LibreTranslate"] = stack.enter_context(process(peer, urls["LibreTranslate"], HOME=home))
        print(f"{hardware()}\n")
        columns = "clients", "server", "sentences/s", "p50 ms", "p95 ms", "CPU ms/sentence", "errors", "MiB"
        print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
        for name in servers:
            asyncio.run(load(urls[name], 4, 5, sentences(0)))  # warm up
        for clients in map(int, arguments.clients.split(",")):
            levels = {name: Level() for name in servers}
            for number in range(arguments.rounds):
                for name in servers:
                    texts = sentences(1 + number + 100 * clients)
                    before = cpu_seconds(servers[name].pid)
                    found = asyncio.run(load(urls[name], clients, arguments.seconds, texts))
                    levels[name].seconds += found.seconds
                    levels[name].latencies += found.latencies
                    levels[name].errors += found.errors
                    levels[name].cpu_seconds += cpu_seconds(servers[name].pid) - before
            for name, level in levels.items():
                percentiles = f"{level.percentile(50):.0f} | {level.percentile(95):.0f}"
                cpu = 1000 * level.cpu_seconds / max(len(level.latencies), 1)
                rest = f"{cpu:.0f} | {level.errors} | {memory_mib(servers[name].pid):.0f}"
                print(f"| {clients} | {name} | {level.rate:.1f} | {percentiles} | {rest} |", flush=True)


if __name__ == "__main__":
    main()
