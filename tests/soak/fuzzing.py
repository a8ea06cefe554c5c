"""Runs fuzzed inputs, many in one child, and says what is wrong with what a command made of each.

A case is derived from (seed, kind, number) alone. What counts as a finding: an exit code other than 0 and 2, a
traceback, more than the allowed time or memory, a file of the user that is changed, a file that is half-written or left
over, and what the kind itself checks.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from random import Random

from focat.files import PARTIAL_SUFFIX
from tests.soak.fuzz_case import FuzzCase
from tests.soak.fuzz_kinds import KINDS
from tests.soak.processes import GIGABYTE, Child, call, fork, limit_memory, run_main
from tests.soak.seeds import Seeds

MEMORY = 3 * GIGABYTE  # that a case may take, over what the process has
PROCESSOR_SECONDS = 10.0  # of work that a case may take
CLOCK_SECONDS = 120.0  # the same by the clock, on however busy a machine
_ANSWER = 4000  # bytes that a child writes about a case: few enough to be written at once
_LONGEST_LINE = 2000  # characters of an error that a user can still read
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
_FRAME = re.compile(r'File "[^"]*?((?:focat|tests)/[^"]*)", line (\d+), in (\S+)')


FileStates = dict[str, tuple[int, int]]
"""Size and date of files."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong."""

    kind: str
    number: int
    problem: str
    """In a line; findings with the same problem are counted together."""
    folder: str = ""
    """Where its input and output are kept."""


def random_of(seed: int, kind: str, number: int) -> Random:
    """The random numbers of a case."""
    return Random(f"{seed}/{kind}/{number}")


def run_case(
    seed: int, kind: str, number: int, seeds: Seeds, folder: Path, output: Path, seeds_before: FileStates
) -> tuple[int, list[str]]:
    """Run a case in this process, whose output goes to a file; returns its exit code and what is wrong."""
    home = folder / "case"  # one level down, for paths that begin with ".."
    shutil.rmtree(folder, ignore_errors=True)
    home.mkdir(parents=True)
    case = KINDS[kind][0](random_of(seed, kind, number), seeds, home)
    command = folder / "command.txt"
    command.write_text(json.dumps(["focat", *case.arguments], ensure_ascii=False) + "\n", errors="surrogatepass")
    before = _contents(home)
    os.chdir(home)
    os.truncate(output, 0)
    code = run_main(case.arguments) if case.call is None else call(case.call)
    os.chdir("/")
    text = output.read_text(encoding="utf-8", errors="replace")
    problems = [*_problems_of_output(code, text), *_problems_of_files(case, code, before, _contents(home))]
    if states_of(seeds.folder) != seeds_before:
        problems.append("a file outside the folder of the case is changed")
    if case.check is not None and code in (0, 2):
        problems += case.check(code)
    problems = [problem[:300] for problem in problems[:5]]
    if problems:
        (folder / "output.txt").write_text(f"exit code {code}\n{text}", errors="surrogatepass")
    return code, problems


def _problems_of_output(code: int, text: str) -> list[str]:
    if "Traceback (most recent call last)" in text:
        return [problem_of_traceback(text)]
    if code not in (0, 2):
        return [f"exit code {code}: {text.strip()[-200:]}"]
    problems = []
    errors = [line for line in text.split("\n") if line.startswith("focat: ")]
    if code == 2 and len(errors) != 1:
        problems.append(f"exit code 2 with {len(errors)} lines of error")
    if any(_CONTROL.search(line) for line in errors):
        problems.append("control characters in a line of error")
    if any(len(line) > _LONGEST_LINE for line in errors):
        problems.append(f"a line of error with more than {_LONGEST_LINE:,} characters")
    return problems


def problem_of_traceback(text: str) -> str:
    """The last exception of an output and where in focat it was raised."""
    last = text[text.rindex("Traceback (most recent call last)") :]
    frames = [frame for frame in _FRAME.findall(last) if frame[0].startswith("focat/")]
    where = f" at {frames[-1][0]}:{frames[-1][1]}" if frames else ""
    # The name of the exception, and lines of its message that look alike.
    names = re.findall(r"^([A-Za-z_][\w.]*)(?::|$)", last, re.MULTILINE)
    name = next(iter(names), "exception")
    return f"{name}{where}"


