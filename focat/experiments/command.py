"""`focat reproduce`: work on a plan, then put together what is there: results, tables, and the page of the report.

Tiny, on a CPU:  focat reproduce demo
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from focat.errors import FocatError
from focat.experiments.execution import (
    Clock,
    Outcome,
    chosen_work,
    devices,
    steps_of,
    work_at_once,
    work_in_turn,
    work_on_part,
    worker_command,
)
from focat.experiments.experiment import SystemWork, Workshop
from focat.experiments.plan import LoadedPlan, load_plan, plan_names
from focat.experiments.results import Record, gathered
from focat.experiments.tables import Tables, build
from focat.files import disk_errors, locked_folder, sha256, write_atomic, write_json
from focat.progress import Progress


def reproduce(
    name: str,
    folder: Path | None,
    overrides: Sequence[str],
    progress: Progress,
    only: Sequence[str] = (),
    minutes: float | None = None,
    jobs: int | None = None,
    page: bool = True,
) -> tuple[Outcome, Tables, Path]:
    """Do what is missing, for as long as there is time; returns how it ended, and the tables of all that is there."""
    clock = Clock(minutes)
    loaded = load_plan(name, overrides)
    folder = folder or default_folder(name)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked_folder(folder, "another `focat reproduce` is at work in this folder"):
        workshop = Workshop(loaded, folder, progress)
        works = chosen_work(workshop, only)
        workshop.check()
        workshop.prepare([work.system for work in works])
        places = devices(jobs)
        if len(places) == 1 and places[0] is None:
            outcome = work_in_turn(works, only, clock, progress)
        else:
            command = worker_command(name, folder, overrides)
            outcome = work_at_once(works, only, places, command, clock, progress)
        tables, changed = put_together(workshop)
        if page and outcome.signal is None and (changed or not (folder / "report.html").exists()):
            chosen = [word for system in only for word in ("--only", system)]
            write_page(workshop, shlex.join(["focat", "reproduce", name, *overrides, *chosen]))
    return outcome, tables, folder


def reproduce_part(
    name: str, folder: Path, overrides: Sequence[str], progress: Progress, part: str, minutes: float | None
) -> Outcome:
    """What a worker does for `reproduce`, which holds the folder."""
    return work_on_part(Workshop(load_plan(name, overrides), folder, progress), part, Clock(minutes), progress)


def default_folder(name: str) -> Path:
    """Named after the plan."""
    return Path("reproduced") / Path(name.removeprefix("focat:")).stem


def put_together(workshop: Workshop) -> tuple[Tables, bool]:
    """results.json, provenance.json, tables.json and tables.md; and whether anything is other than before."""
    plan, folder = workshop.plan, workshop.folder
    title = plan.title or Path(workshop.loaded.where).stem
    records = workshop.done()
    found, how = gathered(title, records)
    tables = build(plan, title, records)
    shown = [folder / "results.json", folder / "tables.json"]
    before = [sha256(path) if path.exists() else None for path in shown]
    write_json(folder / "results.json", found)
    write_json(folder / "provenance.json", how)
    write_json(folder / "tables.json", tables.record())
    write_atomic(folder / "tables.md", tables.markdown())
    return tables, [sha256(path) for path in shown] != before


def write_page(workshop: Workshop, command: str) -> None:
    """report.html, about the first run of each system; a page that cannot be made is no reason to fail."""
    first: dict[str, SystemWork] = {}
    for work in workshop.all_work():
        if work.result(work.trained) is not None and work.run_folder.exists():
            first.setdefault(work.system, work)
    if not first:
        return
    page = workshop.folder / "report.html"
    runs = [f"{workshop.plan.title_of(name)}={work.run_folder}" for name, work in first.items()]
    try:
        from focat.reporting.page import write_report

        for work in first.values():
            work.set_aside_what_is_old()
        suites = [workshop.suite(name) for name in workshop.plan.suites]
        write_report(runs, page, suites=suites, overwrite=True, command=command)
    except Exception as error:  # whatever it is, the results are there, and worth more than the page
        kind = "" if isinstance(error, FocatError) else f"{type(error).__name__}: "
        workshop.progress.log(f"no report.html: {kind}{error}")
        page.unlink(missing_ok=True)  # one of before would be about other figures


def show_plans(console: Console) -> None:
    """What plans there are."""
    table = Table("plan", "what it does", title="Plans that come with focat")
    for name, title in plan_names().items():
        table.add_row(name, title)
    console.print(table)
    console.print("focat reproduce PLAN --list shows its steps, focat reproduce PLAN works on them")


def list_steps(name: str, folder: Path | None, overrides: Sequence[str], only: Sequence[str]) -> list[Record]:
    """Every step of a plan, and whether it is done."""
    loaded: LoadedPlan = load_plan(name, overrides)
    workshop = Workshop(loaded, folder or default_folder(name), Progress(out=None))
    return [
        {"system": step.system, "seed": step.seed, "step": step.name, "done": work.result(step) is not None}
        for work in chosen_work(workshop, only)
        for step in steps_of(work, only)
    ]


def show_steps(steps: Sequence[Record], console: Console) -> None:
    """A line for each step."""
    for step in steps:
        state = "done   " if step["done"] else "missing"
        console.print(f"{state}  {step['system']} (seed {step['seed']}): {step['step'].replace('.', ' ')}")
    done = sum(step["done"] for step in steps)
    console.print(f"{done} of {len(steps)} steps are done")


def show_outcome(outcome: Outcome, tables: Tables, folder: Path, console: Console) -> None:
    """The first table, where the others are, and what is left to do."""
    if tables.tables:
        console.print("", tables.tables[0].markdown(), sep="\n", markup=False)
    page = f"; a page to look at: {folder}/report.html" if (folder / "report.html").exists() else ""
    console.print(f"all tables: {folder}/tables.md; how each figure was obtained: {folder}/results{page}")
    for work, reason in outcome.failures.items():
        console.print(f"failed: {work}: {reason}", markup=False)
    if outcome.unfinished:
        console.print("not finished; the same command goes on from here")
