"""What docs/reproducing.md says: its plan is valid, and each of its commands names what there is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from focat.reproduce.plan import load_plan, plan_names
from tests.reproduce.plans import PlanLauncher

TEXT = (Path(__file__).parents[2] / "docs" / "reproducing.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


def test_its_plan(tmp_path: Path) -> None:
    (yaml,) = blocks("yaml")
    (tmp_path / "my-plan.yaml").write_text(yaml, encoding="utf-8")
    plan = load_plan(str(tmp_path / "my-plan.yaml")).plan
    assert plan.baselines_of("tuned") == ["base", "scratch"]
    assert plan.baselines_of("scratch") == ["base"]


def test_its_commands(tmp_path: Path, launcher: PlanLauncher) -> None:
    """Listing the steps reads the plan, its overrides and all options, and does nothing."""
    (yaml,) = blocks("yaml")
    (tmp_path / "my-plan.yaml").write_text(yaml, encoding="utf-8")
    sides = [(pair, side) for pair in ("en-ru", "en-de") for side in pair.split("-")]
    for folder, side in [*sides, (".", "en"), (".", "de")]:
        for name in ("train", "dev", "test"):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / f"{name}.{side}").touch()
    lines = [line.split("  #")[0] for block in blocks("bash") for line in block.splitlines() if line]
    assert len(lines) == 10
    for line in lines:
        program, *words = shlex.split(line.replace("FOLDER", str(tmp_path)).replace("my-plan", f"{tmp_path}/my-plan"))
        assert program == "focat"
        plan = [] if words == ["reproduce"] else ["--list"]
        said = launcher.focat(tmp_path, *words, *plan)
        assert "steps are done" in said or not plan


def test_its_overrides_and_plans(tmp_path: Path) -> None:
    overrides = re.findall(r"`([\w.]+=[^`]+)`", TEXT)
    overrides = [o for o in overrides if not o.endswith("FOLDER") and o != "key=value"]
    assert len(overrides) == 6
    plan = load_plan("paper-en-ru", [f"corpora={tmp_path}", f"suites={tmp_path}", *overrides]).plan
    assert plan.seeds == (1, 2, 3)
    assert sorted(plan_names()) == sorted(re.findall(r"^\| `([\w-]+)` \|", TEXT, re.MULTILINE))
