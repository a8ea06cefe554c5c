"""Results of `focat analyse` as tables: systems side by side, with stars where they differ from the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from focat.analysis.results import (
    ENTROPY_ORDERS,
    STACKS,
    AnalysisResults,
    Dropped,
    LoggedLosses,
    PhenomenonEffect,
    RobustnessResults,
    StackAttention,
)
from focat.choices import AttentionDetail, DropSide
from focat.reporting.table import MISSING, Row, Table, number, print_lines, print_table, row

_STACKS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
    "self": "all self-attention",
    "all": "all attention",
}
_SHOWN_VALIDATIONS = 8


def show_analysis(results: AnalysisResults, detail: AttentionDetail | None, console: Console) -> None:
    """Print a table for each analysis; with `detail`, attention by layer or by head too."""
    corpus = results.corpus
    print_lines([f"{corpus.name}: {corpus.sentences:,} sentences, {corpus.documents:,} documents"], console)
    for table in _AnalysisTables(results).all(detail):
        if table.rows:
            console.print("")
            print_table(table, console)
    if len(results.systems) > 1:
        first = next(iter(results.systems))
        console.print("")
        print_lines([f"* p < 0.05, ** p < 0.01 against {first}, corrected within each part (Holm)"], console)


class _AnalysisTables:
    """Tables with a column for each system, or a row where columns are window sizes or sentences."""

    def __init__(self, results: AnalysisResults) -> None:
        self.systems = results.systems
        self.stars = {(finding.system, finding.column): finding.stars for finding in results.findings}

    def all(self, detail: AttentionDetail | None) -> Iterator[Table]:
        """All tables, in the order of the analyses; those of analyses that were not run are empty."""
        yield self.attention()
        if detail is not None:
            yield self.attention_by(detail)
        yield from (self.losses(), self.curves(), self.robustness(), self.context(), self.phenomena())

    def cell(self, system: str, score: str, value: float | None, decimals: int = 3, sign: str = "") -> str:
        """A figure with its stars."""
        return number(value, decimals, sign) + self.stars.get((system, score), "")

    def attention(self) -> Table:
        """Share and entropy of each kind of attention."""
        found = {name: system.attention for name, system in self.systems.items() if system.attention}
        rows = []
        for stack in STACKS if found else ():
            cells = [self.cell(name, f"attention.share.{stack}", of.share[stack]) for name, of in found.items()]
            rows.append(row("share", _STACKS[stack], *cells, end_section=stack == "cross"))
        for order in ENTROPY_ORDERS if found else ():
            for group, label in _STACKS.items():
                score = f"attention.entropy.{order}.{group}"
                cells = [self.cell(name, score, of.entropy[order][group]) for name, of in found.items()]
                rows.append(row(f"entropy, {order}", label, *cells, end_section=group == "all"))
        note = "share: of the current sentence's attention, what stays on it; entropy in nats"
        return Table("Attention", ("", "", *found), rows, (note,), labels=2)

    def attention_by(self, detail: AttentionDetail) -> Table:
        """Share / entropy of each layer, or each head."""
        found = {name: system.attention for name, system in self.systems.items() if system.attention}
        rows = []
        for stack in STACKS:
            columns = [_details(attention.stacks[stack], detail) for attention in found.values()]
            names = list(dict.fromkeys(name for column in columns for name in column))
            for name in names:
                cells = [column.get(name, MISSING) for column in columns]
                rows.append(row(_STACKS[stack], name, *cells, end_section=name == names[-1]))
        orders = f", {ENTROPY_ORDERS[0]} / {ENTROPY_ORDERS[1]}" if detail == "layer" else ""
        return Table(f"Attention by {detail}", ("", detail, *found), rows, (f"share / entropy{orders}",), labels=2)

    def losses(self) -> Table:
        """Losses of the current sentence and of context."""
        found = {name: system.losses.end for name, system in self.systems.items() if system.losses}
        rows = []
        for field, label in {"current": "current", "context": "context", "ratio": "current / context"}.items():
            cells = [self.cell(name, f"losses.{field}", getattr(losses, field)) for name, losses in found.items()]
            rows += [row(label, *cells)] if found else []
        note = "nats, without label smoothing; the ratio is of windows with context"
        return Table("Losses per token", ("", *found), rows, (note,))

    def curves(self) -> Table:
        """Some validations of each run, the best among them."""
        rows = []
        for name, system in self.systems.items():
            validations = system.losses.curves.validation if system.losses else []
            for logged in _sample(validations):
                best = " (best so far)" if logged.best else ""
                figures = map(number, (logged.current, logged.context, logged.ratio))
                rows.append(row(name, f"{logged.update:,}{best}", *figures, end_section=logged is validations[-1]))
        columns = ("", "update", "current", "context", "ratio")
        return Table("Validations along training", columns, rows, ("with label smoothing, as logged",), labels=2)

    def robustness(self) -> Table:
        """A row for each score and system, a column for each window size."""
        results = {name: system.robustness for name, system in self.systems.items() if system.robustness}
        found = {name: figures_by_size(robustness) for name, robustness in results.items()}
        sizes = sorted({size for scores in found.values() for values in scores.values() for size in values})
        rows = []
        for score in dict.fromkeys(score for scores in found.values() for score in scores):
            for system, scores in found.items():
                cells = []
                for size in sizes:
                    value = scores.get(score, {}).get(size)
                    cell = self.cell(system, f"robustness.{score.name}.{size}", value, score.decimals)
                    larger = size > results[system].trained and value is not None
                    cells.append(f"[{cell}]" if larger else cell)
                rows.append(row(score.label, system, *cells, end_section=system == list(found)[-1]))
        note = "in brackets: larger than any window in training"
        return Table("Window sizes", ("", "", *map(str, sizes)), rows, (note,), labels=2)

    def context(self) -> Table:
        """Log-probability lost without each sentence."""
        found = {
            name: {(one.sides, one.dropped): one for one in system.context.dropped}
            for name, system in self.systems.items()
            if system.context
        }
        columns = list(dict.fromkeys(dropped for results in found.values() for _, dropped in results))
        rows = []
        for sides in dict.fromkeys(sides for results in found.values() for sides, _ in results):
            for system, results in found.items():
                cells = []
                for dropped in columns:
                    one = results.get((sides, dropped))
                    value = None if one is None else one.per_token
                    dagger = "†" if one is not None and one.corrected < 0.05 else ""
                    cells.append(self.cell(system, f"context.{sides}.{dropped}", value, 4, "+") + dagger)
                rows.append(row(_sides(sides), system, *cells))
        title = "What context sentences contribute"
        note = "log-probability per token of the current sentence, with it less without it; † differs from 0 (p < 0.05)"
        return Table(title, ("", "", *map(dropped_label, columns)), rows, (note,), labels=2)

    def phenomena(self) -> Table:
        """Accuracy with and without each sentence, and how the margin changes."""
        found = {
            name: {(one.phenomenon, one.distance, one.sides, one.dropped): one for one in system.context.phenomena}
            for name, system in self.systems.items()
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
                        star = self.stars.get((system, score), "") if distance is None else ""
                        cells.append(_effect(of_system.get((phenomenon, distance, sides, dropped)), star))
                    with_all = number(of_system[phenomenon, distance, None, None].accuracy, 1)
                    at = "any" if distance is None else str(distance)
                    lines.append((phenomenon, at, _sides(sides), system, with_all, *cells))
            rows += [row(*line, end_section=ends and line is lines[-1]) for line in lines]
        headers = ("phenomenon", "decided at", "from", "", "with all", *map(dropped_label, columns))
        note = "in brackets: how the margin between the right and the best wrong candidate moves"
        return Table("Right answers without a context sentence, %", headers, rows, (note,), labels=4)


@dataclass(frozen=True)
class WindowScore:
    """What is measured with windows of several sizes."""

    name: str
    title: str
    label: str
    decimals: int


def figures_by_size(robustness: RobustnessResults) -> dict[WindowScore, dict[int, float]]:
    """Every score by window size: loss, accuracies and BLEU."""
    found: dict[WindowScore, dict[int, float]] = {}
    bleu, loss = (
        WindowScore("bleu", "BLEU", "BLEU", 2),
        WindowScore("loss", "Loss of the current sentence", "loss of current", 3),
    )
    for one in robustness.sizes:
        found.setdefault(loss, {})[one.size] = one.loss
        for phenomenon, value in one.accuracy.items():
            score = WindowScore(
                f"accuracy.{phenomenon}", f"Right answers, {phenomenon}, %", f"right %, {phenomenon}", 1
            )
            found.setdefault(score, {})[one.size] = value
        if one.bleu is not None:
            found.setdefault(bleu, {})[one.size] = one.bleu
    return found


def dropped_label(dropped: Dropped) -> str:
    """A dropped sentence in words."""
    if dropped == "all":
        return "all context"
    return f"{dropped} before" if dropped > 0 else f"{-dropped} behind"


def _sides(sides: DropSide) -> str:
    return "both sides" if sides == "both" else sides


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
