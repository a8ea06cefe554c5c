"""The command that checks this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from focat.cli import options as opt


def doctor_command(
    install_comet: Annotated[bool, opt.flag("--install-comet", "Install COMET in an environment of its own.")] = False,
    quick: Annotated[bool, opt.flag("--quick", "Leave out what takes seconds.")] = False,
    overwrite: opt.OverwriteJson = False,
    quiet: opt.Quiet = False,
    json_file: opt.JsonFile = None,
) -> None:
    """Say whether this machine is ready, and what to run if not."""
    from rich.console import Console

    from focat.doctor import record, run_checks, show_checks
    from focat.evaluation.comet import install

    progress = opt.progress_shown(quiet)
    if install_comet:
        install(progress)
    checks = run_checks(progress, quick)
    show_checks(checks, Console(highlight=False))
    opt.write_figures(json_file, record(checks))
    if any(check.state == "missing" for check in checks):
        raise typer.Exit(1)
