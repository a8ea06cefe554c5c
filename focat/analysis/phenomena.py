"""Context by phenomenon: contrastive suites scored with windows of any size, and without any one context sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from focat.analysis.contributions import droppable
from focat.analysis.corpora import AnalysedSystem
from focat.analysis.results import Dropped, PhenomenonEffect
from focat.choices import DropSide, ScoringRule
from focat.config.schema import WindowSettings
from focat.evaluation.contrastive import ContextConfig, candidate_group, preferred_candidate
from focat.evaluation.prefix_scoring import CandidateGroup, score_candidates
from focat.evaluation.scores import Score, accuracy_score, ratio_score
from focat.evaluation.significance import Floats
from focat.evaluation.suites import Instance, Suite
from focat.progress import Progress
from focat.windows.corpus_windows import Indices


@dataclass(frozen=True)
class SuiteInstance:
    """An instance, and the suite it is from."""

    suite: str
    instance: Instance

    @property
    def phenomenon(self) -> str:
        """What it tests."""
        return self.instance.phenomenon or self.suite


@dataclass(frozen=True)
class InstanceMargins:
    """Which instances a system gets right, and by what margin."""

    items: Indices  # (instances,) their indices among all
    correct: NDArray[np.bool_]  # (instances,)
    margins: Floats  # (instances,) score of the right candidate, less that of the best wrong one


def instances_of(suites: Sequence[Suite]) -> list[SuiteInstance]:
    """Return all instances of all suites in a row."""
    return [SuiteInstance(suite.name, instance) for suite in suites for instance in suite.instances]


def score_suites(
    system: AnalysedSystem,
    instances: Sequence[SuiteInstance],
    groups: Sequence[CandidateGroup | None],
    rule: ScoringRule,
    progress: Progress,
) -> InstanceMargins:
    """Score the candidates of those instances that have a group."""
    items = np.array([i for i, group in enumerate(groups) if group is not None], np.int64)
    scored = [group for group in groups if group is not None]
    scores = score_candidates(system.model, system.tokenizer, scored, progress=progress).by(rule)
    each = np.split(scores, np.cumsum([len(group.candidates) for group in scored])[:-1]) if scored else []
    pairs = list(zip(each, [instances[i].instance for i in items], strict=True))
    correct = [preferred_candidate(found.tolist(), one) == one.right for found, one in pairs]
    margins = [found[one.right] - np.delete(found, one.right).max() for found, one in pairs]
    return InstanceMargins(items, np.array(correct, bool), np.array(margins, np.float64))


def groups_of(
    system: AnalysedSystem, instances: Sequence[SuiteInstance], windows: WindowSettings
) -> list[CandidateGroup]:
    """Return what a system sees of each instance with such windows."""
    context = ContextConfig.of(windows)
    return [candidate_group(one.instance, context, system.tokenizer) for one in instances]


def without_sentence(group: CandidateGroup, what: Dropped, sides: DropSide) -> CandidateGroup | None:
    """Drop a context sentence; None if the group has no such sentence."""
    context, current = group.source[:-1], group.source[-1]
    source = context if sides == "target" else _drop(context, what)
    target = group.target if sides == "source" else _drop(group.target, what)
    if len(source) == len(context) and len(target) == len(group.target):
        return None
    return replace(group, source=(*source, current), target=target)


def _drop(sentences: tuple[str, ...], what: Dropped) -> tuple[str, ...]:
    if what == "all":
        return ()
    index = len(sentences) - what
    return (*sentences[:index], *sentences[index + 1 :]) if 0 <= index < len(sentences) else sentences


@dataclass(frozen=True)
class ContextEffects:
    """Margins with all context, and without some of it."""

    instances: Sequence[SuiteInstance]
    full: InstanceMargins
    without: dict[tuple[DropSide, Dropped], InstanceMargins]

    def scores(self) -> dict[str, Score]:
        """How the margin changes when a sentence is dropped, for each phenomenon."""
        found: dict[str, Score] = {}
        for (sides, what), without in self.without.items():
            for phenomenon in phenomena(self.instances):
                chosen = self._chosen(without, phenomenon, None)
                items = without.items[chosen]
                change = without.margins[chosen] - self.full.margins[items]
                name = f"context.margin.{phenomenon}.{sides}.{what}"
                score = ratio_score(name, items, change, np.ones(len(items)), "instances", "context")
                if score is not None:
                    found[name] = score
        return found

    def results(self) -> tuple[PhenomenonEffect, ...]:
        """Return a row for each phenomenon, distance (None: all) and dropped sentence (first: none)."""
        rows = []
        variants = [((None, None), self.full), *self.without.items()]
        for phenomenon in phenomena(self.instances):
            mine = [one for one in self.instances if one.phenomenon == phenomenon]
            distances = sorted({one.instance.distance for one in mine if one.instance.distance is not None})
            for distance in (None, *(distances if len(distances) > 1 else ())):
                for (sides, what), margins in variants:
                    chosen = self._chosen(margins, phenomenon, distance)
                    if chosen.any():
                        rows.append(self._effect(margins, chosen, phenomenon, distance, sides, what))
        return tuple(rows)

    def _effect(
        self,
        margins: InstanceMargins,
        chosen: NDArray[np.bool_],
        phenomenon: str,
        distance: int | None,
        sides: DropSide | None,
        what: Dropped | None,
    ) -> PhenomenonEffect:
        """Over the chosen instances, with the dropped sentence and without it."""
        items = margins.items[chosen]
        with_it, without_it = self.full.margins[items].mean(), margins.margins[chosen].mean()
        return PhenomenonEffect(
            phenomenon=phenomenon,
            distance=distance,
            sides=sides,
            dropped=what,
            instances=len(items),
            accuracy=100 * float(margins.correct[chosen].mean()),
            accuracy_with_it=100 * float(self.full.correct[items].mean()),
            margin=float(without_it),
            margin_with_it=float(with_it),
            margin_change=float(without_it - with_it),
        )

    def _chosen(self, margins: InstanceMargins, phenomenon: str, distance: int | None) -> NDArray[np.bool_]:
        """(instances,) which of them are about a phenomenon, and decided at a distance (None: any)."""
        ones = (self.instances[i] for i in margins.items)
        return np.array(
            [one.phenomenon == phenomenon and distance in (None, one.instance.distance) for one in ones], bool
        )


def context_effects(
    system: AnalysedSystem,
    instances: Sequence[SuiteInstance],
    sides: Sequence[DropSide],
    rule: ScoringRule,
    progress: Progress,
) -> ContextEffects:
    """Score suites with and without each context sentence, in windows as in training."""
    groups = groups_of(system, instances, system.windows)
    full = score_suites(system, instances, groups, rule, progress)
    without = {}
    for side in sides:
        for what in droppable(system.windows, side):
            if what == "all" or what > 0:  # suites have no sentences behind the current one
                rest = [without_sentence(group, what, side) for group in groups]
                without[side, what] = score_suites(system, instances, rest, rule, progress)
    return ContextEffects(instances, full, without)


def phenomena(instances: Sequence[SuiteInstance]) -> list[str]:
    """Return the phenomena of instances, in their order."""
    return list(dict.fromkeys(one.phenomenon for one in instances))


def phenomenon_accuracies(
    margins: InstanceMargins, instances: Sequence[SuiteInstance], name: str = "{}"
) -> dict[str, Score]:
    """Return the accuracy on each phenomenon, and on all together where there are several.

    Args:
        margins: the scored instances.
        instances: all instances.
        name: of a score, with {} in place of the phenomenon.
    """
    of_instance = np.array([one.phenomenon for one in instances])[margins.items]
    chosen = {phenomenon: of_instance == phenomenon for phenomenon in phenomena(instances)}
    if len(chosen) > 1:
        chosen["all"] = np.ones(len(of_instance), bool)
    return {
        phenomenon: accuracy_score(
            name.format(phenomenon), margins.correct[mask], margins.items[mask], "instances", family="robustness"
        )
        for phenomenon, mask in chosen.items()
    }
