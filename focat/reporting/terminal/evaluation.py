"""Results of `focat evaluate` as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from focat.evaluation.metrics import MetricScore
from focat.evaluation.quality import LEVELS, Texts
from focat.reporting.table import Cell, Table, print_table, row


def show_evaluation(system: str, texts: Texts, scores: Sequence[MetricScore], console: Console) -> None:
    """Print the scores with their intervals, and the signature of each."""
    levels = [level for level in LEVELS if any(score.level == level for score in scores)]
    rows = []
    for metric in dict.fromkeys(score.metric for score in scores):
        cells = {score.level: _cell(score) for score in scores if score.metric == metric}
        rows.append(row(metric, *(cells.get(level, Cell("")) for level in levels)))
    title = f"{system}: {texts.sentences:,} sentences, {len(texts.references):,} documents"
    notes = ["[with 95 % intervals, by bootstrap]"]
    notes += [f"{score.name} = {score.text(score.value)}  {score.signature}" for score in scores]
    print_table(Table(title, ("", *(f"{level}s" for level in levels)), rows, notes), console)


def _cell(score: MetricScore) -> Cell:
    interval = ", ".join(map(score.text, score.interval())) if len(score.statistics) > 1 else ""
    return Cell(score.text(score.value), interval=interval)
