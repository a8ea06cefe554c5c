"""Windows of a corpus through a model, batch by batch: memory depends on the size of a batch, not of the corpus."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from focat.errors import FocatError
from focat.progress import Bar
from focat.windows.batch import Batch
from focat.windows.batching import order_epoch
from focat.windows.corpus_windows import CorpusWindows, Indices, gather_batch

_TOKENS = {"cpu": 4096, "cuda": 65_536}  # of a batch on its longer side, padding included


def window_batches(
    windows: CorpusWindows, device: torch.device, bar: Bar, most_weights: int | None = None
) -> Iterator[tuple[Indices, Batch]]:
    """Return all windows in batches of similar length, with their indices.

    With `most_weights`, batches are split so that one head of one layer has at most so many attention weights.
    """
    if not len(windows):
        raise FocatError(f"{bar.label}: every sentence is longer than a window may be; see windows.max_tokens")
    order = order_epoch(windows, _TOKENS.get(device.type, _TOKENS["cpu"]), seed=0, epoch=0)
    for i in range(len(order)):
        rows, source_length, target_length = order.batch(i)
        longest = max(source_length, target_length)
        step = len(rows) if most_weights is None else max(1, most_weights // longest**2)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            yield part, gather_batch(windows, part, source_length, target_length).to(str(device))
            bar.advance(len(part))
