"""Sentence patterns of the generated corpus, grouped by what they do to the context of the sentences around them.

The German side is written as if the thing were masculine, the subject in the third person and the listener a friend
(see `agreement`). Some patterns are there for their word order: verb second, verb last, infinitive last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from focat.corpus.generated.agreement import Word


class GeneratedPair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class Pattern:
    """A sentence with roles to fill, in both languages."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target
        self.roles = tuple(dict.fromkeys(re.findall(r"\{(\w+)", source + target)))
        """Names of the roles, each once."""

    def say(self, roles: Mapping[str, Word]) -> GeneratedPair:
        """The sentence with its roles filled."""
        source = self.source.format_map({role: word.english for role, word in roles.items()})
        target = self.target.format_map({role: word.german for role, word in roles.items()})
        return GeneratedPair(source[0].upper() + source[1:], target[0].upper() + target[1:])

    def form(self, role: str) -> str:
        """The German word that agrees with the role, as the pattern writes it: `der`, `ihn`."""
        form: str = re.findall(rf"\{{{role}:(\w+)\}}", self.target)[0]
        return form


# Sentences that mean the same in any context and leave no trace in it.
FILLERS = (
    Pattern("{who} {who:is} {state}.", "{who} {who:ist} {state}."),
    Pattern("{who} {who:is} {pastime}.", "{who} {who:{pastime}}."),
    Pattern("{who} {who:is} {pastime} {place}.", "{who} {who:{pastime}} {place}."),
    Pattern("Today {who} {who:is} {state}.", "Heute {who:ist} {who} {state}."),
    Pattern("Today {who} {who:is} {pastime} {place}.", "Heute {who:{pastime}} {who} {place}."),
    Pattern("Everyone knows that {who} {who:is} {state}.", "Alle wissen, dass {who} {state} {who:ist}."),
    Pattern("{who} {who:is} helping my {kin}.", "{who} {who:hilft} {kin:meinem} {kin}."),
    Pattern("{who} {who:is} visiting my {kin}.", "{who} {who:besucht} {kin:meinen} {kin}."),
    Pattern("My {kin} is {pastime} {place}.", "{kin:mein} {kin} {pastime} {place}."),
    Pattern("What a day!", "Was für ein Tag!"),
    Pattern("That is good.", "Das ist gut."),
)

# Pronoun gender and lexical cohesion: a thing is named ...
MENTIONS = (
    Pattern("Where is the {thing}?", "Wo ist {thing:der} {thing}?"),
    Pattern("Here is the {thing}.", "Hier ist {thing:der} {thing}."),
    Pattern("The {thing} is {quality}.", "{thing:der} {thing} ist {quality}."),
    Pattern("The {thing} belongs to my {owner}.", "{thing:der} {thing} gehört {owner:meinem} {owner}."),
    Pattern("{who} {who:is} {doing} the {thing}.", "{who} {who:{doing}} {thing:den} {thing}."),
    Pattern("{who} {who:is} looking for the {thing}.", "{who} {who:sucht} {thing:den} {thing}."),
    Pattern("{who} {who:needs} the {thing}.", "{who} {who:braucht} {thing:den} {thing}."),
    Pattern("{who} {who:wants} to {do} the {thing}.", "{who} {who:will} {thing:den} {thing} {do}."),
    Pattern("Tomorrow {who} {who:is} {doing} the {thing}.", "Morgen {who:{doing}} {who} {thing:den} {thing}."),
    Pattern("{who} {who:is} happy with the {thing}.", "{who} {who:ist} mit {thing:dem} {thing} zufrieden."),
)
# ... referred to by a later `it` ...
PRONOUNS = (
    Pattern("It is {quality}.", "{it:er} ist {quality}."),
    Pattern("Is it {quality}?", "Ist {it:er} {quality}?"),
    Pattern("Where is it now?", "Wo ist {it:er} jetzt?"),
    Pattern("It belongs to my {owner}.", "{it:er} gehört {owner:meinem} {owner}."),
    Pattern("I think that it is {quality}.", "Ich glaube, dass {it:er} {quality} ist."),
    Pattern("{who} {who:knows} where it is.", "{who} {who:weiß}, wo {it:er} ist."),
    Pattern("{who} {who:is} {doing} it.", "{who} {who:{doing}} {it:ihn}."),
    Pattern("{who} {who:is} looking for it.", "{who} {who:sucht} {it:ihn}."),
    Pattern("{who} {who:needs} it.", "{who} {who:braucht} {it:ihn}."),
    Pattern("{who} {who:wants} to {do} it.", "{who} {who:will} {it:ihn} {do}."),
    Pattern("Tomorrow {who} {who:is} {doing} it.", "Morgen {who:{doing}} {who} {it:ihn}."),
)
# ... or by an `it` in the same sentence.
MENTIONS_WITH_PRONOUN = (
    Pattern(
        "The {thing} is {virtue}, but it is {fault}.", "{thing:der} {thing} ist {virtue}, aber {it:er} ist {fault}."
    ),
    Pattern(
        "{who} {who:has} the {thing}, but my {kin} needs it.",
        "{who} {who:hat} {thing:den} {thing}, aber {kin:mein} {kin} braucht {it:ihn}.",
    ),
    Pattern(
        "{who} {who:is} selling the {thing} because it is {fault}.",
        "{who} {who:verkauft} {thing:den} {thing}, weil {it:er} {fault} ist.",
    ),
    Pattern(
        "{who} {who:is} buying the {thing} although it is {fault}.",
        "{who} {who:kauft} {thing:den} {thing}, obwohl {it:er} {fault} ist.",
    ),
)

