"""The tables of docs/results.md and its appendix, from the files beside this one.

    python results/build.py           write them into the pages
    python results/build.py --check   say whether they hold what the files say

A table stands between `<!-- WHAT FOLDER … -->` and `<!-- end -->`. What there is:

    table FOLDER NAME       a table of a plan (docs/reproducing.md), built from the results of its steps
    compared FOLDER COLUMN  what systems of a plan differ by in one column of its tables
    distances FOLDER SUITE  accuracy by distance, of all systems of a plan
    plot FOLDER WHAT        accuracy, or current for its loss, drawn into docs/FOLDER-WHAT.svg
    obtained FOLDER         how each system of a plan was trained
    contrast FOLDER FILE    what `focat contrast --json` wrote about one run
    logs FOLDER             where the losses of runs ended, by the logs that `focat train` wrote
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from focat.choices import ScoringRule
from focat.config.loading import read_tree
from focat.evaluation.results import ContrastResults
from focat.evaluation.significance import Interval, accuracy_interval
from focat.experiments.plan import Plan, load_plan
from focat.experiments.result_tables import PlanTables
from focat.experiments.results import ContrastResult, StepResult, TrainResult, read_result
from focat.experiments.tables import build_tables, significance_table
from focat.reporting.plots import Plot, curves_plot, points_plot, series_styles

HERE = Path(__file__).parent
PAGES = sorted((HERE.parent / "docs").glob("results*.md"))
_BLOCK = re.compile(r"(<!-- (\w+) (\S+)(?: ((?!-->).+?))? -->\n).*?(<!-- end -->)", re.DOTALL)
_KINDS = "train", "validation"
_DISTANCES = {"1": "1", "2": "2", "3": "3", ">": "more than 3", "?": "unknown"}


def filled(page: str, results: Path = HERE) -> str:
    """The page with every table as the files have it."""

    def block(found: re.Match[str]) -> str:
        begin, what, folder, name, end = found.groups()
        make = _BLOCKS[what]
        return f"{begin}{make(results / folder) if name is None else make(results / folder, name)}{end}"

    return _BLOCK.sub(block, page)


@cache
def plan_of(folder: Path) -> Plan:
    """The plan that was run."""
    with tempfile.TemporaryDirectory() as empty:  # stands for the corpora, which are not read
        names = read_tree(folder / "plan.yaml").get("folders", {})
        return load_plan(str(folder / "plan.yaml"), [f"{name}={empty}" for name in names]).plan


@cache
def results_of(folder: Path) -> list[StepResult]:
    """The results of all steps, in the order of the plan's systems."""
    order = list(plan_of(folder).systems)
    results = [read_result(path) for path in sorted(folder.glob("*.json"))]
    return sorted(results, key=lambda found: (order.index(found.step.system), found.step.seed))


@cache
def tables_of(folder: Path) -> PlanTables:
    """The tables of a plan."""
    return build_tables(plan_of(folder), plan_of(folder).title, results_of(folder))


def _table(folder: Path, name: str) -> str:
    return tables_of(folder).table(name).markdown() + "\n"


def _compared(folder: Path, column: str) -> str:
    plan = plan_of(folder)
    findings = [finding for finding in tables_of(folder).findings if finding.rule == plan.rules[0]]
    return significance_table(plan, findings, column).markdown() + "\n"


def _distances(folder: Path, suite: str) -> str:
    """Accuracy by the plan's first rule; several seeds are added up."""
    plan = plan_of(folder)
    correct: dict[str, dict[str, str]] = {}
    for found in results_of(folder):
        if isinstance(found.result, ContrastResult) and found.step.dataset == suite:
            of_system, answers = correct.setdefault(found.step.system, {}), found.result.answers
            for distance, sign in zip(answers.distances, answers.correct[plan.rules[0]], strict=True):
                of_system[distance] = of_system.get(distance, "") + sign
    shown = [sign for sign in _DISTANCES if any(sign in of_system for of_system in correct.values())]
    rows = [
        [plan.title_of(name), *(f"{100 * of[d].count('1') / len(of[d]):.2f}" if d in of else "" for d in shown)]
        for name, of in correct.items()
    ]
    counts = next(iter(correct.values()))
    heads = [f"{_DISTANCES[distance]} ({len(counts[distance]):,})" for distance in shown]
    return _markdown([f"{suite}, by distance (instances)", *heads], rows)


