"""A campaign: worker processes that kill and fuzz until the time is up, and a table of what they did and found."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from itertools import count
from pathlib import Path

from tests.soak.fuzz_kinds import KINDS
from tests.soak.fuzzing import Finding, run_batch
from tests.soak.kill_kinds import KILLED
from tests.soak.killing import KILLS, kill_case
from tests.soak.processes import Child, fork
from tests.soak.seeds import Seeds

_KILLING_SHARE = 0.4  # of the time of each worker
Turns = dict[str, Iterator[list[int]]]
"""A kind, and the numbers of its cases."""


@dataclass
class Totals:
    """What was done of a kind."""

    runs: int = 0
    kills: int = 0
    inputs: int = 0
    accepted: int = 0
    """Inputs that a command took, with exit code 0; the others are refused in a line."""
    findings: int = 0

    def add(self, other: Totals) -> None:
        self.runs += other.runs
        self.kills += other.kills
        self.inputs += other.inputs
        self.accepted += other.accepted
        self.findings += other.findings


@dataclass
class Report:
    """All that workers did and found."""

    totals: dict[str, Totals] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def total(self) -> Totals:
        """The sums over all kinds."""
        total = Totals()
        for each in self.totals.values():
            total.add(each)
        return total

    def table(self, markdown: bool = False) -> str:
        """A line for each kind, and the sums."""
        names = ("kind", *(each.name for each in fields(Totals)))
        rows = [*sorted(self.totals.items()), ("all", self.total)]
        cells = [names, *((kind, *(f"{n:,}" for n in asdict(t).values())) for kind, t in rows)]
        if markdown:
            lines = [f"| {' | '.join(row)} |" for row in cells]
            return "\n".join([lines[0], "|---|" + "---:|" * (len(names) - 1), *lines[1:]])
        return "\n".join(f"{row[0]:24}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in cells)

    def problems(self) -> dict[tuple[str, str], list[Finding]]:
        """Findings by kind and problem."""
        found: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            found.setdefault((finding.kind, finding.problem), []).append(finding)
        return found


def read_report(folders: Sequence[Path]) -> Report:
    """What was done and found in all campaigns that had these folders, also if they were interrupted."""
    report = Report()
    for path in (path for folder in folders for path in sorted((folder / "work").glob("*.jsonl"))):
        for line in path.read_text().splitlines():
            if line.endswith("}"):  # or it is still being written
                record = json.loads(line)
                report.totals.setdefault(record["kind"], Totals()).add(Totals(**record["totals"]))
                report.findings += [Finding(**finding) for finding in record["findings"]]
    return report


def run_campaign(
    seed: int,
    seeds: Seeds,
    out: Path,
    workers: int,
    seconds: float | None,
    kinds: Sequence[str] = (),
    cases: int | None = None,
    kills: int = KILLS,
) -> Report:
    """Kill and fuzz in several processes.

    Args:
        seed: all cases are derived from it.
        seeds: the files to start from.
        out: where workers work, and where findings are kept.
        workers: processes at the same time.
        seconds: when to stop; None ends with the cases.
        kinds: only these; all if empty.
        cases: of each kind and worker, at most; None ends with the time.
        kills: of each command that is killed.
    """
    (out / "work").mkdir(parents=True, exist_ok=True)
    for older in (out / "work").glob("*.jsonl"):
        older.unlink()
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    logs = [out / "work" / f"{worker}.jsonl" for worker in range(workers)]
    children = []
    for worker, log in enumerate(logs):
        log.write_bytes(b"")
        log.with_suffix(".txt").write_bytes(b"")
        killing, fuzzing = (_turns(sizes, kinds, worker, workers, cases) for sizes in (KILLED, KINDS))
        each = Worker(seed, seeds, out / "work" / str(worker), out / "findings", log, deadline, kills)
        children.append(fork(partial(each.work, killing, fuzzing), log.with_suffix(".txt")))
    try:
        _wait(children, out)
    finally:
        for child in children:
            child.end()
    report = read_report([out])
    for child in children:
        if child.code != 0:
            report.findings.append(Finding("worker", 0, f"exit code {child.code}: {child.output[-500:]}"))
    return report


@dataclass(frozen=True)
class Worker:
    """A process that kills and fuzzes."""

    seed: int
    seeds: Seeds
    folder: Path
    """Where it works."""
    findings: Path
    log: Path
    deadline: float
    kills: int

    def work(self, killing: Turns, fuzzing: Turns) -> int:
        """Spend a fixed share of the time on kills, with the same time for each kind; fuzz the kinds in rounds."""
        spent = dict.fromkeys((*killing, *fuzzing), 0.0)
        rounds = dict.fromkeys(fuzzing, 0)
        while spent and time.monotonic() < self.deadline:
            killed = sum(seconds for kind, seconds in spent.items() if kind in killing)
            behind = killed <= _KILLING_SHARE * sum(spent.values())
            kinds = [kind for kind in spent if (kind in killing) == behind] or list(spent)
            kind = min(kinds, key=lambda kind: spent[kind] if kind in killing else rounds[kind])
            numbers = next((killing.get(kind) or fuzzing[kind]), None)
            if numbers is None:
                del spent[kind]
                continue
            began = time.monotonic()
            if kind in killing:
                self._kill(kind, numbers)
            else:
                self._fuzz(kind, numbers)
                rounds[kind] += 1
            spent[kind] += time.monotonic() - began
        shutil.rmtree(self.folder, ignore_errors=True)
        return 0

    def _kill(self, kind: str, numbers: Sequence[int]) -> None:
        for number in numbers:
            if time.monotonic() < self.deadline:
                kills, found = kill_case(self.seed, kind, number, self.seeds, self.folder, self.findings, self.kills)
                self._record(kind, Totals(runs=1, kills=kills), found)

    def _fuzz(self, kind: str, numbers: Sequence[int]) -> None:
        accepted, found = run_batch(self.seed, kind, numbers, self.seeds, self.folder, self.findings)
        self._record(kind, Totals(runs=len(numbers), inputs=len(numbers), accepted=accepted), found)

    def _record(self, kind: str, totals: Totals, found: Sequence[Finding]) -> None:
        totals.findings = len({finding.number for finding in found})
        record = {"kind": kind, "totals": asdict(totals), "findings": [asdict(finding) for finding in found]}
        with self.log.open("a") as file:
            file.write(json.dumps(record) + "\n")


def _turns(
    sizes: Mapping[str, tuple[object, int]], kinds: Sequence[str], worker: int, workers: int, cases: int | None
) -> Turns:
    """For each kind, batches of the numbers of the cases that are this worker's; once if `cases` is given."""
    chosen = {kind: size for kind, (_, size) in sizes.items() if not kinds or kind in kinds}
    return {kind: _numbers(size, worker, workers, cases) for kind, size in chosen.items()}


def _numbers(size: int, worker: int, workers: int, cases: int | None) -> Iterator[list[int]]:
    for turn in count() if cases is None else range(1):
        take = size if cases is None else min(size, cases)
        yield [worker + workers * (turn * size + i) for i in range(take)]


def _wait(children: Sequence[Child], out: Path) -> None:
    """Until all have ended, with a line about what was done from time to time."""
    said = time.monotonic()
    while any(child.running() for child in children):
        time.sleep(0.05)
        if time.monotonic() - said > 30:
            said = time.monotonic()
            done = read_report([out]).total
            print(f"{done.kills:,} kills, {done.inputs:,} inputs, {done.findings:,} findings", flush=True)
