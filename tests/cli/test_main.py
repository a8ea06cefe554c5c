"""The command line as a whole: help, version, what it imports, and one line for what cannot be."""

import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress

import pytest
import typer
from typer.main import get_command

from focat._version import __version__
from focat.cli import _with_flags, app
from focat.cli.help import EXAMPLES
from focat.translation.formats import FORMATS
from tests.evaluation.commands import focat, refused

COMMANDS = [command.name for command in app.registered_commands]


def test_help_is_instant_because_nothing_heavy_is_imported(tmp_path):
    # -X importtime names every module that is imported, on stderr.
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "focat", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "prepare" in done.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in imported  # the names are read right
    assert not imported & {"torch", "numpy", "pydantic", "sentencepiece", "yaml"}


def test_garbage_is_not_collected_all_the_time_while_a_command_imports():
    line = "import gc; from focat.cli import main; gc.callbacks.append(lambda *_: print('collected')); main()"
    done = subprocess.run([sys.executable, "-c", line, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("focat ")  # at its end, Python collects what is left


@pytest.mark.parametrize(
    ("module", "other"),
    [
        ("focat.evaluation.contrast", {"focat.translation", "sacrebleu", "scipy", "lxml", "markdown_it"}),
        ("focat.evaluation.line_statistics", {"torch", "pydantic", "scipy"}),
        ("focat.evaluation.test_sets", {"focat.translation.formats", "scipy", "markdown_it"}),
    ],
)
def test_a_command_starts_without_what_it_does_not_need(module, other):
    line = f"import {module}, sys; print(*({other!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_by_either_name(command, tmp_path):
    long, short = (focat(tmp_path, command, flag).stdout for flag in ("--help", "-h"))
    assert long == short
    assert f"focat {command}" in long


def test_the_help_of_every_command_has_examples_that_it_accepts():
    assert list(EXAMPLES) == COMMANDS
    group = get_command(app)
    for name, examples in EXAMPLES.items():
        for line in examples:
            command = line.partition(" | ")[2] or line
            program, called, *words = shlex.split(command.partition(" > ")[0])
            assert (program, called) == ("focat", name)
            with suppress(typer.Exit), group.commands[name].make_context(name, words):  # --list prints and exits
                pass


def test_help_groups_commands_by_what_they_are_for(tmp_path):
    _, *panels = re.split("╭─ (.+?) ─+╮", focat(tmp_path, "--help").stdout)
    listed = {
        name: re.findall(r"^│ ([a-z]+) ", text, re.MULTILINE)
        for name, text in zip(panels[::2], panels[1::2], strict=True)
    }
    assert listed.pop("Options") == []
    assert [name for names in listed.values() for name in names] == COMMANDS
    assert listed["Translate"] == ["translate", "serve"]


def test_help_shows_no_type_where_there_is_nothing_to_type(tmp_path):
    text = focat(tmp_path, "translate", "--help").stdout
    assert "Usage: focat translate [OPTIONS] RUN [INPUT…|KEY=VALUE]..." in text
    assert re.search(r"--beam +N \[x>=1\] ", text)
    assert not re.search("<(bool|str|path|list|int|float)", text)
    assert "\n   focat translate my-run film.srt -o film.de.srt\n" in text


@pytest.mark.parametrize(
    ("words", "expected"), [("focat tra", ["train", "translate"]), ("focat train --q", ["--quiet"])]
)
def test_shells_complete_commands_and_options(words, expected):
    variables = {"_FOCAT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "focat"], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == expected


def test_every_command_with_progress_can_be_quiet():
    without_progress = {"config", "inspect", "average", "import", "export", "serve"}
    for command in app.registered_commands:
        assert ("quiet" in command.callback.__annotations__) == (command.name not in without_progress), command.name


def test_help_names_every_format_of_documents(tmp_path):
    text = focat(tmp_path, "translate", "--help").stdout
    assert [name for name in FORMATS if not re.search(rf"\b{name}\b", text)] == []


def test_help_promises_to_replace_only_what_a_command_replaces(tmp_path):
    for command in ("demo", "train", "reproduce", "doctor"):
        assert "Replace the file of --json." in focat(tmp_path, command, "--help").stdout
    assert "Replace what exists." in focat(tmp_path, "prepare", "--help").stdout


def test_version(tmp_path):
    assert focat(tmp_path, "--version").stdout == f"focat {__version__}\n"


def test_closing_the_output_early_is_no_failure():
    """As `focat config --reference | head -1` does; nothing is written to standard error."""
    focat = f"{sys.executable} -m focat config --reference"
    done = subprocess.run(
        ["bash", "-c", f"{focat} | head -1; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["translate", "run", "in.txt", "--beam", "0"], "Invalid value for '--beam'"),
        (["translate", "--bogus"], "No such option: --bogus"),
        (["translate"], "Missing argument 'RUN'; see `focat translate --help`"),
        (["prepare", "--overwrit"], "No such option: --overwrit; did you mean --overwrite?"),
        (["contrast", "run", "--suites", "x"], "No such option: --suites; did you mean --suite?"),
        (["trian", "my.yaml"], "No such command 'trian'; did you mean 'train'?"),
        (["train", "my.yaml", "--windows.before", "3"], "No such option: --windows.before; a setting has no dashes: "),
        (["train", "my.yaml", "--windows.before=3"], "No such option: --windows.before; a setting has no dashes: "),
        (["frobnicate"], "No such command 'frobnicate'"),
        (
            ["average", "run", "--rule", "mean"],
            "Invalid value for '--rule': 'mean' is not one of 'closest', 'next'",
        ),
        (["analyse", "run", "--windows", "0"], "--windows 0: give window sizes from 1"),
        (
            ["translate", "run", "in.txt", "--json", "in.txt", "--overwrite"],
            "--json in.txt: is the input; give another file",
        ),
        (["translate", "run", "in.txt", "-o", "a", "--json", "a"], "--json a: is the output; give another file"),
    ],
)
def test_wrong_arguments_are_one_line(words, expected, tmp_path):
    (tmp_path / "in.txt").touch()
    assert refused(tmp_path, *words).startswith(expected)


def test_what_to_give_is_named_as_the_command_has_it():
    options = {"top_p": "--top-p", "context_source": "--context-source", "suite": "--suite"}
    assert _with_flags("suite: give context_source, or top_p", options) == "suite: give --context-source, or --top-p"
    for same in (
        "a/top_p: no such file",
        "decoding: top_p = 2: too large",
        "decoding.top_p, too",
        "top_p.txt: is empty",
    ):
        assert _with_flags(same, options) == same
    assert _with_flags("give top_p", {"suite": "--suite"}) == "give top_p"


@pytest.mark.parametrize("command", [["compare", "a", "b"], ["evaluate", "run"], ["doctor"], ["prepare", "c.yaml"]])
def test_a_file_of_figures_that_cannot_be_written_is_refused_before_any_work(command, tmp_path):
    assert refused(tmp_path, *command, "--json", "nowhere/f.json") == "nowhere/f.json: there is no folder nowhere"


def test_every_command_that_writes_figures_refuses_a_file_that_exists():
    for command in app.registered_commands:
        parameters = command.callback.__annotations__
        assert "overwrite" in parameters or "json_file" not in parameters, command.name


@pytest.mark.parametrize("command", [["compare", "a", "b"], ["train", "c.yaml"], ["doctor"], ["inspect", "store"]])
def test_a_file_of_figures_that_exists_is_refused_unless_overwritten(command, tmp_path):
    (tmp_path / "f.json").write_text("mine")
    line = "f.json: exists; give another file, or overwrite it"
    assert refused(tmp_path, *command, "--json", "f.json") == line
    assert (tmp_path / "f.json").read_text() == "mine"
    if command[0] != "doctor":
        for words in (["--json", "f.json", "--overwrite"], ["--overwrite", "--json", "f.json"]):
            assert refused(tmp_path, *command, *words) != line


def test_a_picture_that_exists_is_refused(tmp_path):
    (tmp_path / "f.svg").write_text("mine")
    line = "f.svg: exists; give another file, or overwrite it"
    assert refused(tmp_path, "inspect", "store", "--svg", "f.svg") == line


@pytest.mark.parametrize(
    "command",
    [
        ["inspect", "store", "--svg"],
        ["evaluate", "run", "-o"],
        ["contrast", "run", "--suite", "suite.json", "--instances"],
        ["score", "run", "a", "b", "-o"],
        ["analyse", "run", "--items"],
    ],
)
def test_two_outputs_in_one_file_are_refused(command, tmp_path):
    assert refused(tmp_path, *command, "f", "--json", "./f") == "--json f: is the other output, too; give another file"
    assert list(tmp_path.iterdir()) == []


def test_an_error_that_quotes_something_long_is_shortened(tmp_path):
    (tmp_path / "numbers.txt").write_text("9" * 100_000 + "\n")
    line = refused(tmp_path, "compare", "numbers.txt", "numbers.txt")
    assert line.startswith("numbers.txt, line 1: 999")
    assert line.endswith("999 is not finite")
    assert 1000 < len(line) < 1010


@pytest.mark.parametrize(
    "words",
    [
        ["config", "a" * 5000 + ".yaml"],
        ["prepare", "a" * 5000 + ".yaml"],
        ["translate", "a" * 5000],
        ["report", "a" * 5000, "-o", "page.html"],
        ["contrast", "a" * 5000, "--suite", "suite.json"],
        ["import", "a" * 5000, "-o", "run"],
    ],
    ids=lambda words: words[0],
)
def test_a_name_that_no_file_can_have_is_one_line(words, tmp_path):
    refused(tmp_path, *words)


def test_a_base_that_no_file_can_have_is_one_line(tmp_path):
    (tmp_path / "c.yaml").write_text(f"base: {'a' * 5000}\n")
    assert refused(tmp_path, "config", "c.yaml").startswith("aaa")
