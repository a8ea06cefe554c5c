"""Plans: what they amount to, and what is said about those that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from focat.errors import FocatError
from focat.experiments.experiment import Experiment
from focat.experiments.plan import PLANS, load_plan, plan_names
from focat.experiments.tasks import all_tasks
from focat.progress import NULL_PROGRESS
from tests.experiments.plans import TINY, write_plan
from tests.training.launcher import Launcher


def wrong(folder: Path, changes: dict[str, Any], *overrides: str) -> str:
    """What is said about a plan."""
    with pytest.raises(FocatError) as error:
        load_plan(str(write_plan(folder, changes)), overrides)
    message = str(error.value)
    assert "\n" not in message
    return message.removeprefix(f"{folder}/tiny.yaml").removeprefix(": ").removeprefix(", ")


def test_settings_come_from_recipe_plan_and_system_in_this_order(tmp_path: Path) -> None:
    systems = {"one": {"recipe": "focat:s4to4-cd", "settings": {"model": {"dropout": 0.25}}}}
    path = write_plan(tmp_path, {"systems": systems, "against": [], "seeds": [3, 4]})
    (system, seed, settings), (_, other, _) = load_plan(str(path)).all_settings()
    assert (system, seed, other) == ("one", 3, 4)
    assert settings.objective.discount == 0.01  # the recipe's
    assert settings.model.d_model == 32  # the plan's
    assert settings.model.dropout == 0.25  # the system's own
    assert settings.training.seed == 3
    assert settings.training.budget.model_dump() == {"updates": 12, "epochs": None, "minutes": None}


def test_overrides_reach_everything(tmp_path: Path) -> None:
    path = str(write_plan(tmp_path))
    loaded = load_plan(path, ["systems.focused.settings.windows.before=3", "budget.updates=7", "seeds=[5]"])
    settings = loaded.settings("focused", 5)
    assert (settings.windows.before, settings.training.budget.updates) == (3, 7)


def test_a_setting_file_beside_the_plan_is_a_recipe_too(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: focat:s3to3\nmodel: {shift: 7}\n")
    path = write_plan(tmp_path, {"systems": {"mine": {"recipe": "mine.yaml"}}, "against": []})
    settings = load_plan(str(path)).settings("mine", 1)
    assert (settings.windows.before, settings.model.shift) == (2, 7)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sistems": {}}, "sistems: there is no such setting; did you mean systems?"),
        ({"systems": {}}, "systems: should have at least 1"),
        (
            {"systems": {"base": {"recip": "focat:base"}}},
            "systems.base.recip = focat:base: there is no such setting; did you mean systems.base.recipe?",
        ),
        ({"systems": {"base": {}}}, "systems.base.recipe: is needed and not given"),
        ({"systems": {"a/b": {"recipe": "focat:base"}}}, "names become file names: use letters, digits, -, + and _"),
        ({"rules": ["window-meen"]}, "rules.0 = window-meen: should be 'current-sum', 'current-mean' or 'window-mean'"),
        ({"analyses": ["attentoin"]}, "analyses.0 = attentoin: should be"),
        ({"budget": {"updates": 0}}, "budget.updates = 0: should be greater than 0"),
        ({"budget": {}}, "budget: give at least one of updates, epochs and minutes"),
        ({"seeds": []}, "seeds = []: should have at least 1"),
        ({"suites": {"x": {"generated": "deixes"}}}, "suites.x.generated = deixes: should be"),
        ({"suites": {"x": {}}}, "suites.x: give either path, a file, or generated"),
        ({"against": ["bose"]}, "against: there is no system bose (there are: base, focused)"),
        ({"tests": {"x": {"contexts": []}}}, "tests.x.contexts = []: should have at least 1"),
        ({"tests": {"window3": {}}}, "tests.window3: steps with windows of other sizes are called so; rename it"),
        (
            {"systems": {name: {"recipe": "focat:base", "title": "T"} for name in "ab"}, "against": []},
            "systems.a and systems.b: both are called T",
        ),
        (
            {"systems": {"a": {"recipe": "focat:base", "init_from": "b"}}, "against": []},
            "systems.a.init_from: there is no system b (there are: a)",
        ),
    ],
)
def test_what_is_wrong(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    assert expected in wrong(tmp_path, changes)


def test_origins_that_go_in_circles_or_lack_a_seed(tmp_path: Path) -> None:
    circle = {name: {"recipe": "focat:base", "init_from": other} for name, other in (("a", "b"), ("b", "a"))}
    assert "systems.a.init_from: leads back to itself, by a ← b" in wrong(tmp_path, {"systems": circle, "against": []})
    systems = {**TINY["systems"], "base": {"recipe": "focat:base", "seeds": [2]}}
    assert "systems.focused.init_from: base is not trained with seed 1" in wrong(tmp_path, {"systems": systems})


def test_settings_of_a_system_are_validated_too(tmp_path: Path) -> None:
    systems = {"base": {"recipe": "focat:base", "settings": {"windows": {"befor": 2}}}}
    message = wrong(tmp_path, {"systems": systems})
    assert message.startswith("system base: windows.befor = 2: there is no such setting; did you mean windows.before?")
    systems = {"base": {"recipe": "focat:s5to5"}}
    assert "focat:s5to5: there is no such recipe" in wrong(tmp_path, {"systems": systems})
    systems = {"base": {"recipe": "focat:base", "settings": {"training": {"init_from": "x"}}}}
    assert "name a system of the plan, systems.base.init_from" in wrong(tmp_path, {"systems": systems})


def test_folders_are_asked_for_and_files_may_be_compressed(tmp_path: Path) -> None:
    changes = {
        "folders": {"texts": "a.en and a.de"},
        "data": {"train": [{"format": "text", "source": "{texts}/a.en", "target": "{texts}/a.de"}]},
    }
    assert wrong(tmp_path, changes) == "needs texts=FOLDER, the folder that holds a.en and a.de"
    assert "there is no such folder" in wrong(tmp_path, changes, "texts=nowhere")
    (tmp_path / "a.en").touch()
    (tmp_path / "a.de.xz").touch()
    loaded = load_plan(str(write_plan(tmp_path, changes)), [f"texts={tmp_path}"])
    corpus = loaded.settings("base", 1).data.train[0]
    assert json.loads(corpus.model_dump_json())["source"] == str(tmp_path / "a.en")
    assert json.loads(corpus.model_dump_json())["target"] == str(tmp_path / "a.de.xz")
    typo = {**changes, "data": {"train": [{"format": "text", "source": "{text}/a", "target": "{texts}/a"}]}}
    assert "no folder text is declared under folders:" in wrong(tmp_path, typo, f"texts={tmp_path}")


@pytest.mark.parametrize("name", sorted(plan_names()))
def test_plans_that_come_with_focat_are_valid(name: str, tmp_path: Path) -> None:
    folders = [] if name in ("compared-systems", "demo") else [f"corpora={tmp_path}", f"suites={tmp_path}"]
    plan = load_plan(f"focat:{name}", folders).plan
    assert plan.title
    assert str(PLANS) not in plan.model_dump_json()
    if name.startswith("paper"):
        assert list(plan.systems) == [
            *("base", "s4to4", "s4to4-cd", "s4to4-shift-cd"),
            *("s4to4-annealed-cd", "s4to4-word-dropout-cd", "s4to4-early-cd"),
        ]
        assert plan.budget is not None
        assert plan.budget.updates == 10000
    if name == "discount-sweep":  # the dev portion has two phenomena only
        assert list(plan.suites) == ["deixis", "lex_cohesion"]
        discounts = [load_plan(name, folders).settings(system, 1).objective.discount for system in plan.systems]
        assert discounts == [1, 0.9, 0.7, 0.5, 0.3, 0.1, 0.01, 0]


def test_a_folder_is_no_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_plan("demo").plan.title == plan_names()["demo"]


def test_what_a_user_sees(tmp_path: Path, launcher: Launcher) -> None:
    assert "window-robustness" in launcher.focat(tmp_path, "reproduce")
    said = launcher.refused(tmp_path, "reproduce", "demmo")
    assert said.startswith("focat:demmo: there is no such plan; did you mean focat:demo?")
    assert "plan.yaml: cannot be read: No such file" in launcher.refused(tmp_path, "reproduce", "plan.yaml")
    plan, out = write_plan(tmp_path), tmp_path / "out"
    said = launcher.refused(tmp_path, "reproduce", plan, "--only", "bose", "--folder", out)
    assert said.startswith("--only bose: there is no such system in the plan (there are: base, focused)")
    said = launcher.focat(tmp_path, "reproduce", plan, "--list", "--folder", tmp_path / "other")
    assert "missing  focused (seed 1): evaluate test regenerate" in said
    assert "0 of 9 steps are done" in said
    assert not (tmp_path / "other").exists()


def test_a_system_without_context_is_measured_without(tmp_path: Path) -> None:
    """Once, whatever windows and kinds of target context the plan has; others once for each."""
    suites = {"deixis": {"generated": "deixis", "instances": 8, "windows": [2, 3]}}
    plan = write_plan(tmp_path, {"suites": suites, "tests": {"test": {"metrics": "bleu", "windows": [2, 3]}}})
    base, focused = all_tasks(Experiment(load_plan(str(plan)), tmp_path / "out", NULL_PROGRESS))
    assert [step.name for step in base.steps()] == ["train", "contrast.deixis", "evaluate.test.reuse", "analyse"]
    assert [step.name for step in focused.steps()] == [
        *("train", "contrast.deixis", "contrast.deixis.window3"),
        *("evaluate.test.reuse", "evaluate.test.reuse.window3"),
        *("evaluate.test.regenerate", "evaluate.test.regenerate.window3", "analyse"),
    ]
    on_page = [step.name for step in focused.steps() if focused.details(step).parent.name == "results"]
    assert on_page == ["train", "contrast.deixis", "evaluate.test.reuse", "analyse"]
