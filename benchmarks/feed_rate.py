"""How fast one process turns a token store into batches, beside the collate function one would write first.

    python -m benchmarks.feed_rate STORE                        a store that `focat prepare` filled
    python -m benchmarks.feed_rate                              a generated corpus, made on the spot
    python -m benchmarks.feed_rate STORE --seconds 2 --json feed_rate.json

Real tokens are counted, never padding: a rate is target tokens per second of a whole epoch, the time to order it
included. All ways make batches of the same windows in the same order, and what they make is compared before anything
is timed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from focat.config.corpora import GeneratedCorpus
from focat.config.data import DataSettings, TokenizerSettings
from focat.config.schema import WindowSettings
from focat.corpus.store import Sentences, Split, Store
from focat.corpus.vocabulary import END, PAD, SEPARATOR
from focat.windows.batch import Batch, PaddedSequences
from focat.windows.corpus_windows import Indices, Span
from focat.windows.loader import Loader, Prefetcher

BARS = {"target_tokens_per_second": 1_500_000, "real_share": 0.93, "peak_gib": 1.5}


def naive_batches(split: Split, loader: Loader) -> Iterator[Batch]:
    """The loader's batches, collated sentence by sentence in Python: lists, appended to, then padded in a loop."""
    for epoch in itertools.count():
        windows, order = loader.epoch(epoch)
        for i in range(len(order)):
            rows, source_length, target_length = order.batch(i)
            some = windows[rows]
            source = _collate(split.source, some.source, some.current, source_length)
            target = _collate(split.target, some.target, some.current, target_length)
            yield Batch(source, target, torch.tensor([int(sentence) for sentence in some.current]))


def _collate(sentences: Sentences, span: Span, current: Indices, length: int) -> PaddedSequences:
    batch_tokens, batch_segments, batch_current = [], [], []
    for first, last, sentence in zip(span.first, span.last, current, strict=True):
        tokens, segments = _join(sentences, int(first), int(last))
        while len(tokens) < length:
            tokens.append(PAD)
            segments.append(-1)
        batch_tokens.append(tokens)
        batch_segments.append(segments)
        batch_current.append(int(sentence - first))
    return PaddedSequences(torch.tensor(batch_tokens), torch.tensor(batch_segments), torch.tensor(batch_current))


def _join(sentences: Sentences, first: int, last: int) -> tuple[list[int], list[int]]:
    tokens: list[int] = []
    segments: list[int] = []
    for segment, sentence in enumerate(range(first, last + 1)):
        for token in sentences[sentence]:
            tokens.append(int(token))
            segments.append(segment)
        tokens.append(END if sentence == last else SEPARATOR)
        segments.append(segment)
    return tokens, segments


def rate(batches: Iterable[Batch], seconds: float) -> float:
    """Real target tokens per second, from the second batch on: the first waits until the epoch is ordered."""
    stream = iter(batches)
    next(stream)
    tokens, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        tokens += int((next(stream).target.tokens != PAD).sum())
    return tokens / passed


