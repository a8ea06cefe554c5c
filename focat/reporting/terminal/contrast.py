"""Results of `focat contrast` as tables."""

from __future__ import annotations

from rich.console import Console

from focat.evaluation.results import ContrastResults
from focat.reporting.table import Table, print_table, row


def show_contrast(results: ContrastResults, console: Console) -> None:
    """Print a table for each section."""
    for section in results.sections:
        rows = [
            row(
                figure.name,
                f"{figure.accuracy:.2f}",
                f"{figure.low:.2f} to {figure.high:.2f}",
                "" if figure.right is None else f"{figure.right:,}",
                f"{figure.total:,}",
            )
            for figure in section.figures
        ]
        others = ", ".join(f"{name} {accuracy:.2f}" for name, accuracy in section.other_rules.items())
        notes = [f"by {results.rule}; all by other rules: {others}"] if others else []
        notes += [*section.remarks, section.signature]
        print_table(Table(section.title, ("", "%", "95 % interval", "right", "of"), rows, notes), console)
        console.print("")
