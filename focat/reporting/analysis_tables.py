"""Analyses as tables: systems side by side, with stars where they differ from the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from focat.analysis.analyse import Analysis
from focat.analysis.attention import ORDERS, STACKS
from focat.choices import AttentionDetail

_STACKS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
    "self": "all self-attention",
    "all": "all attention",
}
_SHOWN_VALIDATIONS = 8
_MISSING = "–"


def show_analysis(found: Analysis, by: AttentionDetail | None, console: Console) -> None:
    """Every part that was asked for."""
    record = found.record()
    systems: dict[str, dict[str, Any]] = record["systems"]
    corpus = record["corpus"]
    what = corpus["split"] if "split" in corpus else corpus["source"]["name"]
    console.print(f"{what}: {corpus['sentences']:,} sentences, {corpus['documents']:,} documents", soft_wrap=True)
    marks = {(finding.system, finding.column): finding.stars for finding in found.findings}
    shown = _Show(systems, marks, console)
    if "attention" in found.asked.parts:
        shown.attention()
        if by is not None:
            shown.attention_by(by)
    if "losses" in found.asked.parts:
        shown.losses()
        shown.curves()
    if "robustness" in found.asked.parts:
        shown.robustness()
    if "context" in found.asked.parts:
        shown.context()
        shown.phenomena()
    if len(systems) > 1:
        console.print(f"\n* p < 0.05, ** p < 0.01 against {next(iter(systems))}, corrected within each part (Holm)")


class _Show:
    """Prints tables: a column for each system, or a row where columns are sizes or sentences."""

    def __init__(
        self, systems: Mapping[str, dict[str, Any]], marks: Mapping[tuple[str, str], str], console: Console
    ) -> None:
        self.systems, self.marks, self.console = systems, marks, console

    def show(self, table: Table, note: str) -> None:
        if table.row_count:
            self.console.print("", table)
            self.console.print(Text(note), soft_wrap=True)

    def cell(self, system: str, measure: str, value: float | None, digits: int = 3, sign: str = "") -> str:
        """A figure with its stars."""
        return _number(value, digits, sign) + self.marks.get((system, measure), "")

    def attention(self) -> None:
        table = _table("Attention", "", "", *self.systems)
        rows = [(f"share.{stack}", "share", _STACKS[stack]) for stack in STACKS]
        rows += [(f"entropy.{o}.{group}", f"entropy, {o}", label) for o in ORDERS for group, label in _STACKS.items()]
        for path, what, label in rows:
            values = {system: _at(record["attention"], path) for system, record in self.systems.items()}
            cells = (self.cell(system, f"attention.{path}", value) for system, value in values.items())
            table.add_row(what, label, *cells, end_section=path.endswith(("share.cross", ".all")))
        self.show(table, "share: of the current sentence's attention, what stays on it; entropy in nats")

    def attention_by(self, by: AttentionDetail) -> None:
        """For each layer, or each head: share / entropy."""
        table = _table(f"Attention by {by}", "", by, *self.systems)
        for stack in STACKS:
            columns = [_entries(record["attention"]["stacks"][stack], by) for record in self.systems.values()]
            names = list(dict.fromkeys(name for column in columns for name in column))
            for name in names:
                cells = (column.get(name, _MISSING) for column in columns)
                table.add_row(_STACKS[stack], name, *cells, end_section=name == names[-1])
        orders = f", {ORDERS[0]} / {ORDERS[1]}" if by == "layer" else ""
        self.show(table, f"share / entropy{orders}")

    def losses(self) -> None:
        table = _table("Losses per token", "", *self.systems)
        for name in ("current", "context", "ratio"):
            values = {system: record["losses"]["end"][name] for system, record in self.systems.items()}
            cells = (self.cell(system, f"losses.{name}", value) for system, value in values.items())
            table.add_row("current / context" if name == "ratio" else name, *cells)
        self.show(table, "nats, without label smoothing; the ratio is of windows with context")

    def curves(self) -> None:
        """Some validations of each run, the best among them."""
        table = _table("Validations along training", "", "update", "current", "context", "ratio")
        for system, record in self.systems.items():
            validations = record["losses"]["curves"]["validation"]
            for row in _some(validations):
                best = " (best so far)" if row.get("best") else ""
                figures = (_number(row.get(name)) for name in ("current", "context", "ratio"))
                table.add_row(Text(system), f"{row['update']:,}{best}", *figures, end_section=row is validations[-1])
        self.show(table, "with label smoothing, as logged")

    def robustness(self) -> None:
        """A row for each figure and system, a column for each size."""
        found = {system: _by_size(record["robustness"]) for system, record in self.systems.items()}
        sizes = sorted({size for figures in found.values() for _, size in figures})
        table = _table("Window sizes", "", "", *map(str, sizes))
        names = list(dict.fromkeys(name for figures in found.values() for name, _ in figures))
        for name in names:
            digits = 3 if name == "loss" else 2 if name == "bleu" else 1
            label = {"loss": "loss of current", "bleu": "BLEU"}.get(name, name.replace("accuracy.", "right %, "))
            for system, figures in found.items():
                trained = self.systems[system]["robustness"]["trained"]
                cells = []
                for size in sizes:
                    cell = self.cell(system, f"robustness.{name}.{size}", figures.get((name, size)), digits)
                    cells.append(Text(f"[{cell}]" if size > trained and (name, size) in figures else cell))
                table.add_row(Text(label), Text(system), *cells, end_section=system == list(found)[-1])
        self.show(table, "in brackets: larger than any window in training")

    def context(self) -> None:
        """Log-probability lost without each sentence."""
        found = {system: _by_part(record["context"]["dropped"]) for system, record in self.systems.items()}
        columns = list(dict.fromkeys(what for rows in found.values() for _, what in rows))
        table = _table("What context sentences contribute", "", "", *map(_dropped, columns))
        for sides in dict.fromkeys(sides for rows in found.values() for sides, _ in rows):
            for system, rows in found.items():
                cells = []
                for what in columns:
                    row = rows.get((sides, what), {})
                    mark = "†" if row.get("corrected", 1) < 0.05 else ""
                    cells.append(self.cell(system, f"context.{sides}.{what}", row.get("per_token"), 4, "+") + mark)
                table.add_row(_sides(sides), Text(system), *cells)
        self.show(
            table,
            "log-probability per token of the current sentence, with it less without it; † differs from 0 (p < 0.05)",
        )

    def phenomena(self) -> None:
        """Accuracy with and without each sentence, and how the margin moves."""
        found = {system: _by_phenomenon(record["context"]["phenomena"]) for system, record in self.systems.items()}
        columns = list(dict.fromkeys(what for groups in found.values() for rows in groups.values() for _, what in rows))
        columns = [what for what in columns if what is not None]
        headers = ("phenomenon", "decided at", "from", "", "with all", *map(_dropped, columns))
        table = _table("Right answers without a context sentence, %", *headers)
        groups = list(dict.fromkeys(group for of_system in found.values() for group in of_system))
        for i, (phenomenon, distance) in enumerate(groups):
            for system, of_system in found.items():
                rows = of_system.get((phenomenon, distance), {})
                for sides in dict.fromkeys(sides for sides, _ in rows if sides is not None):
                    at = "any" if distance is None else str(distance)
                    cells = [
                        _effect(rows.get((sides, what)), self._star(system, phenomenon, distance, sides, what))
                        for what in columns
                    ]
                    kept = _number(rows[None, None]["accuracy"], 1)
                    table.add_row(Text(phenomenon), at, _sides(sides), Text(system), kept, *cells)
            following = groups[i + 1][0] if i + 1 < len(groups) else None
            if distance is None or following != phenomenon:
                table.add_section()
        self.show(table, "in brackets: how the margin between the right and the best wrong candidate moves")

    def _star(self, system: str, phenomenon: str, distance: int | None, sides: str, what: object) -> str:
        return (
            "" if distance is not None else self.marks.get((system, f"context.margin.{phenomenon}.{sides}.{what}"), "")
        )


def _table(title: str, *columns: str) -> Table:
    return Table(*map(escape, columns), title=escape(title), title_justify="left")


def _at(record: Any, path: str) -> Any:
    for name in path.split("."):
        record = record[name]
    return record


def _number(value: float | None, digits: int = 3, sign: str = "") -> str:
    return _MISSING if value is None else f"{value:{sign}.{digits}f}"


def _dropped(what: Any) -> str:
    if what == "all":
        return "all context"
    return f"{what} before" if what > 0 else f"{-what} behind"


def _sides(sides: str) -> str:
    return "both sides" if sides == "both" else sides


def _effect(row: Mapping[str, Any] | None, star: str) -> str:
    return _MISSING if row is None else f"{row['accuracy']:.1f} ({row['margin_change']:+.2f}{star})"


def _by_part(rows: Sequence[dict[str, Any]]) -> dict[tuple[Any, Any], dict[str, Any]]:
    return {(row["sides"], row["dropped"]): row for row in rows}


def _by_phenomenon(
    rows: Sequence[dict[str, Any]],
) -> dict[tuple[str, int | None], dict[tuple[Any, Any], dict[str, Any]]]:
    """Phenomenon and distance, then sides and what was dropped."""
    groups = dict.fromkeys((row["phenomenon"], row["distance"]) for row in rows)
    return {group: _by_part([row for row in rows if (row["phenomenon"], row["distance"]) == group]) for group in groups}


def _entries(stack: Mapping[str, Any], by: AttentionDetail) -> dict[str, str]:
    """share / entropy of each layer or head of a stack."""
    entries = {}
    for layer in stack["layers"]:
        if by == "layer":
            entropies = (_number(layer["entropy"][order]) for order in ORDERS)
            entries[str(layer["layer"])] = " / ".join((_number(layer["share"]), *entropies))
        for head in layer["heads"] if by == "head" else ():
            entries[f"{layer['layer']}.{head['head']}"] = f"{_number(head['share'])} / {_number(head['entropy'])}"
    return entries


def _by_size(robustness: Mapping[str, Any]) -> dict[tuple[str, int], float]:
    """Every figure by its name and size."""
    found: dict[tuple[str, int], float] = {}
    for entry in robustness["sizes"]:
        found["loss", entry["size"]] = entry["loss"]
        for phenomenon, value in entry.get("accuracy", {}).items():
            found[f"accuracy.{phenomenon}", entry["size"]] = value
        if "bleu" in entry:
            found["bleu", entry["size"]] = entry["bleu"]
    return found


def _some(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first, the last, the best, and others evenly between."""
    if len(rows) <= _SHOWN_VALIDATIONS:
        return list(rows)
    step = (len(rows) - 1) / (_SHOWN_VALIDATIONS - 1)
    best = max((i for i, row in enumerate(rows) if row.get("best")), default=0)
    return [rows[i] for i in sorted({best, *(round(i * step) for i in range(_SHOWN_VALIDATIONS))})]
