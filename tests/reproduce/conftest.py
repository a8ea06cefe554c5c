"""One server for all commands of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reproduce.plans import PlanLauncher


@pytest.fixture(scope="session")
def launcher() -> Iterator[PlanLauncher]:
    """What starts commands."""
    launcher = PlanLauncher()
    yield launcher
    launcher.close()
