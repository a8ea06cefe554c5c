"""The forward pass of training, from a batch to its discounted loss; compilation and precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from focat.config.schema import ModelSettings, ObjectiveSettings, TrainingSettings
from focat.errors import FocatError
from focat.hardware import runs_kernels
from focat.model.packed_attention import has_packed_kernels
from focat.model.transformer import Transformer
from focat.training.objective import Kernel, chunked_loss, losses_and_gradient, token_weights
from focat.windows.batch import Sequences

_ROUNDED = 4096  # tokens that a batch of packed windows may have beyond its size, at most

_COMPILER: dict[str, Any] = {
    "size_asserts": False,  # launching kernels is what a fast GPU waits for: no checks in between
    "triton.mix_order_reduction": False,  # normalisation's backward is faster in two kernels, the same for all sizes
}


class TrainingStep(nn.Module):
    """Computes the discounted loss of a batch, and the loss of each token with and without label smoothing."""

    def __init__(self, model: Transformer, objective: ObjectiveSettings, compiled: bool, packed: bool = False) -> None:
        super().__init__()
        self.model, self.smoothing, self.chunk = model, objective.label_smoothing, objective.chunk_tokens
        self.kernel = fastest_kernel(model.output_weight.device, compiled)
        if compiled and not packed:  # packed windows have kernels of their own
            import torch.fx.experimental._config

            torch.fx.experimental._config.use_duck_shape = False  # equal lengths may differ in the next batch
            model.compile_for_training(_COMPILER)

    def forward(self, source: Sequences, target: Sequences, discount: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The forward pass.

        Args:
            source, target: the two sides of a batch.
            discount: () weight of context tokens.

        Returns:
            The discounted, label-smoothed loss summed over all tokens, (); the label-smoothed and the plain loss of
            each token, (windows, length) each.
        """
        hidden = self.model(source, target)
        weights = token_weights(target, discount)
        return chunked_loss(
            hidden,
            self.model.output_weight,
            target.tokens,
            weights,
            self.smoothing,
            self.chunk,
            self.kernel,
            self.model.output_bias,
        )


def fastest_kernel(device: torch.device, compiled: bool) -> Kernel:
    """The fastest implementation of `losses_and_gradient` for this device."""
    if runs_kernels(device):
        from focat.training.loss_kernel import fused_losses_and_gradient  # imports Triton, some 80 MB

        return fused_losses_and_gradient
    return torch.compile(losses_and_gradient, dynamic=True) if compiled else losses_and_gradient


def uses_compile(training: TrainingSettings, device: torch.device) -> bool:
    """Whether to compile the model on this device, by `training.compile`."""
    return training.compile == "always" or (training.compile == "auto" and device.type == "cuda")


def uses_bfloat16(training: TrainingSettings, device: torch.device) -> bool:
    """Whether to compute in bfloat16 on this device, by `training.precision`."""
    if training.precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported()
    return training.precision == "bfloat16"


def uses_packing(training: TrainingSettings, model: ModelSettings, device: torch.device) -> bool:
    """Whether to train on packed windows, by `training.packing`; `auto` does where there are kernels for it.

    Raises:
        FocatError: windows must be packed, and batches are larger than the kernels can count.
    """
    if training.packing == "never" or not runs_kernels(device):
        return training.packing == "always"
    most = _most_batch_tokens(model)
    if training.packing == "always":
        if training.batch_tokens > most:
            raise FocatError(
                f"training.batch_tokens = {training.batch_tokens}: batches of packed windows have at most {most:,} "
                "tokens in a model of this width; lower it, or set training.packing: never"
            )
        return True
    return uses_bfloat16(training, device) and has_packed_kernels(model) and training.batch_tokens <= most


def _most_batch_tokens(model: ModelSettings) -> int:
    """The largest batch of which the kernels can count all entries of the widest tensor, in 32 bits."""
    feedforward = model.d_ff * (2 if model.activation == "swiglu" else 1)
    source_attentions = model.decoder_layers * (2 if model.attention == "gated-group" else 1)
    return (1 << 31) // max(3 * model.d_model, 2 * model.d_model * source_attentions, feedforward) - _ROUNDED
