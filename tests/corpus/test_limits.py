"""Files that would fill the memory: a little that decompresses to much, a line without end."""

from __future__ import annotations

import gzip
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from focat.config.data import DataSettings
from focat.corpus.readers import read_documents
from focat.corpus.text_files import LineLimit, Lines
from focat.errors import FocatError
from focat.evaluation.suites import read_suite
from focat.translation.formats import FormatOptions, InputLines, read_segments

MIB = 1 << 20
SIDES = ["source", "target"]
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda content: gzip.compress(content, 1),
    ".xz": lambda content: lzma.compress(content, preset=0),
    ".zst": zstandard.compress,
}


@pytest.mark.parametrize("reader", [Lines, InputLines])
@pytest.mark.parametrize("suffix", COMPRESS)
def test_what_decompresses_to_one_long_line_is_refused_before_it_is_in_memory(
    tmp_path: Path, suffix: str, reader: type[Lines]
) -> None:
    path = tmp_path / f"bomb{suffix}"
    size = (512 if suffix == ".zst" else 64) * MIB
    path.write_bytes(COMPRESS[suffix](b"First.\n" + b"a" * size))
    tracemalloc.start()
    try:
        with pytest.raises(FocatError, match=r"line 2: is longer than 1,048,576 bytes; break it, or raise its limit$"):
            list(reader(path, LineLimit(MIB, "its limit")))
        assert tracemalloc.get_traced_memory()[1] < (300 if suffix == ".zst" else 100) * MIB
    finally:
        tracemalloc.stop()


def test_a_line_of_the_limit_is_read(tmp_path: Path) -> None:
    """Its end is counted."""
    path = tmp_path / "lines"
    path.write_text("abc\ndef\ngh")
    assert list(Lines(path, LineLimit(4))) == ["abc", "def", "gh"]
    with pytest.raises(FocatError, match=r"line 1: is longer than 3 bytes; break it$"):
        list(Lines(path, LineLimit(3)))


@pytest.mark.parametrize(
    "format", [*("text", "ids", "fragments", "wit3", "tsv", "jsonl", "opus", "po", "paradocs", "subtitles")]
)
def test_every_corpus_has_its_limit(tmp_path: Path, format: str) -> None:
    (tmp_path / "long").write_text("a" * 3000)
    names = {"ids": [*SIDES, "documents"], "opus": [*SIDES, "ids"]}.get(format, SIDES)
    names = ["path"] if format in ("tsv", "jsonl", "po", "paradocs") else names
    corpus = {"format": format, "max_line_bytes": 2000, **dict.fromkeys(names, tmp_path / "long")}
    settings = DataSettings.model_validate({"train": [corpus]})
    with pytest.raises(FocatError, match=r"line 1: is longer than 2,000 bytes; break it, or raise max_line_bytes of"):
        list(read_documents(settings.train[0]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cues.srt", "1\n00:00:01,000 --> 00:00:02,000\n" + "word\n" * 1000),
        ("cues.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n" + "word\n" * 1000),
        ("notes.vtt", "WEBVTT\n\nNOTE\n" + "word\n" * 1000),
    ],
)
def test_a_cue_without_end_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    lines = InputLines(tmp_path / name, LineLimit(2000, "decoding.max_line_bytes"))
    with pytest.raises(FocatError, match=r"no timing in the last 2,000 characters; break it, or raise decoding\.max_l"):
        list(read_segments(lines, name[-3:], FormatOptions()))


def test_a_suite_that_decompresses_to_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "suite.json.zst"
    path.write_bytes(zstandard.compress(b" " * (257 * MIB)))
    with pytest.raises(
        FocatError, match=r"suite\.json\.zst: is larger than 256 MiB; split the suite into several files"
    ):
        read_suite(path)
