"""What a token store holds, as the model sees it: `focat inspect`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from focat.analysis.results import InspectionResults, LengthResult, SuspiciousPair
from focat.config.schema import WindowSettings
from focat.corpus.store import SIDES, Integers, Split, Store
from focat.corpus.tokenizer import Vocabulary
from focat.progress import shortened
from focat.windows.batch import PaddedSequences
from focat.windows.corpus_windows import cut_windows, gather_batch

_BINS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # left edges, in tokens


@dataclass(frozen=True)
class WindowTokens:
    """One side of a sampled window: its tokens, and the segment of each."""

    pieces: list[str]
    segments: list[int]
    current: int
    """The segment of the current sentence."""


@dataclass(frozen=True)
class Inspection:
    """Figures of a split, and sampled windows: source and target of each."""

    results: InspectionResults
    windows: list[tuple[WindowTokens, WindowTokens]]


def inspect_split(store: Store, name: str, settings: WindowSettings, samples: int) -> Inspection:
    """Count, measure and sample one split of a store."""
    store.verify()
    split = store.split(name)
    windows = cut_windows(split, settings)
    manifest = store.manifest
    counts = {key: manifest["splits"][name][key] for key in ("documents", "pairs", "read", "removed")}
    results = InspectionResults(
        store=str(store.path),
        split=name,
        languages=(manifest["source_language"], manifest["target_language"]),
        vocabularies=(manifest["source_vocabulary"], manifest["target_vocabulary"]),
        **counts,
        sentence_lengths={side: length_result(getattr(split, side).lengths - 1) for side in SIDES},
        window_lengths={side: length_result(found) for side, found in zip(SIDES, windows.lengths(), strict=True)},
        windows_shortened=windows.shortened,
        sentences_too_long=len(windows.too_long),
        suspicious=tuple(_suspicious(store, split)),
    )
    samples = min(samples, len(windows))
    chosen = (2 * np.arange(samples) + 1) * len(windows) // (2 * samples or 1)  # the middles of so many equal parts
    shown = []
    for row in chosen:
        batch = gather_batch(windows, np.array([row]))
        shown.append((_tokens(batch.source, store.tokenizer.source), _tokens(batch.target, store.tokenizer.target)))
    return Inspection(results, shown)


def length_result(lengths: Integers) -> LengthResult:
    """Return the mean, the maximum and a histogram of lengths in tokens."""
    counts, _ = np.histogram(lengths, [0, *_BINS[1:], max(_BINS[-1], int(lengths.max(initial=0))) + 1])
    labels = [f"{low}–{high - 1}" if high - low > 1 else f"{low}" for low, high in itertools.pairwise(_BINS)]
    labels = ["0–1", *labels[1:], f"{_BINS[-1]}–"]
    return LengthResult(
        mean=round(float(lengths.mean()), 2) if len(lengths) else 0.0,
        longest=int(lengths.max(initial=0)),
        histogram={label: int(count) for label, count in zip(labels, counts, strict=True)},
    )


def _suspicious(store: Store, split: Split, most: int = 6) -> list[SuspiciousPair]:
    """Return the pairs least likely to be translations of each other: by length, or because both sides are the same."""
    source, target = split.source.lengths - 1, split.target.lengths - 1
    # How far a pair's length ratio is from the corpus', in logarithms; short sentences count for less.
    expected = (target.sum() + 1) / (source.sum() + 1)
    oddness = np.abs(np.log((target + 4) / (expected * source + 4)))
    odd = np.argsort(-oddness, kind="stable")[:most]
    found = [(int(pair), f"{source[pair]} to {target[pair]} tokens") for pair in odd if oddness[pair] > np.log(2)]
    if store.manifest["joint"]:
        alike = np.flatnonzero((source == target) & (source > 5))[:200_000]
        same = (int(i) for i in alike if np.array_equal(split.source[i], split.target[i]))
        found += [(pair, "both sides are the same") for pair, _ in zip(same, range(most), strict=False)]
    return [
        SuspiciousPair(
            pair=pair,
            why=why,
            source=shortened(store.tokenizer.source.decode(split.source[pair])),
            target=shortened(store.tokenizer.target.decode(split.target[pair])),
        )
        for pair, why in found
    ]


def _tokens(side: PaddedSequences, vocabulary: Vocabulary) -> WindowTokens:
    pieces = [vocabulary.piece(token) for token in side.tokens[0].tolist()]
    return WindowTokens(pieces, side.segments[0].tolist(), int(side.current[0]))
