"""What each context sentence is worth: drop it from the window, and see the score of the current sentence move.

The sentence goes with the separator that closes it, on both sides or on one, and the window closes up: exactly the
window that would have been cut had the sentence not been there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from focat.analysis.measures import Measure, Measures, mean
from focat.analysis.streaming import batches
from focat.analysis.systems import System
from focat.choices import DropSide
from focat.config.schema import WindowSettings
from focat.corpus.store import Split
from focat.corpus.vocabulary import END, PAD, SEPARATOR
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

Dropped = int | Literal["all"]
"""The distance of a sentence from the current one (1 is the one before it, -1 the one behind), or all of them."""


def droppable(windows: WindowSettings, sides: DropSide) -> list[Dropped]:
    """What can be dropped from windows: each context sentence, and all at once where there are several."""
    before, after = windows.target if sides == "target" else (windows.before, windows.after)
    distances: list[Dropped] = [*range(1, before + 1), *range(-1, -after - 1, -1)]
    return [*distances, "all"] if len(distances) > 1 else distances


def without(side: PaddedSequences, dropped: Tensor) -> PaddedSequences:
    """The same windows without some of their context sentences, whose tokens (windows, length) are marked."""
    kept = (side.segments >= 0) & ~dropped
    lengths = kept.sum(-1)
    places = kept.int().sort(dim=-1, descending=True, stable=True).indices[:, : int(lengths.max())]
    tokens = torch.where(kept, side.tokens, PAD).gather(1, places)
    tokens[torch.arange(len(tokens), device=tokens.device), lengths - 1] = END  # it may be a sentence behind that went
    before = side.segments < side.current[:, None]
    return PaddedSequences(tokens, segments_of(tokens), (kept & before & (side.tokens == SEPARATOR)).sum(-1))


def marked(side: PaddedSequences, what: Dropped) -> Tensor:
    """The tokens (windows, length) of what is to be dropped."""
    distance = side.current[:, None] - side.segments
    wanted = distance != 0 if what == "all" else distance == what
    return wanted & (side.segments >= 0)


def drop(batch: Batch, what: Dropped, sides: DropSide) -> tuple[Tensor, Batch] | None:
    """Those windows of a batch that have such a sentence, as their rows and without it; None if there are none."""
    of_source, of_target = marked(batch.source, what), marked(batch.target, what)
    there = {"both": of_source.any(-1) | of_target.any(-1), "source": of_source.any(-1), "target": of_target.any(-1)}
    (rows,) = there[sides].nonzero(as_tuple=True)
    if not len(rows):
        return None
    some = batch.map(lambda tensor: tensor[rows])
    source = some.source if sides == "target" else without(some.source, of_source[rows])
    target = some.target if sides == "source" else without(some.target, of_target[rows])
    return rows, Batch(source, target, some.sentences)


@dataclass(frozen=True)
class Contributions:
    """Log-probabilities of the current sentence of each window, with its context and without parts of it."""

    sentences: Indices  # (windows,) the current sentence of each
    tokens: Floats  # (windows,) of the current sentence
    whole: Floats  # (windows,)
    parts: dict[tuple[DropSide, Dropped], Floats]  # (windows,) each; NaN where there was nothing to drop

    def measures(self) -> Measures:
        """How much better a token of the current sentence is predicted with what was dropped than without."""
        found: Measures = {}
        for (sides, what), score in self.parts.items():
            moved = self._moved(score)
            if moved is not None:
                found[f"context.{sides}.{what}"] = moved
        return found

    def record(self, trials: int = TRIALS, seed: int = SEED) -> list[dict[str, Any]]:
        """The figures, and whether they differ from nothing; p-values corrected over all of them (Holm)."""
        rows: list[dict[str, Any]] = []
        for (sides, what), score in self.parts.items():
            moved = self._moved(score)
            if moved is None:
                continue
            gone = np.stack([np.zeros(len(moved.items)), moved.statistics[:, 1]], 1)
            rows.append(
                {
                    "sides": sides,
                    "dropped": what,
                    "windows": len(moved.items),
                    "per_token": moved.value,
                    "per_sentence": float(moved.statistics[:, 0].mean()),
                    "better_with_it": float((moved.statistics[:, 0] > 0).mean()),
                    "p": approximate_randomisation(gone, moved.statistics, mean_formula, trials, seed),
                }
            )
        for row, p in zip(rows, corrected([row["p"] for row in rows], "holm"), strict=True):
            row |= {"corrected": p, "stars": stars(p)}
        return rows

    def _moved(self, score: Floats) -> Measure | None:
        there = ~np.isnan(score)
        return mean(self.sentences, np.where(there, self.whole - score, 0.0), self.tokens * there)


def contributions_of(system: System, split: Split, sides: Sequence[DropSide], progress: Progress) -> Contributions:
    """Over all windows of a corpus, as the system was trained to see them."""
    windows = cut_windows(split, system.windows)
    asked = [(side, what) for side in sides for what in droppable(system.windows, side)]
    whole, tokens = np.zeros(len(windows)), np.zeros(len(windows))
    parts = {part: np.full(len(windows), np.nan) for part in asked}
    with progress.bar(f"{system.name}: what context contributes", "windows", len(windows)) as bar:
        for rows, batch in batches(split, windows, system.device, bar):
            scores = _scores(system, batch)
            whole[rows], tokens[rows] = scores.current, scores.current_tokens
            for (side, what), part in parts.items():
                found = drop(batch, what, side)
                if found is not None:
                    chosen, rest = found
                    part[rows[chosen.cpu().numpy()]] = _scores(system, rest).current
    return Contributions(windows.current, tokens, whole, parts)


def _scores(system: System, batch: Batch) -> Scores:
    return sums(token_scores(system.model, batch.source, batch.target), batch.target)
