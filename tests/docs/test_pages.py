"""What the documentation says can be run, runs: every page from top to bottom, in a folder of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from focat.config import load_settings
from focat.config.loading import RECIPES
from tests.docs.pages import PAGES, ROOT, Page
from tests.docs.shell import Shell

# Commands that are not run here, and why.
ELSEWHERE = {
    "make ": "what is behind it is looked at below",
    "focat demo": "tests/test_demo.py",
    "focat doctor --install-comet": "needs the network",
    "pip install": "needs the network",
    "--metrics bleu,comet": "needs COMET; tests/evaluation/test_comet.py",
    "FOCAT_DEMO=": "needs a whole demo",
    "python -m benchmarks": "measures for minutes",
    'reproduce("demo"': "trains for minutes",
}
RUNNING = [page for page in PAGES if page.blocks("bash", "console", "python")]


def lines_of(block: str) -> str:
    """A block without what is run elsewhere; a command may go over several lines."""
    whole = re.split(r"(?<!\\)\n", block)
    return "\n".join(line for line in whole if not any(other in line for other in ELSEWHERE))


@pytest.mark.parametrize("page", RUNNING, ids=str)
def test_it_runs(page: Page, world: Path, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "page"
    shutil.copytree(world, folder)
    for name, content in page.files().items():
        (folder / name).write_text(content, encoding="utf-8")
    for made in re.findall(r"(?:-o|--output|--instances|--json) (\S+)", page.text):
        (folder / made).unlink(missing_ok=True)  # what a page makes was not there before
    monkeypatch.chdir(folder)
    for kind, block in page.blocks("bash", "console", "python"):
        if kind == "bash":
            done = shell.run(lines_of(block), folder)
            assert done.returncode == 0, f"{block}\n{done.stderr}"
        elif kind == "console":
            command, *expected = block.splitlines()
            done = shell.run(command.removeprefix("$ "), folder)
            assert done.stderr.splitlines() == expected
        elif lines_of(block) == block:
            exec(compile(block, str(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Page) -> None:
    for target in page.links():
        assert (page.path.parent / target).exists(), target


def test_every_page_is_in_the_index() -> None:
    linked = set(Page("docs/README.md").links())
    assert {Path(page.name).name for page in PAGES if page.name.startswith("docs/")} <= linked | {"README.md"}


def test_targets_of_the_makefile_are_there() -> None:
    named = {target for page in PAGES for target in re.findall(r"`?make (demo|test|bench|lint|clean)\b", page.text)}
    assert {"demo", "test"} <= named
    for target in named:
        done = subprocess.run(["make", target, "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_recipes_that_are_named_are_there() -> None:
    readme = Page("README.md").text
    named = set(re.findall(r"`(?:focat:)?(s\dto\d[\w.-]*|base)`", readme))
    assert {"base", "s2to2", "s4to4"} <= named
    for recipe in named:
        assert (RECIPES / f"{recipe}.yaml").exists(), recipe
        load_settings(Path(f"focat:{recipe}"))


def test_files_and_settings_that_are_named_are_there() -> None:
    """In any page, and the rooms' files in the tables of the architecture and of the paper."""
    for page in PAGES:
        for name in re.findall(r"`((?:focat|tests|benchmarks|docs)/[\w/.-]+?)`", page.text):
            assert (ROOT / name).exists(), f"{page}: {name}"
    for name in ("docs/architecture.md", "docs/paper-to-code.md"):
        for path in re.findall(r"`((?:\w+/)+\w+\.\w+)`", Page(name).text):
            assert (ROOT / "focat" / path).exists() or (ROOT / path).exists(), f"{name}: {path}"
