"""The tables that a plan ends with, as typed results (tables.json), rendered by `focat.reporting.table`."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from focat.choices import ScoringRule
from focat.evaluation.results import Finding, JsonResult
from focat.evaluation.significance import p_text
from focat.experiments.results import Validation
from focat.reporting.table import Cell, Row, Table, markdown, row


class SeedMean(JsonResult):
    """A figure over the seeds of a system."""

    value: float
    spread: float | None = None
    """Standard deviation, of two seeds or more."""
    seeds: int = 1
    mark: str = ""

    @classmethod
    def of(cls, values: Sequence[float], mark: str = "") -> SeedMean:
        """Mean and standard deviation."""
        marked = {"mark": mark} if mark else {}
        if len(values) == 1:
            return cls(value=values[0], **marked)
        return cls(value=statistics.fmean(values), spread=statistics.stdev(values), seeds=len(values), **marked)


class ResultRow(JsonResult):
    """One row: figures of a system, by column."""

    system: str
    paper: bool = False
    figures: dict[str, SeedMean]


class ResultTable(JsonResult):
    """One table of figures with its notes."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[ResultRow, ...]
    notes: tuple[str, ...] = ()
    decimals: int = Field(default=2, exclude=True)
    highest_is_best: bool = Field(default=False, exclude=True)
    p_column: str | None = Field(default=None, exclude=True)

    def rendered(self) -> Table:
        """The table to print: the paper's rows in italics, the best of ours in bold."""
        best = {column: self._best(column) for column in self.columns}
        rows = [self._rendered_row(one, best) for one in self.rows]
        return Table(self.title, ("system", *self.columns), rows, self.notes)

    def markdown(self) -> str:
        """The table in Markdown, under its title."""
        return f"### {self.title}\n\n{markdown(self.rendered())}"

    def _rendered_row(self, one: ResultRow, best: Mapping[str, str | None]) -> Row:
        cells = []
        for column in self.columns:
            figure = one.figures.get(column)
            if figure is None:
                cells.append(Cell(""))
                continue
            text = p_text(figure.value) if column == self.p_column else f"{figure.value:.{self.decimals}f}"
            spread = "" if figure.spread is None else f" ± {figure.spread:.{self.decimals}f}"
            cells.append(Cell(text, spread, figure.mark, best=not one.paper and text == best[column]))
        return row(one.system, *cells, italic=one.paper)

    def _best(self, column: str) -> str | None:
        """The best of our figures as text, where they differ."""
        values = {r.figures[column].value for r in self.rows if not r.paper and column in r.figures}
        return f"{max(values):.{self.decimals}f}" if len(values) > 1 and self.highest_is_best else None


class PlanFinding(Finding):
    """A comparison, with the seed and the scoring rule."""

    rule: ScoringRule
    seed: int


class PlanTables(JsonResult):
    """All tables of a plan, its loss curves and every comparison: what tables.json holds."""

    kind: Literal["focat tables"]
    plan: str
    tables: tuple[ResultTable, ...]
    curves: dict[str, tuple[Validation, ...]]
    findings: tuple[PlanFinding, ...]

    def markdown(self) -> str:
        """All tables as one page."""
        return f"# {self.plan}\n\n" + "\n".join(table.markdown() for table in self.tables)

    def table(self, name: str) -> ResultTable:
        """The table of that name."""
        return next(table for table in self.tables if table.name == name)
