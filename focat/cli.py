"""The command line: one thin sub-command per workflow. All imports of substance wait until a command runs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from focat._version import __version__
from focat.errors import FocatError
from focat.options import in_a_folder

app = typer.Typer(
    name="focat",
    help="Context-aware machine translation by focused concatenation: prepare, train, measure, translate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ConfigFile = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="Settings file (YAML), or a recipe such as focat:s4to4.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings to override, as in windows.before=3."),
]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", callback=in_a_folder, help="Also write the figures to a file, as JSON."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder that `focat train` made.")]
OtherRuns = Annotated[
    list[Path] | None, typer.Option("--with", metavar="RUN", help="Another run, to decide together. Repeatable.")
]
WindowSize = Annotated[int | None, typer.Option(min=1, help="Sentences in a window; as in training if not given.")]
ContextRule = Annotated[
    str | None, typer.Option(help="Target context: reuse (our own translations), regenerate (the paper) or none.")
]
Unconstrained = Annotated[
    bool,
    typer.Option("--unconstrained", help="Let a window have any number of sentences, and keep the last (paper)."),
]
Beam = Annotated[int | None, typer.Option(min=1, help="Hypotheses kept at each step; 1 is greedy.")]
ContextSource = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Source context of a suite like ContraPro, as text.")
]
ContextTarget = Annotated[Path | None, typer.Option(metavar="FILE", help="Its target context, as text.")]
ScoringRule = Annotated[
    str, typer.Option(help="Score of a candidate: current-sum, current-mean or window-mean (the paper).")
]
DocumentNames = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The document of each line; else a blank line ends one.")
]
TrialSeed = Annotated[int, typer.Option(min=0, help="Another seed, other trials.")]
Precision = Annotated[str, typer.Option(help="float32, or bfloat16: faster on GPUs, less exact.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]


def main() -> None:
    """Run a command; what a user can mend is one line and exit code 2."""
    command = typer.main.get_command(app)  # called like this, it leaves all that can go wrong to us
    try:
        with command.make_context("focat", sys.argv[1:]) as context:
            command.invoke(context)
        sys.exit(0)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except FocatError as error:
        print(f"focat: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has had enough
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in filter(None, (sys.stdout, sys.stderr)):
            os.dup2(nowhere, stream.fileno())  # or what is left would be tried once more at the end
        sys.exit(0)
    except Exception as error:
        if not hasattr(error, "format_message"):  # what typer finds wrong with the words themselves has one
            raise
        _wrong_words(error)


def _wrong_words(error: Any) -> NoReturn:
    """One line about the words of a command; where there are none, its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        context = getattr(error, "ctx", None)
        where = "" if context is None else f"; see `{context.command_path} --help`"
        print(f"focat: {' '.join(error.format_message().split()).rstrip('.')}{where}", file=sys.stderr)
    sys.exit(error.exit_code)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"focat {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = (
        False
    ),
) -> None:
    pass


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where to keep the corpus, the runs and the report.")] = Path("demo"),
    overrides: Overrides = None,
    json_file: JsonFile = None,
) -> None:
    """See it work: train, measure and report on three tiny systems and a generated corpus, in minutes on two cores."""
    from rich.console import Console

    from focat.experiments.demo import run_demo
    from focat.progress import Progress

    _write_json(json_file, run_demo(folder, overrides or [], Progress(), Console(highlight=False)))


@app.command()
def config(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="[CONFIG]", help="Settings file (YAML); the defaults if not given."),
    ] = None,
    overrides: Overrides = None,
    schema: Annotated[bool, typer.Option("--schema", help="Write a JSON schema of settings files, for editors.")] = (
        False
    ),
    reference: Annotated[bool, typer.Option("--reference", help="Write about every setting, as Markdown.")] = False,
) -> None:
    """Show the settings that a file and overrides amount to, or the schema of all settings."""
    from focat.config import Settings, dump_settings, load_settings
    from focat.config.loading import settings_schema
    from focat.config.reference import settings_reference

    if reference:
        print(settings_reference(), end="")
    elif schema:
        print(json.dumps(settings_schema(), indent=2, ensure_ascii=False))
    else:
        print(dump_settings(load_settings(config, overrides or ()) if config else Settings()), end="")


