"""Commands about the quality of translations: evaluate, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from focat.choices import Correction, SignificanceTest, TestSplit
from focat.cli import options as opt
from focat.errors import FocatError


def evaluate_command(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN|KEY=VALUE",
            help="A run that translates the test set; settings to override, as in decoding.beam=8.",
        ),
    ] = None,
    hypothesis: Annotated[Path | None, opt.file("Translations that exist already.")] = None,
    reference: Annotated[Path | None, opt.file("What they are compared with.")] = None,
    source: Annotated[Path | None, opt.file("What is translated; COMET reads it.")] = None,
    documents: opt.DocumentNames = None,
    split: Annotated[
        TestSplit, typer.Option(help="Which split of the corpora that the run was prepared from.")
    ] = "test",
    context: opt.ContextOption = None,
    unconstrained: opt.Unconstrained = False,
    window: opt.WindowSize = None,
    beam: opt.Beam = None,
    device: opt.DeviceName = "auto",
    metrics: Annotated[str, typer.Option(help="Which of bleu, chrf, chrf++, ter and comet.")] = "bleu,chrf,ter",
    fragments: Annotated[int | None, typer.Option(min=2, help="Also score lines of so many sentences.")] = None,
    lowercase: Annotated[bool, opt.flag("--lowercase", "Lower-case both sides, not for COMET.")] = False,
    tokenize: Annotated[str | None, typer.Option(help="sacrebleu's tokenizer for BLEU; 13a if not given.")] = None,
    comet_model: Annotated[str, typer.Option(help="A COMET model's name, or its .ckpt file.")] = (
        "Unbabel/wmt22-comet-da"
    ),
    comet_context: Annotated[int, typer.Option(min=0, help="Sentences that doc-COMET reads along.")] = 0,
    output: Annotated[Path | None, opt.file("Where to keep the translations.", "--output", "-o")] = None,
    overwrite: opt.Overwrite = False,
    quiet: opt.Quiet = False,
    json_file: opt.JsonFile = None,
) -> None:
    """Measure translations: BLEU, chrF, TER and COMET, of sentences and of documents."""
    from rich.console import Console

    from focat.evaluation.metrics import check_tokenize, parse_metrics
    from focat.evaluation.quality import MetricConfig, evaluate, evaluation_results, read_texts, write_translations
    from focat.reporting.terminal.evaluation import show_evaluation

    runs, overrides = opt.split_overrides(arguments or [])
    run = Path(runs[0]) if runs else None
    if len(runs) > 1 or (run is None) == (hypothesis is None):
        raise FocatError("evaluate: give either a RUN that translates, or --hypothesis with translations")
    if reference is None and (hypothesis or source):
        raise FocatError("evaluate: give the file to compare with, --reference")
    if documents is not None and reference is None:
        raise FocatError("evaluate: --documents goes with --reference")
    if run and reference and source is None:
        raise FocatError(f"evaluate: give the file that {run} is to translate into {reference}, --source")
    config = MetricConfig(
        parse_metrics(metrics), fragments, lowercase, tokenize, comet_model=comet_model, comet_context=comet_context
    )
    check_tokenize(tokenize)
    config.check(source is not None or run is not None)
    opt.check_second_file(output, json_file, overwrite)
    progress = opt.progress_shown(quiet)
    if run is not None:
        from focat.corpus.readers import read_documents
        from focat.evaluation.test_sets import corpus_of_files, documents_of, translate_documents
        from focat.run import load_system

        opened = load_system(run, device, overrides)
        if source is not None and reference is not None:
            chosen = list(read_documents(corpus_of_files(source, reference, documents)))
        else:
            chosen = documents_of(opened.runs[0], split, progress)
        texts, made = translate_documents(
            opened, chosen, progress, context, constrained=not unconstrained, window=window, beam=beam
        )
        system = run.resolve().name
    elif hypothesis is not None and reference is not None:
        texts, made = read_texts(hypothesis, reference, source, documents), None
        system = hypothesis.stem
    if output is not None:
        write_translations(output, texts.hypotheses)
    scores = evaluate(texts, config, progress)
    show_evaluation(system, texts, scores, Console(highlight=False))
    if json_file is not None:
        evaluation_results(system, texts, scores, made).write(json_file)


def compare_command(
    files: Annotated[
        list[str],
        typer.Argument(metavar="[NAME=]FILE", help="Results of systems, the baseline first; equal names are one."),
    ],
    reference: Annotated[Path | None, opt.file("The files are translations; this is what they should be.")] = None,
    by: Annotated[
        str | None, typer.Option(help="Columns of a suite: phenomenon, distance, suite, or a label of its instances.")
    ] = None,
    all_pairs: Annotated[bool, opt.flag("--all-pairs", "Compare all systems, not only with the first.")] = False,
    test: Annotated[SignificanceTest, typer.Option(help="Test for BLEU, chrF, TER and Disc_avg.")] = "randomisation",
    correction: Annotated[Correction, typer.Option(help="Correction for multiple comparisons.")] = "holm",
    trials: Annotated[int, typer.Option(min=1, help="Trials of randomisation and permutation.")] = 10_000,
    resamples: Annotated[int, typer.Option(min=2, help="Resamples of the bootstrap.")] = 1_000,
    seed: opt.TrialSeed = 12345,
    metrics: Annotated[
        str, typer.Option(help="With --reference: which of bleu, chrf, chrf++ and ter.")
    ] = "bleu,chrf,ter",
    lowercase: Annotated[bool, opt.flag("--lowercase", "With --reference: lower-case both.")] = False,
    table: Annotated[
        Path | None, opt.file("Also write the tables to a file, as LaTeX (.tex) or Markdown (.md).", "--table")
    ] = None,
    overwrite: opt.Overwrite = False,
    quiet: opt.Quiet = False,
    json_file: opt.JsonFile = None,
) -> None:
    """Compare systems: is the difference more than chance, and how large is it?"""
    from rich.console import Console

    from focat.evaluation.comparison import compare
    from focat.evaluation.comparison_files import read_systems
    from focat.evaluation.metrics import parse_metrics
    from focat.evaluation.quality import MetricConfig
    from focat.reporting.terminal.comparison import check_table_file, show_comparison, write_comparison

    check_table_file(table)
    opt.check_second_file(table, json_file, overwrite)
    progress = opt.progress_shown(quiet)
    config = MetricConfig(parse_metrics(metrics), lowercase=lowercase)
    config.check(has_source=False)
    systems = read_systems(files, progress, config, reference, by)
    found = compare(systems, progress, all_pairs, test, correction, trials, resamples, seed)
    show_comparison(found, Console(highlight=False))
    if table is not None:
        write_comparison(found, table)
    opt.write_figures(json_file, found.results().to_json())
