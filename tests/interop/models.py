"""Runs with random weights that translate: sentences differ, and end by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from focat.corpus.vocabulary import END, SEPARATOR, SPECIALS
from focat.run import Run
from tests.translation.tiny import tiny_run

DOCUMENT = ["Where is the cat?", "It is old.", "Tom sleeps.", "Where is Tom?", "He is here.", "Is it new?"]


def random_run(
    folder: Path,
    seed: int = 3,
    beam: int = 1,
    windows: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    **model: Any,
) -> Run:
    """A run, of windows of three sentences unless told otherwise, whose weights, biases included, are all random.

    If the model has an output bias, `<E>` and `<S>` are more probable than words, so that sentences come to an end, and
    the bytes of byte fallback are never decoded, so that different tokens are different text.
    """
    sizes = {"preset": "tiny", "d_model": 32, "d_ff": 64, "encoder_layers": 2, "decoder_layers": 2, "heads": 2}
    run = tiny_run(
        folder,
        seed,
        model={**sizes, **model},
        decoding={"beam": beam, "max_length_ratio": 5.0, "max_length_offset": 50},
        windows={"before": 2, "max_tokens": 512, **(windows or {})},
        data=data or {},
    )
    path = run.weights_folder() / "weights.safetensors"
    weights = {name: weight.clone() for name, weight in load_file(path).items()}
    for name, weight in weights.items():
        if name.endswith(("bias", "norm.weight")):
            weight += 0.1 * torch.randn_like(weight)
    if "output_bias" in weights:
        weights["output_bias"][SPECIALS + 1 : SPECIALS + 257] -= 10.0
        weights["output_bias"][END] += 2.0
        weights["output_bias"][SEPARATOR] += 1.5
    save_file(weights, path)
    return run
