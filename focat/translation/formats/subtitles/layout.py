"""Where the words of a translation go: to which cue of a sentence that runs across cues, and to which line of a cue."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

WIDTH = 42  # characters of a line: what broadcasters ask for
READING_SPEED = 20.0  # characters a second that adults read with ease; cues that would need more get fewer words
_MAX_BALANCED = 200  # words that are laid out at the least cost; no cue to be read has more
# Thai, Lao, Japanese, Chinese
_UNSPACED = re.compile("[\u0e00-\u0eff\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff01-\uff60]")
_WIDE = re.compile("[\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff01-\uff60]")
_NOT_FIRST = "、。，．！？：；」』）〉》】〕ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ…"  # begins no line
_NOT_LAST = "「『（〈《【〔"  # ends no line
CLAUSE_END = ",.;:!?…、。，！？；："


@dataclass(frozen=True)
class Word:
    """A word of a translation as it is written, with the tags beside it; a character in scripts without spaces."""

    written: str
    shown: str
    """What a viewer sees of it."""
    spaced: bool = True
    """Whether a space stands before it, unless it begins a line."""

    def extended(self, written: str, shown: str = "") -> Word:
        """The word with more behind it."""
        return Word(self.written + written, self.shown + shown, self.spaced)

    @property
    def width(self) -> int:
        """Its length in Latin letters."""
        return sum(2 if _WIDE.match(character) else 1 for character in self.shown)


def split_words(text: str, tag: re.Pattern[str], unescape: Callable[[str], str] = str) -> list[Word]:
    """The words of a written text. A tag belongs to the word after it, or before it if it closes or a space follows."""
    words: list[Word] = []
    tags, spaced, glued = "", False, False  # tags for the next word; what is between it and the last
    for i, piece in enumerate(re.split(f"({tag.pattern}|\\s+)", text)):
        if i % 2 == 0:
            for unit in _units(piece):
                if glued and not (_may_break(words[-1].shown[-1], unit[0])):
                    words[-1] = words[-1].extended(tags + unit, unescape(unit))
                else:
                    words.append(Word(tags + unit, unescape(unit), spaced))
                tags, spaced, glued = "", False, True
        elif not piece.isspace():
            if glued and piece.startswith("</"):
                words[-1] = words[-1].extended(piece)
            else:
                tags += piece
        else:
            if tags and words:
                words[-1] = words[-1].extended(tags)
                tags = ""
            spaced, glued = True, False
    if tags:
        words[-1:] = [words[-1].extended(tags) if words else Word(tags, "")]
    return words


def _units(run: str) -> Iterator[str]:
    """What a line may end after: words, and characters of scripts without spaces, with marks that stay with them."""
    start = 0
    for i in range(1, len(run) + 1):
        if i == len(run) or _may_break(run[i - 1], run[i]):
            yield run[start:i]
            start = i


def _may_break(before: str, after: str) -> bool:
    """Whether a line may end between these characters."""
    unspaced = _UNSPACED.match(before) or _UNSPACED.match(after)
    glued = after in _NOT_FIRST or before in _NOT_LAST or unicodedata.category(after) == "Mn"
    return bool(unspaced) and not glued


def join_words(words: Sequence[Word]) -> str:
    """The words on one line, as they are written."""
    return "".join(" " + word.written if word.spaced and i else word.written for i, word in enumerate(words))


def shown_width(words: Sequence[Word]) -> int:
    """The width of the words on one line."""
    return sum(word.width + (word.spaced and i > 0) for i, word in enumerate(words))


def break_lines(words: Sequence[Word], lines: int, width: int, most: int | None = None) -> list[list[Word]]:
    """Break words into `lines` lines of about the same length, or more if one would be wider than `width`.

    Breaks after a clause are preferred.

    Args:
        most: the greatest number of lines, even if they are wider then.
    """
    wrapped = _wrap(words, width)
    lines = max(lines, len(wrapped)) if most is None else min(max(lines, len(wrapped)), most)
    lines = min(lines, len(words))
    if lines < 2:
        return [list(words)]
    if len(words) > _MAX_BALANCED:
        return [*wrapped[: lines - 1], list(itertools.chain(*wrapped[lines - 1 :]))]
    ends = list(itertools.accumulate(word.width + (word.spaced and i > 0) for i, word in enumerate(words)))

    def cost(_: int, first: int, last: int) -> float:
        length = ends[last - 1] - (ends[first - 1] + words[first].spaced if first else 0)
        return length**2 * (0.8 if words[last - 1].shown[-1:] in CLAUSE_END else 1.0) + (length > width) * 1e9

    return _partition(words, lines, cost)


def _wrap(words: Sequence[Word], width: int) -> list[list[Word]]:
    """As many words as fit on each line."""
    lines: list[list[Word]] = []
    length = 0
    for word in words:
        if lines and length + word.spaced + word.width <= width:
            lines[-1].append(word)
            length += word.spaced + word.width
        else:
            lines.append([word])
            length = word.width
    return lines


@dataclass(frozen=True)
class Share:
    """What a cue has of a sentence: the length of the text in it, how long it is shown, and how the text ends."""

    length: int
    seconds: float
    ends_clause: bool = False


def lay_over_cues(
    words: Sequence[Word],
    shares: Sequence[Share],
    speed: float = READING_SPEED,
    belongs: Sequence[Sequence[float]] | None = None,
) -> list[list[Word]]:
    """Distribute a sentence over the cues that its source runs across, in order.

    Each cue gets its share of the length, fewer words if they could not be read in its time, and, where an alignment
    is known, the words that translate its own. Breaks come after clauses where they did in the source.

    Args:
        speed: characters a second that can be read.
        belongs: for each word, how much it belongs to each cue; None if that is not known.

    Returns:
        The words of each cue. Of too few words, a cue shows those of the one before it.
    """
    if len(words) < len(shares):
        return [[word] for word in words] + [[words[-1]] if words else []] * (len(shares) - len(words))
    total, source = shown_width(words), max(sum(share.length for share in shares), 1)
    ends = [0, *itertools.accumulate(word.width + word.spaced for word in words)]
    if len(words) > _MAX_BALANCED:
        shares_so_far = itertools.accumulate(share.length / source for share in shares)
        cuts = [0, *(round(so_far * len(words)) for so_far in shares_so_far)]
        return [list(words[first:last]) for first, last in itertools.pairwise(cuts)]
    foreign = [
        [0.0, *itertools.accumulate(word.width * (1 - row[i]) for word, row in zip(words, belongs or [], strict=False))]
        for i in range(len(shares))
    ]

    def cost(cue: int, first: int, last: int) -> float:
        share = shares[cue]
        length = ends[last] - ends[first]
        wanted = total * share.length / source
        found = abs(length - wanted) + 3 * max(0.0, length - speed * share.seconds)
        if belongs is not None:  # which words these are counts for more than how many, and than time
            found += 4 * (foreign[cue][last] - foreign[cue][first])
        if last < len(words):
            ends_clause = words[last - 1].shown[-1:] in CLAUSE_END
            found += 4 * (share.ends_clause and not ends_clause) - 2 * ends_clause
        return found

    return _partition(words, len(shares), cost)


def _partition(words: Sequence[Word], parts: int, cost: Callable[[int, int, int], float]) -> list[list[Word]]:
    """Cut words into so many parts, none empty, at the least cost; cost(i, first, last) is that of part i."""
    # best[last]: the least cost of the first words up to `last` in the parts so far, and where the last part begins
    best = [(cost(0, 0, last) if last else float("inf"), 0) for last in range(len(words) + 1)]
    starts = [best]
    for part in range(1, parts):
        best = [
            min(((best[first][0] + cost(part, first, last), first) for first in range(part, last)), default=(1e18, 0))
            for last in range(len(words) + 1)
        ]
        starts.append(best)
    found: list[list[Word]] = []
    last = len(words)
    for row in reversed(starts):
        first = row[last][1]
        found.insert(0, list(words[first:last]))
        last = first
    return found
