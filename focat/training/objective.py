"""The context-discounted objective (section 3.1, equation 2 of the paper) on the label-smoothed loss.

Tokens of the current sentence weigh 1, tokens of its context CD. The projection to the vocabulary and the loss go
through the batch in chunks, gradient included, so that the logits of the whole batch never exist at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from focat.corpus.vocabulary import PAD
from focat.windows.batch import Sequences

_CPU_LOGITS = 1 << 23  # at a time: 32 MiB, the most that the C library keeps for the next chunk
Kernel = Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor, Tensor]]


def token_weights(target: Sequences, discount: float | Tensor) -> Tensor:
    """(windows, length): 1 in the current sentence, the discount in its context, 0 on padding.

    The separator in front of the current sentence closes the context, so it is discounted too.
    """
    current = target.segments == target.current_segments
    weights = torch.where(current, 1.0, discount)
    return torch.where(target.segments < 0, 0.0, weights)


@dataclass(frozen=True)
class LossSums:
    """Sums of losses over the tokens of one or more batches, in one tensor, so that one collective adds them up."""

    sums: Tensor  # (6,) float64: tokens, their smoothed losses, their plain losses; of current and context each

    @classmethod
    def from_tokens(cls, target: Sequences, smoothed: Tensor, plain: Tensor, predicts_context: bool = True) -> LossSums:
        """Sum the losses of all tokens, (windows, length) each: with label smoothing, and without.

        A model that does not predict context tokens has no losses of them.
        """
        current = target.segments == target.current_segments
        context = (target.segments >= 0) & ~current & predicts_context
        masks = torch.stack([current, context])  # (2, windows, length)
        values = torch.stack([torch.ones_like(plain), smoothed, plain])  # (3, windows, length)
        return cls((values.flatten(1).double() @ masks.flatten(1).double().T).flatten())

    @classmethod
    def zero(cls, device: torch.device | str) -> LossSums:
        """The sums over no tokens."""
        return cls(torch.zeros(6, dtype=torch.float64, device=device))

    def __add__(self, other: LossSums) -> LossSums:
        return LossSums(self.sums + other.sums)

    def means(self, discount: float) -> dict[str, float]:
        """Mean losses, each over its own tokens; without context tokens there is no context loss and no ratio."""
        current_tokens, context_tokens, current, context, current_plain, _ = self.sums.tolist()
        tokens = current_tokens + context_tokens
        means = {
            "current": current / max(current_tokens, 1),
            "full": (current + context) / max(tokens, 1),
            "discounted": (current + discount * context) / max(tokens, 1),
            "current_nll": current_plain / max(current_tokens, 1),
        }
        if context_tokens:
            means["context"] = context / context_tokens
            means["ratio"] = means["current"] / max(means["context"], 1e-12)
        return means


def chunked_loss(
    hidden: Tensor,
    projection: Tensor,
    labels: Tensor,
    weights: Tensor,
    smoothing: float,
    chunk: int,
    kernel: Kernel | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The weighted sum of label-smoothed losses, and the loss of every token with and without smoothing.

    Args:
        hidden: (windows, length, width) representations that predict the labels.
        projection: (vocabulary, width) output matrix.
        labels, weights: (windows, length).
        smoothing: label smoothing.
        chunk: tokens whose logits exist at the same time.
        kernel: a faster implementation of `losses_and_gradient`.
        bias: (vocabulary,) added to the logits.

    Returns:
        The sum, (), which alone has a gradient; label-smoothed and plain losses, (windows, length) each.
    """
    if not torch.is_grad_enabled():  # parameters require a gradient even then
        hidden, projection, bias = hidden.detach(), projection.detach(), None if bias is None else bias.detach()
    total, smoothed, plain = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        hidden.reshape(-1, hidden.shape[-1]),
        projection,
        bias,
        labels.reshape(-1),
        weights.reshape(-1),
        smoothing,
        chunk,
        kernel or losses_and_gradient,
    )
    return total, smoothed.view(labels.shape), plain.view(labels.shape)


class _ChunkedLoss(torch.autograd.Function):
    """The gradient is computed together with the loss, while a chunk's logits are there; backward only scales it."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        projection: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        weights: Tensor,
        smoothing: float,
        chunk: int,
        kernel: Kernel,
    ) -> tuple[Tensor, Tensor, Tensor]:
        matrix = projection.to(hidden.dtype)  # (vocabulary, width)
        if not hidden.is_cuda:
            chunk = min(chunk, max(1, _CPU_LOGITS // len(matrix)))
        needs_gradient = any(ctx.needs_input_grad)
        hidden_gradient = torch.empty_like(hidden) if needs_gradient else None
        projection_gradient = torch.zeros_like(projection) if needs_gradient else None
        bias_gradient = torch.zeros_like(bias) if needs_gradient and bias is not None else None
        smoothed, plain = (torch.empty(len(labels), device=hidden.device) for _ in range(2))
        for start in range(0, len(labels), chunk):
            part = slice(start, start + chunk)
            logits = hidden[part] @ matrix.T  # (chunk, vocabulary)
            if bias is not None:
                logits += bias
            if hidden_gradient is None or projection_gradient is None:
                smoothed[part], plain[part] = label_smoothed_losses(logits, labels[part], smoothing)
                continue
            smoothed[part], plain[part], gradient = kernel(logits, labels[part], weights[part], smoothing)
            hidden_gradient[part] = gradient @ matrix
            if gradient.dtype == projection_gradient.dtype:
                projection_gradient.addmm_(gradient.T, hidden[part])
            else:
                projection_gradient += gradient.T @ hidden[part]
            if bias_gradient is not None:
                bias_gradient += gradient.sum(0, dtype=bias_gradient.dtype)
        ctx.save_for_backward(hidden_gradient, projection_gradient, bias_gradient)
        ctx.mark_non_differentiable(smoothed, plain)
        return (smoothed * weights).sum(), smoothed, plain

    @staticmethod
    def backward(ctx: Any, scale: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        hidden, projection, bias = ctx.saved_tensors
        gradients = hidden * scale.to(hidden.dtype), projection * scale, None if bias is None else bias * scale
        return *gradients, *[None] * 5


def label_smoothed_losses(logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Of each row of logits, (tokens, vocabulary): its loss with label smoothing, and without; 0 on padding."""
    exact = logits.float()
    return _losses(exact, torch.logsumexp(exact, -1), labels, smoothing)


def losses_and_gradient(
    logits: Tensor, labels: Tensor, weights: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`label_smoothed_losses`, and the gradient of their weighted sum, in the precision of the logits."""
    exact = logits.float()
    log_total = torch.logsumexp(exact, -1)
    smoothed, plain = _losses(exact, log_total, labels, smoothing)
    gradient = torch.exp(exact - log_total[:, None])  # predicted probabilities, less the labels below
    gradient -= smoothing / exact.shape[-1]
    gradient.scatter_add_(-1, labels[:, None], torch.full_like(plain, smoothing - 1)[:, None])
    gradient *= weights[:, None]
    return smoothed, plain, gradient.to(logits.dtype)


def _losses(logits: Tensor, log_total: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    plain = log_total - logits.gather(-1, labels[:, None]).squeeze(-1)
    smoothed = (1 - smoothing) * plain + smoothing * (log_total - logits.mean(-1))
    real = labels != PAD
    return smoothed * real, plain * real
