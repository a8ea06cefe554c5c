"""The tables of a plan: the paper's, with the paper's own figures beside ours, and what analyses add to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from focat.choices import ScoringRule
from focat.evaluation.disc import DISTANCES, UNKNOWN
from focat.experiments.paper import PaperTable, misprints, paper
from focat.experiments.plan import Plan
from focat.experiments.result_tables import PlanFinding, PlanTables, ResultRow, ResultTable, SeedMean
from focat.experiments.results import AnalyseResult, EvaluateResult, StepResult, TrainResult
from focat.experiments.scores import AnyResult, PlanResults, PlanScores, score_systems

_RULES: dict[ScoringRule, str] = {
    "current-sum": "the sum of log-probabilities of the current sentence",
    "current-mean": "the mean log-probability of the current sentence's tokens",
    "window-mean": "the mean log-probability of all tokens of the window, as the authors do",
}
_IN_THE_PAPER = "– in the paper"


def build_tables(plan: Plan, title: str, results: Sequence[StepResult]) -> PlanTables:
    """Build every table that the results have figures for."""
    found = PlanResults(plan, results)
    rules = plan.rules if plan.suites else plan.rules[:1]
    by_rule = [score_systems(found, rule, quality=rule == rules[0]) for rule in rules]
    tables = [table for scores in by_rule for table in _accuracy_tables(scores, first=scores is by_rule[0])]
    findings = [
        PlanFinding(**dict(finding), rule=scores.rule, seed=seed)
        for scores in by_rule
        for seed, finding in scores.findings
    ]
    analyses = _attention_table(found), _loss_table(found), robustness_table(found), _sweep_table(by_rule[0])
    tables += [table for table in analyses if table is not None]
    first = [finding for finding in findings if finding.rule == rules[0]]
    tables += [significance_table(plan, first)] if first else []
    curves = {
        f"{name}.{seed}": result.validations
        for name, seed in found.systems_and_seeds
        for _, result in found.of_type(TrainResult, name, seed)
        if result.validations
    }
    return PlanTables(kind="focat tables", plan=title, tables=tuple(tables), curves=curves, findings=tuple(findings))


def significance_table(plan: Plan, findings: Sequence[PlanFinding], column: str | None = None) -> ResultTable:
    """Every comparison, or those in one column, with the interval of the difference."""
    several_seeds = len({finding.seed for finding in findings}) > 1
    rows = []
    for finding in findings:
        if column not in (None, finding.column):
            continue
        label = f"{plan.title_of(finding.system)} − {plan.title_of(finding.baseline)}"
        label += f": {finding.column}" if column is None else ""
        label += f" (seed {finding.seed})" if several_seeds else ""
        low, high = finding.interval
        values = {"difference": finding.difference, "from": low, "to": high, "p": finding.corrected}
        rows.append(ResultRow(system=label, figures={name: SeedMean(value=value) for name, value in values.items()}))
    title = "Differences between systems"
    return ResultTable(
        name="significance",
        title=title if column is None else f"{title}: {column}",
        columns=("difference", "from", "to", "p"),
        rows=tuple(rows),
        notes=("The difference lies between from and to with 95 % confidence.",),
        p_column="p",
    )


# ------------------------------------------------------------------------------------------------ accuracy and quality


def _accuracy_tables(scores: PlanScores, first: bool) -> list[ResultTable]:
    """The paper's tables that have rows of the plan; one of everything where the paper has none."""
    plan, systems = scores.plan, scores.names()
    if not systems:
        return []
    suffix = "" if first else f" (candidates ranked by {scores.rule})"
    notes = [f"Candidates are ranked by {_RULES[scores.rule]} ({scores.rule}).", *_notes(scores)]
    in_paper = {name for table in paper().of_pair(plan.pair) for name in table.all_rows}
    tables = []
    for table in paper().of_pair(plan.pair):
        own = [system for system in systems if plan.row_of(system) in (*table.rows, *table.compared)]
        if table.analysis or not table.is_covered_by([plan.row_of(system) for system in own]):
            continue
        shown = [s for s in systems if s in own or (table.other_systems and plan.row_of(s) not in in_paper)]
        columns = _columns(scores, table)
        rows = []
        for system in shown:
            label = table.labels.get(plan.row_of(system))
            title = plan.title_of(system)
            rows.append(_our_row(scores, system, columns, f"{title} ({label})" if label else title))
            published = table.compared.get(plan.row_of(system))
            printed = _printed(scores, table, published or plan.row_of(system), columns)
            label = f"– {published}, as published" if published else _IN_THE_PAPER
            rows += [ResultRow(system=label, paper=True, figures=printed)] if printed else []
        beside = {table.compared.get(plan.row_of(system)) for system in shown}
        for name in (name for name in (*table.literature, *table.also) if name not in beside):
            printed = _printed(scores, table, name, columns)
            rows.append(ResultRow(system=f"{name}, as published", paper=True, figures=printed))
        conflicts = _conflicts(scores, table, [plan.row_of(system) for system in shown], columns)
        tables.append(
            ResultTable(
                name=f"table{table.number}.{scores.rule}",
                title=f"Table {table.number} of the paper: {table.about}{suffix}",
                columns=tuple(columns),
                rows=tuple(rows),
                notes=(*notes, *table.notes, *conflicts),
                highest_is_best=True,
            )
        )
    if not tables:
        columns = scores.columns()
        tables.append(
            ResultTable(
                name=f"accuracy.{scores.rule}",
                title=f"Accuracy and quality{suffix}",
                columns=tuple(columns),
                rows=tuple(_our_row(scores, system, columns, plan.title_of(system)) for system in systems),
                notes=tuple(notes),
                highest_is_best=True,
            )
        )
    return tables


