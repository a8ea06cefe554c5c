"""Runs `focat` commands in forked children: PyTorch is imported once, and a child can be killed like any process.

What runs is the real command line, `focat.cli.main`, with its own output and exit code.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

GIGABYTE = 1 << 30
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
_CRASHED = 70  # exit code of an exception that nobody caught
_DISK_STEPS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink")
_TICKS = os.sysconf("SC_CLK_TCK")


def import_all() -> None:
    """Import all that commands need, once, before any process is forked."""
    import torch
    import typer.main

    import focat.analysis.analyse
    import focat.api
    import focat.cli
    import focat.config.loading
    import focat.evaluation.contrast
    import focat.experiments.command
    import focat.reporting.page
    import focat.reporting.terminal.analysis
    import focat.reporting.terminal.comparison
    import focat.reporting.terminal.contrast
    import focat.reporting.terminal.evaluation
    import focat.reporting.terminal.inspection

    for name in ("charset_normalizer", "pyarrow.parquet"):  # readers import them when they need them
        importlib.import_module(name)
    command = typer.main.get_command(focat.cli.app)
    typer.main.get_command = lambda app: command  # it takes five times as long to build as most commands to run
    focat.config.loading.read_yaml = _remembered(focat.config.loading.read_yaml)
    torch.set_num_threads(1)


def _remembered(read_yaml: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Read each YAML file with an absolute name once. These belong to what all cases start from; cases name their own
    files relative to their folder. To read the settings of a run takes half the time of a short translation."""
    found: dict[tuple[Path, int], Any] = {}

    def read(path: Path) -> Any:
        if not path.is_absolute() or not path.exists():
            return read_yaml(path)
        key = path, path.stat().st_mtime_ns
        if key not in found:
            found[key] = read_yaml(path)
        return _copied(found[key])

    return read


def _copied(tree: Any) -> Any:
    """The same tree in new dictionaries and lists."""
    if isinstance(tree, dict):
        return {name: _copied(value) for name, value in tree.items()}
    return [_copied(value) for value in tree] if isinstance(tree, list) else tree


def run_main(arguments: Sequence[str]) -> int:
    """Run a command in this process; its exit code, or 70 after the traceback of an exception that nobody caught."""
    from focat.cli import main

    sys.argv = ["focat", *arguments]
    return call(main)


def call(function: Callable[[], int | None]) -> int:
    """Call a function as `run_main` calls a command."""
    code: Any = 0
    try:
        code = function() or 0
    except SystemExit as stopped:
        code = stopped.code or 0
    except KeyboardInterrupt:  # before `main` could take it
        code = 130
    except BaseException:
        traceback.print_exc()
        code = _CRASHED
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or _CRASHED
    return code if isinstance(code, int) else 1


def fork(function: Callable[[], int], output: Path, environment: Mapping[str, str] | None = None) -> Child:
    """Call a function in a child process of its own group; its result is the exit code, its output goes to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _become(function, output, environment or {})
    return Child(pid, output)


def _become(function: Callable[[], int], output: Path, environment: Mapping[str, str]) -> NoReturn:
    code = _CRASHED
    try:
        os.setpgid(0, 0)
        _end_with_parent()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        nothing = os.open(os.devnull, os.O_RDONLY)
        written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for here, there in ((nothing, 0), (written, 1), (written, 2)):
            os.dup2(here, there)
        os.environ.update(environment)
        code = function()
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, where there is a way (Linux)."""
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def limit_memory(size: int) -> None:
    """Let this process have so many bytes more than it has now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return
    limit = pages * os.sysconf("SC_PAGE_SIZE") + size
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def run_command(arguments: Sequence[str], folder: Path, counter: Path | None = None, die_at: int | None = None) -> int:
    """Run a command in a folder, in this process.

    Args:
        arguments: of the command line.
        folder: the working directory.
        counter: a file to which the number of steps on the disk is written at the end.
        die_at: kill this process before its n-th step on the disk. Python tells audit hooks of each such step, so that
            moments that are too short to be hit by chance, as between two renames, are hit as often as others.
    """
    steps = 0

    def count(event: str, details: tuple[Any, ...]) -> None:
        nonlocal steps
        writes = event == "open" and isinstance(details[1], str) and bool(set(details[1]) & set("wax+"))
        if writes or event in _DISK_STEPS:
            steps += 1
            if steps == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    os.chdir(folder)
    limit_memory(8 * GIGABYTE)
    if counter is not None or die_at is not None:
        sys.addaudithook(count)
    code = run_main(arguments)
    if counter is not None:
        counter.write_text(str(steps))
    return code


class Child:
    """A process that was forked."""

    def __init__(self, pid: int, output: Path) -> None:
        self.pid, self._output = pid, output
        self.code: int | None = None  # its exit code; −9 if signal 9 ended it

    @property
    def output(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")

    def running(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is None

    def send(self, number: int) -> None:
        if self.running():
            os.kill(self.pid, number)

    def end(self) -> None:
        """Kill the process and all that it has started, if it is still running."""
        if self.running():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.send(signal.SIGKILL)  # if it was too young to have a group
        while self.running():
            time.sleep(0.001)

    def wait(self, seconds: float) -> int | None:
        """Its exit code; None if it is still running after so many seconds."""
        late = time.monotonic() + seconds
        pause = 0.0005
        while self.running():
            if time.monotonic() > late:
                return None
            time.sleep(pause)
            pause = min(0.01, pause * 1.3)
        return self.code

    def processor_seconds(self) -> float:
        """Seconds of work it has done: unlike the clock, they do not run on while other processes work."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(stat[11]) + int(stat[12])) / _TICKS
