"""Fixtures of the window tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from focat.windows import shuffling


@pytest.fixture(scope="module")
def small_chunks() -> Iterator[None]:
    """Compute four windows at a time instead of 65,536, so that corpora of a few sentences have several chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffling, "CHUNK", 4)
        yield
