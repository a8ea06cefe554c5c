"""Frozen weights: training what a context-aware system adds to a sentence-level one, and nothing else.

Divide and Rule (Lupo et al., 2022) switches dropout off in what is frozen; Zhang et al. (2018) do not.
"""

from __future__ import annotations

import re

from torch import nn

from focat.config.schema import TrainingSettings
from focat.errors import FocatError
from focat.model import Transformer
from focat.model.attention import CrossAttention, SelfAttention

CONTEXT_WEIGHTS = r"(.*\.)?(context|second|global_(self|cross)_attention)\."
"""Matches the names of the weights that `model.context`, `model.second_pass` and attention to the window add."""


def check_frozen_weights(training: TrainingSettings) -> None:
    """Refuse to freeze weights that nobody has trained."""
    if training.freeze == "base" and training.init_from is None:
        raise FocatError("training.freeze = base: would freeze random weights; give training.init_from, a trained run")


def freeze_base(model: Transformer, training: TrainingSettings) -> None:
    """Freeze all weights that a sentence-level system has, too, if `training.freeze` says so."""
    if training.freeze == "none":
        return
    for name, module in model.named_modules():
        if re.match(CONTEXT_WEIGHTS, f"{name}."):
            continue
        for parameter in module.parameters(recurse=False):
            parameter.requires_grad_(False)
        if not training.frozen_dropout and isinstance(module, nn.Dropout):
            module.p = 0.0
        elif not training.frozen_dropout and isinstance(module, SelfAttention | CrossAttention):
            module.dropout = 0.0
