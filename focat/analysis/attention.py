"""Where attention goes: how much of the current sentence's stays on it, and how widely it is spread (4.5 and 4.6).

Everything is a sum over (segment of the query, segment of the key), taken from one layer at a time: the weights of a
batch are there for a moment, and what is kept of them is a few numbers for each window and head.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from focat.analysis.corpora import AnalysedSystem
from focat.analysis.gates import recorded_gates
from focat.analysis.results import (
    ENTROPY_ORDERS,
    STACKS,
    AttentionResults,
    HeadAttention,
    LayerAttention,
    Stack,
    StackAttention,
)
from focat.analysis.streaming import window_batches
from focat.config.schema import WindowSettings
from focat.corpus.store import Split
from focat.evaluation.scores import Score, ratio_score
from focat.evaluation.significance import Floats
from focat.model.transformer import Transformer
from focat.model.two_pass import TwoPassTransformer
from focat.progress import Progress
from focat.windows.batch import Batch, PaddedSequences
from focat.windows.corpus_windows import Indices, cut_windows
from focat.windows.segments import decoder_input

_WEIGHTS = {"cpu": 1 << 23, "cuda": 1 << 27}  # attention weights of all heads of one layer in memory at a time


@dataclass(frozen=True)
class Tallies:
    """Sums over the queries of each window, for one stack of layers."""

    queries: Tensor  # (windows,) all of them
    current: Tensor  # (windows,) those of the current sentence; 0 where it has no context to look at instead
    towards: Tensor  # (windows, layers, heads, distances) weights from current queries, by the sentence they fall on
    entropy: Tensor  # (windows, layers, heads) of each head's weights
    layer_entropy: Tensor  # (windows, layers) of the weights' mean over heads
    mean_entropy: Tensor  # (windows,) of their mean over heads and layers


class AttentionTallies(list[Tensor]):
    """A list that the model appends attention weights to, which adds them up instead of keeping them.

    A state of the decoder belongs to the sentence whose token it predicts, as a query and as a key alike: the separator
    in front of the current sentence is where its first word is predicted, so it is the current sentence's.
    """

    def __init__(self, queries: PaddedSequences, keys: PaddedSequences, before: int, after: int, causal: bool) -> None:
        super().__init__()
        self._real = queries.segments >= 0  # (windows, queries)
        # What comes later is out of the decoder's sight: behind the current sentence is no context for it.
        context = keys.current > 0 if causal else keys.segments.amax(1) > 0  # (windows,)
        self._current = (queries.segments == queries.current[:, None]) & context[:, None]
        distance = keys.current[:, None] - keys.segments + after
        real = (keys.segments >= 0)[..., None]
        self._sentences = F.one_hot(distance.clamp(0, before + after), before + after + 1) * real
        self._towards: list[Tensor] = []
        self._entropy: list[Tensor] = []
        self._layer_entropy: list[Tensor] = []
        self._total: Tensor | float = 0.0

    def append(self, weights: Tensor) -> None:
        """Tally the weights of one layer, (windows, heads, queries, keys)."""
        on_sentences = weights @ self._sentences[:, None].to(weights.dtype)  # (windows, heads, queries, distances)
        self._towards.append(_over_queries(on_sentences.movedim(-1, 2), self._current))
        self._entropy.append(_over_queries(entropy(weights), self._real))
        of_layer = weights.mean(1)  # (windows, queries, keys)
        self._layer_entropy.append(_over_queries(entropy(of_layer), self._real))
        self._total = self._total + of_layer

    def tallies(self) -> Tallies:
        """What was read of all layers."""
        assert isinstance(self._total, Tensor)
        return Tallies(
            self._real.sum(-1).double(),
            self._current.sum(-1).double(),
            torch.stack(self._towards, 1),
            torch.stack(self._entropy, 1),
            torch.stack(self._layer_entropy, 1),
            _over_queries(entropy(self._total / len(self._towards)), self._real),
        )


def entropy(weights: Tensor) -> Tensor:
    """Of distributions over the last dimension, in nats; 0 log 0 is 0, so keys out of sight do not matter."""
    spread: Tensor = torch.special.entr(weights).sum(-1)
    return spread


def _over_queries(values: Tensor, queries: Tensor) -> Tensor:
    """Sums over some queries, the last dimension, in float64; `queries` is (windows, queries)."""
    shape = len(queries), *[1] * (values.dim() - 2), -1
    return torch.where(queries.view(shape), values, 0).sum(-1, dtype=torch.float64)


@torch.no_grad()
def read_attention(model: Transformer, batch: Batch, windows: WindowSettings) -> dict[Stack, Tallies]:
    """Add up the teacher-forced attention of one batch, for each stack."""
    source, target, sizes = batch.source, batch.target, (windows.before, windows.after)
    queries = target
    if isinstance(model, TwoPassTransformer):  # its second decoder reads the current sentence alone
        queries = replace(target, segments=target.segments.where(target.segments == target.current[:, None], -1))
    encoder = AttentionTallies(source, source, *sizes, causal=False)
    decoder = AttentionTallies(queries, target, *sizes, causal=True)
    cross = AttentionTallies(queries, source, *sizes, causal=False)
    model.decode(model.encode(source, encoder), decoder_input(target), decoder, cross)
    return {"encoder": encoder.tallies(), "decoder": decoder.tallies(), "cross": cross.tallies()}


@dataclass(frozen=True)
class CorpusAttention:
    """The attention of a system over a corpus."""

    sentences: Indices  # (windows,) the current sentence of each
    of_windows: dict[Stack, dict[str, Floats]]  # (windows,) each: queries, current, share, and the two entropies
    totals: dict[Stack, dict[str, Floats]]  # sums over windows, of every layer and head
    distances: list[int]  # of a sentence from the current one: 1 is the one before it, -1 the one behind it
    gates: dict[str, float]  # by name, how much of its own representation a token keeps

    def scores(self) -> dict[str, Score]:
        """Share and entropy of each stack; entropy of self-attention (both stacks), and of everything together."""
        found = []
        for stack in STACKS:
            of_stack = self.of_windows[stack]
            found.append(self._score(f"attention.share.{stack}", of_stack["share"], of_stack["current"]))
        groups: dict[str, tuple[Stack, ...]] = {stack: (stack,) for stack in STACKS}
        groups |= {"self": ("encoder", "decoder"), "all": STACKS}
        for order in ENTROPY_ORDERS:
            for group, stacks in groups.items():
                sums, counts = (np.sum([self.of_windows[s][name] for s in stacks], 0) for name in (order, "queries"))
                found.append(self._score(f"attention.entropy.{order}.{group}", sums, counts))
        return {score.name: score for score in found if score is not None}

    def _score(self, name: str, sums: Floats, counts: Floats) -> Score | None:
        return ratio_score(name, self.sentences, sums, counts, "windows", "attention")

    def results(self) -> AttentionResults:
        """Return all figures, by layer and head too."""
        values = {name: score.value for name, score in self.scores().items()}
        groups = (*STACKS, "self", "all")
        return AttentionResults(
            windows=len(self.sentences),
            windows_with_context=int((self.of_windows["encoder"]["current"] > 0).sum()),
            share={stack: values.get(f"attention.share.{stack}") for stack in STACKS},
            entropy={o: {g: values[f"attention.entropy.{o}.{g}"] for g in groups} for o in ENTROPY_ORDERS},
            stacks={stack: self._stack(stack) for stack in STACKS},
            gates=self.gates,
        )

    def _stack(self, stack: Stack) -> StackAttention:
        totals = self.totals[stack]
        queries, current = totals["queries"].item(), totals["current"].item()
        towards = totals["towards"] / current if current else None  # (layers, heads, distances)
        here = self.distances.index(0)
        entropies, of_layers = totals["entropy"] / queries, totals["layer_entropy"] / queries
        layers = []
        for i, of_heads in enumerate(entropies):
            shares = [None] * len(of_heads) if towards is None else towards[i, :, here].tolist()
            layers.append(
                LayerAttention(
                    layer=i + 1,
                    share=None if towards is None else float(towards[i, :, here].mean()),
                    entropy={"mean-then-entropy": float(of_layers[i]), "entropy-then-mean": float(of_heads.mean())},
                    heads=tuple(
                        HeadAttention(head=j + 1, share=share, entropy=entropy)
                        for j, (share, entropy) in enumerate(zip(shares, of_heads.tolist(), strict=True))
                    ),
                )
            )
        by_distance = {} if towards is None else dict(zip(self.distances, towards.mean((0, 1)).tolist(), strict=True))
        return StackAttention(
            queries=int(queries),
            current_queries=int(current),
            share_by_distance={str(d): by_distance[d] for d in sorted(by_distance, key=abs)},
            layers=tuple(layers),
        )


def corpus_attention(system: AnalysedSystem, split: Split, progress: Progress) -> CorpusAttention:
    """Add up the attention of a system over all windows of a corpus, cut as in training."""
    model, windows = system.model, cut_windows(split, system.windows)
    names = ("queries", "current", "share", *ENTROPY_ORDERS)
    of_windows: dict[Stack, dict[str, Floats]] = {s: {n: np.zeros(len(windows)) for n in names} for s in STACKS}
    totals: dict[Stack, dict[str, Tensor]] = {stack: {} for stack in STACKS}
    most = _WEIGHTS.get(system.device.type, _WEIGHTS["cpu"]) // model.settings.heads
    here = system.windows.after
    bar_of_windows = progress.bar(f"{system.name}: attention", "windows", len(windows))
    with bar_of_windows as bar, recorded_gates(model) as gates:
        for rows, batch in window_batches(windows, system.device, bar, most):
            for stack, read in read_attention(model, batch, system.windows).items():
                values = read.queries, read.current, read.towards[..., here].mean((1, 2)), read.mean_entropy
                for name, value in zip(names, (*values, read.entropy.mean((1, 2))), strict=True):
                    of_windows[stack][name][rows] = value.cpu().numpy()
                for field in fields(read):
                    total = getattr(read, field.name).sum(0)
                    totals[stack][field.name] = totals[stack].get(field.name, 0) + total
            gates.add(batch)
    added = {stack: {name: total.cpu().numpy() for name, total in totals[stack].items()} for stack in STACKS}
    distances = list(range(-system.windows.after, system.windows.before + 1))
    return CorpusAttention(windows[:].current, of_windows, added, distances, gates.means())
