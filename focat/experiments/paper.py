"""The figures of Lupo, Dinarelli and Besacier (2022), as printed: Tables 1 to 8, and what the text says of figure 4.

Rows are named as our recipes are. What cannot be right as printed is found by `misprints`, not mended here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from focat.evaluation.disc import DISTANCES, PHENOMENA, is_misprint, plain_mean, weighted_mean

Pair = Literal["en-ru", "en-de"]
Row = dict[str, float]

TITLES = dict(zip(PHENOMENA, ("Deixis", "Lex co.", "Ell. inf", "Ell. vp"), strict=True))
"""What the paper's tables call the phenomena."""
COLUMNS: dict[Pair, tuple[str, ...]] = {"en-ru": tuple(TITLES.values()), "en-de": DISTANCES}
"""What Disc. is made of."""
SIZES = {
    **{"Deixis": 2500, "Lex co.": 1500, "Ell. inf": 500, "Ell. vp": 500},
    **{"d=0": 2400, "d=1": 7075, "d=2": 1510, "d=3": 573, "d>3": 442},
}
"""Instances of each column (last row of Table 8)."""
SHIFTS = {"s4to4-shift100-cd": "100", "s4to4-avg-sequence-cd": "avg-sequence", "s4to4-shift-cd": "avg-corpus"}
"""The systems of Table 7 by their shift."""


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper, of one language pair."""

    number: int
    pair: Pair
    about: str
    rows: dict[str, Row]

    @property
    def columns(self) -> list[str]:
        """In the order of the paper."""
        return list(dict.fromkeys(column for row in self.rows.values() for column in row))


def _rows(columns: str, text: str) -> dict[str, Row]:
    """Rows as they are printed: the name, a bar, and the figures; – where there is none."""
    names = columns.split(", ")
    found = {}
    for line in text.strip().splitlines():
        name, _, figures = line.partition("|")
        values = figures.split()
        found[name.strip()] = {c: float(v) for c, v in zip(names, values, strict=True) if v != "–"}
    return found


_RU = ", ".join(TITLES.values())
_DE = ", ".join(DISTANCES)

MAIN_RU = PaperTable(
    1,
    "en-ru",
    "Contrastive accuracy by phenomenon, and quality, En→Ru",
    _rows(
        f"{_RU}, Disc., BLEU, COMET",
        """
        base            | 50.00 45.87 51.80 27.00  46.64  31.98 0.321
        s4to4           | 85.80 46.13 79.60 73.20  72.02  32.45 0.329
        s4to4-cd        | 87.16 46.40 81.00 78.20  73.42  32.37 0.328
        s4to4-shift-cd  | 85.76 48.33 81.40 80.40  73.55  32.37 0.334
        """,
    ),
)

MAIN_DE = PaperTable(
    2,
    "en-de",
    "Contrastive accuracy by distance of the antecedent, and quality, En→De",
    _rows(
        f"{_DE}, Disc., BLEU, COMET",
        """
        base            | 32.89 43.97 47.99 70.58  37.27  29.63 0.546
        s4to4           | 68.89 74.96 79.58 87.78  71.35  29.48 0.536
        s4to4-cd        | 72.86 75.96 80.10 84.38  74.31  29.32 0.522
        s4to4-shift-cd  | 72.56 77.15 80.27 86.65  74.39  29.20 0.528
        """,
    ),
)

WINDOWS = PaperTable(
    3,
    "en-ru",
    "Windows of two and three sentences, En→Ru",
    _rows(
        "Disc., BLEU",
        """
        s2to2           | 59.10 32.73
        s2to2-cd        | 60.28 32.69
        s2to2-shift-cd  | 60.54 32.41
        s3to3           | 65.58 32.34
        s3to3-cd        | 67.02 32.42
        s3to3-shift-cd  | 66.98 32.45
        """,
    ),
)

BENCHMARK_RU = PaperTable(
    4,
    "en-ru",
    "Beside other published systems, En→Ru",
    _rows(
        f"{_RU}, Disc.",
        """
        Chen et al. (2021)   | 62.30 47.90 64.90 36.00  55.61
        Sun et al. (2022)    | 64.70 46.30 65.90 53.00  58.13
        Zheng et al. (2020)  | 61.30 58.10 72.20 80.00  63.30
        Kang et al. (2020)   | 79.20 62.00 71.80 80.80  73.46
        Zhang et al. (2020)  | 91.00 46.90 78.20 82.20  75.61
        s4to4-shift-cd       | 85.76 48.33 81.40 80.40  73.56
        """,
    ),
)

BENCHMARK_DE = PaperTable(
    4,
    "en-de",
    "Beside other published systems, En→De",
    _rows(
        f"{_DE}, Disc.",
        """
        Maruf et al. (2019)             | 34.70 46.40 51.10 70.10  39.15
        Voita et al. (2018)             | 39.00 48.00 54.00 66.00  42.55
        Stojanovski and Fraser (2019)   | 53.00 46.00 50.00 71.00  52.55
        Lupo et al. (2022a)             | 56.50 44.90 48.70 73.30  54.98
        Müller et al. (2018)            | 58.00 55.00 55.00 75.00  58.13
        s4to4-shift-cd                  | 72.56 77.15 80.27 86.65  74.39
        """,
    ),
)

ENTROPY = PaperTable(
    5,
    "en-ru",
    "Mean entropy of attention, En→Ru",
    _rows(
        "Attn entropy",
        """
        s4to4           | 2.293
        s4to4-cd        | 2.276
        s4to4-shift-cd  | 2.251
        """,
    ),
)

SEGMENTS_RU = PaperTable(
    6,
    "en-ru",
    "Shifted positions and segment embeddings, En→Ru",
    _rows(
        "Disc., BLEU",
        """
        s4to4-shift-cd  | 73.56 32.45
        s4to4-lrn-cd    | 73.68 32.45
        s4to4-sin-cd    | 73.48 32.53
        """,
    ),
)

SEGMENTS_DE = PaperTable(
    6,
    "en-de",
    "Shifted positions and segment embeddings, En→De",
    _rows(
        "Disc., BLEU",
        """
        s4to4-shift-cd  | 74.39 29.20
        s4to4-lrn-cd    | 72.14 28.35
        s4to4-sin-cd    | 73.88 29.23
        """,
    ),
)

SHIFT_VALUES = PaperTable(
    7,
    "en-ru",
    "Values of the shift, En→Ru",
    _rows(
        "Disc., BLEU",
        """
        s4to4-shift100-cd      | 73.46 32.41
        s4to4-avg-sequence-cd  | 73.86 32.37
        s4to4-shift-cd         | 73.56 32.45
        """,
    ),
)

DETAILS_RU = PaperTable(
    8,
    "en-ru",
    "All systems by phenomenon, En→Ru",
    _rows(
        f"{_RU}, Disc., Disc_avg",
        """
        base                   | 50.00 45.87 51.80 27.00  46.64 47.67
        s4to4                  | 85.80 46.13 79.60 73.20  72.02 71.18
        s4to4-cd               | 87.16 46.40 81.00 78.20  73.42 73.19
        s4to4-shift-cd         | 85.76 48.33 81.40 80.40  73.56 73.97
        s4to4-sin-cd           | 87.96 46.80 78.00 76.60  73.48 72.34
        s4to4-lrn-cd           | 88.12 46.47 81.20 75.60  73.68 72.85
        s4to4-shift100-cd      | 85.60 48.73 80.80 79.60  73.46 73.68
        s4to4-avg-sequence-cd  | 84.84 46.20 77.60 73.00  71.34 70.41
        s2to2                  | 61.84 46.07 74.60 69.00  59.10 62.88
        s2to2-cd               | 62.88 46.27 78.00 71.60  60.28 64.69
        s2to2-shift-cd         | 62.60 46.60 81.20 71.40  60.54 65.45
        s3to3                  | 73.52 45.87 78.00 72.60  65.58 66.45
        s3to3-cd               | 73.88 46.80 82.40 78.00  67.02 67.45
        s3to3-shift-cd         | 75.24 46.07 79.40 76.00  66.98 68.45
        Chen et al. (2021)     | 62.30 47.90 64.90 36.00  55.61 52.78
        Sun et al. (2022)      | 64.70 46.30 65.90 53.00  58.13 57.48
        Zheng et al. (2020)    | 61.30 58.10 72.20 80.00  63.30 67.90
        Kang et al. (2020)     | 79.20 62.00 71.80 80.80  73.46 73.45
        Zhang et al. (2020)    | 91.00 46.90 78.20 82.20  75.61 74.58
        """,
    ),
)

DETAILS_DE = PaperTable(
    8,
    "en-de",
    "All systems by distance of the antecedent, En→De",
    _rows(
        f"d=0, {_DE}, Disc., Disc_avg, Disc_all-d",
        """
        base                           | 68.75 32.89 43.97 47.99 70.58  37.27 48.86 43.57
        s4to4                          | 75.20 68.89 74.96 79.58 87.78  71.35 77.80 72.12
        s4to4-cd                       | 76.66 72.86 75.96 80.10 84.38  74.31 78.33 74.78
        s4to4-shift-cd                 | 75.25 72.56 77.15 80.27 86.65  74.39 79.16 74.56
        s4to4-sin-cd                   | 76.75 71.83 76.82 80.97 87.55  73.88 79.29 74.46
        s4to4-lrn-cd                   | 73.91 70.21 75.29 77.66 85.06  72.14 77.06 72.49
        Maruf et al. (2019)            | 68.60 34.70 46.40 51.10 70.10  39.15 50.58 45.04
        Voita et al. (2018)            | 75.00 39.00 48.00 54.00 66.00  42.55 51.75 49.04
        Stojanovski and Fraser (2019)  | 74.00 53.00 46.00 50.00 71.00  52.55 55.00 56.84
        Lupo et al. (2022a)            | 81.10 56.50 44.90 48.70 73.30  54.98 55.85 60.21
        Müller et al. (2018)           | 65.00 58.00 55.00 55.00 75.00  58.13 60.75 59.51
        """,
    ),
)

TABLES = (
    *(MAIN_RU, MAIN_DE, WINDOWS, BENCHMARK_RU, BENCHMARK_DE, ENTROPY),
    *(SEGMENTS_RU, SEGMENTS_DE, SHIFT_VALUES, DETAILS_RU, DETAILS_DE),
)

ROBUSTNESS: dict[str, dict[int, float]] = {
    "s2to2": {3: -9.23, 4: -12.14},
    "s2to2-cd": {3: -0.68, 4: -1.06},
    "s3to3": {4: -1.74},
}
"""BLEU lost with windows of another size than in training, En→Ru (section 4.5.3)."""


@dataclass(frozen=True)
class Misprint:
    """A figure that does not agree with other figures of the paper."""

    table: int
    pair: Pair
    row: str
    column: str
    printed: float
    other: float
    """What the columns give, or what another table has."""
    why: str

    def __str__(self) -> str:
        return f"Table {self.table}, {self.pair}, {self.row}, {self.column}: {self.printed:g} printed; {self.why}"


def misprints() -> list[Misprint]:
    """Everything that the tables say in two ways: summaries against their columns, and tables against each other."""
    found = []
    for table in TABLES:
        for name, row in table.rows.items():
            for column, value in _summaries(table.pair, row).items():
                if column in row and is_misprint(row[column], value):
                    why = f"the columns give {value:.2f}"
                    found.append(Misprint(table.number, table.pair, name, column, row[column], value, why))
    for pair in COLUMNS:
        seen: dict[tuple[str, str], tuple[int, float]] = {}
        for table in (table for table in TABLES if table.pair == pair):
            for name, row in table.rows.items():
                for column, value in row.items():
                    where, before = seen.setdefault((name, column), (table.number, value))
                    if before != value:
                        why = f"Table {where} has {before:.2f}"
                        found.append(Misprint(table.number, pair, name, column, value, before, why))
    return found


def _summaries(pair: Pair, row: Row) -> Row:
    """Disc. and its relatives from the columns, by the formulas of the appendix."""
    columns = COLUMNS[pair]
    if not all(column in row for column in columns):
        return {}
    values = [row[column] for column in columns]
    found = {"Disc.": weighted_mean(values, [SIZES[c] for c in columns]), "Disc_avg": plain_mean(values)}
    if "d=0" in row:
        every = ("d=0", *columns)
        found["Disc_all-d"] = weighted_mean([row[c] for c in every], [SIZES[c] for c in every])
    return found


def paper_figure(pair: Pair | None, row: str, column: str, table: int | None = None) -> float | None:
    """A figure of the paper: of the table that is asked for, else of the first that has it."""
    tables = [t for t in TABLES if t.pair == pair and (table is None or t.number == table)]
    return next((t.rows[row][column] for t in tables if column in t.rows.get(row, {})), None)
