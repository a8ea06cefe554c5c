"""Systems that can be used at once: real run folders with weights that nobody has trained."""

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

_TREE: dict[str, dict[str, Any]] = {
    "data": {"train": [{"format": "generated", "documents": 60}], "tokenizer": {"vocabulary": 400}},
    "windows": {"before": 2, "max_tokens": 64},
    "model": {"preset": "tiny", "d_model": 32, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1, "heads": 2},
    "decoding": {
        "beam": 2,
        "max_length_ratio": 0.5,
        "max_length_offset": 3,
    },  # without training, they would never come to an end
}


def tiny_run(folder: Path, seed: int = 1, vocabulary: int = 400, **sections: dict[str, Any]) -> Run:
    """A run with random weights; the store is made once for all."""
    tree = {name: {**_TREE.get(name, {}), **sections.get(name, {})} for name in {*_TREE, *sections}}
    tokenizer = {"vocabulary": vocabulary, **sections.get("data", {}).get("tokenizer", {})}
    tree["data"] |= {"store": str(folder / f"store-{vocabulary}"), "tokenizer": tokenizer}
    number = len(list(folder.glob("run-*")))
    tree["training"] = {"output_dir": str(folder / f"run-{number}"), "device": "cpu", **sections.get("training", {})}
    settings = Settings.model_validate(tree)
    prepare(settings.data, NULL_PROGRESS)
    run = Run.create(settings, Store(settings.data.store))
    torch.manual_seed(seed)
    model = run.build_model()
    checkpoint = run.path / "checkpoints" / "0000001"
    checkpoint.mkdir(parents=True)
    save_file(
        {name: weight.detach().clone() for name, weight in model.named_parameters()}, checkpoint / "weights.safetensors"
    )
    return run
