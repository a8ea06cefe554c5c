"""`focat translate` as people use it: files, pipes, mistakes, and kills at any moment."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import focat
from focat.api import Model
from focat.corpus.generated import generate
from focat.files import PARTIAL_SUFFIX
from focat.run import Run
from focat.translation.jobs import JOURNAL
from tests.training.launcher import Launcher
from tests.translation.tiny import tiny_run

TEXT = "Where is the cat?\nIt is old.\n\nTom sleeps.\n"
SRT = "1\n00:00:01,000 --> 00:00:02,000\n<i>Where is the cat?</i>\n\n2\n00:00:03,000 --> 00:00:04,000\n- Here.\n- No.\n"


class Workdir:
    """A folder to work in, and a run."""

    def __init__(self, folder: Path, run: Path, launcher: Launcher) -> None:
        self.folder, self.run, self.launcher = folder, run, launcher
        (folder / "in.txt").write_text(TEXT)

    def translate(self, *arguments: str, input: str = "in.txt", expect: int = 0) -> str:
        """`focat translate RUN INPUT …` to its end; returns its output."""
        placed = [str(self.folder / a) if re.fullmatch(r"\w+\.[a-z.]+", a) else a for a in arguments]
        line = ["translate", str(self.run), str(self.folder / input), *placed]
        return self.launcher.focat(self.folder, *line, expect=expect)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")


@pytest.fixture
def workdir(tmp_path: Path, run: Run, launcher: Launcher) -> Workdir:
    return Workdir(tmp_path, run.path, launcher)


class TestOutput:
    def test_file_to_file(self, workdir: Workdir, model: Model) -> None:
        output = workdir.translate("-o", "out.txt", "--json", "figures.json")
        assert workdir.read("out.txt") == model.translate(TEXT)
        assert "translating: 3 of 3 sentences" in output
        figures = json.loads(workdir.read("figures.json"))
        assert figures["sentences"] == 3
        assert figures["sentences_per_second"] > 0
        left = {path.name for path in workdir.folder.iterdir() if not path.name.startswith("output-")}
        assert left == {"in.txt", "out.txt", "figures.json"}

    def test_options_reach_the_search(self, workdir: Workdir, model: Model) -> None:
        options = {
            ("--context", "regenerate"): {"context": "regenerate"},
            ("--context", "regenerate", "--unconstrained"): {"context": "regenerate", "constrained": False},
            ("--window", "1"): {"window": 1},
            ("--beam", "1"): {"beam": 1},
            ("decoding.beam=1", "decoding.length_penalty=2"): {"beam": 1, "length_penalty": 2.0},
            ("decoding.target_context=none", "--beam", "3"): {"context": "none", "beam": 3},
            ("--sample", "--seed", "5", "--temperature", "3", "--top-p", "0.9"): {
                "sample": True, "seed": 5, "temperature": 3.0, "top_p": 0.9,
            },
        }  # fmt: skip
        seen = set()
        for line, settings in options.items():
            workdir.translate(*line, "-o", "out.txt", "--overwrite")
            assert workdir.read("out.txt") == model.translate(TEXT, **settings), line
            seen.add(workdir.read("out.txt"))
        assert len(seen) >= 4

    def test_scores_and_nbest(self, workdir: Workdir) -> None:
        workdir.translate("-o", "out.txt", "--scores", "--nbest", "2")
        lines = workdir.read("out.txt").split("\n")
        assert [len(line.split("\t")) for line in lines] == [4, 4, 1, 4, 1]
        first = lines[0].split("\t")
        assert 0 > float(first[0]) >= float(first[2])

    def test_subtitles(self, workdir: Workdir) -> None:
        (workdir.folder / "film.srt").write_bytes(SRT.encode())
        workdir.translate("-o", "film.de.srt", input="film.srt")
        lines, before = workdir.read("film.de.srt").splitlines(), SRT.splitlines()
        assert [lines[i] for i in (0, 1)] == before[:2]
        assert lines[2].startswith("<i>")
        assert before[5] in lines
        assert sum(line.startswith("- ") for line in lines) == 2

    def test_running_text(self, workdir: Workdir) -> None:
        (workdir.folder / "book.txt").write_text("Tom sleeps. He is old.\n\nWhere is the cat?\n")
        workdir.translate("--split", "-o", "out.txt", input="book.txt")
        assert [bool(line) for line in workdir.read("out.txt").split("\n")] == [True, False, True, False]

    def test_compressed_output(self, workdir: Workdir) -> None:
        workdir.translate("-o", "plain.txt")
        for ending in ("gz", "xz", "zst"):
            workdir.translate("-o", f"out.txt.{ending}")
            unpacked = (workdir.folder / f"out.txt.{ending}").read_bytes()
            assert unpacked[:2] in (b"\x1f\x8b", b"\xfd7", b"\x28\xb5")
        workdir.translate("-o", "again.txt.gz")
        assert (workdir.folder / "again.txt.gz").read_bytes() == (workdir.folder / "out.txt.gz").read_bytes()

    def test_notes_about_long_sentences(self, workdir: Workdir) -> None:
        (workdir.folder / "long.txt").write_text("Tom.\n" + "The cat is old. " * 30 + "\n")
        output = workdir.translate("-o", "out.txt", input="long.txt")
        assert "too long for the model, translated in chunks: line 2" in output
        assert "translation truncated at the maximum length: lines 1, 2" in output
        assert workdir.read("out.txt").count("\n") == 2

    def test_ensemble(self, workdir: Workdir, run: Run, runs: Path) -> None:
        other = tiny_run(runs, seed=2)
        workdir.translate("--ensemble", str(other.path), "-o", "both.txt")
        workdir.translate("-o", "one.txt")
        assert (
            workdir.read("both.txt")
            == focat.load([run.path, other.path], "cpu").translate(TEXT)
            != workdir.read("one.txt")
        )
        stranger = tiny_run(runs, vocabulary=380)
        output = workdir.translate("--ensemble", str(stranger.path), expect=2)
        assert output == (
            f"focat: {stranger.path}: its source vocabulary is not that of {run.path}; "
            "an ensemble needs runs that were trained on the same token store\n"
        )


class TestPipes:
    """The plain one, `… | focat translate RUN > …`, is in the guide and tested with it."""

    def test_a_reader_that_stops_early(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "many.txt").write_text("Tom.\n" * 400)
        line = [sys.executable, "-m", "focat", "translate", str(run.path), str(tmp_path / "many.txt"), "-q"]
        process = subprocess.Popen([*line, "--batch-tokens", "50"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait()

    def test_a_pipe_with_a_name(self, workdir: Workdir, model: Model) -> None:
        """As bash makes of `<(cat file)`: it can be read but once."""
        os.mkfifo(workdir.folder / "pipe.txt")
        command = workdir.launcher.start(
            ["translate", str(workdir.run), str(workdir.folder / "pipe.txt"), "-o", str(workdir.folder / "out.txt")],
            workdir.folder,
        )
        (workdir.folder / "pipe.txt").write_text(TEXT)
        assert command.wait() == 0, command.output
        assert workdir.read("out.txt") == model.translate(TEXT)

    def test_a_terminal_is_answered_at_once(self, run: Run, model: Model) -> None:
        ours, theirs = pty.openpty()
        line = [sys.executable, "-m", "focat", "translate", str(run.path)]
        process = subprocess.Popen(line, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        document = ["Where is the cat?", "It is old."]
        for sentence, expected in zip(document, model.translate(document), strict=True):
            os.write(ours, f"{sentence}\n".encode())
            assert process.stdout.readline().decode() == f"{expected}\n"
        os.write(ours, b"\x04")  # Ctrl-D
        assert process.wait() == 0
        os.close(ours)
        os.close(theirs)


def test_many_files(workdir: Workdir, model: Model) -> None:
    """Those that are bad are named at the end, after all others are done."""
    (workdir.folder / "bad.vtt").write_text("hello\n")
    (workdir.folder / "more.txt").write_text("It is new.\n")
    output = workdir.translate("more.txt", "bad.vtt", "-o", "out.folder", "--json", "figures.json", expect=2)
    assert "bad.vtt, line 1: does not begin with WEBVTT" in output
    assert output.splitlines()[-1] == "focat: 1 of 3 files failed"
    assert (workdir.folder / "out.folder" / "in.txt").read_text() == model.translate(TEXT)
    assert json.loads(workdir.read("figures.json"))["translated"] == ["in.txt", "more.txt"]
    assert not list(workdir.folder.rglob(f"*{JOURNAL}"))


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (["--format", "doc"], "--format doc: there is no such format; choose from text, jsonl, srt, vtt"),
            (
                ["--context", "magic"],
                "'magic' is not one of 'regenerate', 'reuse', 'none'",
            ),
            (["--nbest", "9"], "nbest is 9 but only 2 hypotheses are kept: set beam to 9"),
            (["--format", "srt", "--scores"], "--format srt: has no place for scores or nbest"),
            (["--format", "srt"], "in.txt: has no line like"),
            (["--format", "jsonl"], "in.txt, line 1: not JSON at column 1"),
            (["--line-length", "30"], "--line-length 30: has no effect on text, only on srt, vtt, ass; leave it out"),
            (["--keep-sounds"], "--keep-sounds: has no effect on text, only on srt, vtt, ass; leave it out"),
            (["--all"], "--all: has no effect on text, only on po, xliff; leave it out"),
            (["--split", "--format", "vtt"], "split: is for running text, not for vtt"),
            (["-o", "in.txt"], "in.txt: is the input; give another output"),
            (["-o", "in.txt", "--overwrite"], "in.txt: is the input; give another output"),
            (["-o", "nowhere/out"], "there is no folder nowhere"),
            (["--device", "abacus"], "--device abacus: there is no such device; take auto, cpu, cuda or cuda:1"),
            (["--ensemble", "nothing"], "nothing: holds no run"),
            (["decoding.beam=0"], "settings: decoding.beam = 0: should be greater than 0"),
            (["windows.before=1"], "windows.before=1: only settings of decoding can change after training"),
            (["more.txt"], "more.txt: no such file; if it is the output, give -o "),
            (["more.txt", "yet.txt"], "several files need a folder for their outputs"),
            (["beam=2"], "beam=2: no such file; a setting needs its section, as in decoding.beam=2"),
            (["--shard", "2"], "--shard 2: should be two numbers, as 2/8"),
            (["--shard", "3/2", "-o", "out.folder"], "--shard 3/2: should be a number from 1 to that of shards"),
            (["--temperature", "0.5"], "--temperature 0.5: has no effect without sample; turn sample on, or"),
            (["decoding.seed=2"], "decoding.seed=2: has no effect without sample; turn sample on, or leave this out"),
            (["--top-p", "2"], "decoding: top_p = 2.0: should be less than or equal to 1"),
        ],
    )
    def test_options(self, arguments: list[str], problem: str, workdir: Workdir) -> None:
        output = workdir.translate(*arguments, expect=2)
        assert problem in output
        assert output.count("\n") == 1
        assert workdir.read("in.txt") == TEXT

    @pytest.mark.parametrize(
        ("name", "content", "problem"),
        [
            ("missing.txt", None, "missing.txt: no such file"),
            (
                "binary.txt",
                b"ok\nca\xff\x81\x01\x00\x9d\n",
                "binary.txt, line 2: byte 0xFF at column 3 is not UTF-8; name",
            ),
            ("cut.gz", b"\x1f\x8b\x08\x00", "cut.gz: not a whole .gz file"),
            ("bad.jsonl", b'["a"]\n{}\n', "bad.jsonl, line 2: no field `sentences` or `source`"),
            ("bad.vtt", b"hello\n", "bad.vtt, line 1: does not begin with WEBVTT"),
        ],
    )
    def test_input(self, name: str, content: bytes | None, problem: str, workdir: Workdir) -> None:
        if content is not None:
            (workdir.folder / name).write_bytes(content)
        output = workdir.translate("-o", "out.tsv", input=name, expect=2)
        assert problem in output
        assert output.count("\n") == 1
        assert not (workdir.folder / "out.tsv").exists()
        assert not list(workdir.folder.glob(f"*{JOURNAL}"))

    def test_nothing_is_overwritten_unless_asked(self, workdir: Workdir) -> None:
        (workdir.folder / "out.txt").write_text("mine")
        assert "out.txt: exists; give another file, or overwrite it" in workdir.translate("-o", "out.txt", expect=2)
        assert workdir.read("out.txt") == "mine"
        workdir.translate("-o", "out.txt", "--overwrite")
        assert workdir.read("out.txt").count("\n") == 4


class TestInterrupted:
    """Killed again and again, it ends as if nothing had happened."""

    KILLS = 3

    @pytest.mark.parametrize("context", ["reuse", "regenerate"])
    def test_killed(self, context: str, workdir: Workdir) -> None:
        text = "\n\n".join("\n".join(document.source[:3]) for document in generate(5, 5))
        (workdir.folder / "many.txt").write_text(text + "\n")
        line = ["--context", context, "--batch-tokens", "120", "--scores"]
        workdir.translate(*line, "-o", "whole.txt", input="many.txt")
        out, journal = workdir.folder / "out.txt", workdir.folder / f"out.txt{JOURNAL}"
        arguments = ["translate", str(workdir.run), str(workdir.folder / "many.txt"), *line, "-o", str(out)]
        draw, kept, killed = random.Random(3), 0, 0
        for _ in range(self.KILLS):
            command = workdir.launcher.start(arguments, workdir.folder)
            while command.running() and not (journal.exists() and journal.stat().st_size > kept + 100):
                time.sleep(0.003)
            time.sleep(draw.uniform(0, 0.02))
            command.send(signal.SIGKILL)
            killed += command.wait() == -signal.SIGKILL
            assert journal.stat().st_size >= kept  # no result is computed twice
            kept = journal.stat().st_size
            with journal.open("ab") as file:
                file.write(b"\x99\x01\x00\x00torn")  # as if the machine had stopped in the middle of a record
            assert not out.exists()
        assert killed == self.KILLS
        workdir.translate(*line, "-o", "out.txt", input="many.txt")
        assert workdir.read("out.txt") == workdir.read("whole.txt")
        assert not journal.exists()
        assert not list(workdir.folder.glob(f"*{PARTIAL_SUFFIX}"))

    def _kill(self, workdir: Workdir, *arguments: str) -> None:
        """Kill a job when it has recorded something."""
        out = workdir.folder / "out.txt"
        (workdir.folder / "many.txt").write_text(TEXT * 40)
        line = ["translate", str(workdir.run), str(workdir.folder / "many.txt"), "-o", str(out), *arguments]
        journal = out.with_name(out.name + JOURNAL)
        command = workdir.launcher.start([*line, "--batch-tokens", "50"], workdir.folder)
        while command.running() and not (journal.exists() and journal.stat().st_size > 300):
            time.sleep(0.003)
        command.send(signal.SIGKILL)
        assert command.wait() == -signal.SIGKILL

    def test_a_job_that_overwrites_is_resumed_without_asking_again(self, workdir: Workdir) -> None:
        """Unless someone has written the output in the meantime."""
        line = ["-o", "out.txt", "--batch-tokens", "50"]
        (workdir.folder / "out.txt").write_text("old")
        self._kill(workdir, "--overwrite")
        workdir.translate(*line, input="many.txt")
        assert workdir.read("out.txt").count("\n") == TEXT.count("\n") * 40
        (workdir.folder / "out.txt").write_text("old")
        self._kill(workdir, "--overwrite")
        (workdir.folder / "out.txt").write_text("mine")
        assert "out.txt: exists; give another file" in workdir.translate(*line, input="many.txt", expect=2)
        assert workdir.read("out.txt") == "mine"

    def test_a_file_of_the_user_that_is_called_unfinished_is_kept(self, workdir: Workdir) -> None:
        """What an interrupted job has left is replaced: its journal says so."""
        partial = workdir.folder / f"out.txt{PARTIAL_SUFFIX}"
        partial.write_text("mine")
        for more in ([], ["--overwrite"]):
            assert f"{partial}: exists, and would be replaced" in workdir.translate("-o", "out.txt", *more, expect=2)
        assert partial.read_text() == "mine"
        partial.unlink()
        self._kill(workdir)
        assert partial.exists()
        workdir.translate("-o", "out.txt", "--batch-tokens", "50", input="many.txt")
        assert not partial.exists()

    def test_another_job_does_not_resume_it(self, workdir: Workdir) -> None:
        whole = workdir.translate("-o", "out.txt") and workdir.read("out.txt")
        (workdir.folder / "out.txt").unlink()
        (workdir.folder / "many.txt").write_text(TEXT * 40)
        line = ["translate", str(workdir.run), str(workdir.folder / "many.txt"), "-o", str(workdir.folder / "out.txt")]
        journal = workdir.folder / f"out.txt{JOURNAL}"
        command = workdir.launcher.start([*line, "--batch-tokens", "50"], workdir.folder)
        while command.running() and not (journal.exists() and journal.stat().st_size > 200):
            time.sleep(0.003)
        command.send(signal.SIGKILL)
        assert command.wait() == -signal.SIGKILL
        output = workdir.translate("-o", "out.txt", "--context", "none", "--batch-tokens", "50", expect=2)
        assert output.endswith(
            f"{JOURNAL}: belongs to a job with other input, other windows, other context; "
            "run that command again to resume it, or overwrite it\n"
        )
        workdir.translate("-o", "out.txt", "--overwrite")
        assert workdir.read("out.txt") == whole


def test_the_longest_line_can_be_set(workdir: Workdir) -> None:
    output = workdir.translate("decoding.max_line_bytes=16", expect=2)
    assert output.endswith("in.txt, line 1: is longer than 16 bytes; break it, or raise decoding.max_line_bytes\n")
    workdir.translate("decoding.max_line_bytes=18")


def test_terms(workdir: Workdir, model: Model) -> None:
    (workdir.folder / "terms.tsv").write_text("cat\tKatze\n")
    (workdir.folder / "keep.txt").write_text("old\n")
    output = workdir.translate("-o", "out.txt", "--glossary", "terms.tsv", "--keep", "keep.txt")
    assert workdir.read("out.txt") == model.translate(TEXT, glossary={"cat": "Katze"}, keep=["old"])
    assert "terms that translations had to contain: 2" in output
    (workdir.folder / "terms.tsv").write_text("cat\tKatze\ndog\n")
    refused = workdir.translate("-o", "other.txt", "--glossary", "terms.tsv", expect=2)
    assert "terms.tsv, line 2: has no tab; a line is `source`, a tab, `target`" in refused
    assert not (workdir.folder / "other.txt").exists()
