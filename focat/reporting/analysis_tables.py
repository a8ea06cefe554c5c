"""The figures of `focat analyse` as tables, a row for each system: printed by the terminal, shown on the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from focat.analysis.results import ENTROPY_ORDERS, STACKS, Dropped, SystemAnalysis, WindowSizeResult
from focat.choices import DropSide
from focat.reporting.table import Cell, Table, number, row

Systems = Mapping[str, SystemAnalysis]
"""The analyses of systems, by the names that tables show."""
Stars = Mapping[tuple[str, str], str]
"""By system and score, where a system differs from the first."""


@dataclass(frozen=True)
class BarsLayout:
    """How a table is drawn as a plot of bars."""

    name: str
    title: str
    unit: str = ""
    label: str = ""
    """Of the horizontal axis."""


@dataclass(frozen=True)
class AnalysisTable:
    """One kind of figure of all systems that have it."""

    title: str
    note: str
    values: dict[str, dict[str, float]]
    """By system and column."""
    score: str
    """The name under which a column was tested, up to the column."""
    decimals: int = 3
    sign: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The titles of columns, where they are not their names."""
    unseen: frozenset[tuple[str, str]] = frozenset()
    """By system and column, figures in brackets: of windows of sizes that training did not have."""
    daggers: frozenset[tuple[str, str]] = frozenset()
    bars: BarsLayout | None = None

    def rendered(self, stars: Stars) -> Table:
        """The table to print."""
        columns = list(dict.fromkeys(column for found in self.values.values() for column in found))
        rows = [row(name, *(self._cell(name, column, stars) for column in columns)) for name in self.values]
        titles = [self.columns.get(column, column) for column in columns]
        return Table(self.title, ("", *titles), rows, (self.note,) if self.note else ())

    @property
    def bar_values(self) -> dict[str, dict[str, float]]:
        """What a plot shows: of attention, the stacks without the means over them."""
        if not self.score.startswith("attention."):
            return self.values
        return {name: {stack: of[stack] for stack in STACKS if stack in of} for name, of in self.values.items()}

    def _cell(self, system: str, column: str, stars: Stars) -> Cell:
        text = number(self.values[system].get(column), self.decimals, self.sign)
        bracketed = (system, column) in self.unseen
        dagger = "†" if (system, column) in self.daggers else ""
        return Cell(f"[{text}]" if bracketed else text, stars=stars.get((system, self.score + column), "") + dagger)


def analysis_tables(systems: Systems) -> dict[str, list[AnalysisTable]]:
    """The tables of each analysis; those without figures are left out."""
    made = {
        "attention": _attention_tables(systems),
        "losses": _loss_tables(systems),
        "robustness": _robustness_tables(systems),
        "context": _context_tables(systems),
    }
    return {analysis: [table for table in tables if any(table.values.values())] for analysis, tables in made.items()}


def _attention_tables(systems: Systems) -> Iterator[AnalysisTable]:
    """Share and entropy of each kind of attention (sections 4.5 and 4.6 of the paper)."""
    found = {name: system.attention for name, system in systems.items() if system.attention}
    shares = {
        name: {str(stack): 100 * share for stack, share in attention.share.items() if share is not None}
        for name, attention in found.items()
    }
    yield AnalysisTable(
        "Attention that stays on the current sentence, %",
        "Of the attention that the current sentence gives, what it gives to itself.",
        {name: of_system for name, of_system in shares.items() if of_system},
        "attention.share.",
        decimals=1,
        bars=BarsLayout("share", "Stays on the current sentence", "%"),
    )
    for order in ENTROPY_ORDERS:
        first, _, then = order.partition("-then-")
        yield AnalysisTable(
            f"Entropy of attention, {first} first, then {then}",
            "In nats; smaller is more focused.",
            {name: dict(attention.entropy[order]) for name, attention in found.items()},
            f"attention.entropy.{order}.",
            bars=BarsLayout("entropy", "Entropy of attention", "nats") if order == ENTROPY_ORDERS[0] else None,
        )

    yield AnalysisTable(
        "What gates keep, %",
        "Of the representation of a current sentence's tokens, what is their own; the rest is from context or window.",
        {
            name: {_gate_name(gate): 100 * kept for gate, kept in of.gates.items()}
            for name, of in found.items()
            if of.gates
        },
        "attention.gates.",
        decimals=1,
    )


