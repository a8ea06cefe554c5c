"""Timing lines of SRT and WebVTT, by which the text of cues is found."""

from __future__ import annotations

import re
from collections.abc import Iterator

from focat.translation.formats.lines import InputLines

ARROW = "-->"
_TIME = r"-?(?:\d+:)?\d+:\d{1,3}(?:[.,]\d{1,3})?"
_TIMING = re.compile(rf"\ufeff?\s*({_TIME})\s*-->\s*({_TIME})(?:\s.*)?$")
# a mistyped timing: a time and some other arrow, or two times and nothing else; of bounded length, or a line of digits
# would take time that grows with the cube of its length
_ARROWS = r"\u2190-\u21ff\u2794-\u27bf\u27f0-\u27ff"  # blocks of Unicode
_HOURS_TO_SECONDS = r"[\dOo]{1,9}\s{0,9}:\s{0,9}[\dOo]{1,9}\s{0,9}:\s{0,9}[\dOo]{1,9}[\s.,;<\dOo]{0,19}"  # O: for 0
_NEARLY_TIMING = re.compile(
    r"\s*\d[\d\s]*[:.,][\d\s:.,;<]*(?:[-‐‑‒–—−=]\s*)+>"
    rf"|\s*{_HOURS_TO_SECONDS}[-‐‑‒–—−=\s]{{0,9}}(?:>|&gt;|[›»{_ARROWS}])"
    rf"|\s*{_HOURS_TO_SECONDS}[\W_]{{0,9}}{_HOURS_TO_SECONDS}\W{{0,9}}$"
)


def bounded(lines: InputLines) -> Iterator[str]:
    """The lines; an error if there is more text between two timings than a line may have, since it is in memory."""
    characters = 0
    for line in lines.with_any_end():
        characters = 0 if _TIMING.match(line) else characters + len(line)
        if characters > lines.limit.bytes:
            raise lines.error(f"no timing in the last {lines.limit.bytes:,} characters; {lines.limit.remedy}")
        yield line


def read_timing(line: str, lines: InputLines) -> tuple[float, float] | None:
    """When a cue begins and ends, in seconds, if this line is the timing of one.

    Raises:
        FocatError: it is a mistyped one, so that its cue would be text of another.
    """
    if match := _TIMING.match(line):
        return _seconds(match[1]), _seconds(match[2])
    if ARROW in line or _NEARLY_TIMING.match(line):
        raise lines.error(f"{line.strip()[:80]}: is no timing like `00:00:01,000 --> 00:00:02,000`; correct it")
    return None


def _seconds(time: str) -> float:
    """Seconds; a negative time, as editors write when they shift a file, is before the film."""
    if time.startswith("-"):
        return -_seconds(time[1:])
    seconds = 0.0
    for part in time.replace(",", ".").split(":"):
        seconds = 60 * seconds + float(part)
    return seconds
