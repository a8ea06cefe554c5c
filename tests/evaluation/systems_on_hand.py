"""A run folder with untrained weights on the generated corpus: real, and made in a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from focat.config import Settings
from focat.corpus.prepare import prepare
from focat.corpus.store import Store
from focat.progress import NULL_PROGRESS
from focat.run import Run


def make_store(folder: Path) -> Path:
    """A token store of the generated corpus."""
    settings = Settings.model_validate(
        {
            "data": {
                "store": str(folder / "store"),
                "train": [{"format": "generated", "documents": 60}],
                "tokenizer": {"vocabulary": 330},
            }
        }
    )
    prepare(settings.data, NULL_PROGRESS)
    return settings.data.store


def make_run(store: Path, folder: Path, windows: dict[str, Any], seed: int = 1, **model: Any) -> Run:
    """A run with one checkpoint of random weights."""
    sizes = {"preset": "tiny", "d_model": 16, "d_ff": 32, "heads": 2, "shift": 5}
    settings = Settings.model_validate(
        {
            "data": {"store": str(store)},
            "windows": windows,
            "model": {**sizes, **model},
            "training": {"output_dir": str(folder)},
            "decoding": {
                "beam": 2,
                "max_length_ratio": 0.5,
                "max_length_offset": 4,
            },  # untrained models talk without end
        }
    )
    run = Run.create(settings, Store(store))
    torch.manual_seed(seed)
    built = run.build_model()
    for parameter in built.parameters():  # far from uniform: what a model finds likely should depend on what it read
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    checkpoint = folder / "checkpoints" / "0000001"
    checkpoint.mkdir(parents=True)
    save_file({name: p.detach().clone() for name, p in built.named_parameters()}, checkpoint / "weights.safetensors")
    (folder / "best").write_text("0000001\n")
    return run
