"""Subtitles (SRT) of a film in two languages, aligned by time into a document of sentence pairs.

Cues are joined to utterances first: a sentence that runs over several cues becomes one, and two speakers in a cue
become two. Utterances that are on screen at the same time are then a pair.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from focat.config.corpora import SubtitlesCorpus
from focat.corpus.document import Document
from focat.corpus.text_files import DECOMPRESSORS, LineLimit, Lines
from focat.errors import FocatError

_TIME = r"(\d{1,9}):(\d{1,2}):(\d{1,2})[,.](\d{1,3})"
_TIMING = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|\{\\[^{}]*\}")
_DASH = re.compile(r"\s*[-‐‑–—]\s*(?=\S)")
_SENTENCE_END = re.compile(r"""[.!?…:;♪*#\])][\s"'”’»)]*$""")
_LANGUAGE = re.compile(r"[._-][A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?$")  # at the end of a name: film.en, film_pt-BR

MAX_PAUSE = 1.0
"""Seconds between two cues of one sentence."""
MAX_CUES = 4
"""Cues that one sentence may run over."""
MIN_OVERLAP = 0.5
"""Share of the shorter of two utterances during which both are on screen, if they translate each other."""
MAX_JOINED = 3
"""Utterances of a side that may together translate those of the other."""


class Utterance(NamedTuple):
    """What is said, and when it is on screen, in seconds."""

    start: float
    end: float
    text: str


def subtitle_files(folder: Path) -> dict[str, Path]:
    """The subtitles below a folder by the name of their film; or the one file, under an empty name."""
    if not folder.is_dir():
        return {"": folder}
    films: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        name = path.stem if path.suffix.lower() in DECOMPRESSORS else path.name
        if not name.lower().endswith(".srt") or not path.is_file():
            continue
        film = str(path.relative_to(folder).parent / _LANGUAGE.sub("", name[:-4]))
        if film in films:
            raise FocatError(f"{path}: another file, {films[film].name}, has subtitles of the same film; keep one")
        films[film] = path
    return films


def read_subtitles(corpus: SubtitlesCorpus, limit: LineLimit, left_out: Counter[str]) -> Iterator[Document]:
    """A document for each film; utterances, and films, without a partner are left out."""
    sources, targets = subtitle_files(corpus.source), subtitle_files(corpus.target)
    if not sources.keys() & targets.keys():
        raise FocatError(
            f"{corpus.source} and {corpus.target}: no film has subtitles in both; give two files, or two folders whose "
            "files have the same names, but for the language before .srt"
        )
    for film in sorted(sources.keys() | targets.keys()):
        if film not in sources or film not in targets:
            left_out["unaligned"] += len(read_utterances(sources.get(film) or targets[film], limit))
            continue
        ours = read_utterances(sources[film], limit)
        speed, shift = corpus.target_speed, corpus.target_shift
        theirs = [
            Utterance(one.start * speed + shift, one.end * speed + shift, one.text)
            for one in read_utterances(targets[film], limit)
        ]
        pairs = []
        for group in overlapping(ours, theirs):
            if all(0 < len(side) <= MAX_JOINED for side in group):
                pairs.append([" ".join(one.text for one in side) for side in group])
            else:
                left_out["unaligned"] += 1
        if pairs:
            yield Document(film or sources[film].name, [pair[0] for pair in pairs], [pair[1] for pair in pairs])


def overlapping(
    ours: Sequence[Utterance], theirs: Sequence[Utterance]
) -> Iterator[tuple[list[Utterance], list[Utterance]]]:
    """Groups of utterances that are on screen together, in the order of time; a side may be empty."""
    i = j = 0
    while i < len(ours) or j < len(theirs):
        first_i, first_j = i, j
        # The one that starts first opens a group; it grows while either side has one that overlaps the other's last.
        if j == len(theirs) or (i < len(ours) and ours[i].start <= theirs[j].start):
            i += 1
        else:
            j += 1
        grown = True
        while grown:
            grown = False
            if j < len(theirs) and any(_overlap(one, theirs[j]) for one in ours[first_i:i]):
                j += 1
                grown = True
            if i < len(ours) and any(_overlap(ours[i], one) for one in theirs[first_j:j]):
                i += 1
                grown = True
        yield list(ours[first_i:i]), list(theirs[first_j:j])


def _overlap(one: Utterance, other: Utterance) -> bool:
    both = min(one.end, other.end) - max(one.start, other.start)
    shorter = min(one.end - one.start, other.end - other.start)
    return both > 0 and both >= MIN_OVERLAP * shorter


def read_utterances(path: Path, limit: LineLimit) -> list[Utterance]:
    """The utterances of a file, in the order of time."""
    utterances: list[Utterance] = []
    cues = 0  # that the last utterance runs over
    for cue in sorted(_utterances(path, limit)):
        last = utterances[-1] if utterances else None
        if (
            last is not None
            and not _SENTENCE_END.search(last.text)
            and -MAX_PAUSE < cue.start - last.end <= MAX_PAUSE
            and cues < MAX_CUES
        ):
            utterances[-1] = Utterance(last.start, max(last.end, cue.end), f"{last.text} {cue.text}")
            cues += 1
        else:
            utterances.append(cue)
            cues = 1
    return utterances


def _utterances(path: Path, limit: LineLimit) -> Iterator[Utterance]:
    """What each speaker of each cue says; two speakers share the time of the cue by the length of their words."""
    for start, end, lines in _cues(path, limit):
        said: list[str] = []
        texts = [" ".join(_TAG.sub("", line).split()) for line in lines]
        speakers = len(texts) > 1 and sum(bool(_DASH.match(text)) for text in texts) > 1
        for text in texts:
            words = _DASH.sub("", text, count=1) if speakers else text
            if said and not (speakers and words != text):
                said[-1] = f"{said[-1]} {words}".strip()
            else:
                said.append(words)
        said = [text for text in said if text]
        length, time = sum(map(len, said)), start
        for text in said:
            until = time + (end - start) * len(text) / length
            yield Utterance(time, until, text)
            time = until


def _cues(path: Path, limit: LineLimit) -> Iterator[tuple[float, float, list[str]]]:
    """The times of each cue and the lines below them, up to a blank one."""
    lines = Lines(path, limit)
    cue: tuple[float, float, list[str]] | None = None
    count, size = 0, 0
    for line in lines:
        timing = _TIMING.fullmatch(line)
        if timing is None and "-->" in line:
            raise lines.error(f"{line.strip()[:60]}: is no timing like `00:00:01,000 --> 00:00:02,000`; correct it")
        if timing is None:
            size += len(line)
            if size > limit.bytes:
                raise lines.error(f"no timing in the last {limit.bytes:,} characters; {limit.remedy}")
            if cue is not None and line.strip():
                cue[2].append(line)
            elif cue is not None:
                yield cue
                cue = None
            continue
        if cue is not None:  # no blank line above: the last line of its text is the number of this cue
            yield cue[0], cue[1], cue[2][:-1] if cue[2] and cue[2][-1].strip().isdecimal() else cue[2]
        start, end = (_seconds(timing.groups()[at : at + 4]) for at in (0, 4))
        cue, count, size = (start, max(start, end), []), count + 1, 0
    if cue is not None:
        yield cue
    if not count and lines.number:
        raise FocatError(f"{path}: has no line like `00:00:01,000 --> 00:00:02,000`; is this SRT?")


def _seconds(parts: Sequence[str]) -> float:
    hours, minutes, seconds, fraction = parts
    return 3600 * int(hours) + 60 * int(minutes) + int(seconds) + int(fraction.ljust(3, "0")) / 1000
