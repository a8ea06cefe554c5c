"""`focat reproduce`: run the steps of a plan, then write what there is: results, tables and the page of the report.

Tiny, on a CPU:  focat reproduce demo
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from focat.errors import FocatError
from focat.evaluation.results import JsonResult
from focat.experiments.execution import (
    Deadline,
    SessionOutcome,
    run_parallel,
    run_sequential,
    run_worker,
    selected_steps,
    selected_tasks,
    visible_devices,
)
from focat.experiments.experiment import Experiment
from focat.experiments.plan import load_plan, plan_names
from focat.experiments.result_tables import PlanTables
from focat.experiments.results import Step, summary
from focat.experiments.tables import build_tables
from focat.experiments.tasks import SystemTasks, all_tasks, finished_results
from focat.files import disk_errors, locked_folder, sha256, write_atomic, write_json
from focat.progress import NULL_PROGRESS, Progress
from focat.reporting.table import Table, print_lines, print_table, row


def reproduce(
    name: str,
    folder: Path | None,
    overrides: Sequence[str],
    progress: Progress,
    only: Sequence[str] = (),
    minutes: float | None = None,
    jobs: int | None = None,
    page: bool = True,
) -> tuple[SessionOutcome, PlanTables, Path]:
    """Run the missing steps of a plan, for as long as there is time.

    Args:
        name: a plan that comes with focat, or a file.
        folder: where to work; reproduced/PLAN if None.
        overrides: settings of the plan, as key=value.
        progress: where progress is shown.
        only: run these systems alone.
        minutes: save and stop after so many.
        jobs: systems at the same time; one on each GPU if None.
        page: whether to write report.html.

    Returns:
        How the session ended, the tables of all results that exist, and the folder.
    """
    deadline = Deadline(minutes)
    loaded = load_plan(name, overrides)
    folder = folder or default_folder(name)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked_folder(folder, "another `focat reproduce` is at work in this folder"):
        experiment = Experiment(loaded, folder, progress)
        experiment.check_folder()
        systems = selected_tasks(experiment, only)
        experiment.check()
        experiment.prepare([tasks.system for tasks in systems])
        devices = visible_devices(jobs)
        if devices == [None]:
            outcome = run_sequential(systems, only, deadline, progress)
        else:
            arguments = ["-m", "focat", "reproduce", name, *overrides, "--folder", str(folder)]
            outcome = run_parallel(systems, only, devices, [sys.executable, *arguments], deadline, progress)
        tables, changed = write_results(experiment)
        if page and outcome.signal is None and (changed or not (folder / "report.html").exists()):
            options = [word for system in only for word in ("--only", system)]
            write_page(experiment, ["focat", "reproduce", name, *overrides, *options])
    return outcome, tables, folder


def reproduce_part(
    name: str, folder: Path, overrides: Sequence[str], progress: Progress, part: str, minutes: float | None
) -> SessionOutcome:
    """Run one system in a process that `reproduce` has started, which holds the lock of the folder."""
    return run_worker(Experiment(load_plan(name, overrides), folder, progress), part, Deadline(minutes), progress)


def default_folder(name: str) -> Path:
    """The folder named after a plan."""
    return Path("reproduced") / Path(name.removeprefix("focat:")).stem


def write_results(experiment: Experiment) -> tuple[PlanTables, bool]:
    """Write results.json, provenance.json, tables.json and tables.md; returns the tables, and whether any changed."""
    plan, folder = experiment.plan, experiment.folder
    title = plan.title or Path(experiment.loaded.where).stem
    finished = finished_results(experiment)
    results, provenance = summary(title, finished)
    tables = build_tables(plan, title, finished)
    compared = [folder / "results.json", folder / "tables.json"]
    before = [sha256(path) if path.exists() else None for path in compared]
    write_json(folder / "results.json", results)
    write_json(folder / "provenance.json", provenance)
    write_json(folder / "tables.json", tables.to_json())
    write_atomic(folder / "tables.md", tables.markdown())
    return tables, [sha256(path) for path in compared] != before


def first_seeds(experiment: Experiment) -> dict[str, SystemTasks]:
    """Each system with its first seed that is trained and whose run is here."""
    first: dict[str, SystemTasks] = {}
    for tasks in all_tasks(experiment):
        if tasks.trained is not None and tasks.run_folder.exists():
            first.setdefault(tasks.system, tasks)
    return first


def write_page(experiment: Experiment, command: Sequence[str]) -> None:
    """Write report.html about the first seed of each system; an error in it is logged, not raised."""
    systems = first_seeds(experiment)
    if not systems:
        return
    page = experiment.folder / "report.html"
    runs = [f"{experiment.plan.title_of(name)}={tasks.run_folder}" for name, tasks in systems.items()]
    try:
        from focat.reporting.page import write_report

        for tasks in systems.values():
            tasks.archive_stale_results()
        suites = [experiment.suite(name) for name in experiment.plan.suites]
        write_report(runs, page, suites=suites, overwrite=True, command=shlex.join(command))
    except Exception as error:  # the results are written, and worth more than the page
        kind = "" if isinstance(error, FocatError) else f"{type(error).__name__}: "
        experiment.progress.log(f"no report.html: {kind}{error}")
        page.unlink(missing_ok=True)  # an older page would show other figures


def show_plans(console: Console) -> None:
    """Print the plans that come with focat."""
    rows = [row(name, title) for name, title in plan_names().items()]
    note = "focat reproduce PLAN --list shows its steps, focat reproduce PLAN runs them"
    print_table(Table("Plans that come with focat", ("plan", "what it does"), rows, (note,), labels=2), console)


class StepStatus(JsonResult):
    """A step, and whether it is done."""

    step: Step
    done: bool


def list_steps(name: str, folder: Path | None, overrides: Sequence[str], only: Sequence[str]) -> list[StepStatus]:
    """Every step of a plan, and whether it is done."""
    experiment = Experiment(load_plan(name, overrides), folder or default_folder(name), NULL_PROGRESS)
    return [
        StepStatus(step=step, done=tasks.result(step) is not None)
        for tasks in selected_tasks(experiment, only)
        for step in selected_steps(tasks, only)
    ]


def show_steps(steps: Sequence[StepStatus], console: Console) -> None:
    """Print a line for each step."""
    print_lines([f"{'done   ' if status.done else 'missing'}  {status.step}" for status in steps], console)
    print_lines([f"{sum(status.done for status in steps)} of {len(steps)} steps are done"], console)


def show_outcome(outcome: SessionOutcome, tables: PlanTables, folder: Path, console: Console) -> None:
    """Print the first table, where the others are, and what is left to do."""
    if tables.tables:
        console.print("")
        print_table(tables.tables[0].rendered(), console)
    page = f"; as a page: {folder}/report.html" if (folder / "report.html").exists() else ""
    lines = [f"all tables: {folder}/tables.md; how each figure was obtained: {folder}/results{page}"]
    lines += [f"failed: {system}: {reason}" for system, reason in outcome.failures.items()]
    lines += ["not finished; the same command goes on from here"] if outcome.unfinished else []
    print_lines(lines, console)
