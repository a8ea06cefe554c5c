"""Normalization of a suite's sentences: a model trained on raw text should not score tokenised text.

The detokeniser undoes what Moses-style tokenisation did to the suite of Voita et al.: spaces around punctuation, quotes
and English contractions. It does not depend on the language, and leaves what is ambiguous as it is.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace
from functools import cache

from focat.evaluation.suites.instance import Instance, Suite

_CLOSES = re.compile(r"[,.!?;:…)\]}»”%]+|'(?:s|t|m|d|re|ve|ll|S|T|M|D|RE|VE|LL)|n't|N'T")
_OPENS = re.compile(r"[(\[{«„“¿¡$£]+")
_WORD_AFTER_APOSTROPHE = re.compile(r"'\w")
_LETTER = re.compile(r"[A-Za-z]")
_QUOTES = ('"', "'")


@dataclass(frozen=True)
class TextNormalization:
    """What is done to every sentence before a model scores it."""

    detokenise: bool = False
    lowercase: bool = False

    def __str__(self) -> str:
        done = [name for name in ("detokenise", "lowercase") if getattr(self, name)]
        return "+".join(done) or "published"

    def text(self, text: str) -> str:
        """Normalize a sentence."""
        text = detokenise(text) if self.detokenise else text
        return text.lower() if self.lowercase else text

    def suite(self, suite: Suite) -> Suite:
        """Normalize all sentences of a suite."""
        if not (self.detokenise or self.lowercase):
            return suite
        change = cache(self.text)  # twin instances share most of their sentences

        def changed(instance: Instance) -> Instance:
            return replace(
                instance,
                source=[*map(change, instance.source)],
                target=[*map(change, instance.target)],
                candidates=[*map(change, instance.candidates)],
                forms=None if instance.forms is None else [*map(change, instance.forms)],
                expected=None if instance.expected is None else change(instance.expected),
            )

        return replace(suite, instances=[*map(changed, suite.instances)], generative=[*map(changed, suite.generative)])


AS_PUBLISHED = TextNormalization()


def detokenise(text: str) -> str:
    """`You 've never been caught , " he said .` → `You've never been caught, "he said.`"""
    pieces: list[str] = []
    open_quotes: set[str] = set()
    glue = True  # whether the next token follows without a space
    tokens = html.unescape(text).split()
    for i, token in enumerate(tokens):
        if token == "@-@":
            pieces.append("-")
            glue = True
            continue
        if token.isalnum():  # most are, and neither close nor open anything
            pieces += ["" if glue else " ", token]
            glue = False
            continue
        closes, opens = _CLOSES.fullmatch(token) is not None, _OPENS.fullmatch(token) is not None
        if token in _QUOTES:
            closes = token in open_quotes or (i == len(tokens) - 1 and i > 0)
            opens = not closes
            open_quotes ^= {token}
        elif i and _WORD_AFTER_APOSTROPHE.match(token) and _LETTER.fullmatch(tokens[i - 1]):
            closes = True  # O 'Brien, d 'Artagnan
        pieces += ["" if glue or closes else " ", token]
        glue = opens
    return "".join(pieces)
