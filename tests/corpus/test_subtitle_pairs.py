"""Subtitles aligned by time: sentences over cues, speakers, shifts and speeds, folders of films."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pysubs2
import pytest

from focat.config.corpora import AnyCorpus
from focat.corpus.generated import generate
from focat.corpus.readers import read_documents
from focat.corpus.subtitle_pairs import Utterance, overlapping, read_utterances
from focat.corpus.text_files import DEFAULT_LIMIT
from tests.corpus.test_readers import corpus_settings, message_of
from tests.corpus.test_text_files import write

Cue = tuple[float, float, str]


def srt(cues: list[Cue]) -> str:
    """Written by another library."""
    file = pysubs2.SSAFile()
    for start, end, text in cues:
        file.append(pysubs2.SSAEvent(round(1000 * start), round(1000 * end), text=text.replace("\n", "\\N")))
    return file.to_string("srt")


def subtitles(folder: Path, source: list[Cue], target: list[Cue], **values: object) -> AnyCorpus:
    paths = {"source": write(folder / "film.en.srt", srt(source)), "target": write(folder / "film.de.srt", srt(target))}
    return corpus_settings("subtitles", **paths, **values)


def test_sentences_and_speakers(tmp_path: Path) -> None:
    source = [
        (1, 2, "I know that"),
        (2.1, 4, "<i>he is\nlate.</i>"),
        (5, 7, "- Where is it?\n- Here."),
        (8, 9, "Yes."),
        (20, 21, "Alone."),
    ]
    target = [
        (1.2, 3.9, "{\\an8}Ich weiß, dass er spät dran ist."),
        (5, 6.3, "Wo ist es?"),
        (6.5, 7, "Hier."),
        (8.2, 9, "Ja."),
    ]
    left_out = Counter[str]()
    (read,) = read_documents(subtitles(tmp_path, source, target), left_out)
    assert read.name == "film.en.srt"
    assert read.source == ["I know that he is late.", "Where is it?", "Here.", "Yes."]
    assert read.target == ["Ich weiß, dass er spät dran ist.", "Wo ist es?", "Hier.", "Ja."]
    assert left_out == {"unaligned": 1}


def test_neighbours_that_overlap_a_little_stay_apart(tmp_path: Path) -> None:
    source, target = [(1, 3, "One."), (3, 5, "Two.")], [(1, 3.4, "Eins."), (3.4, 5, "Zwei.")]
    (read,) = read_documents(subtitles(tmp_path, source, target))
    assert [*zip(read.source, read.target, strict=True)] == [("One.", "Eins."), ("Two.", "Zwei.")]


@pytest.mark.parametrize(("speed", "shift"), [(1.0, 0.0), (25 / 23.976, -3.5)])
@pytest.mark.parametrize("seed", range(3))
def test_a_film_that_is_cut_differently(tmp_path: Path, seed: int, speed: float, shift: float) -> None:
    """Of a film with known translations, whose cues are cut and timed at random, every pair comes back."""
    draw = random.Random(seed)
    pairs = [pair for one in generate(12, seed + 1) for pair in zip(one.source, one.target, strict=True)]
    cues: tuple[list[Cue], list[Cue]] = ([], [])
    time = 5.0
    for pair in pairs:
        length = draw.uniform(1.5, 4)
        for side, text in zip(cues, pair, strict=True):
            begin, end = time + draw.uniform(0, 0.3), time + length - draw.uniform(0, 0.3)
            words = text.split()
            if len(words) > 3 and draw.random() < 0.4:  # over two cues
                middle, half = begin + (end - begin) / 2, len(words) // 2
                side += [(begin, middle, " ".join(words[:half])), (middle + 0.1, end, " ".join(words[half:]))]
            else:
                side.append((begin, end, text))
        time += length + draw.uniform(0.05, 1.5)
    other = [((start - shift) / speed, (end - shift) / speed, text) for start, end, text in cues[1]]
    (read,) = read_documents(subtitles(tmp_path, cues[0], other, target_speed=speed, target_shift=shift))
    found = set(zip(read.source, read.target, strict=True))
    assert len(found & set(pairs)) == len(set(pairs))


def test_every_utterance_is_in_one_group() -> None:
    draw = random.Random(3)
    sides: list[list[Utterance]] = []
    for _ in range(2):
        starts = sorted(draw.uniform(0, 300) for _ in range(120))
        sides.append([Utterance(start, start + draw.uniform(0.1, 6), str(i)) for i, start in enumerate(starts)])
    groups = list(overlapping(*sides))
    for side in (0, 1):
        assert [one for group in groups for one in group[side]] == sides[side]
    assert all(ours or theirs for ours, theirs in groups)


def test_a_folder_of_films(tmp_path: Path) -> None:
    for language, text, films in (("en", "Yes.", ["a", "b", "c"]), ("de", "Ja.", ["a", "c", "d"])):
        for film in films:
            (tmp_path / language / "2017").mkdir(parents=True, exist_ok=True)
            write(tmp_path / language / "2017" / f"{film}.{language}.srt", srt([(1, 2, text)]))
    left_out = Counter[str]()
    corpus = corpus_settings("subtitles", source=tmp_path / "en", target=tmp_path / "de")
    read = list(read_documents(corpus, left_out))
    assert [(one.name, one.source, one.target) for one in read] == [
        ("2017/a", ["Yes."], ["Ja."]),
        ("2017/c", ["Yes."], ["Ja."]),
    ]
    assert left_out == {"unaligned": 2}  # the films b and d
    write(tmp_path / "en" / "2017" / "a.fr.srt", srt([(1, 2, "Oui.")]))
    assert message_of(corpus, tmp_path).endswith("has subtitles of the same film; keep one")


def test_numbers_without_a_blank_line(tmp_path: Path) -> None:
    text = (
        "1\n00:00:01,000 --> 00:00:02,000\nYes.\n2\n0:0:03.5 --> 0:0:02.1\nNo.\n\n3\n00:00:05,000 --> 00:00:06,000\n\n"
    )
    path = write(tmp_path / "a.srt", text)
    assert read_utterances(path, DEFAULT_LIMIT) == [Utterance(1, 2, "Yes."), Utterance(3.5, 3.5, "No.")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Hello\n", "film.de.srt: has no line like `00:00:01,000 --> 00:00:02,000`; is this SRT?"),
        ("1\n00:00:01 --> 00:00:02\nYes.\n", "film.de.srt, line 2: 00:00:01 --> 00:00:02: is no timing like"),
        (f"1\n{'9' * 5000}:00:01,000 --> 00:00:02,000\nYes.\n", f"film.de.srt, line 2: {'9' * 60}: is no timing like"),
        (b"1\n00:00:01,000 --> 00:00:02,000\n\xff\n", "film.de.srt, line 3: byte 0xFF at column 1 is not UTF-8"),
        ("", "film.en.srt and film.de.srt: not a single sentence pair (1 unaligned); is this the right file?"),
    ],
)
def test_broken_files(tmp_path: Path, text: str | bytes, message: str) -> None:
    corpus = subtitles(tmp_path, [(1, 2, "Yes.")], [])
    write(tmp_path / "film.de.srt", text)
    assert message_of(corpus, tmp_path).startswith(message)


def test_folders_without_a_common_film(tmp_path: Path) -> None:
    (tmp_path / "de").mkdir()
    path = write(tmp_path / "film.srt", srt([(1, 2, "Yes.")]))
    corpus = corpus_settings("subtitles", source=path, target=tmp_path / "de")
    assert message_of(corpus, tmp_path).startswith("film.srt and de: no film has subtitles in both; give two files, or")
