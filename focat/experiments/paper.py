"""The figures of Lupo, Dinarelli and Besacier (2022), as printed (paper.yaml), and its contradictions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from focat.evaluation.disc import PHENOMENA, is_misprint, plain_mean, weighted_mean

LanguagePair = Literal["en-ru", "en-de"]
PHENOMENON_TITLES = dict(zip(PHENOMENA, ("Deixis", "Lex co.", "Ell. inf", "Ell. vp"), strict=True))
"""What the paper's tables call the phenomena."""


class PaperTable(BaseModel):
    """One table of the paper, for one language pair."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int
    pair: LanguagePair
    about: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float, ...]]
    literature: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    also: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Published systems that the paper's table does not have."""
    compared: dict[str, str] = Field(default_factory=dict)
    """Recipes, and the published system that each is a version of."""
    notes: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    other_systems: bool = False
    other_columns: tuple[str, ...] = ()
    min_rows: int = 1
    requires: str | None = None
    analysis: bool = False

    @model_validator(mode="after")
    def _complete(self) -> PaperTable:
        for name, values in self.all_rows.items():
            if len(values) != len(self.columns):
                raise ValueError(f"Table {self.number}, {name}: {len(values)} figures for {len(self.columns)} columns")
        return self

    @property
    def all_rows(self) -> dict[str, tuple[float, ...]]:
        """The paper's own systems, then published ones."""
        return {**self.rows, **self.literature, **self.also}

    def row(self, name: str) -> dict[str, float]:
        """The figures of a row by column; none if the table does not have the row."""
        return dict(zip(self.columns, self.all_rows.get(name, ()), strict=False))

    def is_covered_by(self, rows: list[str]) -> bool:
        """Whether a plan with these rows has what the table is about."""
        if any(row in self.compared for row in rows):
            return True
        return len(rows) >= self.min_rows and (self.requires is None or self.requires in rows)


class Paper(BaseModel):
    """All figures of the paper."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    disc_columns: dict[LanguagePair, tuple[str, ...]]
    instances: dict[str, int]
    robustness: dict[str, dict[int, float]]
    tables: tuple[PaperTable, ...]

    def of_pair(self, pair: LanguagePair | None) -> list[PaperTable]:
        """The tables of a language pair."""
        return [table for table in self.tables if table.pair == pair]

    def figure(self, pair: LanguagePair | None, row: str, column: str) -> float | None:
        """A figure of the paper, from the first table that has it."""
        return next((t.row(row)[column] for t in self.of_pair(pair) if column in t.row(row)), None)


@cache
def paper() -> Paper:
    """The figures of the paper."""
    text = Path(__file__).with_name("paper.yaml").read_text(encoding="utf-8")
    return Paper.model_validate(yaml.safe_load(text))


@dataclass(frozen=True)
class Misprint:
    """A figure that contradicts other figures of the paper."""

    table: int
    pair: LanguagePair
    row: str
    column: str
    printed: float
    other: float
    """What the columns give, or what another table has."""
    why: str

    def __str__(self) -> str:
        return f"Table {self.table}, {self.pair}, {self.row}, {self.column}: {self.printed:g} printed; {self.why}"


def misprints() -> list[Misprint]:
    """All contradictions: summaries against their columns, and tables against each other."""
    found = []
    for table in paper().tables:
        for name in table.all_rows:
            row = table.row(name)
            for column, value in _summaries(table.pair, row).items():
                if column in row and is_misprint(row[column], value):
                    why = f"the columns give {value:.2f}"
                    found.append(Misprint(table.number, table.pair, name, column, row[column], value, why))
    for pair in paper().disc_columns:
        first: dict[tuple[str, str], tuple[int, float]] = {}
        for table in paper().of_pair(pair):
            for name in table.all_rows:
                for column, value in table.row(name).items():
                    number, before = first.setdefault((name, column), (table.number, value))
                    if before != value:
                        why = f"Table {number} has {before:.2f}"
                        found.append(Misprint(table.number, pair, name, column, value, before, why))
    return found


def _summaries(pair: LanguagePair, row: dict[str, float]) -> dict[str, float]:
    """Disc. and its variants from the columns, by the formulas of the appendix."""
    columns, instances = paper().disc_columns[pair], paper().instances
    if not all(column in row for column in columns):
        return {}
    values = [row[column] for column in columns]
    found = {"Disc.": weighted_mean(values, [instances[c] for c in columns]), "Disc_avg": plain_mean(values)}
    if "d=0" in row:
        every = ("d=0", *columns)
        found["Disc_all-d"] = weighted_mean([row[c] for c in every], [instances[c] for c in every])
    return found
