"""The fused loss of GPUs says what plain torch says. Needs a GPU: there is no other way to run it."""

import pytest
import torch

from focat.corpus.vocabulary import PAD
from focat.training.loss_kernel import fastest_kernel, fused_losses_and_gradient
from focat.training.objective import losses_and_gradient


def test_without_a_gpu_plain_torch_serves():
    assert fastest_kernel(torch.device("cpu"), 100, compiled=False) is losses_and_gradient


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("vocabulary", [37, 500, 32_000, 50_001])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_fused_equals_plain(vocabulary, precision):
    torch.manual_seed(0)
    logits = (4 * torch.randn(65, vocabulary, device="cuda")).to(precision)
    labels = torch.randint(PAD, vocabulary, (65,), device="cuda")
    labels[::7] = PAD
    weights = torch.rand(65, device="cuda") * (labels != PAD)
    expected = losses_and_gradient(logits.clone(), labels, weights, 0.1)
    found = fused_losses_and_gradient(logits.clone(), labels, weights, 0.1)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=2e-5 if precision is torch.float32 else 1e-2)
