"""Commands that do several steps at once: demo, reproduce, report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from focat.cli import options as opt
from focat.printing import print_line


def demo_command(
    folder: Annotated[Path, typer.Option(help="Where to keep the corpus, the runs and the report.")] = Path("demo"),
    overrides: opt.Overrides = None,
    overwrite: opt.OverwriteJson = False,
    quiet: opt.Quiet = False,
    json_file: opt.JsonFile = None,
) -> None:
    """See it work: train, measure and report on three tiny systems and a generated corpus, in minutes on two cores."""
    from rich.console import Console

    from focat.experiments.demo import run_demo

    session, results = run_demo(folder, overrides or [], opt.progress_shown(quiet), Console(highlight=False))
    if results is None:
        raise typer.Exit(session.exit_code)
    opt.write_figures(json_file, results.to_json())


def reproduce_command(
    plan: Annotated[
        str | None, typer.Argument(metavar="PLAN", help="A plan that comes with focat, or a file; none lists them.")
    ] = None,
    overrides: opt.Overrides = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="Where to work; reproduced/PLAN if not given."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="SYSTEM", help="Work on this system alone. Repeatable.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Save and stop after so many minutes; exit code 3 if work is left.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Systems at the same time; one on each GPU if not given.")
    ] = None,
    list_only: Annotated[bool, opt.flag("--list", "Show the steps and which are done; do nothing.")] = False,
    page: Annotated[bool, typer.Option("--report/--no-report", help="Also write report.html.")] = True,
    part: Annotated[str | None, typer.Option(hidden=True)] = None,
    overwrite: opt.OverwriteJson = False,
    quiet: opt.Quiet = False,
    json_file: opt.JsonFile = None,
) -> None:
    """Train and measure the systems of a plan, as often as it takes, and build the paper's tables."""
    from rich.console import Console

    from focat.experiments import command

    console, progress = Console(highlight=False, soft_wrap=True), opt.progress_shown(quiet)
    changes, chosen = overrides or [], only or []
    if plan is None:
        command.show_plans(console)
        return
    if list_only:
        steps = command.list_steps(plan, folder, changes, chosen)
        command.show_steps(steps, console)
        opt.write_figures(json_file, [status.to_json() for status in steps])
        return
    if part is not None and folder is not None:
        raise typer.Exit(command.reproduce_part(plan, folder, changes, progress, part, minutes).exit_code)
    outcome, tables, where = command.reproduce(plan, folder, changes, progress, chosen, minutes, jobs, page)
    command.show_outcome(outcome, tables, where, console)
    opt.write_figures(json_file, tables.to_json())
    raise typer.Exit(outcome.exit_code)


def report_command(
    runs: Annotated[list[str], typer.Argument(metavar="[NAME=]RUN", help="Runs to report on, the baseline first.")],
    output: Annotated[
        Path | None, opt.file("The page; RUN/report.html or report.html if not given.", "--output", "-o")
    ] = None,
    results: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]FILE", help="Results that do not lie in RUN/results. Repeatable."),
    ] = None,
    suite: Annotated[list[Path] | None, opt.file("A suite, to show examples from it. Repeatable.")] = None,
    context_source: opt.ContextSource = None,
    context_target: opt.ContextTarget = None,
    examples: Annotated[int, typer.Option(min=0, help="How many instances to show on which systems disagree.")] = 6,
    window: Annotated[
        Path | None, opt.file("The window whose attention is shown: its source, a blank line, its translation.")
    ] = None,
    attention_of: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run whose attention is shown; the last that sees context if not given."),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(min=1, help="Layer whose attention is shown; the last if not given.")
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write all plots here, as PNG and SVG.")
    ] = None,
    device: opt.DeviceName = "auto",
    overwrite: opt.Overwrite = False,
    quiet: opt.Quiet = False,
) -> None:
    """Make one page of it all: tables, plots, attention, examples, and how each figure was obtained."""
    import shlex

    from focat.evaluation.suites import context_files, read_suites
    from focat.files import split_name
    from focat.reporting.page import ReportOptions, write_report

    page = output or (split_name(runs[0])[1] / "report.html" if len(runs) == 1 else Path("report.html"))
    write_report(
        runs,
        page,
        results or [],
        suites=read_suites(suite or [], context_files(context_source, context_target)),
        options=ReportOptions(window, attention_of, layer, examples, device),
        plots=plots,
        overwrite=overwrite,
        command=shlex.join(["focat", *sys.argv[1:]]),
        progress=opt.progress_shown(quiet),
    )
    print_line(f"open {page}")
