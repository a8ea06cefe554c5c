"""Rows of floats to bytes and back: worked out by hand, and the same with and without a C compiler."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch

from focat.decoding import quantisation
from focat.decoding.quantisation import ZERO, quantise_rows, unscale_rows


@pytest.fixture(params=["compiled", "torch"], autouse=True)
def library(request: pytest.FixtureRequest) -> Iterator[None]:
    """With the kernel if it can be compiled here, and with PyTorch."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "torch":
            patch.setattr(quantisation, "load_library", lambda _: None)
        elif quantisation.load_library(quantisation._SOURCE) is None:
            pytest.skip("there is no C compiler")
        yield


def test_by_hand() -> None:
    x = torch.tensor([[0.0, 1.27, -1.27, 0.014, -0.016], [254.0, -2.0, 0.9, -0.9, 3.1]])
    found, scales = quantise_rows(x)
    assert (found.int() - ZERO).tolist() == [[0, 127, -127, 1, -2], [127, -1, 0, 0, 2]]
    assert scales.flatten().tolist() == pytest.approx([0.01, 2.0])


def test_there_and_back() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 130, generator=generator) * torch.logspace(-6, 6, 7)[:, None]
    bias = torch.randn(130, generator=generator)
    found, scales = quantise_rows(x)
    assert found.dtype == torch.uint8
    assert ((found.int() - ZERO).abs().amax(1) == 127).all()
    back = unscale_rows(found.float() - ZERO, scales, None)
    assert ((back - x).abs() <= x.abs().amax(1, keepdim=True) / 254 * 1.001).all()
    wanted = (found.float() - ZERO) * scales + bias
    torch.testing.assert_close(unscale_rows(found.float() - ZERO, scales, bias), wanted)
    torch.testing.assert_close(unscale_rows(found.float() - ZERO, scales, bias, relu=True), wanted.relu())


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_spoils_its_row_alone(odd: float) -> None:
    x = torch.ones(3, 40)
    x[1, 5] = odd
    found, scales = quantise_rows(x)
    rows = unscale_rows(found.float() - ZERO, scales, None)
    assert rows[[0, 2]].tolist() == x[[0, 2]].tolist()
    assert not rows[1].isfinite().any()


def test_relu_does_not_hide_what_is_no_number() -> None:
    rows = unscale_rows(torch.tensor([[math.nan, -1.0, 2.0]]), torch.ones(1, 1), None, relu=True)
    assert rows[0, 0].isnan()
    assert rows[0, 1:].tolist() == [0.0, 2.0]


def test_zeros() -> None:
    found, scales = quantise_rows(torch.zeros(2, 32))
    assert (found == ZERO).all()
    assert scales.isfinite().all()
