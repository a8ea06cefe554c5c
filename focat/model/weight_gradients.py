"""Gradients of weights beside the rest of a backward pass, on a second stream of a GPU.

Nothing waits for the gradient of a weight until the optimizer does. A product of matrices seldom fills a GPU to its
end, and kernels that move memory leave its matrix units idle; on a stream of their own, such products fill these gaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_aside: list[Aside] = []  # the innermost context is the last


class Aside:
    """A second stream, with at most one product at a time."""

    def __init__(self) -> None:
        self._stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._inputs: tuple[Tensor, Tensor] | None = None  # of the last product, which must not be freed before its end

    def multiply(self, gradient: Tensor, x: Tensor) -> Tensor:
        """gradient.T @ x, to be used after `join`."""
        self.join()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            found = gradient.T @ x
        self._inputs = gradient, x
        return found

    def join(self) -> None:
        """Let the current stream wait for the last product."""
        if self._inputs is not None:
            torch.cuda.current_stream().wait_stream(self._stream)
            self._inputs = None


@contextmanager
def weight_gradients_aside(aside: Aside) -> Iterator[None]:
    """Compute gradients of weights on a second stream; all are there at the end."""
    _aside.append(aside)
    try:
        yield
    finally:
        _aside.pop()
        aside.join()


def weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """The gradient of a weight, (outputs, inputs), from that of the outputs, (rows, outputs), and x, (rows, inputs)."""
    return _aside[-1].multiply(gradient, x) if _aside else gradient.T @ x
