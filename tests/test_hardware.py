"""Devices by name, and how threads wait."""

import os
import re
import subprocess
import sys
import time

import pytest

from focat import hardware
from focat.errors import FocatError
from focat.hardware import device_named, is_busy, limit_spinning, running_processes, share_of_cores


def test_devices():
    assert device_named("cpu").type == "cpu"
    with pytest.raises(FocatError, match=r"^device = abacus: there is no such device; take auto, cpu, cuda or cuda:1$"):
        device_named("abacus")
    with pytest.raises(FocatError, match=r"^device = meta: computes nothing"):
        device_named("meta")


@pytest.mark.parametrize(("running", "usable", "machine", "busy"), [
    (1, 2, 2, False),  # this process alone
    (2, 2, 2, True),
    (2, 1, 2, False),  # one core for each
    (3, 1, 2, True),
    (21, 2, 64, False),
    (21, 64, 64, True),
])  # fmt: skip
def test_a_machine_is_busy_if_threads_would_share_cores(running, usable, machine, busy, monkeypatch):
    monkeypatch.setattr(hardware, "cores", lambda: usable)
    monkeypatch.setattr(os, "cpu_count", lambda: machine)
    assert is_busy(running) == busy


@pytest.mark.parametrize(("usable", "processes", "threads"), [(2, 1, 2), (2, 2, 1), (2, 3, 1), (16, 3, 5)])
def test_processes_that_compute_at_the_same_time_share_the_cores(usable, processes, threads, monkeypatch):
    monkeypatch.setattr(hardware, "cores", lambda: usable)
    assert share_of_cores(processes) == threads


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_processes_that_compute_are_counted():
    loops = [
        subprocess.Popen([sys.executable, "-c", "import time; end = time.time() + 30\nwhile time.time() < end: pass"])
        for _ in range(3)
    ]
    try:
        time.sleep(0.2)  # until they have started
        assert running_processes() >= 4
    finally:
        for process in loops:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("variables", "running", "expected"),
    [
        ({}, 1, "5000"),
        ({}, 9999, "0"),
        ({"GOMP_SPINCOUNT": "7"}, 9999, "7"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, 9999, None),
    ],
)
def test_threads_spin_for_a_short_time_or_not_at_all_unless_told_to(variables, running, expected, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(variables))
    monkeypatch.setattr(hardware, "running_processes", lambda: running)
    limit_spinning()
    assert os.environ.get("GOMP_SPINCOUNT") == expected


@pytest.mark.skipif(sys.platform != "linux", reason="PyTorch has another OpenMP elsewhere")
def test_commands_limit_spinning_before_they_import_torch():
    """What the OpenMP library says of itself when PyTorch loads it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run(
        [sys.executable, "-m", "focat", "doctor", "--quick"],
        env={**environment, "OMP_DISPLAY_ENV": "VERBOSE"},
        capture_output=True,
        text=True,
        check=True,
    )
    (spins,) = re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)
    assert spins in ("0", "5000")
