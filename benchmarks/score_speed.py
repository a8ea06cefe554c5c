"""How fast the candidates of contrastive suites are scored together, beside each of them read on its own.

    python -m benchmarks.score_speed STORE --suite deixis_test.json --suite ellipsis_vp.json
    python -m benchmarks.score_speed                                 generated suites and corpus, made on the spot
    python -m benchmarks.score_speed STORE --suite … --device cuda --preset base --rounds 3 --json score_speed.json

The weights are random: time does not depend on them. Both ways score the same candidates in the same run, in turns, the
best of some rounds each. Times are from sentences to scores, tokenisation included; on a CPU, what counts is the time
of the processor, which neighbours on the same machine do not change.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from focat.choices import SCORING_RULES, Precision
from focat.config.schema import ModelSettings, WindowSettings
from focat.corpus.generated import write_suites
from focat.corpus.tokenizer import Tokenizer
from focat.evaluation.contrastive import ContextConfig, candidate_group
from focat.evaluation.prefix_scoring import CandidateGroup, score_candidates
from focat.evaluation.scoring import Scores, score_texts
from focat.evaluation.suites import read_suite
from focat.hardware import device_named
from focat.model.transformer import Transformer
from focat.windows.texts import WindowText

BARS = {"times_naive": 2.5, "largest_difference": 1e-5}


def measure(
    model: Transformer, tokenizer: Tokenizer, groups: Sequence[CandidateGroup], rounds: int, precision: Precision
) -> dict[str, Any]:
    """Both ways, and how far apart their scores are."""
    windows = [WindowText(group.source, [*group.target, text]) for group in groups for text in group.candidates]
    ways: dict[str, Callable[[], Scores]] = {
        "together": lambda: score_candidates(model, tokenizer, groups, precision),
        "alone": lambda: score_texts(model, tokenizer, windows, precision, batch_windows=_naive_batch(model)),
    }
    if model.output_weight.is_cuda:
        for way in ways.values():  # what is compiled and planned at first
            way()
    clock = time.perf_counter if model.output_weight.is_cuda else time.process_time
    best, found = dict.fromkeys(ways, float("inf")), {}
    for _ in range(rounds):
        for name, way in ways.items():
            start = clock()
            found[name] = way()
            best[name] = min(best[name], clock() - start)
    together, alone = found["together"], found["alone"]
    return {
        "groups": len(groups),
        "candidates": len(windows),
        "seconds": {name: round(seconds, 2) for name, seconds in best.items()},
        "times_naive": round(best["alone"] / best["together"], 2),
        "largest_difference": {rule: float(np.abs(together.by(rule) - alone.by(rule)).max()) for rule in SCORING_RULES},
    }


def _naive_batch(model: Transformer) -> int:
    """What one would choose: on a GPU, many; on a CPU, what its caches hold."""
    return 512 if model.output_weight.is_cuda else 64


def show(figures: dict[str, Any]) -> None:
    """The figures as a table, with the bars they are held against."""
    table = Table("", "measured", "bar", title=f"Scoring {figures['what']}", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    seconds = figures["seconds"]
    table.add_row("instances", f"{figures['groups']:,}", "")
    table.add_row("candidates", f"{figures['candidates']:,}", "")
    table.add_row("together", f"{seconds['together']} s", "")
    table.add_row("each alone", f"{seconds['alone']} s", "")
    table.add_row("alone : together", f"{figures['times_naive']} ×", f"≥ {BARS['times_naive']} ×")
    for rule, difference in figures["largest_difference"].items():
        table.add_row(f"largest difference, {rule}", f"{difference:.1e}", f"≤ {BARS['largest_difference']:.0e}")
    Console(highlight=False).print(table)


def _groups(paths: Sequence[Path], tokenizer: Tokenizer, before: int, share: float) -> list[CandidateGroup]:
    """What a model with these windows is asked; of each suite the first part, so that twins stay together."""
    given = ContextConfig(before, before)
    groups: list[CandidateGroup] = []
    for path in paths:
        instances = read_suite(path).instances
        some = instances[: max(2, round(share * len(instances)))]
        groups += [candidate_group(instance, given, tokenizer) for instance in some]
    return groups


def _generated(folder: Path) -> tuple[Path, list[Path]]:
    from focat.config import load_settings
    from focat.corpus.prepare import prepare
    from focat.progress import Progress

    store = folder / "store"
    sizes = ["data.train.0.documents=2000", "data.tokenizer.vocabulary=1000"]
    prepare(load_settings(Path("focat:demo"), [f"data.store={store}", *sizes]).data, Progress())
    written = write_suites(folder / "suites", 600, 1000)
    return store, [path for path in written if path.suffix == ".json" and path.stem != "contrapro"]


def main() -> None:
    """Read the command line, measure, show."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.score_speed", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "store", nargs="?", type=Path, help="token store that has the tokenizer; a generated one if none"
    )
    parser.add_argument("--suite", type=Path, action="append", default=[], help="suite that holds its own context")
    parser.add_argument("--preset", default="tiny", help="size of the model (default: tiny)")
    parser.add_argument("--before", type=int, default=3, help="context sentences (default: 3)")
    parser.add_argument("--share", type=float, default=1.0, help="part of each suite to score (default: 1)")
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many (default: 2)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda (default: cpu)")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    given = parser.parse_args()
    if (given.store is None) != (not given.suite):
        parser.error("give a STORE and suites, or neither")
    device = device_named(given.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        store, suites = (given.store, given.suite) if given.store else _generated(Path(folder))
        tokenizer = Tokenizer.load(store / "tokenizer")
        torch.manual_seed(1)
        sizes = tokenizer.source.size, tokenizer.target.size
        windows = WindowSettings(before=given.before)
        model = Transformer(ModelSettings(preset=given.preset), windows, *sizes, 8).eval().to(device)
        groups = _groups(suites, tokenizer, given.before, given.share)
        measured = measure(model, tokenizer, groups, given.rounds, given.precision)
    names = ", ".join(path.name for path in suites)
    figures = {
        "what": f"{names} with a {given.preset} model on {device.type}",
        "preset": given.preset,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "one core",
        "precision": given.precision,
        **measured,
    }
    show(figures)
    if given.json is not None:
        from focat.files import write_json

        write_json(given.json, figures)
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
