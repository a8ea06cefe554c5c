"""What every suite comes down to: sentences, their context, and candidate translations of which one is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["voita", "contrapro", "own"]


@dataclass(frozen=True)
class Instance:
    """One question put to a model: which of these is the translation of the last source sentence?"""

    source: Sequence[str]  # the context, then the current sentence
    target: Sequence[str]  # the translated context; may be shorter than the source's, never misaligned at its end
    candidates: Sequence[str]
    right: int
    distance: int | None  # sentences between the current one and what decides; None if not annotated
    strict: bool  # whether a tie is wrong (ContraPro), or goes to the first (Voita)
    phenomenon: str = ""
    id: int | str = 0
    labels: Mapping[str, Any] = field(default_factory=dict)
    forms: Sequence[str] | None = None  # the word that each candidate is about; None if not annotated


@dataclass(frozen=True)
class Suite:
    """The instances of one file."""

    name: str
    kind: Kind
    instances: Sequence[Instance]
    sha256: str = ""  # of the text it was read from, whatever it was compressed with
    has_context: bool = True  # False: the context lies in other files, and none were given
    context_sha256: str = ""  # of the context that was read from other files

    @property
    def candidates(self) -> int:
        """How many there are over all instances."""
        return sum(len(instance.candidates) for instance in self.instances)

    @property
    def identity(self) -> str:
        """Its name and the beginnings of its digests, for signatures."""
        return f"{self.name}#{self.sha256[:8]}" + (f".{self.context_sha256[:8]}" if self.context_sha256 else "")

    @property
    def chance(self) -> float:
        """The share of right answers of someone who guesses."""
        return sum(1 / len(instance.candidates) for instance in self.instances) / len(self.instances)
