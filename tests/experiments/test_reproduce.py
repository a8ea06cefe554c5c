"""`focat reproduce` for real: it runs through, survives being killed, and does again only what has changed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from focat.cli import app
from focat.errors import FocatError
from focat.experiments.experiment import Experiment
from focat.experiments.measuring import measuring_command
from focat.experiments.plan import load_plan
from focat.experiments.results import Step
from focat.experiments.tasks import SystemTasks
from focat.files import PARTIAL_SUFFIX
from focat.progress import NULL_PROGRESS
from tests.evaluation.commands import focat, refused
from tests.experiments.plans import TINY, write_plan
from tests.training.launcher import Command, Launcher

FILES = ("results.json", "tables.json", "tables.md")
STEPS = 9


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Path:
    """A plan that went through at once."""
    folder = tmp_path_factory.mktemp("finished")
    said = reproduce(launcher, write_plan(folder), folder / "out")
    assert "[9 of 9] focused (seed 1): analyse" in said
    return folder


def reproduce(launcher: Launcher, plan: Path, out: Path, *more: str, expect: int = 0) -> str:
    """To its end; returns what it said."""
    return launcher.focat(plan.parent, *line(plan, out), *more, expect=expect)


def start(launcher: Launcher, plan: Path, out: Path, *more: str) -> Command:
    return launcher.start([*line(plan, out), *more], plan.parent)


def line(plan: Path, out: Path) -> list[str]:
    return ["reproduce", str(plan), "--folder", str(out), "--no-report"]


def dates(out: Path) -> dict[str, str]:
    """When each step was done."""
    steps = json.loads((out / "provenance.json").read_text())["steps"]
    return {name: f"{step['date']} {step['seconds']}" for name, step in steps.items()}


def steps_in(said: str) -> list[str]:
    """What a command did."""
    return [line for line in said.splitlines() if line.startswith("[")]


def name_of(record: dict[str, Any]) -> str:
    return Step(**record["step"]).name


def same(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_what_is_there_afterwards(finished: Path) -> None:
    out = finished / "out"
    results = json.loads((out / "results.json").read_text())["results"]
    assert [(r["step"]["system"], name_of(r)) for r in results] == [
        *[("base", step) for step in ("train", "contrast.deixis", "evaluate.test.reuse", "analyse")],
        *[("focused", step) for step in ("train", "contrast.deixis", "evaluate.test.reuse")],
        *[("focused", "evaluate.test.regenerate"), ("focused", "analyse")],
    ]
    by_name = {(r["step"]["system"], name_of(r)): r["result"] for r in results}
    assert by_name["base", "contrast.deixis"]["accuracy"]["current-sum"] == 50  # it cannot know
    assert by_name["base", "train"]["weights"] == "averaged"
    assert by_name["focused", "train"]["updates"] == 12
    # It began where base had ended, not from scratch.
    assert (
        by_name["focused", "train"]["validations"][0]["current"] < by_name["base", "train"]["validations"][0]["current"]
    )
    for record in results:
        whole = json.loads((out / "results" / f"{record['step']['system']}.1.{name_of(record)}.json").read_text())
        assert whole["inputs"] == record["inputs"]
        assert whole["result"]["signature"]
        assert {"command", "date", "seconds", "hardware"} <= whole["provenance"].keys()
        assert whole["provenance"]["command"][0] == "focat"
    assert '"date"' not in (out / "results.json").read_text()
    markdown = (out / "tables.md").read_text()
    assert markdown.startswith("# Tiny\n")
    assert "| system | Deixis | Disc. | BLEU reuse | BLEU regenerate |" in markdown


def test_a_second_time_there_is_nothing_to_do(finished: Path, launcher: Launcher) -> None:
    plan, out, before = finished / "tiny.yaml", finished / "out", dates(finished / "out")
    contents = {name: (out / name).read_bytes() for name in FILES}
    json_file = finished / "tables-again.json"
    said = launcher.focat(finished, "reproduce", plan, "--folder", out, "--json", json_file)
    assert not steps_in(said)
    assert dates(out) == before
    assert {name: (out / name).read_bytes() for name in FILES} == contents
    assert json.loads(json_file.read_text()) == json.loads(contents["tables.json"])
    assert "<html" in (out / "report.html").read_text()  # which was not asked for the first time
    said = launcher.focat(finished, "reproduce", plan, "--list", "--folder", out)
    assert f"{STEPS} of {STEPS} steps are done" in said


def test_results_are_enough(finished: Path, tmp_path: Path, launcher: Launcher) -> None:
    """What was trained elsewhere counts by its results, and makes the same tables; what else is asked needs the run."""
    out = tmp_path / "out"
    shutil.copytree(finished / "out", out, ignore=shutil.ignore_patterns("runs", *FILES))
    assert not steps_in(reproduce(launcher, finished / "tiny.yaml", out))
    same(out, finished / "out")
    (out / "results" / "base.1.analyse.json").unlink()
    said = reproduce(launcher, finished / "tiny.yaml", out, expect=1)
    assert f"base-seed1 is not here; bring it, or delete {out}/results/base.1.train.json" in said


def test_a_run_that_has_only_begun_starts_from_its_parent_where_that_is_now(
    finished: Path, tmp_path: Path, launcher: Launcher
) -> None:
    """Killed before its first checkpoint, and then moved with the whole experiment."""
    out = tmp_path / "out"
    shutil.copytree(finished / "out", out)
    run = out / "runs" / "focused-seed1"
    config = (run / "config.yaml").read_text()
    assert str(finished) in config
    for name in ("checkpoints", "averaged", "results", "more-results"):
        shutil.rmtree(run / name)
    (run / "best").unlink()
    (run / "config.yaml").write_text(config.replace(str(finished), str(tmp_path / "before")))
    for path in (out / "results").glob("focused.*"):
        path.unlink()
    reproduce(launcher, write_plan(tmp_path), out)
    same(finished / "out", out)


def test_killed_again_and_again(finished: Path, tmp_path: Path, launcher: Launcher) -> None:
    """At any moment: while preparing, training, measuring, or writing a file."""
    plan, out = write_plan(tmp_path), tmp_path / "out"
    draw, killed_with = random.Random(7), []
    for kill in range(6):
        command = start(launcher, plan, out, "settings.training.save_minutes=0.0001")
        while command.running() and _results(out) < kill - 1:
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.15))
        command.send(signal.SIGKILL)
        killed_with.append((command.wait(), _results(out)))
    assert [code for code, _ in killed_with].count(-signal.SIGKILL) >= 4, killed_with
    reproduce(launcher, plan, out)
    same(out, finished / "out")
    assert not list((out / "results").glob(f"*{PARTIAL_SUFFIX}"))


def _results(out: Path) -> int:
    return len(list((out / "results").glob("*.json")))


def test_in_sessions_of_a_second(finished: Path, tmp_path: Path, launcher: Launcher) -> None:
    """Time is up in the middle of training, which saves; the exit code says that there is more to do."""
    plan, out = write_plan(tmp_path), tmp_path / "out"
    said = reproduce(launcher, plan, out, "--minutes", "0", expect=3)
    assert "not finished; the same command goes on from here" in said
    assert _results(out) == 0
    for minutes in ("0.02", "0.1", "0.5"):  # a busy machine may need longer to begin
        more = "budget.updates=100000", "--minutes", minutes, "--only", "base"
        if "stopped at update" in (said := reproduce(launcher, plan, out, *more, expect=3)):
            break
    assert "stopped at update" in said
    assert (out / "runs" / "base-seed1" / "checkpoints").exists()
    command = start(launcher, plan, out, "budget.updates=100000")
    while command.running() and "resuming from update" not in command.output:
        time.sleep(0.01)
    command.send(signal.SIGTERM)
    assert command.wait() == 128 + signal.SIGTERM, command.output


def test_only_what_has_changed_is_done_again(finished: Path, launcher: Launcher) -> None:
    """Another setting of one system, then back again: the other system is not touched."""
    out = finished / "out"
    before, contents = dates(out), (out / "results.json").read_bytes()
    try:
        change = "systems.focused.settings.model.dropout=0.2"
        said = reproduce(launcher, finished / "tiny.yaml", out, change)
        after = dates(out)
        assert {name for name in after if after[name] != before[name]} == {n for n in before if n.startswith("focused")}
        assert "the earlier run is " in said
        assert "base (seed 1)" not in said.replace("← base", "")
        # What is measured differently is measured again, and nothing is trained.
        said = reproduce(launcher, finished / "tiny.yaml", out, change, "suites.deixis.instances=6")
        contrasts = ["[2 of 9] base (seed 1): contrast deixis", "[6 of 9] focused (seed 1): contrast deixis"]
        assert steps_in(said) == contrasts
        # What the plan has no more is on no page, and what it calls otherwise is called so there.
        changes = [change, "suites.deixis=null", "systems.focused.title=Narrow"]
        launcher.focat(finished, "reproduce", finished / "tiny.yaml", "--folder", out, *changes)
        page = (out / "report.html").read_text(encoding="utf-8")
        assert "Narrow" in page
        assert "deixis" not in page.replace("suites.deixis=null", "")
    finally:
        reproduce(launcher, finished / "tiny.yaml", out)
    assert (out / "results.json").read_bytes() == contents


def test_a_failure_stops_only_what_depends_on_it(tmp_path: Path, launcher: Launcher) -> None:
    systems = {
        "base": {"recipe": "focat:base", "settings": {"training": {"device": "cuda:7"}}},
        "child": {"recipe": "focat:s2to2", "init_from": "base"},
        "other": {"recipe": "focat:s2to2"},
    }
    changes = {"systems": systems, "tests": {}, "analyses": [], "budget": {"updates": 2}, "average": 0}
    said = reproduce(launcher, write_plan(tmp_path, changes), tmp_path / "out", expect=1)
    assert "failed: base (seed 1): " in said
    assert "failed: child (seed 1): not started, because base (seed 1) failed" in said
    assert "[6 of 6] other (seed 1): contrast deixis" in said
    assert _results(tmp_path / "out") == 2
    markdown = (tmp_path / "out" / "tables.md").read_text()
    assert "| other | " in markdown
    assert "| base | " not in markdown


def test_a_later_system_alone(tmp_path: Path, launcher: Launcher) -> None:
    """Its corpus is prepared for it, though the first system of the plan has the same and is not asked for."""
    systems = {"first": {"recipe": "focat:base"}, "second": {"recipe": "focat:s2to2"}}
    plan = write_plan(tmp_path, {"systems": systems, "against": [], "tests": {}, "analyses": []})
    said = reproduce(launcher, plan, tmp_path / "out", "budget.updates=2", "--only", "second")
    assert steps_in(said) == ["[1 of 2] second (seed 1): train", "[2 of 2] second (seed 1): contrast deixis"]


def test_systems_in_processes_of_their_own(finished: Path, tmp_path: Path, launcher: Launcher) -> None:
    """As on two GPUs; the results are the same as of one process."""
    plan, out = write_plan(tmp_path), tmp_path / "out"
    said = reproduce(launcher, plan, out, "--jobs", "2", "--only", "base")
    assert "base-seed1 | [4 of 4] base (seed 1): analyse" in said
    assert "base (seed 1): done" in said
    for step in ("train", "contrast.deixis", "analyse"):
        one, other = (json.loads((f / "results" / f"base.1.{step}.json").read_text()) for f in (out, finished / "out"))
        assert one["result"] == other["result"]


def test_ctrl_z_suspends_systems_that_are_trained_at_the_same_time(tmp_path: Path, launcher: Launcher) -> None:
    """They are in sessions of their own, where the terminal does not reach them."""
    many = ("budget.updates=100000", "--jobs", "2", "--only", "base")
    command = start(launcher, write_plan(tmp_path), tmp_path / "out", *many)

    def states() -> set[str]:
        shown = subprocess.run(
            ["ps", "-o", "stat=", "-p", f"{command.pid},{worker}"], stdout=subprocess.PIPE, text=True
        )
        return {state[0] for state in shown.stdout.split()}

    try:
        while command.running() and "base-seed1 |" not in command.output:
            time.sleep(0.01)
        worker = int(subprocess.check_output(["pgrep", "-P", str(command.pid)], text=True))
        assert os.getsid(worker) == worker
        command.send(signal.SIGTSTP)
        waits_until(lambda: states() == {"T"})
        command.send(signal.SIGCONT)
        waits_until(lambda: "T" not in states())
        command.send(signal.SIGTSTP)
        waits_until(lambda: states() == {"T"})
        for number in (signal.SIGHUP, signal.SIGCONT):  # as if the terminal were closed now
            command.send(number)
        assert command.wait() == 128 + signal.SIGHUP
        assert not states()
    finally:
        command.send(signal.SIGKILL)
        command.wait()


def waits_until(condition: Callable[[], bool]) -> None:
    late = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < late
        time.sleep(0.01)


def test_two_at_once_in_one_folder_are_refused(finished: Path, launcher: Launcher) -> None:
    command = start(launcher, finished / "tiny.yaml", finished / "busy", "budget.updates=100000")
    try:
        while command.running() and "[1 of" not in command.output:
            time.sleep(0.01)
        said = launcher.refused(finished, "reproduce", finished / "tiny.yaml", "--folder", finished / "busy")
        assert said == f"{finished}/busy: another `focat reproduce` is at work in this folder; wait for it or stop it"
    finally:
        command.send(signal.SIGKILL)
        command.wait()


def test_what_measuring_needs_is_missed_before_training(tmp_path: Path, launcher: Launcher) -> None:
    def refused(**changes: object) -> str:
        plan = write_plan(tmp_path, changes)
        return launcher.refused(tmp_path, "reproduce", plan, "--folder", tmp_path / "out").removeprefix(f"{tmp_path}/")

    assert refused(suites={"x": {"path": "x.json"}}) == "x.json: cannot be read: No such file or directory"
    without = {name: corpora for name, corpora in TINY["data"].items() if name != "test"}
    assert refused(data=without) == "tiny.yaml: tests.test: give a corpus, or one under data.test"
    assert refused(data=without, tests={}) == "tiny.yaml: analyses: give a corpus under data.test"
    assert refused(tests={"test": {"metrics": "bleurt"}}).startswith(
        "tiny.yaml: tests.test.metrics = bleurt: there is no such metric"
    )
    (tmp_path / "x.json").write_text('[{"src": 3}]')
    assert refused(suites={"x": {"path": "x.json"}}).startswith("x.json")
    assert not list((tmp_path / "out").iterdir())


def test_suites_that_would_be_taken_together(tmp_path: Path) -> None:
    own = {"source": ["a", "b"], "target": ["A"], "candidates": ["B", "C"], "right": 1}
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.jsonl").write_text(json.dumps(own))
    plan = write_plan(tmp_path, {"suites": {name: {"path": f"{name}/same.jsonl"} for name in ("one", "two")}})
    with pytest.raises(FocatError, match=r"suites\.one and suites\.two: both files are called same"):
        Experiment(load_plan(str(plan), []), tmp_path / "out", NULL_PROGRESS).check()


def test_a_result_of_an_older_version_is_refused(finished: Path, tmp_path: Path, launcher: Launcher) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished / "out", out, ignore=shutil.ignore_patterns("runs", *FILES))
    path = out / "results" / "base.1.train.json"
    record = json.loads(path.read_text())
    del record["version"]
    path.write_text(json.dumps(record))
    said = reproduce(launcher, finished / "tiny.yaml", out, expect=2)
    assert said.endswith(f"{path}: written by another version of focat; delete it, and the step runs again\n")


def test_results_of_others_are_not_touched(tmp_path: Path, launcher: Launcher) -> None:
    plan = write_plan(tmp_path, {"systems": {"base": TINY["systems"]["base"]}})
    (tmp_path / "out" / "results").mkdir(parents=True)
    (tmp_path / "out" / "results" / "base.1.train.json").write_text("{}")
    said = launcher.focat(tmp_path, "reproduce", plan, "--folder", tmp_path / "out", "--no-report", expect=2)
    assert "not a result of a plan; move it elsewhere" in said


def test_commands_of_steps_are_commands_of_focat(tmp_path: Path) -> None:
    """The arguments in the provenance of each step are understood by the command line."""
    suite = {"path": "suite.json", "context_source": "a", "context_target": "b", "detokenise": True, "windows": [3]}
    corpus = {"format": "text", "source": "a", "target": "b"}
    test = {"corpus": corpus, "beam": 2, "constrained": False, "lowercase": True, "fragments": 4}
    changes = {"suites": {"deixis": suite}, "tests": {"test": test}, "analyse_sentences": 5}
    for name in ("suite.json", "a", "b"):
        (tmp_path / name).write_text("")
    experiment = Experiment(load_plan(str(write_plan(tmp_path, changes)), []), tmp_path / "out", NULL_PROGRESS)
    tasks = SystemTasks(experiment, "focused", 1)
    tasks.run_folder.mkdir(parents=True)
    commands = [measuring_command(experiment, tasks.run_folder, step) for step in tasks.steps() if step.kind != "train"]
    assert {command[1] for command in commands} == {"contrast", "evaluate", "analyse"}
    application = typer.main.get_command(app)
    for _, name, *arguments in commands:
        application.commands[name].make_context(name, arguments)


@pytest.mark.parametrize(
    ("corpus", "options"),
    [
        ({"format": "text", "source": "a", "target": "b"}, ["--source", "a", "--reference", "b"]),
        (
            {"format": "ids", "source": "a", "target": "b", "documents": "c"},
            ["--source", "a", "--reference", "b", "--documents", "c"],
        ),
        ({"format": "wit3", "source": "a", "target": "b"}, None),
        ({"format": "generated", "documents": 3}, None),
        (None, []),
    ],
)
def test_commands_of_steps_measure_the_same(
    corpus: dict[str, Any] | None, options: list[str] | None, tmp_path: Path
) -> None:
    """On the corpus of the plan, which the command line cannot name in every format, and by its first rule."""
    changes = {"suites": {"deixis": {"path": "suite.json"}}, "tests": {"test": {"corpus": corpus, "metrics": "bleu"}}}
    for name in ("suite.json", "a", "b", "c"):
        (tmp_path / name).write_text("")
    plan = str(write_plan(tmp_path, {**changes, "rules": ["window-mean", "current-sum"]}))
    experiment = Experiment(load_plan(plan, []), tmp_path / "out", NULL_PROGRESS)
    steps = {step.name: step for step in SystemTasks(experiment, "base", 1).steps()}
    contrast, evaluate = (
        measuring_command(experiment, Path("run"), steps[name]) for name in ("contrast.deixis", "evaluate.test.reuse")
    )
    suite = ["--suite", str(tmp_path / "suite.json"), "--rule", "window-mean"]
    assert contrast == ["focat", "contrast", "run", *suite]
    if options is None:
        assert evaluate == ["focat", "reproduce", experiment.loaded.where, "--only", "base"]
    else:
        named = [str(tmp_path / option) if len(option) == 1 else option for option in options]
        assert evaluate == ["focat", "evaluate", "run", "--context", "reuse", "--metrics", "bleu", *named]


def test_a_damaged_table_of_a_result_is_refused(finished: Path, tmp_path: Path, launcher: Launcher) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished / "out", out, ignore=shutil.ignore_patterns("runs", *FILES))
    path = out / "results" / "base.1.evaluate.test.reuse.json"
    record = json.loads(path.read_text())
    next(iter(record["result"]["lines"].values()))["packed"] = "(not a table)"
    path.write_text(json.dumps(record))
    said = reproduce(launcher, finished / "tiny.yaml", out, expect=2)
    assert said.endswith("cannot be decompressed); write it again\n")


@pytest.mark.parametrize("name", ["results.json", "provenance.json", "tables.json", "tables.md", "report.html"])
def test_a_file_of_a_user_is_not_replaced(tmp_path: Path, name: str) -> None:
    plan, out = write_plan(tmp_path), tmp_path / "out"
    out.mkdir()
    for file in (name, f"{name}{PARTIAL_SUFFIX}"):
        (out / file).write_text('{"kind": "mine"}')
        said = refused(tmp_path, "reproduce", plan, "--folder", out)
        assert said.startswith(f"{out / file}: was not written by `focat reproduce`, which would replace it; move it")
        assert {path.name: path.read_text() for path in out.iterdir()} == {file: '{"kind": "mine"}'}
        (out / file).unlink()


def test_a_page_of_a_user_beside_our_results_is_not_replaced(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished / "out", out, ignore=shutil.ignore_patterns("runs", "report.html"))
    (out / f"report.html{PARTIAL_SUFFIX}").write_text("<!doc")  # as if it had been killed
    Experiment(load_plan(str(finished / "tiny.yaml"), []), out, NULL_PROGRESS).check_folder()
    assert not (out / f"report.html{PARTIAL_SUFFIX}").exists()
    (out / "report.html").write_text("<!doctype html>mine")
    assert "report.html: was not written by" in refused(tmp_path, "reproduce", finished / "tiny.yaml", "--folder", out)


def test_a_folder_of_a_user_where_a_run_would_be_is_kept(tmp_path: Path) -> None:
    """Also with settings in it, as if a run had been begun there."""
    experiment = Experiment(load_plan(str(write_plan(tmp_path)), []), tmp_path / "out", NULL_PROGRESS)
    tasks = SystemTasks(experiment, "focused", 1)
    tasks.run_folder.mkdir(parents=True)
    for name in ("config.yaml", "thesis.tex"):
        (tasks.run_folder / name).write_text("mine")
    said = focat(tmp_path, "reproduce", tmp_path / "tiny.yaml", "--folder", tmp_path / "out", expect=1)
    assert "focused-seed1: holds no run (there is no model.json)" in said.stdout
    assert {path.name: path.read_text() for path in tasks.run_folder.iterdir()} == dict.fromkeys(
        ("config.yaml", "thesis.tex"), "mine"
    )


def test_no_archived_run_or_result_is_replaced(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    tasks = SystemTasks(Experiment(load_plan(str(plan), []), tmp_path / "out", NULL_PROGRESS), "base", 1)
    for content in ("first", "second"):
        (tasks.run_folder / "results").mkdir(parents=True, exist_ok=True)
        (tasks.run_folder / "results" / "notes.txt").write_text(content)
        tasks.archive_stale_results()
    archived = sorted((tasks.run_folder / "older-results").iterdir())
    assert {path.name: path.read_text() for path in archived} == {"notes.txt": "first", "notes-2.txt": "second"}