@app.command()
def prepare(
    config: ConfigFile,
    overrides: Overrides = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a store made from other settings.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Make a token store: read and clean the corpora, train the tokenizer, encode everything."""
    from focat.config import load_settings
    from focat.corpus.prepare import prepare
    from focat.corpus.store import counts_line
    from focat.progress import Progress

    settings = load_settings(config, overrides or ()).data
    manifest = prepare(settings, Progress(), overwrite)
    for name, split in manifest["splits"].items():
        print(f"{name}: {counts_line(split)}")
    print(f"next: focat inspect {settings.store}")
    _write_json(json_file, manifest)


@app.command()
def inspect(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder that `focat prepare` filled.")],
    split: Annotated[str, typer.Option(help="Which split to look into.")] = "train",
    windows: Annotated[int, typer.Option(min=0, help="How many windows to show.")] = 3,
    before: Annotated[int, typer.Option(min=0, help="Context sentences in front of the current one.")] = 3,
    after: Annotated[int, typer.Option(min=0, help="Context sentences behind the current one.")] = 0,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the windows as a picture.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Look into a token store: counts, lengths, suspicious pairs, and windows coloured by segment."""
    from focat.analysis.inspection import draw_windows, inspect_split, show_inspection
    from focat.config.schema import WindowSettings
    from focat.corpus.store import Store

    found = inspect_split(Store(store), split, WindowSettings(before=before, after=after), windows)
    show_inspection(found)
    if svg is not None:
        draw_windows(found, svg)
    _write_json(json_file, found.figures)


@app.command()
def train(config: ConfigFile, overrides: Overrides = None, json_file: JsonFile = None) -> None:
    """Train a system, or go on with training; `torchrun … -m focat train …` uses many GPUs."""
    from dataclasses import asdict

    from focat.config import load_settings
    from focat.progress import Progress
    from focat.training.trainer import Interrupted, train

    progress = Progress()
    try:
        state = train(load_settings(config, overrides or ()), progress)
    except Interrupted as stopped:
        progress.log(str(stopped))
        raise typer.Exit(stopped.exit_code) from None
    _write_json(json_file, asdict(state))


@app.command()
def average(
    run: RunFolder,
    count: Annotated[int, typer.Option(min=1, help="How many checkpoints to average.")] = 5,
    rule: Annotated[
        str, typer.Option(help="closest: those nearest to the best (the paper); next: the best and those after it.")
    ] = "closest",
) -> None:
    """Average the weights of checkpoints around the best one."""
    from focat.run import Run
    from focat.training.averaging import average, parse_rule

    chosen = average(Run.open(run), count, parse_rule(rule))
    print(f"{run}/averaged: the mean of {len(chosen)} checkpoints: {', '.join(map(str, chosen))}")


@app.command()
def translate(
    run: RunFolder,
    input: Annotated[Path, typer.Argument(metavar="INPUT", help="File to translate; - is standard input.")] = Path("-"),
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write; standard output if not given.")
    ] = Path("-"),
    format: Annotated[
        str | None, typer.Option(help="text, jsonl, srt or vtt; by the end of the file's name if not given.")
    ] = None,
    split: Annotated[bool, typer.Option("--split", help="The input is running text: cut it into sentences.")] = False,
    context: ContextRule = None,
    unconstrained: Unconstrained = False,
    window: WindowSize = None,
    others: OtherRuns = None,
    beam: Beam = None,
    length_penalty: Annotated[
        float | None, typer.Option(min=0, help="Scores are divided by length to this power.")
    ] = None,
    nbest: Annotated[int | None, typer.Option(min=1, help="Translations to show of each sentence.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Show the score of each translation.")] = False,
    sample: Annotated[bool, typer.Option("--sample", help="Draw translations at random by their probability.")] = False,
    temperature: Annotated[float | None, typer.Option(help="With --sample: below 1 is less daring.")] = None,
    top_p: Annotated[float | None, typer.Option(help="With --sample: draw from the likeliest of this mass.")] = None,
    seed: Annotated[int | None, typer.Option(help="With --sample: another seed is another draw.")] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="On a CPU: twice as fast with eight-bit integers, a little less exact.")
    ] = False,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of a batch.")] = None,
    device: Device = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Translate documents, each sentence in its context, one line for each line; resumes by itself if interrupted."""
    from dataclasses import asdict

    from focat.api import load
    from focat.progress import NULL_PROGRESS, Progress

    for path in (input, output):
        if json_file is not None and json_file.resolve() == path.resolve():
            raise FocatError(f"--json {json_file}: is the {'input' if path == input else 'output'}; give another file")
    # where progress would run into the translation
    to_terminal = output == Path("-") and sys.stdout is not None and sys.stdout.isatty()
    typed = input == Path("-") and sys.stdin is not None and sys.stdin.isatty()
    if typed:
        print("Type one sentence to a line; a blank line begins another document, Ctrl-D ends.", file=sys.stderr)
    figures = load([run, *(others or [])], device).translate_file(
        input,
        output,
        format,
        split,
        scores,
        overwrite,
        NULL_PROGRESS if quiet or to_terminal else Progress(),
        context=context,
        constrained=not unconstrained,
        window=window,
        ahead=1 if typed else None,
        beam=beam,
        length_penalty=length_penalty,
        nbest=nbest,
        sample=sample or None,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        int8=int8 or None,
        batch_tokens=batch_tokens,
    )
    _write_json(json_file, asdict(figures))


@app.command()
def contrast(
    run: RunFolder,
    suite: Annotated[
        list[Path],
        typer.Option(metavar="FILE", help="A suite: Voita et al., ContraPro and its relatives, JSONL. Repeatable."),
    ],
    context_source: ContextSource = None,
    context_target: ContextTarget = None,
    context_folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Or the folder of documents that its context is in.")
    ] = None,
    rule: ScoringRule = "current-sum",
    target_context: Annotated[
        str, typer.Option(help="gold (the suite's), own (the model's translation of it) or none.")
    ] = "gold",
    window: WindowSize = None,
    uneven: Annotated[
        str, typer.Option(help="Where target context is missing: shorter windows, or keep all of the source.")
    ] = "shorter",
    fill: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What stands in for missing sentences; the paper has '...'.")
    ] = None,
    detokenise: Annotated[
        bool, typer.Option("--detokenise", help="Undo the suite's tokenisation (Voita et al.).")
    ] = False,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lower-case the suite.")] = False,
    translate: Annotated[
        bool, typer.Option("--translate", help="Also translate, and see whether the right word is produced.")
    ] = False,
    instances: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the answer to each instance, as JSONL.")
    ] = None,
    precision: Precision = "float32",
    device: Device = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --instances.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Measure what context is for: how often a system prefers the right translation, by phenomenon and distance."""
    from rich.console import Console

    from focat.evaluation.contrast_report import figures, instance_lines, sections, show
    from focat.evaluation.contrast_run import Asking, ask, parse_target, parse_uneven, suites_for
    from focat.evaluation.scoring import parse_precision, parse_rule
    from focat.evaluation.suites import Form
    from focat.files import write_atomic
    from focat.hardware import device_named
    from focat.options import check_free
    from focat.progress import Progress
    from focat.run import Run

    asking = Asking(
        parse_rule(rule),
        parse_target(target_context),
        window,
        parse_uneven(uneven),
        fill,
        Form(detokenise, lowercase),
        parse_precision(precision),
        translate,
    )
    check_free(instances, "--instances", overwrite)
    opened = Run.open(run)
    suites = suites_for(suite, opened, window, context_source, context_target, context_folder)
    results, setup = ask(opened, suites, asking, device_named(device), Progress())
    found = sections(results, setup)
    if instances is not None:
        write_atomic(instances, instance_lines(results, setup.rule))
    show(found, setup.rule, Console(highlight=False))
    _write_json(json_file, figures(results, found, setup))