def _our_row(scores: PlanScores, system: str, columns: Sequence[str], label: str) -> ResultRow:
    values = {column: scores.values(system, column) for column in columns}
    figures = {column: SeedMean.of(found, scores.star(system, column)) for column, found in values.items() if found}
    return ResultRow(system=label, figures=figures)


def _columns(scores: PlanScores, table: PaperTable) -> list[str]:
    """The paper's columns that we have, then ours: distances that are unknown, metrics of other kinds of context."""
    ours = scores.columns()
    accuracy = [column for column in dict.fromkeys((*table.columns, *table.other_columns)) if column in ours]
    quality = [column.name for column in scores.found.quality_columns() if column.name in ours]
    return [*accuracy, *sorted(quality, key=ours.index)] if "BLEU" in table.columns else accuracy


def _paper_column(scores: PlanScores, column: str) -> str:
    """The paper's name of one of our columns; its metrics are of windows that are translated as a whole."""
    quality = {q.name: q.metric for q in scores.found.quality_columns() if q.context == "regenerate"}
    return quality.get(column, column)


def _printed(scores: PlanScores, table: PaperTable, name: str, columns: Sequence[str]) -> dict[str, SeedMean]:
    """The figures of a row of the paper, under our columns."""
    printed = table.row(name)
    names = {column: _paper_column(scores, column) for column in columns}
    return {column: SeedMean(value=printed[name]) for column, name in names.items() if name in printed}


