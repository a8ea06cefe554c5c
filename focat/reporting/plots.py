"""Plots of a report: drawn once by matplotlib, then inline in the page or as files.

In the page, colours become variables of its style sheet, so that plots follow its light and dark themes; text stays
text, in the font of the page.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from focat.evaluation.significance import Interval
from focat.files import write_atomic
from focat.reporting.collect import ReportedRun

INK, FAINT, RULE = "#1d1d1b", "#66645f", "#c9c5bb"
SERIES = ("#5f6470", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b27800", "#2a9fd6")
"""Grey for the baseline, then colours of Okabe and Ito (2008), which colour-blind readers tell apart."""
_STROKES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
_MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_VARIABLES = {INK: "ink", FAINT: "faint", RULE: "rule"} | {colour: f"s{i}" for i, colour in enumerate(SERIES)}
_STYLE = {
    "axes.edgecolor": RULE,
    "axes.labelcolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.labelsize": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.6,
    "text.color": INK,
    "text.parse_math": False,  # dollar signs are text
    "xtick.color": RULE,
    "xtick.labelcolor": FAINT,
    "ytick.color": RULE,
    "ytick.labelcolor": FAINT,
}


@dataclass(frozen=True)
class SeriesStyle:
    """Colour, line and marker of a system in all plots; systems can be told apart without colour."""

    colour: str
    variable: str  # of the style sheet
    stroke: Any
    marker: str


SeriesStyles = Mapping[str, SeriesStyle]
"""By system."""


def series_styles(systems: Sequence[str]) -> SeriesStyles:
    """A style for each system, the baseline's first."""
    return {
        name: SeriesStyle(
            SERIES[i % len(SERIES)],
            f"s{i % len(SERIES)}",
            _STROKES[i % len(_STROKES)],
            _MARKERS[i % len(_MARKERS)],
        )
        for i, name in enumerate(systems)
    }


DrawPlot = Callable[[bool], Figure]
"""Draws a plot; with a legend, for a file, or without, for the page, which has its own."""


