"""The results of `focat analyse` on the page: tables and plots of attention, window sizes and context sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from focat.analysis.results import AnalysisResults, CorpusResult, SystemAnalysis
from focat.reporting.analysis_tables import analysis_tables
from focat.reporting.collect import CollectedResults, ReportedRun, ResultFile
from focat.reporting.plots import Plot, SeriesStyles, bars_plot
from focat.reporting.score_tables import STARS_NOTE, Provenance, ReportTable

_SECTIONS = {  # by analysis: the title, and a remark
    "attention": ("Where attention goes", ""),
    "robustness": ("Windows of other sizes", " Sizes in brackets were not seen in training."),
    "context": ("What context sentences contribute", ""),
}


@dataclass(frozen=True)
class AnalysisSection:
    """Tables and plots that belong together."""

    title: str
    about: str
    note: str
    tables: list[ReportTable]
    plots: list[Plot]


@dataclass(frozen=True)
class _AnalysisGroup:
    """Systems that were analysed on the same documents."""

    corpus: str
    systems: dict[str, SystemAnalysis] = field(default_factory=dict)
    stars: dict[tuple[str, str], str] = field(default_factory=dict)
    provenance: list[Provenance] = field(default_factory=list)


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
        tables = analysis_tables(group.systems)
        for analysis, (title, remark) in _SECTIONS.items():
            found = tables[analysis]
            shown = [ReportTable(one.rendered(group.stars), one.note, provenance=group.provenance) for one in found]
            plots = [
                bars_plot(one.bars.name + suffix, one.bars.title, one.bars.unit, one.bars.label, one.bar_values, styles)
                for one in found
                if one.bars is not None
            ]
            if shown:
                about = f"Of {group.corpus}.{remark}"
                sections.append(AnalysisSection(title, about, _stars_note(group, shown), shown, plots))
    return sections


def _stars_note(group: _AnalysisGroup, tables: Sequence[ReportTable]) -> str:
    if not any("*" in cell.stars for shown in tables for one in shown.table.rows for cell in one.cells):
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
