"""Files come back as they were, byte for byte, but for their words."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focat.errors import FocatError
from focat.translation.formats import FileSegment, FormatOptions, InputLines, format_of, read_segments
from focat.translation.formats.text import paragraphs
from focat.translation.result import Alternative, Translation, on_one_line
from focat.translation.sentence import as_input
from focat.translation.splitting import sentence_offsets, split_sentences

SRT = """1
00:00:01,000 --> 00:00:02,500
Hello there.

2
00:00:03,000 --> 00:00:04,000 X1:40 X2:600 Y1:20 Y2:50
<i>I am in italics.</i>

3
00:00:05,000 --> 00:00:06,000
{\\an8}At the top.

"""

VTT = """WEBVTT - a title
Kind: captions

STYLE
::cue(b) { color: lime }

REGION
id:fred width:40%

NOTE
what follows is a test

intro
00:01.000 --> 00:02.000 position:10%,line-left align:left size:35%
Tom &amp; Jerry &lt;3

00:00:03.000 --> 00:00:04.000
<v Roger Bingham>We are in New York.

00:05.000 --> 00:06.000
<c.yellow.bg_blue>All yellow.</c>
"""


def translated(content: str | bytes, name: str, say: Callable[[str], str], folder: Path, **options: Any) -> bytes:
    """The file with `say` for a translator."""
    path = folder / f"file.{name}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    segments = read_segments(InputLines(path), format_of(path), FormatOptions(**options))
    written = []
    for segment in segments:
        texts = [as_input(sentence).text for sentence in segment.sentences]
        written.append(segment.write([Translation(text, say(text)) for text in texts]))
    return "".join(written).encode()


def sentences(content: str, name: str, folder: Path, **options: Any) -> list[list[str]]:
    """What is to be translated, document by document."""
    path = folder / f"file.{name}"
    path.write_text(content, encoding="utf-8")
    documents: list[list[str]] = [[]]
    segment: FileSegment
    for segment in read_segments(InputLines(path), format_of(path), FormatOptions(**options)):
        documents[-1] += [as_input(sentence).text for sentence in segment.sentences]
        if segment.ends_document:
            documents.append([])
    return [document for document in documents if document]


def same(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.txt", "text"),
        ("a", "text"),
        ("a.SRT", "srt"),
        ("a.vtt.gz", "vtt"),
        ("a.jsonl.zst", "jsonl"),
        ("a.gz", "text"),
        ("a.EN", "text"),
    ],
)
def test_format_by_ending(name: str, expected: str) -> None:
    assert format_of(Path(name), ("en",)) == expected


@pytest.mark.parametrize(("name", "suffix"), [("a.doc", ".doc"), ("a.pdf.gz", ".pdf"), ("a.de", ".de")])
def test_other_endings_are_refused(name: str, suffix: str) -> None:
    expected = rf"focat does not read {suffix} files; it reads text \(.txt\), jsonl .*choose the format text"
    with pytest.raises(FocatError, match=expected):
        format_of(Path(name), ("en",))


@pytest.mark.parametrize("character", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_on_one_line(character: str) -> None:
    """Nothing is left that Python, or anyone, takes for the end of a line."""
    assert len(f"a{character}b".splitlines()) == 2
    assert on_one_line(f"{character} a{character}{character}b\t") == "a b"


class TestText:
    def test_blank_lines_stand_between_documents(self, tmp_path: Path) -> None:
        text = "\n\nOne.\nTwo.\n \t\nThree.\n\n"
        assert sentences(text, "txt", tmp_path) == [["One.", "Two."], ["Three."]]
        assert translated(text, "txt", str.upper, tmp_path) == b"\n\nONE.\nTWO.\n \t\nTHREE.\n\n"

    def test_carriage_returns_end_lines_where_no_line_feed_does(self, tmp_path: Path) -> None:
        assert sentences("One.\rTwo.\r\rThree.", "txt", tmp_path) == [["One.", "Two."], ["Three."]]
        assert translated("One.\r\rTwo.\r", "txt", str.upper, tmp_path) == b"ONE.\r\rTWO.\r"
        assert sentences("One.\rTwo.\nThree.", "txt", tmp_path) == [["One.\rTwo.", "Three."]]
        assert sentences('["a"]\r["b"]', "jsonl", tmp_path) == [["a"], ["b"]]
        assert sentences("One. Two.\r\rThree.", "txt", tmp_path, split=True) == [["One.", "Two.", "Three."]]

    @pytest.mark.parametrize("line", ["\x00", "\x07\x1b", "\x7f"])
    def test_a_line_of_control_characters_is_no_boundary(self, line: str, tmp_path: Path) -> None:
        """Neither in the input nor in the output, where it stays as it is."""
        text = f"One.\n{line}\nTwo.\n"
        assert sentences(text, "txt", tmp_path) == [["One.", "Two."]]
        assert translated(text, "txt", str.upper, tmp_path) == text.upper().encode()

    @pytest.mark.parametrize("text", ["a\r\nb\r\n\r\nc", "a", "", "\n", "a\n\n", "\r\n", "a\r", "\r", "a\n \n\t"])
    def test_ends_of_lines_stay(self, text: str, tmp_path: Path) -> None:
        assert translated(text, "txt", same, tmp_path) == text.encode()

    def test_a_byte_order_mark_is_passed_over(self, tmp_path: Path) -> None:
        assert sentences("\ufeffOne.\nTwo.", "txt", tmp_path) == [["One.", "Two."]]

    def test_compressed(self, tmp_path: Path) -> None:
        assert translated(gzip.compress(b"One.\n\nTwo.\n"), "txt.gz", str.upper, tmp_path) == b"ONE.\n\nTWO.\n"

    @given(lines=st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))))
    def test_as_many_lines_as_before(self, lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.getbasetemp()
        content = "".join(f"{line}\n" for line in lines)
        out = translated(content, "txt", on_one_line, folder).decode()
        assert out.count("\n") == len(lines)
        # even for a reader with its own idea of lines, unless nothing in a line is to be translated: that stays
        kept = "".join(f"{'x' if on_one_line(line) else line}\n" for line in lines)
        assert len(out.splitlines()) == len(kept.splitlines())

    def test_scores_and_alternatives_are_columns(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("Eins\n\nZwei\n")
        segments = list(read_segments(InputLines(tmp_path / "a.txt"), "text", FormatOptions(scores=True, nbest=2)))
        found = Translation("Eins", "one", -0.5, (Alternative("one", -0.5), Alternative("won", -1.25)))
        assert segments[0].write([found]) == "-0.5000\tone\t-1.2500\twon\n"
        assert segments[1].write([]) == "\n"
        segments = list(read_segments(InputLines(tmp_path / "a.txt"), "text", FormatOptions(nbest=2)))
        assert segments[0].write([found]) == "one\twon\n"


class TestJsonLines:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            (
                {"id": 7, "sentences": ["One.", "Two."], "more": {"a": None}},
                {"id": 7, "sentences": ["One.", "Two."], "more": {"a": None}, "translations": ["ONE.", "TWO."]},
            ),
            ({"source": "One."}, {"source": "One.", "translation": "ONE."}),
            ({"source": []}, {"source": [], "translations": []}),
            (["One.", "", "Two."], ["ONE.", "", "TWO."]),
            ("Öne.", "ÖNE."),
        ],
    )
    def test_what_was_there_stays(self, line: object, expected: object, tmp_path: Path) -> None:
        out = translated(json.dumps(line) + "\n", "jsonl", str.upper, tmp_path)
        assert json.loads(out) == expected

    @pytest.mark.parametrize(
        "fields",
        [
            '"n": 1e400',
            '"n": 1.10',
            '"n": -0.0,"m":[1.0 , 2]',
            '"inner": {"a": 1, "a": 2}',
            '"escaped": "\\u00e9\\/"',
            '"half": "\\udc00"',
            '"big": 1' + "0" * 5000,
        ],
    )
    def test_what_was_there_stays_as_it_was_written(self, fields: str, tmp_path: Path) -> None:
        line = f' {{ {fields} , "source" : "One." }} '
        out = translated(line + "\n", "jsonl", str.upper, tmp_path).decode()
        assert out == line.removesuffix("} ") + ', "translation": "ONE."} \n'

    def test_blank_lines_stay_and_end_no_document(self, tmp_path: Path) -> None:
        first, second, third = (f'{{"document": {i}, "source": "One."}}\n' for i in (1, 1, 2))
        assert sentences(f"{first} \t\n{second}\n{third}", "jsonl", tmp_path) == [["One.", "One."], ["One."]]
        assert b"\n \t\n{" in translated(f"{first} \t\n{second}", "jsonl", same, tmp_path)

    @pytest.mark.parametrize(
        ("line", "field", "options"),
        [
            ('{"source": "a", "translation": "mine"}', "translation", {}),
            ('{"sentences": ["a"], "translations": ["mine"]}', "translations", {}),
            ('{"score": 1, "source": "a"}', "score", {"scores": True}),
            ('{"source": "a", "nbest": 1}', "nbest", {"nbest": 2}),
        ],
    )
    def test_a_field_of_that_name_is_replaced_only_if_asked(
        self, line: str, field: str, options: dict[str, Any], tmp_path: Path
    ) -> None:
        with pytest.raises(FocatError, match=rf"line 2: has a field `{field}` already; rename it, or overwrite"):
            translated(f'["a"]\n{line}\n', "jsonl", same, tmp_path, **options)
        (tmp_path / "a.jsonl").write_text(line)
        (segment,) = read_segments(
            InputLines(tmp_path / "a.jsonl"), "jsonl", FormatOptions(**options, replace_fields=True)
        )
        found = Translation("a", "b", -0.5, (Alternative("b", -0.5),))
        written = json.loads(segment.write([found]), object_pairs_hook=list)
        assert [name for name, _ in written].count(field) == 1
        assert "mine" not in str(written)

    def test_documents(self, tmp_path: Path) -> None:
        lines: list[object] = [["a", "b"], ["c"], "d", "e"]
        lines += [{"document": 1, "source": "f"}, {"document": 1, "source": "g"}, {"document": 2, "source": "h"}]
        lines += [{"source": "i"}, {"source": "j"}, {"document": 2, "sentences": ["k"]}]
        lines += [{"document": 1, "source": "l"}, {"document": "1", "source": "m"}]  # a number is no text
        content = "".join(json.dumps(line) + "\n" for line in lines)
        assert sentences(content, "jsonl", tmp_path) == [
            ["a", "b"], ["c"], ["d"], ["e"], ["f", "g"], ["h"], ["i"], ["j"], ["k"], ["l"], ["m"],
        ]  # fmt: skip

    def test_scores_and_alternatives(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text('{"sentences": ["Eins", ""]}\n"Eins"\n')
        first, second = read_segments(InputLines(tmp_path / "a.jsonl"), "jsonl", FormatOptions(scores=True, nbest=2))
        found = Translation("Eins", "one", -0.5, (Alternative("one", -0.5), Alternative("won", -1.25)))
        both = [{"text": "one", "score": -0.5}, {"text": "won", "score": -1.25}]
        assert json.loads(first.write([found, Translation("", "")])) == {
            "sentences": ["Eins", ""],
            "translations": ["one", ""],
            "scores": [-0.5, None],
            "nbest": [both, []],
        }
        assert json.loads(second.write([found])) == {
            "source": "Eins", "translation": "one", "score": -0.5, "nbest": both,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("{", "line 2: not JSON at column 2"),
            ("3", "line 2: the line is neither a sentence nor a list"),
            ('{"text": "a"}', "line 2: no field `sentences` or `source`"),
            ('{"sentences": ["a", 3]}', "line 2: entry 2 of `sentences` is not a string"),
            ('{"sentences": null}', "line 2: `sentences` is neither"),
            ('["\\ud800"]', r"line 2: holds \\ud800, half of a surrogate pair"),
            ('{"source": "a", "id": 1, "source": "b"}', "line 2: has two fields `source`; remove one"),
            ('{"id": 1, "source": "a", "id": 2}', "line 2: has two fields `id`; remove one"),
            ("[" * 100_000, "line 2: not JSON that can be read"),
        ],
    )
    def test_what_is_wrong_with_a_line(self, line: str, problem: str, tmp_path: Path) -> None:
        with pytest.raises(FocatError, match=problem):
            translated(f'["a"]\n{line}\n', "jsonl", same, tmp_path)


ODD_SRT = {
    "plain": SRT,
    "byte-order mark": "\ufeff" + SRT,
    "carriage returns": SRT.replace("\n", "\r\n"),
    "no end of line": SRT.rstrip("\n"),
    "no numbers": "00:00:01,000 --> 00:00:02,000\nHi.\n\n00:00:03,000 --> 00:00:04,000\nHo.\n",
    "no blank lines": "1\n00:00:01,000 --> 00:00:02,000\nHi.\n2\n00:00:03,000 --> 00:00:04,000\nHo.\n",
    "empty cues": "1\n00:00:01,000 --> 00:00:02,000\n\n2\n00:00:03,000 --> 00:00:04,000\n\n\n\n3\n0:05.0 --> 0:06.0\n",
    "a cue that is a number": "1\n00:00:01,000 --> 00:00:02,000\n1984\n\n2\n00:00:03,000 --> 00:00:04,000\n2\n",
    "many blank lines": "\n\n1\n00:00:01,000 --> 00:00:02,000\nHi.\n\n\n\n2\n00:00:03,000 --> 00:00:04,000\nHo.\n\n\n",
    "numbers from 0, with gaps": SRT.replace("\n2\n", "\n17\n").replace("1\n00", "0\n00"),
    "nothing but tags": "1\n00:00:01,000 --> 00:00:02,000\n<i></i>\n\n2\n00:00:03,000 --> 00:00:04,000\n<b> </b>\n",
    "empty": "",
}


class TestSubtitles:
    @pytest.mark.parametrize("name", ODD_SRT)
    def test_srt_round_trip(self, name: str, tmp_path: Path) -> None:
        assert translated(ODD_SRT[name], "srt", same, tmp_path) == ODD_SRT[name].encode()

    @pytest.mark.parametrize("change", [same, lambda t: "\ufeff" + t, lambda t: t.replace("\n", "\r\n"), str.rstrip])
    def test_vtt_round_trip(self, change: Callable[[str], str], tmp_path: Path) -> None:
        expected = change(VTT).replace("&lt;3", "&lt;3")
        assert translated(change(VTT), "vtt", same, tmp_path) == expected.encode()

    def test_only_words_are_translated(self, tmp_path: Path) -> None:
        assert sentences(SRT, "srt", tmp_path) == [["Hello there.", "I am in italics.", "At the top."]]
        assert sentences(VTT, "vtt", tmp_path) == [["Tom & Jerry <3", "We are in New York.", "All yellow."]]
        out = translated(VTT, "vtt", lambda text: text.replace("3", "2 -->"), tmp_path).decode()
        assert out == VTT.replace("&lt;3", "&lt;2 --&gt;")

    def test_lines_are_joined_and_broken_again(self, tmp_path: Path) -> None:
        cue = "1\n00:00:01,000 --> 00:00:02,000\n<i>I am going home,</i>\n<i>it is late.</i>\n\n"
        assert sentences(cue, "srt", tmp_path) == [["I am going home, it is late."]]
        out = translated(cue, "srt", lambda _: "Ich gehe nach Hause, es ist schon sehr spät.", tmp_path).decode()
        assert out.endswith("02,000\n<i>Ich gehe nach Hause,</i>\n<i>es ist schon sehr spät.</i>\n\n")

    def test_two_speakers_are_two_sentences(self, tmp_path: Path) -> None:
        cue = "1\n00:00:01,000 --> 00:00:02,000\n- Where is it?\n- Over there,\non the table.\n"
        assert sentences(cue, "srt", tmp_path) == [["Where is it?", "Over there, on the table."]]
        assert translated(cue, "srt", same, tmp_path) == cue.encode()

    def test_a_dash_inside_is_no_speaker(self, tmp_path: Path) -> None:
        cue = "1\n00:00:01,000 --> 00:00:02,000\nI said\n- never mind.\n"
        assert sentences(cue, "srt", tmp_path) == [["I said - never mind."]]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("<i>Hi</i>", "<i>HI</i>"),
            ("<i><b>Hi</b></i>", "<i><b>HI</b></i>"),
            ('<font color="#fff">Hi\nho</font>', '<font color="#fff">HI\nHO</font>'),
            ("<i>Hi</i> you", "<i>HI</i> YOU"),
            ("<i>A</i> and <i>B</i>", "<i>A</i> AND <i>B</i>"),
            ("{\\an8}<i>Hi</i>", "{\\an8}<i>HI</i>"),
            ("a < b and c > d", "A < B AND C > D"),
            ("<v Mary>Hi <i>you</i></v>", "<v Mary>HI <i>YOU</i></v>"),
            ("<i>Hi you", "<i>HI YOU"),
            ("Hi you</i>", "HI YOU</i>"),
        ],
    )
    def test_tags(self, text: str, expected: str, tmp_path: Path) -> None:
        cue = f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n"
        assert translated(cue, "srt", str.upper, tmp_path).decode().splitlines()[2:] == expected.splitlines()

    def test_a_number_right_above_a_timing_is_that_of_the_cue(self, tmp_path: Path) -> None:
        cues = "1\n00:00:01,000 --> 00:00:02,000\nTom needs it.\n7\n00:00:03,000 --> 00:00:04,000\n12\n"
        cues += "8\n00:00:05,000 --> 00:00:06,000\nI -> you\n"
        assert sentences(cues, "srt", tmp_path) == [["Tom needs it.", "12", "I -> you"]]
        bare = cues.replace("1\n00:00:01", "00:00:01", 1)  # its cues have no numbers, so this is what someone says
        assert sentences(bare, "srt", tmp_path)[0][:2] == ["Tom needs it.", "7"]

    def test_an_arrow_in_a_translation_is_no_timing(self, tmp_path: Path) -> None:
        cue = "1\n00:00:01,000 --> 00:00:02,000\nHi.\n"
        once = translated(cue, "srt", lambda _: "1 --> 2", tmp_path)
        assert translated(once, "srt", str.upper, tmp_path) == once  # still one cue

    @pytest.mark.parametrize(
        ("name", "content", "problem"),
        [
            ("srt", "Just text.\n", "file.srt: has no line like"),
            ("vtt", "Just text.\n", "file.vtt, line 1: does not begin with WEBVTT"),
            ("vtt", "", "file.vtt: is empty"),
            ("vtt", "WEBVTTX\n", "line 1: does not begin with WEBVTT"),
            ("srt", SRT + "4\n00:00:07,000 -> 00:00:08,000\nLost.\n", "line 14: .* is no timing like"),
            ("vtt", VTT + "\n00:07 --> 00.08\nLost.\n", "line 23: 00:07 --> 00.08: is no timing like"),
        ],
    )
    def test_not_subtitles(self, name: str, content: str, problem: str, tmp_path: Path) -> None:
        with pytest.raises(FocatError, match=problem):
            translated(content, name, same, tmp_path)


class TestRunningText:
    def test_paragraphs_and_blank_lines_stay(self, tmp_path: Path) -> None:
        text = "Title\n\nDr. Smith came. He left.\nA new paragraph! Yes.\n\n\nThe end."
        found = sentences(text, "txt", tmp_path, split=True)
        assert found == [["Title", "Dr. Smith came.", "He left.", "A new paragraph!", "Yes.", "The end."]]
        assert translated(text, "txt", str.upper, tmp_path, split=True).decode() == text.upper()

    def test_wrapped_lines_are_joined_and_wrapped_again(self, tmp_path: Path) -> None:
        text = (
            "It was the best of times, it was the\n"
            "worst of times. It was the age of\n"
            "wisdom. It was the age of foolishness.\n"
            "\n"
            "Next.\n"
        )
        first, *_, last = sentences(text, "txt", tmp_path, split=True, languages=("en-GB", "de"))[0]
        assert (first, last) == ("It was the best of times, it was the worst of times.", "Next.")
        assert translated(text, "txt", same, tmp_path, split=True).decode() == text

    def test_what_is_not_wrapped(self) -> None:
        """Paragraphs of one line each, lists, indents."""
        for text in (
            "A paragraph of one line.\nAnother, a bit longer one.\nThe third.",
            "- one thing that is as long as it gets\n- another thing of about the same length",
            "    indented code of some length here\n    and more of it, just the same len",
            "short\nlines\nof verse",
        ):
            block = [(line, "\n") for line in text.split("\n")]
            assert [list(paragraph.lines) for paragraph in paragraphs(block)] == [[line] for line, _ in block]

    def test_marks_in_front_are_not_translated(self, tmp_path: Path) -> None:
        text = "# A title\n- First thing. And more.\n  - nested\n1. one\n> quoted\n"
        assert sentences(text, "txt", tmp_path, split=True) == [
            ["A title", "First thing.", "And more.", "nested", "one", "quoted"]
        ]
        assert translated(text, "txt", str.upper, tmp_path, split=True).decode() == text.upper()

    def test_languages_without_spaces(self, tmp_path: Path) -> None:
        assert (
            translated("One. Two.\n", "txt", lambda _: "文。", tmp_path, split=True, languages=("en", "ja")).decode()
            == "文。文。\n"
        )
        assert (
            translated("一。二。\n", "txt", lambda _: "One.", tmp_path, split=True, languages=("ja", "en")).decode()
            == "One. One.\n"
        )

    def test_sentences(self) -> None:
        assert list(split_sentences("Er kam am 3. Oktober. Dann ging er, z. B. heim.", "de")) == [
            "Er kam am 3. Oktober.",
            "Dann ging er, z. B. heim.",
        ]

    def test_a_long_text_has_the_sentences_of_its_parts(self) -> None:
        text = "Er kam am 3. Oktober. „Wann? Heute?“ Dann ging er, z. B. heim. "
        assert list(split_sentences(text * 1000, "de")) == list(split_sentences(text, "de")) * 1000
        assert len(sentence_offsets(text * 1000, "de")) == 1000 * len(sentence_offsets(text, "de"))

    @pytest.mark.parametrize("text", ["«", "`", "![", "a «", "<![CDATA["])
    def test_quotes_without_end_take_no_time(self, text: str) -> None:
        start = time.process_time()
        assert "".join(split_sentences(text * 200_000, "en")).replace(" ", "") == text.replace(" ", "") * 200_000
        assert time.process_time() - start < 10  # quadratic time would be minutes

    @pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u3000"])
    def test_other_spaces(self, space: str) -> None:
        """They stay, also where sentencex stumbles over them."""
        text = f"It is I{space}. He came{space}! Yes"
        assert "".join(split_sentences(text, "en")) == text.replace(". ", ".").replace("! ", "!")
        assert sentence_offsets(text, "en")[0] == 0

    @given(text=st.text(st.sampled_from("ab. \t\n-1#\r"), max_size=80))
    def test_as_many_blank_lines_as_before(self, text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
        out = translated(text, "txt", lambda _: "x", tmp_path_factory.getbasetemp(), split=True).decode()
        blank = [not line.strip() for line in text.split("\n")]
        assert [not line.strip() for line in out.split("\n")].count(True) == blank.count(True)

    @pytest.mark.parametrize(
        ("name", "options"),
        [("srt", {}), ("txt", {"scores": True}), ("txt", {"nbest": 2})],
    )
    def test_what_does_not_go_together(self, name: str, options: dict[str, Any], tmp_path: Path) -> None:
        with pytest.raises(FocatError, match="split: "):
            translated("", name, same, tmp_path, split=True, **options)


def test_no_scores_in_subtitles(tmp_path: Path) -> None:
    with pytest.raises(FocatError, match="format = srt: has no place for scores"):
        translated(SRT, "srt", same, tmp_path, scores=True)


def test_no_such_format(tmp_path: Path) -> None:
    with pytest.raises(FocatError, match="format = doc: there is no such format; choose from text, jsonl, srt"):
        read_segments(InputLines(tmp_path / "a"), "doc", FormatOptions())
