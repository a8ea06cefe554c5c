"""Start the server: load the runs, listen, say where, and stop in order."""

from __future__ import annotations

import logging
import math
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import uvicorn

from focat.api import load
from focat.config.schema import SearchOptions
from focat.errors import FocatError, ParameterError
from focat.serving.app import build_app
from focat.serving.connections import TimedConnection
from focat.serving.languages import same_language
from focat.serving.options import ServeOptions
from focat.serving.service import ServedRun, Service
from focat.serving.worker import Worker

_MAX_CONNECTIONS = 2000  # more are answered with 503, twice as many closed
_OTHER_FILES = 200  # that a process has open beside its connections


def serve(
    runs: Sequence[Path],
    options: ServeOptions,
    say: Callable[[str], None],
    device: str = "auto",
    overrides: Sequence[str] = (),
    window: int | None = None,
    search: SearchOptions | None = None,
) -> None:
    """Serve runs until the process is told to stop (SIGTERM, Ctrl-C).

    Args:
        runs: folders, one for each language pair.
        say: told in lines when the server is ready, and that it has stopped.
        window: sentences in a window; as the run has it if None.
        search: settings of the search that differ from those of the runs.

    Raises:
        FocatError: a run cannot be loaded, two have the same pair, or the port is taken.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("focat.serving").setLevel(logging.INFO)
    _allow_connections()
    with listen(options) as listening:
        served = load_runs(runs, device, overrides, window, search or {})
        with started(served, options) as service:
            pairs = ", ".join(f"{run.source} to {run.target}" for run in served)
            say(f"serving {pairs} on {url_of(listening)}")
            with suppress(KeyboardInterrupt):
                HttpServer(service).run(sockets=[listening])
        say("stopped")


@contextmanager
def started(runs: Sequence[ServedRun], options: ServeOptions) -> Iterator[Service]:
    """A service whose workers run; at the end of the block they finish what they have."""
    for run in runs:
        run.worker.start()
    try:
        yield Service(runs, options)
    finally:
        for run in runs:
            run.worker.stop()
        for run in runs:
            run.worker.join(options.stop_timeout)


def url_of(listening: socket.socket) -> str:
    """The address of a server that listens on a socket."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class HttpServer(uvicorn.Server):
    """A server whose service refuses new work as soon as it is told to stop."""

    def __init__(self, service: Service) -> None:
        options = service.options
        super().__init__(
            uvicorn.Config(
                build_app(service),
                http=TimedConnection,
                timeout_keep_alive=math.ceil(options.read_timeout),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=options.behind_proxy,
                forwarded_allow_ips="127.0.0.1,::1",
                limit_concurrency=_MAX_CONNECTIONS,
                timeout_graceful_shutdown=int(options.stop_timeout),
            )
        )
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop in order; a second Ctrl-C ends the server at once. Unlike uvicorn's own, it ends with exit code 0."""
        self._service.stopping = True
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def listen(options: ServeOptions) -> socket.socket:
    """A socket that listens; a port of 0 is any that is free."""
    try:
        family = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((options.host, options.port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None) or 0  # those of names, below 0, are of another kind
        reason = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or error
        problem = f"cannot listen there ({reason}); choose another host or port"
        raise ParameterError("port", f"{options.host}:{options.port}", problem) from None
    # Connections inherit it. Else the end of an answer waits until the client has acknowledged its beginning.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _allow_connections() -> None:
    """Let the process have as many connections open as it accepts, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * _MAX_CONNECTIONS + _OTHER_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def load_runs(
    runs: Sequence[Path],
    device: str,
    overrides: Sequence[str],
    window: int | None,
    search: SearchOptions,
) -> list[ServedRun]:
    """Load the runs to serve; the parameters are those of `serve`."""
    served: list[ServedRun] = []
    for path in runs:
        model = load(path, device, overrides)
        translator = model.translator(context="reuse", window=window, **search)
        worker = Worker(translator, path.name)
        run = ServedRun(_unused_name(path, served), model, worker)
        for other in served:
            if same_language(run.source, other.source) and same_language(run.target, other.target):
                raise FocatError(
                    f"{path}: translates {run.source} to {run.target}, as {other.id} does; serve one run for each pair"
                )
        served.append(run)
    return served


def _unused_name(path: Path, served: Sequence[ServedRun]) -> str:
    """The name of a run's folder, with a number if another run has it."""
    name = path.resolve().name
    taken = {run.id for run in served}
    return name if name not in taken else f"{name}-{len(served) + 1}"
