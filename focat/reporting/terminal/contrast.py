"""Results of `focat contrast` in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from focat.evaluation.results import ContrastResults


def show_contrast(results: ContrastResults, console: Console) -> None:
    """Print a table for each section; in a pipe, columns between tabs."""
    for section in results.sections:
        rows = [
            (
                figure.name,
                f"{figure.accuracy:.2f}",
                f"{figure.low:.2f} to {figure.high:.2f}",
                "" if figure.right is None else f"{figure.right:,}",
                f"{figure.total:,}",
            )
            for figure in section.figures
        ]
        header = ("", "%", "95 % interval", "right", "of")
        if console.is_terminal:
            table = Table(*header, title=section.title, title_justify="left")
            for column in table.columns[1:]:
                column.justify = "right"
            for row in rows:
                table.add_row(*row)
            console.print(table)
        else:
            print(section.title, *("\t".join(row) for row in (header, *rows)), sep="\n")
        if section.other_rules:
            others = ", ".join(f"{name} {accuracy:.2f}" for name, accuracy in section.other_rules.items())
            print(f"by {results.rule}; all by other rules: {others}")
        for remark in section.remarks:
            print(remark)
        print(section.signature, end="\n\n")
