"""Two agents of `torchrun` with two processes each, as on two machines: one machine is lost, and comes back.

Ten interpreters import PyTorch here, so it is not part of `make test`: `make cluster` runs it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from focat.run import Run
from tests.training.launcher import ROOT
from tests.training.runs import Workspace, records, same_tensors, weights_of

pytestmark = [
    pytest.mark.skipif("FOCAT_CLUSTER" not in os.environ, reason="takes a minute; make cluster"),
    pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="finds processes in /proc"),
]
SETTINGS = (
    "training.gradient_accumulation=4",
    "training.budget={updates: 120}",
    "training.validate_every=10",
    "training.save_minutes=1000",
)


class Agent:
    """`torchrun` on one machine."""

    def __init__(self, workspace: Workspace, run: Path, port: int) -> None:
        self.output = workspace.folder / f"agent-{time.monotonic_ns()}.txt"
        torchrun = ["--nnodes", "2", "--nproc-per-node", "2", "--max-restarts", "2", "--local-addr", "localhost"]
        torchrun += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "job"]
        train = ["-m", "focat", "train", str(workspace.config), *SETTINGS, f"training.output_dir={run}"]
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "torch.distributed.run", *torchrun, *train],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"},
            )

    def wait(self) -> None:
        """Wait for its end, which must be a good one."""
        try:
            code = self.process.wait(timeout=150)
        except subprocess.TimeoutExpired:
            self.lose_machine()
            raise AssertionError(f"did not end:\n{self.output.read_text(encoding='utf-8')}") from None
        assert code == 0, self.output.read_text(encoding="utf-8")

    def lose_machine(self) -> None:
        """Kill the agent and its processes at once."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        for each in (pid, *map(int, children)):
            os.kill(each, signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port: int = free.getsockname()[1]
        return port


def saved(run: Path) -> int:
    """The update of the last checkpoint."""
    return max((int(checkpoint.name) for checkpoint in Run(run).checkpoints()), default=0)


def test_a_machine_is_lost_and_comes_back(workspace: Workspace) -> None:
    undisturbed, restarted, alone = (workspace.folder / name for name in ("undisturbed", "restarted", "alone"))
    port = free_port()
    for agent in [Agent(workspace, undisturbed, port) for _ in range(2)]:
        agent.wait()

    port = free_port()
    first = Agent(workspace, restarted, port)
    while first.process.poll() is None and not listening(port):
        time.sleep(0.05)  # the first has the rendezvous, so that the other can be lost
    second = Agent(workspace, restarted, port)
    while first.process.poll() is None and saved(restarted) < 20:
        time.sleep(0.01)
    second.lose_machine()
    assert saved(restarted) < 120, "came too late"
    second = Agent(workspace, restarted, port)
    second.wait()
    first.wait()
    assert "resuming from update" in first.output.read_text(encoding="utf-8")
    assert same_tensors(weights_of(restarted), weights_of(undisturbed))

    workspace.train(*SETTINGS, f"training.output_dir={alone}")
    expected, found = weights_of(alone), weights_of(undisturbed)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=2e-3)  # sums in another order
    last, same = (records(run, "validation")[-1] for run in (alone, undisturbed))
    assert abs(last["current"] - same["current"]) < 1e-4, json.dumps([last, same])


def listening(port: int) -> bool:
    """Whether something accepts connections at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("localhost", port)) == 0
