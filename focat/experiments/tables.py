"""The paper's tables from a plan's results, with the paper's own figures beside them, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from focat.evaluation.disc import DISTANCES, UNKNOWN
from focat.evaluation.significance import p_text
from focat.experiments.figures import OTHER_SIZE, Cell, Measured, keys_of, measured, quality_name, results_of
from focat.experiments.paper import ROBUSTNESS, SHIFTS, TABLES, PaperTable, misprints, paper_figure
from focat.experiments.plan import Plan
from focat.experiments.results import Record

_RULES = {
    "current-sum": "the sum of log-probabilities of the current sentence",
    "current-mean": "the mean log-probability of the current sentence's tokens",
    "window-mean": "the mean log-probability of all tokens of the window, as the authors do",
}
_PAPERS_OWN = "– in the paper"


@dataclass(frozen=True)
class Row:
    """One line of a table; of the paper, or ours."""

    label: str
    cells: Mapping[str, Cell]
    paper: bool = False


@dataclass(frozen=True)
class Table:
    """One table with what is to be said about it."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    decimals: int = 2
    highest_is_best: bool = False

    def markdown(self) -> str:
        """Title, table, notes."""
        best = {column: self._best(column) for column in self.columns}
        under = _line(["---", *["---:"] * len(self.columns)])
        lines = [f"### {self.title}", "", _line(["system", *self.columns]), under]
        for row in self.rows:
            cells = [self._text(row, column, best[column]) for column in self.columns]
            lines.append(_line([f"*{row.label}*" if row.paper else row.label, *cells]))
        return "\n".join([*lines, "", *(f"{note}  " for note in self.notes)]).rstrip() + "\n"

    def record(self) -> Record:
        """The same for a JSON file."""
        rows = [
            {
                "system": row.label,
                "paper": row.paper,
                "figures": {column: cell.record() for column, cell in row.cells.items()},
            }
            for row in self.rows
        ]
        return {"name": self.name, "title": self.title, "columns": list(self.columns), "rows": rows} | {
            "notes": list(self.notes)
        }

    def _text(self, row: Row, column: str, best: float | None) -> str:
        cell = row.cells.get(column)
        if cell is None:
            return ""
        if column == "p":
            return p_text(cell.value)
        spread = "" if cell.spread is None else f" ± {cell.spread:.{self.decimals}f}"
        text = f"{cell.value:.{self.decimals}f}"
        bold = best is not None and not row.paper and text == f"{best:.{self.decimals}f}"
        text = f"{f'**{text}**' if bold else text}{spread}"
        return f"*{text}*" if row.paper else text + cell.mark.replace("*", "\\*")

    def _best(self, column: str) -> float | None:
        """The best of ours, where they differ."""
        values = [row.cells[column].value for row in self.rows if not row.paper and column in row.cells]
        return max(values) if len(set(values)) > 1 and self.highest_is_best else None


@dataclass(frozen=True)
class Tables:
    """All tables of a plan, the data of its plots, and every comparison."""

    title: str
    tables: list[Table]
    curves: Record = field(default_factory=dict)
    findings: list[Record] = field(default_factory=list)

    def markdown(self) -> str:
        """One page."""
        return f"# {self.title}\n\n" + "\n".join(table.markdown() for table in self.tables)

    def record(self) -> Record:
        """For a JSON file."""
        tables = [table.record() for table in self.tables]
        return {"kind": "focat tables", "plan": self.title, "tables": tables} | {
            "curves": self.curves,
            "findings": self.findings,
        }


def build(plan: Plan, title: str, records: Sequence[Record]) -> Tables:
    """Every table that the results of steps have something for."""
    tables: list[Table] = []
    findings: list[Record] = []
    for rule in plan.rules if plan.suites else plan.rules[:1]:
        by_rule = measured(plan, records, rule, quality=rule == plan.rules[0])
        tables += _contrastive_tables(by_rule, first=rule == plan.rules[0])
        findings += [{**asdict(finding), "rule": rule, "seed": seed} for seed, finding in by_rule.findings]
        if rule == plan.rules[0]:
            main = by_rule
    analyses = _attention(plan, records), _losses(plan, records), _robustness(plan, records), _sweep(main, records)
    tables += [table for table in analyses if table is not None]
    tables += _significance(main)
    curves = {f"{name}.{seed}": _curve(records, (name, seed)) for name, seed in keys_of(records)}
    return Tables(title, tables, {name: curve for name, curve in curves.items() if curve}, findings)


# ------------------------------------------------------------------------------------------------ accuracy and quality