def measure(split: Split, settings: WindowSettings, batch_tokens: int, seconds: float) -> dict[str, Any]:
    """All figures of a split."""
    loader = Loader(split, settings, batch_tokens, seed=1)

    def batches() -> Iterator[Batch]:
        return (batch for update in loader.updates() for batch in update.batches)

    for ours, theirs in itertools.islice(zip(batches(), naive_batches(split, loader), strict=False), 3):
        if not all(map(torch.equal, _tensors(ours), _tensors(theirs))):
            raise SystemExit("the two ways make different batches; their rates cannot be compared")

    start = time.perf_counter()
    windows, order = loader.epoch(0)
    ordering = time.perf_counter() - start
    sizes = order.ends - order.starts
    padded = int((sizes * (order.source_lengths + order.target_lengths)).sum())
    shapes = set(zip(sizes.tolist(), order.source_lengths.tolist(), order.target_lengths.tolist(), strict=True))
    source_tokens, epoch_tokens = (int(lengths.sum()) for lengths in windows.lengths())

    def ahead() -> float:
        stream = Prefetcher(batches())
        try:
            return rate(stream, seconds)
        finally:
            stream.close()

    # In turns, and the best of three each, so that a neighbour's load falls on all alike.
    ways: dict[str, Callable[[], float]] = {
        "loader": lambda: rate(batches(), seconds),
        "loader, ahead": ahead,
        "naive collate": lambda: rate(naive_batches(split, loader), seconds),
    }
    best = dict.fromkeys(ways, 0.0)
    for _ in range(3):
        for name, way in ways.items():
            best[name] = max(best[name], way())
    whole = {name: epoch_tokens / (ordering + epoch_tokens / found) for name, found in best.items()}
    return {
        "windows": len(windows),
        "batches": len(order),
        "batch_tokens": batch_tokens,
        "before": settings.before,
        "target_tokens_per_second": {name: round(found) for name, found in whole.items()},
        "times_naive": round(whole["loader"] / whole["naive collate"], 1),
        "seconds_to_order_an_epoch": round(ordering, 3),
        "real_share": round((source_tokens + epoch_tokens) / padded, 4),
        "shapes": len(shapes),
        "peak_gib": round(_peak_gib(), 3),
    }


def _tensors(batch: Batch) -> list[torch.Tensor]:
    sides = [[side.tokens, side.segments, side.current] for side in (batch.source, batch.target)]
    return [*sides[0], *sides[1], batch.sentences]


def _peak_gib() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def show(figures: dict[str, Any]) -> None:
    """The figures as a table, with the bars they are held against."""
    table = Table("", "measured", "bar", title=f"Feed rate of {figures['store']}", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    rates = figures["target_tokens_per_second"]
    table.add_row("windows", f"{figures['windows']:,}", "")
    table.add_row("loader, target tokens/s", f"{rates['loader']:,}", f"≥ {BARS['target_tokens_per_second']:,}")
    table.add_row("loader in a thread of its own", f"{rates['loader, ahead']:,}", "")
    table.add_row("naive collate", f"{rates['naive collate']:,}", "")
    table.add_row("loader : naive", f"{figures['times_naive']} ×", "")
    table.add_row("ordering an epoch", f"{figures['seconds_to_order_an_epoch']} s", "")
    table.add_row("real tokens in padded batches", f"{figures['real_share']:.1%}", f"≥ {BARS['real_share']:.0%}")
    table.add_row("shapes (rows, source, target) of batches", f"{figures['shapes']:,} of {figures['batches']:,}", "")
    table.add_row("peak resident memory", f"{figures['peak_gib']:.2f} GiB", f"< {BARS['peak_gib']} GiB")
    Console(highlight=False).print(table)


def _generated_store(folder: Path) -> Path:
    from focat.corpus.prepare import prepare
    from focat.progress import Progress

    corpus = GeneratedCorpus(format="generated", documents=20_000)
    data = DataSettings(store=folder / "store", train=(corpus,), tokenizer=TokenizerSettings(vocabulary=4000))
    prepare(data, Progress())
    return data.store


def main() -> None:
    """Read the command line, measure, show."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.feed_rate", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("store", nargs="?", type=Path, help="token store; a generated corpus if not given")
    parser.add_argument("--before", type=int, default=3, help="context sentences (default: 3)")
    parser.add_argument("--batch-tokens", type=int, default=32_768, help="tokens of a batch (default: 32768)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each timing (default: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    given = parser.parse_args()
    torch.set_num_threads(1)  # one process, one core; the thread of Ahead apart
    with tempfile.TemporaryDirectory() as folder:
        path = given.store or _generated_store(Path(folder))
        split = Store(path).split("train")
        measured = measure(split, WindowSettings(before=given.before), given.batch_tokens, given.seconds)
        figures = {"store": str(path) if given.store else "a generated corpus", **measured}
        show(figures)
    if given.json is not None:
        from focat.files import write_json

        write_json(given.json, figures)
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
