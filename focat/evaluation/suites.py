"""Contrastive suites as they were published: Voita et al. (2019) and ContraPro (Müller et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any


@dataclass(frozen=True)
class Instance:
    """One question put to a model: which of these is the translation of the last source sentence?"""

    source: Sequence[str]  # the context, then the current sentence
    target: Sequence[str]  # the translated context
    candidates: Sequence[str]
    right: int
    distance: int | None  # sentences between the current one and what decides; None if not annotated
    strict: bool  # whether a tie is wrong (ContraPro), or goes to the first (Voita)


def voita_instances(entries: Sequence[Mapping[str, Any]]) -> list[Instance]:
    """From the published JSON: candidates are whole fragments that differ in their last sentence only."""
    instances = []
    for entry in entries:
        source = entry["src"].split(" _eos ")
        candidates = [candidate.split(" _eos ") for candidate in entry["dst"]]
        context, right = candidates[0][:-1], entry["true_ind"]
        last = [candidate[-1] for candidate in candidates]
        instances.append(Instance(source, context, last, right, entry["ctx_dist"], strict=False))
    return instances


def contrapro_instances(
    entries: Sequence[Mapping[str, Any]], source_context: Sequence[str], target_context: Sequence[str]
) -> list[Instance]:
    """From the published JSON and text: context lines stand once for each candidate, the reference first."""
    candidates = sum(1 + len(entry["errors"]) for entry in entries)
    sides = [(iter(lines), len(lines) // candidates) for lines in (source_context, target_context)]
    instances = []
    for entry in entries:
        wrong = [error["contrastive"] for error in entry["errors"]]
        contexts = []
        for lines, count in sides:
            repeated = list(islice(lines, count * (1 + len(wrong))))
            contexts.append([line for line in repeated[:count] if line])  # blank where the document begins
        source, target = contexts
        instances.append(
            Instance(
                [*source, entry["src segment"]],
                target,
                [entry["ref segment"], *wrong],
                right=0,
                distance=entry["ante distance"],
                strict=True,
            )
        )
    return instances