def _problems_of_files(case: FuzzCase, code: int, before: dict[str, str], after: dict[str, str]) -> list[str]:
    def matches(name: str, patterns: Sequence[str]) -> bool:
        return any(fnmatch(name, pattern) for pattern in patterns)

    lost = [name for name in sorted(before) if before[name] != after.get(name) and not matches(name, case.replaces)]
    problems = [f"{_plain(name)} is {'changed' if name in after else 'gone'}" for name in lost]
    for name in sorted(after.keys() - before.keys()):
        if PARTIAL_SUFFIX in name:
            problems.append(f"{_plain(name)} is left over")
        elif not matches(name, case.creates):
            problems.append(f"{_plain(name)} was created")
        elif code == 2 and not matches(name, (*case.kept_if_refused, *case.replaces)):
            problems.append(f"{_plain(name)} is there though the command was refused")
    return problems


def _plain(name: str) -> str:
    """A name without numbers, so that the same problem of several cases is one."""
    return re.sub(r"\d{3,}", "N", name)[:80]


def _contents(folder: Path) -> dict[str, str]:
    """The digest of each file in a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def states_of(folder: Path | str) -> FileStates:
    """Size and date of each file, which is quicker than to read them."""
    states = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                states |= states_of(entry.path)
            else:
                state = entry.stat()
                states[entry.path] = (state.st_size, state.st_mtime_ns)
    return states


# ------------------------------------------------------------------------------------------------------------ batches


def run_batch(
    seed: int, kind: str, numbers: Sequence[int], seeds: Seeds, work: Path, findings: Path
) -> tuple[int, list[Finding]]:
    """Run cases one after the other in a child; a new one goes on behind a case that ended or blocked its child.

    Returns:
        How many inputs were accepted, and what was wrong.
    """
    accepted, found = 0, list[Finding]()
    waiting = list(numbers)
    while waiting:
        ended, taken, problems = _run_in_child(seed, kind, waiting, seeds, work)
        accepted += taken
        if problems and len(waiting) > 1:  # alone, in a fresh process: what ran before it may have had a part in it
            again = _run_in_child(seed, kind, [waiting[ended - 1]], seeds, work)[2]
            problems = again or [f"{problem} (only behind other cases)" for problem in problems]
        number = waiting[ended - 1]
        for problem in problems:
            kept = findings / f"{kind}-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(work / "case", kept, symlinks=True)
            found.append(Finding(kind, number, problem, str(kept)))
        waiting = waiting[ended:]
    return accepted, found


def _run_in_child(seed: int, kind: str, numbers: Sequence[int], seeds: Seeds, work: Path) -> tuple[int, int, list[str]]:
    """Run cases until one has a problem: how many were run and accepted, and what was wrong with the last."""
    work.mkdir(parents=True, exist_ok=True)
    output, folder = work / "output.txt", work / "case"
    output.write_bytes(b"")
    reading, writing = os.pipe()

    def run() -> int:
        os.close(reading)
        limit_memory(MEMORY)
        before = states_of(seeds.folder)
        for number in numbers:
            answer = run_case(seed, kind, number, seeds, folder, output, before)
            os.write(writing, json.dumps(answer).encode().ljust(_ANSWER))
            if answer[1]:
                break
        return 0

    child = fork(run, output)
    os.close(writing)
    done, accepted, began, worked = 0, 0, time.monotonic(), 0.0
    try:
        while True:
            ready, _, _ = select.select([reading], [], [], 0.5)
            if ready:
                answer = os.read(reading, _ANSWER)
                if not answer:
                    break
                done, began, worked = done + 1, time.monotonic(), child.processor_seconds()
                code, problems = json.loads(answer)
                accepted += code == 0
                if problems:
                    return done, accepted, problems
            else:
                problem = _too_slow(child.processor_seconds() - worked, time.monotonic() - began)
                if problem:
                    return done + 1, accepted, _killed(child, folder, output, problem)
        code = child.wait(10)
        if done == len(numbers) and code == 0:
            return done, accepted, []
        problem = f"the process ended with exit code {code}"
        return min(done + 1, len(numbers)), accepted, _killed(child, folder, output, problem)
    finally:
        os.close(reading)
        child.end()


def _too_slow(processor_seconds: float, seconds: float) -> str | None:
    if processor_seconds > PROCESSOR_SECONDS:
        return f"more than {PROCESSOR_SECONDS:g} s of work"
    return f"still running after {CLOCK_SECONDS:g} s" if seconds > CLOCK_SECONDS else None


def _killed(child: Child, folder: Path, output: Path, problem: str) -> list[str]:
    child.end()
    text = output.read_text(encoding="utf-8", errors="replace")
    (folder / "output.txt").write_text(f"{problem}\n{text}", errors="surrogatepass")
    return [problem]