@app.command()
def score(
    run: RunFolder,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Sentences, one to a line; a blank line ends a document.")
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Their translations, line for line.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write; standard output if not given."),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="tsv, or jsonl with every token; by the end of the output's name if not given.")
    ] = None,
    others: OtherRuns = None,
    window: WindowSize = None,
    precision: Precision = "float32",
    device: Device = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Score translations, each sentence after its context: log-probabilities of sentences and of their tokens."""
    from focat.api import load
    from focat.evaluation.document_scores import parse_style, read_pairs, score_lines, summary
    from focat.evaluation.scoring import parse_precision
    from focat.files import write_atomic
    from focat.options import check_free
    from focat.progress import Progress

    style = parse_style(format, output)
    check_free(output, "--output", overwrite)
    how = parse_precision(precision)
    pairs = read_pairs(source, target)
    progress = Progress()
    model = load([run, *(others or [])], device)
    scored = model.score_pairs(pairs, window, how, progress)
    lines = score_lines(scored, style)
    if output is None:
        for line in lines:
            print(line)
    else:
        write_atomic(output, "".join(line + "\n" for line in lines))
    found = summary(scored) | {"signature": model.score_signature(window, how)}
    progress.log(
        f"{found['sentences']:,} sentences of {found['documents']:,} documents: log-probability "
        f"{found['per_sentence']:.4f} per sentence, {found['per_token']:.4f} per token, perplexity "
        f"{found['perplexity']:.3f}" + (f"; {found['shortened']:,} lost context" if found["shortened"] else "")
    )
    progress.log(found["signature"])
    _write_json(json_file, found)


@app.command()
def evaluate(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="A run that translates the test set.")] = None,
    hypothesis: Annotated[Path | None, typer.Option(metavar="FILE", help="Translations that exist already.")] = None,
    reference: Annotated[Path | None, typer.Option(metavar="FILE", help="What they are compared with.")] = None,
    source: Annotated[Path | None, typer.Option(metavar="FILE", help="What is translated; COMET reads it.")] = None,
    documents: DocumentNames = None,
    split: Annotated[str, typer.Option(help="Of what the run was prepared from: test or dev.")] = "test",
    context: ContextRule = None,
    unconstrained: Unconstrained = False,
    window: WindowSize = None,
    beam: Beam = None,
    device: Device = "auto",
    metrics: Annotated[str, typer.Option(help="Of bleu, chrf, chrf++, ter and comet.")] = "bleu,chrf,ter",
    fragments: Annotated[int | None, typer.Option(min=2, help="Also score lines of so many sentences.")] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lower-case both sides, not for COMET.")] = False,
    tokenize: Annotated[str | None, typer.Option(help="sacrebleu's tokenizer for BLEU; 13a if not given.")] = None,
    comet_model: Annotated[str, typer.Option(help="A COMET model's name, or its .ckpt file.")] = (
        "Unbabel/wmt22-comet-da"
    ),
    comet_context: Annotated[int, typer.Option(min=0, help="Sentences that doc-COMET reads along.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Keep translations.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --output.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Measure translations: BLEU, chrF, TER and COMET, of sentences and of documents."""
    from rich.console import Console

    from focat.evaluation.metrics import check_tokenize, parse_metrics
    from focat.evaluation.quality import (
        Measures,
        evaluate,
        evaluation_record,
        read_texts,
        show_evaluation,
        write_evaluation,
        write_translations,
    )
    from focat.options import check_free, one_of
    from focat.progress import Progress

    if (run is None) == (hypothesis is None):
        raise FocatError("evaluate: give either a RUN that translates, or --hypothesis with translations")
    if reference is None and (hypothesis or source):
        raise FocatError("evaluate: give the file to compare with, --reference")
    if documents is not None and reference is None:
        raise FocatError("evaluate: --documents goes with --reference")
    if run and reference and source is None:
        raise FocatError(f"evaluate: give the file that {run} is to translate into {reference}, --source")
    measures = Measures(
        parse_metrics(metrics), fragments, lowercase, tokenize, comet_model=comet_model, comet_context=comet_context
    )
    check_tokenize(tokenize)
    measures.check(source is not None or run is not None)
    check_free(output, "--output", overwrite)
    progress = Progress()
    if run is not None:
        from focat.api import load
        from focat.corpus.readers import read_documents
        from focat.evaluation.test_sets import SPLITS, corpus_of_files, documents_of
        from focat.evaluation.translating import translate_documents

        wanted = one_of("--split", split, SPLITS)
        model = load(run, device)
        if source is not None and reference is not None:
            chosen = list(read_documents(corpus_of_files(source, reference, documents)))
        else:
            chosen = documents_of(model.runs[0], wanted, progress)
        texts, made = translate_documents(
            model, chosen, progress, context=context, constrained=not unconstrained, window=window, beam=beam
        )
        system = run.resolve().name
    elif hypothesis is not None and reference is not None:
        texts, made = read_texts(hypothesis, reference, source, documents), None
        system = hypothesis.stem
    if output is not None:
        write_translations(output, texts.hypotheses)
    figures = evaluate(texts, measures, progress)
    show_evaluation(system, texts, figures, Console(highlight=False))
    if json_file is not None:
        write_evaluation(json_file, evaluation_record(system, texts, figures, made))


