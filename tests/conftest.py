"""Tests share two cores: one thread each, here and in the commands that tests start."""

import os
from collections.abc import Iterator

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

from tests.training.launcher import Launcher


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    """What starts commands as processes of their own."""
    launcher = Launcher()
    yield launcher
    launcher.close()
