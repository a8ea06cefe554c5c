"""What a translation job refuses, what it resumes, and what it says of hard sentences."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import pytest

from focat.api import Model
from focat.errors import FocatError
from focat.files import atomic_file
from focat.progress import NULL_PROGRESS
from focat.translation import outputs
from focat.translation.formats import FileSegment
from focat.translation.formats.segments import SubtitleOptions
from focat.translation.jobs import JOURNAL, Job, JobStats, run_job
from focat.translation.journal import Journal
from focat.translation.result import Translation


def test_standard_output_may_be_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("One.\n")
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(FocatError, match="standard output is closed; give an output file"):
        run_job(Job(tmp_path / "in.txt"), None, [], NULL_PROGRESS)  # type: ignore[arg-type]


def test_standard_output_may_take_text_only(model: Model, tmp_path: Path) -> None:
    """As in a notebook."""
    (tmp_path / "in.txt").write_text("Where is the cat?\nIt is old.\n")
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        model.translate_file(tmp_path / "in.txt")
    assert shown.getvalue() == model.translate("Where is the cat?\nIt is old.\n")


class TestOutputOfOthers:
    """A file at the output's name that this job has not written is not replaced unless asked."""

    def _kill(self, monkeypatch: pytest.MonkeyPatch, model: Model, folder: Path, call: str) -> None:
        """Translate in.txt to out.txt, and stop as if killed when this call to the journal is made."""

        (folder / "in.txt").write_text("Where is the cat?\nIt is old.\n")
        with monkeypatch.context() as patch:
            patch.setattr(Journal, call, _die)
            with pytest.raises(KeyboardInterrupt):
                model.translate_file(folder / "in.txt", folder / "out.txt")
        assert (folder / f"out.txt{JOURNAL}").exists()

    def test_after_a_kill(self, monkeypatch: pytest.MonkeyPatch, model: Model, tmp_path: Path) -> None:
        self._kill(monkeypatch, model, tmp_path, "finish")
        (tmp_path / "out.txt").write_text("mine")
        with pytest.raises(FocatError, match=r"out.txt: exists; give another file, or overwrite it"):
            model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt")
        assert (tmp_path / "out.txt").read_text() == "mine"
        model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt", overwrite=True)
        assert (tmp_path / "out.txt").read_text() == model.translate("Where is the cat?\nIt is old.\n")

    def test_after_a_kill_between_the_last_two_steps(
        self, monkeypatch: pytest.MonkeyPatch, model: Model, tmp_path: Path
    ) -> None:
        """The output is there, and so is the journal, which knows that it is of this job: it is taken away."""
        self._kill(monkeypatch, model, tmp_path, "remove")
        expected = model.translate("Where is the cat?\nIt is old.\n")
        assert (tmp_path / "out.txt").read_text() == expected
        model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt")
        assert (tmp_path / "out.txt").read_text() == expected
        assert not (tmp_path / f"out.txt{JOURNAL}").exists()

    @pytest.mark.parametrize("call", ["finish", "record_output", "remove"])
    def test_after_a_kill_between_the_last_two_steps_and_another(
        self, monkeypatch: pytest.MonkeyPatch, model: Model, tmp_path: Path, call: str
    ) -> None:
        """The output is that of the first run, whatever the journal knows of the second."""
        self._kill(monkeypatch, model, tmp_path, "remove")
        expected = (tmp_path / "out.txt").read_text()
        record_output = Journal.record_output
        with monkeypatch.context() as patch:
            if call == "record_output":  # recorded, but the new file has not taken its place

                def record_and_die(journal: Journal, *files: Any) -> None:
                    record_output(journal, *files)
                    raise KeyboardInterrupt

                patch.setattr(Journal, call, record_and_die)
                with pytest.raises(KeyboardInterrupt):
                    model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt")
            else:
                self._kill(monkeypatch, model, tmp_path, call)
        model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt")
        assert (tmp_path / "out.txt").read_text() == expected
        assert not (tmp_path / f"out.txt{JOURNAL}").exists()

    def test_changed_after_a_kill_between_the_last_two_steps(
        self, monkeypatch: pytest.MonkeyPatch, model: Model, tmp_path: Path
    ) -> None:
        self._kill(monkeypatch, model, tmp_path, "remove")
        with (tmp_path / "out.txt").open("a") as file:
            file.write("my correction\n")
        with pytest.raises(FocatError, match=r"out.txt: exists; give another file, or overwrite it"):
            model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt")
        assert (tmp_path / "out.txt").read_text().endswith("my correction\n")

    def test_written_while_the_job_runs(self, monkeypatch: pytest.MonkeyPatch, model: Model, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_text("Where is the cat?\n")
        finish = Journal.finish

        def write_and_finish(journal: Journal) -> None:
            (tmp_path / "out.txt").write_text("mine")
            finish(journal)

        monkeypatch.setattr(Journal, "finish", write_and_finish)
        with pytest.raises(FocatError, match=r"out.txt: exists; give another file, or overwrite it"):
            model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt")
        assert (tmp_path / "out.txt").read_text() == "mine"


@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
def test_the_input_under_another_name_is_not_replaced(kind: str, model: Model, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("Where is the cat?\n")
    getattr(tmp_path / "out.txt", kind)(tmp_path / "in.txt")
    with pytest.raises(FocatError, match=r"out.txt: is the input; give another output"):
        model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt", overwrite=True)
    assert (tmp_path / "in.txt").read_text() == "Where is the cat?\n"


def test_one_job_at_a_time_under_any_name(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two names of one file: a link and what it points to."""
    (tmp_path / "in.txt").write_text("Where is the cat?\n")
    (tmp_path / "link.txt").symlink_to(tmp_path / "out.txt")
    tried = []

    def meanwhile(path: Path) -> object:
        if not tried:
            tried.append(path)
            with pytest.raises(FocatError, match="another process is at this job"):
                model.translate_file(tmp_path / "in.txt", tmp_path / "link.txt")
        return atomic_file(path)

    monkeypatch.setattr(outputs, "atomic_file", meanwhile)
    model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt")
    assert tried


@pytest.mark.parametrize(
    ("options", "other"),
    [
        ({"length_penalty": 0.3}, "search settings"),
        ({"context": "regenerate"}, "context"),
        ({"constrained": False}, "context"),
        ({"lookahead": 3}, "context"),
        ({"window": 2}, "windows"),
        ({"format": "jsonl"}, "format"),
        ({"split": True}, "format"),
        ({"encoding": "latin-1"}, "encoding"),
        ({"keep": ["cat"]}, "terms"),
    ],
)
def test_only_the_same_job_is_resumed(
    options: dict[str, Any], other: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences that were translated otherwise are not mixed with those of this job."""
    (tmp_path / "in.txt").write_text('"Where is the cat?"\n"It is old."\n')
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "finish", _die)
        with pytest.raises(KeyboardInterrupt):
            model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt")
    problem = rf"out.txt.journal: belongs to a job with other {other}; run that command again to resume it"
    with pytest.raises(FocatError, match=problem):
        model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt", **options)
    model.translate_file(tmp_path / "in.txt", tmp_path / "out.txt")


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        (
            "in.srt",
            "1\n00:00:01,000 --> 00:00:02,000\n[door opens]\nIt is old.\n",
            {"subtitles": SubtitleOptions(keep_sounds=True)},
        ),
        ("in.po", 'msgid ""\nmsgstr ""\n\nmsgid "Cat"\nmsgstr ""\n', {"all_entries": True}),
    ],
)
def test_a_job_is_not_resumed_with_other_options_of_its_format(
    name: str, text: str, options: dict[str, Any], model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text(text)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "finish", _die)
        with pytest.raises(KeyboardInterrupt):
            model.translate_file(tmp_path / name, tmp_path / "out")
    with pytest.raises(FocatError, match=r"out.journal: belongs to a job with other format; run that command again"):
        model.translate_file(tmp_path / name, tmp_path / "out", **options)
    model.translate_file(tmp_path / name, tmp_path / "out")


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_notes_name_the_lines_that_were_hard() -> None:
    stats = JobStats()
    plain = Translation("a", "b")
    for line in range(1, 8):
        hard = Translation("a", "b", chunks=1 + (line < 7), truncated=line < 6, shortened=line == 1)
        noted = [("more than 2 lines", line + 1)] if line == 3 else []
        stats.add(FileSegment(line, ["a", "a"], str, notes=lambda _, noted=noted: noted), [plain, hard])
    assert (stats.sentences, stats.shortened) == (14, 1)
    assert list(stats.notes()) == [
        "too long for the model, translated in chunks: lines 1, 2, 3, 4, 5 and 1 more",
        "translation truncated at the maximum length: lines 1, 2, 3, 4, 5",
        "windows that were too long and lost context: 1",
        "more than 2 lines: line 4",
    ]
    easy = JobStats()
    easy.add(FileSegment(1, ["a"], str), [plain])
    assert list(easy.notes()) == []


