"""Commands for models of other toolkits: import, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from focat.choices import ExportFormat, Quantization
from focat.cli import options as opt
from focat.printing import print_line


def import_command(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Folder of Hugging Face (Marian, M2M100) or CTranslate2, an .argosmodel, or Marian's .npz.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help="Folder of the run to make.")],
    source_language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Source language, as en, if the model does not say it.")
    ] = None,
    target_language: Annotated[
        str | None,
        typer.Option(metavar="CODE", help="Target language, as de; of a multilingual model, deu for >>deu<<."),
    ] = None,
    target_sentencepiece: Annotated[
        Path | None, opt.file("SentencePiece model of the target, for a package that has that of the source alone.")
    ] = None,
) -> None:
    """Make a run from a model of another toolkit; that toolkit is not needed."""
    from focat.interop.import_model import import_model

    imported = import_model(model, output, source_language, target_language, target_sentencepiece)
    for note in imported.notes:
        print_line(note)
    print_line(f"next: focat translate {output} FILE")


def export_command(
    run: opt.RunFolder,
    to: Annotated[ExportFormat, typer.Option(help="hf: for transformers; ct2: for CTranslate2.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write.")],
    quantization: Annotated[
        Quantization, typer.Option(help="Type of the weights, for CTranslate2; int8 is the smallest.")
    ] = "float32",
    results: Annotated[
        list[Path] | None,
        opt.file("Figures for the model card: --json of contrast or evaluate. Repeatable.", "--results"),
    ] = None,
    overwrite: opt.Overwrite = False,
) -> None:
    """Write a run as a model that transformers or CTranslate2 loads, with tokenizer and model card."""
    from focat.interop.export import export_run
    from focat.run import Run

    export_run(Run.open(run), to, output, quantization, results or (), overwrite)
    print_line(
        f"{output}: {'a model for transformers' if to == 'hf' else 'a CTranslate2 model'}; see {output}/README.md"
    )
