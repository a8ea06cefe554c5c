"""What comes through a pipe is answered while more is awaited, and as it would be in a file."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from focat.api import Model
from focat.corpus.generated import generate
from focat.errors import FocatError
from focat.run import Run
from focat.translation.read_ahead import ReadAhead
from tests.training.launcher import Launcher
from tests.translation.test_translator import RecordingDecoder
from tests.translation.tiny import tiny_run

WAIT = 60  # seconds before a test fails, where it would otherwise hang


def test_a_line_is_answered_before_the_next_is_sent(run: Run, model: Model) -> None:
    """Line for line, as another program asks: also blank lines, which end a document, and a half-written line."""
    line = [sys.executable, "-m", "focat", "translate", str(run.path), "-q"]
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    watchdog = threading.Timer(WAIT, process.kill)
    watchdog.start()
    text = "Where is the cat?\nIt is old.\n\nTom sleeps.\nHe is old.\n"
    expected = model.translate(text).splitlines(keepends=True)
    for sentence, answer in zip(text.splitlines(keepends=True), expected, strict=True):
        process.stdin.write(sentence.encode())
        process.stdin.flush()
        assert process.stdout.readline().decode() == answer
    process.stdin.write(b"One.\nTwo.\nThr")
    process.stdin.flush()
    assert process.stdout.readline()
    assert process.stdout.readline()
    process.stdin.write(b"ee.\n")
    process.stdin.close()
    assert len(process.stdout.readlines()) == 1
    assert process.wait() == 0
    watchdog.cancel()


class Conversation:
    """`focat translate RUN PIPE …`: what is sent through the pipe, and what has come back so far."""

    def __init__(self, launcher: Launcher, run: Path, folder: Path, name: str, *options: str) -> None:
        os.mkfifo(folder / name)
        self.command = launcher.start(["translate", str(run), str(folder / name), "-q", *options], folder)
        self._pipe = (folder / name).open("wb", buffering=0)

    def send(self, text: str, answer_lines: int) -> str:
        """Send a text, and wait until there are so many lines of answers in all; returns them."""
        self._pipe.write(text.encode())
        late = time.monotonic() + WAIT
        while self.command.output.count("\n") < answer_lines:
            assert time.monotonic() < late, self.command.output
            assert self.command.running(), self.command.output
            time.sleep(0.005)
        return self.command.output

    def end(self, expect: int = 0) -> str:
        """Close the pipe; returns all answers."""
        self._pipe.close()
        assert self.command.wait() == expect
        return self.command.output


class TestFormats:
    def test_json_lines(self, launcher: Launcher, run: Run, model: Model, tmp_path: Path) -> None:
        pipe = Conversation(launcher, run.path, tmp_path, "pipe.jsonl")
        first = pipe.send('{"document": 1, "source": "Where is the cat?"}\n', 1)
        answers = pipe.send('{"document": 1, "source": "It is old."}\n', 2)
        assert answers.startswith(first)
        assert pipe.send('{"document": 1, "source": " "}\n', 3).endswith('"translation": ""}\n')
        assert pipe.send("\n", 4).endswith("\n\n")
        translations = [json.loads(line)["translation"] for line in pipe.end().splitlines() if line]
        assert translations[:2] == model.translate(["Where is the cat?", "It is old."])

    def test_a_cue_is_answered_when_its_end_is_known(self, launcher: Launcher, run: Run, tmp_path: Path) -> None:
        srt = Conversation(launcher, run.path, tmp_path, "pipe.srt")
        srt.send("1\n00:00:01,000 --> 00:00:02,000\nWhere is the cat?\n\n2\n00:00:03,000 --> 00:00:04,000\n", 6)
        assert srt.end().startswith("1\n00:00:01,000 --> ")
        vtt = Conversation(launcher, run.path, tmp_path, "pipe.vtt")
        vtt.send("WEBVTT\n\n00:01.000 --> 00:02.000\nWhere is the cat?\n\n", 4)
        vtt.end()

    def test_a_paragraph_is_answered_when_its_end_is_known(self, launcher: Launcher, run: Run, tmp_path: Path) -> None:
        pipe = Conversation(launcher, run.path, tmp_path, "pipe.txt", "--split")
        pipe.send("Tom sleeps. He is old.\n\n", 2)
        assert pipe.end().endswith("\n\n")

    def test_a_sentence_is_answered_when_those_after_it_are_known(
        self, launcher: Launcher, runs: Path, tmp_path: Path
    ) -> None:
        after = tiny_run(runs, windows={"before": 1, "after": 1})
        pipe = Conversation(launcher, after.path, tmp_path, "pipe.txt")
        pipe.send("Where is the cat?\nIt is old.\n", 1)
        pipe.send("\n", 3)
        assert pipe.end().count("\n") == 3

    def test_what_precedes_a_mistake_is_answered(
        self, launcher: Launcher, run: Run, model: Model, tmp_path: Path
    ) -> None:
        pipe = Conversation(launcher, run.path, tmp_path, "pipe.jsonl")
        pipe.send('"Where is the cat?"\n{}\n', 1)
        first, error = pipe.end(expect=2).splitlines()
        assert json.loads(first) == model.translate(["Where is the cat?"])[0]
        assert "pipe.jsonl, line 2: no field `sentences` or `source`" in error


@pytest.mark.parametrize("context", ["reuse", "regenerate"])
def test_what_is_there_is_decoded_together(context: str, model: Model) -> None:
    """As much of it as of a list, in the same order."""
    documents = [document.source for document in generate(20, 20)]
    groups = [(i, list(document), True) for i, document in enumerate(documents)]
    translator = model.translator(context=context)
    listed, piped = RecordingDecoder(), RecordingDecoder()
    expected = list(translator.groups(groups, listed))
    ahead = ReadAhead(groups)
    assert list(translator.groups(ahead, piped, ahead.ready)) == expected
    assert piped.waves == listed.waves


class TestReadAhead:
    def test_items_come_in_order_and_end(self) -> None:
        assert list(ReadAhead(range(100_000))) == list(range(100_000))
        ended = ReadAhead([])
        assert list(ended) == list(ended) == []

    def test_ready_if_the_next_one_is_there(self) -> None:
        sent = threading.Event()

        def items() -> Iterator[int]:
            yield 1
            sent.wait(WAIT)
            yield 2

        ahead = ReadAhead(items())
        assert next(ahead) == 1
        assert not ahead.ready()
        sent.set()
        assert next(ahead) == 2

    def test_a_steady_trickle_is_not_awaited_for_ever(self) -> None:
        def items() -> Iterator[int]:
            for i in range(2000):
                yield i
                time.sleep(0.002)

        ahead = ReadAhead(items())
        next(ahead)
        taken = sum(1 for _ in itertools.takewhile(lambda _: ahead.ready(), ahead))
        assert taken < 1000

    def test_an_error_comes_after_what_was_read(self) -> None:
        def items() -> Iterator[int]:
            yield 1
            raise FocatError("line 2: no")

        ahead = ReadAhead(items())
        assert next(ahead) == 1
        assert not ahead.ready()
        with pytest.raises(FocatError, match="line 2: no"):
            next(ahead)
