"""Scores of given translations in their context, teacher-forced (the contrastive evaluation of section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from focat.choices import Precision, ScoringRule
from focat.corpus.tokenizer import Tokenizer
from focat.model.transformer import Transformer
from focat.windows.batch import PaddedSequences
from focat.windows.texts import WindowText, batch_texts

_LOGITS = {"cpu": 1 << 23, "cuda": 1 << 28}  # that exist at the same time


@dataclass(frozen=True)
class Scores:
    """What every rule is made of: log-probabilities and numbers of tokens of many windows, (windows,) each."""

    current: NDArray[np.float64]
    """Of the current sentence, its `<E>` included."""
    context: NDArray[np.float64]
    """Of the context, its separators included."""
    current_tokens: NDArray[np.int64]
    context_tokens: NDArray[np.int64]

    def by(self, rule: ScoringRule) -> NDArray[np.float64]:
        """One number for each window, higher is better; `window-mean` is the authors'."""
        if rule == "current-sum":
            return self.current
        if rule == "current-mean":
            return self.current / self.current_tokens
        return (self.current + self.context) / (self.current_tokens + self.context_tokens)


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Return the context in which a model computes in this precision."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()


def logits_at_once(model: Transformer) -> int:
    """How many tokens have their logits in memory at the same time."""
    return max(1, _LOGITS.get(model.output_weight.device.type, 1 << 23) // len(model.output_weight))


def log_probabilities(model: Transformer, hidden: Tensor, labels: Tensor) -> Tensor:
    """Of each label (tokens,), after what `hidden` (tokens, width) represents; float32, logits a chunk at a time."""
    found = torch.empty(len(labels), device=hidden.device)
    chunk = logits_at_once(model)
    for start in range(0, len(labels), chunk):
        part = slice(start, start + chunk)
        found[part] = -F.cross_entropy(model.project(hidden[part]).float(), labels[part], reduction="none")
    return found


@torch.no_grad()
def token_scores(model: Transformer, source: PaddedSequences, target: PaddedSequences) -> Tensor:
    """The log-probability of every target token, (windows, length); 0 on padding."""
    hidden = model(source, target)
    real = (target.segments >= 0).nonzero(as_tuple=True)
    found = torch.zeros(target.tokens.shape, device=hidden.device)
    found[real] = log_probabilities(model, hidden[real], target.tokens[real])
    return found


def sums(log_probabilities: Tensor, target: PaddedSequences) -> Scores:
    """From the log-probability of every target token, (windows, length)."""
    current = target.segments == target.current[:, None]
    context = (target.segments >= 0) & ~current
    exact = log_probabilities.double()
    return Scores(
        (exact * current).sum(-1).cpu().numpy(),
        (exact * context).sum(-1).cpu().numpy(),
        current.sum(-1).cpu().numpy(),
        context.sum(-1).cpu().numpy(),
    )


def score_texts(
    model: Transformer,
    tokenizer: Tokenizer,
    windows: Sequence[WindowText],
    precision: Precision = "float32",
    batch_windows: int = 128,
) -> Scores:
    """Scores of windows in the order given, each read on its own; windows of similar length share a batch."""
    device = model.output_weight.device
    order = sorted(range(len(windows)), key=lambda i: sum(map(len, windows[i].target)))
    zeros, none = np.zeros(len(windows)), np.zeros(len(windows), np.int64)
    found = Scores(zeros, zeros.copy(), none, none.copy())
    for start in range(0, len(order), batch_windows):
        chosen = order[start : start + batch_windows]
        batch = batch_texts(tokenizer, [windows[i] for i in chosen]).to(str(device))
        with autocast(precision, device):
            part = sums(token_scores(model, batch.source, batch.target), batch.target)
        for name in ("current", "context", "current_tokens", "context_tokens"):
            getattr(found, name)[chosen] = getattr(part, name)
    return found
