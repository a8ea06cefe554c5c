"""Starts `focat` commands as processes of their own, without each having to import PyTorch for seconds.

A server imports it once and forks for every command. What runs in a fork is the real command line, `focat.cli.main`,
with its own output and exit code, and it can be killed like any process.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Launcher:
    """Talks to the server."""

    def __init__(self) -> None:
        line = [sys.executable, "-m", __name__]
        self._server = subprocess.Popen(line, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *question: Any) -> Any:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(question) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())

    def start(self, arguments: list[str], folder: Path, **environment: str) -> Command:
        """A `focat` command, or a script of Python; what it says goes to a file in the folder."""
        output = folder / f"output-{time.monotonic_ns()}.txt"
        output.touch()
        return Command(self, self.ask("start", arguments, str(output), environment), output)

    def focat(self, folder: Path, *arguments: object, expect: int = 0) -> str:
        """A command to its end, which may not be an exception that nobody caught; returns what it output."""
        command = self.start([str(argument) for argument in arguments], folder)
        assert command.wait() == expect, command.output
        assert "Traceback" not in command.output
        return command.output

    def refused(self, folder: Path, *arguments: object) -> str:
        """The one line in which a command says what is wrong."""
        (line,) = self.focat(folder, *arguments, expect=2).splitlines()
        return line.removeprefix("focat: ")

    def close(self) -> None:
        self._server.communicate()


class Command:
    """A command that was started."""

    def __init__(self, launcher: Launcher, pid: int, output: Path) -> None:
        self._launcher, self.pid, self._output = launcher, pid, output
        self.code: int | None = None  # its exit code; −9 if it was killed by signal 9

    @property
    def output(self) -> str:
        return self._output.read_text(encoding="utf-8")

    def running(self) -> bool:
        if self.code is None:
            self.code = self._launcher.ask("poll", self.pid)
        return self.code is None

    def send(self, number: int) -> None:
        if self.running():
            os.kill(self.pid, number)

    def wait(self, seconds: float = 120) -> int:
        """Its exit code; it is killed if it takes too long."""
        late = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > late:
                self.send(signal.SIGKILL)
                raise AssertionError(f"still running after {seconds} s, and had output:\n{self.output}")
            time.sleep(0.005)
        assert self.code is not None
        return self.code


def serve() -> None:

    import focat.cli
    import focat.experiments.command  # which needs nearly everything there is

    for line in sys.stdin:
        kind, *question = json.loads(line)
        if kind == "start":
            pid = os.fork()
            if pid == 0:
                _become(focat.cli.main, *question)
            print(pid, flush=True)
        else:
            pid, status = os.waitpid(question[0], os.WNOHANG)
            print(json.dumps(os.waitstatus_to_exitcode(status) if pid else None), flush=True)


def _become(main: Any, arguments: list[str], output: str, environment: dict[str, str]) -> None:
    for number in (signal.SIGHUP, signal.SIGTSTP):  # what runs the tests may ignore them, as `nohup` does
        signal.signal(number, signal.SIG_DFL)
    output = os.open(output, os.O_WRONLY | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for here, there in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(here, there)
    os.environ.update(environment)
    script = arguments[0] if arguments[0].endswith(".py") else None
    sys.argv = arguments if script else ["focat", *arguments]
    code: Any = 1
    try:
        if script:
            runpy.run_path(script, run_name="__main__")
        else:
            main()
        code = 0
    except SystemExit as stopped:
        code = stopped.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
