"""One table in all its renderings: drawn in a terminal, columns between tabs in a pipe, Markdown, LaTeX."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from focat.reporting.table import MISSING, Cell, Table, latex, markdown, number, print_table, row

TABLE = Table(
    "Accuracy [%]",
    ("system", "Disc.", "BLEU"),
    [
        row("base", "46.64", Cell("31.98", interval="31.0 to 33.0")),
        row("a | b", Cell("72.02", spread=" ± 0.50", stars="*", best=True), ""),
        row("paper", "73.42", "", italic=True),
    ],
    ["a note", "* p < 0.05"],
)


def printed(table: Table, terminal: bool) -> str:
    out = StringIO()
    print_table(table, Console(file=out, force_terminal=terminal, width=80, color_system=None))
    return out.getvalue()


def test_columns_between_tabs_in_a_pipe() -> None:
    assert printed(TABLE, terminal=False).splitlines() == [
        "Accuracy [%]",
        "system\tDisc.\tBLEU",
        "base\t46.64\t31.98 [31.0 to 33.0]",
        "a | b\t72.02 ± 0.50*\t",
        "paper\t73.42\t",
        "a note",
        "* p < 0.05",
    ]


def test_a_cell_never_breaks_its_row_in_a_pipe() -> None:
    lines = printed(Table("", ("a", "b"), [row("x\ty\nz", Text("styled", "bold"))]), terminal=False).splitlines()
    assert lines == ["a\tb", "x y z\tstyled"]


def test_a_terminal_draws_lines_and_aligns_figures() -> None:
    lines = printed(TABLE, terminal=True).splitlines()
    assert lines[0].strip() == "Accuracy [%]"  # which is no markup
    (base,) = [line for line in lines if "base" in line]
    assert [cell.strip() for cell in base.strip("│").split("│")] == ["base", "46.64", "31.98 [31.0 to 33.0]"]
    (other,) = [line for line in lines if "a | b" in line]
    assert other.index("72.02") < base.index("46.64") + len("46.64")
    assert lines[-2:] == ["a note", "* p < 0.05"]


def test_a_narrow_terminal_breaks_what_is_too_long_and_loses_nothing() -> None:
    word = "approximate-randomisation-" * 4
    drawn = printed(Table("", ("test", "p"), [row(word, "0.01")]), terminal=True)
    assert word in "".join(cell.strip("│ ") for line in drawn.splitlines() for cell in line.split("│")[1:2])


def test_markdown() -> None:
    assert markdown(TABLE).splitlines() == [
        "| system | Disc. | BLEU |",
        "| --- | ---: | ---: |",
        "| base | 46.64 | 31.98 [31.0 to 33.0] |",
        "| a \\| b | **72.02** ± 0.50\\* |  |",
        "| *paper* | *73.42* |  |",
        "",
        "a note  ",
        "\\* p < 0.05",
    ]


def test_latex() -> None:
    assert latex(TABLE).splitlines() == [
        "% Accuracy [%]",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"system & Disc. & BLEU \\",
        r"\midrule",
        r"base & 46.64 & 31.98 [31.0 to 33.0] \\",
        r"a \textbar{} b & \textbf{72.02} $\pm$ 0.50\textsuperscript{*} &  \\",
        r"\textit{paper} & \textit{73.42} &  \\",
        r"\bottomrule",
        r"\end{tabular}",
        "% a note",
        "% * p < 0.05",
    ]


def test_latex_shows_signs_that_are_commands() -> None:
    lines = latex(
        Table(
            "",
            ("a_b", "c"),
            [row("50 % & {#1} ~\\^", "p < 0.01 − χ²", end_section=True), row("cd-1", "-5.01"), row("x", MISSING)],
        )
    )
    assert lines.splitlines()[2:8] == [
        r"a\_b & c \\",
        r"\midrule",
        r"50 \% \& \{\#1\} \textasciitilde{}\textbackslash{}\textasciicircum{} & p $<$ 0.01 $-$ $\chi$$^2$ \\",
        r"\midrule",
        r"cd-1 & $-$5.01 \\",
        r"x & -- \\",
    ]


@pytest.mark.parametrize(("value", "expected"), [(None, "–"), (1.0, "+1.00"), (-0.456, "-0.46")])
def test_numbers(value: float | None, expected: str) -> None:
    assert number(value, 2, "+") == expected
