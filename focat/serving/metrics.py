"""Figures about the server for Prometheus: requests, times, sentences, what waits."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_PREFIXES = {"/v1/documents/": "/v1/documents/{id}", "/download_file/": "/download_file/{name}"}


class Metrics:
    """Counts what a server does. Paths that it does not have count as one, so that clients cannot fill its memory."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        names = ("method", "path", "status")
        self._requests = Counter("focat_requests", "Requests that were answered", names, registry=self._registry)
        self._seconds = Histogram(
            "focat_request_seconds", "Time to answer", ("path",), buckets=_SECONDS, registry=self._registry
        )
        self.sentences = Counter("focat_sentences", "Sentences that were translated", registry=self._registry)
        self._paths: set[str] = set()

    def watch(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a figure that is asked for when it is wanted."""
        Gauge(name, description, registry=self._registry).set_function(value)

    def know(self, paths: set[str]) -> None:
        """Count these paths each by itself."""
        self._paths |= paths

    def observe(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        for prefix, name in _PREFIXES.items():
            path = name if path.startswith(prefix) else path
        path = path if path in self._paths else "other"
        known = method if method in ("GET", "POST", "DELETE", "OPTIONS", "HEAD") else "other"
        self._requests.labels(known, path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """All figures in the format of Prometheus."""
        return generate_latest(self._registry)
