"""The results of `focat analyse` on the page: tables and plots of attention, window sizes and context sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from focat.analysis.results import (
    ENTROPY_ORDERS,
    STACKS,
    AnalysisResults,
    CorpusResult,
    Dropped,
    SystemAnalysis,
)
from focat.reporting.collect import CollectedResults, ReportedRun, ResultFile
from focat.reporting.plots import Plot, SeriesStyles, bars_plot
from focat.reporting.score_tables import STARS_NOTE, Provenance, ReportTable
from focat.reporting.table import Cell, Table, number, row
from focat.reporting.terminal.analysis import dropped_label, figures_by_size

SystemFigures = dict[str, dict[str, float]]
"""By system and column."""


@dataclass(frozen=True)
class AnalysisSection:
    """Tables and plots that belong together."""

    title: str
    about: str
    note: str = ""
    tables: list[ReportTable] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)


@dataclass(frozen=True)
class _AnalysisGroup:
    """Systems that were analysed on the same documents."""

    corpus: str
    systems: dict[str, SystemAnalysis] = field(default_factory=dict)
    stars: dict[tuple[str, str], str] = field(default_factory=dict)
    provenance: list[Provenance] = field(default_factory=list)

    def table(
        self,
        title: str,
        caption: str,
        values: SystemFigures,
        score_name: Callable[[str], str],
        decimals: int,
        unseen: set[tuple[str, str]] | None = None,
        sign: str = "",
    ) -> ReportTable:
        """A row for each system; `score_name` gives the name under which a column was tested."""
        columns = list(dict.fromkeys(column for found in values.values() for column in found))
        rows = []
        for name, found in values.items():
            cells = []
            for column in columns:
                text = number(found.get(column), decimals, sign).replace("-", "−")
                bracketed = (name, column) in (unseen or set()) and column in found
                stars = self.stars.get((name, score_name(column)), "")
                cells.append(Cell(f"[{text}]" if bracketed else text, stars=stars))
            rows.append(row(name, *cells))
        return ReportTable(Table(title, ("", *columns), rows), caption, provenance=self.provenance)


def analysed_systems(results: CollectedResults, runs: Sequence[ReportedRun]) -> list[str]:
    """The names of all systems that were analysed."""
    return list(dict.fromkeys(name for group in _groups(results, runs) for name in group.systems))


def analysis_sections(
    results: CollectedResults, runs: Sequence[ReportedRun], styles: SeriesStyles
) -> list[AnalysisSection]:
    """All analyses that have figures, one corpus after the other."""
    sections = []
    for i, group in enumerate(_groups(results, runs)):
        suffix = f"-{i + 1}" if i else ""
        made = [_attention(group, styles, suffix), _robustness(group, styles, suffix), _context(group)]
        sections += [replace(section, note=_note(group, section)) for section in made if section.tables]
    return sections


def _note(group: _AnalysisGroup, section: AnalysisSection) -> str:
    if not any(cell.stars for shown in section.tables for one in shown.table.rows for cell in one.cells):
        return ""
    return f"Differs from {next(iter(group.systems))}: {STARS_NOTE} (Holm’s correction)."


def _groups(results: CollectedResults, runs: Sequence[ReportedRun]) -> list[_AnalysisGroup]:
    """Analyses of the same documents together, whichever file they are in."""
    groups: dict[str, _AnalysisGroup] = {}
    for file in results.analyses:
        content = file.content
        group = groups.setdefault(content.corpus.model_dump_json(), _AnalysisGroup(_describe(content.corpus)))
        names = {name: _page_name(name, file, runs) for name in content.systems}
        for name, system in content.systems.items():
            before = group.systems.get(names[name])
            known = {} if before is None else {name: value for name, value in before if value is not None}
            group.systems[names[name]] = system.model_copy(update=known)
        for finding in content.findings:
            group.stars[names.get(finding.system, finding.system), finding.column] = finding.stars
        group.provenance.append(_provenance(file))
    return list(groups.values())


def _page_name(name: str, file: ResultFile[AnalysisResults], runs: Sequence[ReportedRun]) -> str:
    """The name of the run in whose folder the file is, or whose folder the analysis names; else its own name."""
    if len(file.content.systems) == 1 and file.system in [run.name for run in runs]:
        return file.system
    return {str(run.run.path): run.name for run in runs}.get(file.content.systems[name].run, name)


def _describe(corpus: CorpusResult) -> str:
    name = f"the {corpus.split} split" if corpus.split else corpus.name
    return f"{name}, {corpus.sentences:,} sentences of {corpus.documents:,} documents"


def _provenance(file: ResultFile[AnalysisResults]) -> Provenance:
    content = file.content
    facts: dict[str, str | list[str]] = {
        "command": "focat analyse " + " ".join(system.run for system in content.systems.values()),
        "corpus": _describe(content.corpus),
        "suites": [f"{suite.name}#{suite.sha256[:8]}, rule:{suite.rule}" for suite in content.suites],
        "weights": [f"{name}: {s.weights}#{s.weights_sha256[:8]}" for name, s in content.systems.items()],
        "seed": f"{content.significance.seed}, of {content.significance.trials:,} trials",
        "version": f"focat {content.focat}",
        "file": f"{file.path} ({file.date})",
    }
    return Provenance({name: fact for name, fact in facts.items() if fact})


def _attention(group: _AnalysisGroup, styles: SeriesStyles, suffix: str) -> AnalysisSection:
    """Share and entropy of each kind of attention (sections 4.5 and 4.6 of the paper)."""
    section = AnalysisSection("Where attention goes", f"Of {group.corpus}.")
    systems = {name: system.attention for name, system in group.systems.items() if system.attention}
    shares: SystemFigures = {
        name: {stack: 100 * share for stack, share in attention.share.items() if share is not None}
        for name, attention in systems.items()
    }
    shares = {name: found for name, found in shares.items() if found}
    if shares:
        title = "Attention that stays on the current sentence, %"
        caption = "Of the attention that the current sentence gives, what it gives to itself."
        section.tables.append(group.table(title, caption, shares, lambda stack: f"attention.share.{stack}", 1))
        section.plots.append(bars_plot(f"share{suffix}", "Stays on the current sentence", "%", "", shares, styles))
    for order in ENTROPY_ORDERS if systems else ():
        first, _, then = order.partition("-then-")
        section.tables.append(
            group.table(
                f"Entropy of attention, {first} first, then {then}",
                "In nats; smaller is more focused.",
                {name: dict(attention.entropy[order]) for name, attention in systems.items()},
                lambda stack, order=order: f"attention.entropy.{order}.{stack}",  # type: ignore[misc]
                3,
            )
        )
    if systems:
        entropies = {name: attention.entropy[ENTROPY_ORDERS[0]] for name, attention in systems.items()}
        narrow: SystemFigures = {name: {stack: of[stack] for stack in STACKS} for name, of in entropies.items()}
        section.plots.append(bars_plot(f"entropy{suffix}", "Entropy of attention", "nats", "", narrow, styles))
    return section


def _robustness(group: _AnalysisGroup, styles: SeriesStyles, suffix: str) -> AnalysisSection:
    """Scores with windows of other sizes than in training."""
    about = f"Of {group.corpus}. Sizes in brackets were not seen in training."
    section = AnalysisSection("Windows of other sizes", about)
    found = {name: system.robustness for name, system in group.systems.items() if system.robustness}
    unseen = {(name, str(one.size)) for name, results in found.items() for one in results.sizes if not one.seen}
    by_score: dict[tuple[str, str, int], dict[str, dict[int, float]]] = {}
    for name, results in found.items():
        for score, values in figures_by_size(results).items():
            by_score.setdefault((score.name, score.title, score.decimals), {})[name] = values
    order = {"bleu": 0, "loss": 2}  # accuracies between them
    for score_name, title, decimals in sorted(by_score, key=lambda score: order.get(score[0], 1)):
        systems = by_score[score_name, title, decimals]
        sizes = sorted({size for values in systems.values() for size in values})
        figures: SystemFigures = {
            name: {str(s): values[s] for s in sizes if s in values} for name, values in systems.items()
        }
        section.tables.append(
            group.table(
                f"{title}, by window size",
                "",
                figures,
                lambda size, score_name=score_name: f"robustness.{score_name}.{size}",  # type: ignore[misc]
                decimals,
                unseen,
            )
        )
        plot_name = f"robustness-{''.join(c if c.isalnum() else '-' for c in score_name)}{suffix}"
        section.plots.append(bars_plot(plot_name, title, "", "sentences in a window", figures, styles))
    return section


def _context(group: _AnalysisGroup) -> AnalysisSection:
    """What each context sentence contributes."""
    section = AnalysisSection("What context sentences contribute", f"Of {group.corpus}.")
    by_sides: dict[str, SystemFigures] = {}
    names: dict[str, Dropped] = {}
    for system, analysis in group.systems.items():
        for result in analysis.context.dropped if analysis.context else ():
            label = dropped_label(result.dropped)
            names[label] = result.dropped
            by_sides.setdefault(result.sides, {}).setdefault(system, {})[label] = result.per_token
    for sides, values in by_sides.items():
        section.tables.append(
            group.table(
                f"Lost without a sentence, from {'both sides' if sides == 'both' else f'the {sides}'}",
                "Log-probability per token of the current sentence, with that sentence less without it.",
                values,
                lambda label, sides=sides: f"context.{sides}.{names[label]}",  # type: ignore[misc]
                4,
                sign="+",
            )
        )
    return section