def _plot(folder: Path, what: str) -> str:
    drawn = plot_of(folder, what)
    return f"![{drawn.about}]({drawn.name}.svg)\n"


def _curve(folder: Path, plan: Plan, system: str, kind: str) -> tuple[list[int], list[float]]:
    log = folder / f"{system}.{plan.seeds_of(system)[0]}.log.jsonl"
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    there = [line for line in lines if line["kind"] == kind]
    return [line["update"] for line in there], [line["current"] for line in there]


def plot_of(folder: Path, what: str) -> Plot:
    """Of all systems with their first seed: right answers by phenomenon; or loss along training, dev set as marks."""
    plan, name = plan_of(folder), f"{folder.name}-{what}"
    styles = series_styles([plan.title_of(system) for system in plan.systems])
    if what == "current":
        series, checks = ({plan.title_of(s): _curve(folder, plan, s, kind) for s in plan.systems} for kind in _KINDS)
        return curves_plot(name, "Loss of the current sentence", "nats per token", series, checks, styles)
    points: dict[str, dict[str, tuple[float, Interval | None]]] = {}
    for found in results_of(folder):
        if isinstance(found.result, ContrastResult) and found.step.seed == plan.seeds_of(found.step.system)[0]:
            signs = found.result.answers.correct[plan.rules[0]]
            low, high = accuracy_interval(signs.count("1"), len(signs))
            figure = 100 * signs.count("1") / len(signs), Interval(100 * low, 100 * high)
            points.setdefault(plan.title_of(found.step.system), {})[found.step.dataset] = figure
    points = {title: {suite: of[suite] for suite in plan.suites if suite in of} for title, of in points.items()}
    return points_plot(name, "Right answers, with 95 % intervals", "%", points, styles, most=100)


def _obtained(folder: Path) -> str:
    rows = []
    for found in sorted(results_of(folder), key=lambda found: found.step.id):
        if isinstance(found.result, TrainResult):
            result, how = found.result, found.provenance
            row = [found.step.system, found.step.seed, f"{result.updates:,}", f"{result.epochs:.1f}"]
            row += [f"{how.minutes:.1f}", how.hardware, how.date[:10], f"`{result.weights_sha256[:8]}`"]
            rows.append(row)
    return _markdown(["system", "seed", "updates", "epochs", "minutes", "hardware", "date", "weights"], rows)


def _contrast(folder: Path, file: str) -> str:
    found = ContrastResults.model_validate_json((folder / file).read_bytes())
    rules: tuple[ScoringRule, ...] = ("current-sum", "window-mean")
    rows = [
        [suite.name, f"{suite.instances:,}", *(f"{suite.accuracy[rule]:.2f}" for rule in rules)]
        for suite in found.suites
    ]
    rows += [
        [figure.name, f"{figure.total:,}", f"{figure.accuracy:.2f}", ""]
        for figure in found.sections[-1].figures
        if figure.columns  # Disc. and its variants
    ]
    return _markdown(["suite", "instances", *rules], rows)


def _logs(folder: Path) -> str:
    rows = []
    for path in sorted(folder.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        last = {line["kind"]: line for line in lines}
        losses = [f"{last[kind]['current']:.3f}" for kind in ("train", "validation")]
        rows.append([path.stem, f"{last['train']['update']:,}", *losses])
    return _markdown(["run", "updates", "loss, training", "loss, dev"], rows)


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


_BLOCKS: dict[str, Callable[..., str]] = {
    "table": _table,
    "compared": _compared,
    "distances": _distances,
    "plot": _plot,
    "obtained": _obtained,
    "contrast": _contrast,
    "logs": _logs,
}


def main() -> None:
    """Write, or check."""
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        if "--check" in sys.argv[1:]:
            if filled(page) != page:
                sys.exit(f"{path} is not what the files say; run python results/build.py")
            continue
        path.write_text(filled(page), encoding="utf-8")
        for folder, what in re.findall(r"<!-- plot (\S+) (\S+) -->", page):
            plot_of(HERE / folder, what).write(path.parent)[1].unlink()  # the SVG is enough


if __name__ == "__main__":
    main()
