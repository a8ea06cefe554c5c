"""The language that a file says it is in: that of the translation, once it is translated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from focat.translation.formats.markup import Token


def translated_language(declared: str, languages: tuple[str, str]) -> str:
    """What a translated file should say of its language: the target language, if it named the source language."""
    source, target = languages
    return target if _primary(declared) == _primary(source) and source != target else declared


def with_language(
    found: Iterable[Token],
    attributes: Sequence[str],
    languages: tuple[str, str],
    element: str | None = None,
    country: str | None = None,
) -> Iterator[Token]:
    """Tokens of which the language is that of the translation.

    Args:
        found: tokens of a file.
        attributes: the names of those that hold a language.
        languages: source and target language.
        element: the name of the element that has them; by default, any may.
        country: the name of the attribute with the country that belongs to it, which is not known any more.
    """
    for token in found:
        changed = token
        if token.kind in ("open", "single") and element in (None, token.name):
            for name in attributes:
                declared = token.attributes.get(name, "") if name in token.text else ""
                if declared and (right := translated_language(declared, languages)) != declared:
                    changed = changed.with_attribute(name, right)
        yield changed if changed is token or country is None else changed.with_attribute(country, "none")


def _primary(language: str) -> str:
    """A language without its region."""
    return re.split("[-_]", language.lower())[0]