@dataclass(frozen=True)
class Plot:
    """A plot: its name, what it shows in words, and the function that draws it."""

    name: str
    title: str
    about: str  # alternative text
    draw: DrawPlot

    def inline(self) -> str:
        """SVG to stand inside a page."""
        drawn = next(self._drawn("svg", legend=False, **{"svg.fonttype": "none"})).decode()
        svg = drawn[drawn.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", svg, flags=re.DOTALL)
        return re.sub(r"<[^>]*>", lambda tag: self._inline_tag(tag[0]), svg)  # in text, < and > are escaped

    def _inline_tag(self, tag: str) -> str:
        """A tag of a standalone SVG file, changed to be part of the page."""
        if tag.startswith("<svg"):
            view = re.findall(r'viewBox="[^"]*"', tag)[0]
            width = float(view.split()[2]) * 4 / 3  # from points
            return f'<svg {view} style="--width: {width:.0f}px" role="img" aria-label="{escape(self.about)}">'
        tag = re.sub(r' xmlns(:\w+)?="[^"]*"', "", tag).replace("xlink:href", "href")
        tag = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{self.name}-", tag)
        tag = re.sub(r"font: ([^\"']*?)([\d.]+)px [^;\"]*", r"font-size: \2px", tag)
        return re.sub("|".join(_VARIABLES), lambda found: f"var(--{_VARIABLES[found[0]]})", tag)

    def write(self, folder: Path) -> list[Path]:
        """The plot as NAME.svg and NAME.png, with its legend."""
        paths = [folder / f"{self.name}.{kind}" for kind in ("svg", "png")]
        for path, drawn in zip(paths, self._drawn("svg", "png", legend=True, **{"svg.fonttype": "path"}), strict=True):
            write_atomic(path, drawn)
        return paths

    def _drawn(self, *kinds: str, legend: bool, **style: str) -> Iterator[bytes]:
        # A file may be shown on any background: white is the one that its colours are made for.
        background = "white" if legend else "none"
        changed: Any = {**_STYLE, "font.sans-serif": _fonts(), "svg.hashsalt": self.name, **style}
        with mpl.rc_context(changed), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")  # it is drawn as a box
            figure = self.draw(legend)
            for kind in kinds:
                file = BytesIO()
                undated = {"Date": None} if kind == "svg" else {}
                figure.savefig(file, format=kind, dpi=200, facecolor=background, metadata=undated)
                figure.set_layout_engine("none")  # the layout is computed once
                yield file.getvalue()


@cache
def _fonts() -> list[str]:
    """Installed fonts for many scripts; a glyph that one lacks is taken from the next."""
    installed = {face.name for face in fontManager.ttflist}
    others = [
        f"Noto Sans {script}" for script in ("CJK SC", "CJK JP", "CJK KR", "Arabic", "Hebrew", "Devanagari", "Thai")
    ]
    return ["DejaVu Sans", *(name for name in ("Noto Sans", *others) if name in installed)]


_LONGEST = 30  # characters of a label
_LOSSES = ("current", "context")
CURVES = {  # of log.jsonl
    "current": ("Loss of the current sentence", "nats per token"),
    "context": ("Loss of context", "nats per token"),
    "ratio": ("Loss of current over context", ""),
    "learning_rate": ("Learning rate", ""),
    "discount": ("Context discount", ""),
    "tokens_per_second": ("Speed", "tokens per second"),
}


def training_plots(runs: Sequence[ReportedRun], styles: SeriesStyles) -> list[Plot]:
    """One plot for each figure that any of the runs has logged more than once."""
    plots = []
    for name, (title, unit) in CURVES.items():
        series = {t.name: _curve(t.logged("train"), name) for t in runs}
        checks = {t.name: _curve(t.logged("validation"), name) for t in runs}
        if any(len(updates) > 1 for updates, _ in series.values()):
            plots.append(curves_plot(f"training-{name.replace('_', '-')}", title, unit, series, checks, styles))
    return plots


Curve = tuple[list[int], list[float]]


def _curve(records: Sequence[Mapping[str, object]], name: str) -> Curve:
    points = [(r["update"], r[name]) for r in records if isinstance(r.get(name), int | float)]
    return [int(str(update)) for update, _ in points], [float(str(value)) for _, value in points]


def curves_plot(
    name: str, title: str, unit: str, series: Mapping[str, Curve], checks: Mapping[str, Curve], styles: SeriesStyles
) -> Plot:
    """Curves along training, with validations (`checks`) as marks."""
    ends = [
        f"{system} {values[0]:.3g} at update {updates[0]:,}, {values[-1]:.3g} at update {updates[-1]:,}"
        for system, (updates, values) in series.items()
        if updates
    ]

    def draw(legend: bool) -> Figure:
        figure = Figure((3.9 + (_legend_width(series) if legend else 0), 2.5), layout="constrained")
        axes = figure.subplots()
        for system, (updates, values) in series.items():
            if not updates:
                continue
            style = styles[system]
            axes.plot(updates, values, color=style.colour, linestyle=style.stroke, label=system)
            axes.plot(*checks[system], color=style.colour, linestyle="", marker=style.marker, markersize=4.5)
        _title(figure, f"{title}, {unit}" if unit else title)
        axes.set_xlabel("updates")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        if max((max(values) for _, values in series.values() if values), default=0) >= 1000:
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        shown = [value for _, values in series.values() for value in values]
        if name.endswith(_LOSSES) and min(shown) > 0 and max(shown) > 2 * min(shown):
            axes.set_yscale("log")  # the first updates would flatten the rest of the curve
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_locator(NullLocator())
        elif not name.endswith(_LOSSES):
            axes.set_ylim(0, 1.08 * max(shown) or None)
        _finish(axes, legend)
        return figure

    return Plot(name, title, f"{title} along training. {'; '.join(ends)}.", draw)


Points = Mapping[str, Mapping[str, tuple[float, Interval | None]]]
"""System → row → its figure, with its interval if that is known."""


def points_plot(
    name: str,
    title: str,
    unit: str,
    points: Points,
    styles: SeriesStyles,
    chance: Mapping[str, float] | None = None,
    most: float | None = None,
) -> Plot:
    """Figures of systems, row by row, each with its interval; ticks where chance would be."""
    rows = list(dict.fromkeys(row for figures in points.values() for row in figures))
    chance = chance or {}
    about = "; ".join(
        f"{row}: " + ", ".join(f"{s} {figures[row][0]:.4g}" for s, figures in points.items() if row in figures)
        for row in rows
    )

    def draw(legend: bool) -> Figure:
        lane = min(0.26, 0.75 / len(points))  # distance between systems, in rows
        height = 0.75 + len(rows) * max(0.34, 0.14 * len(points)) + (0.25 if legend else 0)
        figure = Figure((4.8 + (_legend_width(points) if legend else 0), height), layout="constrained")
        axes = figure.subplots()
        for i, (system, figures) in enumerate(points.items()):
            style, offset = styles[system], (i - (len(points) - 1) / 2) * lane
            for j, row in enumerate(rows):
                if row in figures and (interval := figures[row][1]) is not None:
                    axes.plot(interval, [j + offset] * 2, color=style.colour, linewidth=1.4, solid_capstyle="butt")
            shown = [(figures[row][0], j + offset) for j, row in enumerate(rows) if row in figures]
            x, y = zip(*shown, strict=True)
            axes.plot(
                x, y, color=style.colour, linestyle="", marker=style.marker, markersize=5.5, label=system, clip_on=False
            )
        for j, row in enumerate(rows):
            if row in chance:
                axes.plot(
                    [chance[row]] * 2, [j - 0.42, j + 0.42], color=FAINT, linewidth=0.9, linestyle=(0, (1.5, 1.5))
                )
        axes.set_yticks(range(len(rows)), map(_short, rows), color=INK)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, most)
        axes.set_xlabel(unit)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        if legend:
            _title(figure, title)
            _legend(axes)
        return figure

    return Plot(name, title, f"{title}. {about}.", draw)


