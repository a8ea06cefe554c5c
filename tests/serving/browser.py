"""A real Chromium that opens pages and keeps a list of all that goes wrong in them.

Wrong is: an exception, an error on the console, a violation of the content security policy, a request to another host.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = (
    "--no-sandbox",  # tests may run as root, as in a container
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; a test that asks for it is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if EXECUTABLE is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=EXECUTABLE, args=_FLAGS)
        yield Browser(opened)
        opened.close()


class Browser:
    """Opens pages, each with empty storage."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self.wrong: list[str] = []

    def open(self, url: str, width: int = 1280, height: int = 800, dark: bool = False) -> Any:
        """A page of Playwright at the root of a server."""
        scheme = "dark" if dark else "light"
        context = self._browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("pageerror", lambda error: self.wrong.append(f"exception: {error}"))
        page.on("console", self._console)  # also says what the content security policy has stopped
        page.on("request", lambda request: self._request(request.url, url))
        page.goto(url)
        return page

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text} {message.location['url']}")

    def _request(self, asked: str, url: str) -> None:
        if not asked.startswith((url, "blob:", "data:")):
            self.wrong.append(f"request: {asked}")

    def close(self) -> None:
        """Close all pages."""
        for context in self._browser.contexts:
            context.close()


def drop(page: Any, path: Path) -> None:
    """Drop a file on a page, as the file manager would."""
    transfer = page.evaluate_handle(
        """([name, bytes]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([new Uint8Array(bytes)], name));
          return transfer;
        }""",
        [path.name, list(path.read_bytes())],
    )
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event("main", event, {"dataTransfer": transfer})
