"""The common form of all suites: sentences, their context, and candidate translations of which one is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from focat.evaluation.results import SuiteFormat


@dataclass(frozen=True)
class Instance:
    """Candidate translations of the last source sentence, of which one is right."""

    source: Sequence[str]  # the context, then the current sentence
    target: Sequence[str]  # the translated context; may be shorter than the source's, never misaligned at its end
    candidates: Sequence[str]
    right: int
    distance: int | None  # sentences between the current one and what decides; None if not annotated
    strict: bool  # whether a tie is wrong (ContraPro), or goes to the first (Voita)
    phenomenon: str = ""
    id: int | str = 0
    labels: Mapping[str, JsonValue] = field(default_factory=dict)
    forms: Sequence[str] | None = None  # the word that each candidate is about; None if not annotated


@dataclass(frozen=True)
class Suite:
    """The instances of one file."""

    name: str
    kind: SuiteFormat
    instances: Sequence[Instance]
    sha256: str = ""  # of the text it was read from, whatever it was compressed with
    has_context: bool = True  # False: the context lies in other files, and none were given
    context_sha256: str = ""  # of the context that was read from other files

    @property
    def candidates(self) -> int:
        """The number of candidates of all instances."""
        return sum(len(instance.candidates) for instance in self.instances)

    @property
    def identity(self) -> str:
        """The name and the beginnings of the digests, for signatures."""
        return f"{self.name}#{self.sha256[:8]}" + (f".{self.context_sha256[:8]}" if self.context_sha256 else "")

    @property
    def chance(self) -> float:
        """The accuracy of guessing, as a share."""
        return sum(1 / len(instance.candidates) for instance in self.instances) / len(self.instances)
