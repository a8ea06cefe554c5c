"""Placeholders of messages: what a program fills in must be in a translation exactly as in its source.

They are phrases that the search has to produce (`InputSentence.required`). What a translation has too often or not at
all in spite of that is mended, so that no program fails over a message.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections import Counter, deque
from collections.abc import Collection

# Repetitions are bounded where others could share their characters: else a long text would take minutes.
_PRINTF = (
    r"%(?:\d{1,9}\$)?(?:\(\w+\)|\{\w+\})?[-+#0']{0,9}(?:\d{1,9}|\*)?(?:\.(?:\d{1,9}|\*))?"
    r"(?:hh?|ll?|[jzLtq])?[diouxXeEfFgGaAcCsSrp@]"  # after argument, flags, width and precision
)
_PATTERNS = (
    r"%\{\w+\}",  # Ruby
    r"\{%[^%]*%\}",  # Jinja, Liquid
    r"%%",
    _PRINTF,
    r"%\d+\b|%n\b",  # Qt
    r"\$?\{\{\s*[\w.]+\s*\}\}|\$?\{[\w.\[\]-]*(?:![rsa])?(?::[^{}\s]*)?\}",  # Mustache; Python, ICU, shell
    r"\$\(?\w+\)?(?=\W|$)(?<!\$\d)",  # shell, make
    r"https?://[^\s<>\"]*[\w/]",
    r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    r"\[X\d{1,9}X\]",  # what Weblate puts in the place of its own
)
_PLACEHOLDER = re.compile("|".join(f"(?:{pattern})" for pattern in _PATTERNS))
_WORD = re.compile(r"[^\W_\u2e80-\uffff]")  # a character of a script that has spaces between words
_UNNUMBERED = re.compile(r"%(?!%|\d+\$|\(|\{)")
_NUMBERING = ("c-format", "objc-format", "php-format", "sh-format", "java-printf-format", "boost-format")


def placeholders(text: str) -> list[str]:
    """The placeholders of a message, in order."""
    return [match[0] for match in _PLACEHOLDER.finditer(text)]


def required_phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """The same, as phrases that a translation must contain."""
    return tuple((placeholder,) for placeholder in placeholders(text))


def without_placeholders(text: str) -> str:
    """A message without its placeholders."""
    return _PLACEHOLDER.sub("", text)


def mask_placeholders(text: str) -> str:
    """A message with as many spaces instead of each placeholder."""
    return _PLACEHOLDER.sub(lambda match: " " * len(match[0]), text)


def restore_placeholders(source: str, target: str, flags: Collection[str] = ()) -> str:
    """Mend a translation: every placeholder of the source as often as there, and no other.

    Args:
        source: a message.
        target: its translation.
        flags: of a PO entry; with `c-format`, `%s` that have changed places are numbered.
    """
    wanted = placeholders(source)
    stray = _stray_marks(flags)
    left = Counter(wanted)
    kept: list[str] = []
    position = 0
    for match in _PLACEHOLDER.finditer(target):
        kept.append(stray.sub("", target[position : match.start()]))
        position = match.end()
        if left[match[0]]:
            left[match[0]] -= 1
            kept.append(match[0])
        elif target[position : position + 1] == " ":
            position += 1  # and not two spaces instead of it
        elif position == len(target):
            kept[-1] = kept[-1].rstrip(" ")
    mended = _insert("".join([*kept, stray.sub("", target[position:])]), source, left)
    mended = _restore_spaces(source, mended)
    return _restore_order(wanted, mended, any(flag in flags for flag in _NUMBERING))


def _restore_spaces(source: str, target: str) -> str:
    """Put a space between a word and a placeholder that stands apart from all words in the source."""
    glued = {(match[0], side) for match in _PLACEHOLDER.finditer(source) for side in _glued_sides(match)}
    written, end = [], 0
    for match in _PLACEHOLDER.finditer(target):
        sides = [side for side in _glued_sides(match) if (match[0], side) not in glued]
        before, after = (" " if side in sides else "" for side in ("before", "after"))
        written += [target[end : match.start()], before, match[0], after]
        end = match.end()
    return "".join([*written, target[end:]])


def _glued_sides(match: re.Match[str]) -> list[str]:
    """On which sides a word begins or ends right beside a placeholder."""
    text, (start, end) = match.string, match.span()
    neighbours = (("before", text[max(start - 1, 0) : start]), ("after", text[end : end + 1]))
    return [side for side, character in neighbours if _WORD.match(character)]


def _insert(text: str, source: str, missing: Counter[str]) -> str:
    """Put placeholders between words, each after about the share of the text that it has before it in the source."""
    ends = [0, *(match.end() for match in re.finditer(r"\S+", text))]
    added: dict[int, str] = {}
    for match in _PLACEHOLDER.finditer(source):
        if missing[match[0]]:
            missing[match[0]] -= 1
            wanted = match.start() / len(source) * len(text)
            i = bisect.bisect_left(ends, wanted)
            end = min(ends[max(i - 1, 0) : i + 1], key=lambda end: abs(end - wanted))
            added[end] = f"{added.get(end, '')} {match[0]}"
    first = added.pop(0, "")
    cuts = [0, *sorted(added), len(text)]
    written = "".join(added.get(start, "") + text[start:end] for start, end in itertools.pairwise(cuts))
    return f"{first[1:]} {written}".rstrip(" ") if first else written


def _stray_marks(flags: Collection[str]) -> re.Pattern[str]:
    """What else a program would take for the beginning of a placeholder, where an entry is known to have some."""
    formats = [flag for flag in flags if flag.endswith("-format") and not flag.startswith("no-")]
    braces = any("brace" in flag for flag in formats)
    return re.compile("[{}]" if braces else "%" if formats else r"(?!)")


def _restore_order(wanted: list[str], target: str, number: bool) -> str:
    """Arguments without a number or name are taken in order: number those that have moved, or put them back."""
    ordered = [placeholder for placeholder in wanted if _UNNUMBERED.match(placeholder)]
    found = [match for match in _PLACEHOLDER.finditer(target) if _UNNUMBERED.match(match[0])]
    if [match[0] for match in found] == ordered or Counter(match[0] for match in found) != Counter(ordered):
        return target
    number = number and not any("*" in placeholder for placeholder in ordered)
    positions: dict[str, deque[int]] = {}
    for i, placeholder in enumerate(ordered):
        positions.setdefault(placeholder, deque()).append(i)
    pieces, end = [], 0
    for i, match in enumerate(found):
        numbered = f"%{positions[match[0]].popleft() + 1}${match[0][1:]}"
        pieces += [target[end : match.start()], numbered if number else ordered[i]]
        end = match.end()
    return "".join([*pieces, target[end:]])
