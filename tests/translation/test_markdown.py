"""Markdown: structure, code and links stay, checked with markdown-it on the whole file."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from focat.translation.formats.markdown_inline import structure_of
from focat.translation.result import Translation
from tests.translation.markup_files import segments_of, texts_of, translated

PAGE = """---
title: Not this
---
Title *one*
===========

## Two ##
> A quote. It goes
> on **here** with `code`\x20\x20
> after a break.

| Head | b\\|c |
|:-----|-----|
| *x*  | [link](to "Title") |
| 12   | Head |

- [ ] An item
  with <b>more</b> lines
    1. A \\*nested\\* one\\
       broken

See ![Alt](a.png) [the *text*][ref] <http://x.y> [ref] &amp; file_name[^1]
and [a (b)](<c d>) or [e](f(g)h).

[^1]: A note.

[ref]: http://z "t"

    code stays

```python
print("stays")
```
<div>
html stays
</div>

!!! note "Stays"
"""


def structure(text: str) -> list[object]:
    """What markdown-it finds, but for words."""
    found: list[object] = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        kept = token.content if token.type in ("fence", "code_block", "html_block") else ""
        attributes = sorted(token.attrs.items())
        found.append((token.type, token.tag, token.level, token.markup, token.info, attributes, kept))
        found.append(structure_of(token.children or ()))
    return found


def test_page(tmp_path: Path) -> None:
    found = translated(PAGE, "markdown", tmp_path, str.upper)
    expected = PAGE
    for before, after in (
        ("Title *one*", "TITLE *ONE*"), ("## Two ##", "## TWO ##"), ("A quote. It goes", "A QUOTE. IT GOES"),
        ("on **here** with `code`", "ON **HERE** WITH `code`"), ("after a break", "AFTER A BREAK"),
        ("| Head | b\\|c |", "| HEAD | B\\|C |"), ("*x*", "*X*"), ("[link](to", "[LINK](to"),
        ("| 12   | Head", "| 12   | HEAD"),
        ("] An item\n  with <b>more</b> lines", "] AN ITEM\n  WITH <b>MORE</b> LINES"),
        ("A \\*nested\\* one\\\n       broken", "A \\*NESTED\\* ONE\\\n       BROKEN"),
        ("See !", "SEE !"), ("[the *text*]", "[THE *TEXT*]"),
        ("file_name[^1]\nand [a (b)]", "FILE_NAME[^1]\nAND [A (B)]"),
        ("or [e]", "OR [E]"), ("A note.", "A NOTE."),
    ):  # fmt: skip
        assert expected.count(before) == 1, before
        expected = expected.replace(before, after)
    assert found == expected
    assert structure(found) == structure(PAGE)


def test_identity(tmp_path: Path) -> None:
    for text in (
        PAGE,
        PAGE.replace("\n", "\r\n"),
        "\ufeff" + PAGE,
        PAGE.rstrip("\n"),
        "+++\na = 1\n+++\nText.\n",
        "",
        "\n",
    ):
        assert translated(text, "markdown", tmp_path) == text


def test_sentences(tmp_path: Path) -> None:
    assert texts_of(PAGE, "markdown", tmp_path)[:6] == [
        "Title one", "Two", "A quote.", "It goes on here with", "after a break.", "Head",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "translation", "written"),
    [
        ("On May 1", "1. Mai", "1\\. Mai"),
        ("> One\n> two", "1. eins zwei", "> 1\\. eins\n> zwei"),
        ("One", "- eins", "\\- eins"),
        ("One", "# eins *zwei* [drei] `vier` <f> a_b", "\\# eins \\*zwei\\* \\[drei\\] \\`vier\\` \\<f> a\\_b"),
        ("one two\nthree four", "einszwei - drei", "einszwei - drei"),  # no line begins like a list
        ("| a |\n|---|", "b | c", "| b \\| c |\n|---|"),
        ("| a&#124; |\n|---|", "b | c", "| b &#124; c |\n|---|"),
        ("**a** *b*", "x", "**a** *b*"),  # emphasis of nothing is none: left as it was
    ],
)
def test_words_that_would_be_mark_up(tmp_path: Path, text: str, translation: str, written: str) -> None:
    found = translated(text, "markdown", tmp_path, lambda _: translation)
    assert structure(found) == structure(text)
    assert found == written


def test_what_is_left_as_it_was_is_told(tmp_path: Path) -> None:
    """One word is enough for the first block, and leaves nothing to emphasise in the second."""
    segments = segments_of("**a** b\n\n**a** *b*\n", "markdown", tmp_path)
    told = [note for segment in segments for note in segment.notes([Translation("", "x") for _ in segment.sentences])]
    assert told == [("left as it was, since its translation would be read as other mark-up", 3)]


_MARKS = """a;B. C; ;*;**;_;`;[;];](u);[r];![;<b>;</b>;<http://a>;\\;&amp;;# ;> ;- ;1. ;| ;~~;    ;é;漢"""
_PIECES = [*_MARKS.split(";"), "\n", "\n\n", "  \n", "|-|\n", "```\n", "---\n", "[r]: u\n"]


@settings(max_examples=250, deadline=None)
@given(pieces=st.lists(st.sampled_from(_PIECES), max_size=16), upper=st.booleans())
@example(pieces=["*", "a", "*", " ", "B. C"], upper=True)
@example(pieces=["a", "\\", "  \n", "a"], upper=True)
def test_any_file(tmp_path_factory: pytest.TempPathFactory, pieces: list[str], upper: bool) -> None:
    """With an identity model, the same bytes, if no character is written in two ways; and always the same structure."""
    text = "".join(pieces)
    folder = tmp_path_factory.mktemp("markdown")
    found = translated(text, "markdown", folder, (lambda words: words.upper() + " X") if upper else str)
    assert structure(found) == structure(text)
    if not upper and not {"\\", "&amp;"} & set(pieces):
        assert found == text


def test_thousands_of_notes_that_do_not_end_take_no_time(tmp_path: Path) -> None:
    start = time.process_time()
    assert segments_of("one " + "[^" * 60_000, "markdown", tmp_path)
    assert time.process_time() - start < 5  # quadratic time would be more than ten seconds
