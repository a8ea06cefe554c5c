"""How fast focat trains on a busy machine: the demo's systems, alone and beside processes that never rest, in one run.

    python -m benchmarks.busy_machine
    python -m benchmarks.busy_machine --rounds 7 --other passive:OMP_WAIT_POLICY=PASSIVE --other one:OMP_NUM_THREADS=1

Every measurement is a `focat train` of its own; its figure is the median of the tokens/s in its log, without the first
lines. `spinning` is training with OpenMP's own settings, as before focat set any: a thread on each core, which spins
while it waits for the others. `focat` is training as focat sets it up (`limit_spinning` in focat/hardware.py). `demo`
is three trainings at the same time that share the cores, each in a session of its own, as those of `focat demo`; their
tokens/s are added up. `together` is the same three in one session, as `focat demo` had them before.

Linux shares the cores among sessions first (autogroups), then among the threads of a session. The busy processes are in
the session of the benchmark, as if started in the same terminal; with --terminals each has its own.

Measurements of all kinds take turns, and the table gives medians over the rounds, so that a machine whose speed varies
favours none of them. With each measurement stands the share of the machine that processes took which are no part of it
(Linux): a figure means little where that is more than a few per cent.

All processes share two cores. On a machine with more, focat does not see that these two are busy, because others are
free: there, give --cores and --loops the number of all cores.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from focat.config import load_settings
from focat.corpus.prepare import prepare
from focat.hardware import cores, hardware, share_of_cores
from focat.progress import Progress

_LOG_EVERY = 20  # updates
_WARM_UP = 2  # lines of the log that are left out
_DEMO = 3  # systems
_OPENMP = ("OMP_", "GOMP_", "KMP_", "MKL_")
_BUSY_LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:  # it never outlives the benchmark
    for _ in range(100_000):
        pass
"""


@dataclass(frozen=True)
class Kind:
    """A way to train: variables of the environment, and how many processes at the same time."""

    variables: dict[str, str]
    processes: int = 1
    sessions: bool = False  # each process has a session of its own


def main() -> None:
    options = _options().parse_args()
    usable = sorted(os.sched_getaffinity(0))[: options.cores]
    os.sched_setaffinity(0, usable)  # and so for every process that is started from here
    threads = {"OMP_NUM_THREADS": str(len(usable))}
    kinds = {
        "spinning": Kind({**threads, "GOMP_SPINCOUNT": "300000"}),  # libgomp's number, if none is given
        "focat": Kind({}),
        "demo": Kind({"OMP_NUM_THREADS": str(share_of_cores(_DEMO))}, _DEMO, sessions=True),
        "together": Kind({"OMP_NUM_THREADS": str(share_of_cores(_DEMO))}, _DEMO),
    }
    for other in options.other:
        name, _, variables = other.partition(":")
        kinds[name] = Kind(dict(variable.split("=", 1) for variable in variables.split(",")))
    kinds = {name: kind for name, kind in kinds.items() if name not in options.without}
    found: dict[str, dict[str, list[float]]] = {name: {"alone": [], "busy": []} for name in kinds}
    print(f"{hardware()}; {len(usable)} used, {options.loops} busy loops", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        prepare(load_settings(Path("focat:demo"), [f"data.store={store}"]).data, Progress(None))
        for round in range(options.rounds):
            for name, kind in kinds.items():
                for condition, loops in (("alone", 0), ("busy", options.loops)):
                    before, began = _seconds_of_others(), time.monotonic()
                    with _busy(loops, options.terminals):
                        rate = _tokens_per_second(store, kind, options.updates)
                    seconds = (time.monotonic() - began) * (os.cpu_count() or 1)
                    others = (_seconds_of_others() - before) / seconds
                    found[name][condition].append(rate)
                    line = f"round {round + 1}  {name:12} {condition:6} {rate:>8,.0f} tokens/s"
                    print(f"{line}, {others:>4.0%} taken by others", flush=True)
    print("\n| | alone, tokens/s | busy, tokens/s | busy / alone |\n|---|---|---|---|")
    for name, rates in found.items():
        alone, busy = median(rates["alone"]), median(rates["busy"])
        print(f"| {name} | {alone:,.0f} | {busy:,.0f} | {busy / alone:.0%} |")
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _busy(loops: int, sessions: bool) -> Iterator[None]:
    """Run so many processes that never rest, each in a session of its own or all in this one."""
    command = [sys.executable, "-c", _BUSY_LOOP]
    running = [subprocess.Popen(command, start_new_session=sessions) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def _seconds_of_others() -> float:
    """Processor time of this machine that neither this process nor those it has started and awaited have used."""
    try:
        fields = Path("/proc/stat").read_text(encoding="utf-8").split()[1:8]
    except OSError:
        return 0.0
    user, nice, system, _, _, irq, softirq = map(int, fields)  # the other two are idle and waiting for disks
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ours = sum(usage.ru_utime + usage.ru_stime for usage in used)
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK") - ours


def _tokens_per_second(store: Path, kind: Kind, updates: int) -> float:
    """Train the demo's system for so many updates, with the variables of this kind and no others of OpenMP."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OPENMP)} | kind.variables
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder) / f"run{number}" for number in range(kind.processes)]
        running = []
        for run in runs:
            settings = [
                *(f"data.store={store}", f"training.output_dir={run}", "training.device=cpu"),
                *(f"training.budget.updates={updates}", f"training.log_every={_LOG_EVERY}"),
                *(f"training.validate_every={updates + 1}", "training.log_samples=0", "training.save_minutes=1000"),
            ]
            command = [sys.executable, "-m", "focat", "train", "focat:demo", *settings]
            running.append(
                subprocess.Popen(
                    command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=kind.sessions
                )
            )
        for process in running:
            _, errors = process.communicate()
            if process.returncode:
                sys.exit(errors)
        return sum(map(_median_rate, runs))


def _median_rate(run: Path) -> float:
    log = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    rates = [record["tokens_per_second"] for record in log if record["kind"] == "train"]
    return median(rates[_WARM_UP:])


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Training speed beside processes that never rest.")
    parser.add_argument("--updates", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=min(2, cores()))
    parser.add_argument("--loops", type=int, default=2)
    parser.add_argument("--without", action="append", default=[], help="a kind that is not to be measured")
    parser.add_argument("--terminals", action="store_true", help="start each busy process in a session of its own")
    parser.add_argument("--other", action="append", default=[], help="NAME:VARIABLE=VALUE,…: more to measure")
    parser.add_argument("--json", help="also write every measurement to this file")
    return parser


if __name__ == "__main__":
    main()
