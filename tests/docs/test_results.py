"""docs/results.md and its appendix agree with the files in results/."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from focat.experiments.results import RESULT_VERSION, ResultStore, StepResult
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def build() -> Any:
    spec = importlib.util.spec_from_file_location("results_build", ROOT / "results" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_agree_with_the_files(build: Any) -> None:
    for path in build.PAGES:
        page = path.read_text(encoding="utf-8")
        assert build.filled(page) == page, f"{path.name}: python results/build.py"
    page = next(path for path in build.PAGES if "smaller" in path.name).read_text(encoding="utf-8")
    assert "<!-- contrast en-ru-annealed-7min voita.json -->\n| suite |" in page
    wrong = page.replace("| 82.36 |", "| 85.36 |")
    assert wrong != page
    assert build.filled(wrong) == page


def test_every_folder_of_results_is_on_a_page(build: Any) -> None:
    page = "".join(path.read_text(encoding="utf-8") for path in build.PAGES)
    folders = {path.name for path in build.HERE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {name for what, name in re.findall(r"<!-- (\w+) ([\w-]+)", page) if what != "end"}
    readme = (build.HERE / "README.md").read_text(encoding="utf-8")
    assert all(f"`{folder}/`" in readme for folder in folders)


def test_tables_of_a_plan(build: Any, tmp_path: Path) -> None:
    """Ten questions, of which one system answers four and the other nine."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "plan.yaml").write_text(
        "title: Small\n"
        "folders: {texts: texts}\n"
        "data: {source_language: en, target_language: de, train: "
        '[{format: text, source: "{texts}/a", target: "{texts}/b"}]}\n'
        "systems: {base: {recipe: focat:base}, wide: {title: s4to4 + x, recipe: focat:s4to4}}\n"
        'suites: {deixis: {path: "{texts}/c"}}\n'
        "against: [base]\n"
        "rules: [current-sum]\n"
    )
    right = {"wide": "1111110111", "base": "1110000001"}
    for name, correct in right.items():
        packed = {"phenomena": [["deixis", 10]], "distances": "1113333111", "ids": "x"}
        packed["correct"] = {"current-sum": correct}
        answered = {"kind": "contrast", "suite": "deixis", "answers": packed}
        write_step(folder, {"system": name, "seed": 1, "kind": "contrast", "dataset": "deixis"}, answered)
        trained = {"kind": "train", "updates": 1234, "epochs": 2.5, "window": 4, "discount": 1.0, "shift": 0}
        trained |= {"segment_embeddings": "none", "weights_sha256": "abcdef0123"}
        how = {"minutes": 5.04, "hardware": "a machine", "date": "2026-11-16T00:00:00+00:00"}
        write_step(folder, {"system": name, "seed": 1, "kind": "train"}, trained, how)
    for name, dev in (("base", 3.5), ("wide", 3.25)):
        lines = [{"kind": "train", "update": 10, "current": 4.0}, {"kind": "train", "update": 20, "current": 3.0}]
        lines.append({"kind": "validation", "update": 20, "current": dev})
        (folder / f"{name}.1.log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    blocks = "table small accuracy.current-sum", "obtained small", "distances small deixis", "compared small Disc."
    blocks += "logs small", "plot small accuracy", "plot small current"
    page = "".join(f"<!-- {block} -->\nold\n<!-- end -->\n\n" for block in blocks)
    found = build.filled(page, tmp_path)
    assert "| base | 40.00 | 40.00 |\n| s4to4 + x | **90.00** | **90.00** |" in found
    assert "| wide | 1 | 1,234 | 2.5 | 5.0 | a machine | 2026-11-16 | `abcdef01` |" in found
    assert (
        "| deixis, by distance (instances) | 1 (6) | 3 (4) |\n| --- | --- | --- |\n| base | 66.67 | 0.00 |\n" in found
    )
    assert "| s4to4 + x | 100.00 | 75.00 |" in found
    assert re.search(
        r"Differences between systems: Disc.\n\n.*\n.*\n\| s4to4 \+ x − base \| 50.00 \| .* \| 0.0625 \|", found
    )
    assert "| wide.1.log | 20 | 3.000 | 3.250 |" in found
    assert "![Right answers, with 95 % intervals. deixis: base 40, s4to4 + x 90.](small-accuracy.svg)" in found
    assert "s4to4 + x 4 at update 10, 3 at update 20.](small-current.svg)" in found
    assert "old" not in found
    assert build.filled(found, tmp_path) == found


def write_step(folder: Path, step: Any, result: Any, provenance: Any = None) -> None:
    content = {"kind": "focat result", "version": RESULT_VERSION, "step": step, "result": result}
    found = StepResult.model_validate({**content, "provenance": provenance or {}})
    ResultStore(folder).save(found)
