"""`focat inspect`: what a token store holds, seen with the eyes of the model."""

from __future__ import annotations

import io
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from focat.config.schema import WindowSettings
from focat.corpus.store import SIDES, Split, Store, counts_line
from focat.corpus.tokenizer import Vocabulary
from focat.files import write_atomic
from focat.progress import shortened
from focat.windows.batch import PaddedSequences
from focat.windows.corpus_windows import cut_windows, gather_batch

_COLOURS = ("cyan", "magenta", "yellow", "blue", "red")  # of context segments; the current one is bold green
_BAR = 40  # characters of the longest bar of a histogram
_BINS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # left edges, in tokens


@dataclass(frozen=True)
class Inspection:
    """What was found: figures for machines, samples for people."""

    figures: dict[str, Any]
    windows: list[tuple[Text, Text]]


def inspect_split(store: Store, name: str, settings: WindowSettings, samples: int) -> Inspection:
    """Count, measure and sample one split of a store."""
    split = store.split(name)
    windows = cut_windows(split, settings)
    figures: dict[str, Any] = {
        "store": str(store.path),
        "split": name,
        "languages": [store.manifest["source_language"], store.manifest["target_language"]],
        "vocabularies": [store.manifest["source_vocabulary"], store.manifest["target_vocabulary"]],
        **{key: store.manifest["splits"][name][key] for key in ("documents", "pairs", "read", "removed")},
        "sentence_lengths": {side: _length_figures(getattr(split, side).lengths - 1) for side in SIDES},
        "window_lengths": {side: _length_figures(getattr(windows, side).lengths) for side in SIDES},
        "windows_shortened": windows.shortened,
        "sentences_too_long": len(windows.too_long),
        "suspicious": _suspicious(store, split),
    }
    samples = min(samples, len(windows))
    chosen = (2 * np.arange(samples) + 1) * len(windows) // (2 * samples or 1)  # the middles of so many equal parts
    shown = []
    for row in chosen:
        lengths = int(windows.source.lengths[row]), int(windows.target.lengths[row])
        batch = gather_batch(split, windows, np.array([row]), *lengths)
        shown.append((_coloured(batch.source, store.tokenizer.source), _coloured(batch.target, store.tokenizer.target)))
    return Inspection(figures, shown)


def show_inspection(found: Inspection, console: Console | None = None) -> None:
    """Print an inspection; in colour where the terminal has it."""
    console = console or Console(highlight=False)
    figures = found.figures
    console.print(f"[bold]{escape(figures['store'])}[/], {figures['split']}: {counts_line(figures)}")
    for side, language, vocabulary in zip(SIDES, figures["languages"], figures["vocabularies"], strict=True):
        sentences, windows = figures["sentence_lengths"][side], figures["window_lengths"][side]
        console.print(
            f"\n[bold]{side}[/] ({language}, vocabulary {vocabulary:,}): {sentences['mean']} tokens a sentence, "
            f"{windows['mean']} a window; longest {sentences['longest']:,} and {windows['longest']:,}"
        )
        _show_histogram(console, sentences["histogram"])
    console.print(
        f"\nwindows that lost context: {figures['windows_shortened']:,}; "
        f"sentences longer than a window: {figures['sentences_too_long']:,}"
    )
    if figures["suspicious"]:
        table = Table("pair", "why", "source", "target", title="Suspicious pairs", title_justify="left")
        for pair in figures["suspicious"]:
            table.add_row(f"{pair['pair']:,}", pair["why"], Text(pair["source"]), Text(pair["target"]))
        console.print("", table)
    _show_windows(console, found)


def draw_windows(found: Inspection, path: Path) -> None:
    """The windows as a picture, as a terminal would show them."""
    console = Console(record=True, file=io.StringIO(), width=110, force_terminal=True, color_system="truecolor")
    _show_windows(console, found)
    picture = console.export_svg(title=f"focat inspect {Path(found.figures['store']).name}")
    write_atomic(path, re.sub(r"@font-face {.*?}", "", picture, flags=re.DOTALL))  # fonts would come from the network


def _show_windows(console: Console, found: Inspection) -> None:
    for i, (source, target) in enumerate(found.windows):
        console.print(f"\n[bold]window {i + 1}[/]", source, target, sep="\n  ")


def _length_figures(lengths: NDArray[np.int64]) -> dict[str, Any]:
    counts, _ = np.histogram(lengths, [0, *_BINS[1:], max(_BINS[-1], int(lengths.max(initial=0))) + 1])
    labels = [f"{low}–{high - 1}" if high - low > 1 else f"{low}" for low, high in itertools.pairwise(_BINS)]
    labels = ["0–1", *labels[1:], f"{_BINS[-1]}–"]
    return {
        "mean": round(float(lengths.mean()), 2) if len(lengths) else 0.0,
        "longest": int(lengths.max(initial=0)),
        "histogram": {label: int(count) for label, count in zip(labels, counts, strict=True)},
    }


def _show_histogram(console: Console, histogram: dict[str, int]) -> None:
    most = max(histogram.values())
    for label, count in histogram.items():
        if count:
            console.print(f"  {label:>9} {'█' * max(1, round(_BAR * count / most))} {count:,}")


def _suspicious(store: Store, split: Split, most: int = 6) -> list[dict[str, Any]]:
    """The pairs least likely to be translations of each other: by length, or because both sides are the same."""
    source, target = split.source.lengths - 1, split.target.lengths - 1
    # How far a pair's length ratio is from the corpus', in logarithms; short sentences count for less.
    expected = (target.sum() + 1) / (source.sum() + 1)
    oddness = np.abs(np.log((target + 4) / (expected * source + 4)))
    odd = np.argsort(-oddness, kind="stable")[:most]
    found = [(int(pair), f"{source[pair]} to {target[pair]} tokens") for pair in odd if oddness[pair] > np.log(2)]
    if store.manifest["joint"]:
        alike = np.flatnonzero((source == target) & (source > 5))[:200_000]
        same = (int(i) for i in alike if np.array_equal(split.source[i], split.target[i]))
        found += [(pair, "both sides are the same") for pair, _ in zip(same, range(most), strict=False)]
    return [
        {
            "pair": pair,
            "why": why,
            "source": shortened(store.tokenizer.source.decode(split.source[pair])),
            "target": shortened(store.tokenizer.target.decode(split.target[pair])),
        }
        for pair, why in found
    ]


def _coloured(side: PaddedSequences, vocabulary: Vocabulary) -> Text:
    """A window's tokens, each sentence in its own colour, the current one standing out."""
    text = Text()
    current = int(side.current[0])
    tokens = zip(side.segments[0].tolist(), side.tokens[0].tolist(), strict=True)
    for segment, sentence in itertools.groupby(tokens, key=lambda token: token[0]):
        pieces = (vocabulary.piece(token) for _, token in sentence)
        words = "".join(f" {piece} " if piece.startswith("<") else piece.replace("▁", " ") for piece in pieces)
        text.append(words, "bold green" if segment == current else _COLOURS[segment % len(_COLOURS)])
    return text
