"""What a server may be told: where it listens, whom it answers, and how much it takes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServeOptions:
    """Options of `focat serve`."""

    host: str = "127.0.0.1"
    port: int = 5000
    keys: frozenset[str] = frozenset()
    """API keys of which each request must have one; none are needed if empty."""
    cors: tuple[str, ...] = ("*",)
    """Web origins whose pages may call the APIs; `*` for all, as LibreTranslate has it."""
    remember: float = 600.0
    """Seconds for which the last sentences of a client are kept as context of its next ones; 0 remembers nothing."""
    max_body: int = 4 << 20
    """Bytes of a request."""
    max_sentences: int = 5_000
    """Sentences of a request."""
    max_client: int = 10_000
    """Sentences of one client that are not answered yet."""
    max_queue: int = 50_000
    """Sentences of all clients that are not answered yet."""
    timeout: float = 300.0
    """Seconds until a request is given up."""
    read_timeout: float = 20.0
    """Seconds in which a request must have arrived completely."""
    stop_timeout: float = 30.0
    """Seconds that a server which is told to stop has for the requests it took on."""
    behind_proxy: bool = False
    """Whether the address of a client is that in the header which a proxy on this machine sets."""
    log_text: bool = False
    """Whether the texts of requests are logged."""
