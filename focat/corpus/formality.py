"""Forms of address: rules that find them in target sentences, and tags on the source by which a model learns them.

A tag is text in front of a source sentence. Training sentences get one for what their translation says, so that a tag
in front of the sentences of a document asks for it.
"""

from __future__ import annotations

import re
from zlib import crc32

from focat.choices import FORMALITIES, Formality
from focat.corpus.document import Document

TAGS: dict[Formality, str] = {"formal": "<formal>", "informal": "<informal>"}

# German: capital Sie, Ihnen, Ihr… are formal, except where a sentence begins, which says nothing; `ihr` is left out, as
# it is also a dative and a possessive. Russian: вы is also the plural, which rules cannot tell from politeness.
_DE_SENTENCE_START = r"(?:^|[.!?…:;\"„“»«(\[–—-])\s*"
_RULES: dict[str, dict[Formality, re.Pattern[str]]] = {
    "de": {
        "formal": re.compile(r"\b(?:Sie|Ihnen|Ihr(?:e[mnrs]?)?)\b"),
        "informal": re.compile(r"\b(?:du|dich|dir|dein(?:e[mnrs]?)?|euch|euer|eure[mnrs]?)\b", re.IGNORECASE),
    },
    "ru": {
        "formal": re.compile(r"\b(?:вы|вас|вам|вами|ваш(?:а|е|и|его|ему|им|ем|ей|у|их|ими)?)\b", re.IGNORECASE),
        "informal": re.compile(
            r"\b(?:ты|тебя|тебе|тобой|тобою|тво(?:й|я|ё|е|и|его|ему|им|ём|ем|ей|ю|их|ими))\b", re.IGNORECASE
        ),
    },
}


def formality_of(sentence: str, language: str) -> Formality | None:
    """Which form of address a target sentence has; None if it has none, both, or one that is not certain.

    `language` is one of `FORMALITY_LANGUAGES`.
    """
    if language == "de":
        sentence = re.sub(_DE_SENTENCE_START + r"(?:Sie|Ihnen|Ihr(?:e[mnrs]?)?)\b", " ", sentence)
    found = [formality for formality in FORMALITIES if _RULES[language][formality].search(sentence)]
    return found[0] if len(found) == 1 else None


def tag_document(document: Document, language: str, share: float) -> Document:
    """Put tags in front of a share of the source sentences.

    Sentences without a form of address get either tag, so that a tag in front of them says nothing. Which sentences
    have tags depends on the document alone: each pass over a corpus gives the same.
    """
    source = []
    for i, (text, translation) in enumerate(zip(document.source, document.target, strict=True)):
        drawn = crc32(f"{document.name}\t{i}\t{text}".encode())
        if drawn % 1000 < 1000 * share:
            either = FORMALITIES[drawn // 1000 % 2]
            text = f"{TAGS[formality_of(translation, language) or either]} {text}"
        source.append(text)
    return Document(document.name, source, document.target)
