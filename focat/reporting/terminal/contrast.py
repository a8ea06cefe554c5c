"""Results of `focat contrast` as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from focat.evaluation.results import ContrastResults
from focat.evaluation.suites.known import KnownSuite
from focat.printing import print_line
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


def show_known_suites(suites: Sequence[KnownSuite]) -> None:
    """Print what each suite tests, its files, where its context is, and how to cite it."""
    for suite in suites:
        print_line(f"{suite.name} ({suite.languages})")
        print_line(f"  tests     {suite.tests}")
        print_line(f"  files     {', '.join(suite.files)}")
        print_line(f"  context   {suite.context}")
        print_line(f"  from      {suite.url}")
        print_line(f"  cite      {suite.citation}")
        print_line("")
    print_line("Suites of your own are JSON lines: docs/measuring-suites.md.")
