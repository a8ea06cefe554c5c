"""Lines of plain and compressed files: what ends a line, and what each kind of broken file is answered with."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from focat.corpus.text_files import CHUNK, Lines, fold_spaces, is_blank, open_bytes, parallel_lines, read_lines
from focat.errors import FocatError

COMPRESS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}
COMPRESSED = [".gz", ".xz", ".zst"]

anything_on_a_line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"))


def write(path: Path, content: str | bytes) -> Path:
    """Write a file, compressed as its name says."""
    data = content.encode() if isinstance(content, str) else content
    compress = COMPRESS.get(path.suffix, bytes)
    path.write_bytes(compress(data))
    return path


@pytest.fixture(params=list(COMPRESS))
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@settings(max_examples=50, deadline=None)
@given(lines=st.lists(anything_on_a_line), end=st.sampled_from(["\n", "\r\n"]))
def test_lines_come_back_as_they_were_written(lines: list[str], end: str) -> None:
    with TemporaryDirectory() as folder:
        for suffix in COMPRESS:
            path = write(Path(folder) / f"text{suffix}", "".join(line + end for line in lines))
            assert list(read_lines(path)) == lines


def test_only_a_line_feed_ends_a_line(tmp_path: Path, suffix: str) -> None:
    odd = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"
    path = write(tmp_path / f"text{suffix}", f"{odd}\nnext\r\nthird\r\r\nlast")
    assert list(read_lines(path)) == [odd, "next", "third\r", "last"]


def test_a_byte_order_mark_is_dropped_at_the_start_only(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"text{suffix}", "\ufeffone\n\ufefftwo\n")
    assert list(read_lines(path)) == ["one", "\ufefftwo"]


def test_the_suffix_may_be_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "TEXT.GZ").write_bytes(gzip.compress(b"one\n"))
    assert list(read_lines(tmp_path / "TEXT.GZ")) == ["one"]


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_streams_one_after_the_other_are_one_file(tmp_path: Path, suffix: str) -> None:
    compress = COMPRESS[suffix]
    path = tmp_path / f"text{suffix}"
    path.write_bytes(compress(b"one\ntw") + bytes(4) + compress(b"") + compress(b"o\n") + bytes(2 * CHUNK))
    assert list(read_lines(path)) == ["one", "two"]


def test_bytes_of_a_large_file(tmp_path: Path, suffix: str) -> None:
    content = bytes(range(256)) * 4096
    path = write(tmp_path / f"bytes{suffix}", content)
    with open_bytes(path) as stream:
        assert stream.read() == content


def test_the_number_is_that_of_the_line_last_given(tmp_path: Path) -> None:
    lines = Lines(write(tmp_path / "text", "a\n\nb\n"))
    assert [(lines.number, line) for line in lines] == [(1, "a"), (2, ""), (3, "b")]
    assert lines.number == 3
    assert str(lines.error("odd")) == f"{tmp_path}/text, line 3: odd"


def test_blank_lines() -> None:
    assert all(is_blank(line) for line in ["", " ", "\t \u3000", "\r"])
    assert not any(is_blank(line) for line in [".", " a "])


def message_of(path: Path) -> str:
    with pytest.raises(FocatError) as caught:
        list(read_lines(path))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_file_that_is_not_there(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    assert message_of(path) == f"{path}: no such file"


def test_a_folder(tmp_path: Path) -> None:
    assert message_of(tmp_path) == f"{tmp_path}: a folder, where a file was expected"


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (PermissionError(13, "Permission denied"), "no permission to read this file"),
        (OSError(5, "Input/output error"), "cannot be read (Input/output error)"),
    ],
)
def test_a_file_that_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, problem: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    path = write(tmp_path / "text", "a\n")
    monkeypatch.setattr(Path, "open", refuse)
    assert message_of(path) == f"{path}: {problem}"


def test_bytes_that_are_not_utf8(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"text{suffix}", "gut\nschön ".encode() + "schön\n".encode("latin-1"))
    assert message_of(path) == (
        f"{path}, line 2: byte 0xF6 at column 10 is not UTF-8; save the file as UTF-8 (iconv -f ITS-ENCODING -t UTF-8)"
    )


def test_utf16_is_named_at_its_first_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "text", "gut\n".encode("utf-16-le").join([b"\xff\xfe", b""]))
    assert message_of(path).startswith(f"{path}, line 1: byte 0xFF at column 1 is not UTF-8")


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_a_file_cut_short_says_after_which_line(tmp_path: Path, suffix: str) -> None:
    # Numbers do not compress well, so that cuts fall into the middle of the data as well as into its frame.
    lines = [str(hash((number, number))) for number in range(20_000)]
    whole = COMPRESS[suffix]("".join(f"{line}\n" for line in lines).encode())
    path = tmp_path / f"text{suffix}"
    for cut in [0, 1, 5, 12, 1000, len(whole) // 2, len(whole) - 20, len(whole) - 5, len(whole) - 1]:
        path.write_bytes(whole[:cut])
        read: list[str] = []
        with pytest.raises(FocatError) as caught:
            read.extend(read_lines(path))  # keeps what came before the error
        assert read == lines[: len(read)]
        where = f"after line {len(read)}" if read else "before the end of its first line"
        assert str(caught.value) == (
            f"{path}: not a whole {suffix} file, damaged or cut short {where}; fetch or make it again"
        )
        if cut > len(whole) - 10:  # nothing but check sums is missing
            assert len(read) > 15_000


@pytest.mark.parametrize("suffix", COMPRESSED)
@pytest.mark.parametrize("content", [b"plain text\n", b"\x1f\x8b\xfd7z(\xb5/\xfd" * 9])
def test_a_file_that_is_not_what_its_name_says(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(content)
    assert message_of(path) == (
        f"{path}: not a whole {suffix} file, damaged or cut short before the end of its first line; "
        "fetch or make it again"
    )
    with open_bytes(path) as stream, pytest.raises(FocatError, match="damaged or cut short; fetch"):
        stream.read()


def test_parallel_lines(tmp_path: Path) -> None:
    files = [Lines(write(tmp_path / name, f"{name}1\n{name}2\n")) for name in "abc"]
    assert list(parallel_lines(*files)) == [("a1", "b1", "c1"), ("a2", "b2", "c2")]


@pytest.mark.parametrize("counts", [(2, 5), (5, 2), (0, 3), (3, 5, 3), (5, 4, 2), (4, 2, 4)])
def test_files_of_unequal_length(tmp_path: Path, counts: tuple[int, ...]) -> None:
    paths = [write(tmp_path / f"{index}.txt", "x\n" * count) for index, count in enumerate(counts)]
    with pytest.raises(FocatError) as caught:
        list(parallel_lines(*map(Lines, paths)))
    fewest, most = min(counts), max(counts)
    short, long = paths[counts.index(fewest)], paths[counts.index(most)]
    assert str(caught.value) == (
        f"{short} has {fewest} lines but {long} has {most}: line {fewest + 1} of {long} has no partner; "
        "the files must correspond line for line"
    )


@given(text=st.text("a \t\r\n\u00a0", max_size=10))
def test_fold_spaces(text: str) -> None:
    """White space of ASCII only: a no-break space belongs to the text."""
    words = text.replace("\t", " ").replace("\r", " ").replace("\n", " ").split(" ")
    assert fold_spaces(text) == " ".join(word for word in words if word)
