"""DiscEvalMT (Bawden et al., 2018), En→Fr: anaphora and lexical choice, decided by the sentence before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from focat.errors import FocatError
from focat.evaluation.suites.instance import Instance, SuiteEntry, Text

Pair = Annotated[list[Text], Field(min_length=2, max_length=2)]
"""The sentence before, and the current one."""


class Translations(SuiteEntry):
    """A right translation and a wrong one, both after the same sentence."""

    correct: Pair | None = None
    semi_correct: Pair | None = Field(None, alias="semi-correct")
    incorrect: Pair
    type: str | None = None

    def instance(self, source: list[str], kind: str | None, phenomenon: str, number: int) -> Instance:
        """Return the instance in the common form."""
        correct = self.correct or self.semi_correct
        if correct is None:
            raise self.error("has neither `correct` nor `semi-correct`")
        if correct[0] != self.incorrect[0]:
            raise self.error("its translations follow different sentences")
        labels = {"type": kind, "translation": "correct" if self.correct else "semi-correct"}
        return Instance(
            source,
            [correct[0]],
            [correct[1], self.incorrect[1]],
            0,
            1,
            strict=True,
            phenomenon=phenomenon,
            id=number,
            labels={name: value for name, value in labels.items() if value is not None},
        )


class AnaphoraBlock(SuiteEntry):
    """Translations of one source, with antecedents of different gender."""

    src: Pair
    trg: Annotated[list[object], Field(min_length=1)]


class ChoiceExample(SuiteEntry):
    """One source and its translations."""

    src: Pair
    trg: object


class ChoiceBlock(SuiteEntry):
    """Examples in which the same words call for different translations."""

    examples: Annotated[list[object], Field(min_length=1)]
    type: Literal["repet", "disambig", "repet, disambig"] | None = None


def discevalmt_instances(content: Mapping[str, object], phenomenon: str = "", where: str = "suite") -> list[Instance]:
    """Read the published JSON: blocks by number, each with its examples."""
    instances: list[Instance] = []
    try:
        blocks = sorted(content.items(), key=lambda item: int(item[0]))
    except ValueError:
        raise FocatError(f"{where}: no suite that is known: its blocks are not numbered") from None
    for key, block in blocks:
        place = f"{where}, block {key}"
        if isinstance(block, dict) and "examples" in block:
            choice = ChoiceBlock.read(block, place)
            for i, item in enumerate(choice.examples, 1):
                example = ChoiceExample.read(item, f"{place}, example {i}")
                pair = Translations.read(example.trg, f"{place}, example {i}")
                instances.append(pair.instance(example.src, choice.type, phenomenon, len(instances)))
        else:
            anaphora = AnaphoraBlock.read(block, place)
            for i, item in enumerate(anaphora.trg, 1):
                pair = Translations.read(item, f"{place}, translation {i}")
                instances.append(pair.instance(anaphora.src, pair.type, phenomenon, len(instances)))
    return instances