def _contrastive_tables(found: Measured, first: bool) -> list[Table]:
    """The paper's tables that have rows of the plan; one of everything where the paper has none."""
    plan, systems = found.plan, found.names()
    if not systems:
        return []
    name_of_rule = "" if first else f" (candidates ranked by {found.rule})"
    note = f"Candidates are ranked by {_RULES[found.rule]} ({found.rule})."
    notes = [note, *_notes(found)]
    tables = []
    in_paper = {row for table in TABLES if table.pair == plan.pair for row in table.rows}
    beyond = [system for system in systems if plan.row_of(system) not in in_paper]
    for table in (table for table in TABLES if table.pair == plan.pair and "Attn entropy" not in table.columns):
        own = [system for system in systems if plan.row_of(system) in table.rows]
        if not _worth_it(table, [plan.row_of(system) for system in own]):
            continue
        wanted = [system for system in systems if system in own or (table.number in (1, 2, 8) and system in beyond)]
        wanted_rows = [plan.row_of(system) for system in wanted]
        columns = _columns(plan, table, found.columns())
        label: Callable[[str], str] = plan.title_of
        if table.number == 7:
            label = lambda system: f"{plan.title_of(system)} ({SHIFTS[plan.row_of(system)]})"  # noqa: E731
        rows = _rows(found, wanted, columns, table, label)
        literature = [row for row in table.rows if "et al." in row or " and " in row]
        rows += [Row(f"{row}, as published", _paper_cells(plan, table, row, columns), True) for row in literature]
        title = f"Table {table.number} of the paper: {table.about}{name_of_rule}"
        tables.append(
            Table(
                f"table{table.number}.{found.rule}",
                title,
                columns,
                rows,
                [*notes, *_conflicts(table, wanted_rows, columns)],
                highest_is_best=True,
            )
        )
    if not tables:
        columns = [*found.columns()]
        rows = [Row(plan.title_of(system), _cells(found, system, columns)) for system in systems]
        tables.append(
            Table(
                f"accuracy.{found.rule}",
                f"Accuracy and quality{name_of_rule}",
                columns,
                rows,
                notes,
                highest_is_best=True,
            )
        )
    return tables


def _conflicts(table: PaperTable, rows: Sequence[str], columns: Sequence[str]) -> list[str]:
    """What the paper prints in two ways, of what is shown."""
    known = [m for m in misprints() if (m.table, m.pair) == (table.number, table.pair)]
    shown = {column.removesuffix(" regenerate") for column in columns}
    return [f"A conflict inside the paper: {m}." for m in known if m.row in rows and m.column in shown]


def _worth_it(table: PaperTable, rows: Sequence[str]) -> bool:
    """A table is about what makes it different from the others: a base or s4to4-shift-cd alone fills none of them."""
    if table.number in (6, 7):
        return len(rows) > 1
    if table.number == 4:
        return "s4to4-shift-cd" in rows
    return bool(rows)


def _columns(plan: Plan, table: PaperTable, ours: Sequence[str]) -> list[str]:
    """The paper's columns that we have, then what we have besides: distances nobody knows, quality in other ways."""
    wanted = [*table.columns, *(["d=0", "Disc_all-d", UNKNOWN, "all"] if table.number in (2, 8) else [])]
    accuracy = [c for c in dict.fromkeys(wanted) if c in ours]
    quality = [c for c in ours if c.rpartition(" ")[2] in ("reuse", "regenerate", "none") and " " in c]
    return [*accuracy, *(quality if "BLEU" in table.columns else [])]


def _rows(
    found: Measured, systems: Sequence[str], columns: Sequence[str], table: PaperTable, label: Callable[[str], str]
) -> list[Row]:
    rows = []
    for system in systems:
        rows.append(Row(label(system), _cells(found, system, columns)))
        paper = _paper_cells(found.plan, table, found.plan.row_of(system), columns)
        if paper:
            rows.append(Row(_PAPERS_OWN, paper, True))
    return rows


def _cells(found: Measured, system: str, columns: Sequence[str]) -> dict[str, Cell]:
    cells = {column: found.cell(system, column) for column in columns}
    return {column: cell for column, cell in cells.items() if cell is not None}


def _paper_cells(plan: Plan, table: PaperTable, row: str, columns: Sequence[str]) -> dict[str, Cell]:
    """The paper's figures under our columns; its BLEU is of windows that are decoded anew."""
    cells = {}
    for column in columns:
        metric, _, context = column.rpartition(": ")[2].partition(" ")
        name = metric if metric in ("BLEU", "COMET") and context == "regenerate" else column
        value = paper_figure(plan.pair, row, name, table.number)
        if value is not None:
            cells[column] = Cell(value)
    return cells


