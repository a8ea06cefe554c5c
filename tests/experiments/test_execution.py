"""Many at a time: who runs when and where, with processes that only pretend to work."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from focat import hardware
from focat.experiments.execution import Deadline, SessionOutcome, run_parallel, selected_tasks, visible_devices
from focat.experiments.experiment import Experiment
from focat.experiments.plan import load_plan
from focat.progress import NULL_PROGRESS
from tests.experiments.plans import write_plan

SYSTEMS = {
    "base": {"recipe": "focat:base"},
    "child": {"recipe": "focat:s2to2", "init_from": "base"},
    "other": {"recipe": "focat:s3to3"},
}
PRETEND = """
import json, os, sys, time
folder, words = sys.argv[1], sys.argv[2:]
part = words[words.index("--part") + 1]
with open(folder + "/" + part.replace(":", "."), "w") as file:
    json.dump([os.environ.get("OMP_NUM_THREADS"), os.environ.get("CUDA_VISIBLE_DEVICES"), words], file)
time.sleep(0.2)
print("something", "broke: " + part, sep="\\n", file=sys.stderr)
sys.exit({"base:1": 1, "other:1": 3}.get(part, 0))
"""


def pretend(
    folder: Path, deadline: Deadline, only: tuple[str, ...] = (), devices: tuple[str | None, ...] = ("4", "6")
) -> tuple[SessionOutcome, dict[str, list[object]]]:
    path = write_plan(folder, {"systems": SYSTEMS})
    experiment = Experiment(load_plan(str(path)), folder / "out", NULL_PROGRESS)
    started = folder / "started"
    started.mkdir()
    command = [sys.executable, "-c", PRETEND, str(started)]
    outcome = run_parallel(selected_tasks(experiment, only), only, devices, command, deadline, NULL_PROGRESS)
    return outcome, {file.name: json.loads(file.read_text()) for file in started.iterdir()}


@pytest.mark.parametrize(
    ("devices", "own_choice", "threads"),
    [((None, None), None, "4"), ((None, None), "5", "5"), (("4", "6"), None, None)],
)
def test_without_gpus_they_share_the_cores(
    devices: tuple[str | None, ...],
    own_choice: str | None,
    threads: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hardware, "cores", lambda: 9)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if own_choice is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", own_choice)
    _, started = pretend(tmp_path, Deadline(), devices=devices)
    assert [record[0] for record in started.values()] == [threads] * 2


def test_one_on_each_gpu(tmp_path: Path) -> None:
    outcome, started = pretend(tmp_path, Deadline(minutes=5))
    assert set(started) == {"base.1", "other.1"}
    assert {record[1] for record in started.values()} == {"4", "6"}
    assert outcome.failures == {
        "base (seed 1)": "broke: base:1",
        "child (seed 1)": "not started, because base (seed 1) failed",
    }
    assert outcome.unfinished  # other said so
    assert outcome.exit_code == 1
    (words,) = [record[2] for name, record in started.items() if name == "other.1"]
    assert isinstance(words, list)
    assert 4 < float(words[words.index("--minutes") + 1]) <= 5


def test_no_process_starts_after_the_deadline(tmp_path: Path) -> None:
    outcome, started = pretend(tmp_path, Deadline(minutes=0))
    assert not started
    assert (outcome.failures, outcome.exit_code) == ({}, 3)


def test_a_parent_that_was_not_selected_is_only_trained(tmp_path: Path) -> None:
    outcome, started = pretend(tmp_path, Deadline(), only=("child",))
    assert set(started) == {"base.1.train"}  # which says that all went well, and has nothing to show for it
    assert outcome.failures == {"child (seed 1)": "not started, because the system that it starts from was not trained"}


def test_each_process_gets_a_visible_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert visible_devices(None) == [None]  # no GPU here: one after the other, wherever
    assert visible_devices(3) == [None] * 3
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert visible_devices(None) == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert visible_devices(None) == ["5", "7"]
    assert visible_devices(3) == ["5", "7", "5"]