@app.command()
def compare(
    files: Annotated[
        list[str],
        typer.Argument(metavar="[NAME=]FILE...", help="Results of systems, the baseline first; equal names are one."),
    ],
    reference: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The files are translations; this is what they should be.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Columns of a suite: phenomenon, distance, suite, or a label of its instances.")
    ] = None,
    all_pairs: Annotated[bool, typer.Option("--all-pairs", help="Not only against the first.")] = False,
    test: Annotated[
        str, typer.Option(help="For BLEU, chrF, TER, Disc_avg: randomisation or bootstrap.")
    ] = "randomisation",
    correction: Annotated[str, typer.Option(help="For many comparisons: holm, benjamini-hochberg or none.")] = "holm",
    trials: Annotated[int, typer.Option(min=1, help="Of randomisation and permutation.")] = 10_000,
    resamples: Annotated[int, typer.Option(min=2, help="Of the bootstrap.")] = 1_000,
    seed: TrialSeed = 12345,
    metrics: Annotated[str, typer.Option(help="With --reference: of bleu, chrf, chrf++ and ter.")] = "bleu,chrf,ter",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="With --reference: lower-case both.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Compare systems: is the difference more than chance, and how large is it?"""
    from rich.console import Console

    from focat.evaluation.comparison import compare, parse_correction, parse_test, show_comparison
    from focat.evaluation.metrics import parse_metrics
    from focat.evaluation.quality import Measures
    from focat.evaluation.systems import read_systems
    from focat.progress import Progress

    how, test_name, progress = parse_correction(correction), parse_test(test), Progress()
    measures = Measures(parse_metrics(metrics), lowercase=lowercase)
    measures.check(has_source=False)
    systems = read_systems(files, progress, measures, reference, by)
    found = compare(systems, progress, all_pairs, test_name, how, trials, resamples, seed)
    show_comparison(found, Console(highlight=False))
    _write_json(json_file, found.record())


