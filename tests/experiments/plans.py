"""Plans so small that training takes a fraction of a second."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TINY: dict[str, Any] = {
    "title": "Tiny",
    "data": {
        "train": [{"format": "generated", "documents": 40}],
        "dev": [{"format": "generated", "documents": 4, "seed": 2}],
        "test": [{"format": "generated", "documents": 2, "seed": 3}],
        "tokenizer": {"vocabulary": 400},
    },
    "settings": {
        "model": {
            **{"preset": "tiny", "d_model": 32, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1},
            **{"heads": 2, "dropout": 0.1},
        },
        "training": {
            **{"device": "cpu", "batch_tokens": 500, "learning_rate": 0.005, "warmup": 4, "validate_every": 4},
            **{"log_every": 3, "log_samples": 0, "patience": None},
        },
        "decoding": {"beam": 1, "max_length_ratio": 1.0, "max_length_offset": 0},
    },
    "budget": {"updates": 12},
    "average": 2,
    "systems": {"base": {"recipe": "focat:base"}, "focused": {"recipe": "focat:s2to2-cd", "init_from": "base"}},
    "against": ["base"],
    "suites": {"deixis": {"generated": "deixis", "instances": 8}},
    "tests": {"test": {"metrics": "bleu"}},
    "analyses": ["losses"],
}


def write_plan(folder: Path, changes: Mapping[str, Any] | None = None) -> Path:
    """A plan as a file; JSON is YAML."""
    path = folder / "tiny.yaml"
    path.write_text(json.dumps({**TINY, **(changes or {})}), encoding="utf-8")
    return path
