"""Results of `focat evaluate` in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from focat.evaluation.metrics import MetricScore
from focat.evaluation.quality import LEVELS, Texts


def show_evaluation(system: str, texts: Texts, scores: Sequence[MetricScore], console: Console) -> None:
    """Print a table of the scores with their intervals, and the signature of each."""
    levels = [level for level in LEVELS if any(score.level == level for score in scores)]
    title = f"{system}: {texts.sentences:,} sentences, {len(texts.references):,} documents"
    table = Table("", *(f"{level}s" for level in levels), title=title, caption="[with 95 % intervals, by bootstrap]")
    for metric in dict.fromkeys(score.metric for score in scores):
        cells = {score.level: _cell(score) for score in scores if score.metric == metric}
        table.add_row(metric, *(cells.get(level, "") for level in levels))
    console.print(table)
    for score in scores:
        console.print(f"{score.name} = {score.text(score.value)}  {score.signature}", soft_wrap=True)


def _cell(score: MetricScore) -> str:
    ends = ", ".join(score.text(end) for end in score.interval())
    return f"{score.text(score.value)} \\[{ends}]" if len(score.statistics) > 1 else score.text(score.value)
