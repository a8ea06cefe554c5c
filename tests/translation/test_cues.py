"""Sentences that run across cues: translated as one, and laid back over the cues they came from."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pysubs2
import pytest
import webvtt
from hypothesis import given, settings
from hypothesis import strategies as st

from focat.api import Model
from focat.corpus.generated import generate
from focat.errors import FocatError
from focat.translation.alignment import WordAlignment, word_spans
from focat.translation.formats import FormatOptions, InputLines, SubtitleOptions, format_of, read_segments
from focat.translation.formats.subtitles.sentences import continues
from focat.translation.result import Translation
from focat.translation.sentence import as_input
from tests.translation.test_formats import same, sentences, translated


def srt(*texts: str, seconds: float = 2.0, pause: float = 0.1) -> str:
    """Cues of these texts."""
    return "".join(
        f"{i + 1}\n{_time(i * (seconds + pause))} --> {_time(i * (seconds + pause) + seconds)}\n{text}\n\n"
        for i, text in enumerate(texts)
    )


def _time(seconds: float) -> str:
    minutes, milliseconds = divmod(round(seconds * 1000), 60_000)
    return f"00:{minutes:02}:{milliseconds // 1000:02},{milliseconds % 1000:03}"


def cue_texts(content: bytes | str) -> list[str]:
    """The text of each cue of an SRT file, lines joined."""
    text = content if isinstance(content, str) else content.decode()
    return [" ".join(cue.split("\n")[2:]) for cue in text.strip().split("\n\n")]


class TestWhichCuesAreJoined:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("I think that", "we should go."),
            ("If you come,", "Tom will be glad."),
            ("when", "I came home"),
            ("I think...", "...that it is late."),
            ("I think…", "that it is late."),
            ("It happened in", "1984."),
            ("Stop! Today", "Anna is here."),
            ("Look, Mr", "Weber!"),
            ("I met Dr.", "Smith."),
            ("WHERE IS", "THE CAT?"),
            ("אני חושב", "שכדאי ללכת."),
        ],
    )
    def test_continued(self, before: str, after: str) -> None:
        assert continues(before, after, punctuated=True)

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("Go.", "then"),
            ("Really?", "yes"),
            ("I think...", "We should go."),
            ("CHAPTER ONE", "The storm began."),
            ("Tom Miller", "Ann Smith"),
            ("PROLOGUE", "The storm began."),
            ("CHANNEL 4", "The news."),
            ("Yeah, but--", "What?"),
            ("我不知道", "他在哪里"),
            ("He said “go.”", "and"),
        ],
    )
    def test_not_continued(self, before: str, after: str) -> None:
        assert not continues(before, after, punctuated=True)

    def test_without_punctuation_a_capital_begins_a_sentence(self, tmp_path: Path) -> None:
        assert not continues("where is it", "I do not know", punctuated=False)
        texts = ["where is it", "I do not know", "We must look for it", "It was here", "Now it is gone"]
        found = sentences(srt(*texts), "srt", tmp_path)[0]
        assert found[-3:] == texts[-3:]  # after the first cues, the habit of the file is known

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("I think that", "- we should go."),
            ("<i>I think that</i>", "we should go."),
            ("{\\an8}I think that", "we should go."),
        ],
    )
    def test_not_another_speaker_or_style(self, first: str, second: str, tmp_path: Path) -> None:
        found = sentences(srt(first, second), "srt", tmp_path)[0]
        assert len(found) == 2

    def test_not_after_a_long_pause(self, tmp_path: Path) -> None:
        assert len(sentences(srt("I think that", "we should go.", pause=4), "srt", tmp_path)[0]) == 2
        assert len(sentences(srt("I think that", "we should go.", pause=2), "srt", tmp_path)[0]) == 1

    def test_speech_without_end_is_cut(self, tmp_path: Path) -> None:
        found = sentences(srt(*["and so on"] * 20), "srt", tmp_path)[0]
        assert " ".join(found) == "and so on " * 19 + "and so on"
        assert max(map(len, found)) <= 6 * len("and so on ")

    def test_the_last_speaker_is_continued(self, tmp_path: Path) -> None:
        content = srt("- Where is it?\n- I think that", "it is at home. Or not.\nWho knows?")
        expected = ["Where is it?", "I think that it is at home.", "Or not.", "Who knows?"]
        assert sentences(content, "srt", tmp_path) == [expected]
        out = translated(content, "srt", str.upper, tmp_path)
        assert cue_texts(out) == [text.upper() for text in cue_texts(content)]


class TestLaidBack:
    def test_by_length(self, tmp_path: Path) -> None:
        content = srt("I really do think that", "we should go home,", "now.")
        out = translated(
            content, "srt", lambda _: "Ich denke wirklich, dass wir nach Hause gehen sollten, jetzt.", tmp_path
        )
        assert cue_texts(out) == ["Ich denke wirklich, dass wir", "nach Hause gehen sollten,", "jetzt."]

    def test_times_numbers_and_everything_else_stay(self, tmp_path: Path) -> None:
        content = srt("I think that", "we should go.").replace("\n\n2", "\n\n\n 17 ").replace("\n", "\r\n")
        out = translated(content, "srt", str.upper, tmp_path).decode()
        assert out == content.replace("I think that", "I THINK THAT").replace("we should go", "WE SHOULD GO")

    def test_dots_stay_at_the_break(self, tmp_path: Path) -> None:
        content = srt("I think...", "...that it is late.")
        assert sentences(content, "srt", tmp_path) == [["I think that it is late."]]
        out = translated(content, "srt", lambda _: "Ich denke, dass es spät ist.", tmp_path)
        assert cue_texts(out) == ["Ich denke,...", "...dass es spät ist."]

    def test_too_few_words(self, tmp_path: Path) -> None:
        out = translated(srt("Well,", "of course,", "yes."), "srt", lambda _: "Na, ja.", tmp_path)
        assert cue_texts(out) == ["Na,", "ja.", "ja."]

    def test_a_cue_that_is_shown_briefly_gets_fewer_words(self, tmp_path: Path) -> None:
        content = srt("and this is a longer part", "of it.").replace("00:00:02,000", "00:00:00,500")
        out = translated(content, "srt", lambda _: "a" + " bb" * 10, tmp_path)
        brief, long = cue_texts(out)
        assert len(brief) < len(long)

    def test_a_script_without_spaces(self, tmp_path: Path) -> None:
        content = srt("I think that", "we should go.")
        out = translated(content, "srt", lambda _: "私は、もう行くべきだと思います。", tmp_path, languages=("en", "ja"))
        first, second = cue_texts(out)
        assert first + second == "私は、もう行くべきだと思います。"
        assert min(len(first), len(second)) > 4
        assert not second.startswith(("、", "。"))

    @pytest.mark.parametrize("texts", [("I <i>really</i> think", "so."), ("I think <b>that we</b>", "go <u>now</u>.")])
    def test_tags_stay_closed_in_each_cue(self, texts: tuple[str, str], tmp_path: Path) -> None:
        out = cue_texts(translated(srt(*texts), "srt", lambda _: "WIR DENKEN DAS.", tmp_path))
        for cue in out:
            opened = re.findall(r"<(\w)>", cue)
            assert sorted(opened) == sorted(re.findall(r"</(\w)>", cue))
        assert set(re.findall(r"<\w>", "".join(texts))) == set(re.findall(r"<\w>", "".join(out)))

    def test_a_tag_around_words_of_two_cues_is_closed_and_opened_again(self, tmp_path: Path) -> None:
        content = srt("We <b>said all of that</b>", "so.").replace("00:00:02,000", "00:00:00,600")  # too brief for it
        out = translated(content, "srt", lambda _: "WIR HABEN ALLES SO GESAGT.", tmp_path)
        assert cue_texts(out) == ["WIR <b>HABEN</b>", "<b>ALLES SO</b> GESAGT."]

    @given(data=st.data())
    @settings(max_examples=50)
    def test_every_cue_gets_the_translations_of_its_words(
        self, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """Words of random lengths, in another order inside each cue, with a known alignment."""
        words = st.text("abcdefg", min_size=1, max_size=9)
        cues = data.draw(st.lists(st.lists(words, min_size=1, max_size=5), min_size=2, max_size=5))
        source = [[f"{word}x{i}y{j}" for j, word in enumerate(cue)] for i, cue in enumerate(cues)]
        orders = [data.draw(st.permutations(range(len(cue)))) for cue in source]
        lengths = st.integers(1, 9)
        target = [[f"{'t' * data.draw(lengths)}x{i}y{j}" for j in order] for i, order in enumerate(orders)]
        path = tmp_path_factory.getbasetemp() / "known.srt"
        path.write_text(srt(*(" ".join(cue) for cue in source), seconds=9), encoding="utf-8")
        segments = [s for s in read_segments(InputLines(path), "srt", FormatOptions()) if s.sentences]
        (segment,) = segments
        (sentence,) = map(as_input, segment.sentences)
        assert sentence.align
        text = " ".join(itertools.chain(*target))
        found = Translation(sentence.text, text, alignment=_known(sentence.text, text))
        out = segment.write([found])
        assert cue_texts("1\n0:00:00,000 --> 0:00:09,000\n" + out) == [" ".join(cue) for cue in target]


def _known(source: str, target: str) -> WordAlignment:
    """Words that end alike belong to each other."""
    spans = word_spans(source), word_spans(target)
    names = [
        [text[a:b].lstrip("abcdefgt") for a, b in each] for text, each in zip((source, target), spans, strict=True)
    ]
    weights = np.array([[float(name == other) for other in names[0]] for name in names[1]])
    return WordAlignment(*spans, weights)


ASS = """[Script Info]
; a comment, with commas
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname
Style: Default,Arial

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:01.00,0:00:02.00,Default,Ann,0,0,0,,I think, {\\i1}really{\\i0}, that
Comment: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,not this
Dialogue: 0,0:00:02.00,0:00:03.00,Default,Ann,0,0,0,,we\\Nshould\\hgo.
Dialogue: 0,0:00:03.00,0:00:04.00,Default,Bob,0,0,0,,{\\an8\\fad(200,200)}- Where?\\N- Here.
Dialogue: 0,0:00:04.00,0:00:05.00,Sign,,0,0,0,,{\\p1}m 0 0 l 10 10{\\p0}
Dialogue: 0,0:00:05.00,0:00:06.00,Song,,0,0,0,,{\\k20}la {\\k30}la
Dialogue: 0,0:00:06.00,0:00:07.00,Default,,0,0,0,,

