"""Mixed precision: layers compute with bfloat16 weights, the optimizer updates float32 master weights.

Autocast alone would cast every weight in every layer of every update, in hundreds of launches that a fast GPU waits
for. Here all are cast at once, after the optimizer's step. Normalisation and embeddings stay in float32.

A batch's gradients of linear layers are bfloat16, as its matrix products are. The sum of gradients, over the batches
of an update and over processes, is float32.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel


class MasterWeights:
    """The float32 weights that are trained; in full precision they are the model's own parameters.

    Args:
        model: its linear layers are cast to bfloat16 if `half`.
        half: whether to compute in bfloat16.
    """

    def __init__(self, model: nn.Module, half: bool) -> None:
        self.parameters: dict[str, nn.Parameter] = dict(model.named_parameters())
        self._working: list[nn.Parameter] = []  # bfloat16 parameters of the model that have a master
        self._masters: list[nn.Parameter] = []  # the masters, in the same order
        self._reduced = False  # whether the gradients of the last backward are in the masters already
        for prefix, module in model.named_modules() if half else ():
            if isinstance(module, nn.Linear):
                for name, parameter in module.named_parameters(prefix, recurse=False):
                    self.parameters[name] = nn.Parameter(parameter.detach().clone(), parameter.requires_grad)
                    self._masters.append(self.parameters[name])
                    self._working.append(parameter)
                    parameter.data = parameter.data.to(torch.bfloat16)

    def set_gradients(self, gradients: list[Tensor]) -> None:
        """Let these be the gradients of the masters that are trained, for the optimizer to read."""
        trained = (parameter for parameter in self.parameters.values() if parameter.requires_grad)
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter.grad = gradient

    def zero_grad(self) -> None:
        """Forget all gradients, before the first batch of an update."""
        for parameter in (*self.parameters.values(), *self._working):
            parameter.grad = None

    def accumulate_gradients(self) -> None:
        """After the backward pass of a batch, add its gradients to those of the masters, in float32."""
        pairs = [(m, w.grad) for m, w in zip(self._masters, self._working, strict=True) if w.grad is not None]
        if pairs and not self._reduced:
            exact = [torch.empty_like(gradient, dtype=torch.float32) for _, gradient in pairs]
            torch._foreach_copy_(exact, [gradient for _, gradient in pairs])
            sums = [(master.grad, new) for (master, _), new in zip(pairs, exact, strict=True)]
            if earlier := [(total, new) for total, new in sums if total is not None]:
                torch._foreach_add_(*map(list, zip(*earlier, strict=True)))
            for (master, _), (total, new) in zip(pairs, sums, strict=True):
                master.grad = new if total is None else total
        self._reduced = False
        for working in self._working:
            working.grad = None

    def reduce_in_float32(self, model: DistributedDataParallel) -> None:
        """Let the backward pass that synchronises processes average float32 gradients, of all batches of the update."""
        if self._working:
            masters: dict[Tensor, nn.Parameter] = dict(zip(self._working, self._masters, strict=True))
            model.register_comm_hook(masters, lambda state, bucket: self._all_reduce(state, bucket))

    def _all_reduce(self, masters: dict[Tensor, nn.Parameter], bucket: GradBucket) -> Future[Tensor]:
        """Average one bucket of gradients over processes while backward goes on; called by DDP."""
        buffer = bucket.buffer()
        total = buffer.float()  # (bucket,); float32 parameters are in buckets of their own, which this does not copy
        if buffer.dtype != torch.float32:
            self._reduced = True
            gradients = torch.split(total, [parameter.numel() for parameter in bucket.parameters()])
            for parameter, flat in zip(bucket.parameters(), gradients, strict=True):
                gradient, master = flat.view_as(parameter), masters[parameter]
                if master.grad is not None:
                    gradient += master.grad
                master.grad = gradient  # a view of what is reduced
        total /= dist.get_world_size()
        done: Future[list[Tensor]] = dist.all_reduce(total, async_op=True).get_future()
        return done.then(lambda _: buffer)

    @property
    def gradients(self) -> list[Tensor]:
        """The float32 gradients of all masters."""
        return [parameter.grad for parameter in self.parameters.values() if parameter.grad is not None]

    @torch.no_grad()
    def sync_working_weights(self) -> None:
        """Cast the masters to the weights that the layers compute with; after each step of the optimizer."""
        if self._working:
            torch._foreach_copy_(tuple(self._working), tuple(self._masters))

    @torch.no_grad()
    def load(self, weights: dict[str, Tensor]) -> None:
        """Copy these weights into the masters and the model."""
        for name, parameter in self.parameters.items():
            parameter.copy_(weights[name])
        self.sync_working_weights()

    def to_cpu(self) -> dict[str, Tensor]:
        """All master weights by name, on the CPU, to be saved."""
        return {name: parameter.detach().cpu().contiguous() for name, parameter in self.parameters.items()}
