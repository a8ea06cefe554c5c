"""A captured training step makes the updates of the same kernels launched one by one."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from focat.corpus.store import Store
from focat.progress import Progress
from focat.run import Run
from focat.training.distributed import Processes
from focat.training.trainer import Trainer
from tests.kernels import needs_gpu, needs_kernels
from tests.training.runs import Workspace

pytestmark = [needs_gpu, needs_kernels]


def trained(workspace: Workspace, captured: bool, *overrides: str) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Weights and sums of losses after four updates."""
    folder = workspace.folder / f"run-{captured}-{len(overrides)}"
    settings = workspace.settings("training.device=cuda", f"training.output_dir={folder}", *overrides)
    store = Store(settings.data.store)
    one = Processes(0, 1, torch.device("cuda"))
    trainer = Trainer(settings, store, Run.create(settings, store), one, Progress(out=None))
    assert trainer.state.packed
    assert trainer._captured is not None
    if not captured:
        trainer._captured = None
    for update in islice(trainer.loader.updates(), 4):
        trainer._update(update)
        trainer.state.update += 1
    if captured:
        assert trainer._captured._graph is not None  # type: ignore[union-attr]
    return trainer.master_weights.to_cpu(), trainer._losses.sums.cpu()


@pytest.mark.parametrize("batches", [1, 2])
def test_updates_are_the_same(workspace: Workspace, batches: int) -> None:
    overrides = ("model.dropout=0", f"training.gradient_accumulation={batches}", "training.batch_tokens=1000")
    expected, expected_losses = trained(workspace, False, *overrides)
    found, losses = trained(workspace, True, *overrides)
    torch.testing.assert_close(losses, expected_losses, rtol=1e-3, atol=1e-3)
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, rtol=2e-2, atol=2e-2)


def test_dropout_is_seeded_by_the_batch(workspace: Workspace) -> None:
    first, _ = trained(workspace, True, "model.dropout=0.3", "training.batch_tokens=1000")
    again, _ = trained(workspace, True, "model.dropout=0.3", "training.batch_tokens=1000")
    other, _ = trained(workspace, True, "model.dropout=0.3", "training.batch_tokens=1000", "training.seed=2")
    for name, weight in first.items():
        torch.testing.assert_close(again[name], weight, rtol=1e-3, atol=1e-3)
    assert any(not torch.allclose(other[name], weight, atol=1e-3) for name, weight in first.items())
