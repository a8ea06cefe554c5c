"""The common form of all suites: sentences, their context, and candidate translations of which one is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue, PrivateAttr, StringConstraints, ValidationError
from typing_extensions import Self

from focat.errors import FocatError
from focat.evaluation.results import SuiteFormat, first_problem

Text = Annotated[str, StringConstraints(pattern=r"\S")]
Distance = Annotated[int | None, AfterValidator(lambda value: None if value is None or value < 0 else value)]
"""A number of sentences; a negative one stands for an unknown one, as in En→Fr."""


class SuiteEntry(BaseModel):
    """One entry of a suite's file, as published; errors name the file and the entry."""

    model_config = ConfigDict(strict=True, frozen=True)
    _where: str = PrivateAttr()

    @classmethod
    def read(cls, content: object, where: str) -> Self:
        """Check the fields of an entry; `where` is the file and the number of the entry."""
        try:
            entry = cls.model_validate(content)
        except ValidationError as error:
            raise FocatError(f"{where}: {first_problem(error)}") from None
        entry._where = where
        return entry

    def error(self, problem: str) -> FocatError:
        """Return an error about this entry."""
        return FocatError(f"{self._where}: {problem}")

    def check_index(self, name: str, index: int, candidates: int) -> int:
        """Return the index of the right candidate if there are so many."""
        if not 0 <= index < candidates:
            raise self.error(
                f"`{name}` is {index}, but the {candidates} candidates are counted from 0 to {candidates - 1}"
            )
        return index


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
    expected: str | None = None  # CTXPro: the form that a right translation contains; `forms` are it and wrong ones


@dataclass(frozen=True)
class Suite:
    """The instances of one file."""

    name: str
    kind: SuiteFormat
    instances: Sequence[Instance]
    sha256: str = ""  # of the text it was read from, whatever it was compressed with
    has_context: bool = True  # False: the context lies in other files, and none were given
    context_sha256: str = ""  # of the context that was read from other files
    generative: Sequence[Instance] = ()  # CTXPro: all instances; their translations are judged, candidates or not

    @property
    def candidates(self) -> int:
        """The number of candidates of all instances."""
        return sum(len(instance.candidates) for instance in self.instances)

    @property
    def translated(self) -> Sequence[Instance]:
        """The instances whose translations can be judged."""
        return self.generative or self.instances

    @property
    def identity(self) -> str:
        """The name and the beginnings of the digests, for signatures."""
        return f"{self.name}#{self.sha256[:8]}" + (f".{self.context_sha256[:8]}" if self.context_sha256 else "")

    @property
    def chance(self) -> float:
        """The accuracy of guessing, as a share."""
        return sum(1 / len(instance.candidates) for instance in self.instances) / len(self.instances)


def contrasts(instances: Sequence[Instance]) -> list[Instance]:
    """Return the instances that have a wrong candidate."""
    return [instance for instance in instances if len(instance.candidates) > 1]
