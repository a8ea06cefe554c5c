"""Training as a user does it, on a corpus and a model so small that an update takes a few milliseconds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from focat.config import Settings, load_settings
from focat.corpus.store import Store
from focat.progress import Progress
from focat.run import Run
from focat.training.distributed import Processes
from focat.training.trainer import Trainer
from tests.training.launcher import Command, Launcher

Records = list[dict[str, Any]]


def settings_tree(store: Path, run: Path, dev_documents: int = 6) -> dict[str, Any]:
    """The settings that all tests start from."""
    dev = [{"format": "generated", "documents": dev_documents, "seed": 2}] if dev_documents else []
    return {
        "data": {
            "store": str(store),
            "train": [{"format": "generated", "documents": 60}],
            "dev": dev,
            "tokenizer": {"vocabulary": 400},
        },
        "windows": {"before": 2},
        "model": {
            "preset": "tiny",
            "d_model": 32,
            "d_ff": 64,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "heads": 2,
            "dropout": 0.1,
        },
        "objective": {"discount": 0.01, "chunk_tokens": 100},
        "training": {
            "output_dir": str(run),
            "device": "cpu",
            "budget": {"updates": 12},
            "batch_tokens": 500,
            "learning_rate": 0.005,
            "warmup": 4,
            "validate_every": 4,
            "log_every": 2,
            "log_samples": 0,
        },
    }


@dataclass(frozen=True)
class Workspace:
    """A folder to train in."""

    store: Path
    folder: Path
    launcher: Launcher

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def config(self) -> Path:
        """A settings file, as a user would have it."""
        path = self.folder / "config.yaml"
        if not path.exists():
            path.write_text(json.dumps(settings_tree(self.store, self.run)))  # JSON is YAML
        return path

    def settings(self, *overrides: str) -> Settings:
        return load_settings(self.config, overrides)

    def start(self, *overrides: str) -> Command:
        """`focat train CONFIG key=value …`"""
        return self.launcher.start(["train", str(self.config), *overrides], self.folder)

    def train(self, *overrides: str, expect: int = 0) -> str:
        """The same to its end; returns what it output."""
        return self.focat("train", str(self.config), *overrides, expect=expect)

    def focat(self, *arguments: str, expect: int = 0) -> str:
        """Any command to its end; returns what it output."""
        return self.launcher.focat(self.folder, *arguments, expect=expect)

    def trainer(self, *overrides: str, progress: Progress | None = None) -> Trainer:
        """A trainer in this process, for what cannot be seen from outside."""
        settings = self.settings(*overrides)
        store = Store(settings.data.store)
        alone = Processes(0, 1, torch.device("cpu"))
        return Trainer(settings, store, Run.create(settings, store), alone, progress or Progress(out=None))


def records(run: Path, kind: str | None = None) -> Records:
    """What a run has logged."""
    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if kind in (None, record["kind"])]


def without_time(found: Records) -> Records:
    """Without what no two runs have in common."""
    timed = ("minutes", "minutes_left", "tokens_per_second")
    return [{name: value for name, value in record.items() if name not in timed} for record in found]


def last_checkpoint(run: Path) -> Path:
    return Run(run).checkpoints()[-1]


def weights_of(run: Path) -> dict[str, Tensor]:
    """The weights of the last checkpoint; copied, for what is loaded changes with its file."""
    stored = load_file(last_checkpoint(run) / "weights.safetensors")
    return {name: tensor.clone() for name, tensor in stored.items()}


def same_tensors(some: dict[str, Tensor], others: dict[str, Tensor]) -> bool:
    """Whether they are the same, bit for bit."""
    return some.keys() == others.keys() and all(torch.equal(some[name], others[name]) for name in some)
