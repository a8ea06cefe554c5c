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
from focat.errors import FocatError
from focat.evaluation.suites import Suite
from focat.files import check_output_file, write_atomic
from focat.hardware import hardware
from focat.progress import NULL_PROGRESS, Progress
from focat.reporting.analyses import Part, analysis_parts, analysis_systems
from focat.reporting.attention import AttentionView, attention_view, find_window, read_window
from focat.reporting.examples import Disagreement, Marked, Tally, Translated, disagreements, translated_document
from focat.reporting.gather import Results, Trained, gather, open_runs
from focat.reporting.plots import Looks, Plot, looks_of, points_plot, training_plots
from focat.reporting.tables import Table, contrast_tables, quality_tables, systems_table

EXAMPLES = 6  # shown if nothing else is asked for
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
class Choices:
    """What may be chosen about a report."""

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
    """All that stands on the page."""

    names: list[str]
    systems: Table | None
    contrast: list[Table]
    accuracy: Plot | None
    quality: list[Table]
    disagreements: list[Disagreement]
    tallies: list[Tally]
    translated: list[Translated]
    attention: AttentionView | None
    analyses: list[Part]
    training: list[Plot]
    looks: Looks

    @property
    def plots(self) -> list[Plot]:
        """All of them."""
        of_attention = self.attention.plots if self.attention else []
        of_analyses = [plot for part in self.analyses for plot in part.plots]
        return [*([self.accuracy] if self.accuracy else []), *of_attention, *of_analyses, *self.training]


def write_report(
    runs: Sequence[str | Path],
    out: Path,
    results: Sequence[str | Path] = (),
    examples: Sequence[Translated] = (),
    suites: Sequence[Suite] = (),
    choices: Choices | None = None,
    plots: Path | None = None,
    overwrite: bool = False,
    command: str = "",
    progress: Progress = NULL_PROGRESS,
) -> Report:
    """Write a page about these runs (`RUN` or `NAME=RUN`), and what was found on it.

    Results are taken from `RUN/results/` and from `results` (`FILE` or `NAME=FILE`). `examples` are documents to show
    side by side, `suites` those that results are about, for their texts. `plots` is a folder for all plots as files.
    """
    check_output_file(out, overwrite)
    report = make_report(runs, results, examples, suites, choices or Choices(), progress)
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
    choices: Choices,
    progress: Progress,
) -> Report:
    """Gather everything there is; what is not there is left out."""
    trained = open_runs(runs)
    if choices.attention_of is not None and choices.attention_of not in [one.name for one in trained]:
        names = ", ".join(one.name for one in trained)
        raise FocatError(f"--attention-of {choices.attention_of}: no run has this name; choose from {names}")
    with progress.bar("results"):
        found = gather(trained, results)
        looks = looks_of(_names(trained, found, examples))
        contrast, quality = contrast_tables(found), quality_tables(found)
        apart, tallies = disagreements(found, suites, choices.examples)
        side_by_side = list(examples) or [document for document in [translated_document(found, trained)] if document]
        parts = analysis_parts(found, trained, looks)
    with progress.bar("attention"):
        view = _attention(trained, apart, choices, progress)
    return Report(
        list(looks),
        systems_table(trained) if trained else None,
        contrast,
        _accuracy_plot(contrast, found, looks),
        quality,
        apart,
        tallies,
        side_by_side,
        view,
        parts,
        training_plots(trained, looks),
        looks,
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
        mark=lambda name: _mark(name, report.looks),
        marked=_marked,
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


def _names(runs: Sequence[Trained], results: Results, examples: Sequence[Translated]) -> list[str]:
    """All systems on the page, runs first."""
    files = [*results.answers, *results.evaluations]
    names = [run.name for run in runs] + [file.system for file in files] + analysis_systems(results, runs)
    return list(dict.fromkeys(names + [name for example in examples for name in example.systems]))


def _attention(
    runs: Sequence[Trained], examples: Sequence[Disagreement], choices: Choices, progress: Progress
) -> AttentionView | None:
    seeing = [run for run in runs if run.parameters and run.settings.windows.before and not run.settings.windows.after]
    named = [run for run in runs if run.name == choices.attention_of]
    chosen = next(iter(named or seeing[-1:] or runs[-1:]), None)
    if chosen is None or not chosen.parameters or (not named and not seeing and choices.window is None):
        return None
    found = (
        read_window(choices.window, chosen, choices.device)
        if choices.window
        else find_window(chosen, examples, progress)
    )
    return None if found is None else attention_view(chosen, found, choices.layer, choices.device)


def _accuracy_plot(tables: Sequence[Table], results: Results, looks: Looks) -> Plot | None:
    """The first table of answers at a glance, with what guessing would give."""
    if not tables:
        return None
    guesses: dict[str, list[float]] = {}
    for record in (record for file in results.answers for record in file.records):
        candidates = max((len(scores) for scores in (record.get("scores") or {}).values()), default=0)
        if candidates:
            guesses.setdefault(str(record.get("phenomenon") or "other"), []).append(100 / candidates)
    chance = {name: sum(shares) / len(shares) for name, shares in guesses.items()}
    return points_plot("accuracy", "Right answers, %", "right answers, %", tables[0].points, looks, chance, 100)


def _write_plots(plots: Sequence[Plot], folder: Path, overwrite: bool, progress: Progress) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FocatError(f"{folder}: cannot be made ({error.strerror})") from None
    for plot in plots:
        for ending in ("svg", "png"):
            path = folder / f"{plot.name}.{ending}"
            if path.exists() and not overwrite:
                raise FocatError(f"{path}: exists; give another folder to --plots, or --overwrite")
    with progress.bar("plots", "files", 2 * len(plots)) as bar:
        for plot in plots:
            bar.advance(len(plot.write(folder)))


def _mark(name: str, looks: Looks) -> Markup:
    """A system's name behind its marker, as in all plots."""
    look = looks[name]
    shape = Markup('<svg class="mark" viewBox="0 0 10 10" aria-hidden="true" style="fill: var(--{})">{}</svg>')
    return Markup('<span class="system">{}{}</span>').format(
        shape.format(look.variable, Markup(_SHAPES[look.marker])), name
    )


def _marked(sentence: Marked) -> Markup:
    """A sentence with its marked words."""
    return Markup("").join(
        Markup("<mark>{}</mark>").format(words.text) if words.marked else escape(words.text) for words in sentence
    )
