"""Where Triton's kernels can be tested: on a GPU, or on the CPU in Triton's interpreter, with `make kernels`."""

from __future__ import annotations

import pytest
import torch

from focat.hardware import runs_kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_kernels = pytest.mark.skipif(
    not runs_kernels(torch.device(DEVICE)), reason="needs Triton, and a GPU or Triton's interpreter (make kernels)"
)
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
