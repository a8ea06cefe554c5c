"""Options that several commands have, and what is said about those that cannot be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from focat.config.schema import SearchSettings, WindowSettings
from focat.errors import FocatError
from focat.hardware import device_named
from focat.options import check_free, in_a_folder, named, one_of, some_of
from focat.progress import NULL_PROGRESS
from focat.translation.jobs import Job, run_job
from tests.evaluation.commands import refused


def test_one_of():
    assert one_of("--fruit", "pear", ("apple", "pear")) == "pear"
    with pytest.raises(FocatError, match=r"^--fruit nut: choose apple, pear or plum$"):
        one_of("--fruit", "nut", ("apple", "pear", "plum"))


def test_some_of():
    assert some_of("--fruit", " pear,apple, ", ("apple", "plum", "pear")) == ["apple", "pear"]
    with pytest.raises(FocatError, match=r"^--fruit nut: choose from apple, pear$"):
        some_of("--fruit", "pear,nut", ("apple", "pear"))
    with pytest.raises(FocatError, match=r"^--fruit: is empty; choose from apple, pear$"):
        some_of("--fruit", ",", ("apple", "pear"))


def test_nothing_is_overwritten_unless_asked(tmp_path):
    there = tmp_path / "there"
    there.touch()
    check_free(None, "--output", overwrite=False)
    check_free(tmp_path / "new", "--output", overwrite=False)
    check_free(there, "--output", overwrite=True)
    with pytest.raises(FocatError, match=r"there: exists; give another --output, or --overwrite$"):
        check_free(there, "--output", overwrite=False)
    with pytest.raises(FocatError, match="a folder, where a file was expected"):
        check_free(tmp_path, "--output", overwrite=True)


def test_named(tmp_path):
    (tmp_path / "lr=0.1").mkdir()
    assert named("base=runs/1") == ("base", Path("runs/1"))
    assert named("runs/1") == (None, Path("runs/1"))
    assert named("=runs") == (None, Path("=runs"))
    assert named(f"s4 (CD=1)={tmp_path}") == ("s4 (CD=1)", tmp_path)
    assert named(tmp_path / "lr=0.1") == (None, tmp_path / "lr=0.1")


def test_devices():
    assert device_named("cpu").type == "cpu"
    with pytest.raises(FocatError, match=r"^--device abacus: cannot be used here"):
        device_named("abacus")
    with pytest.raises(FocatError, match=r"^--device meta: computes nothing"):
        device_named("meta")


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FocatError, match="pipe: a device or pipe, where a file was expected"):
        in_a_folder(tmp_path / "pipe")


def test_a_reader_who_has_had_enough():
    """`focat config --reference | head -1` is no failure, and nothing is said about it."""
    focat = f"{sys.executable} -m focat config --reference"
    done = subprocess.run(
        ["bash", "-c", f"{focat} | head -1; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "")


def test_there_must_be_somewhere_to_write(monkeypatch, tmp_path):
    (tmp_path / "in.txt").write_text("One.\n")
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(FocatError, match="standard output is closed; give -o FILE"):
        run_job(Job(tmp_path / "in.txt"), None, [], NULL_PROGRESS)


def test_what_no_model_can_take():
    with pytest.raises(FocatError, match=r"--window 9{20}: ask for 1,000 sentences at most"):
        WindowSettings().of_size(10**20 - 1)
    with pytest.raises(ValueError, match="less than or equal to 10"):
        SearchSettings(length_penalty=300)  # a length to this power is no number any more


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["translate", "run", "in.txt", "--beam", "0"], "Invalid value for '--beam'"),
        (["translate", "--bogus"], "No such option: --bogus"),
        (["translate"], "Missing argument 'RUN'"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["translate", "run", "in.txt", "--json", "in.txt"], "--json in.txt: is the input; give another file"),
        (["translate", "run", "in.txt", "-o", "a", "--json", "a"], "--json a: is the output; give another file"),
    ],
)
def test_wrong_words_are_one_line(words, expected, tmp_path):
    (tmp_path / "in.txt").touch()
    assert refused(tmp_path, *words).startswith(expected)


@pytest.mark.parametrize("command", [["compare", "a", "b"], ["evaluate", "run"], ["doctor"], ["prepare", "c.yaml"]])
def test_a_file_of_figures_that_cannot_be_written_is_refused_before_any_work(command, tmp_path):
    assert refused(tmp_path, *command, "--json", "nowhere/f.json") == "nowhere/f.json: there is no folder nowhere"
