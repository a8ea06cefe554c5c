"""Results of `focat inspect` in a terminal: figures, and windows coloured by segment."""

from __future__ import annotations

import io
import itertools
import re
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from focat.analysis.inspection import Inspection, WindowTokens
from focat.corpus.store import SIDES, counts_line
from focat.files import write_atomic
from focat.printing import printable
from focat.reporting.table import Table, print_table, row

_COLOURS = ("cyan", "magenta", "yellow", "blue", "red")  # of context segments; the current one is bold green
_BAR = 40  # characters of the longest bar of a histogram


def show_inspection(inspection: Inspection, console: Console | None = None) -> None:
    """Print an inspection; in colour where the terminal has it."""
    console = console or Console(highlight=False)
    results = inspection.results
    _print_titled(console, results.store, f", {results.split}: {counts_line(results.model_dump())}")
    for side, language, vocabulary in zip(SIDES, results.languages, results.vocabularies, strict=True):
        sentences, windows = results.sentence_lengths[side], results.window_lengths[side]
        console.print("")
        _print_titled(
            console,
            side,
            f" ({language}, vocabulary {vocabulary:,}): {sentences.mean} tokens a sentence, "
            f"{windows.mean} a window; longest {sentences.longest:,} and {windows.longest:,}",
        )
        _show_histogram(console, sentences.histogram)
    console.print(
        f"\nwindows that lost context: {results.windows_shortened:,}; "
        f"sentences longer than a window: {results.sentences_too_long:,}"
    )
    if results.suspicious:
        rows = [row(f"{pair.pair:,}", pair.why, pair.source, pair.target) for pair in results.suspicious]
        console.print("")
        print_table(Table("Suspicious pairs", ("pair", "why", "source", "target"), rows, labels=4), console)
    _show_windows(console, inspection)


def draw_windows(inspection: Inspection, path: Path) -> None:
    """Write the windows as a picture, as a terminal would show them."""
    console = Console(record=True, file=io.StringIO(), width=110, force_terminal=True, color_system="truecolor")
    _show_windows(console, inspection)
    picture = console.export_svg(title=f"focat inspect {Path(inspection.results.store).name}")
    write_atomic(path, re.sub(r"@font-face {.*?}", "", picture, flags=re.DOTALL))  # fonts would come from the network


def _show_windows(console: Console, inspection: Inspection) -> None:
    for i, (source, target) in enumerate(inspection.windows):
        console.print(f"\n[bold]window {i + 1}[/]")
        for side in (source, target):
            console.print(Padding(coloured_window(side), (0, 0, 0, 2), expand=False))


def _print_titled(console: Console, title: str, text: str) -> None:
    console.print(Text.assemble((printable(title), "bold"), printable(text)))


def _show_histogram(console: Console, histogram: dict[str, int]) -> None:
    most = max(histogram.values())
    for label, count in histogram.items():
        if count:
            console.print(f"  {label:>9} {'█' * max(1, round(_BAR * count / most))} {count:,}")


def coloured_window(side: WindowTokens) -> Text:
    """Return the tokens of a window, each sentence in its own colour."""
    text = Text()
    tokens = zip(side.segments, side.pieces, strict=True)
    for segment, sentence in itertools.groupby(tokens, key=lambda token: token[0]):
        words = "".join(f" {piece} " if piece.startswith("<") else piece.replace("▁", " ") for _, piece in sentence)
        words = words if text else words.lstrip(" ")
        text.append(printable(words), "bold green" if segment == side.current else _COLOURS[segment % len(_COLOURS)])
    return text
