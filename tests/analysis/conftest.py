"""Three small systems, trained as a user would, and the files that analyses are asked about."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from focat.config import Settings, load_settings
from focat.corpus.generated import contrapro_suite, generate, voita_suite
from focat.corpus.prepare import prepare
from focat.progress import NULL_PROGRESS
from focat.training.trainer import train
from tests.evaluation.commands import focat
from tests.training.runs import settings_tree

torch.set_num_threads(1)


@dataclass(frozen=True)
class Workshop:
    """A folder with the runs `base` (no context), `plain` and `focused`, suites, and a text of one's own."""

    folder: Path

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def analyse(self, *arguments: str | Path, expect: int = 0) -> str:
        """`focat analyse …`; returns what it said."""
        done = focat(Path.cwd(), "analyse", *arguments, expect=expect)
        return done.stdout + done.stderr

    def record(self, *arguments: str | Path) -> dict[str, Any]:
        """The same; returns what it wrote as JSON."""
        file = self.folder / "analysis.json"
        self.analyse(*arguments, "--json", file, "--overwrite")
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    folder = tmp_path_factory.mktemp("analyses")
    tree = settings_tree(folder / "store", folder / "focused")
    tree["data"]["test"] = [{"format": "generated", "documents": 5, "seed": 3}]
    (folder / "config.yaml").write_text(json.dumps(tree), encoding="utf-8")
    prepare(Settings.model_validate(tree).data, NULL_PROGRESS)
    systems = {"focused": [], "plain": ["objective.discount={end: 1}"], "base": ["windows.before=0"]}
    for name, differences in systems.items():
        train(
            load_settings(folder / "config.yaml", [*differences, f"training.output_dir={folder}/{name}"]), NULL_PROGRESS
        )
    (folder / "deixis_test.json").write_text(json.dumps(voita_suite("deixis", 8, 1000)), encoding="utf-8")
    entries, source, target = contrapro_suite(6, 1000)
    (folder / "pronouns.json").write_text(json.dumps(entries), encoding="utf-8")
    for name, lines in (("context.en", source), ("context.de", target)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    documents = list(generate(5, 3))
    for language, side in (("en", "source"), ("de", "target")):
        text = "\n\n".join("\n".join(getattr(document, side)) for document in documents)
        (folder / f"own.{language}").write_text(text + "\n", encoding="utf-8")
    return Workshop(folder)
