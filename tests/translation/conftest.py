"""One tiny system for all tests of documents."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import focat
from focat.api import Model
from focat.run import Run
from tests.translation.tiny import tiny_run

torch.set_num_threads(1)  # tensors this small are slowed down, not sped up, by a second thread


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to make runs in."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def run(runs: Path) -> Run:
    """Windows of three sentences on both sides, 64 tokens at most."""
    return tiny_run(runs)


@pytest.fixture(scope="session")
def model(run: Run) -> Model:
    return focat.load(run.path, "cpu")
