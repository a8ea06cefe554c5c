"""Which results of a plan are still up to date after a change: those that it cannot have changed, and no others.

Nothing is trained or measured: the corpus is prepared, and results are made up, with the digest of their inputs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from focat.config.data import DataSettings
from focat.experiments.experiment import Experiment, data_digest
from focat.experiments.plan import load_plan
from focat.experiments.results import (
    RESULT_VERSION,
    AnalyseResult,
    ContrastResult,
    EvaluateResult,
    PackedAnswers,
    Result,
    Step,
    StepResult,
    TrainResult,
)
from focat.experiments.tasks import SystemTasks, all_tasks
from focat.progress import NULL_PROGRESS
from tests.experiments.plans import TINY, write_plan

SUITE = {"path": "suite.json"}
CORPUS = {"format": "text", "source": "test.en", "target": "test.de"}
CHANGES = {"suites": {"deixis": SUITE}, "tests": {"test": {"metrics": "bleu", "corpus": CORPUS}}}
FILES = ("suite.json", "test.en", "test.de")
ALL = frozenset({"train", "contrast", "evaluate", "analyse"})


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a plan whose corpus is prepared."""
    folder = tmp_path_factory.mktemp("prepared")
    for name in FILES:
        (folder / name).write_text(name)
    write_plan(folder, CHANGES)
    experiment_in(folder).prepare(["base", "focused"])
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """The folder of a plan, with a result of every step and no run."""
    folder = tmp_path / "plan"
    shutil.copytree(prepared, folder)
    for tasks in all_tasks(experiment_in(folder)):
        for step in tasks.steps():
            save(tasks, step)
    assert stale(folder) == {}
    return folder


def experiment_in(folder: Path, *overrides: str) -> Experiment:
    return Experiment(load_plan(str(folder / "tiny.yaml"), list(overrides)), folder / "out", NULL_PROGRESS)


def save(tasks: SystemTasks, step: Step, weights: str = "a" * 64) -> None:
    """A result of a step as if it had just run."""
    inputs = tasks.inputs(step)
    assert inputs is not None
    results: dict[str, Result] = {
        "train": TrainResult(
            kind="train", window=1, discount=1, shift=0, segment_embeddings="none", weights_sha256=weights
        ),
        "contrast": ContrastResult(
            kind="contrast", suite="deixis", answers=PackedAnswers(phenomena=(), distances="", ids="", correct={})
        ),
        "evaluate": EvaluateResult(kind="evaluate", figures={}),
        "analyse": AnalyseResult(kind="analyse"),
    }
    result = results[step.kind]
    tasks.results.save(StepResult(kind="focat result", version=RESULT_VERSION, step=step, inputs=inputs, result=result))


def stale(folder: Path, *overrides: str) -> dict[str, set[str]]:
    """The kinds of steps of each system that are to run again; systems without any are left out."""
    found: dict[str, set[str]] = {}
    for tasks in all_tasks(experiment_in(folder, *overrides)):
        for step in tasks.steps():
            if tasks.result(step) is None:
                found.setdefault(tasks.system, set()).add(step.kind)
    return found


@pytest.mark.parametrize(
    ("change", "again"),
    [
        ("rules=[window-mean]", {"contrast"}),
        ("suites.deixis.detokenise=true", {"contrast"}),
        ("settings.decoding.beam=3", {"evaluate"}),
        ("settings.decoding.length_penalty=0.7", {"evaluate"}),
        ("tests.test.lowercase=true", {"evaluate"}),
        ("tests.test.beam=2", {"evaluate"}),
        ("analyses=[losses, attention]", {"analyse"}),
        ("analyse=dev", {"analyse"}),
        ("analyse_sentences=5", {"analyse"}),
        ("average=3", ALL),
        ("budget.updates=13", ALL),
        ("settings.training.patience=2", ALL),
        ("settings.training.learning_rate=0.004", ALL),
        ("settings.model.dropout=0.2", ALL),
        ("settings.training.log_every=7", set()),
        ("settings.training.keep_checkpoints=3", set()),
        ("settings.training.save_minutes=7", set()),
        ("title=Another", set()),
    ],
)
def test_what_depends_on_a_setting_is_stale(folder: Path, change: str, again: set[str]) -> None:
    expected = {system: set(again) for system in ("base", "focused") if again}
    assert stale(folder, change) == expected


