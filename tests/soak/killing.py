"""Kills commands at random moments and runs them again, until they end: the result must be that of undisturbed ones.

Half of the kills come at a random moment of the time that the undisturbed command took, most of them by signal 9, some
by SIGTERM, SIGINT or SIGHUP; the other half before a random step on the disk (a file opened for writing, a rename, a
deletion).
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from focat.files import PARTIAL_SUFFIX
from tests.soak.fuzzing import Finding, problem_of_traceback, random_of
from tests.soak.kill_kinds import KILLED, Build, Outcome
from tests.soak.processes import Child, fork, run_command
from tests.soak.seeds import Seeds

KILLS = 8  # of a case
_LONGEST = 300.0  # seconds that a command may take, on however busy a machine
_GRACE = 2.0  # seconds that the others have when one of several processes has failed
_REFUSED, _DONE = 2, "exists; give another file"  # what `translate` says of an output that is there
_PLANTED = {  # files of the user, beside what the command writes, with names much like its own
    "notes.txt": "mine",
    "out.journal.bak": "mine",
    "store.older/mine.txt": "mine",
    "run.txt": "mine",
    "out.unfinished": "mine",
    "checkpoints/0000001/weights.safetensors": "mine",
}
_ASKED = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
_STOPPED = (3, *(128 + number for number in _ASKED), *(-number for number in _ASKED))


def kill_case(
    seed: int, kind: str, number: int, seeds: Seeds, work: Path, findings: Path, kills: int = KILLS
) -> tuple[int, list[Finding]]:
    """Run a case with at least so many kills: how many there were, and what was wrong."""
    shutil.rmtree(work / "kill", ignore_errors=True)
    session = _Session(random_of(seed, kind, number), KILLED[kind][0], seeds, work / "kill")
    try:
        problems = session.run(kills)
    finally:
        session.end()
    found = []
    if problems:
        kept = findings / f"{kind}-{number}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(work / "kill", kept, symlinks=True)
        (kept / "history.txt").write_text("\n".join(session.history) + "\n")
        found = [Finding(kind, number, problem, str(kept)) for problem in problems]
    return session.kills, found


class _Session:
    """A case while it runs: an undisturbed command in one folder, the one that is killed in others."""

    def __init__(self, draw: Random, build: Build, seeds: Seeds, work: Path) -> None:
        self._draw, self._seeds, self._work = draw, seeds, work
        self._pristine = work / "pristine"
        self._pristine.mkdir(parents=True)
        self._case = build(draw, seeds, self._pristine)
        (work / "command.txt").write_text(json.dumps(["focat", *self._case.arguments]) + "\n")
        self._running: list[Child] = []
        self.kills = 0
        self.history: list[str] = []

    def run(self, kills: int) -> list[str]:
        """What is wrong; empty if nothing is."""
        folder = self._folder("undisturbed")
        counter = self._work / "steps.txt"
        began = time.monotonic()
        codes = self._wait(self._start(folder, counter))
        duration = time.monotonic() - began
        problems = self._problems_of_end(codes, folder)
        if problems:
            return [f"undisturbed: {problem}" for problem in problems]
        expected = self._case.outcome(folder)
        steps = int(counter.read_text())
        while self.kills < kills:
            folder = self._folder("killed")
            problems = self._kill_until_it_ends(folder, duration, steps, expected)
            if problems:
                return problems
        return []

    def end(self) -> None:
        """Leave no process behind."""
        for child in self._running:
            child.end()

    def _folder(self, name: str) -> Path:
        """A fresh folder, whose path is as long each time, with the files of the command and those of the user."""
        folder = self._work / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._pristine, folder / "folder")
        for file, text in _PLANTED.items():
            (folder / "folder" / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / "folder" / file).write_text(text)
        self.history.append(f"{name}: begun")
        return folder / "folder"

    def _kill_until_it_ends(self, folder: Path, duration: float, steps: int, expected: Outcome) -> list[str]:
        for attempt in range(6):
            moment, die_at = None, None
            how = signal.SIGKILL
            if attempt < 5 and self._draw.random() < 0.5:
                die_at = self._draw.randint(1, max(1, steps))
            elif attempt < 5:
                moment = self._draw.uniform(0, duration)
                how = self._draw.choice((signal.SIGKILL,) * 4 + _ASKED)
            children = self._start(folder, None, die_at)
            if moment is not None:
                self._signal(children, moment, how)
            codes = self._wait(children)
            self.history.append(f"signal {how.name} after {moment} s, or before step {die_at}: exit codes {codes}")
            if None in codes:
                return ["does not end"]
            if all(code == 0 for code in codes):
                return self._problems_of_end(codes, folder) or self._differences(folder, expected)
            if codes == [_REFUSED] and _DONE in self._output():  # the last kill came after all was done
                return self._problems_of_end([0], folder) or self._differences(folder, expected)
            if die_at is None and moment is None:
                return self._problems_of_end(codes, folder)
            self.kills += 1
            problems = self._problems_of_kill(codes, how, folder, expected)
            if problems:
                return problems
        return []

    def _signal(self, children: Sequence[Child], moment: float, how: signal.Signals) -> None:
        """Send a signal to all processes, or to one of them."""
        late = time.monotonic() + moment
        while time.monotonic() < late and any(child.running() for child in children):
            time.sleep(min(0.002, max(0.0, late - time.monotonic())))
        some = children if how != signal.SIGKILL or self._draw.random() < 0.7 else [self._draw.choice(children)]
        for child in some:
            child.send(how)

    def _start(self, folder: Path, counter: Path | None = None, die_at: int | None = None) -> list[Child]:
        count = self._case.processes
        world = {"WORLD_SIZE": str(count), "MASTER_ADDR": "localhost", "MASTER_PORT": _free_port()} if count > 1 else {}
        output = self._work / "output.txt"
        output.unlink(missing_ok=True)

        def run(rank: int) -> Child:
            environment = {**world, "RANK": str(rank), "LOCAL_RANK": str(rank)} if count > 1 else {}
            here, last = (counter, die_at) if rank == 0 else (None, None)
            return fork(lambda: run_command(self._case.arguments, folder, here, last), output, environment)

        self._running = [run(rank) for rank in range(count)]
        return self._running

    def _wait(self, children: Sequence[Child]) -> list[int | None]:
        """The exit codes; None for a process that has not ended. When one fails, the others are ended, as by torchrun:
        they may wait for it for minutes."""
        _wait_for(children, _LONGEST, until_one_fails=True)
        if any(child.code for child in children):
            for signal_sent in (0, signal.SIGTERM, signal.SIGKILL):
                for child in children:
                    child.send(signal_sent)
                _wait_for(children, _GRACE)
        codes = [child.code for child in children]
        for child in children:
            child.end()
        return codes

    def _output(self) -> str:
        path = self._work / "output.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    def _problems_of_kill(self, codes: list[int | None], how: int, folder: Path, expected: Outcome) -> list[str]:
        problems = []
        text = self._output()
        if "Traceback (most recent call last)" in text and self._case.processes == 1:
            problems.append(f"after a signal: {problem_of_traceback(text)}")
        elif how != signal.SIGKILL and self._case.processes == 1 and codes[0] not in (0, *_STOPPED):
            problems.append(f"exit code {codes[0]} after signal {how}: {text.strip()[-200:]}")
        if self._case.check is not None:
            problems += self._case.check(folder, expected)
        return problems + self._lost(folder)

    def _problems_of_end(self, codes: list[int | None], folder: Path) -> list[str]:
        text = self._output()
        if "Traceback (most recent call last)" in text:
            return [problem_of_traceback(text)]
        if any(code != 0 for code in codes):
            return [f"exit codes {codes}: {text.strip()[-300:]}"]
        left = [str(path.relative_to(folder)) for path in folder.rglob("*") if PARTIAL_SUFFIX in path.name]
        left += [path.name for path in folder.glob("*.journal")]
        return [f"left over: {name}" for name in left[:3]] + self._lost(folder)

    def _lost(self, folder: Path) -> list[str]:
        """Files of the user that are not what they were."""
        problems = []
        for name, text in _PLANTED.items():
            path = folder / name
            if not path.exists() or path.read_text() != text:
                problems.append(f"{name}, a file of the user, is changed")
        return problems

    def _differences(self, folder: Path, expected: Outcome) -> list[str]:
        found = self._case.outcome(folder)
        wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
        if not wrong:
            return []
        details = {name: [expected.get(name), found.get(name)] for name in wrong}
        (self._work / "differences.json").write_text(json.dumps(details, indent=1, default=str))
        return [f"another result than of an undisturbed command: {', '.join(wrong)[:200]}"]


def _wait_for(children: Sequence[Child], seconds: float, until_one_fails: bool = False) -> None:
    late = time.monotonic() + seconds
    while [child for child in children if child.running()] and time.monotonic() < late:
        if until_one_fails and any(child.code for child in children):
            return
        time.sleep(0.002)


def _free_port() -> str:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return str(free.getsockname()[1])
