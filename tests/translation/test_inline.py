"""Inline tags: around the right words, none lost, well nested, whatever the translation and its alignment."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from focat.translation.alignment import WordAlignment, positional_alignment, word_spans
from focat.translation.inline import InlineText, Part, Tag
from focat.translation.result import Translation
from focat.translation.tag_placement import Element, place_elements

_TAG = re.compile(r"<(/?)(\w+)(/?)>")


def inline(text: str) -> InlineText:
    """Text with tags like `<b>`, `</b>` and `<br/>`."""
    parts: list[Part] = []
    end = 0
    for match in _TAG.finditer(text):
        kind = "close" if match[1] else "single" if match[3] else "open"
        parts += [text[end : match.start()], Tag(match[0], kind, match[2])]  # type: ignore[arg-type]
        end = match.end()
    return InlineText([part for part in [*parts, text[end:]] if part != ""])


def linked(source: str, target: str, links: str) -> Translation:
    """A translation with the alignment `source word-target word …`, words counted from 0."""
    rows, columns = word_spans(source), word_spans(target)
    weights = np.zeros((len(columns), len(rows)))
    for link in links.split():
        i, j = map(int, link.split("-"))
        weights[j, i] = 1.0
    weights /= np.maximum(weights.sum(1, keepdims=True), 1.0)
    return Translation(source, target, alignment=WordAlignment(rows, columns, weights))


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("The <b>red</b> car.", "Das rote Auto.", "0-0 1-1 2-2 3-3", "Das <b>rote</b> Auto."),
        # the words change places, and their tags with them
        ("I will <b>buy</b> the <i>red car</i>.", "Ich werde das rote Auto kaufen.", "0-0 1-1 2-5 3-2 4-3 5-4 6-6",
         "Ich werde das <i>rote Auto</i> <b>kaufen</b>."),
        # one word becomes two, and two become one
        ("a <b>mailbox</b> here", "hier eine boîte aux lettres", "2-0 0-1 1-2 1-3 1-4",
         "hier eine <b>boîte aux lettres</b>"),
        ("the <b>mail box</b> here", "der Briefkasten hier", "0-0 1-1 2-1 3-2", "der <b>Briefkasten</b> hier"),
        # a verb in two parts: the tag stays one, around the part where it has most
        ("She <b>opens</b> the door", "Sie macht die Tür auf", "0-0 1-1 2-2 3-3 1-4", "Sie <b>macht</b> die Tür auf"),
        # nested, and the inner one moves inside the outer one
        ("<a>a <b>big</b> house</a> there", "là une maison grande", "3-0 0-1 2-2 1-3",
         "là <a>une maison <b>grande</b></a>"),
        # beside punctuation and inside white space, where the source has them
        ("<b>Yes</b>, he said", "Er sagte: <ja>", "0-4 2-0 3-1", "Er sagte: <<b>ja</b>>"),
        ("one<b> two </b>three", "eins zwei drei", "0-0 1-1 2-2", "eins<b> zwei </b>drei"),
        # tags that stand for themselves
        ("one<br/> two three", "eins drei zwei", "0-0 1-2 2-1", "eins<br/> drei zwei"),
        ("see <img/> there", "siehe dort", "0-0 1-1", "siehe <img/> dort"),
        # a tag of which the other end is in another sentence
        ("and then</b> he <i>went", "und er ging dann", "0-0 1-3 2-1 3-2", "und</b> er <i>ging dann"),
        # words that nothing is aligned with
        ("a <b>b</b>", "x y z", "", "<b></b>x y z"),
        ("<b>a</b> b", "", "", "<b></b>"),
        # what encloses all needs no alignment; a part of a word that stays the same word
        ("<b>He sleeps.</b>", "Er schläft gerade.", "", "<b>Er schläft gerade.</b>"),
        ("<b>H</b>ello, Mary<i>Ann</i>", "Hallo, MaryAnn", "0-0 1-1 2-2", "<b></b>Hallo, Mary<i>Ann</i>"),
    ],
)  # fmt: skip
def test_hand_made(source: str, target: str, links: str, expected: str) -> None:
    text = inline(source)
    assert text.render(linked(text.sentence.text, target, links)) == expected


@pytest.mark.parametrize(
    ("text", "sentence", "align"),
    [
        ("plain", "plain", False),
        ("<b>all\n  of  it</b> ", "all of it", False),
        ("<br/><b><i>both</i></b>", "both", False),
        ("open <b>end", "open end", True),
        ("<b>open end", "open end", False),
        ("a <b>b</b>", "a b", True),
        ("a <b>\n</b> c", "a c", True),
        ("\n<b></b> ", "", False),
    ],
)
def test_sentence(text: str, sentence: str, align: bool) -> None:
    """What the model sees; an alignment is computed only where a tag needs it."""
    found = inline(text).sentence
    assert (found.text, found.align) == (sentence, align)


def test_line_breaks_keep_their_proportions() -> None:
    text = inline("one two three\nfour five <b>six</b>\n  seven")
    longer = "eins zwei drei vier fuenf sechs sieben"
    translation = Translation(text.sentence.text, longer, alignment=positional_alignment(text.sentence.text, longer))
    assert text.render(translation) == "eins zwei drei\nvier fuenf <b>sechs</b>\n  sieben"
    assert text.render(Translation("", "siebenundzwanzig und")) == "siebenundzwanzig\n<b>und</b>"  # too few spaces


def test_escape() -> None:
    text = inline("a <b>b</b>")
    translation = Translation("a b", "x & y < z")
    assert text.render(translation, lambda t: t.replace("&", "&amp;").replace("<", "&lt;")) == "x &amp; y <b>&lt; z</b>"


def test_sentences_keep_their_tags() -> None:
    text = inline("One <b>is. Two</b> is too.</p> <i>Three.</i> <br/>\n")
    split = text.sentences("en")
    assert [_raw(sentence) for sentence in split] == [
        "One <b>is. ", "Two</b> is too.</p> ", "<i>Three.</i> <br/>\n",
    ]  # fmt: skip


def test_an_alignment_of_other_text_is_not_used() -> None:
    """Someone edits the translation and keeps its alignment: tags go by position."""
    text = inline("a <b>b</b> c")
    edited = Translation("a b c", "x y z", alignment=positional_alignment("a b c", "x y"))
    assert text.render(edited) == "x <b>y</b> z"


# ------------------------------------------------------------------------------------------------ properties

_WORDS = st.sampled_from(["a", "bc", "Ü", ".", ",", " ", "  ", "\n ", "\u00a0", "漢字", "d-e", "x ", " y"])


@st.composite
def marked(draw: st.DrawFn, depth: int = 3) -> str:
    """Text with well nested tags."""
    pieces = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.integers(0, 4)) if depth else 0
        if kind == 3:
            pieces.append("<br/>")
        elif kind == 4:
            name = draw(st.sampled_from("biu"))
            pieces.append(f"<{name}>{draw(marked(depth - 1))}</{name}>")
        else:
            pieces.append("".join(draw(st.lists(_WORDS, max_size=4))))
    return "".join(pieces)


@st.composite
def translated(draw: st.DrawFn) -> tuple[InlineText, Translation]:
    """A text, some translation of it and some alignment of the two."""
    text = inline(draw(marked()))
    target = " ".join("".join(draw(st.lists(_WORDS, max_size=8))).split())
    rows, columns = word_spans(text.sentence.text), word_spans(target)
    cell = st.sampled_from([0.0, 0.0, 0.0, 0.2, 0.5, 1.0])
    table = draw(
        st.lists(st.lists(cell, min_size=len(rows), max_size=len(rows)), min_size=len(columns), max_size=len(columns))
    )
    weights = np.array(table).reshape(len(columns), len(rows))
    weights /= np.maximum(weights.sum(1, keepdims=True), 1.0)
    return text, Translation(text.sentence.text, target, alignment=WordAlignment(rows, columns, weights))


def _raw(text: InlineText) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in text.parts)


def _tree(text: str) -> list[tuple[str, str]]:
    """(parent, tag) of every tag; fails where tags are not well nested."""
    stack, found = [""], []
    for closing, name, single in _TAG.findall(text):
        if closing:
            assert stack.pop() == name
            continue
        found.append((stack[-1], name))
        if not single:
            stack.append(name)
    assert stack == [""]
    return sorted(found)


@settings(max_examples=200, deadline=None)
@given(marked())
@example("<b> \n<br/>a</b>\n <br/>  b \n")
def test_identity_gives_the_text_back(text: str) -> None:
    parsed = inline(text)
    sentence = parsed.sentence.text
    assert parsed.render(Translation(sentence, sentence)) == text
    assert "".join(_raw(sentence) for sentence in parsed.sentences("en")) == text


@settings(max_examples=300, deadline=None)
@given(translated())
def test_every_tag_once_and_well_nested(case: tuple[InlineText, Translation]) -> None:
    text, translation = case
    rendered = text.render(translation)
    assert _tree(rendered) == _tree(_raw(text))
    if text.sentence.text:
        assert "".join(_TAG.sub("", rendered).split()) == "".join(translation.text.split())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["<b>", "</b>", "<i>", "</i>", "<br/>"]), _WORDS), max_size=8), st.booleans())
def test_tags_that_do_not_match_are_kept(pairs: list[tuple[str, str]], reverse: bool) -> None:
    """As in a sentence of a longer text, or in a careless file; in one piece or sentence by sentence."""
    raw = "".join(tag + word for tag, word in pairs)
    text = inline(raw)
    plain = text.sentence.text
    target = " ".join(reversed(plain.split(" "))) if reverse else plain
    rendered = text.render(Translation(plain, target))
    assert sorted(m[0] for m in _TAG.finditer(rendered)) == sorted(tag for tag, _ in pairs)
    if not reverse:
        assert rendered == raw


def _slow_best(weights: np.ndarray, start: int, end: int) -> tuple[float, list[tuple[int, int]]]:
    """Every range of target words, and those with the most gain."""
    found = {}
    for first in range(len(weights)):
        for last in range(first + 1, len(weights) + 1):
            found[first, last] = sum(2 * weights[i, start:end].sum() - 1 for i in range(first, last))
    best = max(found.values(), default=0.0)
    return best, [words for words, gain in found.items() if abs(gain - best) < 1e-9]


@pytest.mark.parametrize("closed", [0, 100, 3000])
def test_thousands_of_tags_inside_each_other(closed: int) -> None:
    """More than Python can go down into."""
    text = inline("one " + 3000 * "<i>" + "two" + closed * "</i>" + " three")
    sentence = text.sentence.text
    assert text.render(Translation(sentence, sentence)) == "".join(
        part if isinstance(part, str) else part.text for part in text.parts
    )
    moved = text.render(linked(sentence, "drei zwei eins", "0-2 1-1 2-0"))
    assert re.sub("</?i>", "", moved) == "drei zwei eins"
    assert (moved.count("<i>"), moved.count("</i>")) == (3000, closed)


@pytest.mark.parametrize(
    "text", ["<i>one " * 5000 + "</i>" * 5000, "<i>a</i> " * 5000, "one</i> " * 5000, "one <b/>" * 5000]
)
def test_thousands_of_tags_take_no_longer_than_their_words(text: str) -> None:
    """Word by word, some of these took minutes."""
    parts = inline(text)
    sentence = parts.sentence
    assert not sentence.align
    assert parts.render(Translation(sentence.text, sentence.text)) == text
    other = parts.render(Translation(sentence.text, "eins zwei"))
    assert _TAG.sub("", other).strip() == "eins zwei"
    assert len(_TAG.findall(other)) == len(_TAG.findall(text))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_one_tag_gets_the_best_range(data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(2, 5))
    cells = data.draw(st.lists(st.integers(0, 8), min_size=rows * columns, max_size=rows * columns))
    weights = np.array(cells, float).reshape(rows, columns)
    weights /= np.maximum(weights.sum(1, keepdims=True), 1.0)
    start = data.draw(st.integers(0, columns - 1))
    end = data.draw(st.integers(start + 1, columns).filter(lambda end: end - start < columns))
    (placed,) = place_elements([Element(start, end)], weights)
    gain, best = _slow_best(weights, start, end)
    if gain > 0:
        assert (placed.start, placed.end) in best
    else:  # one word at most: the likeliest
        mass = weights[:, start:end].sum(1)
        assert placed.end - placed.start == (mass.max() > 0.1)
        assert placed.start == placed.end or mass[placed.start] == mass.max()
