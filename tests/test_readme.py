"""What the README says is true: its commands run as written, in an empty folder, on the files it speaks of."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from focat.config import load_settings
from focat.config.loading import RECIPES
from focat.corpus.generated import generate

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL)


def _commands(block: str) -> list[str]:
    return [line.split("  #")[0].strip() for line in block.splitlines() if line.strip()]


def _write_corpus(folder: Path, name: str, documents: int, seed: int) -> None:
    """The files of the README: a blank line between documents."""
    corpus = list(generate(documents, seed))
    for language, side in (("en", "source"), ("de", "target")):
        text = "\n\n".join("\n".join(getattr(document, side)) for document in corpus)
        (folder / f"{name}.{language}").write_text(text + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    _write_corpus(folder, "train", 120, 1)
    _write_corpus(folder, "dev", 10, 2)
    (settings,) = _blocks("yaml")
    (folder / "my.yaml").write_text(settings, encoding="utf-8")
    return folder


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", *command.split()]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_first_commands_are_targets_of_the_makefile():
    first = _commands(_blocks("bash")[0])
    assert first == ["make demo", "make test"]
    for command in first:
        done = subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_commands_on_own_documents(folder):
    commands = _commands(_blocks("bash")[1])
    assert len(commands) >= 5
    for command in commands:
        done = _run(command, folder)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert (folder / "try" / "averaged" / "weights.safetensors").exists()


def test_console_example(folder):
    (example,) = _blocks("console")
    command, *expected = example.splitlines()
    done = _run(command.removeprefix("$ "), folder)
    assert done.returncode == 2
    assert done.stderr.splitlines() == expected


def test_recipes_it_names_are_there():
    named = set(re.findall(r"`(?:focat:)?(s\dto\d[\w.-]*|base)`", README))
    assert {"base", "s2to2", "s4to4", "s4to1", "s4to4-annealed-cd"} <= named
    for recipe in named:
        assert (RECIPES / f"{recipe}.yaml").exists(), recipe
        load_settings(Path(f"focat:{recipe}"))


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
