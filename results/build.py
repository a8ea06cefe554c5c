"""The tables of docs/results.md, from the files beside this one.

    python results/build.py           write them into the page
    python results/build.py --check   say whether it holds what the files say

A table stands between `<!-- WHAT FOLDER … -->` and `<!-- end -->`. What there is:

    table FOLDER NAME     a table of a plan (docs/reproducing.md), built from the results of its steps
    obtained FOLDER       how each system of a plan was trained
    contrast FOLDER FILE  what `focat contrast --json` wrote about one run
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from focat.config.loading import read_tree
from focat.reproduce.plan import load_plan
from focat.reproduce.tables import Tables, build

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "results.md"
_BLOCK = re.compile(r"(<!-- (table|obtained|contrast) (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str, results: Path = HERE) -> str:
    """The page with every table as the files have it."""

    def block(found: re.Match[str]) -> str:
        begin, what, words, end = found.groups()
        folder, *name = words.split()
        make = {"table": _table, "obtained": _obtained, "contrast": _contrast}[what]
        return f"{begin}{make(results / folder, *name)}{end}"

    return _BLOCK.sub(block, page)


def records_of(folder: Path) -> list[dict[str, Any]]:
    """The results of all steps that are there."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


@cache
def tables_of(folder: Path) -> Tables:
    """The tables of a plan, in the order of its systems."""
    with tempfile.TemporaryDirectory() as nothing:  # the corpora are not asked for: everything was measured
        wanted = read_tree(folder / "plan.yaml").get("folders", {})
        plan = load_plan(str(folder / "plan.yaml"), [f"{name}={nothing}" for name in wanted]).plan
    place = {name: i for i, name in enumerate(plan.systems)}
    records = sorted(records_of(folder), key=lambda record: (place[record["system"]], record["seed"]))
    return build(plan, plan.title, records)


def _table(folder: Path, name: str) -> str:
    return next(table for table in tables_of(folder).tables if table.name == name).markdown() + "\n"


def _obtained(folder: Path) -> str:
    rows = []
    for record in records_of(folder):
        if record["step"] == "train":
            result, how = record["result"], record["provenance"]
            row = [record["system"], record["seed"], f"{result['updates']:,}", f"{result['epochs']:.1f}"]
            row += [f"{how['minutes']:.1f}", how["hardware"], how["date"][:10], f"`{result['weights']['sha256'][:8]}`"]
            rows.append(row)
    return _markdown(["system", "seed", "updates", "epochs", "minutes", "hardware", "date", "weights"], rows)


def _contrast(folder: Path, file: str) -> str:
    found = json.loads((folder / file).read_text(encoding="utf-8"))
    rules = ("current-sum", "window-mean")
    rows = [
        [suite["name"], f"{suite['instances']:,}", *(f"{suite['accuracy'][rule]:.2f}" for rule in rules)]
        for suite in found["suites"]
    ]
    rows += [
        [figure["name"], f"{figure['total']:,}", f"{figure['accuracy']:.2f}", ""]
        for figure in found["sections"][-1]["figures"]
        if figure["name"].startswith("Disc")
    ]
    return _markdown(["suite", "instances", *rules], rows)


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def main() -> None:
    """Write, or check."""
    page = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv[1:]:
        sys.exit(None if filled(page) == page else f"{PAGE} is not what the files say; run python results/build.py")
    PAGE.write_text(filled(page), encoding="utf-8")


if __name__ == "__main__":
    main()
