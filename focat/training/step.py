"""What is differentiated, a batch to its discounted loss, and how it is made fast: compilation and precision."""

from __future__ import annotations

import torch
import torch.fx.experimental._config
from torch import Tensor, nn

from focat.config.schema import ObjectiveSettings, TrainingSettings
from focat.model.transformer import Transformer
from focat.training.loss_kernel import fastest_kernel
from focat.training.objective import chunked_loss, token_weights
from focat.windows.batch import PaddedSequences

_COMPILER = {
    "size_asserts": False,  # launching kernels is what a fast GPU waits for: no checks in between
    "triton.mix_order_reduction": False,  # normalisation's backward is faster in two kernels, the same for all sizes
}


class TrainingStep(nn.Module):
    """A batch to its discounted loss, and the loss of each of its tokens with and without label smoothing."""

    def __init__(self, model: Transformer, objective: ObjectiveSettings, compiled: bool) -> None:
        super().__init__()
        self.model, self.smoothing, self.chunk = model, objective.label_smoothing, objective.chunk_tokens
        self.kernel = fastest_kernel(model.output_weight.device, len(model.output_weight), compiled)
        if compiled:
            torch.fx.experimental._config.use_duck_shape = False  # lengths that are equal once need not stay so
            for layer in (*model.encoder, *model.decoder):
                layer.compile(dynamic=True, options=_COMPILER)  # layers are alike: two are compiled, all run

    def forward(
        self, source: PaddedSequences, target: PaddedSequences, discount: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The sum over all tokens; (windows, length) of the others."""
        hidden = self.model(source, target)
        weights = token_weights(target, discount)
        projection = self.model.output_weight
        return chunked_loss(hidden, projection, target.tokens, weights, self.smoothing, self.chunk, self.kernel)


def wants_compilation(training: TrainingSettings, device: torch.device) -> bool:
    """Whether `training.compile` asks for it here."""
    return training.compile == "always" or (training.compile == "auto" and device.type == "cuda")


def wants_half_precision(training: TrainingSettings, device: torch.device) -> bool:
    """Whether `training.precision` asks for it here."""
    if training.precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported()
    return training.precision == "bfloat16"
