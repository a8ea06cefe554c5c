"""What each context sentence is worth: drop it from the window, and see the score of the current sentence move.

The sentence goes with the separator that closes it, on both sides or on one, and the window closes up: exactly the
window that would have been cut had the sentence not been there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from focat.analysis.corpora import AnalysedSystem
from focat.analysis.results import Dropped, DroppedSentenceResult
from focat.analysis.streaming import window_batches
from focat.choices import DropSide
from focat.config.schema import WindowSettings
from focat.corpus.store import Split
from focat.corpus.vocabulary import END, PAD, SEPARATOR
from focat.evaluation.scores import Score, ratio_score
from focat.evaluation.scoring import Scores, sums, token_scores
from focat.evaluation.significance import (
    SEED,
    TRIALS,
    Floats,
    approximate_randomisation,
    corrected,
    mean_formula,
    stars,
)
from focat.progress import Progress
from focat.windows.batch import Batch, PaddedSequences
from focat.windows.corpus_windows import Indices, cut_windows
from focat.windows.segments import segments_of


def droppable(windows: WindowSettings, sides: DropSide) -> list[Dropped]:
    """Return what can be dropped from windows: each context sentence, and all of them where there are several."""
    before, after = windows.target if sides == "target" else (windows.before, windows.after)
    distances: list[Dropped] = [*range(1, before + 1), *range(-1, -after - 1, -1)]
    return [*distances, "all"] if len(distances) > 1 else distances


def drop_tokens(side: PaddedSequences, dropped: Tensor) -> PaddedSequences:
    """Return windows without the context sentences whose tokens are marked in `dropped`, (windows, length)."""
    kept = (side.segments >= 0) & ~dropped
    lengths = kept.sum(-1)
    places = kept.int().sort(dim=-1, descending=True, stable=True).indices[:, : int(lengths.max())]
    tokens = torch.where(kept, side.tokens, PAD).gather(1, places)
    tokens[torch.arange(len(tokens), device=tokens.device), lengths - 1] = (
        END  # also where the last sentence was dropped
    )
    before = side.segments < side.current[:, None]
    return PaddedSequences(tokens, segments_of(tokens), (kept & before & (side.tokens == SEPARATOR)).sum(-1))


def tokens_of(side: PaddedSequences, what: Dropped) -> Tensor:
    """Return a mask (windows, length) of the tokens of the sentences to drop."""
    distance = side.current[:, None] - side.segments
    wanted = distance != 0 if what == "all" else distance == what
    return wanted & (side.segments >= 0)


def drop_sentence(batch: Batch, what: Dropped, sides: DropSide) -> tuple[Tensor, Batch] | None:
    """Drop a sentence from the windows of a batch that have it.

    Returns:
        The rows of these windows, and the windows without the sentence; None if no window has it.
    """
    of_source, of_target = tokens_of(batch.source, what), tokens_of(batch.target, what)
    has_it = {"both": of_source.any(-1) | of_target.any(-1), "source": of_source.any(-1), "target": of_target.any(-1)}
    (rows,) = has_it[sides].nonzero(as_tuple=True)
    if not len(rows):
        return None
    some = batch.map(lambda tensor: tensor[rows])
    source = some.source if sides == "target" else drop_tokens(some.source, of_source[rows])
    target = some.target if sides == "source" else drop_tokens(some.target, of_target[rows])
    return rows, Batch(source, target, some.sentences)


@dataclass(frozen=True)
class Contributions:
    """Log-probabilities of the current sentence of each window, with its context and without some of it."""

    sentences: Indices  # (windows,) the current sentence of each
    tokens: Floats  # (windows,) of the current sentence
    full: Floats  # (windows,) with all context
    without: dict[tuple[DropSide, Dropped], Floats]  # (windows,) each; NaN where there was nothing to drop

    def scores(self) -> dict[str, Score]:
        """How much better a token of the current sentence is predicted with what was dropped than without it."""
        return {score.name: score for score in self._by_drop().values()}

    def results(self, trials: int = TRIALS, seed: int = SEED) -> tuple[DroppedSentenceResult, ...]:
        """Return the figures, and whether they differ from zero; p-values are corrected over all of them (Holm)."""
        found = self._by_drop()
        p_values = []
        for score in found.values():
            zero = np.stack([np.zeros(len(score.statistics)), score.statistics[:, 1]], 1)
            p_values.append(approximate_randomisation(zero, score.statistics, mean_formula, trials, seed))
        return tuple(
            DroppedSentenceResult(
                sides=sides,
                dropped=what,
                windows=len(score.statistics),
                per_token=score.value,
                per_sentence=float(score.statistics[:, 0].mean()),
                better_with_it=float((score.statistics[:, 0] > 0).mean()),
                p=p,
                corrected=p_corrected,
                stars=stars(p_corrected),
            )
            for ((sides, what), score), p, p_corrected in zip(
                found.items(), p_values, corrected(p_values, "holm"), strict=True
            )
        )

    def _by_drop(self) -> dict[tuple[DropSide, Dropped], Score]:
        found = {}
        for (sides, what), without in self.without.items():
            measured = ~np.isnan(without)
            change, tokens = np.where(measured, self.full - without, 0.0), self.tokens * measured
            score = ratio_score(f"context.{sides}.{what}", self.sentences, change, tokens, "windows", "context")
            if score is not None:
                found[sides, what] = score
        return found


def context_contributions(
    system: AnalysedSystem, split: Split, sides: Sequence[DropSide], progress: Progress
) -> Contributions:
    """Score all windows of a corpus, cut as in training, with and without each context sentence."""
    windows = cut_windows(split, system.windows)
    full, tokens = np.zeros(len(windows)), np.zeros(len(windows))
    drops = [(side, what) for side in sides for what in droppable(system.windows, side)]
    without = {drop: np.full(len(windows), np.nan) for drop in drops}
    with progress.bar(f"{system.name}: what context contributes", "windows", len(windows)) as bar:
        for rows, batch in window_batches(windows, system.device, bar):
            scores = _scores(system, batch)
            full[rows], tokens[rows] = scores.current, scores.current_tokens
            for (side, what), values in without.items():
                found = drop_sentence(batch, what, side)
                if found is not None:
                    chosen, rest = found
                    values[rows[chosen.cpu().numpy()]] = _scores(system, rest).current
    return Contributions(windows[:].current, tokens, full, without)


def _scores(system: AnalysedSystem, batch: Batch) -> Scores:
    return sums(token_scores(system.model, batch.source, batch.target), batch.target)
