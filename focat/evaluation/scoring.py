"""Scores of given translations in their context, teacher-forced (the contrastive evaluation of section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from focat.corpus.tokenizer import Tokenizer
from focat.model.transformer import Transformer
from focat.training.objective import chunked_loss
from focat.windows.batch import Side
from focat.windows.texts import WindowText, batch_of_texts

Rule = Literal["current-sum", "current-mean", "window-mean"]
_CHUNK = 4096  # tokens whose logits exist at the same time


def window_score(log_probabilities: Tensor, target: Side, rule: Rule) -> Tensor:
    """(windows,) from the log-probability of every target token, (windows, length).

    `window-mean` is the authors': over all tokens, context and `<E>` included. The others look at the current sentence,
    whose `<E>` belongs to it.
    """
    counted = target.segments >= 0 if rule == "window-mean" else target.segments == target.current[:, None]
    total = (log_probabilities * counted).sum(-1)
    return total if rule == "current-sum" else total / counted.sum(-1)


@torch.no_grad()
def score_texts(
    model: Transformer,
    tokenizer: Tokenizer,
    windows: Sequence[WindowText],
    rule: Rule = "current-sum",
    batch_windows: int = 128,
) -> Tensor:
    """(windows,) scores, in the order given; windows of similar length share a batch."""
    device = model.output_weight.device
    order = sorted(range(len(windows)), key=lambda i: sum(map(len, windows[i].target)))
    scores = torch.empty(len(windows), dtype=torch.float64)
    for start in range(0, len(order), batch_windows):
        chosen = order[start : start + batch_windows]
        batch = batch_of_texts(tokenizer, [windows[i] for i in chosen]).to(str(device))
        hidden = model(batch.source, batch.target)
        weights = torch.zeros(batch.target.tokens.shape, device=device)
        _, _, plain = chunked_loss(hidden, model.output_weight, batch.target.tokens, weights, 0.0, _CHUNK)
        scores[chosen] = window_score(-plain.double(), batch.target, rule).cpu()
    return scores
