"""The command that checks this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from focat.cli.options import JsonFile, Quiet, progress_shown, write_figures


def doctor_command(
    install_comet: Annotated[
        bool, typer.Option("--install-comet", help="Install COMET in an environment of its own.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what takes seconds.")] = False,
    quiet: Quiet = False,
    json_file: JsonFile = None,
) -> None:
    """Say whether this machine is ready, and what to run if not."""
    from rich.console import Console

    from focat.doctor import record, run_checks, show_checks
    from focat.evaluation.comet import install

    progress = progress_shown(quiet)
    if install_comet:
        install(progress)
    checks = run_checks(progress, quick)
    show_checks(checks, Console(highlight=False))
    write_figures(json_file, record(checks))
    if any(check.state == "missing" for check in checks):
        raise typer.Exit(1)
