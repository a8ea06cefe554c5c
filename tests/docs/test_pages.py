"""The code blocks of every page run, from top to bottom, in a copy of the workspace."""

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

# Commands that are not run here, and the reason.
SKIPPED = {
    "make ": "only its targets are checked, below",
    "focat demo": "tests/experiments/test_demo.py",
    "focat doctor --install-comet": "needs the network",
    "pip install": "needs the network",
    "--metrics bleu,comet": "needs COMET; tests/evaluation/test_comet.py",
    "FOCAT_DEMO": "needs a whole demo",
    "python -m benchmarks": "measures for minutes",
    'reproduce("demo"': "trains for minutes",
    "import ray": "needs the extra `ray`; tests/test_ray.py",
    "from transformers": "needs the extra `interop`; tests/interop/test_windows.py",
    "import ctranslate2": "needs the extra `interop`; tests/interop/test_windows.py",
    "--to ct2": "needs the extra `interop`; tests/interop/test_export.py",
}
WITH_CODE = [page for page in PAGES if page.blocks("bash", "console", "python")]


def without_skipped(block: str) -> str:
    """A block without the commands of `SKIPPED`; a command may span several lines."""
    commands = re.split(r"(?<!\\)\n", block)
    return "\n".join(command for command in commands if not any(part in command for part in SKIPPED))


@pytest.mark.parametrize("page", WITH_CODE, ids=str)
def test_code_blocks_run(
    page: Page, workspace: Path, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "page"
    shutil.copytree(workspace, folder)
    for name, content in page.files().items():
        (folder / name).write_text(content, encoding="utf-8")
    for output in re.findall(r"(?:-o|--output|--instances|--json) (\S+)", page.text):
        (folder / output).unlink(missing_ok=True)  # what a page writes must not exist before
    monkeypatch.chdir(folder)
    for kind, block in page.blocks("bash", "console", "python"):
        if kind == "bash":
            done = shell.run(without_skipped(block), folder)
            assert done.returncode == 0, f"{block}\n{done.stderr}"
        elif kind == "console":
            command, *expected = block.splitlines()
            done = shell.run(command.removeprefix("$ "), folder)
            assert done.stderr.splitlines() == expected
        elif without_skipped(block) == block:
            exec(compile(block, str(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_exist(page: Page) -> None:
    for target in page.links():
        assert (page.path.parent / target).exists(), target


def test_every_page_is_in_the_index() -> None:
    linked = set(Page("docs/README.md").links())
    assert {Path(page.name).name for page in PAGES if page.name.startswith("docs/")} <= linked | {"README.md"}


def test_named_make_targets_exist() -> None:
    named = {
        target
        for page in PAGES
        for target in re.findall(r"`?make (demo|test|tests|docs|wheel|bench|lint|clean)\b", page.text)
    }
    assert {"demo", "test", "docs", "wheel"} <= named
    for target in named:
        done = subprocess.run(["make", target, "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_named_recipes_exist() -> None:
    readme = Page("README.md").text
    named = set(re.findall(r"`(?:focat:)?(s\dto\d[\w.-]*|base)`", readme))
    assert {"base", "s2to2", "s4to4"} <= named
    for recipe in named:
        assert (RECIPES / f"{recipe}.yaml").exists(), recipe
        load_settings(Path(f"focat:{recipe}"))


def test_named_files_exist() -> None:
    """On any page, and the modules in the tables of architecture.md and paper-to-code.md."""
    for page in PAGES:
        for name in re.findall(r"`((?:focat|tests|benchmarks|docs)/[\w/.-]+?)`", page.text):
            assert (ROOT / name).exists(), f"{page}: {name}"
    for name in ("docs/architecture.md", "docs/paper-to-code.md"):
        for path in re.findall(r"`((?:\w+/)+\w+\.\w+)`", Page(name).text):
            assert (ROOT / "focat" / path).exists() or (ROOT / path).exists(), f"{name}: {path}"
