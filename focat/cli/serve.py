"""The command that answers HTTP requests: serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from focat.cli import options as opt
from focat.errors import FocatError, ParameterError
from focat.printing import print_line


def serve_command(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN… [KEY=VALUE]", help="Runs, one for each language pair; settings to override."),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any that is free.")] = 5000,
    keys: Annotated[
        Path | None, opt.file("API keys, one to a line; each request must have one. Without it, anybody may ask.")
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Web origin whose pages may call the server; * for all. Repeatable."),
    ] = None,
    remember: Annotated[
        float, typer.Option(min=0, help="Seconds for which the last sentences of a client are its context; 0: never.")
    ] = 600.0,
    max_body: Annotated[int, typer.Option(min=1, help="Most bytes of a request.")] = 4 << 20,
    max_sentences: Annotated[int, typer.Option(min=1, help="Most sentences of a request.")] = 5_000,
    max_client: Annotated[int, typer.Option(min=1, help="Most sentences of a client that wait.")] = 10_000,
    max_queue: Annotated[int, typer.Option(min=1, help="Most sentences of all clients that wait.")] = 50_000,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds until a request is given up.")] = 300.0,
    read_timeout: Annotated[float, typer.Option(min=0.1, help="Seconds in which a request must arrive.")] = 20.0,
    stop_timeout: Annotated[float, typer.Option(min=0, help="Seconds to finish requests when told to stop.")] = 30.0,
    behind_proxy: Annotated[
        bool, opt.flag("--behind-proxy", "A proxy on this machine names the clients (X-Forwarded-For).")
    ] = False,
    log_text: Annotated[bool, opt.flag("--log-text", "Also log the texts of requests.")] = False,
    window: opt.WindowSize = None,
    beam: opt.Beam = None,
    int8: opt.Int8 = False,
    bfloat16: opt.Bfloat16 = False,
    device: opt.DeviceName = "auto",
) -> None:
    """Translate for other programs over HTTP, as LibreTranslate and DeepL do, and on a page; keeps context."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise FocatError("serve: needs packages that are not installed; `pip install 'focat[serve]'`") from None
    from focat.config.schema import SearchOptions
    from focat.serving.options import ServeOptions
    from focat.serving.server import serve

    folders, overrides = opt.split_overrides(runs)
    if not folders:
        raise FocatError("serve: name a run, or several")
    options = ServeOptions(
        host=host,
        port=port,
        keys=read_keys(keys),
        cors=tuple(cors or ["*"]),
        remember=remember,
        max_body=max_body,
        max_sentences=max_sentences,
        max_client=max_client,
        max_queue=max_queue,
        timeout=timeout,
        read_timeout=read_timeout,
        stop_timeout=stop_timeout,
        behind_proxy=behind_proxy,
        log_text=log_text,
    )
    paths = [Path(folder) for folder in folders]
    search = SearchOptions(beam=beam, int8=int8 or None, bfloat16=bfloat16 or None)
    serve(paths, options, print_line, device, overrides, window, search)


def read_keys(path: Path | None) -> frozenset[str]:
    """The keys of a file; blank lines and comments are passed over."""
    if path is None:
        return frozenset()
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError("keys", path, f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
    keys = frozenset(line for line in lines if line and not line.startswith("#"))
    if not keys:
        raise ParameterError("keys", path, "has no key; write one to a line")
    return keys
