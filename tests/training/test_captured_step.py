"""A captured training step makes the updates of the same kernels launched one by one; on the CPU, of a plain step."""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path

import pytest
import torch

from focat.corpus.store import Store
from focat.progress import Progress
from focat.run import Run
from focat.training.distributed import Processes
from focat.training.trainer import Trainer
from tests.kernels import DEVICE
from tests.training.runs import Workspace, weights_of

PACKED = ("training.packing=always", "training.batch_tokens=1000")


def trainer(workspace: Workspace, *overrides: str) -> Trainer:
    """A new trainer on packed windows, on the GPU if there is one."""
    folder = Path(tempfile.mkdtemp(dir=workspace.folder))
    settings = workspace.settings(f"training.device={DEVICE}", f"training.output_dir={folder}", *PACKED, *overrides)
    store = Store(settings.data.store)
    one = Processes(0, 1, torch.device(DEVICE))
    return Trainer(settings, store, Run.create(settings, store), one, Progress(out=None))


def trained(workspace: Workspace, captured: bool, *overrides: str) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Weights, the last gradients and sums of losses after four updates."""
    new = trainer(workspace, *overrides)
    assert new._captured is not None
    if not captured:
        new._captured = None
    for update in islice(new.loader.updates(), 4):
        new._update(update)
        new.state.update += 1
    if captured and DEVICE == "cuda":
        assert new._captured._graph is not None  # type: ignore[union-attr]
    tensors = new.master_weights.to_cpu()
    tensors |= {
        f"gradient of {name}": each.grad.cpu() for name, each in new.parameters.items() if each.grad is not None
    }
    return tensors, new._losses.sums.cpu()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("batches", [1, 2])
def test_updates_are_the_same(workspace: Workspace, batches: int, precision: str) -> None:
    overrides = (f"training.gradient_accumulation={batches}", f"training.precision={precision}", "model.dropout=0")
    expected, expected_losses = trained(workspace, False, *overrides)
    found, losses = trained(workspace, True, *overrides)
    torch.testing.assert_close(losses, expected_losses, rtol=1e-3, atol=1e-3)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        close = 2e-2 if DEVICE == "cuda" or precision == "bfloat16" else 1e-5
        largest = float(tensor.abs().max())
        torch.testing.assert_close(found[name], tensor, rtol=close, atol=close * max(largest, 1e-4), msg=name)


def test_dropout_is_seeded_by_the_batch(workspace: Workspace) -> None:
    first, _ = trained(workspace, True, "model.dropout=0.3")
    again, _ = trained(workspace, True, "model.dropout=0.3")
    other, _ = trained(workspace, True, "model.dropout=0.3", "training.seed=2")
    for name, weight in first.items():
        torch.testing.assert_close(again[name], weight, rtol=1e-3, atol=1e-3)
    assert any(not torch.allclose(other[name], weight, atol=1e-3) for name, weight in first.items())


def test_dropout_of_the_first_batch_is_that_of_later_ones(workspace: Workspace) -> None:
    """What comes before a capture draws random numbers, too."""
    new = trainer(workspace, "model.dropout=0.3", "training.learning_rate=1e-30")
    update = next(iter(new.loader.updates()))
    losses = []
    for _ in range(3):
        new._update(update)
        losses.append(new._losses.sums.clone())
        new._losses.sums.zero_()
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=0)
    torch.testing.assert_close(losses[2], losses[0], rtol=1e-5, atol=0)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_frozen_weights_have_no_gradient(workspace: Workspace, precision: str) -> None:
    base, frozen = workspace.folder / "base", workspace.folder / "frozen"
    settings = (*PACKED, f"training.device={DEVICE}", f"training.precision={precision}", "training.budget.updates=4")
    workspace.train(*settings, f"training.output_dir={base}")
    added = ("model.attention=gated-group", f"training.init_from={base}", "training.freeze=base")
    workspace.train(*settings, *added, f"training.output_dir={frozen}")
    before, after = weights_of(base), weights_of(frozen)
    assert all(torch.equal(after[name], weight) for name, weight in before.items())
    assert after.keys() - before.keys()
