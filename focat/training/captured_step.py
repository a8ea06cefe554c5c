"""Forward and backward pass of a packed batch; on GPUs as one CUDA graph.

Hundreds of kernels are launched for a batch, which takes the CPU about as long as a fast GPU needs to compute them. All
packed batches have one shape, so that they are launched once, captured, and replayed as one for every batch after it.
Elsewhere, and where a GPU refuses the capture, the same is computed without a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import accumulate, compress

import torch
from torch import Tensor, nn

from focat.progress import Progress
from focat.training.mixed_precision import MasterWeights
from focat.training.objective import LossSums
from focat.windows.batch import PackedBatch

_ALIGNED = 16  # bytes, as kernels like tensors to be
_WARM_UPS = 2  # runs before the capture: the first compiles, and libraries set up what they need


class CapturedStep:
    """Adds the gradients of a batch to those of the master weights.

    Args:
        step: a `TrainingStep`.
        master_weights: of its model.
        autocast: the context of the forward pass.
        progress: says so if the GPU refuses the capture.
        accumulates: whether an update has several batches.
    """

    def __init__(
        self,
        step: nn.Module,
        master_weights: MasterWeights,
        autocast: Callable[[], AbstractContextManager[object]],
        progress: Progress,
        accumulates: bool,
    ) -> None:
        self.accumulates = accumulates
        self.step, self.master_weights, self.autocast, self.progress = step, master_weights, autocast, progress
        self._graph: torch.cuda.CUDAGraph | None = None
        self._prepared = False

    def run(self, batch: PackedBatch, seed: int, discount: Tensor, scale: float, first: bool, losses: LossSums) -> None:
        """Compute one batch.

        Args:
            batch: packed, of the same shape as all others.
            seed: of dropout.
            discount: () weight of context tokens.
            scale: factor of the gradients.
            first: whether it is the first batch of its update: gradients are replaced instead of added to.
            losses: sums of losses to add to.
        """
        if not self._prepared:
            self._prepare(batch)
        torch.manual_seed(seed)  # not before: what comes before a capture draws numbers, too
        self._load(batch, discount, scale)
        if first and self.accumulates:
            torch._foreach_zero_([self._sum_of_half, *self._sums_of_exact])
        if self._graph is None:
            self._compute()
        else:
            self._graph.replay()
        losses.sums.add_(self._sums)
        self.master_weights.set_gradients(self._gradients)

    def _prepare(self, batch: PackedBatch) -> None:
        """Make the buffers that every batch is copied into, and capture the computation on them."""
        self._parameters = [parameter for parameter in self.step.parameters() if parameter.requires_grad]
        device = self._parameters[0].device
        self._make_buffers(batch, device)
        self._discount, self._scale = torch.zeros((), device=device), torch.zeros((), device=device)
        self._make_gradients()
        self._sums = torch.zeros(6, dtype=torch.float64, device=device)
        self._prepared = True
        if device.type == "cuda":
            self._load(batch, self._discount, 0.0)
            self._capture()

    def _capture(self) -> None:
        """Capture what `_compute` launches."""
        stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                self._compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._compute()
            self._graph = graph
        except RuntimeError as error:
            torch.cuda.empty_cache()
            self.progress.log(f"no CUDA graph of the training step ({str(error).splitlines()[0]}); training is slower")

    def _make_buffers(self, batch: PackedBatch, device: torch.device) -> None:
        """Make the tensors of a batch on the device, views of one, and that one on the host."""
        sizes = [tensor.nbytes for tensor in _tensors(batch)]
        begins = list(accumulate((-(-size // _ALIGNED) * _ALIGNED for size in sizes), initial=0))
        self._bytes = torch.empty(begins[-1], dtype=torch.uint8, device=device)
        parts = (self._bytes[begin : begin + size] for begin, size in zip(begins, sizes, strict=False))
        self._batch = batch.map(lambda tensor: next(parts).view(tensor.dtype).view(tensor.shape))
        self._parts = [slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=False)]

    def _make_gradients(self) -> None:
        """Make float32 sums of gradients for all parameters; those of half precision are views of one tensor."""
        is_half = [parameter.dtype != torch.float32 for parameter in self._parameters]
        sizes = [parameter.numel() for parameter in compress(self._parameters, is_half)]
        self._sum_of_half = torch.zeros(sum(sizes), device=self._parameters[0].device)
        views = iter(torch.split(self._sum_of_half, sizes))
        self._gradients = [
            next(views).view_as(each) if half else torch.zeros_like(each)
            for each, half in zip(self._parameters, is_half, strict=True)
        ]
        self._sums_of_exact = [sums for sums, half in zip(self._gradients, is_half, strict=True) if not half]

    def _load(self, batch: PackedBatch, discount: Tensor, scale: float) -> None:
        """Copy a batch into the buffers, all at once and without waiting for the device."""
        host = torch.empty(self._bytes.shape, dtype=torch.uint8, pin_memory=self._bytes.is_cuda)
        for part, tensor in zip(self._parts, _tensors(batch), strict=True):
            host[part].copy_(tensor.view(-1).view(torch.uint8))
        self._bytes.copy_(host, non_blocking=True)
        self._discount.copy_(discount)
        self._scale.fill_(scale)

    def _compute(self) -> None:
        with self.autocast():
            total, smoothed, plain = self.step(self._batch.source, self._batch.target, self._discount)
        gradients = torch.autograd.grad(total * self._scale, self._parameters)
        half = [each.flatten() for each in gradients if each.dtype != torch.float32]
        exact = [each for each in gradients if each.dtype == torch.float32]
        add = torch._foreach_add_ if self.accumulates else torch._foreach_copy_
        if half:
            add([self._sum_of_half], [torch.cat(half)])
        if exact:
            add(self._sums_of_exact, exact)
        self._sums.copy_(LossSums.from_tokens(self._batch.target, smoothed, plain).sums)


def _tensors(batch: PackedBatch) -> list[Tensor]:
    """The tensors of a batch that the model reads."""
    found: list[Tensor] = []
    batch.source.map(lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
    batch.target.map(lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
    return found