@app.command()
def analyse(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders that `focat train` made.")],
    split: Annotated[str, typer.Option(help="Of the store they were trained on: test or dev.")] = "test",
    source: Annotated[Path | None, typer.Option(metavar="FILE", help="Or a text of one's own, a line a sentence.")] = (
        None
    ),
    target: Annotated[Path | None, typer.Option(metavar="FILE", help="Its translation, line for line.")] = None,
    documents: DocumentNames = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Whole documents, until so many sentences.")] = None,
    parts: Annotated[
        str, typer.Option(help="Of attention, losses, robustness and context.")
    ] = "attention,losses,robustness,context",
    by: Annotated[str | None, typer.Option(help="Show attention by layer or by head too.")] = None,
    windows: Annotated[str, typer.Option(help="Window sizes, for robustness.")] = "1-6",
    bleu: Annotated[bool, typer.Option("--bleu", help="Robustness: also translate with windows of each size.")] = False,
    drop: Annotated[str, typer.Option(help="Context: drop sentences from both sides, source or target.")] = "both",
    suite: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A contrastive suite, for robustness and context. Repeatable."),
    ] = None,
    context_source: ContextSource = None,
    context_target: ContextTarget = None,
    detokenise: Annotated[bool, typer.Option("--detokenise", help="Undo the tokenisation of suites.")] = False,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lower-case suites.")] = False,
    rule: ScoringRule = "current-sum",
    trials: Annotated[int, typer.Option(min=1, help="Of approximate randomisation.")] = 10_000,
    seed: TrialSeed = 12345,
    items: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures of each window and instance, as JSONL.")
    ] = None,
    device: Device = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --items.")] = False,
    json_file: JsonFile = None,
) -> None:
    """See where attention and loss go, what other window sizes do, and what each context sentence is worth."""
    from rich.console import Console

    from focat.analysis.analyse import Asked, analyse, parse_parts
    from focat.analysis.contributions import parse_sides
    from focat.analysis.robustness import parse_sizes
    from focat.analysis.systems import Chosen
    from focat.evaluation.scoring import parse_rule
    from focat.evaluation.suites import Form, context_files, read_suites
    from focat.evaluation.test_sets import SPLITS
    from focat.files import write_atomic
    from focat.hardware import device_named
    from focat.options import check_free, one_of
    from focat.progress import Progress
    from focat.reporting.analysis_tables import parse_by, show_analysis

    form, context = Form(detokenise, lowercase), context_files(context_source, context_target)
    chosen, shown = Chosen(one_of("--split", split, SPLITS), source, target, documents, limit), parse_by(by)
    asked = Asked(
        parse_parts(parts),
        parse_sizes(windows),
        parse_sides(drop),
        [form.suite(published) for published in read_suites(suite or [], context)],
        parse_rule(rule),
        bleu,
        trials,
        seed,
    )
    check_free(items, "--items", overwrite)
    found = analyse(runs, chosen, asked, Progress(), device_named(device))
    show_analysis(found, shown, Console(highlight=False))
    if items is not None:
        write_atomic(items, "".join(found.item_lines()))
    _write_json(json_file, found.record())


