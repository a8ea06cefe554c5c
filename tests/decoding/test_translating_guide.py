"""What docs/translating.md says is true: its commands and its Python run as written, in a folder with its files."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from focat.api import Model
from focat.training.run import Run
from tests.decoding.tiny import tiny_run
from tests.training.launcher import Launcher

GUIDE = (Path(__file__).parents[2] / "docs" / "translating.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(run: Run, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guide")
    shutil.copytree(run.path, folder / "run")
    shutil.copytree(tiny_run(runs, seed=2).path, folder / "run2")
    (folder / "talk.txt").write_text("Where is the cat?\nIt is old.\n\nTom sleeps.\n")
    (folder / "book.txt").write_text("Tom sleeps. He is old.\n")
    (folder / "film.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nWhere is the cat?\n")
    (folder / "talks.jsonl").write_text('{"id": 7, "sentences": ["Where is the cat?", "It is old."]}\n')
    return folder


def commands() -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", GUIDE, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


@pytest.mark.parametrize("command", commands())
def test_command(command: str, folder: Path, launcher: Launcher, model: Model) -> None:
    if "|" in command:
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], cwd=folder, env=environment, check=True)
        output = command.split()[-1]
        assert (folder / output).read_text() == model.translate((folder / "talk.txt").read_text())
    else:
        program, *words = shlex.split(command)
        assert program == "focat"
        output = words[words.index("-o") + 1]
        placed = [str(folder / word) if re.fullmatch(r"run2?|[\w.]+\.[a-z]+", word) else word for word in words]
        done = launcher.start(placed, folder)
        assert done.wait() == 0, done.said
    source = next(word for word in command.split() if (folder / word).is_file())
    lines = (folder / output).read_text().count("\n")
    assert lines == (folder / source).read_text().count("\n")
    (folder / output).unlink()


def test_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    monkeypatch.chdir(folder)
    exec(compile(code, "translating.md", "exec"), {})
    assert (folder / "python.de.txt").exists()
