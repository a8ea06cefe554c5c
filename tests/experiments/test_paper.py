"""The paper's figures agree with its own formulas, except where it is known that they do not."""

from __future__ import annotations

import pytest

from focat.config.loading import RECIPES
from focat.experiments.paper import PaperTable, misprints, paper

# (table, row, column) → what is printed, and what the columns or an earlier table have instead.
KNOWN = {
    (8, "base", "Disc_avg"): (47.67, 43.67),
    (8, "s3to3", "Disc_avg"): (66.45, 67.50),
    (8, "s3to3-cd", "Disc_avg"): (67.45, 70.27),
    (8, "s3to3-shift-cd", "Disc_avg"): (68.45, 69.18),
    (8, "s4to4-avg-sequence-cd", "Disc."): (71.34, 73.86),
    **{(table, "s4to4-shift-cd", "Disc."): (73.56, 73.55) for table in (4, 6, 7, 8)},
    **{(table, "s4to4-shift-cd", "BLEU"): (32.45, 32.37) for table in (6, 7)},
}


def test_all_conflicts_are_known() -> None:
    found = {(m.table, m.row, m.column): (m.printed, round(m.other, 2)) for m in misprints()}
    assert found == KNOWN


def test_summaries_agree_with_their_columns() -> None:
    """Slowly: every instance of a column counts its accuracy once."""
    checked = 0
    instances = paper().instances
    for table in paper().tables:
        columns = paper().disc_columns[table.pair]
        for name in table.all_rows:
            row = table.row(name)
            if not set(columns) <= row.keys():
                continue
            right = sum(row[column] / 100 * instances[column] for column in columns)
            assert 100 * right / sum(instances[column] for column in columns) == pytest.approx(
                row["Disc."], abs=0.015
            ), name
            checked += 1
            if "Disc_avg" in row and (8, name, "Disc_avg") not in KNOWN:
                assert sum(row[column] for column in columns) / 4 == pytest.approx(row["Disc_avg"], abs=0.015), name
            if "Disc_all-d" in row:
                right += row["d=0"] / 100 * instances["d=0"]
                assert right / 120 == pytest.approx(row["Disc_all-d"], abs=0.015), name
    assert checked == 4 + 4 + 7 + 6 + 19 + 11


def test_every_table_is_there() -> None:
    found = paper()
    assert {table.number for table in found.tables} == set(range(1, 9))
    assert sum(found.instances[column] for column in found.disc_columns["en-ru"]) == 5000
    assert sum(found.instances[column] for column in found.disc_columns["en-de"]) == 9600


def test_systems_are_named_after_recipes() -> None:
    recipes = {path.stem for path in RECIPES.glob("*.yaml")}
    rows = {row for table in paper().tables for row in table.rows}
    compared = {recipe for table in paper().tables for recipe in table.compared}
    assert rows | compared <= recipes
    assert all(name in table.all_rows for table in paper().tables for name in table.compared.values())


def test_figures_are_looked_up_by_pair_row_and_column() -> None:
    figure = paper().figure
    assert figure("en-ru", "s4to4-shift-cd", "BLEU") == 32.37  # of the first table that has it
    (sixth,) = [table for table in paper().of_pair("en-ru") if table.number == 6]
    assert sixth.row("s4to4-shift-cd")["BLEU"] == 32.45
    assert figure("en-de", "base", "d>3") == 70.58
    assert figure("en-de", "s2to2", "Disc.") is None
    assert figure(None, "base", "Disc.") is None


def test_a_row_with_a_missing_figure_is_refused() -> None:
    with pytest.raises(ValueError, match="Table 1, base: 1 figures for 2 columns"):
        PaperTable(number=1, pair="en-ru", about="", columns=("Disc.", "BLEU"), rows={"base": (46.64,)})
