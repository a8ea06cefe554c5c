"""The command that translates documents."""

from __future__ import annotations

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
            metavar="INPUT|KEY=VALUE",
            help="File to translate, standard input if not given; settings to override, as in decoding.beam=8.",
        ),
    ] = None,
    output: Annotated[Path, opt.file("Where to write; standard output if not given.", "--output", "-o")] = Path("-"),
    format: Annotated[
        str | None, typer.Option(help="As text, jsonl or srt; by the end of the file's name if not given.")
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
        bool, opt.flag("--keep-sounds", "Subtitles: leave [door slams], (SIGHS), ANN: and lines with ♪ as they are.")
    ] = False,
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
    temperature: Annotated[float | None, typer.Option(help="With --sample: below 1 is less daring.")] = None,
    top_p: Annotated[float | None, typer.Option(help="With --sample: draw from the likeliest of this mass.")] = None,
    seed: Annotated[int | None, typer.Option(help="With --sample: another seed is another draw.")] = None,
    int8: Annotated[
        bool, opt.flag("--int8", "On a CPU: twice as fast with eight-bit integers, a little less exact.")
    ] = False,
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

    files, overrides = opt.split_overrides(arguments or [])
    if len(files) > 1:
        raise FocatError(f"translate: give one file, not {len(files)}: {', '.join(files)}")
    input = Path(files[0]) if files else Path("-")
    for path in (input, output):
        if json_file is not None and json_file.resolve() == path.resolve():
            raise FocatError(f"--json {json_file}: is the {'input' if path == input else 'output'}; give another file")
    # where progress would run into the translation
    to_terminal = output == Path("-") and sys.stdout is not None and sys.stdout.isatty()
    if input == Path("-") and sys.stdin is not None and sys.stdin.isatty():
        print_line("Type one sentence to a line; a blank line begins another document, Ctrl-D ends.", sys.stderr)
    figures = load([run, *(ensemble or [])], device, overrides).translate_file(
        input,
        output,
        format=format,
        split=split,
        scores=scores,
        overwrite=overwrite,
        progress=opt.progress_shown(quiet or to_terminal),
        encoding=encoding,
        output_encoding=output_encoding,
        all_entries=all_entries,
        subtitles=SubtitleOptions(line_length, max_lines, reading_speed, keep_sounds),
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
        batch_tokens=batch_tokens,
    )
    opt.write_figures(json_file, asdict(figures))
