"""Context by phenomenon: the answers to contrastive suites with windows of any size, and without any one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focat.analysis.contributions import Dropped, droppable
from focat.analysis.measures import Indices, Measure, Measures, accuracy, mean
from focat.analysis.systems import System
from focat.choices import DropSide, ScoringRule
from focat.config.schema import WindowSettings
from focat.evaluation.contrastive import Context, chosen, group_of
from focat.evaluation.prefix_scoring import Group, score_groups
from focat.evaluation.significance import Floats
from focat.evaluation.suites import Instance, Suite
from focat.progress import Progress


@dataclass(frozen=True)
class Question:
    """One instance of a suite."""

    suite: str
    instance: Instance

    @property
    def phenomenon(self) -> str:
        """What it is about."""
        return self.instance.phenomenon or self.suite


@dataclass(frozen=True)
class Answers:
    """What a system made of some questions."""

    items: Indices  # (questions,) their places among all
    correct: NDArray[np.bool_]  # (questions,)
    margins: Floats  # (questions,) score of the right candidate, less that of the best wrong one


def questions_of(suites: Sequence[Suite]) -> list[Question]:
    """All instances of all suites in a row."""
    return [Question(suite.name, instance) for suite in suites for instance in suite.instances]


def answer(
    system: System, questions: Sequence[Question], groups: Sequence[Group | None], rule: ScoringRule, progress: Progress
) -> Answers:
    """The answers to those questions that have a group of candidates to choose from."""
    items = np.array([i for i, group in enumerate(groups) if group is not None], np.int64)
    asked = [group for group in groups if group is not None]
    scores = score_groups(system.model, system.tokenizer, asked, progress=progress).by(rule)
    each = np.split(scores, np.cumsum([len(group.candidates) for group in asked])[:-1]) if asked else []
    instances = [questions[i].instance for i in items]
    correct = [chosen(found.tolist(), one) == one.right for found, one in zip(each, instances, strict=True)]
    margins = [found[one.right] - np.delete(found, one.right).max() for found, one in zip(each, instances, strict=True)]
    return Answers(items, np.array(correct, bool), np.array(margins, np.float64))


def groups_of(system: System, questions: Sequence[Question], windows: WindowSettings) -> list[Group]:
    """What a system sees of each question through such windows."""
    context = Context.of(windows)
    return [group_of(question.instance, context, system.tokenizer) for question in questions]


def without_sentence(group: Group, what: Dropped, sides: DropSide) -> Group | None:
    """The same without a context sentence; None if it has no such sentence."""
    context, current = group.source[:-1], group.source[-1]
    source = context if sides == "target" else _cut(context, what)
    target = group.target if sides == "source" else _cut(group.target, what)
    if len(source) == len(context) and len(target) == len(group.target):
        return None
    return replace(group, source=(*source, current), target=target)


def _cut(sentences: tuple[str, ...], what: Dropped) -> tuple[str, ...]:
    if what == "all":
        return ()
    place = len(sentences) - what
    return (*sentences[:place], *sentences[place + 1 :]) if 0 <= place < len(sentences) else sentences


@dataclass(frozen=True)
class Effects:
    """Answers with all context, and without parts of it."""

    questions: Sequence[Question]
    whole: Answers
    parts: dict[tuple[DropSide, Dropped], Answers]

    def measures(self) -> Measures:
        """How far the margin falls when a sentence is dropped, for each phenomenon."""
        found: Measures = {}
        for (sides, what), part in self.parts.items():
            for phenomenon in phenomena(self.questions):
                chosen = np.array([self.questions[i].phenomenon == phenomenon for i in part.items], bool)
                moved = self._moved(part, chosen)
                if moved is not None:
                    found[f"context.margin.{phenomenon}.{sides}.{what}"] = moved
        return found

    def record(self) -> list[dict[str, Any]]:
        """For each phenomenon, each distance of what decides (null: all), and each sentence dropped (first: none)."""
        rows = []
        everything = [((None, None), self.whole), *self.parts.items()]
        for phenomenon in phenomena(self.questions):
            mine = [question for question in self.questions if question.phenomenon == phenomenon]
            distances = sorted({one.instance.distance for one in mine if one.instance.distance is not None})
            for distance in (None, *(distances if len(distances) > 1 else ())):
                for (sides, what), part in everything:
                    row = self._row(part, phenomenon, distance)
                    if row is not None:
                        about = {"phenomenon": phenomenon, "distance": distance, "sides": sides, "dropped": what}
                        rows.append(about | row)
        return rows

    def _row(self, part: Answers, phenomenon: str, distance: int | None) -> dict[str, Any] | None:
        """Over the instances that have such a sentence, with it and without it."""
        chosen = np.array([self._is_about(self.questions[i], phenomenon, distance) for i in part.items], bool)
        if not chosen.any():
            return None
        items = part.items[chosen]
        with_it, without_it = self.whole.margins[items].mean(), part.margins[chosen].mean()
        return {
            "instances": len(items),
            "accuracy": 100 * float(part.correct[chosen].mean()),
            "accuracy_with_it": 100 * float(self.whole.correct[items].mean()),
            "margin": float(without_it),
            "margin_with_it": float(with_it),
            "margin_change": float(without_it - with_it),
        }

    @staticmethod
    def _is_about(question: Question, phenomenon: str, distance: int | None) -> bool:
        return question.phenomenon == phenomenon and distance in (None, question.instance.distance)

    def _moved(self, part: Answers, chosen: NDArray[np.bool_]) -> Measure | None:
        items = part.items[chosen]
        return mean(items, part.margins[chosen] - self.whole.margins[items], np.ones(len(items)))


def effects_of(
    system: System, questions: Sequence[Question], sides: Sequence[DropSide], rule: ScoringRule, progress: Progress
) -> Effects:
    """What dropping each context sentence does to the answers, in windows as the system was trained to see them."""
    groups = groups_of(system, questions, system.windows)
    whole = answer(system, questions, groups, rule, progress)
    parts = {}
    for side in sides:
        for what in droppable(system.windows, side):
            if what == "all" or what > 0:  # suites have no sentences behind the current one
                rest = [without_sentence(group, what, side) for group in groups]
                parts[side, what] = answer(system, questions, rest, rule, progress)
    return Effects(questions, whole, parts)


def phenomena(questions: Sequence[Question]) -> list[str]:
    """Those that the questions are about, in their order."""
    return list(dict.fromkeys(question.phenomenon for question in questions))


def accuracy_measures(answers: Answers, questions: Sequence[Question]) -> Measures:
    """Accuracy on each phenomenon, and on all together where there are several."""
    names = np.array([question.phenomenon for question in questions])[answers.items]
    found = {
        name: accuracy(answers.items[names == name], answers.correct[names == name]) for name in phenomena(questions)
    }
    return found if len(found) < 2 else found | {"all": accuracy(answers.items, answers.correct)}