def test_a_setting_of_one_system_leaves_the_other_alone(folder: Path) -> None:
    assert stale(folder, "systems.focused.settings.model.dropout=0.2") == {"focused": ALL}


def test_a_system_is_stale_when_its_initial_weights_are_others(folder: Path) -> None:
    base, focused = all_tasks(experiment_in(folder))
    save(base, base.training, weights="b" * 64)  # the same settings, with another outcome
    assert stale(folder) == {"base": ALL - {"train"}, "focused": ALL}
    for tasks in (base, focused):
        for step in tasks.steps():
            save(tasks, step, weights="b" * 64)
    assert stale(folder) == {}
    (folder / "out" / "results" / "base.1.train.json").unlink()
    assert stale(folder) == {"base": ALL, "focused": ALL}


@pytest.mark.parametrize(
    ("name", "setting", "again"),
    [
        ("suite.json", "suites.deixis.path", "contrast"),
        ("test.en", "tests.test.corpus.source", "evaluate"),
        ("test.de", "tests.test.corpus.target", "evaluate"),
    ],
)
def test_files_count_by_their_bytes_and_not_by_their_names(folder: Path, name: str, setting: str, again: str) -> None:
    (folder / name).rename(folder / "moved")
    assert stale(folder, f"{setting}={folder / 'moved'}") == {}
    (folder / name).write_text("other bytes")
    assert stale(folder) == {"base": {again}, "focused": {again}}


def test_a_missing_details_file_is_made_again(folder: Path) -> None:
    """Unless the whole run is elsewhere, and only its results were copied."""
    tasks = SystemTasks(experiment_in(folder), "base", 1)
    tasks.run_folder.mkdir(parents=True)
    measured = [step for step in tasks.steps() if step.kind != "train"]
    assert stale(folder) == {"base": ALL - {"train"}}
    for step in measured:
        tasks.details(step).parent.mkdir(exist_ok=True)
        tasks.details(step).write_text("")
    assert stale(folder) == {}
    for step in measured:
        tasks.details(step).unlink()
        assert stale(folder) == {"base": {step.kind}}
        tasks.details(step).write_text("")


def test_details_that_are_stale_are_archived_and_others_stay(folder: Path) -> None:
    tasks = SystemTasks(experiment_in(folder), "base", 1)
    results, archive = tasks.run_folder / "results", tasks.run_folder / "older-results"
    results.mkdir(parents=True)
    names = {"contrast.deixis.jsonl", "evaluate.test.reuse.json", "analyse.json"}
    for name in (*names, "contrast.of-another-plan.jsonl"):
        (results / name).write_text(name)
    tasks.archive_stale_results()
    assert {path.name for path in results.iterdir()} == names
    assert [path.name for path in archive.iterdir()] == ["contrast.of-another-plan.jsonl"]
    SystemTasks(experiment_in(folder, "rules=[window-mean]"), "base", 1).archive_stale_results()
    assert {path.name for path in results.iterdir()} == names - {"contrast.deixis.jsonl"}
    assert (archive / "contrast.deixis.jsonl").read_text() == "contrast.deixis.jsonl"


def test_another_corpus_is_another_run(folder: Path) -> None:
    """Of other tokens, though prepared by the same settings."""
    experiment = experiment_in(folder)
    manifest = experiment.store_of(SystemTasks(experiment, "base", 1).planned) / "manifest.json"
    content = json.loads(manifest.read_text())
    for split in ("train", "dev"):
        changed = {**content, "keys": {**content["keys"], split: "0" * 64}}
        manifest.write_text(json.dumps(changed))
        assert stale(folder) == {"base": ALL, "focused": ALL}, split
    manifest.unlink()
    assert stale(folder) == {"base": ALL, "focused": ALL}


def test_a_store_is_named_after_the_data_and_not_after_its_folder() -> None:
    data = DataSettings.model_validate(TINY["data"])
    assert data_digest(data) == data_digest(data.model_copy(update={"store": Path("elsewhere")}))
    assert data_digest(data) != data_digest(data.model_copy(update={"dev": ()}))
