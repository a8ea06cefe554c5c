"""Options, names and messages that pages mention exist in the code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from focat.experiments.plan import load_plan, plan_names
from tests.docs.pages import ROOT, Page
from tests.docs.shell import Shell
from tests.evaluation.commands import focat


def test_named_options_exist(tmp_path: Path) -> None:
    named = set()
    for page in (
        "reporting",
        "translating",
        "measuring-suites",
        "measuring-quality",
        "analysing",
        "tutorial",
        "scaling",
    ):
        text = Page(f"docs/{page}.md").text
        own = "\n".join(
            line for line in text.splitlines() if not line.startswith(("torchrun", "srun", "#SBATCH", "     --"))
        )
        named |= set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", own))
    commands = (
        "report",
        "contrast",
        "score",
        "evaluate",
        "compare",
        "analyse",
        "translate",
        "reproduce",
        "doctor",
        "inspect",
    )
    known = "".join(focat(tmp_path, command, "--help").stdout for command in commands)
    foreign = {"--nproc-per-node", "--requeue"}  # of torchrun and Slurm
    assert {"--results", "--suite", "--window", "--nbest", "--int8"} <= named
    assert not {option for option in named - foreign if option not in known}


def test_messages_on_the_faq_page_are_in_the_code() -> None:
    """Every part of a message in bold and back quotes is in some module."""
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "focat").rglob("*.py"))
    code = re.sub(r'"\s*f?"', "", code)  # adjacent string literals are one string
    for message in re.findall(r"\*\*`(.+?)`\*\*", Page("docs/faq.md").text, re.DOTALL):
        pieces = [piece.strip(" :;.,()") for piece in re.split(r"…|\d+|\n|; |= cuda|= 32000", message)]
        assert pieces
        for piece in pieces:
            assert piece in code, piece


def test_names_in_the_json_of_analyses_are_documented(workspace: Path, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "analysis.json"
    command = "focat analyse plain focused --suite deixis_test.json --limit 1 --windows 1"
    done = shell.run(f"{command} --json {file}", workspace)
    assert done.returncode == 0, done.stderr
    record = json.loads(file.read_text(encoding="utf-8"))

    def names(content: Any) -> Iterator[str]:
        if isinstance(content, dict):
            for name, value in content.items():
                yield name
                yield from names(value)
        if isinstance(content, list):
            for value in content:
                yield from names(value)

    settings = set(record["systems"]["plain"]["windows"])
    named = set(names(record)) - set(record["systems"]) - settings - {"deixis", "deixis_test"}
    text = Page("docs/analysing.md").text
    assert [name for name in named if not name.isdecimal() and not re.search(rf"\b{re.escape(name)}\b", text)] == []


def test_plans_and_overrides(tmp_path: Path) -> None:
    page = Page("docs/reproducing.md")
    overrides = re.findall(r"`([\w.]+=[^`]+)`", page.text)
    overrides = [o for o in overrides if not o.endswith("FOLDER") and o != "key=value"]
    assert len(overrides) == 6
    plan = load_plan("paper-en-ru", [f"corpora={tmp_path}", f"suites={tmp_path}", *overrides]).plan
    assert plan.seeds == (1, 2, 3)
    assert sorted(plan_names()) == sorted(re.findall(r"^\| `([\w-]+)` \|", page.text, re.MULTILINE))
    (tmp_path / "my-plan.yaml").write_text(page.files()["my-plan.yaml"], encoding="utf-8")
    own = load_plan(str(tmp_path / "my-plan.yaml")).plan
    assert own.baselines_of("tuned") == ["base", "scratch"]
    assert own.baselines_of("scratch") == ["base"]


def test_every_table_and_figure_of_the_paper_is_listed() -> None:
    text = Page("docs/paper-to-code.md").text
    for number in range(1, 9):
        assert re.search(rf"^\| Table {number}, ", text, re.MULTILINE)
    for number in range(1, 5):
        assert re.search(rf"^\| figure {number}, ", text, re.MULTILINE)
    assert "equation 1" in text
    assert "equation 2" in text
    for plan in re.findall(r"focat reproduce ([\w-]+)", text):
        assert plan in plan_names()
