"""Results of `focat compare` as tables."""

from __future__ import annotations

from rich.console import Console

from focat.evaluation.comparison import Comparison
from focat.reporting.score_tables import difference_table
from focat.reporting.table import Cell, Table, print_table, row


def show_comparison(comparison: Comparison, console: Console) -> None:
    """Print the scores (best in bold, stars against the baseline), then every difference with its interval."""
    stars = {} if comparison.all_pairs else {(f.system, f.column): f.stars for f in comparison.findings}
    rows = []
    for system in comparison.systems:
        scores = {name: system.scores[name] for name in comparison.names}
        cells = [
            Cell(score.text(score.value), stars=stars.get((system.name, name), ""), best=score.value == best)
            for name, score in scores.items()
            for best in [comparison.best(name)]
        ]
        rows.append(row(system.name, *cells))
    baseline = comparison.systems[0].name
    against = "" if comparison.all_pairs else f"; differs from {baseline}: * p < 0.05, ** p < 0.01"
    notes = [f"best in bold{against}"]
    for name in comparison.names:
        score = comparison.score(name)
        notes.append(f"{name}: {score.population}{'; ' if score.signature else ''}{score.signature}")
    print_table(Table("", ("", *comparison.names), rows, notes), console)
    console.print("")
    print_table(difference_table(comparison), console)