def _gate_name(name: str) -> str:
    """`encoder 6` of encoder.5.context.gate, `cross 6` of one between attentions to the source; `top` of the gate after
    the encoder, `target` of that after the decoder."""
    stack, layer, module, *_ = name.split(".")
    stack = "cross" if module == "global_cross_attention" else stack
    return f"{stack} {int(layer) + 1}" if layer.isdecimal() else layer


def _loss_tables(systems: Systems) -> Iterator[AnalysisTable]:
    """Losses of the current sentence and of context."""
    found = {name: system.losses.end for name, system in systems.items() if system.losses}
    losses = {name: {"current": end.current, "context": end.context, "ratio": end.ratio} for name, end in found.items()}
    yield AnalysisTable(
        "Losses per token",
        "Nats, without label smoothing; the ratio is of windows with context.",
        {name: {loss: value for loss, value in of.items() if value is not None} for name, of in losses.items()},
        "losses.",
        columns={"ratio": "current / context"},
    )


def _robustness_tables(systems: Systems) -> Iterator[AnalysisTable]:
    """Scores with windows of other sizes than in training."""
    found = {name: system.robustness.sizes for name, system in systems.items() if system.robustness}
    measured = [one for sizes in found.values() for one in sizes]
    scores = {"bleu": ("BLEU", 2)}
    for phenomenon in dict.fromkeys(name for one in measured for name in one.accuracy):
        scores[f"accuracy.{phenomenon}"] = (f"Right answers, {phenomenon}, %", 1)
    scores["loss"] = ("Loss of the current sentence", 3)
    unseen = frozenset((name, str(one.size)) for name, sizes in found.items() for one in sizes if not one.seen)
    for score, (title, decimals) in scores.items():
        values = {
            name: {str(one.size): value for one in sizes if (value := _score_of_size(one, score)) is not None}
            for name, sizes in found.items()
        }
        plot_name = f"robustness-{''.join(c if c.isalnum() else '-' for c in score)}"
        yield AnalysisTable(
            f"{title}, by window size",
            "",
            {name: of_system for name, of_system in values.items() if of_system},
            f"robustness.{score}.",
            decimals,
            unseen=unseen,
            bars=BarsLayout(plot_name, title, label="sentences in a window"),
        )


def _score_of_size(one: WindowSizeResult, score: str) -> float | None:
    if score == "loss":
        return one.loss
    return one.bleu if score == "bleu" else one.accuracy.get(score.removeprefix("accuracy."))


def _context_tables(systems: Systems) -> Iterator[AnalysisTable]:
    """What each context sentence contributes."""
    found = {name: system.context.dropped for name, system in systems.items() if system.context}
    for side in dict.fromkeys(one.sides for dropped in found.values() for one in dropped):
        own = {name: [one for one in dropped if one.sides == side] for name, dropped in found.items()}
        yield AnalysisTable(
            f"Lost without a sentence, from {'the ' if side != 'both' else ''}{side_label(side)}",
            "Log-probability per token of the current sentence, with that sentence less without it; "
            "† differs from 0 (p < 0.05).",
            {name: {str(one.dropped): one.per_token for one in of} for name, of in own.items() if of},
            f"context.{side}.",
            4,
            "+",
            {str(one.dropped): dropped_label(one.dropped) for of in own.values() for one in of},
            daggers=frozenset(
                (name, str(one.dropped)) for name, of in own.items() for one in of if one.corrected < 0.05
            ),
        )


def dropped_label(dropped: Dropped) -> str:
    """A dropped sentence in words."""
    if dropped == "all":
        return "all context"
    return f"{dropped} before" if dropped > 0 else f"{-dropped} behind"


def side_label(side: DropSide) -> str:
    """Where sentences were dropped, in words."""
    return "both sides" if side == "both" else side
