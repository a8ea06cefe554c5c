"""Commands for models of other toolkits: export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from focat.choices import ExportFormat, Quantization
from focat.cli import options as opt
from focat.printing import print_line


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
