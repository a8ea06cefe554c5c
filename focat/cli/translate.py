"""The command that translates documents."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from focat.choices import Formality
from focat.cli import options as opt
from focat.errors import FocatError
from focat.printing import print_line


def translate_command(
    run: opt.RunFolder,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT…|KEY=VALUE",
            help="Files, folders or patterns to translate, standard input if not given; settings to override, as in "
            "decoding.beam=8.",
        ),
    ] = None,
    output: Annotated[
        Path, opt.file("Where to write, a folder for several files; standard output if not given.", "--output", "-o")
    ] = Path("-"),
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Several files: translate only the I-th of N parts of them.")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="text, jsonl, srt, vtt, ass, po, xliff, html, markdown, docx, pptx, odt or epub; by the end of the "
            "file's name if not given."
        ),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoding of the input, as cp1252; found out if not given.")
    ] = None,
    output_encoding: Annotated[str, typer.Option(metavar="NAME", help="Encoding of the output.")] = "utf-8",
    split: Annotated[bool, opt.flag("--split", "The input is running text: cut it into sentences.")] = False,
    all_entries: Annotated[
        bool, opt.flag("--all", "PO, XLIFF: replace translations that are there already, too.")
    ] = False,
    line_length: Annotated[
        int | None, typer.Option(min=1, help="Subtitles: characters of a line; report lines that are longer.")
    ] = None,
    max_lines: Annotated[
        int | None, typer.Option(min=1, help="Subtitles: lines of a cue; report cues that have more.")
    ] = None,
    reading_speed: Annotated[
        float | None, typer.Option(min=1, help="Subtitles: characters a second; report cues that need a greater speed.")
    ] = None,
    keep_sounds: Annotated[
        bool,
        opt.flag("--keep-sounds", "Subtitles: leave sounds in brackets, (SIGHS), ANN: and lines with ♪ as they are."),
    ] = False,
    glossary: Annotated[
        Path | None, opt.file("Terms and their translations, which must appear: source, tab, target.", "--glossary")
    ] = None,
    keep: Annotated[Path | None, opt.file("Terms that must not be translated, one on each line.", "--keep")] = None,
    context: opt.ContextOption = None,
    unconstrained: opt.Unconstrained = False,
    window: opt.WindowSize = None,
    formality: Annotated[
        Formality | None, typer.Option(help="Form of address, if the model was trained with data.formality.")
    ] = None,
    ensemble: opt.EnsembleRuns = None,
    beam: opt.Beam = None,
    length_penalty: Annotated[
        float | None, typer.Option(min=0, help="Scores are divided by length to this power.")
    ] = None,
    nbest: Annotated[int | None, typer.Option(min=1, help="Translations to show of each sentence.")] = None,
    scores: Annotated[bool, opt.flag("--scores", "Show the score of each translation.")] = False,
    sample: Annotated[bool, opt.flag("--sample", "Draw translations at random by their probability.")] = False,
    temperature: Annotated[
        float | None, typer.Option(help="With --sample: below 1 likely tokens become likelier still.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="With --sample: draw from the likeliest tokens that together have this probability."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="With --sample: the seed of the draws.")] = None,
    int8: opt.Int8 = False,
    bfloat16: opt.Bfloat16 = False,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of a batch.")] = None,
    device: opt.DeviceName = "auto",
    overwrite: opt.Overwrite = False,
    quiet: opt.Quiet = False,
    json_file: opt.JsonFile = None,
) -> None:
    """Translate documents, each sentence in its context, one line for each line; resumes by itself if interrupted."""
    from dataclasses import asdict

    from focat.api import load
    from focat.translation.formats import SubtitleOptions
    from focat.translation.many_files import is_many
    from focat.translation.options import FileOptions

    files, overrides = opt.split_overrides(arguments or [])
    for path in (*map(Path, files), output):
        if json_file is not None and os.path.realpath(json_file) == os.path.realpath(path):
            which = "output" if path == output else "input"
            raise FocatError(f"--json {json_file}: is the {which}; give another file")
    if output == Path("-") and len(files) == 2 and Path(files[0]).is_file() and not os.path.lexists(files[1]):
        raise FocatError(f"{files[1]}: no such file; if it is the output, give -o {files[1]}")
    part = opt.shard("shard", shard)
    many = is_many(files, output) or part is not None
    input = Path(files[0]) if files else Path("-")
    # where progress would run into the translation
    to_terminal = output == Path("-") and sys.stdout is not None and sys.stdout.isatty()
    if not files and sys.stdin is not None and sys.stdin.isatty():
        print_line("Type one sentence to a line; a blank line begins another document, Ctrl-D ends.", sys.stderr)
    model = load([run, *(ensemble or [])], device, overrides)
    options = FileOptions(
        format=format,
        split=split,
        scores=scores,
        overwrite=overwrite,
        encoding=encoding,
        output_encoding=output_encoding,
        all_entries=all_entries,
        subtitles=SubtitleOptions(line_length, max_lines, reading_speed, keep_sounds),
        glossary=glossary,
        keep=keep,
        context=context,
        constrained=not unconstrained,
        window=window,
        formality=formality,
        beam=beam,
        length_penalty=length_penalty,
        nbest=nbest,
        sample=sample or None,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        int8=int8 or None,
        bfloat16=bfloat16 or None,
        batch_tokens=batch_tokens,
    )
    progress = opt.progress_shown(quiet or to_terminal)
    if not many:
        opt.write_figures(json_file, asdict(model.translate_file(input, output, progress=progress, **options)))
        return
    figures = model.translate_files(files, output, shard=part, progress=progress, **options)
    opt.write_figures(json_file, asdict(figures))
    for problem in figures.failed.values():
        print_line(f"focat: {problem}", sys.stderr)
    if figures.failed:
        raise FocatError(f"{len(figures.failed):,} of {len(figures.failed) + len(figures.translated):,} files failed")
