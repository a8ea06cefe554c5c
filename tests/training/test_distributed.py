"""Many processes train what one process trains; only the first speaks; when one dies, none is left waiting.

They are started as on a machine with many GPUs, by `torchrun` or as it does it, but talk through the CPU.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time

import torch

from focat.corpus.store import Store
from focat.run import Run
from focat.windows.loader import Loader
from tests.training.launcher import ROOT, Command
from tests.training.runs import Workspace, records, weights_of

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--local-addr"]
TORCHRUN += ["localhost"]


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TORCHRUN, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process: subprocess.Popen[str], seconds: float = 120) -> str:
    """Wait for a process, and return its output; fail if it hangs."""
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()  # torchrun ends its processes
        output, _ = process.communicate()
        raise AssertionError(f"still running after {seconds} s, and had output:\n{output}") from None
    return output


def together(workspace: Workspace, *arguments: str) -> list[Command]:
    """Two processes as `torchrun` starts them, without the seconds that three interpreters take to import PyTorch."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    return [
        workspace.launcher.start([*arguments], workspace.folder, RANK=rank, LOCAL_RANK=rank, **world)
        for rank in ("0", "1")
    ]


def test_two_processes_are_one_with_two_batches(workspace: Workspace) -> None:
    """Dropout and both optimizers included.

    An epoch has an odd number of batches, so that its last update leaves one process idle. They save so often
    that whether it is time to save is a close call, about which they must not disagree.
    """
    split, windows = Store(workspace.store).split("train"), workspace.settings().windows
    tokens = next(n for n in range(1200, 2000, 50) if len(Loader(split, windows, n, seed=1).epoch(0)[1]) % 2)
    overrides = [
        f"training.batch_tokens={tokens}",
        "model.dropout=0.3",
        "training.optimizer=muon",
        "training.ema=0.5",
        "training.clip_norm=0.5",
        "training.gradient_accumulation=2",
        "training.validate_every=null",
        "training.budget={epochs: 2}",
        "training.log_samples=1",
        "training.log_every=3",
        "training.save_minutes=0.0002",
    ]
    alone, joined = workspace.folder / "alone", workspace.folder / "joined"
    workspace.train(*overrides, f"training.output_dir={alone}")
    commands = together(workspace, "train", str(workspace.config), *overrides, f"training.output_dir={joined}")
    assert all(command.wait() == 0 for command in commands), [command.output for command in commands]

    expected, found = weights_of(alone), weights_of(joined)
    assert expected.keys() == found.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=1e-5)

    for one, many in zip(records(alone), records(joined), strict=True):  # so no line is there twice
        assert (one["kind"], one["update"]) == (many["kind"], many["update"])
        for figure in ("current", "context", "full", "discounted", "current_nll"):
            assert abs(one[figure] - many[figure]) < 1e-4, (one, many)
    output = "".join(command.output for command in commands)
    assert output.count("· validation: ") == 2
    assert "parameters on 2 × cpu" in output


def test_resuming_with_fewer_processes(workspace: Workspace) -> None:
    """Two processes begin, with a batch each; the one that goes on alone makes the same updates of two batches."""
    overrides = ["training.validate_every=100", "training.log_samples=0", "training.budget={updates: 3}"]
    alone, moved = workspace.folder / "alone", workspace.folder / "moved"
    for command in together(workspace, "train", str(workspace.config), *overrides, f"training.output_dir={moved}"):
        assert command.wait() == 0, command.output
    longer = [*overrides[:2], "training.budget={updates: 6}"]
    workspace.train(*longer, f"training.output_dir={moved}")
    workspace.train(*longer, "training.gradient_accumulation=2", f"training.output_dir={alone}")
    expected, found = weights_of(alone), weights_of(moved)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=1e-5)


def test_processes_add_up_gradients_of_half_precision_in_float32(workspace: Workspace) -> None:
    """Sums in bfloat16 would depend on the order of the batches, and so on the number of processes."""
    overrides = [
        "training.precision=bfloat16",
        "training.gradient_accumulation=4",
        "training.validate_every=100",
        "training.log_samples=0",
        "training.budget={updates: 3}",
    ]
    alone, parallel = workspace.folder / "alone", workspace.folder / "parallel"
    for command in together(workspace, "train", str(workspace.config), *overrides, f"training.output_dir={parallel}"):
        assert command.wait() == 0, command.output
    workspace.train(*overrides, f"training.output_dir={alone}")
    expected, found = weights_of(alone), weights_of(parallel)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=1e-5)


SCRIPT = """
import os, sys, time, types
from pathlib import Path
from focat.config import load_settings
from focat.progress import Progress
from focat.training import trainer

update = trainer.Trainer._update

def dies_in_the_third_update(self, batches):
    if self.state.update == 2:
        os.kill(os.getpid(), 9)
    return update(self, batches)

if os.environ["RANK"] == "1":
    {change}
trainer.train(load_settings(Path(sys.argv[1]), sys.argv[2:]), Progress())
"""


def test_when_one_process_dies_the_job_ends(workspace: Workspace) -> None:
    """As by a lack of memory: it is gone in the middle of an update, while the other waits for its gradient."""
    script = workspace.folder / "dies.py"
    script.write_text(SCRIPT.format(change="trainer.Trainer._update = dies_in_the_third_update"))
    begun = time.monotonic()
    process = start(str(script), str(workspace.config), "training.budget.updates=100000")
    output = finish(process, 60)
    assert process.returncode != 0
    assert time.monotonic() - begun < 60
    assert "parameters on 2 × cpu" in output  # it had begun to train


def test_they_save_together_although_their_clocks_differ(workspace: Workspace) -> None:
    """To the second process it is never time to save; if each went by its own clock, the first would wait for ever."""
    script = workspace.folder / "slow.py"
    slow_clock = "trainer.time = types.SimpleNamespace(monotonic=lambda: time.monotonic() / 1000)"
    script.write_text(SCRIPT.format(change=slow_clock))
    often = ["training.save_minutes=0.0001", "training.validate_every=1000", "training.budget.updates=9"]
    for command in together(workspace, str(script), str(workspace.config), *often):
        assert command.wait(60) == 0, command.output
    assert len(Run(workspace.run).checkpoints()) == 2  # it did save before its end


def test_what_a_user_can_mend_ends_all_processes_with_one_line(workspace: Workspace) -> None:
    """Only the first process finds out; the second is waiting for it."""
    workspace.run.mkdir()
    (workspace.run / "something").touch()
    commands = together(workspace, "train", str(workspace.config))
    assert all(command.wait(60) != 0 for command in commands)
    output = "".join(command.output for command in commands)
    assert (
        output.count(f"focat: {workspace.run}: is not empty and holds no run; give another training.output_dir\n") == 1
    )
    assert [path.name for path in workspace.run.iterdir()] == ["something"]
