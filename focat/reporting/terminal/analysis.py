"""Results of `focat analyse` in a terminal: systems with stars where they differ from the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from focat.analysis.results import (
    ENTROPY_ORDERS,
    STACKS,
    AnalysisResults,
    LoggedLosses,
    PhenomenonEffect,
    Stack,
    StackAttention,
)
from focat.choices import AttentionDetail
from focat.reporting.analysis_tables import Stars, Systems, analysis_tables, dropped_label, side_label
from focat.reporting.table import MISSING, Row, Table, number, print_lines, print_table, row

_STACK_TITLES: dict[Stack, str] = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
_SHOWN_VALIDATIONS = 8


def show_analysis(results: AnalysisResults, detail: AttentionDetail | None, console: Console) -> None:
    """Print the tables of each analysis; with `detail`, attention by layer or by head too."""
    corpus, systems = results.corpus, results.systems
    stars = {(finding.system, finding.column): finding.stars for finding in results.findings}
    print_lines([f"{corpus.name}: {corpus.sentences:,} sentences, {corpus.documents:,} documents"], console)
    tables = {part: [one.rendered(stars) for one in found] for part, found in analysis_tables(systems).items()}
    tables["attention"] += [] if detail is None else [_attention_by(systems, detail)]
    tables["losses"].append(_curves(systems))
    tables["context"].append(_phenomena(systems, stars))
    for table in (table for part in tables.values() for table in part if table.rows):
        console.print("")
        print_table(table, console)
    notes = ["in brackets: window sizes that training did not have"] if tables["robustness"] else []
    if len(systems) > 1:
        notes.append(f"* p < 0.05, ** p < 0.01 against {next(iter(systems))}, corrected within each part (Holm)")
    console.print("")
    print_lines(notes, console)


def _attention_by(systems: Systems, detail: AttentionDetail) -> Table:
    """Share / entropy of each layer, or each head."""
    found = {name: system.attention for name, system in systems.items() if system.attention}
    rows = []
    for stack in STACKS:
        columns = [_details(attention.stacks[stack], detail) for attention in found.values()]
        names = list(dict.fromkeys(name for column in columns for name in column))
        for name in names:
            cells = [column.get(name, MISSING) for column in columns]
            rows.append(row(_STACK_TITLES[stack], name, *cells, end_section=name == names[-1]))
    orders = f", {ENTROPY_ORDERS[0]} / {ENTROPY_ORDERS[1]}" if detail == "layer" else ""
    return Table(f"Attention by {detail}", ("", detail, *found), rows, (f"share / entropy{orders}",), labels=2)


def _curves(systems: Systems) -> Table:
    """Some validations of each run, the best among them."""
    rows = []
    for name, system in systems.items():
        validations = system.losses.curves.validation if system.losses else []
        for logged in _sample(validations):
            best = " (best so far)" if logged.best else ""
            figures = map(number, (logged.current, logged.context, logged.ratio))
            rows.append(row(name, f"{logged.update:,}{best}", *figures, end_section=logged is validations[-1]))
    columns = ("", "update", "current", "context", "ratio")
    return Table("Validations along training", columns, rows, ("with label smoothing, as logged",), labels=2)


def _phenomena(systems: Systems, stars: Stars) -> Table:
    """Accuracy with and without each sentence, and how the margin changes."""
    found = {
        name: {(one.phenomenon, one.distance, one.sides, one.dropped): one for one in system.context.phenomena}
        for name, system in systems.items()
        if system.context
    }
    effects = [one for of_system in found.values() for one in of_system.values()]
    columns = list(dict.fromkeys(one.dropped for one in effects if one.dropped is not None))
    groups = list(dict.fromkeys((one.phenomenon, one.distance) for one in effects))
    rows: list[Row] = []
    for i, (phenomenon, distance) in enumerate(groups):
        following = groups[i + 1][0] if i + 1 < len(groups) else None
        ends = distance is None or following != phenomenon
        lines = []
        for system, of_system in found.items():
            own = [one for one in of_system.values() if (one.phenomenon, one.distance) == (phenomenon, distance)]
            for sides in dict.fromkeys(one.sides for one in own if one.sides is not None):
                cells = []
                for dropped in columns:
                    score = f"context.margin.{phenomenon}.{sides}.{dropped}"
                    star = stars.get((system, score), "") if distance is None else ""
                    cells.append(_effect(of_system.get((phenomenon, distance, sides, dropped)), star))
                with_all = number(of_system[phenomenon, distance, None, None].accuracy, 1)
                at = "any" if distance is None else str(distance)
                lines.append((phenomenon, at, side_label(sides), system, with_all, *cells))
        rows += [row(*line, end_section=ends and line is lines[-1]) for line in lines]
    headers = ("phenomenon", "decided at", "from", "", "with all", *map(dropped_label, columns))
    note = "in brackets: how the margin between the right and the best wrong candidate moves"
    return Table("Right answers without a context sentence, %", headers, rows, (note,), labels=4)


def _effect(effect: PhenomenonEffect | None, star: str) -> str:
    return MISSING if effect is None else f"{effect.accuracy:.1f} ({effect.margin_change:+.2f}{star})"


def _details(stack: StackAttention, detail: AttentionDetail) -> Mapping[str, str]:
    """Share / entropy of each layer or head of a stack."""
    if detail == "layer":
        return {
            str(layer.layer): " / ".join(map(number, (layer.share, *(layer.entropy[o] for o in ENTROPY_ORDERS))))
            for layer in stack.layers
        }
    return {
        f"{layer.layer}.{head.head}": f"{number(head.share)} / {number(head.entropy)}"
        for layer in stack.layers
        for head in layer.heads
    }


def _sample(logged: Sequence[LoggedLosses]) -> list[LoggedLosses]:
    """The first, the last, the best, and others evenly between."""
    if len(logged) <= _SHOWN_VALIDATIONS:
        return list(logged)
    step = (len(logged) - 1) / (_SHOWN_VALIDATIONS - 1)
    best = max((i for i, one in enumerate(logged) if one.best), default=0)
    return [logged[i] for i in sorted({best, *(round(i * step) for i in range(_SHOWN_VALIDATIONS))})]