def _conflicts(scores: PlanScores, table: PaperTable, rows: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The paper's contradictions about the figures that are shown."""
    shown = {_paper_column(scores, column) for column in columns}
    known = [m for m in misprints() if (m.table, m.pair) == (table.number, table.pair)]
    return [f"A conflict inside the paper: {m}." for m in known if m.row in rows and m.column in shown]


def _notes(scores: PlanScores) -> list[str]:
    plan, notes, columns = scores.plan, [], scores.columns()
    distances = [name for name in DISTANCES if name in columns]
    if distances and len(distances) < len(DISTANCES):
        listed = ", ".join(distances)
        notes.append(f"Of d=1, d=2, d=3 and d>3, the suite has {listed}: Disc. is over no more than that.")
    if UNKNOWN in columns:
        notes.append("Instances of unknown distance count under all, and not in Disc.")
    if scores.findings:
        correction = "" if plan.correction == "none" else f", corrected ({plan.correction})"
        notes.append(
            f"* better than {_baselines(plan)}: p < 0.05{correction}, with every seed "
            "(McNemar's test; approximate randomisation for BLEU and chrF)."
        )
    if any(len(plan.seeds_of(name)) > 1 for name in scores.names()):
        notes.append("Mean ± standard deviation over seeds.")
    if plan.pair is not None:
        notes.append("In italics the paper's figures, from other and larger corpora: beside ours, not against them.")
    return notes


def _baselines(plan: Plan) -> str:
    """The systems that a star is against, such as: base and s4to4 (s4to4: than base)."""
    if any(system.against is not None for system in plan.systems.values()):
        return "what it is compared with"
    titles = [*map(plan.title_of, plan.against)]
    among = [f"{title}: than {' and '.join(titles[: i + 1])}" for i, title in enumerate(titles[1:])]
    return " and ".join(titles) + (f" ({'; '.join(among)})" if among else "")


# ------------------------------------------------------------------------------------------------ analyses


def _attention_table(found: PlanResults) -> ResultTable | None:
    """Table 5, and the share of attention that stays on the current sentence."""

    def figures(result: AnalyseResult) -> dict[str, float | None]:
        if not result.entropy:
            return {}
        return {
            "entropy, mean first": result.entropy["mean-then-entropy"]["all"],
            "entropy, mean last": result.entropy["entropy-then-mean"]["all"],
            **{f"share, {stack}": share for stack, share in result.share.items()},
        }

    rows = []
    for system, cells in _over_seeds(found, AnalyseResult, figures).items():
        rows.append(ResultRow(system=found.plan.title_of(system), figures=cells))
        printed = paper().figure(found.plan.pair, found.plan.row_of(system), "Attn entropy")
        if printed is not None:
            figure = {"entropy, mean first": SeedMean(value=printed)}
            rows.append(ResultRow(system=_IN_THE_PAPER, paper=True, figures=figure))
    notes = (
        "Entropy in nats, over self- and cross-attention: of the mean of all heads and layers (the authors' way), and "
        "the mean of the entropies of each.",
        "Share: how much of the current sentence's attention stays on it.",
    )
    return _table("table5", "Where attention goes (Table 5 of the paper)", rows, notes, 3)


def _loss_table(found: PlanResults) -> ResultTable | None:
    """The losses of the current sentence and of its context (figure 3)."""

    def figures(result: TrainResult) -> dict[str, float | None]:
        best = result.best_validation
        return {} if best is None else {"current": best.current, "context": best.context, "ratio": best.ratio}

    rows = [
        ResultRow(system=found.plan.title_of(system), figures=cells)
        for system, cells in _over_seeds(found, TrainResult, figures).items()
    ]
    note = "Per token on the dev set, at the best validation, with the label smoothing of training."
    title = "Losses of the current sentence and of its context (figure 3 of the paper)"
    return _table("losses", title, rows, (note,), 4)


def robustness_table(found: PlanResults) -> ResultTable | None:
    """BLEU with windows of other sizes than in training (figure 4)."""
    plan = found.plan
    rows: list[ResultRow] = []
    sizes: set[int] = set()
    for test, planned in plan.tests.items():
        context = "regenerate" if "regenerate" in planned.contexts else planned.contexts[0]
        for system in plan.systems if planned.windows else ():
            values = _bleu_by_size(found, system, test, context)
            if not values:
                continue
            prefix = "" if len(plan.tests) == 1 else f"{test}: "
            label, ours = f"{prefix}{plan.title_of(system)} ({context})", {s: SeedMean.of(v) for s, v in values.items()}
            rows.append(ResultRow(system=label, figures={f"window {size}": mean for size, mean in ours.items()}))
            sizes |= values.keys()
            lost = paper().robustness.get(plan.row_of(system), {}) if plan.pair == "en-ru" else {}
            trained = paper().figure(plan.pair, plan.row_of(system), "BLEU")
            if lost and trained is not None:
                printed = {size: trained + change for size, change in lost.items()} | {min(lost) - 1: trained}
                figures = {f"window {size}": SeedMean(value=value) for size, value in printed.items()}
                rows.append(ResultRow(system=_IN_THE_PAPER, paper=True, figures=figures))
                sizes |= printed.keys()
    if len(sizes) < 2:
        return None
    title = "BLEU with windows of other sizes than in training (figure 4 of the paper)"
    columns = tuple(f"window {size}" for size in sorted(sizes))
    return ResultTable(name="robustness", title=title, columns=columns, rows=tuple(rows), highest_is_best=True)


def _bleu_by_size(found: PlanResults, system: str, test: str, context: str) -> dict[int, list[float]]:
    """BLEU of each seed, by window size."""
    trained = {step.seed: result.window for step, result in found.of_type(TrainResult, system)}
    values: dict[int, list[float]] = {}
    for step, result in found.of_type(EvaluateResult, system, all_windows=True):
        if (step.dataset, step.context) == (test, context) and "BLEU" in result.figures:
            size = trained[step.seed] if step.window is None else step.window
            values.setdefault(size, []).append(result.figures["BLEU"].score)
    return {size: values[size] for size in sorted(values)}


def _sweep_table(scores: PlanScores) -> ResultTable | None:
    """Systems that differ only in their discount (figure 2), from none to full."""
    found, plan = scores.found, scores.plan
    discounts = {}
    for system in plan.systems:
        for _, result in found.of_type(TrainResult, system):
            plain = result.window > 1 and result.shift == 0 and result.segment_embeddings == "none"
            if plain and isinstance(result.discount, float | int):
                discounts[system] = float(result.discount)
    if len(set(discounts.values())) < 3:
        return None

    def shares(result: AnalyseResult) -> dict[str, float | None]:
        return {f"attention share, {stack}": result.share.get(stack) for stack in ("encoder", "decoder")}

    def losses(result: TrainResult) -> dict[str, float | None]:
        return {"current loss": result.best_validation.current if result.best_validation else None}

    attention, loss = _over_seeds(found, AnalyseResult, shares), _over_seeds(found, TrainResult, losses)
    rows = []
    for system in sorted(discounts, key=lambda name: -discounts[name]):
        disc = scores.values(system, "Disc.")
        figures = {"CD": SeedMean(value=discounts[system]), **loss.get(system, {})}
        figures |= {"Disc.": SeedMean.of(disc, scores.star(system, "Disc."))} if disc else {}
        rows.append(ResultRow(system=plan.title_of(system), figures={**figures, **attention.get(system, {})}))
    return _table("sweep", "The discount, from none to full (figure 2 of the paper)", rows, (), 3)


def _over_seeds(
    found: PlanResults, kind: type[AnyResult], figures: Callable[[AnyResult], Mapping[str, float | None]]
) -> dict[str, dict[str, SeedMean]]:
    """Figures of one kind of result over the seeds of each system; systems without any are left out."""
    means = {}
    for system in found.plan.systems:
        values: dict[str, list[float]] = {}
        for _, result in found.of_type(kind, system):
            for name, value in figures(result).items():
                if value is not None:
                    values.setdefault(name, []).append(value)
        if values:
            means[system] = {name: SeedMean.of(several) for name, several in values.items()}
    return means


def _table(
    name: str, title: str, rows: Sequence[ResultRow], notes: tuple[str, ...], decimals: int
) -> ResultTable | None:
    columns = tuple(dict.fromkeys(column for one in rows for column in one.figures))
    if not rows:
        return None
    return ResultTable(name=name, title=title, columns=columns, rows=tuple(rows), notes=notes, decimals=decimals)
