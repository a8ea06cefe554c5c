"""Two tiny systems, trained, asked, evaluated and analysed as a user does it; and the page about them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from focat.corpus.generated.suites import write_suites
from tests.evaluation.commands import focat
from tests.reporting.pages import Page
from tests.training.runs import settings_tree

SYSTEMS = {"base": ["windows.before=0", "objective.discount=1", "training.seed=2"], "focused": []}
# So little that each still has ideas of its own; and short ones, because untrained systems do not know when to stop.
SHORT = ["training.learning_rate=3e-4", "decoding.max_length_ratio=1", "decoding.max_length_offset=2"]


@dataclass(frozen=True)
class ReportedSystems:
    """A folder with base/, focused/, their results, an analysis and the page."""

    folder: Path
    page: Page

    def json(self, name: str) -> dict:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportedSystems:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("report")
    tree = settings_tree(folder / "store", folder / "run")
    tree["data"]["test"] = [{"format": "generated", "documents": 3, "seed": 3}]
    (folder / "config.yaml").write_text(json.dumps(tree))
    write_suites(folder / "suites", 30, 1000)
    suites = ["--suite", "suites/deixis.json", "--suite", "suites/contrapro.json"]
    suites += ["--context-source", "suites/contrapro.context.en", "--context-target", "suites/contrapro.context.de"]
    focat(folder, "prepare", "config.yaml")
    for name, changes in SYSTEMS.items():
        focat(folder, "train", "config.yaml", f"training.output_dir={name}", *SHORT, *changes)
        results = folder / name / "results"
        results.mkdir()
        answers = ["--instances", results / "answers.jsonl", "--json", results / "contrast.json"]
        focat(folder, "contrast", name, *suites, *answers)
        focat(folder, "evaluate", name, "--beam", 1, "--json", results / "test.json")
    focat(folder, "analyse", *SYSTEMS, "--limit", 20, "--windows", "1-2", "--trials", 50, "--json", "analysis.json")
    arguments = [*SYSTEMS, "--results", "analysis.json", *suites, "-o", "page.html"]
    focat(folder, "report", *arguments)
    return ReportedSystems(folder, Page((folder / "page.html").read_text(encoding="utf-8")))