def _notes(found: Measured) -> list[str]:
    plan, notes, columns = found.plan, [], found.columns()
    there = [name for name in DISTANCES if name in columns]
    if there and len(there) < len(DISTANCES):
        notes.append(f"Of d=1, d=2, d=3 and d>3, the suite has {', '.join(there)}: Disc. is over no more than that.")
    if UNKNOWN in columns:
        notes.append("Instances of unknown distance count under all, and not in Disc.")
    if found.findings:
        how = "" if plan.correction == "none" else f", corrected ({plan.correction})"
        titles = _baselines(plan)
        notes.append(
            f"\\* better than {titles}: p < 0.05{how}, with every seed "
            "(McNemar's test; approximate randomisation for BLEU and chrF)."
        )
    if any(len(plan.seeds_of(name)) > 1 for name in found.names()):
        notes.append("Mean ± standard deviation over seeds.")
    if plan.pair is not None:
        notes.append("In italics the paper's figures, from other and larger corpora: beside ours, not against them.")
    return notes


def _baselines(plan: Plan) -> str:
    """What a star is given for beating: base and s4to4 (s4to4: than base)."""
    if any(system.against is not None for system in plan.systems.values()):
        return "what it is compared with"
    titles = [*map(plan.title_of, plan.against)]
    among = [f"{title}: than {' and '.join(titles[: i + 1])}" for i, title in enumerate(titles[1:])]
    return " and ".join(titles) + (f" ({'; '.join(among)})" if among else "")


def _significance(found: Measured) -> list[Table]:
    if not found.findings:
        return []
    plan, several = found.plan, len({seed for seed, _ in found.findings}) > 1
    rows = []
    for seed, finding in found.findings:
        pair = f"{plan.title_of(finding.system)} − {plan.title_of(finding.baseline)}: {finding.column}"
        cells = {
            "difference": Cell(finding.difference),
            "from": Cell(finding.interval[0]),
            "to": Cell(finding.interval[1]),
            "p": Cell(finding.corrected),
        }
        rows.append(Row(f"{pair} (seed {seed})" if several else pair, cells))
    note = "The difference lies between from and to with 95 % confidence."
    return [Table("significance", "Differences between systems", list(cells), rows, [note])]


# ------------------------------------------------------------------------------------------------ analyses


def _attention(plan: Plan, records: Sequence[Record]) -> Table | None:
    """Table 5, and the share of attention that stays on the current sentence."""

    def figures(result: Record) -> dict[str, float | None]:
        if "entropy" not in result:
            return {}
        share = result["share"]
        return {
            "entropy, mean first": result["entropy"]["mean-then-entropy"]["all"],
            "entropy, mean last": result["entropy"]["entropy-then-mean"]["all"],
            **{f"share, {stack}": share[stack] for stack in ("encoder", "decoder", "cross")},
        }

    rows = []
    for system, cells in _by_system(plan, records, "analyse", figures):
        rows.append(Row(plan.title_of(system), cells))
        printed = paper_figure(plan.pair, plan.row_of(system), "Attn entropy")
        if printed is not None:
            rows.append(Row(_PAPERS_OWN, {"entropy, mean first": Cell(printed)}, True))
    notes = [
        "Entropy in nats, over self- and cross-attention: of the mean of all heads and layers (the authors' way), and "
        "the mean of the entropies of each.",
        "Share: how much of the current sentence's attention stays on it.",
    ]
    return _table("table5", "Where attention goes (Table 5 of the paper)", rows, notes, 3)


def _losses(plan: Plan, records: Sequence[Record]) -> Table | None:
    """What validation says about the current sentence and its context (figure 3)."""

    def figures(result: Record) -> dict[str, float | None]:
        return {name: _at_best(result).get(name) for name in ("current", "context", "ratio")}

    rows = [Row(plan.title_of(system), cells) for system, cells in _by_system(plan, records, "train", figures)]
    note = "Per token on the dev set, at the best validation, with the label smoothing of training."
    return _table(
        "losses", "Losses of the current sentence and of its context (figure 3 of the paper)", rows, [note], 4
    )


def _at_best(trained: Record) -> Record:
    """The best validation, whatever it was best by."""
    best = trained.get("best") or {}
    return next((v for v in trained.get("validations", ()) if v["update"] == best.get("update")), {})


