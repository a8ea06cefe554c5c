"""Averages of checkpoints: which ones each rule takes, and their mean."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from focat.choices import AveragingRule
from focat.errors import FocatError
from focat.run import Run
from focat.training.averaging import average_checkpoints, mean_weights, select_checkpoints
from tests.training.runs import Workspace

UPDATES = [10, 20, 30, 40, 50, 60, 70]


@pytest.mark.parametrize(
    ("best", "count", "chosen"),
    [
        (40, 1, [40]),
        (40, 2, [40, 50]),  # 30 and 50 are equally near: the later one
        (40, 3, [30, 40, 50]),
        (40, 4, [30, 40, 50, 60]),
        (40, 5, [20, 30, 40, 50, 60]),
        (10, 3, [10, 20, 30]),  # nothing is before it
        (20, 4, [10, 20, 30, 40]),
        (70, 3, [50, 60, 70]),  # nothing is after it
        (60, 5, [30, 40, 50, 60, 70]),
        (40, 99, UPDATES),
    ],
)
def test_closest(best: int, count: int, chosen: list[int]) -> None:
    """The rule of the paper: the 5 closest to the best."""
    assert select_checkpoints(UPDATES, best, count, "closest") == chosen


@pytest.mark.parametrize(
    ("best", "count", "chosen"), [(40, 1, [40]), (40, 3, [40, 50, 60]), (60, 5, [60, 70]), (10, 99, UPDATES)]
)
def test_next(best: int, count: int, chosen: list[int]) -> None:
    """The rule of the authors' code: the best and the next 4."""
    assert select_checkpoints(UPDATES, best, count, "next") == chosen


def test_nearness_is_counted_in_checkpoints_not_in_updates() -> None:
    assert select_checkpoints([10, 20, 30, 31, 32, 33], 30, 3, "closest") == [20, 30, 31]


def test_mean_is_that_of_numpy(tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    stored = []
    for i in range(3):
        stored.append({name: draw.normal(size=(4, 5)).astype(np.float32) for name in ("a", "b")})
        (tmp_path / str(i)).mkdir()
        save_file(stored[i], tmp_path / str(i) / "weights.safetensors")
    mean = mean_weights([tmp_path / str(i) for i in range(3)])
    for name in ("a", "b"):
        expected = np.mean([weights[name].astype(np.float64) for weights in stored], axis=0).astype(np.float32)
        np.testing.assert_allclose(mean[name].numpy(), expected, rtol=1e-7)
        assert mean[name].dtype == torch.float32


def test_one_checkpoint(workspace: Workspace) -> None:
    workspace.train("training.budget.updates=4")
    said = f"{workspace.run}/averaged: the mean of checkpoint 4\n"
    assert workspace.focat("average", str(workspace.run)) == workspace.focat("average", str(workspace.run)) == said
    notes = workspace.run / "averaged" / "notes.txt"
    notes.write_text("mine")
    with pytest.raises(FocatError, match="was not written by `focat average`, which would delete it; move it away"):
        average_checkpoints(Run.open(workspace.run))
    assert notes.read_text() == "mine"


def test_as_a_user_averages(workspace: Workspace) -> None:
    """Validations at 4, 8, …, 20, and a checkpoint at 22 that was never validated; the best is moved to 12."""
    workspace.train("training.budget.updates=20")
    run = Run.open(workspace.run)
    (workspace.run / "best").write_text("0000012\n")
    unvalidated = run.path / "checkpoints" / "0000014"
    unvalidated.mkdir()
    last = run.checkpoints()[-1]
    for name in ("weights.safetensors", "state.json"):
        (unvalidated / name).write_bytes((last / name).read_bytes().replace(b'"update": 20', b'"update": 14'))

    rules: list[tuple[AveragingRule, list[int]]] = [("closest", [8, 12, 16]), ("next", [12, 16, 20])]
    for rule, updates in rules:
        output = workspace.focat("average", str(workspace.run), "--count", "3", "--rule", rule)
        assert output == f"{workspace.run}/averaged: the mean of checkpoints {', '.join(map(str, updates))}\n"
        described = json.loads((run.averaged / "average.json").read_text())
        assert described == {"rule": rule, "updates": updates, "best": 12}
        parts = [
            load_file(workspace.run / "checkpoints" / f"{update:07d}" / "weights.safetensors") for update in updates
        ]
        for name, parameter in run.load_model().named_parameters():  # the average is what is used from now on
            expected = sum(part[name].astype(np.float64) for part in parts) / 3
            np.testing.assert_allclose(parameter.detach().numpy(), expected, rtol=1e-6, atol=1e-8)


def test_averaging_without_checkpoints_is_refused(workspace: Workspace) -> None:
    trainer = workspace.trainer()
    with pytest.raises(FocatError, match="has no validated checkpoint; train it until its first validation"):
        average_checkpoints(trainer.run)
