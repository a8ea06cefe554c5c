"""A short slice of the soak harness finds nothing, and the harness finds every kind of fault that is put in."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.soak import fuzzing
from tests.soak.__main__ import conclude
from tests.soak.campaign import Report, Totals, run_campaign
from tests.soak.fuzz_kinds import KINDS
from tests.soak.fuzzing import Finding
from tests.soak.processes import import_all
from tests.soak.seeds import Seeds

ROOT = Path(__file__).parents[2]
KILLED = ("kill-prepare", "kill-train", "kill-translate")  # the others are killed by tests of their own
PLANTED = {  # by kind, what the harness must say about the faults that are put in
    "kill-translate": " is half-written",
    "kill-prepare": "notes.txt, a file of the user, is changed",
    "kill-train": "another result than of an undisturbed command: ",
    "translate-jsonl": "IndexError",
    "translate-srt": "lines with an arrow in",
    "suite-own": "more than 1 s of work",
    "plan": "MemoryError",
    "corpus-tsv": ".tsv is changed",
    "store": "exit code 1",
}


def run_slice(out: Path) -> None:
    """Run a few cases of every kind, then some with faults; in a process without threads, which can be forked."""
    import_all()
    seeds = Seeds(out / "seeds")
    seeds.make()
    reports = [_killed(seeds, out, kills=2), _fuzzed(seeds, out, list(KINDS), cases=2)]
    plant_faults_to_kill()
    reports.append(_killed(seeds, out, kills=8))
    plant_faults_to_fuzz()
    reports.append(_fuzzed(seeds, out, list(PLANTED), cases=3))
    _write(out / "slice.json", reports[:2])
    _write(out / "planted.json", reports[2:])


def _killed(seeds: Seeds, out: Path, kills: int) -> Report:
    return run_campaign(1, seeds, out, 1, None, KILLED, cases=1, kills=kills)


def _fuzzed(seeds: Seeds, out: Path, kinds: list[str], cases: int) -> Report:
    return run_campaign(1, seeds, out, 1, None, [kind for kind in kinds if kind in KINDS], cases)


def _write(path: Path, reports: list[Report]) -> None:
    totals = {kind: asdict(total) for report in reports for kind, total in report.totals.items()}
    findings = [asdict(finding) for report in reports for finding in report.findings]
    path.write_text(json.dumps({"totals": totals, "findings": findings}))


def plant_faults_to_kill() -> None:
    """Replace functions of focat by faulty ones: a writer that is not atomic, and others."""
    import focat.corpus.prepare
    import focat.training.trainer
    import focat.translation.jobs

    @contextlib.contextmanager
    def not_atomic(path: Path) -> Iterator[BinaryIO]:
        with path.open("wb") as file:
            yield file
        content = path.read_bytes()
        path.write_bytes(b"")
        for part in range(0, len(content), len(content) // 20 + 1):
            with path.open("ab") as file:
                file.write(content[part : part + len(content) // 20 + 1])

    def deletes_notes(store: Path, keys: dict[str, str], _clear: Any = focat.corpus.prepare._clear) -> None:
        (store.parent / "notes.txt").unlink(missing_ok=True)
        _clear(store, keys)

    focat.translation.outputs.atomic_file = not_atomic
    focat.corpus.prepare._clear = deletes_notes
    focat.training.trainer.restore_optimizer = lambda *arguments: None


def plant_faults_to_fuzz() -> None:
    """Replace readers of focat by faulty ones."""
    import focat.analysis.inspection
    import focat.corpus.readers
    import focat.evaluation.suites.reading
    import focat.experiments.command
    import focat.files
    import focat.translation.formats
    import focat.translation.jobs

    formats = focat.translation.formats.FORMATS

    def drops_cues(*arguments: Any, _segments: Any = formats["srt"].read) -> Any:
        segments = list(_segments(*arguments))
        return segments[: len(segments) // 2]

    def crashes(*arguments: Any) -> Any:
        return [][1]

    def hangs(*arguments: Any) -> Any:
        while True:
            pass

    def takes_memory(*arguments: Any) -> Any:
        return bytearray(1 << 40)

    def writes_to_its_input(corpus: Any, _pairs: Any = focat.corpus.readers._tsv_pairs) -> Any:
        with corpus.path.open("ab") as file:
            file.write(b"\n")
        return _pairs(corpus)

    def ends(*arguments: Any) -> Any:
        sys.exit(1)

    focat.translation.outputs.atomic_file = focat.files.atomic_file
    formats["jsonl"] = replace(formats["jsonl"], read=crashes)
    formats["srt"] = replace(formats["srt"], read=drops_cues)
    focat.evaluation.suites.reading.open_bytes = hangs
    focat.experiments.command.load_plan = takes_memory
    focat.corpus.readers._tsv_pairs = writes_to_its_input
    focat.analysis.inspection.inspect_split = ends
    fuzzing.PROCESSOR_SECONDS = 1.0


@pytest.fixture(scope="module")
def slices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("soak")
    script = f"from pathlib import Path; from {__name__} import run_slice; run_slice(Path({str(out)!r}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def read(path: Path) -> tuple[dict[str, Totals], list[Finding]]:
    content = json.loads(path.read_text())
    totals = {kind: Totals(**total) for kind, total in content["totals"].items()}
    return totals, [Finding(**finding) for finding in content["findings"]]


def test_a_slice_finds_nothing(slices: Path) -> None:
    totals, findings = read(slices / "slice.json")
    assert findings == []
    assert totals.keys() == {*KILLED, *KINDS}
    assert all(totals[kind].kills >= 2 for kind in KILLED)
    assert all(totals[kind].inputs == min(2, KINDS[kind][1]) for kind in KINDS)
    assert sum(total.accepted for total in totals.values()) >= 15  # not all are refused at the first byte


@pytest.mark.parametrize("kind", PLANTED)
def test_a_fault_is_found(slices: Path, kind: str) -> None:
    _, findings = read(slices / "planted.json")
    problems = [finding.problem for finding in findings if finding.kind == kind]
    assert any(PLANTED[kind] in problem for problem in problems), problems


def test_a_finding_keeps_its_input_and_output(slices: Path) -> None:
    _, findings = read(slices / "planted.json")
    folder = Path(next(finding.folder for finding in findings if finding.kind == "translate-jsonl"))
    assert json.loads((folder / "command.txt").read_text())[:2] == ["focat", "translate"]
    assert list((folder / "case").glob("talk.jsonl*"))
    assert "IndexError" in (folder / "output.txt").read_text()


def test_a_case_is_derived_from_its_seed_and_number_alone(slices: Path, tmp_path: Path) -> None:
    contents = []
    for attempt, (seed, number) in enumerate(((1, 5), (1, 5), (2, 5), (1, 6))):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        case = KINDS["corpus-tsv"][0](fuzzing.random_of(seed, "corpus-tsv", number), Seeds(slices / "seeds"), folder)
        contents.append((case.arguments, {path.name: path.read_bytes() for path in folder.iterdir()}))
    assert contents[0] == contents[1]
    assert contents[0] != contents[2]
    assert contents[0] != contents[3]


def test_the_table_and_the_command_for_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report({"config": Totals(1200, 0, 1200, 30, 2), "kill-train": Totals(3, 24)})
    assert conclude(report, "again") == 0
    report.findings = [Finding("config", 9, "ValueError", "b"), Finding("config", 7, "ValueError", "a")]
    assert conclude(report, "again") == 1
    said = capsys.readouterr().out
    assert "| config | 1,200 | 0 | 1,200 | 30 | 2 |\n" in said
    assert "| all | 1,203 | 24 | 1,200 | 30 | 2 |\n" in said
    assert "config: ValueError (2 ×)\n  a\n  again --case config:7\n" in said
