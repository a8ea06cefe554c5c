"""Working on a plan for a while: one system after the other, or one on each GPU, until all is done or time is up.

Whatever ends a session, the next one goes on from there: a step's result appears whole or not at all, and training
goes on from its last checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from focat.errors import FocatError
from focat.experiments.experiment import SystemWork, Workshop
from focat.experiments.results import Step
from focat.files import disk_errors
from focat.progress import Progress
from focat.training.trainer import Interrupted

UNFINISHED = 3  # exit code: time was up, and the same command goes on
_FAILED = 1
_AGAIN = 0.5  # seconds until training is told once more to stop: the first time it may not have been listening yet


class Stopped(BaseException):
    """A signal arrived outside of training, which would have saved first."""


class Clock:
    """When a session has to end, by its minutes or by a signal."""

    def __init__(self, minutes: float | None = None) -> None:
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        self.signal: int | None = None
        self._training = False

    @property
    def over(self) -> bool:
        """Whether nothing more should be begun."""
        return self.signal is not None or (self._end is not None and time.monotonic() >= self._end)

    @property
    def minutes_left(self) -> float | None:
        """Until the end, if there is one."""
        return None if self._end is None else max(0.0, (self._end - time.monotonic()) / 60)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGTERM ends the session: at once, or as soon as training has saved."""

        def note(number: int, _: FrameType | None) -> None:
            self.signal = number
            if not self._training:
                raise Stopped

        before = signal.signal(signal.SIGTERM, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    @contextmanager
    def training(self) -> Iterator[None]:
        """While training: tell it to save and stop when the session is over."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_AGAIN):
                if self.over:
                    os.kill(os.getpid(), signal.SIGTERM)

        watcher = threading.Thread(target=watch, daemon=True)
        self._training = True
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
            self._training = False


@dataclass
class Outcome:
    """How a session ended."""

    failures: dict[str, str] = field(default_factory=dict)  # system and seed → what went wrong
    unfinished: bool = False
    signal: int | None = None

    @property
    def exit_code(self) -> int:
        """0: all is done; 1: something failed; 3: time was up."""
        if self.signal is not None:
            return 128 + self.signal
        return _FAILED if self.failures else UNFINISHED if self.unfinished else 0


def chosen_work(workshop: Workshop, only: Sequence[str]) -> list[SystemWork]:
    """The work to do, origins before those that start from them; of an origin that was not chosen, only training."""
    for name in only:
        if name not in workshop.plan.systems:
            there = ", ".join(workshop.plan.systems)
            raise FocatError(f"--only {name}: there is no such system in the plan (there are: {there})")
    everything = {(work.system, work.seed): work for work in workshop.all_work()}
    chosen: dict[tuple[str, int], SystemWork] = {}
    for key, work in everything.items():
        if only and work.system not in only:
            continue
        line = [key]
        while (origin := workshop.plan.systems[line[0][0]].init_from) is not None:
            line.insert(0, (origin, work.seed))
        chosen |= {place: everything[place] for place in line if place not in chosen}
    return list(chosen.values())


def steps_of(work: SystemWork, only: Sequence[str]) -> list[Step]:
    """What is wanted of it."""
    return [work.trained] if only and work.system not in only else list(work.steps())


def work_in_turn(works: Sequence[SystemWork], only: Sequence[str], clock: Clock, progress: Progress) -> Outcome:
    """One after the other, in this process; a failure ends the work on its system and on those that start from it."""
    outcome = Outcome()
    total = sum(len(steps_of(work, only)) for work in works)
    number = 0
    with clock.listening():
        try:
            for work in works:
                steps = steps_of(work, only)
                number += len(steps)
                if work.origin is not None and str(work.origin) in outcome.failures:
                    outcome.failures[str(work)] = f"not begun, because {work.origin} failed"
                    continue
                for i, step in enumerate(steps):
                    if work.result(step) is not None:
                        continue
                    if clock.over:
                        outcome.unfinished = True
                        break
                    progress.log(f"\n[{number - len(steps) + i + 1} of {total}] {step}")
                    try:
                        _do(work, step, clock)
                    except Interrupted as stopped:
                        progress.log(str(stopped))
                        outcome.unfinished = True
                        if not clock.over:  # training took the signal, and it is meant for all that is left
                            clock.signal = stopped.exit_code - 128
                        break
                    except Exception as error:
                        outcome.failures[str(work)] = _failure(work, step, error)
                        progress.log(f"{step} failed: {outcome.failures[str(work)]}")
                        break
        except Stopped:
            outcome.unfinished = True
    outcome.signal = clock.signal if clock.minutes_left != 0 else None
    return outcome


def _do(work: SystemWork, step: Step, clock: Clock) -> None:
    if step.kind == "train":
        with clock.training():
            work.do(step)
    else:
        work.do(step)


def _failure(work: SystemWork, step: Step, error: Exception) -> str:
    """In one line; the whole story of what nobody expected is kept in a file."""
    if isinstance(error, FocatError):
        return str(error)
    path = work.workshop.folder / "logs" / f"{step.file.removesuffix('.json')}.error.txt"
    with suppress(FocatError), disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]} (see {path})"


# ------------------------------------------------------------------------------------------------ many at the same time


def devices(jobs: int | None) -> list[str | None]:
    """Where to work at the same time: a GPU each, by its number as the system counts; None is wherever."""
    import torch

    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    numbers = [number.strip() for number in visible.split(",")] if visible else [str(i) for i in range(count)]
    places: list[str | None] = [*numbers[:count]] or [None]
    return [places[i % len(places)] for i in range(jobs or len(places))]


def work_at_once(
    works: Sequence[SystemWork],
    only: Sequence[str],
    places: Sequence[str | None],
    command: Sequence[str],
    clock: Clock,
    progress: Progress,
) -> Outcome:
    """Each system in a process of its own, as many at a time as there are places.

    `command` is what such a process runs; it gets the system, the seed and the minutes that are left.
    """
    outcome = Outcome()
    waiting = [work for work in works if any(work.result(step) is None for step in steps_of(work, only))]
    running: dict[int, _Worker] = {}
    with clock.listening():
        try:
            while waiting or running:
                for place, worker in list(running.items()):
                    if worker.ended:
                        del running[place]
                        _account(worker, outcome, progress)
                for work in list(waiting):
                    free = [place for place in range(len(places)) if place not in running]
                    if clock.over or not free:
                        break
                    if work.origin is not None and str(work.origin) in outcome.failures:
                        outcome.failures[str(work)] = f"not begun, because {work.origin} failed"
                        waiting.remove(work)
                    elif work.origin is None or work.origin.result(work.origin.trained) is not None:
                        waiting.remove(work)
                        running[free[0]] = _Worker(work, only, places[free[0]], command, clock, progress)
                        names = ", ".join(str(worker.work) for worker in running.values())
                        progress.log(f"running: {names}; waiting: {len(waiting)}")
                if waiting and not running and clock.over:
                    outcome.unfinished = True
                    break
                if waiting and not running:  # nothing will ever start them
                    reason = "not begun, because what it starts from was not trained"
                    outcome.failures |= {str(work): reason for work in waiting}
                    break
                time.sleep(0.2)
        except (Stopped, KeyboardInterrupt) as stopped:
            clock.signal = clock.signal or (signal.SIGINT if isinstance(stopped, KeyboardInterrupt) else signal.SIGTERM)
            outcome.unfinished = True
        finally:
            for worker in running.values():
                worker.stop()
            for worker in running.values():
                worker.process.wait()
    outcome.signal = clock.signal
    return outcome


class _Worker:
    """A process that works on one system; what it says goes through, with the system's name in front."""

    def __init__(
        self,
        work: SystemWork,
        only: Sequence[str],
        place: str | None,
        command: Sequence[str],
        clock: Clock,
        progress: Progress,
    ) -> None:
        self.work, self.last = work, ""
        part = f"{work.system}:{work.seed}" + (":train" if only and work.system not in only else "")
        words = [*command, "--part", part]
        if clock.minutes_left is not None:
            words += ["--minutes", f"{clock.minutes_left:.4f}"]
        environment = {**os.environ} if place is None else {**os.environ, "CUDA_VISIBLE_DEVICES": place}
        self.process = subprocess.Popen(
            words, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, args=(progress,), daemon=True)
        self._reader.start()

    @property
    def ended(self) -> bool:
        """Whether it has ended, and everything it said was read."""
        return self.process.poll() is not None and not self._reader.is_alive()

    def stop(self) -> None:
        """Ask it to save and end."""
        with suppress(ProcessLookupError):
            self.process.terminate()

    def _read(self, progress: Progress) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.strip():
                self.last = line.strip()
                progress.log(f"{self.work.system}-seed{self.work.seed} | {line.rstrip()}")


def _account(worker: _Worker, outcome: Outcome, progress: Progress) -> None:
    code = worker.process.returncode
    if code == 0:
        progress.log(f"{worker.work}: done")
    elif code in (UNFINISHED, 128 + signal.SIGTERM, 128 + signal.SIGINT, -signal.SIGTERM, -signal.SIGINT):
        outcome.unfinished = True
    else:
        said = worker.last.removeprefix("focat: ").removeprefix(f"{worker.work}: ")
        reason = said or f"ended with exit code {code}"
        outcome.failures[str(worker.work)] = reason


def work_on_part(workshop: Workshop, part: str, clock: Clock, progress: Progress) -> Outcome:
    """What a worker does: one system and seed; it ends with whoever started it."""
    system, seed, *training = part.split(":")
    work = workshop.work(system, int(seed))
    _end_with_parent(clock)
    return work_in_turn([work], ["-"] if training else (), clock, progress)


def _end_with_parent(clock: Clock) -> None:
    """A worker's input ends when its parent does, however that happens; then it saves and ends too."""

    def wait() -> None:
        sys.stdin.read()
        clock.signal = signal.SIGTERM
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def worker_command(plan: str, folder: Path, overrides: Sequence[Any]) -> list[str]:
    """The command line of a worker, without its part."""
    return [sys.executable, "-m", "focat", "reproduce", plan, *map(str, overrides), "--folder", str(folder)]
