"""One table type for everything that is printed, and its renderers: terminal, plain columns, Markdown, LaTeX.

The HTML page renders the same tables with its template (page.html.j2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.console import Console
from rich.table import Table as TerminalTable
from rich.text import Text

from focat.printing import printable

MISSING = "–"
_TEX = str.maketrans(  # for any font and engine
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}"},
        **{"<": "$<$", ">": "$>$", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "→": r"$\to$", "χ": r"$\chi$"},
        **{"²": "$^2$", "–": "--", "…": r"\dots{}", "\n": " ", "\t": " ", "\N{NO-BREAK SPACE}": "~"},
    }
)


@dataclass(frozen=True)
class Cell:
    """One figure or label as text, with what is shown beside it."""

    text: str | Text
    spread: str = ""  # standard deviation over seeds
    stars: str = ""
    interval: str = ""
    best: bool = False  # shown in bold

    @property
    def plain(self) -> str:
        """The cell without any style."""
        interval = f" [{self.interval}]" if self.interval else ""
        return f"{self.text}{self.spread}{self.stars}{interval}"


@dataclass(frozen=True)
class Row:
    """The cells of one line, labels first."""

    cells: tuple[Cell, ...]
    italic: bool = False
    end_section: bool = False  # a terminal draws a line below


@dataclass(frozen=True)
class Table:
    """A titled table; the first `labels` columns are text, the others are figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str] = field(default_factory=tuple)
    labels: int = 1


def row(*cells: str | Text | Cell, italic: bool = False, end_section: bool = False) -> Row:
    """A row of cells; plain text becomes a cell."""
    return Row(tuple(c if isinstance(c, Cell) else Cell(c) for c in cells), italic, end_section)


def number(value: float | None, decimals: int = 3, sign: str = "") -> str:
    """A figure with a fixed number of decimals; a dash where there is none."""
    return MISSING if value is None else f"{value:{sign}.{decimals}f}"


def print_table(table: Table, console: Console) -> None:
    """Print a table: drawn in a terminal, columns between tabs in a pipe."""
    if not console.is_terminal:
        lines = ["\t".join(map(_one_line, table.columns)), *map(_tabbed, table.rows)]
        print_lines([table.title, *lines, *table.notes], console)
        return
    if table.title:
        console.print(Text(printable(table.title), "bold"), soft_wrap=True)
    drawn = TerminalTable()
    for i, column in enumerate(table.columns):
        justify: Literal["left", "right"] = "left" if i < table.labels else "right"
        drawn.add_column(Text(printable(column)), justify=justify, overflow="fold")  # a long word is broken, not cut
    for one in table.rows:
        style = "italic" if one.italic else ""
        drawn.add_row(*map(_styled, one.cells), style=style, end_section=one.end_section)
    console.print(drawn)
    print_lines(table.notes, console)


def print_lines(lines: Iterable[str], console: Console) -> None:
    """Print lines as they are: no wrapping, no markup, tabs kept."""
    for line in lines:
        if line:
            print(printable(line), file=console.file)


def markdown(table: Table) -> str:
    """The table in Markdown, without its title: best figures in bold, notes below."""
    under = ["---"] * table.labels + ["---:"] * (len(table.columns) - table.labels)
    lines = [_line(table.columns), _line(under)]
    lines += [_line([_marked_up(cell, one.italic) for cell in one.cells]) for one in table.rows]
    notes = ["", *(f"{_escape_star(note)}  " for note in table.notes)] if table.notes else []
    return "\n".join([*lines, *notes]).rstrip() + "\n"


def latex(table: Table) -> str:
    """The table in LaTeX, for the package booktabs: best figures in bold, title and notes as comments."""
    lines = [f"\\begin{{tabular}}{{{'l' * table.labels}{'r' * (len(table.columns) - table.labels)}}}", r"\toprule"]
    lines += [_tex_line(map(_tex, table.columns)), r"\midrule"]
    for one in table.rows:
        lines += [_tex_line(_tex_cell(cell, one.italic) for cell in one.cells)]
        lines += [r"\midrule"] * (one.end_section and one is not table.rows[-1])
    above = [f"% {_one_line(table.title)}"] if table.title else []
    notes = [f"% {_one_line(note)}" for note in table.notes if note]
    return "\n".join([*above, *lines, r"\bottomrule", r"\end{tabular}", *notes]) + "\n"


def _tex_line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _tex_cell(cell: Cell, italic: bool) -> str:
    text = _tex(str(cell.text))
    text = rf"\textbf{{{text}}}" if cell.best else text
    text = rf"\textit{{{text}}}" if italic and text else text
    stars = rf"\textsuperscript{{{cell.stars}}}" if cell.stars else ""
    interval = f" [{_tex(cell.interval)}]" if cell.interval else ""
    return f"{text}{_tex(cell.spread)}{stars}{interval}"


def _tex(text: str) -> str:
    return re.sub(r"(?<!\w)-(?=\d)", "−", printable(text)).translate(_TEX)


def _tabbed(one: Row) -> str:
    return "\t".join(_one_line(cell.plain) for cell in one.cells)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _styled(cell: Cell) -> Text:
    text = cell.text.copy() if isinstance(cell.text, Text) else Text(cell.text)
    if cell.best:
        text.stylize("bold")
    interval = f" [{cell.interval}]" if cell.interval else ""
    text.append(f"{cell.spread}{cell.stars}{interval}")
    text.plain = printable(text.plain)  # as long as before, so that styles stay where they are
    return text


def _marked_up(cell: Cell, italic: bool) -> str:
    text = f"**{cell.text}**{cell.spread}" if cell.best else f"{cell.text}{cell.spread}"
    if italic:
        return f"*{text}*" if text else ""
    stars = cell.stars.replace("*", "\\*")
    interval = f" [{cell.interval}]" if cell.interval else ""
    return f"{text}{stars}{interval}"


def _escape_star(note: str) -> str:
    return f"\\{note}" if note.startswith("*") else note


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
