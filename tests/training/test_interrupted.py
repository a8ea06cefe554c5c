"""Training that is killed at any moment, again and again, ends where it would have ended: bit for bit.

Everything that could go astray is in use: dropout, windows of random size, Muon beside Adam, a moving average of the
weights, a schedule and a discount that follow the share of the budget spent (counted in epochs), patience, and more
than one batch for each update. It saves at nearly every update, and the log has figures of several updates, so that
most kills fall between two lines of it.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from focat.files import PARTIAL_SUFFIX
from focat.run import Run
from focat.training.checkpoints import training_tensors
from tests.training.launcher import ROOT, Launcher
from tests.training.runs import Workspace, last_checkpoint, records, same_tensors, weights_of, without_time

SETTINGS = (
    "windows.sampling=random",
    "model.dropout=0.2",
    "model.attention_dropout=0.1",
    "objective.discount={start: 1.0, end: 0.0, begin_at: 0.1, end_at: 0.9}",
    "training.optimizer=muon",
    "training.schedule=cosine",
    "training.budget={epochs: 4}",
    "training.batch_tokens=700",
    "training.gradient_accumulation=2",
    "training.ema=0.9",
    "training.clip_norm=1.0",
    "training.validate_every=7",
    "training.patience=50",
    "training.save_minutes=0.0001",
    "training.log_every=3",
    "training.keep_checkpoints=2",
)
KILLS = 20


def assert_same_run(found: Path, expected: Path) -> None:
    """Weights, the optimizer and all else that training goes on from, the log, and which files there are."""
    assert same_tensors(weights_of(found), weights_of(expected))
    assert same_tensors(training_tensors(last_checkpoint(found)), training_tensors(last_checkpoint(expected)))
    assert without_time(records(found)) == without_time(records(expected))
    assert (found / "best").read_text() == (expected / "best").read_text()
    # Which checkpoint is the last but one depends on the clock; all others are decided by validations.
    last_but_one = {f"checkpoints/{Run(run).checkpoints()[-2].name}/" for run in (found, expected)}

    def others(run: Path) -> set[str]:
        files = {str(file.relative_to(run)) for file in run.rglob("*") if file.is_file()}
        return {name for name in files if not name.startswith(tuple(last_but_one))}

    assert others(found) == others(expected)
    assert not list(found.rglob(f"*{PARTIAL_SUFFIX}"))


def saving(run: Path) -> bool:
    return any((run / "checkpoints").glob(f"*{PARTIAL_SUFFIX}"))


def saved(run: Path) -> int:
    """The update of the last checkpoint."""
    checkpoints = Run(run).checkpoints()
    return int(checkpoints[-1].name) if checkpoints else 0


@pytest.fixture(scope="module")
def uninterrupted(stores: Path, launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that goes through at once."""
    workspace = Workspace(stores / "store", tmp_path_factory.mktemp("uninterrupted"), launcher)
    workspace.train(*SETTINGS)
    return workspace.run


def test_killed_twenty_times(workspace: Workspace, uninterrupted: Path) -> None:
    """All over the run: each time it has come a bit further, and half of the times in the middle of saving."""
    updates = saved(uninterrupted)
    assert updates >= 2 * KILLS  # or the kills would catch up with the end
    draw = random.Random(5)
    killed_while_saving = 0
    for kill in range(KILLS):
        command = workspace.start(*SETTINGS)
        while command.running() and saved(workspace.run) < kill * updates // (KILLS + 1):
            time.sleep(0.001)
        if kill % 2:
            while command.running() and not saving(workspace.run):
                pass
        else:
            time.sleep(draw.uniform(0, 0.1))  # a few updates, or (the first one) somewhere while it begins
        command.send(signal.SIGKILL)
        assert command.wait() == -signal.SIGKILL, f"kill {kill} came too late"
        killed_while_saving += saving(workspace.run)
    workspace.train(*SETTINGS)
    assert_same_run(workspace.run, uninterrupted)
    assert killed_while_saving >= KILLS // 4  # so there really were half-written checkpoints


def test_killed_on_the_command_line(workspace: Workspace, uninterrupted: Path) -> None:
    """The same with nothing of this test's own in between: `python -m focat train`, killed, then left alone."""
    line = [sys.executable, "-m", "focat", "train", str(workspace.config), *SETTINGS]
    process = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL)
    while process.poll() is None and saved(workspace.run) < 0.5 * saved(uninterrupted):
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    workspace.train(*SETTINGS)
    assert_same_run(workspace.run, uninterrupted)


def test_finished_by_patience_stays_finished(workspace: Workspace) -> None:
    """Killed between its last save and its end, or simply started once more: there is nothing left to do."""
    impatient = (*SETTINGS, "training.patience=1", "training.learning_rate=0.5", "training.clip_norm=0")
    workspace.train(*impatient)
    log = records(workspace.run)
    assert log[-1]["update"] < 30  # it learned nothing at this rate, and stopped long before the end of its budget
    weights = weights_of(workspace.run)
    assert "is finished" in workspace.train(*impatient)
    assert same_tensors(weights_of(workspace.run), weights)
    assert records(workspace.run) == log


def test_best_is_right_although_killed_before_it_was_written(workspace: Workspace) -> None:
    """The last checkpoint was the best one and complete; `best` still named the one before it."""
    workspace.train()
    assert (workspace.run / "best").read_text() == "0000012\n"
    (workspace.run / "best").write_text("0000008\n")
    assert "is finished" in workspace.train()
    assert (workspace.run / "best").read_text() == "0000012\n"
