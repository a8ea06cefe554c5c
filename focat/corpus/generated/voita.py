"""Consistency suites in the layout of Voita et al. (2019), from the grammar of the generated corpus.

Instances come in groups of twins that share their last sentence and their candidates and differ in the context, so
that each candidate is right once: whatever a scorer without context prefers, it is right in one of the group.
Unlike the published files, the sentences are not tokenised: they have the corpus's own form.
"""

from __future__ import annotations

from itertools import count
from typing import TypedDict

from focat.corpus.document import SENTENCE_BREAK
from focat.corpus.generated.agreement import DU, SIE, Gender, Word
from focat.corpus.generated.lexicon import ROLES, TERMS
from focat.corpus.generated.patterns import CALLS, DENIALS, ELLIPSES, MENTIONS, YOU, GeneratedPair
from focat.corpus.generated.scene import CONTEXT, Scene
from focat.corpus.generated.seeded_random import SeededRandom

VERBS = 5
"""Candidates of an ellipsis."""


class VoitaInstance(TypedDict):
    """One instance; of `dst`, the candidate at `true_ind` fits what was said `ctx_dist` sentences before."""

    dst: list[str]
    true_ind: int
    src: str
    ctx_dist: int


def voita_suite(phenomenon: str, instances: int, seed: int) -> list[VoitaInstance]:
    """Make at least `instances` instances of `deixis`, `lex_cohesion` or `ellipsis_vp`, rounded up to whole groups."""
    if phenomenon not in _TWINS:
        raise ValueError(f"no phenomenon {phenomenon!r}; choose one of {', '.join(GENERATED_PHENOMENA)}")
    suite: list[VoitaInstance] = []
    for group in count():
        if len(suite) >= instances:
            break
        suite += _TWINS[phenomenon]((phenomenon, seed, group), 1 + group % CONTEXT)
    return suite


_GroupKey = tuple[str, int, int]  # phenomenon, seed, number of the group


def _deixis(key: _GroupKey, distance: int) -> list[VoitaInstance]:
    """A listener called by name, or addressed as *du* or *Sie*, is addressed again."""
    twins = []
    for truth, address in enumerate((DU, SIE)):
        scene = Scene(SeededRandom(*key), address)
        first, again = scene.draw.some_of(YOU, 2)
        if scene.draw.chance(0.5):
            first = scene.draw.one_of(CALLS)
        context = scene.fillers(CONTEXT)
        context[-distance] = scene.say(first)
        roles = scene.fill(again)
        candidates = [again.say(roles | {"you": Word("you", form)}) for form in (DU, SIE)]
        twins.append(_instance(context, candidates, truth, distance))
    return twins


def _lex_cohesion(key: _GroupKey, distance: int) -> list[VoitaInstance]:
    """A term that was translated one way is named again."""
    twins = []
    for truth in range(2):
        scene = Scene(SeededRandom(*key))
        translations = scene.draw.one_of(TERMS[scene.draw.one_of(tuple(Gender))]).words()
        scene.speak_of(translations[truth])
        first, again = scene.draw.some_of(MENTIONS, 2)
        context = scene.fillers(CONTEXT)
        context[-distance] = scene.say(first)
        roles = scene.fill(again)
        candidates = [again.say(roles | {"thing": word}) for word in translations]
        twins.append(_instance(context, candidates, truth, distance))
    return twins


def _ellipsis_vp(key: _GroupKey, distance: int) -> list[VoitaInstance]:
    """What somebody does not do, somebody else does."""
    twins = []
    for truth in range(VERBS):
        scene = Scene(SeededRandom(*key))
        verbs = scene.draw.some_of(ROLES["verb"], VERBS)
        denial, ellipsis = scene.draw.one_of(DENIALS), scene.draw.one_of(ELLIPSES)
        denied = scene.fill(denial, verb=verbs[truth])
        context = scene.fillers(CONTEXT)
        context[-distance] = denial.say(denied)
        roles = scene.fill(ellipsis, who=denied["who"], verb=verbs[truth])
        candidates = [ellipsis.say(roles | {"verb": verb}) for verb in verbs]
        twins.append(_instance(context, candidates, truth, distance))
    return twins


_TWINS = {"deixis": _deixis, "lex_cohesion": _lex_cohesion, "ellipsis_vp": _ellipsis_vp}
GENERATED_PHENOMENA = tuple(_TWINS)


def _instance(
    context: list[GeneratedPair], candidates: list[GeneratedPair], truth: int, distance: int
) -> VoitaInstance:
    source = [pair.source for pair in context]
    target = [pair.target for pair in context]
    return {
        "dst": [SENTENCE_BREAK.join([*target, candidate.target]) for candidate in candidates],
        "true_ind": truth,
        "src": SENTENCE_BREAK.join([*source, candidates[truth].source]),
        "ctx_dist": distance,
    }
