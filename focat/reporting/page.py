"""`focat report`: one page that can be sent to anybody. It holds everything it shows, and loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from focat._version import __version__
from focat.errors import FocatError, ParameterError
from focat.evaluation.instance_scores import chance_levels
from focat.evaluation.suites import Suite
from focat.files import check_output_file, check_partial_file, write_atomic
from focat.hardware import hardware
from focat.progress import NULL_PROGRESS, Progress
from focat.reporting.analysis_sections import AnalysisSection, analysed_systems, analysis_sections
from focat.reporting.attention import AttentionView, attention_view, find_window, read_window
from focat.reporting.collect import CollectedResults, ReportedRun, collect_results, open_reported_runs
from focat.reporting.examples import (
    Disagreement,
    DisagreementCount,
    HighlightedText,
    Translated,
    disagreements,
    translated_document,
)
from focat.reporting.plots import Plot, SeriesStyles, points_plot, series_styles, training_plots
from focat.reporting.score_tables import ReportTable, SystemsTable, contrast_tables, quality_tables, systems_table

EXAMPLES = 6  # by default
_SHAPES = {  # the markers of plots, in a box of 10 by 10
    "o": '<circle cx="5" cy="5" r="4"/>',
    "s": '<path d="M1.5 1.5h7v7h-7z"/>',
    "D": '<path d="M5 .5 9.5 5 5 9.5.5 5z"/>',
    "^": '<path d="M5 1 9.3 9H.7z"/>',
    "v": '<path d="M5 9 .7 1h8.6z"/>',
    "P": '<path d="M3.5.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z"/>',
    "X": '<path d="M2.6.5 5 2.9 7.4.5l2.1 2.1L7.1 5l2.4 2.4-2.1 2.1L5 7.1 2.6 9.5.5 7.4 2.9 5 .5 2.6z"/>',
}


@dataclass(frozen=True)
class ReportOptions:
    """What a report shows."""

    window: Path | None = None
    """A file with the window whose attention is shown; else one is found."""
    attention_of: str | None = None
    """The system whose attention is shown; else the last that sees context."""
    layer: int | None = None
    """Counted from one; else the last."""
    examples: int = EXAMPLES
    """How many instances on which systems disagree."""
    device: str = "auto"


@dataclass(frozen=True)
class Report:
    """Everything on the page."""

    names: list[str]
    systems: SystemsTable | None
    contrast: list[ReportTable]
    accuracy: Plot | None
    quality: list[ReportTable]
    disagreements: list[Disagreement]
    disagreement_counts: list[DisagreementCount]
    translated: list[Translated]
    attention: AttentionView | None
    analyses: list[AnalysisSection]
    training: list[Plot]
    styles: SeriesStyles

    @property
    def plots(self) -> list[Plot]:
        """All plots of the page."""
        of_attention = self.attention.plots if self.attention else []
        of_analyses = [plot for section in self.analyses for plot in section.plots]
        return [*([self.accuracy] if self.accuracy else []), *of_attention, *of_analyses, *self.training]


def write_report(
    runs: Sequence[str | Path],
    out: Path,
    results: Sequence[str | Path] = (),
    examples: Sequence[Translated] = (),
    suites: Sequence[Suite] = (),
    options: ReportOptions | None = None,
    plots: Path | None = None,
    overwrite: bool = False,
    command: str = "",
    progress: Progress = NULL_PROGRESS,
) -> Report:
    """Write a page about runs and their results.

    Args:
        runs: `RUN` or `NAME=RUN`; results are read from `RUN/results/`.
        out: the page.
        results: other files of results, `FILE` or `NAME=FILE`.
        examples: documents to show side by side; one is chosen if none are given.
        suites: the suites that results are about, for their texts.
        options: what to show.
        plots: a folder for all plots as files.
        overwrite: whether to replace files that exist.
        command: the command line, which the page shows.
        progress: where progress is shown.
    """
    open_reported_runs(runs)  # first: by default, the page lies in the folder of a run
    check_output_file(out, overwrite)
    report = make_report(runs, results, examples, suites, options or ReportOptions(), progress)
    if plots is not None:
        _write_plots(report.plots, plots, overwrite, progress)
    with progress.bar("page"):
        write_atomic(out, render(report, command))
    return report


def make_report(
    runs: Sequence[str | Path],
    results: Sequence[str | Path],
    examples: Sequence[Translated],
    suites: Sequence[Suite],
    options: ReportOptions,
    progress: Progress,
) -> Report:
    """Collect everything that the page shows; a section without figures is left out."""
    opened = open_reported_runs(runs)
    if options.attention_of is not None and options.attention_of not in [run.name for run in opened]:
        names = ", ".join(run.name for run in opened)
        raise ParameterError("attention_of", options.attention_of, f"no run has this name; choose from {names}")
    with progress.bar("results"):
        found = collect_results(opened, results)
        styles = series_styles(_names(opened, found, examples))
        contrast, quality = contrast_tables(found), quality_tables(found)
        examples_of_suites, counts = disagreements(found, suites, options.examples)
        side_by_side = list(examples) or [document for document in [translated_document(found, opened)] if document]
        sections = analysis_sections(found, opened, styles)
    with progress.bar("attention"):
        view = _attention(opened, examples_of_suites, options, progress)
    return Report(
        list(styles),
        systems_table(opened) if opened else None,
        contrast,
        _accuracy_plot(contrast, found, styles),
        quality,
        examples_of_suites,
        counts,
        side_by_side,
        view,
        sections,
        training_plots(opened, styles),
        styles,
    )


def render(report: Report, command: str = "", date: datetime | None = None) -> str:
    """The page as HTML."""
    when = date or datetime.now().astimezone()
    return _template().render(
        report=report,
        command=command,
        date=f"{when.day} {when:%B %Y, %H:%M %Z}",
        machine_date=when.isoformat(timespec="minutes"),
        version=__version__,
        hardware=hardware(),
        mark=lambda name: _mark(name, report.styles),
        highlighted=_highlighted,
        svg=lambda plot: Markup(plot.inline()),
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("focat", "reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


def _names(runs: Sequence[ReportedRun], results: CollectedResults, examples: Sequence[Translated]) -> list[str]:
    """All systems on the page, runs first."""
    systems = [file.system for file in results.instances] + [file.system for file in results.evaluations]
    names = [run.name for run in runs] + systems + analysed_systems(results, runs)
    return list(dict.fromkeys(names + [name for example in examples for name in example.systems]))


def _attention(
    runs: Sequence[ReportedRun], examples: Sequence[Disagreement], options: ReportOptions, progress: Progress
) -> AttentionView | None:
    seeing = [run for run in runs if run.parameters and run.settings.windows.before and not run.settings.windows.after]
    named = [run for run in runs if run.name == options.attention_of]
    chosen = next(iter(named or seeing[-1:] or runs[-1:]), None)
    if chosen is None or not chosen.parameters or (not named and not seeing and options.window is None):
        return None
    found = (
        read_window(options.window, chosen, options.device)
        if options.window
        else find_window(chosen, examples, progress)
    )
    return None if found is None else attention_view(chosen, found, options.layer, options.device)


def _accuracy_plot(tables: Sequence[ReportTable], results: CollectedResults, styles: SeriesStyles) -> Plot | None:
    """The first table of accuracies as a plot, with the chance level."""
    if not tables:
        return None
    chance = chance_levels([instance for file in results.instances for instance in file.content])
    return points_plot("accuracy", "Right answers, %", "right answers, %", tables[0].points, styles, chance, 100)


def _write_plots(plots: Sequence[Plot], folder: Path, overwrite: bool, progress: Progress) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FocatError(f"{folder}: cannot be made ({error.strerror})") from None
    for plot in plots:
        for ending in ("svg", "png"):
            path = folder / f"{plot.name}.{ending}"
            if path.exists() and not overwrite:
                raise FocatError(f"{path}: exists; give another folder for plots, or overwrite it")
            check_partial_file(path)
    with progress.bar("plots", "files", 2 * len(plots)) as bar:
        for plot in plots:
            bar.advance(len(plot.write(folder)))


def _mark(name: str, styles: SeriesStyles) -> Markup:
    """A system's name after its marker, as in all plots."""
    style = styles[name]
    shape = Markup('<svg class="mark" viewBox="0 0 10 10" aria-hidden="true" style="fill: var(--{})">{}</svg>')
    return Markup('<span class="system">{}{}</span>').format(
        shape.format(style.variable, Markup(_SHAPES[style.marker])), name
    )


def _highlighted(sentence: HighlightedText) -> Markup:
    """A sentence with its highlighted words."""
    return Markup("").join(
        Markup("<mark>{}</mark>").format(span.text) if span.highlighted else escape(span.text) for span in sentence
    )