def bars_plot(
    name: str, title: str, unit: str, label: str, bars: Mapping[str, Mapping[str, float]], styles: SeriesStyles
) -> Plot:
    """Figures of systems side by side in groups, as the paper shows robustness."""
    groups = list(dict.fromkeys(group for figures in bars.values() for group in figures))
    about = "; ".join(
        f"{group}: " + ", ".join(f"{s} {figures[group]:.4g}" for s, figures in bars.items() if group in figures)
        for group in groups
    )

    def draw(legend: bool) -> Figure:
        figure = Figure((3.9 + (_legend_width(bars) if legend else 0), 2.5), layout="constrained")
        axes = figure.subplots()
        width = min(0.8 / len(bars), 0.3)
        for i, (system, figures) in enumerate(bars.items()):
            shown = [j for j, group in enumerate(groups) if group in figures]
            positions = [j + (i - (len(bars) - 1) / 2) * width for j in shown]
            heights = [figures[groups[j]] for j in shown]
            axes.bar(positions, heights, width * 0.88, color=styles[system].colour, label=system)
        axes.set_xticks(range(len(groups)), groups)
        axes.tick_params(axis="x", length=0)
        _title(figure, f"{title}, {unit}" if unit else title)
        axes.set_xlabel(label)
        _finish(axes, legend)
        return figure

    return Plot(name, title, f"{title}. {about}.", draw)


@dataclass(frozen=True)
class Heat:
    """Attention of queries (rows) to keys (columns), both as words with the sentence each belongs to."""

    weights: np.typing.NDArray[np.float32]  # (queries, keys)
    rows: Sequence[str]
    columns: Sequence[str]
    row_sentences: Sequence[int]
    column_sentences: Sequence[int]


def heat_plot(name: str, title: str, about: str, heat: Heat, across: str, down: str) -> Plot:
    """A heat map with words on both axes and lines between sentences; the darker, the more attention."""

    def draw(legend: bool) -> Figure:
        height, width = heat.weights.shape
        across_words, down_words = list(map(_short, heat.columns)), list(map(_short, heat.rows))
        cell, letter = 0.185, 0.078  # inches
        margins = [0.55 + letter * max(map(len, words)) for words in (down_words, across_words)]
        figure = Figure((cell * width + margins[0], cell * height + margins[1]), layout="constrained")
        axes = figure.subplots()
        # One colour, more or less opaque: it works on any background.
        colour = np.array(mpl.colors.to_rgb(SERIES[1]))
        opaque = np.sqrt(heat.weights / max(float(heat.weights.max()), 1e-9))  # small weights stay visible
        image = np.concatenate([np.broadcast_to(colour, (height, width, 3)), opaque[..., None]], -1)
        axes.imshow(image, interpolation="nearest", aspect="equal")
        axes.set_xticks(range(width), across_words, rotation=90)
        axes.set_yticks(range(height), down_words)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.set_xlabel(across)
        axes.set_ylabel(down)
        axes.tick_params(length=0, pad=3)
        last = heat.column_sentences[-1], heat.row_sentences[-1]
        for labels, sentences, current in (
            (axes.get_xticklabels(), heat.column_sentences, last[0]),
            (axes.get_yticklabels(), heat.row_sentences, last[1]),
        ):
            for label, sentence in zip(labels, sentences, strict=True):
                label.set_color(INK if sentence == current else FAINT)
        for border in _borders(heat.column_sentences):
            axes.axvline(border, color=FAINT, linewidth=0.8)
        for border in _borders(heat.row_sentences):
            axes.axhline(border, color=FAINT, linewidth=0.8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(True)
        if legend:
            _title(figure, title)
        return figure

    return Plot(name, title, about, draw)


def _title(figure: Figure, text: str) -> None:
    """A title at the left edge, above everything."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=10, color=INK)


def _short(label: str) -> str:
    """A label, cut if it is too long to stand beside a plot."""
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"


def _borders(sentences: Sequence[int]) -> list[float]:
    """Where one sentence ends and the next begins, between words."""
    return [i + 0.5 for i in range(len(sentences) - 1) if sentences[i] != sentences[i + 1]]


def _finish(axes: Axes, legend: bool) -> None:
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    if legend:
        _legend(axes)


def _legend_width(labels: Iterable[str]) -> float:
    """About what a legend beside a plot takes, in inches."""
    return 0.6 + 0.075 * max(map(len, labels))


def _legend(axes: Axes) -> None:
    axes.legend(fontsize=8.5, loc="upper left", bbox_to_anchor=(1, 1), handlelength=2.4)
