"""The command that looks into trained systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from focat.choices import ANALYSES, DROP_SIDES, AttentionDetail, TestSplit
from focat.cli import options as opt


def analyse_command(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|KEY=VALUE",
            help="Folders that `focat train` or `focat import` made; settings to override, as in decoding.beam=8.",
        ),
    ],
    split: Annotated[TestSplit, typer.Option(help="Which split of the store they were trained on.")] = "test",
    source: Annotated[Path | None, opt.file("A text in place of the split, one sentence to a line.")] = None,
    target: Annotated[Path | None, opt.file("Its translation, line for line.")] = None,
    documents: opt.DocumentNames = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Read whole documents until there are so many sentences.")
    ] = None,
    analyses: Annotated[
        str, typer.Option(help="Which of attention, losses, robustness and context.")
    ] = "attention,losses,robustness,context",
    by: Annotated[AttentionDetail | None, typer.Option(help="Show attention by layer or by head too.")] = None,
    windows: Annotated[str, typer.Option(help="Window sizes, for robustness.")] = "1-6",
    bleu: Annotated[bool, opt.flag("--bleu", "Robustness: also translate with windows of each size.")] = False,
    drop: Annotated[str, typer.Option(help="Context: drop sentences from both sides, source or target.")] = "both",
    suite: Annotated[
        list[Path] | None, opt.file("A contrastive suite, for robustness and context. Repeatable.")
    ] = None,
    context_source: opt.ContextSource = None,
    context_target: opt.ContextTarget = None,
    detokenise: Annotated[bool, opt.flag("--detokenise", "Undo the tokenisation of suites.")] = False,
    lowercase: Annotated[bool, opt.flag("--lowercase", "Lower-case suites.")] = False,
    rule: opt.RuleOption = "current-sum",
    trials: Annotated[int, typer.Option(min=1, help="Trials of approximate randomisation.")] = 10_000,
    seed: opt.TrialSeed = 12345,
    items: Annotated[Path | None, opt.file("Write the figures of each window and instance, as JSONL.")] = None,
    device: opt.DeviceName = "auto",
    overwrite: opt.Overwrite = False,
    quiet: opt.Quiet = False,
    json_file: opt.JsonFile = None,
) -> None:
    """See where attention and loss go, what other window sizes do, and what each context sentence is worth."""
    from rich.console import Console

    from focat.analysis.analyse import AnalysisConfig, analyse
    from focat.analysis.corpora import CorpusSelection
    from focat.evaluation.suites import TextNormalization, context_files, read_suites
    from focat.files import write_atomic
    from focat.reporting.terminal.analysis import show_analysis

    runs, overrides = opt.split_overrides(arguments)
    normalization, context = TextNormalization(detokenise, lowercase), context_files(context_source, context_target)
    selection = CorpusSelection(split, source, target, documents, limit)
    config = AnalysisConfig(
        opt.names_between_commas("analyses", analyses, ANALYSES),
        opt.window_sizes("windows", windows),
        opt.names_between_commas("drop", drop, DROP_SIDES),
        [normalization.suite(published) for published in read_suites(suite or [], context)],
        rule,
        bleu,
        trials,
        seed,
    )
    opt.check_second_file(items, json_file, overwrite)
    found = analyse([Path(run) for run in runs], selection, config, opt.progress_shown(quiet), device, overrides)
    show_analysis(found.results, by, Console(highlight=False))
    if items is not None:
        write_atomic(items, "".join(item.to_line() for item in found.items()))
    opt.write_figures(json_file, found.results.to_json())
