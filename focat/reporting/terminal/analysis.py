"""Results of `focat analyse` in a terminal: systems side by side, with stars where they differ from the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from focat.analysis.results import (
    ENTROPY_ORDERS,
    STACKS,
    AnalysisResults,
    Dropped,
    DroppedSentenceResult,
    LoggedLosses,
    PhenomenonEffect,
    RobustnessResults,
    StackAttention,
    SystemAnalysis,
)
from focat.choices import AttentionDetail, DropSide

_STACKS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
    "self": "all self-attention",
    "all": "all attention",
}
_SHOWN_VALIDATIONS = 8
_MISSING = "–"


def show_analysis(results: AnalysisResults, detail: AttentionDetail | None, console: Console) -> None:
    """Print a table for each analysis; with `detail`, attention by layer or by head too."""
    corpus = results.corpus
    console.print(f"{corpus.name}: {corpus.sentences:,} sentences, {corpus.documents:,} documents", soft_wrap=True)
    stars = {(finding.system, finding.column): finding.stars for finding in results.findings}
    tables = _Tables(results.systems, stars, console)
    tables.attention()
    if detail is not None:
        tables.attention_by(detail)
    tables.losses()
    tables.curves()
    tables.robustness()
    tables.context()
    tables.phenomena()
    if len(results.systems) > 1:
        first = next(iter(results.systems))
        console.print(f"\n* p < 0.05, ** p < 0.01 against {first}, corrected within each part (Holm)")


class _Tables:
    """Prints tables: a column for each system, or a row where columns are sizes or sentences."""

    def __init__(
        self, systems: Mapping[str, SystemAnalysis], stars: Mapping[tuple[str, str], str], console: Console
    ) -> None:
        self.systems, self.stars, self.console = systems, stars, console

    def show(self, table: Table, note: str) -> None:
        if table.row_count:
            self.console.print("", table)
            self.console.print(Text(note), soft_wrap=True)

    def cell(self, system: str, score: str, value: float | None, digits: int = 3, sign: str = "") -> str:
        """A figure with its stars."""
        return _number(value, digits, sign) + self.stars.get((system, score), "")

    def attention(self) -> None:
        table = _table("Attention", "", "", *self.systems)
        found = {name: system.attention for name, system in self.systems.items() if system.attention}
        if not found:
            return
        rows: list[tuple[str, str, str, Mapping[str, float | None], bool]] = []
        for stack in STACKS:
            shares = {name: attention.share[stack] for name, attention in found.items()}
            rows.append((f"attention.share.{stack}", "share", _STACKS[stack], shares, stack == "cross"))
        for order in ENTROPY_ORDERS:
            for group, label in _STACKS.items():
                entropies = {name: attention.entropy[order][group] for name, attention in found.items()}
                score = f"attention.entropy.{order}.{group}"
                rows.append((score, f"entropy, {order}", label, entropies, group == "all"))
        for score, what, label, values, last in rows:
            cells = (self.cell(system, score, value) for system, value in values.items())
            table.add_row(what, label, *cells, end_section=last)
        self.show(table, "share: of the current sentence's attention, what stays on it; entropy in nats")

    def attention_by(self, by: AttentionDetail) -> None:
        """For each layer, or each head: share / entropy."""
        table = _table(f"Attention by {by}", "", by, *self.systems)
        found = [system.attention for system in self.systems.values() if system.attention]
        for stack in STACKS if found else ():
            columns = [_entries(attention.stacks[stack], by) for attention in found]
            names = list(dict.fromkeys(name for column in columns for name in column))
            for name in names:
                cells = (column.get(name, _MISSING) for column in columns)
                table.add_row(_STACKS[stack], name, *cells, end_section=name == names[-1])
        orders = f", {ENTROPY_ORDERS[0]} / {ENTROPY_ORDERS[1]}" if by == "layer" else ""
        self.show(table, f"share / entropy{orders}")

    def losses(self) -> None:
        table = _table("Losses per token", "", *self.systems)
        found = {name: system.losses.end for name, system in self.systems.items() if system.losses}
        for field in ("current", "context", "ratio") if found else ():
            cells = (self.cell(name, f"losses.{field}", getattr(losses, field)) for name, losses in found.items())
            table.add_row("current / context" if field == "ratio" else field, *cells)
        self.show(table, "nats, without label smoothing; the ratio is of windows with context")

    def curves(self) -> None:
        """Some validations of each run, the best among them."""
        table = _table("Validations along training", "", "update", "current", "context", "ratio")
        for name, system in self.systems.items():
            validations = system.losses.curves.validation if system.losses else []
            for row in _some(validations):
                best = " (best so far)" if row.best else ""
                figures = map(_number, (row.current, row.context, row.ratio))
                table.add_row(Text(name), f"{row.update:,}{best}", *figures, end_section=row is validations[-1])
        self.show(table, "with label smoothing, as logged")

    def robustness(self) -> None:
        """A row for each figure and system, a column for each size."""
        results = {name: system.robustness for name, system in self.systems.items() if system.robustness}
        found = {name: _by_size(robustness) for name, robustness in results.items()}
        sizes = sorted({size for figures in found.values() for _, size in figures})
        table = _table("Window sizes", "", "", *map(str, sizes))
        for score in dict.fromkeys(score for figures in found.values() for score, _ in figures):
            digits = 3 if score == "loss" else 2 if score == "bleu" else 1
            label = {"loss": "loss of current", "bleu": "BLEU"}.get(score, score.replace("accuracy.", "right %, "))
            for system, figures in found.items():
                cells = []
                for size in sizes:
                    cell = self.cell(system, f"robustness.{score}.{size}", figures.get((score, size)), digits)
                    unseen = size > results[system].trained and (score, size) in figures
                    cells.append(Text(f"[{cell}]" if unseen else cell))
                table.add_row(Text(label), Text(system), *cells, end_section=system == list(found)[-1])
        self.show(table, "in brackets: larger than any window in training")

    def context(self) -> None:
        """Log-probability lost without each sentence."""
        found = {
            name: {(row.sides, row.dropped): row for row in system.context.dropped}
            for name, system in self.systems.items()
            if system.context
        }
        columns = list(dict.fromkeys(what for rows in found.values() for _, what in rows))
        table = _table("What context sentences contribute", "", "", *map(_dropped, columns))
        for sides in dict.fromkeys(sides for rows in found.values() for sides, _ in rows):
            for system, rows in found.items():
                cells = [self._contribution(system, sides, what, rows.get((sides, what))) for what in columns]
                table.add_row(_sides(sides), Text(system), *cells)
        self.show(
            table,
            "log-probability per token of the current sentence, with it less without it; † differs from 0 (p < 0.05)",
        )

    def _contribution(self, system: str, sides: DropSide, what: Dropped, row: DroppedSentenceResult | None) -> str:
        per_token, mark = (None, "") if row is None else (row.per_token, "†" if row.corrected < 0.05 else "")
        return self.cell(system, f"context.{sides}.{what}", per_token, 4, "+") + mark

    def phenomena(self) -> None:
        """Accuracy with and without each sentence, and how the margin changes."""
        found = {
            name: {(row.phenomenon, row.distance, row.sides, row.dropped): row for row in system.context.phenomena}
            for name, system in self.systems.items()
            if system.context
        }
        rows = [row for of_system in found.values() for row in of_system.values()]
        columns = list(dict.fromkeys(row.dropped for row in rows if row.dropped is not None))
        headers = ("phenomenon", "decided at", "from", "", "with all", *map(_dropped, columns))
        table = _table("Right answers without a context sentence, %", *headers)
        groups = list(dict.fromkeys((row.phenomenon, row.distance) for row in rows))
        for i, (phenomenon, distance) in enumerate(groups):
            for system, of_system in found.items():
                mine = [row for row in of_system.values() if (row.phenomenon, row.distance) == (phenomenon, distance)]
                for sides in dict.fromkeys(row.sides for row in mine if row.sides is not None):
                    at = "any" if distance is None else str(distance)
                    cells = []
                    for what in columns:
                        score = f"context.margin.{phenomenon}.{sides}.{what}"
                        star = "" if distance is not None else self.stars.get((system, score), "")
                        cells.append(_effect(of_system.get((phenomenon, distance, sides, what)), star))
                    kept = _number(of_system[phenomenon, distance, None, None].accuracy, 1)
                    table.add_row(Text(phenomenon), at, _sides(sides), Text(system), kept, *cells)
            following = groups[i + 1][0] if i + 1 < len(groups) else None
            if distance is None or following != phenomenon:
                table.add_section()
        self.show(table, "in brackets: how the margin between the right and the best wrong candidate moves")


def _table(title: str, *columns: str) -> Table:
    return Table(*map(escape, columns), title=escape(title), title_justify="left")


def _number(value: float | None, digits: int = 3, sign: str = "") -> str:
    return _MISSING if value is None else f"{value:{sign}.{digits}f}"


def _dropped(what: Dropped) -> str:
    if what == "all":
        return "all context"
    return f"{what} before" if what > 0 else f"{-what} behind"


def _sides(sides: DropSide) -> str:
    return "both sides" if sides == "both" else sides


def _effect(row: PhenomenonEffect | None, star: str) -> str:
    return _MISSING if row is None else f"{row.accuracy:.1f} ({row.margin_change:+.2f}{star})"


def _entries(stack: StackAttention, by: AttentionDetail) -> dict[str, str]:
    """Return share / entropy of each layer or head of a stack."""
    entries = {}
    for layer in stack.layers:
        if by == "layer":
            entropies = (_number(layer.entropy[order]) for order in ENTROPY_ORDERS)
            entries[str(layer.layer)] = " / ".join((_number(layer.share), *entropies))
        for head in layer.heads if by == "head" else ():
            entries[f"{layer.layer}.{head.head}"] = f"{_number(head.share)} / {_number(head.entropy)}"
    return entries


def _by_size(robustness: RobustnessResults) -> dict[tuple[str, int], float]:
    """Return every figure by its name and window size."""
    found: dict[tuple[str, int], float] = {}
    for entry in robustness.sizes:
        found["loss", entry.size] = entry.loss
        for phenomenon, value in entry.accuracy.items():
            found[f"accuracy.{phenomenon}", entry.size] = value
        if entry.bleu is not None:
            found["bleu", entry.size] = entry.bleu
    return found


def _some(rows: Sequence[LoggedLosses]) -> list[LoggedLosses]:
    """Return the first, the last, the best, and others evenly between."""
    if len(rows) <= _SHOWN_VALIDATIONS:
        return list(rows)
    step = (len(rows) - 1) / (_SHOWN_VALIDATIONS - 1)
    best = max((i for i, row in enumerate(rows) if row.best), default=0)
    return [rows[i] for i in sorted({best, *(round(i * step) for i in range(_SHOWN_VALIDATIONS))})]
