"""A shell for the commands of the documentation: bash, with a `focat` that starts at once.

A server process imports everything once and forks for each command. The fork runs the real command line with the input,
output, folder and exit code of its client.
"""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[2]
# Options that each command gets in addition, so that all pages run in seconds.
FASTER = {
    "analyse": ["--trials", "20"],
    "compare": ["--trials", "20", "--resamples", "20"],
    "doctor": ["--quick"],
    "reproduce": ["--list"],  # reads the plan, overrides and options, and trains nothing
}
_CLIENT = """#!{python} -ISs
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = json.dumps([sys.argv, os.getcwd()]).encode()
    socket.send_fds(server, [len(request).to_bytes(4, "big") + request], [0, 1, 2])
    sys.exit(int.from_bytes(server.recv(1), "big"))
"""


class Shell:
    """Runs blocks of commands in a folder."""

    def __init__(self, folder: Path) -> None:
        address = folder / "socket"
        for name in ("focat", "torchrun"):
            client = folder / name
            client.write_text(_CLIENT.format(python=sys.executable, address=str(address)))
            client.chmod(0o755)
        path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "COLUMNS": "200", "PYTHONPATH": str(ROOT)}
        words = [sys.executable, "-m", __name__, str(address)]
        self._server = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True)
        assert self._server.stdout is not None
        self._server.stdout.readline()

    def run(self, block: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run the lines of a block up to the first that fails."""
        words = ["bash", "-euo", "pipefail", "-c", block]
        return subprocess.run(
            words,
            cwd=folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def close(self) -> None:
        """Stop the server and its children."""
        os.killpg(self._server.pid, signal.SIGTERM)
        self._server.wait()


def serve(address: str) -> None:
    """Import everything, then fork for each client."""
    import matplotlib.figure
    import sacrebleu  # noqa: F401

    import focat.analysis.analyse
    import focat.api
    import focat.cli
    import focat.evaluation.contrast
    import focat.experiments.command
    import focat.reporting.page
    import focat.reporting.terminal.analysis
    import focat.training.trainer

    with mock.patch.object(sys, "argv", ["focat", "config"]), redirect_stdout(io.StringIO()), suppress(SystemExit):
        focat.cli.main()  # the first command builds all commands
    matplotlib.figure.Figure().add_subplot().figure.savefig(io.BytesIO(), format="svg")  # the first plot reads fonts
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        while True:
            client, _ = server.accept()
            if os.fork() == 0:
                _run_command(client)
            client.close()


def _run_command(client: socket.socket) -> None:
    """Run the command of a client in this process, then exit."""
    from focat.cli import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, descriptors, _, _ = socket.recv_fds(client, 65536, 3)
    assert len(message) == 4 + int.from_bytes(message[:4], "big")
    words, folder = json.loads(message[4:])
    for here, there in zip(descriptors, (0, 1, 2), strict=True):
        os.dup2(here, there)
    os.chdir(folder)
    if Path(words[0]).name == "torchrun":  # one process instead of many
        words = words[words.index("focat") :]
    sys.argv = ["focat", *words[1:], *FASTER.get(words[1], []) * (len(words) > 2 or words[1] == "doctor")]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        client.sendall(bytes([code]))
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
