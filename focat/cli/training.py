"""Commands that make weights: train, average."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from focat.choices import AveragingRule
from focat.cli import options as opt
from focat.printing import print_line


def train_command(
    config: opt.ConfigFile,
    overrides: opt.Overrides = None,
    overwrite: opt.OverwriteJson = False,
    quiet: opt.Quiet = False,
    json_file: opt.JsonFile = None,
) -> None:
    """Train a system, or go on with training; `torchrun … -m focat train …` uses many GPUs."""
    from dataclasses import asdict

    from focat.config import load_settings
    from focat.training.signals import Interrupted
    from focat.training.trainer import train

    progress, settings = opt.progress_shown(quiet), load_settings(config, overrides or ())
    try:
        state = train(settings, progress)
    except Interrupted as stopped:
        progress.log(str(stopped))
        raise typer.Exit(stopped.exit_code) from None
    if os.environ.get("RANK", "0") == "0" and state.best is not None:  # of the processes of torchrun
        print_line(f"next: focat average {settings.training.output_dir}")
    opt.write_figures(json_file, asdict(state))


def average_command(
    run: opt.RunFolder,
    count: Annotated[int, typer.Option(min=1, help="How many checkpoints to average.")] = 5,
    rule: Annotated[
        AveragingRule,
        typer.Option(help="closest: those nearest to the best (the paper); next: the best and those after it."),
    ] = "closest",
) -> None:
    """Average the weights of checkpoints around the best one."""
    from focat.run import Run
    from focat.training.averaging import average_checkpoints

    chosen = average_checkpoints(Run.open(run), count, rule)
    print_line(f"{run}/averaged: the mean of checkpoint{'s' * (len(chosen) > 1)} {', '.join(map(str, chosen))}")
