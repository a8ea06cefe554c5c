"""Results of `focat compare` in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from focat.choices import Correction
from focat.evaluation.comparison import Comparison
from focat.evaluation.significance import p_text

_CORRECTED: dict[Correction, str] = {"holm": "p (Holm)", "benjamini-hochberg": "p (B-H)", "none": "p (uncorrected)"}


def show_comparison(comparison: Comparison, console: Console) -> None:
    """Print the scores (best in bold, stars against the baseline), then every difference with its interval."""
    _show_scores(comparison, console)
    header = ("", "figure", "difference", "95 % interval", "p", _CORRECTED[comparison.correction], "", "test")
    table = Table(*header)
    before = ""
    for finding in comparison.findings:
        pair = f"{finding.system} − {finding.baseline}"
        score = comparison.score(finding.column)
        low, high = (score.text(end, "+") for end in finding.interval)
        table.add_row(
            pair if pair != before else "",
            finding.column,
            score.text(finding.difference, "+"),
            f"\\[{low}, {high}]",
            p_text(finding.p),
            p_text(finding.corrected),
            finding.stars,
            finding.test,
        )
        before = pair
    console.print("", table)


def _show_scores(comparison: Comparison, console: Console) -> None:
    stars = {(f.system, f.column): f.stars for f in comparison.findings} if not comparison.all_pairs else {}
    best = {name: comparison.best(name) for name in comparison.names}
    baseline = comparison.systems[0].name
    against = "" if comparison.all_pairs else f"; differs from {baseline}: * p < 0.05, ** p < 0.01"
    table = Table("", *comparison.names, caption=f"best in bold{against}")
    for system in comparison.systems:
        cells = [Text(system.name)]
        for name in comparison.names:
            score = system.scores[name]
            text = score.text(score.value) + stars.get((system.name, name), "")
            cells.append(Text(text, "bold" if score.value == best[name] else ""))
        table.add_row(*cells)
    console.print(table)
    for name in comparison.names:
        score = comparison.score(name)
        console.print(f"{name}: {score.population}{'; ' if score.signature else ''}{score.signature}", soft_wrap=True)
