"""Training that is asked to stop saves first, and training whose output nobody reads any more goes on."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time

import pytest

from focat.training.signals import ending_signals
from tests.training.launcher import ROOT
from tests.training.runs import Workspace, last_checkpoint, records, same_tensors, weights_of, without_time


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_stops_after_saving_and_the_same_command_resumes(workspace: Workspace, number: int, code: int) -> None:
    settings = ("training.budget.updates=60", "training.validate_every=30", "training.log_every=7")
    command = workspace.start(*settings)
    while command.running() and "update      7" not in command.output:
        time.sleep(0.002)
    command.send(number)
    assert command.wait() == code
    stopped_at = int(last_checkpoint(workspace.run).name)
    assert 7 <= stopped_at < 60
    assert f"stopped at update {stopped_at}, and saved; the same command goes on from there" in command.output
    assert "Traceback" not in command.output

    assert f"resuming from update {stopped_at}\n" in workspace.train(*settings)
    uninterrupted = workspace.folder / "uninterrupted"
    workspace.train(*settings, f"training.output_dir={uninterrupted}")
    assert same_tensors(weights_of(workspace.run), weights_of(uninterrupted))
    assert without_time(records(workspace.run)) == without_time(records(uninterrupted))


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # what runs the tests may ignore it


def test_training_whose_terminal_is_closed_saves(workspace: Workspace) -> None:
    """As of a window that is closed, or a connection that is lost: a signal, and a terminal that takes no output."""
    master, terminal = os.openpty()
    command = [sys.executable, "-m", "focat", "train", str(workspace.config)]
    training = subprocess.Popen(
        [*command, "training.budget.updates=100000", "training.validate_every=100000", "training.log_every=1"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=ROOT,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(terminal)
    try:
        while training.poll() is None and b"update      3" not in os.read(master, 4096):
            pass
        os.close(master)
        assert training.wait(60) == 128 + signal.SIGHUP
    finally:
        training.kill()
        training.wait()
    assert int(last_checkpoint(workspace.run).name) >= 3


def test_training_whose_output_is_closed_goes_on(workspace: Workspace) -> None:
    """As `focat train … 2>&1 | head -1` does."""
    words = [sys.executable, "-m", "focat", "train", str(workspace.config), "training.log_every=1"]
    line = 'set -o pipefail; "$@" 2>&1 | head -1'
    assert subprocess.run(["bash", "-c", line, "bash", *words], cwd=ROOT, capture_output=True).returncode == 0
    assert int(last_checkpoint(workspace.run).name) == 12
    assert len(records(workspace.run, "train")) == 12


def test_the_end_of_the_terminal_may_be_ignored() -> None:
    """As it is behind `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert ending_signals() == [signal.SIGTERM]
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert ending_signals() == [signal.SIGTERM, signal.SIGHUP]
    finally:
        signal.signal(signal.SIGHUP, before)
