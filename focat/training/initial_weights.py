"""The weights of another run as those that training starts from (`training.init_from`)."""

from __future__ import annotations

from pathlib import Path

import torch

from focat.corpus.vocabulary import END, SEPARATOR
from focat.model.stored_weights import load_weights
from focat.model.transformer import UNUSED_BIAS, Transformer
from focat.model.two_pass import TwoPassTransformer
from focat.progress import Progress
from focat.run import Run
from focat.training.freezing import CONTEXT_WEIGHTS

_MAX_LISTED = 3  # names of weights that a run lacks


def load_initial_weights(model: Transformer, path: Path, progress: Progress) -> None:
    """Copy the weights of a run, or of one of its checkpoints, into a model that may have more.

    Segment embeddings and context attention that the run does not have start from random values. A model of another
    toolkit has no `<S>`: imported, it has the embedding of `<E>`, which closes a sentence too, but a bias that keeps it
    from being predicted.
    """
    lacking = load_weights(model, _weights_folder(path), may_lack=f"segment_embedding|{CONTEXT_WEIGHTS}")
    for name in lacking[:_MAX_LISTED]:
        progress.log(f"{path} has no {name}: it starts from random values")
    if len(lacking) > _MAX_LISTED:
        progress.log(f"and {len(lacking) - _MAX_LISTED} more, likewise")
    if isinstance(model, TwoPassTransformer) and any(name.startswith("second.output.") for name in lacking):
        model.start_second_pass()
    bias = model.output_bias
    if bias is not None and any(model.windows.target) and bias[SEPARATOR] <= UNUSED_BIAS / 2:
        with torch.no_grad():
            bias[SEPARATOR] = bias[END]
        progress.log(f"{path} has no <S>: it starts with the weights of <E>")


def _weights_folder(path: Path) -> Path:
    """The folder of weights for a path to a run or to one of its checkpoints."""
    return path if (path / "weights.safetensors").exists() else Run.open(path).weights_folder()
