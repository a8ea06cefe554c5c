"""One shell and one workspace of small systems for all pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.shell import Shell
from tests.docs.workspace import build


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Runs the commands of pages."""
    shell = Shell(tmp_path_factory.mktemp("bin"))
    yield shell
    shell.close()


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory, shell: Shell) -> Path:
    """The files and systems that pages name; a test copies it before it changes anything."""
    folder = tmp_path_factory.mktemp("workspace")
    build(folder, shell)
    return folder