def _robustness(plan: Plan, records: Sequence[Record]) -> Table | None:
    """BLEU with windows of other sizes than in training (figure 4)."""
    rows = []
    for test, planned in plan.tests.items():
        context = "regenerate" if "regenerate" in planned.contexts else planned.contexts[0]
        for system in plan.systems if planned.windows else ():
            cells = _sizes(plan, records, system, f"evaluate.{test}.{context}")
            if not cells:
                continue
            rows.append(Row(quality_name(plan, test, plan.title_of(system), f"({context})"), cells))
            lost = ROBUSTNESS.get(plan.row_of(system), {}) if plan.pair == "en-ru" else {}
            trained = paper_figure(plan.pair, plan.row_of(system), "BLEU")
            if lost and trained is not None:
                paper = {f"window {size}": Cell(trained + change) for size, change in lost.items()}
                rows.append(Row(_PAPERS_OWN, {**paper, f"window {min(lost) - 1}": Cell(trained)}, True))
    columns = sorted({c for row in rows for c in row.cells}, key=lambda c: int(c.rpartition(" ")[2]))
    title = "BLEU with windows of other sizes than in training (figure 4 of the paper)"
    return Table("robustness", title, columns, rows, highest_is_best=True) if len(columns) > 1 else None


def _sizes(plan: Plan, records: Sequence[Record], system: str, step: str) -> dict[str, Cell]:
    values: dict[int, list[float]] = {}
    trained = {r["seed"]: r["result"]["window"] for r in records if (r["system"], r["step"]) == (system, "train")}
    for record in records:
        size = OTHER_SIZE.search(record["step"])
        if record["system"] == system and OTHER_SIZE.sub("", record["step"]) == step:
            score = record["result"]["figures"].get("BLEU", {}).get("score")
            if score is not None:
                values.setdefault(int(size[1]) if size else trained[record["seed"]], []).append(score)
    return {f"window {size}": Cell.of(values[size]) for size in sorted(values)}


def _sweep(found: Measured, records: Sequence[Record]) -> Table | None:
    """Systems that differ in their discount alone (figure 2), from none to full."""
    plan = found.plan
    trained = {r["system"]: r["result"] for r in records if r["step"] == "train"}
    alike = {
        system: result["discount"]
        for system, result in trained.items()
        if isinstance(result["discount"], float | int)
        and (result["window"] > 1, result["shift"], result["segment_embeddings"]) == (True, 0, "none")
    }
    if len(set(alike.values())) < 3:
        return None

    def figures(result: Record) -> dict[str, float | None]:
        return {f"attention share, {stack}": result.get("share", {}).get(stack) for stack in ("encoder", "decoder")}

    attention = dict(_by_system(plan, records, "analyse", figures))
    rows = []
    for system in sorted(alike, key=lambda name: -alike[name]):
        runs = [r["result"] for r in records if (r["system"], r["step"]) == (system, "train")]
        losses = [at["current"] for at in map(_at_best, runs) if "current" in at]
        disc = found.cell(system, "Disc.")
        cells = {"CD": Cell(alike[system])} | ({"current loss": Cell.of(losses)} if losses else {})
        cells |= {"Disc.": disc} if disc else {}
        rows.append(Row(plan.title_of(system), cells | attention.get(system, {})))
    columns = list(dict.fromkeys(column for row in rows for column in row.cells))
    return Table("sweep", "The discount, from none to full (figure 2 of the paper)", columns, rows, decimals=3)


def _by_system(
    plan: Plan, records: Sequence[Record], step: str, figures: Callable[[Record], Mapping[str, float | None]]
) -> list[tuple[str, dict[str, Cell]]]:
    """Figures of one step over the seeds of each system; systems without any are left out."""
    found = []
    for system in plan.systems:
        of_seeds = [
            figures(record["result"])
            for key in keys_of(records)
            if key[0] == system
            for record in results_of(records, key, step)
        ]
        values: dict[str, list[float]] = {}
        for seed in of_seeds:
            for name, value in seed.items():
                if value is not None:
                    values.setdefault(name, []).append(value)
        if values:
            found.append((system, {name: Cell.of(several) for name, several in values.items()}))
    return found


def _curve(records: Sequence[Record], key: tuple[str, int]) -> list[Any]:
    """The losses at each validation, for the plot of figure 3."""
    trained = results_of(records, key, "train")
    return [validation for record in trained for validation in record["result"]["validations"]]


def _table(name: str, title: str, rows: list[Row], notes: Sequence[str], decimals: int) -> Table | None:
    columns = list(dict.fromkeys(column for row in rows for column in row.cells))
    return Table(name, title, columns, rows, notes, decimals) if rows else None


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
