"""Does `focat serve` last? Memory over many requests, and what becomes of requests when it is stopped and started.

    python -m benchmarks.serve_endurance RUN --requests 100000 --restarts 10

Memory: clients send one sentence after the other, each in a session of its own that is given up now and then. The
resident memory of the server is read ten times on the way.

Restarts: the server is told to stop (SIGTERM) and started again on the same port, while clients go on. A request is
lost if it was answered neither completely nor by a refusal; clients repeat what was refused. Every sentence has a
number, so that an answer that belongs to another request would be seen.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.serve_load import Client, free_port, memory_mib, process
from focat.hardware import hardware

_SESSION_REQUESTS = 50  # requests of all clients together, after which each begins another session


async def send_all(url: str, pid: int, clients: int, requests: int) -> None:
    """Send so many requests, and print the memory of the server ten times."""
    sent = 0
    start = time.monotonic()

    async def ask(number: int) -> None:
        nonlocal sent
        client = Client(url, "en", "de")
        while sent < requests:
            sent += 1
            count = sent
            session = f"{number} {count // _SESSION_REQUESTS}"
            status, _ = await client.translate(f"Tom needs {count} lamps.", session)
            assert status == 200
            if count % (requests // 10) == 0:
                rate = count / (time.monotonic() - start)
                print(f"| {count:,} | {memory_mib(pid):.1f} | {rate:.0f} |", flush=True)
        client.close()

    await asyncio.gather(*(ask(number) for number in range(clients)))


class Restarted:
    """Clients of a server that is stopped and started again."""

    def __init__(self, url: str) -> None:
        self.url, self.stop = url, False
        self.outcomes: Counter[str] = Counter()

    async def ask(self, number: int) -> None:
        """Send sentences until told to stop, and repeat what was refused."""
        client, count = Client(self.url, "en", "de"), 0
        while not self.stop:
            count += 1
            text = f"Client {number} sends {count}."
            answered = 0
            while not answered and not self.stop:
                try:
                    status, _ = await asyncio.wait_for(client.translate(text, f"{number}"), 60)
                except ConnectionRefusedError:
                    self.outcomes["refused: no connection"] += 1
                except (asyncio.IncompleteReadError, ConnectionError) as error:
                    client.close()
                    partial = getattr(error, "partial", b"")
                    self.outcomes["cut off in the answer" if partial else "closed before the answer"] += 1
                except asyncio.TimeoutError:
                    client.close()
                    self.outcomes["lost: no answer in a minute"] += 1
                else:
                    self.outcomes[f"status {status}"] += 1
                    answered += status == 200
                if not answered:
                    await asyncio.sleep(0.05)
            if client.unread():
                self.outcomes["answered twice"] += 1
        client.close()


async def restart(command: list[str], url: str, clients: int, restarts: int) -> Counter[str]:
    """Stop and start the server so many times under load; what became of all requests."""
    load = Restarted(url)
    tasks: list[asyncio.Task[None]] = []
    for _ in range(restarts):
        with process(command, url) as server:
            if not tasks:
                tasks = [asyncio.create_task(load.ask(number)) for number in range(clients)]
            await asyncio.sleep(3)
            server.send_signal(signal.SIGTERM)
            while server.poll() is None:
                await asyncio.sleep(0.02)
            load.outcomes[f"exit code {server.returncode}"] += 1
    load.stop = True
    await asyncio.gather(*tasks)
    return load.outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run from English to German, best a tiny one")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--clients", type=int, default=16)
    arguments = parser.parse_args()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "focat", "serve", str(arguments.run), "--port", str(port), "--remember", "30"]
    print(f"{hardware()}\n")
    if arguments.requests:
        print("| requests | MiB | requests/s |\n|---|---|---|")
        with process(command, url) as server:
            asyncio.run(send_all(url, server.pid, arguments.clients, arguments.requests))
    if arguments.restarts:
        print("\n| what became of a request | count |\n|---|---|")
        for outcome, count in sorted(asyncio.run(restart(command, url, arguments.clients, arguments.restarts)).items()):
            print(f"| {outcome} | {count:,} |")


if __name__ == "__main__":
    main()
