"""Damaged and unusual subtitles: a cue is never lost, and what is not understood is refused with its line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from focat.errors import FocatError
from tests.translation.test_formats import SRT, VTT, same, sentences, translated

TIMING = "00:00:01,000 --> 00:00:02,000"


@pytest.mark.parametrize(
    "broken",
    [
        "00: 00: 10,000 --> 00: 00: 12,000",
        "00:00:10,000 —> 00:00:12,000",
        "00:00:10,000 –> 00:00:12,000",
        "00:00:10,000 => 00:00:12,000",
        "00:00:10,000 -- > 00:00:12,000",
        "00:00:10,000 - 00:00:12,000",
        "00:00:10,000 -->",
        "00:00:10<000 --> 00:00:12,000",
        "O0:00:10,000 --> 00:00:12,000",
        "O0:00:10,000 -> 00:00:12,000",
        "00:00:1O,000 - 00:00:12,000",
        "00:00:10,000 → 00:00:12,000",
        "00:00:10,000⟶00:00:12,000",
        "00:00:10,000 --&gt; 00:00:12,000",
        "00:00:10,000 ‒> 00:00:12,000",
        "00:00:10,000 ─> 00:00:12,000",
        "00:00:10,000 ~> 00:00:12,000",
        "00:00:10,000 _> 00:00:12,000",
        "00:00:10,000 --\u200b> 00:00:12,000",
        "00:00:10,000 --＞ 00:00:12,000",
        "00:00:10,000 » 00:00:12,000",
        "00:00:10,000 →",
        "--> 00:00:12,000",
        "I --> you",
    ],
)
def test_a_line_with_an_arrow_that_is_no_timing_is_refused(broken: str, tmp_path: Path) -> None:
    srt = f"1\n{TIMING}\nHi.\n\n2\n{broken}\nHo.\n\n3\n00:00:20,000 --> 00:00:21,000\nHe.\n"
    with pytest.raises(FocatError, match=r"file.srt, line 6: .* is no timing like .*; correct it"):
        translated(srt, "srt", same, tmp_path)
    vtt = "WEBVTT\n\n" + srt.replace(",000", ".000")
    with pytest.raises(FocatError, match=r"file.vtt, line 8: .* is no timing like .*; correct it"):
        translated(vtt, "vtt", same, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        *("a -> b", "x => y", "At 10:30 - or 11:45?", "10:30 - 11:45", "2 > 1", "1984"),
        *("10:30 → office", "→ 00:00:10,000", "A → B", "»00:10:12«", "O:O:O", "12:30:15"),
    ],
)
def test_dialogue_is_no_timing(text: str, tmp_path: Path) -> None:
    assert sentences(f"1\n{TIMING}\n{text}\n", "srt", tmp_path) == [[text]]


@pytest.mark.parametrize(("name", "content"), [("srt", SRT), ("vtt", VTT)])
def test_carriage_returns_end_lines(name: str, content: str, tmp_path: Path) -> None:
    """Also where some lines of the file end in line feeds."""
    expected = sentences(content, name, tmp_path)
    head, tail = content[:60], content[60:]
    for changed in (content.replace("\n", "\r"), head.replace("\n", "\r") + tail):
        assert sentences(changed, name, tmp_path) == expected
        assert translated(changed, name, same, tmp_path) == changed.encode()


def test_a_vtt_timing_without_a_blank_line_before_it(tmp_path: Path) -> None:
    cues = "WEBVTT\n\n00:01.000 --> 00:02.000\nHi.\n00:03.000 --> 00:04.000\nHo.\n"
    assert sentences(cues, "vtt", tmp_path) == [["Hi.", "Ho."]]
    assert translated(cues, "vtt", same, tmp_path) == cues.encode()


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_a_last_cue_may_end_in_a_number(end: str, tmp_path: Path) -> None:
    """No timing follows, so that it is no number of a cue."""
    cues = f"1\n{TIMING}\nThe year was\n1984{end}"
    assert sentences(cues, "srt", tmp_path) == [["The year was 1984"]]


def test_control_characters_around_the_number_of_a_cue_are_blanks(tmp_path: Path) -> None:
    cues = f"\x1f1\n{TIMING}\nHi.\n\n\x1f 2\n{TIMING}\nHo.\n"
    assert sentences(cues, "srt", tmp_path) == [["Hi.", "Ho."]]
    assert translated(cues, "srt", same, tmp_path) == cues.encode()


@pytest.mark.parametrize(
    "voices", ["<v Ann>Hi.\n<v Bob>Ho.", "<v Ann>Hi.</v> <v Bob>Ho.</v>", "<v.loud Ann>Hi.\n<v Bob>Ho."]
)
def test_two_voices_are_two_sentences(voices: str, tmp_path: Path) -> None:
    cues = f"WEBVTT\n\n00:01.000 --> 00:02.000\n{voices}\n\n00:03.000 --> 00:04.000\n<v Ann>He.\n"
    assert sentences(cues, "vtt", tmp_path) == [["Hi.", "Ho.", "He."]]
    assert translated(cues, "vtt", same, tmp_path) == cues.encode()


def test_one_voice_on_two_lines_is_one_sentence(tmp_path: Path) -> None:
    cues = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>I am here,</v>\n<v Ann>at home.</v>\n"
    assert sentences(cues, "vtt", tmp_path) == [["I am here, at home."]]
    assert translated(cues, "vtt", same, tmp_path) == cues.encode()


@pytest.mark.parametrize("blank", ["\n", " \n", "\t \n\n"])
def test_blank_lines_inside_cues_stay(blank: str, tmp_path: Path) -> None:
    cues = f"1\n{TIMING}\n{blank}Hi.\n{blank}Ho.\n{blank}2\n00:00:03,000 --> 00:00:04,000\nHe.\n{blank}"
    assert sentences(cues, "srt", tmp_path) == [["Hi.", "Ho.", "He."]]
    assert translated(cues, "srt", same, tmp_path) == cues.encode()


def test_a_line_of_blanks_does_not_end_a_vtt_cue(tmp_path: Path) -> None:
    """Only an empty line does: what follows is text of the cue."""
    cues = "WEBVTT\n\n00:01.000 --> 00:02.000\nHi.\n \t\nHo.\n\nNOTE none\n"
    assert sentences(cues, "vtt", tmp_path) == [["Hi.", "Ho."]]
    assert translated(cues, "vtt", same, tmp_path) == cues.encode()


@pytest.mark.parametrize(
    "text",
    [
        *("{\\an8" * 72_000, "<i>" * 72_000, "<v A>" * 72_000, "{\\an8}" * 72_000, "<" * 72_000),
        *("00:00:" + "1984" * 18_000, "00:00:" + "1 " * 36_000),
    ],
)
def test_tags_and_numbers_without_end_take_no_time(text: str, tmp_path: Path) -> None:
    start = time.process_time()
    translated(f"1\n{TIMING}\n{text} Hi.\n", "srt", lambda _: "Ho.", tmp_path)
    assert time.process_time() - start < 5  # quadratic time would be more than a minute
