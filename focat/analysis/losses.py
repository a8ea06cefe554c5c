"""Losses of the current sentence and of its context: along training, from the log, and of each window at the end (4.5).

The paper divides the context's loss by sentences; here both are per token, so that long sentences do not weigh in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from focat.analysis.corpora import AnalysedSystem
from focat.analysis.results import CorpusLosses, LoggedLosses, LossCurves, LossMeans
from focat.analysis.streaming import window_batches
from focat.config.schema import WindowSettings
from focat.corpus.store import Split
from focat.evaluation.results import validated_result
from focat.evaluation.scores import Score, ratio_score
from focat.evaluation.significance import Floats
from focat.progress import Progress
from focat.run import Run
from focat.training.objective import chunked_loss, token_weights
from focat.windows.batch import Batch, PaddedSequences
from focat.windows.corpus_windows import Indices, cut_windows

_CHUNK = 4096  # tokens whose logits exist at the same time


def logged_losses(run: Run) -> LossCurves:
    """Return the losses that training has logged, on training batches and on the development set."""
    found: dict[str, list[LoggedLosses]] = {"train": [], "validation": []}
    for number, record in enumerate(run.log_records(), 1):
        if record["kind"] in found:
            found[record["kind"]].append(
                validated_result(LoggedLosses, record, f"{run.log}, line {number}", "focat train")
            )
    return LossCurves(train=found["train"], validation=found["validation"])


@dataclass(frozen=True)
class WindowLosses:
    """Sums over tokens: the current sentence's in column 0, its context's in column 1."""

    sentences: Indices  # (windows,) the current sentence of each
    plain: Floats  # (windows, 2) negative log-probabilities, in nats
    smoothed: Floats  # (windows, 2) with the label smoothing of training
    tokens: Floats  # (windows, 2)
    shortened: int  # windows that lost context because they were too long

    def current(self, name: str = "losses.current", family: str = "losses") -> Score:
        """The loss of the current sentence per token."""
        found = ratio_score(name, self.sentences, self.plain[:, 0], self.tokens[:, 0], "windows", family)
        assert found is not None  # the separator that closes a sentence is a token too
        return found

    def scores(self) -> dict[str, Score]:
        """Losses of current and context per token, and the first over the second where windows have context."""
        current = self.current()
        found = {"losses.current": current}
        context = ratio_score(
            "losses.context", self.sentences, self.plain[:, 1], self.tokens[:, 1], "windows", "losses"
        )
        if context is not None and context.items is not None:
            found["losses.context"] = context
            statistics = np.concatenate([current.among(context.items).statistics, context.statistics], 1)
            found["losses.ratio"] = replace(context, name="losses.ratio", statistics=statistics, formula=ratio_formula)
        return found

    def results(self) -> CorpusLosses:
        """Return the losses without smoothing, and with it as in the log."""
        sums, tokens = self.smoothed.sum(0), self.tokens.sum(0)
        current, context = float(sums[0] / tokens[0]), float(sums[1] / tokens[1]) if tokens[1] else None
        values = {name: score.value for name, score in self.scores().items()}
        return CorpusLosses(
            windows=len(self.sentences),
            current=values["losses.current"],
            context=values.get("losses.context"),
            ratio=values.get("losses.ratio"),
            smoothed=LossMeans(current=current, context=context, ratio=None if context is None else current / context),
        )


def ratio_formula(sums: Floats) -> Floats:
    """A mean over another: two sums with their counts."""
    ratios: Floats = (sums[:, 0] / sums[:, 1]) / (sums[:, 2] / sums[:, 3])
    return ratios


def window_losses(
    system: AnalysedSystem,
    split: Split,
    progress: Progress,
    windows: WindowSettings | None = None,
    label: str = "losses",
) -> WindowLosses:
    """Compute the losses of all windows of a corpus, cut as in training or by other window settings."""
    cut = cut_windows(split, windows or system.windows)
    plain, smoothed, tokens = (np.zeros((len(cut), 2)) for _ in range(3))
    with progress.bar(f"{system.name}: {label}", "windows", len(cut)) as bar:
        for rows, batch in window_batches(cut, system.device, bar):
            of_tokens = _token_losses(system, batch)
            for sums, values in zip(
                (smoothed, plain, tokens), (*of_tokens, torch.ones_like(of_tokens[0])), strict=True
            ):
                sums[rows] = current_and_context(batch.target, values).cpu().numpy()
    return WindowLosses(cut[:].current, plain, smoothed, tokens, cut.shortened)


@torch.no_grad()
def _token_losses(system: AnalysedSystem, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the loss of every target token with label smoothing, and without: (windows, length) each."""
    model, smoothing = system.model, system.settings.objective.label_smoothing
    hidden = model(batch.source, batch.target)
    weights = token_weights(batch.target, 1.0)
    _, smoothed, plain = chunked_loss(
        hidden, model.output_weight, batch.target.tokens, weights, smoothing, _CHUNK, bias=model.output_bias
    )
    return smoothed, plain


def current_and_context(target: PaddedSequences, values: Tensor) -> Tensor:
    """(windows, 2): sums of the values of tokens (windows, length), in float64."""
    current = target.segments == target.current[:, None]
    masks = torch.stack([current, (target.segments >= 0) & ~current], -1)  # (windows, length, 2)
    return (values.double()[:, None] @ masks.double())[:, 0]
