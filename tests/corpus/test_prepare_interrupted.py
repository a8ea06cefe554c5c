"""`focat prepare` killed at any moment leaves nothing half-made behind, and the same command finishes the job.

Twice: at random moments, as a user or a machine would do it; and before every single step on the disk in turn, because
the moments that matter most (between two renames, halfway through deleting a folder) are too short to hit by chance.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from focat.config import load_settings
from focat.corpus.prepare import prepare
from focat.files import PARTIAL_SUFFIX, locked_folder
from focat.progress import NULL_PROGRESS
from tests.corpus.test_prepare import files_in, write_corpus
from tests.training.launcher import Command, Launcher

ROOT = Path(__file__).parents[2]
KILLS = 8


def write_config(folder: Path, name: str, documents: int, **more: Any) -> Path:
    data = {
        "store": str(folder / "store"),
        "train": [write_corpus(folder, "train", documents)],
        "dev": [write_corpus(folder, "dev", max(1, documents // 5), seed=2)],
        "tokenizer": {"vocabulary": 300},
    }
    config = folder / f"{name}.yaml"
    config.write_text(json.dumps({"data": data | more}))  # JSON is YAML
    return config


def start(config: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "focat", "prepare", str(config)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_listen_to_control_c
    )


def _listen_to_control_c() -> None:
    """Shells let what they start in the background ignore it, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_to_the_end(config: Path) -> None:
    process = start(config)
    _, errors = process.communicate()
    assert process.returncode == 0, errors


def assert_finished_parts_are_whole(store: Path, expected: dict[str, bytes]) -> None:
    """Whatever does not say that it is unfinished is as it is in the finished store."""
    found = {name: content for name, content in files_in(store).items() if PARTIAL_SUFFIX not in name}
    stages = {name.partition("/")[0] for name in found}
    assert found == {name: content for name, content in expected.items() if name.partition("/")[0] in stages}


def processor_time(command: Command) -> float:
    """Seconds of work a command has done: unlike the clock, it does not run on while other processes work."""
    stat = Path(f"/proc/{command.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs the processor time of another process")
def test_killed_at_random_moments(tmp_path: Path, launcher: Launcher) -> None:
    config = write_config(tmp_path, "config", 1000)
    store, line = tmp_path / "store", ["prepare", str(config)]
    command = launcher.start(line, tmp_path)
    while not store.exists():
        time.sleep(0.002)
    begins = processor_time(command)  # how much work it is to begin …
    ends = begins
    while command.running():
        ends = max(ends, processor_time(command))  # … and to come to the end
        time.sleep(0.002)
    expected = files_in(store)
    assert "manifest.json" in expected
    shutil.rmtree(store)

    draw = random.Random(7)
    kills, pace = 0, 1.0
    for attempt in range(5 * KILLS):
        share = (attempt * 0.618) % 1  # spreads over the whole run, no two moments close to each other
        if store.exists():
            share /= 2  # some of the work is done
        moment = pace * (begins + share * (ends - begins))
        command = launcher.start(line, tmp_path)
        while command.running() and processor_time(command) < moment:
            time.sleep(0.002)
        command.send(signal.SIGKILL)
        if command.wait() == 0:  # was faster than we
            assert files_in(store) == expected
            shutil.rmtree(store)
            pace *= 0.95  # the first run, which was timed, was slower
            continue
        kills += 1
        assert_finished_parts_are_whole(store, expected)
        if kills == KILLS:
            break
        if draw.random() < 0.5:  # start anew; else go on where this one was killed
            shutil.rmtree(store, ignore_errors=True)
    assert kills == KILLS

    run_to_the_end(config)
    assert files_in(store) == expected


# ------------------------------------------------------------------------------------------------ before every step


def prepare_in_child(config: Path, overwrite: bool = False, die_at: int | None = None) -> bool:
    """Prepare in a process of its own that kills itself before its n-th step on the disk; whether it got to the end.

    Python tells audit hooks of each such step, so nothing of what is tested has to be replaced.
    """
    child = os.fork()
    if child == 0:
        steps = 0

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal steps
            writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
            if writes or event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir"):
                steps += 1
                if steps == die_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        prepare(load_settings(config).data, NULL_PROGRESS, overwrite)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status not in (0, signal.SIGKILL):
        raise AssertionError(f"prepare failed with status {status}")
    return status == 0


def die_before_every_step(old: Path, new: Path) -> int:
    """First with no store at all, then over a store of other settings; how many deaths."""
    store = load_settings(old).data.store
    prepare_in_child(new)
    expected_new = files_in(store)
    shutil.rmtree(store)
    prepare_in_child(old)
    expected_old = files_in(store)
    shutil.copytree(store, store.with_name("kept"))
    shutil.rmtree(store)

    deaths = 0
    for over_an_old_store in (False, True):
        for step in range(1, 1000):
            shutil.rmtree(store, ignore_errors=True)
            if over_an_old_store:
                shutil.copytree(store.with_name("kept"), store)
            if prepare_in_child(new, overwrite=True, die_at=step):
                break
            deaths += 1
            # Sometimes killed again while mending, and half of the time the user thinks again and wants the old store.
            if step % 3 == 0:
                prepare_in_child(new, overwrite=True, die_at=1 + step % 7)
            config, expected = (old, expected_old) if step % 2 else (new, expected_new)
            assert prepare_in_child(config, overwrite=True)
            assert files_in(store) == expected, f"killed before step {step}, over an old store: {over_an_old_store}"
    return deaths


def test_killed_before_every_step(tmp_path: Path) -> None:
    """In a script of its own, since a process with threads, as a test has, does well not to fork."""
    old = write_config(tmp_path, "old", 4)
    new = write_config(tmp_path, "new", 4, dev=[], cleaning={"identical": True})
    module = f"from pathlib import Path; from {__name__} import *"
    script = f"{module}; print(die_before_every_step(Path({str(old)!r}), Path({str(new)!r})))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30


# ------------------------------------------------------------------------------------------------ other interruptions


def test_control_c_leaves_nothing_half_written(tmp_path: Path) -> None:
    config = write_config(tmp_path, "config", 1500)
    for _ in range(10):  # on a busy machine, the command may be done before it is interrupted
        process = start(config)
        while process.poll() is None and not (tmp_path / "store" / f"train{PARTIAL_SUFFIX}").exists():
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        if process.returncode:
            break
        shutil.rmtree(tmp_path / "store")
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not [name for name in files_in(tmp_path / "store") if PARTIAL_SUFFIX in name]
    assert not (tmp_path / "store" / "manifest.json").exists()
    run_to_the_end(config)


def test_a_store_is_filled_by_one_at_a_time(tmp_path: Path) -> None:
    config = write_config(tmp_path, "config", 4)
    store = tmp_path / "store"
    store.mkdir()
    with locked_folder(store, "held by this test"):
        process = start(config)
        output, errors = process.communicate()
    assert process.returncode == 2
    assert (output, errors) == (
        "",
        f"focat: {store}: another `focat prepare` is filling this store; wait for it or stop it\n",
    )
    assert files_in(store) == {}
    run_to_the_end(config)


@pytest.fixture(autouse=True)
def _no_leftovers(tmp_path: Path) -> Any:
    """After each of these tests a command ran to its end: nothing unfinished may be left anywhere."""
    yield
    assert not list(tmp_path.rglob(f"*{PARTIAL_SUFFIX}*"))