# Deixis: the listener's name tells a friend from a stranger ...
GREETINGS = (
    Pattern("Hello, {listener}.", "Hallo, {listener}."),
    Pattern("Good morning, {listener}.", "Guten Morgen, {listener}."),
    Pattern("Good evening, {listener}.", "Guten Abend, {listener}."),
    Pattern("Come in, {listener}!", "{you:komm} herein, {listener}!"),
)
CALLS = (
    Pattern("Look, {listener}!", "{you:schau}, {listener}!"),
    Pattern("Listen, {listener}!", "{you:hör} zu, {listener}!"),
)
# ... and `you` in later sentences does not.
YOU = (
    Pattern("Do you have time?", "{you:hast} {you:du} Zeit?"),
    Pattern("Are you {state}?", "{you:bist} {you:du} {state}?"),
    Pattern("You are right.", "{you:du} {you:hast} recht."),
    Pattern("Where do you live?", "Wo {you:wohnst} {you:du}?"),
    Pattern("What are you doing today?", "Was {you:machst} {you:du} heute?"),
    Pattern("Are you coming tomorrow?", "{you:kommst} {you:du} morgen?"),
    Pattern("Can you help me?", "{you:kannst} {you:du} mir helfen?"),
    Pattern("I know that you are {state}.", "Ich weiß, dass {you:du} {state} {you:bist}."),
    Pattern("{who} {who:is} helping you.", "{who} {who:hilft} {you:dir}."),
    Pattern("{who} {who:is} visiting you tomorrow.", "{who} {who:besucht} {you:dich} morgen."),
    Pattern("How is your {kin}?", "Wie geht es {you:{kin:deinem}} {kin}?"),
    Pattern("Is your {kin} {state}?", "Ist {you:{kin:dein}} {kin} {state}?"),
)
YOU_AND_MENTION = (
    Pattern("Is that your {thing}?", "Ist das {you:{thing:dein}} {thing}?"),
    Pattern("{who} {who:has} your {thing}.", "{who} {who:hat} {you:{thing:deinen}} {thing}."),
    Pattern("Do you see the {thing}?", "{you:siehst} {you:du} {thing:den} {thing}?"),
)
YOU_AND_PRONOUN = (
    Pattern("Do you need it?", "{you:brauchst} {you:du} {it:ihn}?"),
    Pattern("Can you see it?", "{you:kannst} {you:du} {it:ihn} sehen?"),
    Pattern("Do you want to {do} it?", "{you:willst} {you:du} {it:ihn} {do}?"),
)

# Verb-phrase ellipsis: somebody does not ...
DENIALS = (Pattern("{who} {who:does} not {verb}.", "{who} {who:{verb}} nicht."),)
# ... but somebody else does, and German has to say what.
ELLIPSES = (
    Pattern("But {other} {other:does}.", "Aber {other} {other:{verb}}."),
    Pattern("Of course {other} {other:does}.", "Natürlich {other:{verb}} {other}."),
    Pattern("Everyone knows that {other} {other:does}.", "Alle wissen, dass {other} {other:{verb}}."),
)
