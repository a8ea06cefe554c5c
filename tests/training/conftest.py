"""One small token store for all tests of training, made from the generated corpus."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from focat.config import Settings
from focat.corpus.prepare import prepare
from focat.progress import NULL_PROGRESS
from tests.training.launcher import Launcher
from tests.training.runs import Workspace, settings_tree

torch.set_num_threads(1)  # tensors this small are slowed down, not sped up, by a second thread


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `store` (60 documents, 6 to validate on) and `store-without-dev`."""
    folder = tmp_path_factory.mktemp("stores")
    for name, dev in (("store", 6), ("store-without-dev", 0)):
        prepare(Settings.model_validate(settings_tree(folder / name, folder / "run", dev)).data, NULL_PROGRESS)
    return folder


@pytest.fixture
def workspace(stores: Path, tmp_path: Path, launcher: Launcher) -> Workspace:
    """Where to train: the store, and a folder of its own for each test."""
    return Workspace(stores / "store", tmp_path, launcher)