[Fonts]
fontname: x.ttf
!!Dialogue: 0,not,this
"""


class TestAss:
    def test_only_dialogue_is_translated(self, tmp_path: Path) -> None:
        assert sentences(ASS, "ass", tmp_path) == [
            ["I think, really, that we should\u00a0go.", "Where?", "Here.", "la la"]
        ]
        assert translated(ASS, "ass", same, tmp_path) == ASS.encode()
        out = translated(ASS, "ssa", str.upper, tmp_path).decode()
        for text in ("I think, {\\i1}really{\\i0}, that", "- Where?\\N- Here."):
            upper = re.sub(r"[a-z]+(?![^{]*\})", lambda m: m[0].upper(), text.replace("\\N", "\0")).replace("\0", "\\N")
            assert upper in out
        assert "WE\\NSHOULD\\hGO." in out
        assert "{\\an8\\fad(200,200)}- WHERE?" in out
        assert "{\\p1}m 0 0 l 10 10{\\p0}" in out
        assert ",,LA LA\n" in out  # a translation has no syllables to time

    def test_another_library_finds_the_same_events(self, tmp_path: Path) -> None:
        out = translated(ASS, "ass", lambda text: text.upper() + " {x} \\N 1", tmp_path).decode()
        before, after = (pysubs2.SSAFile.from_string(text, format_="ass") for text in (ASS, out))
        for event, other in zip(before, after, strict=True):
            same_fields = ("start", "end", "style", "name", "type", "effect", "layer")
            assert [getattr(event, name) for name in same_fields] == [getattr(other, name) for name in same_fields]
        assert before[0].plaintext != after[0].plaintext

    def test_what_was_lost_is_reported(self, tmp_path: Path) -> None:
        assert notes(ASS, "ass", tmp_path) == [("times of single words could not be kept", 16)]

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("Dialogue: 0,0:00:01.00,0:00:02.00,x", "line 10: has 4 fields, but its Format has 10; correct it"),
            (f"Dialogue: 0,{'1' * 5000}:00:01.00,0:00:02.00,,,,,,,Hi", "line 10: 1111"),
            ("Dialogue: 0,x,0:00:02.00,,,,,,,Hi", "line 10: x: is no time like `0:00:01.00`; correct it"),
            ("Format: Layer, Text, Start, End", "line 10: should name Start, End and, as the last field, Text"),
        ],
    )
    def test_damaged(self, line: str, problem: str, tmp_path: Path) -> None:
        content = "".join(ASS.splitlines(keepends=True)[:9]) + line + "\n"
        with pytest.raises(FocatError, match=re.escape(problem)):
            translated(content, "ass", same, tmp_path)
        with pytest.raises(FocatError, match="is this ASS or SSA"):
            translated("Just text.\n", "ass", same, tmp_path)


def notes(content: str, name: str, folder: Path, say: str | None = None, **options: object) -> list[tuple[str, int]]:
    """What is reported of a file."""
    path = folder / f"file.{name}"
    path.write_text(content, encoding="utf-8")
    found: list[tuple[str, int]] = []
    subtitles = SubtitleOptions(**options)  # type: ignore[arg-type]
    for segment in read_segments(InputLines(path), format_of(path), FormatOptions(subtitles=subtitles)):
        texts = [as_input(sentence).text for sentence in segment.sentences]
        found += segment.notes([Translation(text, say or text) for text in texts])
    return found


class TestOptions:
    def test_limits_are_reported_with_the_lines_of_their_cues(self, tmp_path: Path) -> None:
        content = srt("One.", "Two.", seconds=1)
        assert notes(content, "srt", tmp_path, "word " * 4, line_length=20, max_lines=2, reading_speed=20) == []
        long = "word " * 10 + "word"
        assert notes(content, "srt", tmp_path, long, line_length=20) == []  # it is broken
        assert notes(content, "srt", tmp_path, "w" * 21, line_length=20) == [
            ("longer than 20 characters", 3),
            ("longer than 20 characters", 7),
        ]
        found = notes(content, "srt", tmp_path, long, line_length=20, max_lines=2, reading_speed=17)
        assert {what for what, line in found if line == 3} == {
            "longer than 20 characters",
            "faster than 17 characters a second",
        }
        two = srt("- One?\n- Two.\n- Three.")
        assert notes(two, "srt", tmp_path, max_lines=2) == [("more than 2 lines", 3)]

    def test_lines_are_broken_as_asked(self, tmp_path: Path) -> None:
        options = SubtitleOptions(line_length=12, max_lines=2)
        out = translated(srt("One."), "srt", lambda _: "aaaa bbbb cccc dddd", tmp_path, subtitles=options)
        assert out.decode().split("\n")[2:4] == ["aaaa bbbb", "cccc dddd"]
        options = SubtitleOptions(line_length=5, max_lines=1)
        out = translated(srt("One."), "srt", lambda _: "aaaa bbbb cccc dddd", tmp_path, subtitles=options)
        assert out.decode().split("\n")[2:4] == ["aaaa bbbb cccc dddd", ""]

    @pytest.mark.parametrize("name", ["line_length", "max_lines", "reading_speed"])
    def test_no_such_limit(self, name: str) -> None:
        with pytest.raises(FocatError, match=f"{name} = 0: should be"):
            SubtitleOptions(**{name: 0})

    def test_sounds_are_kept_if_asked(self, tmp_path: Path) -> None:
        texts = "[door slams]", "♪ La la la", "(sighs)", "[sighs] I know. (LAUGHS)", "ANN: Go. (Or not.)"
        options = SubtitleOptions(keep_sounds=True)
        found = sentences(srt(*texts), "srt", tmp_path, subtitles=options)
        assert found == [["I know.", "Go.", "(Or not.)"]]
        out = cue_texts(translated(srt(*texts), "srt", lambda t: t.replace("o", "u"), tmp_path, subtitles=options))
        assert out == ["[door slams]", "♪ La la la", "(sighs)", "[sighs] I knuw. (LAUGHS)", "ANN: Gu. (Or nut.)"]
        found = sentences(srt(*texts), "srt", tmp_path)[0]
        assert found[:4] == ["[door slams]", "♪ La la la", "(sighs)", "[sighs] I know."]


WORDS = ["I", "think", "that", "we", "go", "Tom", "a", "1984", "Ünïcode"]
ENDS = ["", "", "", ".", "?", ",", "...", "…", "!"]


@st.composite
def cue_lines(draw: st.DrawFn, tags: Sequence[str]) -> str:
    """A line of a cue."""
    words = draw(st.lists(st.sampled_from([*WORDS, "- ", "...", *tags]), min_size=1, max_size=6))
    return draw(st.sampled_from(["", "- ", " "])) + " ".join(words) + draw(st.sampled_from(ENDS))


@st.composite
def subtitle_files(draw: st.DrawFn, name: str) -> str:
    """A file with a few cues."""
    tags = {
        "srt": ["<i>", "</i>", "{\\an8}", '<font color="red">', "</font>"],
        "vtt": ["<i>", "</i>", "<v Ann>", "<c.yellow>", "</c>", "&amp;", "<00:00:01.000>"],
        "ass": ["{\\i1}", "{\\i0}", "{\\an8}", "\\h", "{note}"],
    }[name]
    cues = draw(st.lists(st.lists(cue_lines(tags), max_size=3), max_size=6))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    written = []
    for i, lines in enumerate(cues):
        if name == "ass":
            written.append(f"Dialogue: 0,0:00:{i:02}.00,0:00:{i:02}.90,A,,0,0,0,," + "\\N".join(lines) + end)
            continue
        number = draw(st.sampled_from([f"{i + 1}{end}", ""])) if name == "srt" else ""
        point = "," if name == "srt" else "."
        timing = f"00:00:{i:02}{point}000 --> 00:00:{i:02}{point}900"
        written.append(f"{number}{timing}{end}" + "".join(line + end for line in lines) + end)
    head = {"srt": "", "vtt": f"WEBVTT{end}{end}", "ass": f"[Events]{end}"}[name]
    return head + "".join(written)


@pytest.mark.parametrize("name", ["srt", "vtt", "ass"])
class TestAnyFile:
    @given(data=st.data())
    @settings(max_examples=60)
    def test_comes_back_byte_for_byte(
        self, data: st.DataObject, name: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        content = data.draw(subtitle_files(name))
        assert translated(content, name, same, tmp_path_factory.getbasetemp()) == content.encode()

    @given(data=st.data())
    @settings(max_examples=60)
    def test_has_the_same_cues_after_translation(
        self, data: st.DataObject, name: str, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """By another library; and as many cues with text, whose words are where their source was."""
        content = data.draw(subtitle_files(name))
        folder = tmp_path_factory.getbasetemp()
        out = translated(content, name, lambda text: text.lower().replace("…", "..."), folder).decode()
        assert _times(content, name) == _times(out, name)
        assert translated(out, name, same, folder) == out.encode()  # and it can be translated again


def _times(content: str, name: str) -> list[tuple[object, object]]:
    if name == "vtt":
        return [(cue.start, cue.end) for cue in webvtt.from_string(content)]
    return [(event.start, event.end) for event in pysubs2.SSAFile.from_string(content, format_=name)]


def test_split_cues_are_translated_as_the_whole_text(model: Model, tmp_path: Path) -> None:
    """What a model knows of context, it knows across cues: the sentences and their translations are the same."""
    text = [sentence for document in generate(2, 5) for sentence in document.source]
    split = [_split(sentence, i % 3 + 1) for i, sentence in enumerate(text)]
    contents = {"whole": srt(*text), "split": srt(*itertools.chain(*split))}
    assert sentences(contents["split"], "srt", tmp_path) == sentences(contents["whole"], "srt", tmp_path) == [text]
    found: dict[str, list[str]] = {}
    for name, content in contents.items():
        (tmp_path / f"{name}.srt").write_text(content, encoding="utf-8")
        model.translate_file(tmp_path / f"{name}.srt", tmp_path / f"{name}.out.srt")
        found[name] = cue_texts((tmp_path / f"{name}.out.srt").read_text(encoding="utf-8"))
    cues = iter(found["split"])
    for parts, whole in zip(split, found["whole"], strict=True):
        own = list(itertools.islice(cues, len(parts)))
        if len(whole.split()) < len(parts):  # the last word is shown in several cues
            own = own[: len(whole.split())]
        assert " ".join(own).split() == whole.split()


def _split(sentence: str, words: int) -> list[str]:
    """A sentence for two cues, the first of which has so many words."""
    found = sentence.split()
    return [sentence] if len(found) <= words else [" ".join(found[:words]), " ".join(found[words:])]


def test_a_sentence_of_thousands_of_words_over_two_cues_takes_no_time(tmp_path: Path) -> None:
    path = tmp_path / "film.srt"
    path.write_text(srt("and then", "it went on, " * 800 + "and on."))
    (segment,) = [segment for segment in read_segments(InputLines(path), "srt", FormatOptions()) if segment.sentences]
    (sentence,) = map(as_input, segment.sentences)
    start = time.process_time()
    spans = word_spans(sentence.text)
    alignment = WordAlignment(spans, spans, np.eye(len(spans)))
    found = segment.write([Translation(sentence.text, sentence.text.upper(), alignment=alignment)])
    assert time.process_time() - start < 5  # words by words by words would be minutes
    assert [word for word in found.split() if word.isupper()] == sentence.text.upper().split()
