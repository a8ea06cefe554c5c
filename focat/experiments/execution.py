"""Runs the steps of a plan: one system after the other, or several at once, until all are done or time is up.

Whatever ends a session, the next one continues: a step's result is written atomically, and training continues from its
last checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from types import FrameType

from focat.errors import FocatError, ParameterError
from focat.experiments.experiment import Experiment
from focat.experiments.results import Step
from focat.experiments.tasks import SystemTasks, all_tasks
from focat.files import disk_errors
from focat.hardware import share_of_cores
from focat.progress import Progress
from focat.training.signals import Interrupted, ending_signals

EXIT_FAILED, EXIT_UNFINISHED = 1, 3
_SIGNAL_INTERVAL = 0.5  # seconds between signals to training, which may not have installed its handler yet
_POLL_INTERVAL = 0.2  # seconds
_THREADS = "OMP_NUM_THREADS"


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived outside of training, which would have saved first."""


class Deadline:
    """When a session has to end: after some minutes, or at a signal."""

    def __init__(self, minutes: float | None = None) -> None:
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        self.signal: int | None = None
        self._training = False

    @property
    def passed(self) -> bool:
        """Whether no further step should start."""
        return self.signal is not None or (self._end is not None and time.monotonic() >= self._end)

    @property
    def minutes_left(self) -> float | None:
        """Minutes until the end, if there is one."""
        return None if self._end is None else max(0.0, (self._end - time.monotonic()) / 60)

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """SIGTERM and the end of the terminal end the session: at once, or as soon as training has saved."""

        def handler(number: int, _: FrameType | None) -> None:
            self.signal = number
            if not self._training:
                raise Terminated

        before = {number: signal.signal(number, handler) for number in ending_signals()}
        try:
            yield
        finally:
            for number, earlier in before.items():
                signal.signal(number, earlier)

    @contextmanager
    def interrupt_training(self) -> Iterator[None]:
        """While training runs, signal it to save and stop when the deadline has passed."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_SIGNAL_INTERVAL):
                if self.passed:
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
class SessionOutcome:
    """How a session ended."""

    failures: dict[str, str] = field(default_factory=dict)
    """By system and seed, the error."""
    unfinished: bool = False
    signal: int | None = None

    @property
    def exit_code(self) -> int:
        """0: all steps are done; 1: a system failed; 3: time was up."""
        if self.signal is not None:
            return 128 + self.signal
        return EXIT_FAILED if self.failures else EXIT_UNFINISHED if self.unfinished else 0

    def parent_failed(self, tasks: SystemTasks) -> bool:
        """Whether a system cannot start because its parent failed; then it is a failure too."""
        if tasks.parent is None or str(tasks.parent) not in self.failures:
            return False
        self.failures[str(tasks)] = f"not started, because {tasks.parent} failed"
        return True


def selected_tasks(experiment: Experiment, only: Sequence[str]) -> list[SystemTasks]:
    """The systems to work on, parents before their children.

    Args:
        experiment: the experiment.
        only: names of systems; all if empty. Of parents that are not named, only training runs.
    """
    for name in only:
        if name not in experiment.plan.systems:
            known = ", ".join(experiment.plan.systems)
            raise ParameterError("only", name, f"there is no such system in the plan (there are: {known})")
    everything = {(tasks.system, tasks.seed): tasks for tasks in all_tasks(experiment)}
    selected: dict[tuple[str, int], SystemTasks] = {}
    for key, tasks in everything.items():
        if only and tasks.system not in only:
            continue
        lineage = [key]
        while (parent := experiment.plan.systems[lineage[0][0]].init_from) is not None:
            lineage.insert(0, (parent, tasks.seed))
        selected |= {ancestor: everything[ancestor] for ancestor in lineage if ancestor not in selected}
    return list(selected.values())


def selected_steps(tasks: SystemTasks, only: Sequence[str]) -> list[Step]:
    """The selected steps of a system."""
    return [tasks.training] if only and tasks.system not in only else list(tasks.steps())


def run_sequential(
    systems: Sequence[SystemTasks], only: Sequence[str], deadline: Deadline, progress: Progress
) -> SessionOutcome:
    """Run all missing steps in this process; a failure ends its system and those that start from it."""
    outcome = SessionOutcome()
    total = sum(len(selected_steps(tasks, only)) for tasks in systems)
    number = 0
    with deadline.handle_signals():
        try:
            for tasks in systems:
                steps = selected_steps(tasks, only)
                first, number = number + 1, number + len(steps)
                if outcome.parent_failed(tasks):
                    continue
                for i, step in enumerate(steps, first):
                    if tasks.result(step) is not None:
                        continue
                    if deadline.passed:
                        outcome.unfinished = True
                        break
                    progress.log(f"\n[{i} of {total}] {step}")
                    try:
                        with deadline.interrupt_training() if step.kind == "train" else nullcontext():
                            tasks.run_step(step)
                    except Interrupted as interrupted:
                        progress.log(str(interrupted))
                        outcome.unfinished = True
                        if not deadline.passed:  # training received the signal, which is meant for the whole session
                            deadline.signal = interrupted.exit_code - 128
                        break
                    except Exception as error:
                        outcome.failures[str(tasks)] = _describe_failure(tasks, step, error)
                        progress.log(f"{step} failed: {outcome.failures[str(tasks)]}")
                        break
        except Terminated:
            outcome.unfinished = True
    outcome.signal = deadline.signal if deadline.minutes_left != 0 else None
    return outcome


def _describe_failure(tasks: SystemTasks, step: Step, error: Exception) -> str:
    """An error in one line; the traceback of an unexpected one is written to a file."""
    if isinstance(error, FocatError):
        return str(error)
    path = tasks.experiment.folder / "logs" / f"{step.id}.error.txt"
    with suppress(FocatError), disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]} (see {path})"


# ------------------------------------------------------------------------------------------------- parallel processes


def visible_devices(jobs: int | None) -> list[str | None]:
    """A device for each process, as CUDA_VISIBLE_DEVICES; None where there is no GPU.

    Args:
        jobs: how many processes; one for each GPU if None.
    """
    import torch

    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    numbers = [number.strip() for number in visible.split(",")] if visible else [str(i) for i in range(count)]
    devices: list[str | None] = [*numbers[:count]] or [None]
    return [devices[i % len(devices)] for i in range(jobs or len(devices))]


def run_parallel(
    systems: Sequence[SystemTasks],
    only: Sequence[str],
    devices: Sequence[str | None],
    command: Sequence[str],
    deadline: Deadline,
    progress: Progress,
) -> SessionOutcome:
    """Run each system in a process of its own, one on each device at a time; without GPUs, they share the cores.

    Args:
        systems: what to run.
        only: as of `selected_tasks`.
        devices: as `visible_devices` returns them.
        command: the command line of a process, without its system, seed and minutes.
        deadline: when to stop.
        progress: where the output of the processes goes.
    """
    outcome = SessionOutcome()
    waiting = [t for t in systems if any(t.result(step) is None for step in selected_steps(t, only))]
    running: dict[int, _Worker] = {}  # by index of the device
    environments = [_environment(device, len(devices)) for device in devices]
    with deadline.handle_signals(), _suspended_together(running):
        try:
            while waiting or running:
                for device, worker in list(running.items()):
                    if worker.ended:
                        del running[device]
                        worker.report_to(outcome, progress)
                for tasks in list(waiting):
                    free = [device for device in range(len(devices)) if device not in running]
                    if deadline.passed or not free:
                        break
                    if outcome.parent_failed(tasks):
                        waiting.remove(tasks)
                    elif tasks.parent is None or tasks.parent.trained is not None:
                        waiting.remove(tasks)
                        running[free[0]] = _Worker(tasks, only, environments[free[0]], command, deadline, progress)
                        names = ", ".join(str(worker.tasks) for worker in running.values())
                        progress.log(f"running: {names}; waiting: {len(waiting)}")
                if waiting and not running:
                    outcome.unfinished = deadline.passed
                    if not deadline.passed:  # the parents of all that wait have ended without a result
                        reason = "not started, because the system that it starts from was not trained"
                        outcome.failures |= {str(tasks): reason for tasks in waiting}
                    break
                time.sleep(_POLL_INTERVAL)
        except (Terminated, KeyboardInterrupt) as stop:
            deadline.signal = deadline.signal or (
                signal.SIGINT if isinstance(stop, KeyboardInterrupt) else signal.SIGTERM
            )
            outcome.unfinished = True
        finally:
            for worker in running.values():
                with suppress(ProcessLookupError):
                    worker.process.terminate()
            for worker in running.values():
                worker.process.wait()
    outcome.signal = deadline.signal
    return outcome


def _environment(device: str | None, processes: int) -> dict[str, str]:
    """The environment of one of so many processes: its GPU, or without one its share of the cores."""
    if device is not None:
        return {**os.environ, "CUDA_VISIBLE_DEVICES": device}
    return {_THREADS: str(share_of_cores(processes)), **os.environ}  # a user's own choice stays


@contextmanager
def _suspended_together(running: Mapping[int, _Worker]) -> Iterator[None]:
    """Suspend and continue the processes with this one: Ctrl-Z does not reach them in their sessions."""

    def send(number: int) -> None:
        for worker in running.values():
            worker.process.send_signal(number)

    def suspend(*_: object) -> None:
        send(signal.SIGSTOP)
        try:
            os.kill(os.getpid(), signal.SIGSTOP)  # returns when this process is continued, maybe to be ended
        finally:
            send(signal.SIGCONT)

    before = signal.getsignal(signal.SIGTSTP)
    if before == signal.SIG_DFL:
        signal.signal(signal.SIGTSTP, suspend)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


class _Worker:
    """A process that runs one system; its output is passed on with the system's name in front.

    It has a session of its own. Linux shares the cores evenly among sessions first (autogroups), so that each system is
    trained as fast beside other programs as if it had been started in a terminal of its own.
    """

    def __init__(
        self,
        tasks: SystemTasks,
        only: Sequence[str],
        environment: Mapping[str, str],
        command: Sequence[str],
        deadline: Deadline,
        progress: Progress,
    ) -> None:
        self.tasks, self.last_line = tasks, ""
        part = f"{tasks.system}:{tasks.seed}" + (":train" if only and tasks.system not in only else "")
        arguments = [*command, "--part", part]
        if deadline.minutes_left is not None:
            arguments += ["--minutes", f"{deadline.minutes_left:.4f}"]
        self.process = subprocess.Popen(
            arguments,
            env=environment,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(progress,), daemon=True)
        self._reader.start()

    @property
    def ended(self) -> bool:
        """Whether the process has ended and all of its output was read."""
        return self.process.poll() is not None and not self._reader.is_alive()

    def report_to(self, outcome: SessionOutcome, progress: Progress) -> None:
        """Add how the process ended to the outcome of the session."""
        code = self.process.returncode
        if code == 0:
            progress.log(f"{self.tasks}: done")
        elif code in (EXIT_UNFINISHED, 128 + signal.SIGTERM, 128 + signal.SIGINT, -signal.SIGTERM, -signal.SIGINT):
            outcome.unfinished = True
        else:
            error = self.last_line.removeprefix("focat: ").removeprefix(f"{self.tasks}: ")
            outcome.failures[str(self.tasks)] = error or f"ended with exit code {code}"

    def _read(self, progress: Progress) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.strip():
                self.last_line = line.strip()
                progress.log(f"{self.tasks.system}-seed{self.tasks.seed} | {line.rstrip()}")


def run_worker(experiment: Experiment, part: str, deadline: Deadline, progress: Progress) -> SessionOutcome:
    """What a process of `run_parallel` does: run one system and seed, and end when its parent process ends.

    Args:
        experiment: the experiment, whose folder the parent process has locked.
        part: SYSTEM:SEED, with :train behind it for training alone.
        deadline: when to stop.
        progress: where output goes.
    """
    system, seed, *training = part.split(":")

    def end_with_parent() -> None:
        sys.stdin.read()  # a pipe that closes when the parent ends, however that happens
        deadline.signal = signal.SIGTERM
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()
    only = ["another system"] if training else []
    return run_sequential([SystemTasks(experiment, system, int(seed))], only, deadline, progress)
