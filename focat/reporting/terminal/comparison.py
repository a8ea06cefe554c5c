"""Results of `focat compare` as tables, in the terminal and in files for papers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from focat.errors import ParameterError
from focat.evaluation.comparison import Comparison
from focat.files import write_atomic
from focat.reporting.score_tables import difference_table
from focat.reporting.table import Cell, Table, latex, markdown, print_table, row

_RENDERERS: dict[str, Callable[[Table], str]] = {".tex": latex, ".md": markdown}


def check_table_file(path: Path | None) -> None:
    """Refuse a file for tables whose name does not say in which language they are to be."""
    if path is not None and path.suffix not in _RENDERERS:
        raise ParameterError("table", path, "give a name that ends in .tex (LaTeX) or .md (Markdown)")


def show_comparison(comparison: Comparison, console: Console) -> None:
    """Print the scores, then every difference with its interval."""
    print_table(_score_table(comparison), console)
    console.print("")
    print_table(difference_table(comparison), console)


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write the same tables to a file, as LaTeX or Markdown, by the end of its name."""
    render = _RENDERERS[path.suffix]
    write_atomic(path, f"{render(_score_table(comparison))}\n{render(difference_table(comparison))}")


def _score_table(comparison: Comparison) -> Table:
    """The scores of systems: best in bold, stars against the baseline."""
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
    return Table("", ("", *comparison.names), rows, notes)
