"""Files that are not UTF-8: what they are is found out, and nothing of them is lost."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focat.api import Model
from focat.errors import FocatError
from focat.progress import Progress
from focat.translation.formats import FormatOptions, InputLines, read_segments
from focat.translation.formats.encodings import TextEncoder, file_encoding, guess_encoding
from focat.translation.result import Translation
from tests.translation.test_formats import SRT

TEXTS = {
    ("fr", "cp1252"): "Où est le café ? Il était déjà très tard, mon frère.\nÇa va être l'été, j'espère.\n",
    ("en", "cp1252"): "It’s late – I don’t know. “Go home,” he said.\n",
    ("pl", "cp1250"): "Gdzie jest żółty kot? Chciałbym się dowiedzieć.\nNie wiem, co ci powiedzieć. Źle śpię.\n",
    ("ru", "cp1251"): "Где кошка? Она спит на диване.\nЯ не знаю, что тебе сказать.\n",
    ("ru", "koi8-r"): "Где кошка? Она спит на диване.\nЯ не знаю, что тебе сказать.\n",
    ("el", "cp1253"): "Πού είναι η γάτα; Κοιμάται στον καναπέ.\nΔεν ξέρω τι να σου πω.\n",
    ("tr", "cp1254"): "Kedi nerede? Şimdi uyuyor, sanırım.\nSana ne diyeceğimi bilmiyorum, çünkü geç kaldım.\n",
    ("he", "cp1255"): "איפה החתול? הוא ישן על הספה.\nאני לא יודע מה להגיד לך.\n",
    ("ar", "cp1256"): "أين القطة؟ إنها نائمة على الأريكة.\nلا أعرف ماذا أقول لك.\n",
    ("zh", "gb18030"): "猫在哪里？它在沙发上睡觉。\n我不知道该对你说什么。\n",
    ("zh", "big5"): "貓在哪裡？牠在沙發上睡覺。\n我不知道該對你說什麼。\n",
    ("ja", "cp932"): "猫はどこですか？ソファーで寝ています。\n何と言えばいいのか分かりません。\n",
    ("ja", "euc_jp"): "猫はどこですか？ソファーで寝ています。\n何と言えばいいのか分かりません。\n",
    ("ko", "cp949"): "고양이는 어디에 있어요? 소파에서 자고 있어요.\n무슨 말을 해야 할지 모르겠어요.\n",
}


def read(path: Path, **options: str) -> tuple[str, list[str]]:
    """The text of a file, and what was reported about it."""
    reports: list[str] = []
    return "".join(InputLines(path, report=reports.append, **options)), reports  # type: ignore[arg-type]


@pytest.mark.parametrize(("language", "encoding"), TEXTS)
def test_encodings_are_found_out(language: str, encoding: str, tmp_path: Path) -> None:
    text = TEXTS[language, encoding]
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    assert read(tmp_path / "a.txt", language=language) == (
        text,
        [f"{tmp_path / 'a.txt'}: read as {encoding}; if that is wrong, name its encoding"],
    )
    if len(text) > 60:  # also if the text is in another language than that of the model
        guessed = guess_encoding(text.encode(encoding), "en")
        assert guessed is not None
        if language not in ("fr", "pl", "tr"):  # their letters look well in the encoding of English, too
            assert text.encode(encoding).decode(guessed) == text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-be", "utf-16-le", "utf-32-be", "utf-32-le"])
def test_byte_order_marks(encoding: str, tmp_path: Path) -> None:
    mark = "" if encoding in ("utf-16", "utf-32") else "\ufeff"
    (tmp_path / "a.txt").write_bytes((mark + "Größe\r\n\r\n文\n").encode(encoding))
    text, reports = read(tmp_path / "a.txt")
    assert text == "Größe\r\n\r\n文\n"
    assert len(reports) == 1


def test_utf8_is_read_in_silence(tmp_path: Path) -> None:
    for text in ("", "a", "\ufeffé\n", "é" * 100_000, "\0\n"):
        (tmp_path / "a.txt").write_bytes(text.encode())
        assert read(tmp_path / "a.txt") == (text, [])


def test_one_letter_far_behind_decides(tmp_path: Path) -> None:
    """The sample is taken where the file stops to be UTF-8, also in a compressed one and across chunks."""
    text = "Nothing but plain words, line by line.\n" * 20_000 + "It’s a café.\n"
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode("cp1252")))
    assert read(tmp_path / "a.txt.gz")[0] == text


def test_the_encoding_that_is_given_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Où est-ce ?\nС кем?\n".encode())
    assert read(tmp_path / "a.txt", encoding="cp437")[0].startswith("O├╣ est-ce")
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\nthr\xe9\xe9\nfour\n")
    with pytest.raises(FocatError, match=r"a.txt, line 3: byte 0xE9 cannot be read as ascii; name the encoding"):
        read(tmp_path / "a.txt", encoding="ascii")
    (tmp_path / "a.txt").write_bytes(codecs.BOM_UTF16_LE + b"a\0b")
    with pytest.raises(FocatError, match=r"a.txt, line 1: byte 0x62 cannot be read as utf-16"):
        read(tmp_path / "a.txt")


@given(text=st.text(st.sampled_from("aé文😀\r\n "), max_size=50), encoding=st.sampled_from(["utf-16", "gb18030"]))
def test_any_text_comes_back(text: str, encoding: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """With the same encoding for input and output, byte for byte."""
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(text.encode(encoding))
    encoder = TextEncoder(Path("out"), encoding)
    segments = read_segments(InputLines(path, encoding=encoding), "text", FormatOptions())
    written = [segment.write([Translation(s, s) for s in segment.sentences]) for segment in segments]
    assert b"".join(encoder.encode(each, 1) for each in written) == (text.encode(encoding) if text else b"")


def test_a_mark_is_written_once_or_not_at_all() -> None:
    encoder = TextEncoder(Path("out"), "utf-16-le")
    assert encoder.encode("", 1) + encoder.encode("\ufeffa", 1) + encoder.encode("b\ufeff", 2) == b"a\0b\0\xff\xfe"
    assert TextEncoder(Path("out")).encode("\ufeffa", 1) == b"\xef\xbb\xbfa"
    assert TextEncoder(Path("out"), "cp1252").encode("\ufeffé", 1) == b"\xe9"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Its encoding is that of what comes first; each line is there when it has been sent."""
    os.mkfifo(tmp_path / "pipe")
    sent = threading.Event()

    def send() -> None:
        with (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            pipe.write("Où est le café ? Il était déjà très tard.\n".encode("cp1252"))
            assert sent.wait(60)
            pipe.write("Ça va, j'espère.\n".encode("cp1252"))

    threading.Thread(target=send, daemon=True).start()
    reports: list[str] = []
    lines = iter(InputLines(tmp_path / "pipe", language="fr", report=reports.append))
    assert next(lines) == "Où est le café ? Il était déjà très tard.\n"
    assert len(reports) == 1
    sent.set()
    assert list(lines) == ["Ça va, j'espère.\n"]


class _Log(Progress):
    """Progress that collects what is reported."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.lines: list[str] = []

    def log(self, line: str) -> None:
        self.lines.append(line)


def test_a_job_reports_once_and_writes_utf8(model: Model, tmp_path: Path) -> None:
    (tmp_path / "in.srt").write_bytes(SRT.replace("Hello", "“Hello”").encode("cp1252"))
    log = _Log()
    model.translate_file(tmp_path / "in.srt", tmp_path / "out.srt", progress=log)
    assert [line for line in log.lines if "read as" in line] == [
        f"{tmp_path / 'in.srt'}: read as cp1252; if that is wrong, name its encoding"
    ]
    out = (tmp_path / "out.srt").read_text(encoding="utf-8")
    model.translate_file(tmp_path / "in.srt", tmp_path / "out16.srt", encoding="windows-1252", output_encoding="UTF16")
    assert (tmp_path / "out16.srt").read_text(encoding="utf-16") == out


def test_what_the_output_cannot_hold(model: Model, tmp_path: Path) -> None:
    """One line before anything is translated, if it stands in the input; nothing is written."""
    (tmp_path / "in.vtt").write_text("WEBVTT\n\nNOTE →\n\n00:01.000 --> 00:02.000\nWhere is it?\n")
    problem = r"out.vtt: '→' \(U\+2192\), near line 3 of the input, does not exist in cp1252; choose another"
    with pytest.raises(FocatError, match=problem):
        model.translate_file(tmp_path / "in.vtt", tmp_path / "out.vtt", output_encoding="cp1252")
    assert [file.name for file in tmp_path.iterdir()] == ["in.vtt"]


@pytest.mark.parametrize("name", ["latin-99", "hex", "", "\0"])
@pytest.mark.parametrize("parameter", ["encoding", "output_encoding"])
def test_no_such_encoding(parameter: str, name: str, model: Model, tmp_path: Path) -> None:
    with pytest.raises(FocatError, match=f"{parameter} = .*: there is no such encoding; give one such as utf-8"):
        model.translate_file(tmp_path / "in.txt", **{parameter: name})  # type: ignore[arg-type]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FocatError, match=r"a.txt: no such file"):
        file_encoding(tmp_path / "a.txt", "en", lambda _: None)
