"""The fused loss says what plain torch says."""

import pytest
import torch

from focat.corpus.vocabulary import PAD
from focat.hardware import runs_kernels
from focat.training.objective import losses_and_gradient
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
