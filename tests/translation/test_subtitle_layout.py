"""Where words go: to which cue, and to which line of it."""

from __future__ import annotations

import itertools
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focat.translation.formats.subtitles import layout
from focat.translation.formats.subtitles.layout import join_words, split_words
from focat.translation.result import on_one_line

TAG = re.compile(r"</?[a-z][^<>]*>")


def break_lines(text: str, lines: int, width: int, most: int | None = None) -> list[str]:
    return [join_words(line) for line in layout.break_lines(split_words(text, TAG), lines, width, most)]


def test_break_lines() -> None:
    assert break_lines("one two three four", 2, 42) == ["one two", "three four"]
    assert break_lines("one two three four", 1, 42) == ["one two three four"]
    assert break_lines("one", 2, 42) == ["one"]
    assert break_lines("", 2, 42) == [""]
    assert break_lines("word " * 20, 1, 42) == ["word " * 5 + "word"] + ["word word word word word word word"] * 2
    assert break_lines("Yes, I know that it is late now.", 2, 42) == ["Yes, I know that", "it is late now."]
    assert break_lines("これは長い文です。", 1, 10) == ["これは長", "い文です。"]
    assert break_lines("Donaudampfschifffahrtsgesellschaftskapitän", 2, 10) == [
        "Donaudampfschifffahrtsgesellschaftskapitän"
    ]


@given(st.text(st.sampled_from("ab c-,"), max_size=40), st.integers(1, 4), st.integers(1, 50))
def test_break_lines_as_by_trying_everything(text: str, lines: int, width: int) -> None:
    words = on_one_line(text).split()
    found = break_lines(" ".join(words), lines, width)
    assert " ".join(found).split() == words
    if len(words) < 2 or len(words) > 12:
        return

    def cost(line: str) -> float:
        return len(line) ** 2 * (0.8 if line[-1] in ",." else 1.0) + (len(line) > width) * 1e9

    ways = [
        [" ".join(words[i:j]) for i, j in itertools.pairwise((0, *breaks, len(words)))]
        for breaks in itertools.combinations(range(1, len(words)), len(found) - 1)
    ]
    assert sum(map(cost, found)) == pytest.approx(min(sum(map(cost, way)) for way in ways))
    assert len(found) >= min(lines, len(words))


def test_a_cue_of_thousands_of_words_takes_no_time() -> None:
    start = time.process_time()
    found = break_lines("word " * 20_000, 2, 42)
    assert time.process_time() - start < 5
    assert " ".join(found).split() == ["word"] * 20_000
    assert max(map(len, found)) <= 42


def test_a_line_within_the_width_is_better_than_a_balanced_one_over_it() -> None:
    """By length alone, `aaaaaa bbb, | ccc d` would cost least: a break after a clause is preferred."""
    assert break_lines("aaaaaa bbb, ccc d", 2, 11) == ["aaaaaa bbb,", "ccc d"]
    assert break_lines("aaaaaa bbb, ccc d", 2, 10) == ["aaaaaa", "bbb, ccc d"]
    assert break_lines("aaaa bbbb, cc dd", 2, 9) == ["aaaa", "bbbb,", "cc dd"]
