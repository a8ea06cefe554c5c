"""Two suite formats whose entries hold their context: that of Voita et al. (2019), and our own, JSON Lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue

from focat.corpus.document import SENTENCE_BREAK
from focat.evaluation.suites.instance import Distance, Instance, SuiteEntry, Text


class VoitaEntry(SuiteEntry):
    """Candidates are whole fragments that differ in their last sentence only."""

    src: Text
    dst: Annotated[list[Text], Field(min_length=2)]
    true_ind: int
    ctx_dist: Distance = None

    def instance(self, phenomenon: str, number: int) -> Instance:
        """Return the instance in the common form."""
        source = self.src.split(SENTENCE_BREAK)
        candidates = [text.split(SENTENCE_BREAK) for text in self.dst]
        context = candidates[0][:-1]
        for i, candidate in enumerate(candidates):
            if len(candidate) != len(source):
                raise self.error(f"`dst[{i}]` has {len(candidate)} sentences but `src` has {len(source)}")
            if candidate[:-1] != context:
                raise self.error(f"`dst[{i}]` differs from `dst[0]` before the last sentence")
        right = self.check_index("true_ind", self.true_ind, len(candidates))
        last = [candidate[-1] for candidate in candidates]
        return Instance(source, context, last, right, self.ctx_dist, strict=False, phenomenon=phenomenon, id=number)


class OwnEntry(SuiteEntry):
    """An instance as it is: one JSON object to a line."""

    model_config = ConfigDict(extra="forbid")

    source: Annotated[list[Text], Field(min_length=1)]
    target: list[Text] = Field(default_factory=list)
    candidates: Annotated[list[Text], Field(min_length=2)]
    right: int
    distance: Distance = None
    phenomenon: Text | None = None
    id: int | str | None = None
    ties: Literal["wrong", "first"] = "wrong"
    forms: list[Text] | None = None
    labels: dict[str, JsonValue] = Field(default_factory=dict)

    def instance(self, phenomenon: str, number: int) -> Instance:
        """Return the instance in the common form; `phenomenon` and `number` stand in for what it does not say."""
        if len(self.target) > len(self.source) - 1:
            raise self.error(
                f"`target` has {len(self.target)} context sentences but `source` only {len(self.source) - 1}"
            )
        if self.forms is not None and len(self.forms) != len(self.candidates):
            raise self.error(f"`forms` has {len(self.forms)} words for {len(self.candidates)} candidates")
        return Instance(
            self.source,
            self.target,
            self.candidates,
            self.check_index("right", self.right, len(self.candidates)),
            self.distance,
            strict=self.ties == "wrong",
            phenomenon=self.phenomenon or phenomenon,
            id=number if self.id is None else self.id,
            labels=self.labels,
            forms=self.forms,
        )


def voita_instances(entries: Sequence[object], phenomenon: str = "", where: str = "suite") -> list[Instance]:
    """Read the consistency suites for En→Ru: deixis, lexical cohesion, ellipsis of inflections and of verbs."""
    read = (VoitaEntry.read(entry, f"{where}, entry {i}") for i, entry in enumerate(entries, 1))
    return [entry.instance(phenomenon, number) for number, entry in enumerate(read)]


def own_instances(
    entries: Iterable[object], phenomenon: str = "", where: str = "suite", unit: str = "line"
) -> list[Instance]:
    """Read the objects of the lines."""
    read = (OwnEntry.read(entry, f"{where}, {unit} {i}") for i, entry in enumerate(entries, 1))
    return [entry.instance(phenomenon, number) for number, entry in enumerate(read)]


def phenomenon_of(name: str) -> str:
    """Return the phenomenon that a published file is named after: deixis, from deixis_test."""
    return re.sub(r"[_.-](test|dev|valid)$", "", name)
