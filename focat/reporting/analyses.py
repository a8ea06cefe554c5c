"""What `focat analyse` found, as tables and plots: attention, window sizes, context sentences."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from focat.analysis.results import ENTROPY_ORDERS, STACKS
from focat.errors import FocatError
from focat.reporting.gather import Record, ResultFile, Results, Trained
from focat.reporting.plots import Looks, Plot, bars_plot
from focat.reporting.tables import STARS, Cell, Obtained, Table

Figures = dict[str, dict[str, float]]
"""System → column → figure."""
_NOT_WHOLE = (AttributeError, KeyError, TypeError, ValueError)


@dataclass(frozen=True)
class Part:
    """Tables and plots that belong together."""

    title: str
    about: str
    note: str = ""
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)


@dataclass(frozen=True)
class _Analysis:
    """Systems that were analysed on the same documents."""

    systems: dict[str, Record]
    stars: dict[tuple[str, str], str]
    obtained: list[Obtained]
    corpus: str


def analysis_systems(results: Results, runs: Sequence[Trained]) -> list[str]:
    """The names of all systems that were analysed."""
    return list(dict.fromkeys(name for analysis in _analyses(results, runs) for name in analysis.systems))


def analysis_parts(results: Results, runs: Sequence[Trained], looks: Looks) -> list[Part]:
    """All that was found out, in the order in which it was asked."""
    analyses = _analyses(results, runs)
    parts = []
    for number, analysis in enumerate(analyses):
        suffix = f"-{number + 1}" if number else ""
        try:
            made = [_attention(analysis, looks, suffix), _robustness(analysis, looks, suffix), _context(analysis)]
        except _NOT_WHOLE as error:
            raise _not_whole(results.analyses[number], error) from None
        parts += [replace(part, note=_note(analysis, part)) for part in made if part.tables]
    return parts


def _note(analysis: _Analysis, part: Part) -> str:
    if not any(cell.stars for table in part.tables for _, cells in table.rows for cell in cells):
        return ""
    return f"Differs from {next(iter(analysis.systems))}: {STARS} (Holm’s correction)."


def _analyses(results: Results, runs: Sequence[Trained]) -> list[_Analysis]:
    found: dict[str, _Analysis] = {}
    for file in results.analyses:
        try:
            _add(found, file, runs)
        except _NOT_WHOLE as error:
            raise _not_whole(file, error) from None
    return list(found.values())


def _add(found: dict[str, _Analysis], file: ResultFile, runs: Sequence[Trained]) -> None:
    """What a file says, to what others say about the same documents."""
    record = file.records[0]
    corpus, systems = record["corpus"], record["systems"]
    analysis = found.setdefault(json.dumps(corpus, sort_keys=True), _Analysis({}, {}, [], _about(corpus)))
    names = {name: _name(name, of_system, file, record, runs) for name, of_system in systems.items()}
    for name, of_system in systems.items():
        analysis.systems[names[name]] = of_system | analysis.systems.get(names[name], {})
    for finding in record.get("findings", []):
        analysis.stars[names.get(finding["system"], finding["system"]), finding["column"]] = finding["stars"]
    analysis.obtained.append(_obtained(file, record))


def _not_whole(file: ResultFile, error: Exception) -> FocatError:
    return FocatError(f"{file.path}: is no whole analysis ({error!r}); make it again with `focat analyse`")


def _name(name: str, of_system: Record, file: ResultFile, record: Record, runs: Sequence[Trained]) -> str:
    """What the page calls a system: as the run in whose folder the file lies, or whose folder the analysis names."""
    if len(record["systems"]) == 1 and file.system in [trained.name for trained in runs]:
        return file.system
    folders = {str(trained.run.path): trained.name for trained in runs}
    return folders.get(str(of_system.get("run")), name)


def _about(corpus: Record) -> str:
    what = f"the {corpus['split']} split" if "split" in corpus else str((corpus.get("source") or {}).get("name", ""))
    return f"{what}, {corpus.get('sentences', 0):,} sentences of {corpus.get('documents', 0):,} documents"


def _obtained(file: ResultFile, record: Record) -> Obtained:
    significance = record.get("significance") or {}
    facts: dict[str, str | list[str]] = {
        "command": "focat analyse " + " ".join(str(of.get("run", name)) for name, of in record["systems"].items()),
        "corpus": _about(record.get("corpus") or {}),
        "suites": [f"{s['name']}#{s['sha256'][:8]}, rule:{s['rule']}" for s in record.get("suites", [])],
        "weights": [
            f"{name}: {of.get('weights')}#{of.get('weights_sha256', '')[:8]}" for name, of in record["systems"].items()
        ],
        "seed": f"{significance.get('seed')}, of {significance.get('trials'):,} trials" if significance else "",
        "version": f"focat {record.get('focat', '')}",
        "file": f"{file.path} ({file.date})",
    }
    return Obtained("focat analyse", {name: fact for name, fact in facts.items() if fact})


def _attention(analysis: _Analysis, looks: Looks, suffix: str) -> Part:
    """Share and entropy of each kind of attention (sections 4.5 and 4.6 of the paper)."""
    systems = {name: of["attention"] for name, of in analysis.systems.items() if "attention" in of}
    part = Part("Where attention goes", f"Of {analysis.corpus}.")
    shares: Figures = {
        name: {stack: 100 * of["share"][stack] for stack in STACKS if of["share"][stack] is not None}
        for name, of in systems.items()
    }
    shares = {name: found for name, found in shares.items() if found}
    if shares:
        part.tables.append(
            _table(
                analysis,
                "Attention that stays on the current sentence, %",
                "Of the attention that the current sentence gives, what it gives to itself.",
                shares,
                lambda stack: f"attention.share.{stack}",
                1,
            )
        )
        part.plots.append(bars_plot(f"share{suffix}", "Stays on the current sentence", "%", "", shares, looks))
    for order in ENTROPY_ORDERS:
        spread = {name: of["entropy"][order] for name, of in systems.items()}
        if spread:
            first, _, then = order.partition("-then-")
            part.tables.append(
                _table(
                    analysis,
                    f"Entropy of attention, {first} first, then {then}",
                    "In nats; smaller is more focused.",
                    spread,
                    lambda stack, order=order: f"attention.entropy.{order}.{stack}",  # type: ignore[misc]
                    3,
                )
            )
    if systems:
        narrow: Figures = {n: {s: of["entropy"][ENTROPY_ORDERS[0]][s] for s in STACKS} for n, of in systems.items()}
        part.plots.append(bars_plot(f"entropy{suffix}", "Entropy of attention", "nats", "", narrow, looks))
    return part


def _robustness(analysis: _Analysis, looks: Looks, suffix: str) -> Part:
    """What windows of other sizes do."""
    part = Part("Windows of other sizes", f"Of {analysis.corpus}. Sizes in brackets were not seen in training.")
    figures: dict[str, Figures] = {}  # by size
    brackets: set[tuple[str, str]] = set()
    for name, of in analysis.systems.items():
        for entry in of.get("robustness", {}).get("sizes", []):
            size = str(entry["size"])
            if not entry.get("seen", True):
                brackets.add((name, size))
            found = {f"accuracy.{what}": value for what, value in entry.get("accuracy", {}).items()}
            for figure, value in {"bleu": entry.get("bleu"), **found, "loss": entry["loss"]}.items():
                if value is not None:
                    figures.setdefault(figure, {}).setdefault(name, {})[size] = value
    for figure, values in figures.items():
        title = _figure_title(figure)
        digits = 3 if figure == "loss" else 2 if figure == "bleu" else 1
        part.tables.append(
            _table(
                analysis,
                f"{title}, by window size",
                "",
                values,
                lambda size, figure=figure: f"robustness.{figure}.{size}",  # type: ignore[misc]
                digits,
                brackets,
            )
        )
        name = f"robustness-{''.join(c if c.isalnum() else '-' for c in figure)}{suffix}"
        part.plots.append(bars_plot(name, title, "", "sentences in a window", values, looks))
    return part


def _figure_title(figure: str) -> str:
    return {"bleu": "BLEU", "loss": "Loss of the current sentence"}.get(
        figure, f"Right answers, {figure.removeprefix('accuracy.')}, %"
    )


def _context(analysis: _Analysis) -> Part:
    """What each context sentence is worth."""
    part = Part("What context sentences contribute", f"Of {analysis.corpus}.")
    rows: dict[str, Figures] = {}  # by what is dropped
    for name, of in analysis.systems.items():
        for row in of.get("context", {}).get("dropped", []):
            rows.setdefault(row["sides"], {}).setdefault(name, {})[_dropped(row["dropped"])] = row["per_token"]
    names = {_dropped(d): d for of in analysis.systems.values() for d in _all_dropped(of)}
    for sides, values in rows.items():
        where = "both sides" if sides == "both" else f"the {sides}"
        part.tables.append(
            _table(
                analysis,
                f"Lost without a sentence, from {where}",
                "Log-probability per token of the current sentence, with that sentence less without it.",
                values,
                lambda label, sides=sides: f"context.{sides}.{names[label]}",  # type: ignore[misc]
                4,
                sign="+",
            )
        )
    return part


def _all_dropped(of_system: Record) -> list[int | str]:
    return [row["dropped"] for row in of_system.get("context", {}).get("dropped", [])]


def _dropped(what: int | str) -> str:
    return "all context" if what == "all" else f"{what} before" if int(what) > 0 else f"{-int(what)} behind"


def _table(
    analysis: _Analysis,
    title: str,
    caption: str,
    values: Figures,
    measure: Callable[[Any], str],
    digits: int,
    brackets: set[tuple[str, str]] | None = None,
    sign: str = "",
) -> Table:
    columns = list(dict.fromkeys(column for found in values.values() for column in found))
    if all(column.isdigit() for column in columns):
        columns.sort(key=int)
    rows = []
    for name, found in values.items():
        cells = []
        for column in columns:
            text = f"{found[column]:{sign}.{digits}f}".replace("-", "−") if column in found else "–"
            unseen = (name, column) in (brackets or set()) and column in found
            cells.append(Cell(f"[{text}]" if unseen else text, stars=analysis.stars.get((name, measure(column)), "")))
        rows.append((name, cells))
    return Table(title, columns, rows, caption, obtained=analysis.obtained)
