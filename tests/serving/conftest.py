"""One tiny run with random weights, and a server for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import focat
from focat.api import Model
from tests.serving.running import RunningServer, running
from tests.translation.tiny import tiny_run

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """English to German, windows of three sentences."""
    return tiny_run(tmp_path_factory.mktemp("runs"), decoding={"beam": 4}).path


@pytest.fixture(scope="session")
def model(run: Path) -> Model:
    return focat.load(run, "cpu")


@pytest.fixture(scope="session")
def server(run: Path) -> Iterator[RunningServer]:
    with running(run) as server:
        yield server
