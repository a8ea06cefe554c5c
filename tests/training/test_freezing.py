"""Frozen weights stay as they are; what a multi-encoder system adds to them is trained."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.training.runs import Workspace, records, same_tensors, weights_of

TWO_PASSES = ["windows.before=1", "model.second_pass={layers: 1}", "objective.discount=0"]
CONTEXT = ["windows.before=1", "windows.target_before=0", "model.context={hierarchical: true}"]


@pytest.mark.parametrize(
    ("optimizer", "system", "module"),
    [("adam", CONTEXT, "context.top."), ("muon", CONTEXT, "context.top."), ("muon", TWO_PASSES, "second.")],
)
def test_frozen_weights_do_not_move(workspace: Workspace, optimizer: str, system: list[str], module: str) -> None:
    workspace.train("windows.before=0")
    base = weights_of(workspace.run)
    frozen = workspace.folder / "frozen"
    options = [*system, f"training.optimizer={optimizer}", "training.weight_decay=0.1", "training.freeze=base"]
    workspace.train(*options, f"training.init_from={workspace.run}", f"training.output_dir={frozen}")
    trained = weights_of(frozen)
    assert all(torch.equal(trained[name], weight) for name, weight in base.items())
    assert all(("context" in record) == (system is not CONTEXT and module != "second.") for record in records(frozen))
    added = trained.keys() - base.keys()
    assert added
    assert all(name.startswith(module) for name in added)


def test_frozen_training_resumes_to_the_same_weights(workspace: Workspace) -> None:
    workspace.train("windows.before=0")
    options = [*CONTEXT, "training.freeze=base", f"training.init_from={workspace.run}", "training.ema=0.5"]
    found = []
    for name, budgets in (("once", [12]), ("twice", [5, 12])):
        for updates in budgets:
            workspace.train(
                *options, f"training.output_dir={workspace.folder / name}", f"training.budget.updates={updates}"
            )
        found.append(weights_of(workspace.folder / name))
    assert same_tensors(*found)


@pytest.mark.parametrize(("kept", "rates"), [(False, {0.0}), (True, {0.1})])
def test_dropout_of_what_is_frozen(workspace: Workspace, kept: bool, rates: set[float]) -> None:
    trainer = workspace.trainer(
        *CONTEXT, "training.freeze=base", f"training.frozen_dropout={kept}", "model.attention_dropout=0.1"
    )
    model = trainer.model
    assert model.context is not None
    frozen = [m for name, m in model.named_modules() if "context" not in name.split(".")]
    assert {m.p for m in frozen if isinstance(m, nn.Dropout)} - {trainer.settings.model.activation_dropout} <= rates
    assert {layer.self_attention.dropout for layer in model.encoder} == rates  # type: ignore[union-attr]
    assert model.context.top.dropout.p == 0.1  # type: ignore[union-attr]


def test_a_second_pass_begins_with_the_projection_of_the_first(workspace: Workspace) -> None:
    workspace.train("windows.before=0")
    begun = workspace.folder / "begun"
    init = [f"training.init_from={workspace.run}", "training.freeze=base", f"training.output_dir={begun}"]
    trainer = workspace.trainer(*TWO_PASSES, *init)
    base = weights_of(workspace.run)
    assert torch.equal(trainer.model.output_weight, base["target_embedding.weight"])
