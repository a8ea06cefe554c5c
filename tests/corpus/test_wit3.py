"""TED talks in both published forms: small files written as WIT3 writes them, with the faults they have."""

from __future__ import annotations

from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focat.corpus.document import Document
from focat.corpus.wit3 import read_side, read_talks, unescape
from focat.errors import FocatError
from tests.corpus.test_text_files import COMPRESS, write

TAGS_EN = """\
<url>http://www.ted.com/talks/one.html</url>
<keywords>talks, science & art</keywords>
<speaker>Al Gore</speaker>
<talkid>1</talkid>
<title>Al Gore: Averting the climate crisis</title>
<description>About <i>climate</i>.</description>
Thank you so much, Chris.
<CHARNAME> & I are grateful.

<url>http://www.ted.com/talks/two.html</url>
<talkid>2</talkid>
<title>Second</title>
<description></description>
Hello.
"""

TAGS_DE = """\
<doc docid="1" genre="lectures">
<url>http://www.ted.com/talks/one.html</url>
<talkid>1</talkid>
<reviewer href="http://www.ted.com/profiles/1">Eine Person</reviewer>
<translator href="http://www.ted.com/profiles/2">Noch eine</translator>
<title>Al Gore: Die Klimakrise</title>
<transcript>
Vielen Dank, Chris.
<CHARNAME> & ich sind dankbar.

</transcript>
<translator>Noch eine</translator>
</doc>
<doc docid="2" genre="lectures">
<talkid>2</talkid>
<title>Zweiter</title>
Hallo.
<reviewer></reviewer>
</doc>
"""

XML_EN = """\
<?xml version="1.0" encoding="UTF-8"?>
<mteval>
<srcset setid="iwslt-dev" srclang="english">
<doc docid="69" genre="lectures">
<url>http://www.ted.com/talks/x</url>
<talkid>69</talkid>
<title>Title & all</title>
<description>Not a sentence.</description>
<seg id="1"> AT&T said: 1 &lt; 2 &amp;amp; so &#228; &#x20AC; &nbsp; &bogus </seg>
<seg id="2">Two</seg> <seg id="3">on a line, the second
over two</seg>
</doc>
<doc docid='70'><seg id="1"></seg></doc>
</srcset>
</mteval>
"""

TALKS = [
    Document(
        "1",
        ["Thank you so much, Chris.", "<CHARNAME> & I are grateful.", ""],
        ["Vielen Dank, Chris.", "<CHARNAME> & ich sind dankbar.", ""],
    ),
    Document("2", ["Hello."], ["Hallo."]),
]


@pytest.fixture(params=list(COMPRESS))
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_tagged_talks(tmp_path: Path, suffix: str) -> None:
    source = write(tmp_path / f"train.tags.en-de.en{suffix}", TAGS_EN)
    target = write(tmp_path / f"train.tags.en-de.de{suffix}", TAGS_DE)
    assert list(read_talks(source, target)) == TALKS


def test_segments(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"dev.xml{suffix}", XML_EN)
    talks = list(read_side(path))
    assert [(talk.id, talk.line, talk.sentences) for talk in talks] == [
        (
            "69",
            4,
            [
                "AT&T said: 1 < 2 &amp; so ä € &nbsp; &bogus",
                "Two",
                "on a line, the second over two",
            ],
        ),
        ("70", 13, [""]),
    ]


def test_a_talk_that_is_empty_on_both_sides_is_left_out(tmp_path: Path) -> None:
    text = "<talkid>1</talkid>\n<talkid>2</talkid>\nHello.\n<talkid>3</talkid>\n"
    path = write(tmp_path / "tags", text)
    assert list(read_talks(path, path)) == [Document("2", ["Hello."], ["Hello."])]


def test_talks_without_an_id_are_named_by_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "tags.en", "<title>A</title>\nOne.\n<title>B</title>\nTwo.\n")
    assert [document.name for document in read_talks(path, path)] == ["tags.en:1", "tags.en:3"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a &amp; b", "a & b"),
        ("&quot;&apos;&gt;", "\"'>"),
        ("&amp;lt;", "&lt;"),
        ("R&D & &; &#; &#x;", "R&D & &; &#; &#x;"),
        ("&#65;&#x41;&#X41;", "AAA"),
        ("&#xD800; &#0; &#x110000;", "&#xD800; &#0; &#x110000;"),
    ],
)
def test_entities(text: str, plain: str) -> None:
    assert unescape(text) == plain


