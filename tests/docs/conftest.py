"""One shell and one folder of small systems for all pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.shell import Shell
from tests.docs.world import build


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """What runs commands."""
    shell = Shell(tmp_path_factory.mktemp("bin"))
    yield shell
    shell.close()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, shell: Shell) -> Path:
    """What pages speak of; copied before anything is done to it."""
    folder = tmp_path_factory.mktemp("world")
    build(folder, shell)
    return folder
