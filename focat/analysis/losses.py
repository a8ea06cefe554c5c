"""Losses of the current sentence and of its context: along training, from the log, and of each window at the end (4.5).

The paper divides the context's loss by sentences; here both are per token, so that long sentences do not weigh in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focat.analysis.measures import Measure, Measures, mean, ratio_formula
from focat.analysis.streaming import batches
from focat.analysis.systems import System
from focat.config.schema import WindowSettings
from focat.corpus.store import Split
from focat.errors import FocatError
from focat.evaluation.significance import Floats
from focat.progress import Progress
from focat.run import Run
from focat.training.objective import chunked_loss, token_weights
from focat.windows.batch import Batch, PaddedSequences
from focat.windows.corpus_windows import Indices, cut_windows

_CHUNK = 4096  # tokens whose logits exist at the same time
_KEPT = ("update", "epochs", "minutes", "current", "context", "ratio", "full", "current_nll", "best")


def curves(run: Run) -> dict[str, list[dict[str, float]]]:
    """The losses that training has logged, of training itself and of validations."""
    found: dict[str, list[dict[str, float]]] = {"train": [], "validation": []}
    for record in _logged(run):
        if record["kind"] in found:
            found[record["kind"]].append({name: record[name] for name in _KEPT if name in record})
    return found


def _logged(run: Run) -> Iterator[dict[str, Any]]:
    """The records of the log; its last line may have been cut off in the middle of a write."""
    lines = run.log.read_text(encoding="utf-8").splitlines() if run.log.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            if "update" not in record or "kind" not in record:
                raise ValueError
        except (TypeError, ValueError):
            if number < len(lines):
                raise FocatError(f"{run.log}, line {number}: is no record of training; the log is damaged") from None
            continue
        yield record


@dataclass(frozen=True)
class WindowLosses:
    """Sums over tokens: the current sentence's in column 0, its context's in column 1."""

    sentences: Indices  # (windows,) the current sentence of each
    plain: Floats  # (windows, 2) negative log-probabilities, in nats
    smoothed: Floats  # (windows, 2) with the label smoothing of training
    tokens: Floats  # (windows, 2)
    shortened: int  # windows that lost context because they were too long

    def current(self) -> Measure:
        """Loss of the current sentence per token."""
        found = mean(self.sentences, self.plain[:, 0], self.tokens[:, 0])
        assert found is not None  # there is always a token that closes it
        return found

    def measures(self) -> Measures:
        """Losses of current and context per token, and the first over the second, where windows have context."""
        found = {"losses.current": self.current()}
        context = mean(self.sentences, self.plain[:, 1], self.tokens[:, 1])
        if context is not None:
            found["losses.context"] = context
            both = found["losses.current"].among(context.items)
            statistics = np.concatenate([both.statistics, context.statistics], 1)
            found["losses.ratio"] = Measure(context.items, statistics, ratio_formula)
        return found

    def record(self) -> dict[str, Any]:
        """Without smoothing, and with it as in the log."""
        sums, tokens = self.smoothed.sum(0), self.tokens.sum(0)
        current, context = sums[0] / tokens[0], sums[1] / tokens[1] if tokens[1] else None
        values = {name.removeprefix("losses."): measure.value for name, measure in self.measures().items()}
        return {
            "windows": len(self.sentences),
            "current": values["current"],
            "context": values.get("context"),
            "ratio": values.get("ratio"),
            "smoothed": {
                "current": float(current),
                "context": None if context is None else float(context),
                "ratio": None if context is None else float(current / context),
            },
        }


def losses_of(
    system: System, split: Split, progress: Progress, windows: WindowSettings | None = None, what: str = "losses"
) -> WindowLosses:
    """Of all windows of a corpus: as the system was trained to see them, or others."""
    cut = cut_windows(split, windows or system.windows)
    plain, smoothed, tokens = (np.zeros((len(cut), 2)) for _ in range(3))
    with progress.bar(f"{system.name}: {what}", "windows", len(cut)) as bar:
        for rows, batch in batches(split, cut, system.device, bar):
            of_tokens = token_losses(system, batch)
            for sums, values in zip(
                (smoothed, plain, tokens), (*of_tokens, torch.ones_like(of_tokens[0])), strict=True
            ):
                sums[rows] = current_and_context(batch.target, values).cpu().numpy()
    return WindowLosses(cut.current, plain, smoothed, tokens, cut.shortened)


@torch.no_grad()
def token_losses(system: System, batch: Batch) -> tuple[Tensor, Tensor]:
    """The loss of every target token with label smoothing, and without: (windows, length) each."""
    model, smoothing = system.model, system.settings.objective.label_smoothing
    hidden = model(batch.source, batch.target)
    weights = token_weights(batch.target, 1.0)
    _, smoothed, plain = chunked_loss(hidden, model.output_weight, batch.target.tokens, weights, smoothing, _CHUNK)
    return smoothed, plain


def current_and_context(target: PaddedSequences, values: Tensor) -> Tensor:
    """(windows, 2): sums of the values of tokens (windows, length), in float64."""
    current = target.segments == target.current[:, None]
    masks = torch.stack([current, (target.segments >= 0) & ~current], -1)  # (windows, length, 2)
    return (values.double()[:, None] @ masks.double())[:, 0]
