"""Validation: the losses of the current and the context sentences on the dev set, and a few translations to look at."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch

from focat.config import Settings
from focat.corpus.store import Split
from focat.corpus.tokenizer import Tokenizer
from focat.model.greedy import after_last_separator, greedy_decode
from focat.model.transformer import Transformer
from focat.training.distributed import Processes
from focat.training.objective import LossSums, chunked_loss, token_weights
from focat.windows.corpus_windows import cut_windows, gather_batch
from focat.windows.loader import Loader

_CHUNK = 4096  # tokens whose logits exist at the same time, in float32 here
_BLEU_SAMPLE = 256  # sentences, evenly over the dev set

Autocast = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Sample:
    """A sentence of the dev set, its reference and its translation."""

    source: str
    reference: str
    translation: str


@torch.no_grad()
def dev_losses(
    model: Transformer, split: Split, settings: Settings, processes: Processes, autocast: Autocast
) -> LossSums:
    """Sum the losses of all windows of the dev set, over all processes."""
    windows = settings.windows.model_copy(update={"sampling": "fixed"})
    loader = Loader(split, windows, settings.training.batch_tokens, rank=processes.rank, processes=processes.world_size)
    losses = LossSums.zero(processes.device)
    smoothing, chunk = settings.objective.label_smoothing, min(_CHUNK, settings.objective.chunk_tokens)
    for batch in loader.one_pass():
        here = batch.to(str(processes.device))
        with autocast():
            hidden = model(here.source, here.target)
            weights = token_weights(here.target, 1.0)
            _, smoothed, plain = chunked_loss(
                hidden,
                model.output_weight,
                here.target.tokens,
                weights,
                smoothing,
                chunk,
                bias=model.output_bias,
            )
        losses = losses + LossSums.from_tokens(here.target, smoothed, plain, model.predicts_context)
    return LossSums(processes.all_reduce_sum(losses.sums))


def translate_sentences(
    model: Transformer,
    tokenizer: Tokenizer,
    split: Split,
    settings: Settings,
    sentences: list[int],
    device: torch.device,
    autocast: Autocast,
) -> list[Sample]:
    """Translate some sentences of a split greedily, each in its window."""
    windows = cut_windows(split, settings.windows.model_copy(update={"sampling": "fixed"}))
    rows = np.searchsorted(windows[:].current, sentences)
    rows = np.unique(rows[rows < len(windows)])
    samples = []
    for some in np.array_split(rows, -(-len(rows) // 64)) if len(rows) else []:
        batch = gather_batch(windows, some).to(str(device))
        with autocast():
            decoded = greedy_decode(
                model, batch.source, settings.decoding.max_length_ratio, settings.decoding.max_length_offset
            )
        for sentence, tokens in zip(batch.sentences.tolist(), decoded, strict=True):
            samples.append(
                Sample(
                    tokenizer.source.decode(split.source[sentence]),
                    tokenizer.target.decode(split.target[sentence]),
                    tokenizer.target.decode(after_last_separator(tokens)),
                )
            )
    return samples


def bleu_sentences(split: Split) -> list[int]:
    """Indices of the sentences that BLEU is computed on during training."""
    return [int(i) for i in np.unique(np.linspace(0, len(split) - 1, _BLEU_SAMPLE).round())]


def bleu(samples: list[Sample]) -> float:
    """BLEU of translated samples (sacrebleu, 13a)."""
    from sacrebleu.metrics.bleu import BLEU

    score = BLEU().corpus_score([s.translation for s in samples], [[s.reference for s in samples]])
    return float(score.score)
