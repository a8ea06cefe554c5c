"""`python -m tests.soak --minutes 20 --workers 14 --seed 1 --out FOLDER`: kill and fuzz focat; docs/robustness.md."""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TQDM_DISABLE": "1"}  # before torch is imported

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.soak.campaign import Report, read_report, run_campaign
from tests.soak.fuzz_kinds import KINDS
from tests.soak.fuzzing import run_batch
from tests.soak.kill_kinds import KILLED
from tests.soak.killing import kill_case
from tests.soak.processes import import_all
from tests.soak.seeds import Seeds


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 1 if there are findings."""
    options = _parser().parse_args(arguments)
    if options.sum:
        return conclude(read_report(options.sum), "python -m tests.soak --seed SEED --out FOLDER")
    out = Path(options.out or tempfile.mkdtemp(prefix="focat-soak-")).resolve()
    import_all()
    seeds = Seeds(out / "seeds", options.data)
    seeds.make()
    again = f"python -m tests.soak --seed {options.seed} --out {out}" + (
        f" --data {options.data}" if options.data else ""
    )
    if options.case:
        kind, _, number = options.case.rpartition(":")
        return _one_case(options.seed, kind, int(number), seeds, out)
    kinds = options.kinds.split(",") if options.kinds else []
    report = run_campaign(options.seed, seeds, out, options.workers, options.minutes * 60, kinds)
    return conclude(report, again)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="when to stop")
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() or 1), help="processes at the same time")
    parser.add_argument("--seed", type=int, default=1, help="all cases are derived from it")
    parser.add_argument("--out", type=Path, help="where findings are kept; a new folder if not given")
    parser.add_argument("--data", type=Path, help="a folder of real corpora and suites to start from, too")
    parser.add_argument("--kinds", help=f"only these, between commas, of {', '.join([*KILLED, *KINDS])}")
    parser.add_argument(
        "--sum", type=Path, nargs="+", metavar="OUT", help="only print the table of these runs together"
    )
    parser.add_argument("--case", metavar="KIND:NUMBER", help="run one case again")
    return parser


def _one_case(seed: int, kind: str, number: int, seeds: Seeds, out: Path) -> int:
    if kind in KILLED:
        kills, findings = kill_case(seed, kind, number, seeds, out / "work", out / "findings")
        print(f"{kills} kills")
    else:
        _, findings = run_batch(seed, kind, [number], seeds, out / "work", out / "findings")
    for finding in findings:
        print(f"{finding.problem}; see {finding.folder}")
    if not findings:
        print(f"nothing is wrong; see {out / 'work'}")
    return 1 if findings else 0


def conclude(report: Report, again: str) -> int:
    """Print the table and each problem once, with the command that runs its first case again; return the exit code."""
    print(f"{report.table()}\n\n{report.table(markdown=True)}")
    for (kind, problem), findings in sorted(report.problems().items()):
        first = min(findings, key=lambda finding: finding.number)
        print(f"\n{kind}: {problem} ({len(findings)} ×)")
        print(f"  {first.folder}")
        print(f"  {again} --case {kind}:{first.number}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