@app.command()
def reproduce(
    plan: Annotated[
        str | None, typer.Argument(metavar="[PLAN]", help="A plan that comes with focat, or a file; none lists them.")
    ] = None,
    overrides: Overrides = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to work; reproduced/PLAN if not given.")
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
    list_only: Annotated[bool, typer.Option("--list", help="Show the steps and which are done; do nothing.")] = False,
    page: Annotated[bool, typer.Option("--report/--no-report", help="Also write report.html.")] = True,
    part: Annotated[str | None, typer.Option(hidden=True)] = None,
    json_file: JsonFile = None,
) -> None:
    """Train and measure the systems of a plan, as often as it takes, and build the paper's tables."""
    from rich.console import Console

    from focat.experiments import command
    from focat.progress import Progress

    console, changes, chosen = Console(highlight=False, soft_wrap=True), overrides or [], only or []
    if plan is None:
        command.show_plans(console)
        return
    if list_only:
        steps = command.list_steps(plan, folder, changes, chosen)
        command.show_steps(steps, console)
        _write_json(json_file, steps)
        return
    if part is not None and folder is not None:
        raise typer.Exit(command.reproduce_part(plan, folder, changes, Progress(), part, minutes).exit_code)
    outcome, tables, where = command.reproduce(plan, folder, changes, Progress(), chosen, minutes, jobs, page)
    command.show_outcome(outcome, tables, where, console)
    _write_json(json_file, tables.record())
    raise typer.Exit(outcome.exit_code)


@app.command()
def report(
    runs: Annotated[list[str], typer.Argument(metavar="[NAME=]RUN...", help="Runs to tell of, the baseline first.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The page; RUN/report.html or report.html if not given."),
    ] = None,
    results: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]FILE", help="Results that do not lie in RUN/results. Repeatable."),
    ] = None,
    suite: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A suite, to show examples from it. Repeatable.")
    ] = None,
    context_source: ContextSource = None,
    context_target: ContextTarget = None,
    examples: Annotated[int, typer.Option(min=0, help="How many instances to show on which systems disagree.")] = 6,
    window: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The window whose attention is shown: its source, a blank line, its translation."
        ),
    ] = None,
    attention_of: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose attention; the last run that sees context if not given.")
    ] = None,
    layer: Annotated[int | None, typer.Option(min=1, help="Of which layer; the last if not given.")] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write all plots here, as PNG and SVG.")
    ] = None,
    device: Device = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the page and the plots.")] = False,
) -> None:
    """Make one page of it all: tables, plots, attention, examples, and how each figure was obtained."""
    import shlex

    from focat.evaluation.suites import context_files, read_suites
    from focat.options import named
    from focat.progress import Progress
    from focat.reporting.page import Choices, write_report

    page = output or (named(runs[0])[1] / "report.html" if len(runs) == 1 else Path("report.html"))
    write_report(
        runs,
        page,
        results or [],
        suites=read_suites(suite or [], context_files(context_source, context_target)),
        choices=Choices(window, attention_of, layer, examples, device),
        plots=plots,
        overwrite=overwrite,
        command=shlex.join(["focat", *sys.argv[1:]]),
        progress=Progress(),
    )
    print(f"open {page}")


@app.command()
def doctor(
    install_comet: Annotated[
        bool, typer.Option("--install-comet", help="Install COMET in an environment of its own.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what takes seconds.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Say whether this machine is ready, and what to run if not."""
    from rich.console import Console

    from focat.doctor import examine, record, show_checks
    from focat.evaluation.comet import install
    from focat.progress import Progress

    progress = Progress()
    if install_comet:
        install(progress)
    checks = examine(progress, quick)
    show_checks(checks, Console(highlight=False))
    _write_json(json_file, record(checks))
    if any(check.state == "missing" for check in checks):
        raise typer.Exit(1)


def _write_json(path: Path | None, content: Any) -> None:
    if path is not None:
        from focat.files import write_json

        write_json(path, content)