class TestEndings:
    """A name that stands for another format than the file has would mislead every program that opens it."""

    @pytest.mark.parametrize(
        ("input", "output"), [("in.srt", "out.vtt"), ("in.srt", "out.txt.gz"), ("in.txt", "out.docx")]
    )
    def test_another_format_is_refused(self, model: Model, tmp_path: Path, input: str, output: str) -> None:
        (tmp_path / input).write_text("1\n00:00:01,000 --> 00:00:02,000\nTom sleeps.\n")
        name = "srt" if input.endswith("srt") else "text"
        expected = rf"{output}: would be {name}, as the input is; name it so, or give the format of the input"
        with pytest.raises(FocatError, match=expected):
            model.translate_file(tmp_path / input, tmp_path / output)
        assert not (tmp_path / output).exists()

    @pytest.mark.parametrize("output", ["out.txt", "out", "out.de", "out.tsv", "out.txt.xz"])
    def test_other_names(self, model: Model, tmp_path: Path, output: str) -> None:
        (tmp_path / "in.txt").write_text("Tom sleeps.\n")
        model.translate_file(tmp_path / "in.txt", tmp_path / output)
        assert (tmp_path / output).exists()

    def test_a_format_that_is_given(self, model: Model, tmp_path: Path) -> None:
        (tmp_path / "in.srt").write_text("Tom sleeps.\n")
        model.translate_file(tmp_path / "in.srt", tmp_path / "out.srt", format="text")
        assert (tmp_path / "out.srt").read_text() == model.translate("Tom sleeps.\n")
