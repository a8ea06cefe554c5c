"""No corpus, settings file or file name can give orders to a terminal."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import focat
from focat.printing import printable
from tests.training.launcher import Command, Launcher
from tests.training.runs import settings_tree

TITLE, CLEAR, CLIPBOARD = "\x1b]0;mine\x07", "\x1b[2J", "\x1b]52;c;ZXZpbA==\x07"
HOSTILE = f"{TITLE}{CLEAR}{CLIPBOARD}\x9b2J\u202e[bold][link=x]y[/link][/]"
SHOWN = "␛]0;mine␇␛[2J␛]52;c;ZXZpbA==␇�2J�[bold][link=x]y[/link][/]"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
OURS = re.compile("\x1b\\[[0-9;?]*[mlhAK]|\r")  # colours, the cursor, a line that is replaced


def in_a_pipe(launcher: Launcher, folder: Path, *arguments: object, expect: int = 0) -> str:
    """What a command prints into a pipe or file."""
    return launcher.focat(folder, *arguments, expect=expect)


def in_a_terminal(launcher: Launcher, folder: Path, *arguments: object, expect: int = 0) -> str:
    """What a command prints in a terminal, without its own colours."""
    ours, theirs = pty.openpty()
    parts: list[bytes] = []

    def read() -> None:
        while True:
            try:
                parts.append(os.read(ours, 1 << 16))
            except OSError:  # closed
                return

    reader = threading.Thread(target=read)
    reader.start()
    words, environment = [str(argument) for argument in arguments], {"TERM": "xterm-256color", "COLUMNS": "400"}
    command = Command(launcher, launcher.ask("start", words, os.ttyname(theirs), environment), folder / "none")
    try:
        assert command.wait() == expect
    finally:
        os.close(theirs)
        reader.join(10)
        os.close(ours)
    return OURS.sub("", b"".join(parts).decode())


Shown = Callable[..., str]


@pytest.fixture(params=[in_a_pipe, in_a_terminal])
def shown(request: pytest.FixtureRequest) -> Shown:
    """How a command's output is taken."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Path:
    """Settings of a system with a hostile corpus, in a folder with a hostile name; the store is made."""
    folder = tmp_path_factory.mktemp(f"folder {CLEAR}[red]")
    lines = [f"Hello {i}, {HOSTILE}" for i in range(40)]
    for name, sentences in (("corpus.en", lines), ("corpus.de", [f"{line} {'und ' * 30}" for line in lines])):
        (folder / name).write_text("\n".join(sentences) + "\n", encoding="utf-8")
    tree = settings_tree(folder / "store", folder / "run")
    corpus = {"format": "text", "source": str(folder / "corpus.en"), "target": str(folder / "corpus.de")}
    tree["data"] |= {
        "train": [corpus],
        "dev": [corpus],
        "tokenizer": {"vocabulary": 320},
        "cleaning": {"max_length_ratio": 100.0},
    }
    tree["training"] |= {"budget": {"updates": 1}, "validate_every": 1, "log_samples": 2}
    path = folder / "config.yaml"
    path.write_text(json.dumps(tree))
    launcher.focat(folder, "prepare", path)
    return path


def test_inspect(shown: Shown, config: Path, launcher: Launcher) -> None:
    output = shown(launcher, config.parent, "inspect", config.parent / "store", "--windows", 2, "--before", 0)
    assert not CONTROL.search(output)
    assert SHOWN.replace(" ", "") in re.sub(r"[\s│]", "", output)
    assert "␛[2J[red]" in output  # the folder


def test_training(shown: Shown, config: Path, launcher: Launcher) -> None:
    output = shown(launcher, config.parent, "train", config, f"training.output_dir={config.parent}/{shown.__name__}")
    assert not CONTROL.search(output)
    assert SHOWN[:20] in output


@pytest.mark.parametrize(
    "content",
    [f'"{json.dumps(HOSTILE)[1:-1]}": 1', f'model: {{"{json.dumps(HOSTILE)[1:-1]}": 1}}', "windows: {before: -1}"],
)
def test_errors_about_settings(content: str, shown: Shown, tmp_path: Path, launcher: Launcher) -> None:
    path = tmp_path / f"a{CLEAR}\nb.yaml"
    path.write_text(content)
    output = shown(launcher, tmp_path, "config", path, expect=2)
    assert not CONTROL.search(output)
    assert "a␛[2J␤b.yaml" in output
    assert output.count("\n") == 1


def test_errors_about_options(shown: Shown, tmp_path: Path, launcher: Launcher) -> None:
    for line in (["translate", "run", f"--{HOSTILE}"], ["translate", HOSTILE], [HOSTILE], ["inspect", HOSTILE]):
        output = shown(launcher, tmp_path, *line, expect=2)
        assert not CONTROL.search(output)
        assert output.count("\n") == 1
        assert "]0;mine" in output


def test_translations_stay_as_they_are(config: Path, launcher: Launcher, tmp_path: Path) -> None:
    """The data itself is written byte for byte: here, a line in which nothing is said."""
    run = config.parent / "for-translation"
    launcher.focat(tmp_path, "train", config, f"training.output_dir={run}", "-q")
    (tmp_path / "in.txt").write_bytes(b"\x1b\x1b\nHello.\n")
    assert launcher.focat(tmp_path, "translate", run, tmp_path / "in.txt", "-q").startswith("\x1b\x1b\n")


def test_every_character_that_controls_is_shown() -> None:
    assert printable("a\tb\nc ä 😀 שלום") == "a\tb\nc ä 😀 שלום"
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x202E, 0x2066, 0x2069, 0xD800, 0xDFFF):
        if chr(code) not in "\t\n":
            visible = printable(chr(code))
            assert visible.isprintable()
            assert len(visible) == 1
    assert printable("\x1b\x00\x7f\x9b") == "␛␀␡�"


def test_nothing_else_prints() -> None:
    """Text for people goes through `focat.printing`; these functions print data."""
    data = {
        ("cli/data.py", "config_command"),
        ("cli/measure.py", "score_command"),
        ("evaluation/comet_worker.py", "comet_main"),  # JSON, read by another process
    }
    safe = {("printing.py", "print_line"), ("progress.py", "status"), ("reporting/table.py", "print_lines")}
    root = Path(focat.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and any(_prints(node) for node in ast.walk(function)):
                found.add((path.relative_to(root).as_posix(), function.name))
    assert found == data | safe


def _prints(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
