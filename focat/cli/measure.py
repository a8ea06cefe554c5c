"""Commands that score with a system: contrast, score."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from focat.choices import ContextControl, MissingTarget, ScoreFormat, SuiteContext
from focat.cli import options as opt


def _list_suites(wanted: bool) -> None:
    """Print the known suites and end the command, which then needs no run."""
    if wanted:
        from focat.evaluation.suites.known import KNOWN_SUITES
        from focat.reporting.terminal.contrast import show_known_suites

        show_known_suites(KNOWN_SUITES)
        raise typer.Exit


def contrast_command(
    run: opt.RunFolder,
    overrides: opt.DecodingOverrides = None,
    *,
    suite: Annotated[
        list[Path],
        opt.file("A suite: Voita et al., ContraPro and its relatives, CTXPro, JSONL. Repeatable."),
    ],
    list_suites: Annotated[
        bool, typer.Option("--list", is_eager=True, callback=_list_suites, help="Say which suites are known, and stop.")
    ] = False,
    context_source: opt.ContextSource = None,
    context_target: opt.ContextTarget = None,
    context_folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Or the folder of documents that its context is in.")
    ] = None,
    rule: opt.RuleOption = "current-sum",
    target_context: Annotated[
        SuiteContext, typer.Option(help="gold (the suite's), own (the model's translation of it) or none.")
    ] = "gold",
    control: Annotated[
        ContextControl,
        typer.Option("--context", help="real, random (of another instance) or fixed (one for all): what does it gain?"),
    ] = "real",
    window: opt.WindowSize = None,
    missing_target: Annotated[
        MissingTarget, typer.Option(help="Where target context is missing: shorter windows, or keep all of the source.")
    ] = "shorter",
    pad_context: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What stands in for missing sentences; the paper has '...'.")
    ] = None,
    detokenise: Annotated[bool, opt.flag("--detokenise", "Undo the suite's tokenisation (Voita et al.).")] = False,
    lowercase: Annotated[bool, opt.flag("--lowercase", "Lower-case the suite.")] = False,
    translate: Annotated[
        bool, opt.flag("--translate", "Also translate, and see whether the right word is produced.")
    ] = False,
    instances: Annotated[Path | None, opt.file("Write the answer to each instance, as JSONL.")] = None,
    precision: opt.PrecisionOption = "float32",
    device: opt.DeviceName = "auto",
    overwrite: opt.Overwrite = False,
    quiet: opt.Quiet = False,
    json_file: opt.JsonFile = None,
) -> None:
    """Measure what context is for: how often a system prefers the right translation, by phenomenon and distance."""
    from rich.console import Console

    from focat.evaluation.contrast import (
        ContrastConfig,
        contrast_results,
        instance_results,
        read_contrast_suites,
        run_contrast,
    )
    from focat.evaluation.suites import TextNormalization
    from focat.files import write_atomic
    from focat.reporting.terminal.contrast import show_contrast
    from focat.run import Run, load_system

    normalization = TextNormalization(detokenise, lowercase)
    config = ContrastConfig(
        rule, target_context, window, missing_target, pad_context, normalization, precision, translate, control
    )
    opt.check_second_file(instances, json_file, overwrite)
    suites = read_contrast_suites(suite, Run.open(run), window, context_source, context_target, context_folder)
    system = load_system(run, device, overrides or ())
    scored, setup = run_contrast(system, suites, config, opt.progress_shown(quiet))
    if instances is not None:
        lines = (result.to_line() for each in scored for result in instance_results(each, setup.rule))
        write_atomic(instances, "".join(lines))
    results = contrast_results(scored, setup)
    show_contrast(results, Console(highlight=False))
    opt.write_figures(json_file, results.to_json())


def score_command(
    run: opt.RunFolder,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Sentences, one to a line; a blank line ends a document.")
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Their translations, line for line.")],
    output: Annotated[Path | None, opt.file("Where to write; standard output if not given.", "--output", "-o")] = None,
    format: Annotated[
        ScoreFormat | None, typer.Option(help="jsonl has every token; by the end of the output's name if not given.")
    ] = None,
    ensemble: opt.EnsembleRuns = None,
    window: opt.WindowSize = None,
    precision: opt.PrecisionOption = "float32",
    device: opt.DeviceName = "auto",
    overwrite: opt.Overwrite = False,
    quiet: opt.Quiet = False,
    json_file: opt.JsonFile = None,
) -> None:
    """Score translations, each sentence after its context: log-probabilities of sentences and of their tokens."""
    from focat.api import load
    from focat.evaluation.document_scores import read_pairs, score_lines, score_results
    from focat.files import write_atomic

    opt.check_second_file(output, json_file, overwrite)
    pairs = read_pairs(source, target)
    progress = opt.progress_shown(quiet)
    model = load([run, *(ensemble or [])], device)
    scored = model.score_pairs(pairs, window, precision, progress)
    found = score_results(scored, model.score_signature(window, precision))
    by_name: ScoreFormat = "jsonl" if output is not None and output.suffix == ".jsonl" else "tsv"
    lines = score_lines(scored, format or by_name)
    if output is None:
        for line in lines:
            print(line)
    else:
        write_atomic(output, "".join(line + "\n" for line in lines))
    progress.log(
        f"{found.sentences:,} sentences of {found.documents:,} documents: log-probability "
        f"{found.per_sentence:.4f} per sentence, {found.per_token:.4f} per token, perplexity "
        f"{found.perplexity:.3f}" + (f"; {found.shortened:,} lost context" if found.shortened else "")
    )
    progress.log(found.signature)
    opt.write_figures(json_file, found.to_json())