sentences = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"), min_size=1, max_size=20
)
plain_sentences = sentences.filter(lambda text: not text.isspace() and not text.startswith("<"))
talks = st.lists(st.lists(st.tuples(plain_sentences, plain_sentences), min_size=1, max_size=5), max_size=4)


@settings(max_examples=50, deadline=None)
@given(talks=talks)
def test_talks_come_back_as_they_were_written(talks: list[list[tuple[str, str]]]) -> None:
    documents = [
        Document(str(index), [source for source, _ in pairs], [target for _, target in pairs])
        for index, pairs in enumerate(talks)
    ]
    stripped = [
        Document(
            document.name,
            [sentence.strip() for sentence in document.source],
            [sentence.strip() for sentence in document.target],
        )
        for document in documents
    ]
    with TemporaryDirectory() as name:
        folder = Path(name)
        for side in ("source", "target"):
            tags, xml = [], ["<mteval>\n"]
            for document in documents:
                lines = getattr(document, side)
                tags += [f"<talkid>{document.name}</talkid>\n", *(f"{line}\n" for line in lines)]
                xml += [f'<doc docid="{document.name}">\n', *(f"<seg> {escape(line)} </seg>\n" for line in lines)]
                xml += ["</doc>\n"]
            write(folder / f"tags.{side}", "".join(tags))
            write(folder / f"{side}.xml", "".join(xml))
        assert list(read_talks(folder / "tags.source", folder / "tags.target")) == documents
        assert list(read_talks(folder / "source.xml", folder / "target.xml")) == stripped


def message_of(tmp_path: Path, source: str, target: str) -> str:
    with pytest.raises(FocatError) as caught:
        list(read_talks(write(tmp_path / "en", source), write(tmp_path / "de", target)))
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_another_talk_in_its_place(tmp_path: Path) -> None:
    assert message_of(tmp_path, "<talkid>1</talkid>\na\n", "<url></url>\n<talkid>7</talkid>\nb\n") == (
        "en, line 1: talk 1, but de, line 1: talk 7; both files must hold the same talks in the same order"
    )


def test_unequal_numbers_of_sentences(tmp_path: Path) -> None:
    fewer = TAGS_DE.replace("<CHARNAME> & ich sind dankbar.\n", "")
    assert message_of(tmp_path, TAGS_EN, fewer) == (
        "talk 1 has 3 sentences in en (from line 1) but 2 in de (from line 1); they must correspond one by one"
    )
    assert message_of(tmp_path, "<title>x</title>\na\nb\n", "<title>y</title>\na\n").startswith(
        "a talk without id has 2 sentences in en (from line 1)"
    )


def test_a_talk_that_is_empty_on_one_side(tmp_path: Path) -> None:
    source = "<url>1</url>\n<talkid>1</talkid>\na\n<url>2</url>\n<talkid>2</talkid>\nb\n"
    assert message_of(tmp_path, source, source.replace("a\n", "")) == (
        "talk 1 has 1 sentences in en (from line 1) but 0 in de (from line 1); they must correspond one by one"
    )


@pytest.mark.parametrize("text", ["<doc><seg>a</seg></doc>", "<doc>\n<title>t</title>\n<SEG>a</SEG>\n</doc>"])
def test_the_format_is_known_by_its_segments(tmp_path: Path, text: str) -> None:
    assert [talk.sentences for talk in read_side(write(tmp_path / "dev", text))] == [["a"]]


@pytest.mark.parametrize("more", ["en", "de"])
def test_unequal_numbers_of_talks(tmp_path: Path, more: str) -> None:
    one = "<talkid>1</talkid>\na\n"
    three = one + "<talkid>2</talkid>\nb\n<talkid>3</talkid>\nc\n"
    texts = (three, one) if more == "en" else (one, three)
    counts = (3, 1) if more == "en" else (1, 3)
    assert message_of(tmp_path, *texts) == (
        f"en has {counts[0]} talks but de has {counts[1]}: talk 2 ({more}, line 3) has no partner; "
        "both files must hold the same talks in the same order"
    )


def test_segments_left_open(tmp_path: Path) -> None:
    whole = "<mteval>\n<doc docid='1'>\n<seg>a</seg>\n</doc>\n"
    nested = "<mteval>\n<doc docid='1'>\n<seg>a\n<seg>b</seg>\n</doc>\n"
    assert message_of(tmp_path, nested, whole) == (
        "en, line 4: <seg> inside the <seg> that opens at line 3; close it with </seg>"
    )
    cut = "<mteval>\n<doc docid='1'>\n<seg>a\n"
    assert message_of(tmp_path, cut, whole) == ("en, line 3: this <seg> is never closed; the file may be cut short")
