"""A pronoun suite in the layout of ContraPro (Müller et al., 2018), from the grammar of the generated corpus.

Instances come in threes: a masculine, a feminine and a neuter antecedent under the same sentences. Unless the
antecedent is in the pronoun's own sentence, the three share that sentence, and without context each pronoun is
right once.
"""

from __future__ import annotations

import re
from typing import Any

from focat.corpus.generated.agreement import Gender, GermanNoun, Word
from focat.corpus.generated.lexicon import TERMS, THINGS
from focat.corpus.generated.patterns import MENTIONS, MENTIONS_WITH_PRONOUN, PRONOUNS, GeneratedPair
from focat.corpus.generated.scene import CONTEXT, Scene
from focat.corpus.generated.seeded_random import SeededRandom

GENDERS = {Gender.MASCULINE: "Masc", Gender.FEMININE: "Fem", Gender.NEUTER: "Neut"}
CASES = {"der": "Nom", "den": "Akk", "dem": "Dat"}

ContraProEntry = dict[str, Any]  # with the field names of the published file


def contrapro_suite(
    instances: int, seed: int, context_lines: int = CONTEXT
) -> tuple[list[ContraProEntry], list[str], list[str]]:
    """Make at least `instances` entries, rounded up to whole threes, and the context lines of either language.

    Each candidate has `context_lines` lines, oldest first, blank where its document starts; the candidates of an
    entry follow each other, the reference first. Antecedent distances 0 to 3 alternate.
    """
    entries: list[ContraProEntry] = []
    source_lines: list[str] = []
    target_lines: list[str] = []
    while len(entries) < instances:
        three = len(entries) // len(Gender)
        for gender in Gender:
            draw = SeededRandom("contrapro", seed, three)
            context, entry = _instance(draw, gender, distance=three % (CONTEXT + 1))
            entries.append({"document id": f"generated-{seed}-{len(entries)}.de", **entry})
            shown = [GeneratedPair("", "")] * (context_lines - len(context)) + context
            shown = shown[len(shown) - context_lines :]
            for _ in range(1 + len(entry["errors"])):
                source_lines += [pair.source for pair in shown]
                target_lines += [pair.target for pair in shown]
    return entries, source_lines, target_lines


def _instance(draw: SeededRandom, gender: Gender, distance: int) -> tuple[list[GeneratedPair], ContraProEntry]:
    """The sentences before that of the pronoun, and the entry about it."""
    scene = Scene(draw)
    antecedent = draw.one_of(draw.one_of(draw.one_of((THINGS, TERMS))[gender]).words())
    scene.speak_of(antecedent)
    context = scene.fillers(CONTEXT if draw.chance(0.75) else distance)  # some documents have just started
    if distance:
        mention, pattern = draw.one_of(MENTIONS), draw.one_of(PRONOUNS)
        context[-distance] = scene.say(mention)
    else:
        mention = pattern = draw.one_of(MENTIONS_WITH_PRONOUN)
    roles = scene.fill(pattern)
    reference = pattern.say(roles)
    pronouns = [format(GermanNoun("es", other), pattern.form("it")) for other in Gender]
    starts = reference.source.startswith("It ")
    return context, {
        "segment id": len(context) + 1,
        "src pronoun": "It" if starts else "it",
        "ref pronoun": pronouns[gender].capitalize() if starts else pronouns[gender],
        "ante distance": distance,
        "intrasegmental": distance == 0,
        "corpus": "generated-ende",
        "src segment": reference.source,
        "ref segment": reference.target,
        **_source_antecedent([*context, reference][-1 - distance], str(antecedent.english)),
        **_target_antecedent([*context, reference][-1 - distance], str(antecedent.german)),
        "ref ante head gender": GENDERS[gender],
        "ref ante head morpho": f"{GENDERS[gender]}|{CASES[mention.form('thing')]}|Sg",
        "errors": [
            {
                "contrastive": pattern.say(roles | {"it": Word("it", GermanNoun("es", other))}).target,
                "replacement": pronouns[other],
                "replacement gender": GENDERS[other],
                "type": "pronominal coreference",
            }
            for other in Gender
            if other != gender
        ],
    }


def _source_antecedent(mention: GeneratedPair, noun: str) -> ContraProEntry:
    phrase, position = _noun_phrase(mention.source, noun)
    return {
        "src ante head": noun,
        "src ante head gender": None,
        "src ante head id": position,
        "src ante head lemma": noun,
        "src ante head morpho": None,
        "src ante head pos": "NN",
        "src ante phrase": phrase,
    }


def _target_antecedent(mention: GeneratedPair, noun: str) -> ContraProEntry:
    phrase, position = _noun_phrase(mention.target, noun)
    return {
        "ref ante head": noun,
        "ref ante head id": position,
        "ref ante head lemma": noun,  # none of the things has an ending in the singular
        "ref ante head pos": "NN",
        "ref ante phrase": phrase,
    }


def _noun_phrase(sentence: str, noun: str) -> tuple[str, int]:
    """The noun with its article, and the noun's position among the words and punctuation marks, from 1."""
    tokens = re.findall(r"\w+|[^\w\s]", sentence)
    position = tokens.index(noun)
    return f"{tokens[position - 1]} {noun}", position + 1
