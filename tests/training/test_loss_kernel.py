"""The fused loss says what plain torch says."""

import pytest
import torch

from focat.corpus.vocabulary import PAD
from focat.hardware import runs_kernels
from focat.training.objective import chunked_loss, losses_and_gradient
from focat.training.step import fastest_kernel
from tests.kernels import DEVICE, needs_kernels


def test_without_kernels_plain_torch_serves():
    cpu = torch.device("cpu")
    assert (fastest_kernel(cpu, compiled=False) is losses_and_gradient) == (not runs_kernels(cpu))


@needs_kernels
@pytest.mark.parametrize("vocabulary", [37, 500, 32_000, 50_001])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_fused_equals_plain(vocabulary, precision, smoothing):
    torch.manual_seed(0)
    logits = (4 * torch.randn(9, vocabulary, device=DEVICE)).to(precision)
    labels = torch.randint(PAD, vocabulary, (9,), device=DEVICE)
    labels[::7] = PAD
    weights = torch.rand(9, device=DEVICE) * (labels != PAD)
    expected = losses_and_gradient(logits.clone(), labels, weights, smoothing)
    found = fastest_kernel(logits.device, compiled=False)(logits.clone(), labels, weights, smoothing)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=2e-5 if precision is torch.float32 else 1e-2)


@needs_kernels
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_chunks_and_an_output_bias(precision):
    torch.manual_seed(0)
    hidden = torch.randn(1, 13, 8, device=DEVICE).to(precision).requires_grad_()
    projection, bias = (torch.randn(50, *shape, device=DEVICE).requires_grad_() for shape in ((8,), ()))
    labels = torch.randint(PAD, 50, (1, 13), device=DEVICE)
    weights = torch.where(labels == PAD, 0.0, torch.rand(1, 13, device=DEVICE))
    results = []
    for kernel in (fastest_kernel(hidden.device, compiled=False), losses_and_gradient):
        losses = chunked_loss(hidden, projection, labels, weights, 0.1, 5, kernel, bias)
        results.append([*losses, *torch.autograd.grad(losses[0], (hidden, projection, bias))])
    for a, b in zip(*results, strict=True):
        close = 2e-5 if precision is torch.float32 else 1e-2
        torch.testing.assert_close(a, b, atol=close, rtol=close)
