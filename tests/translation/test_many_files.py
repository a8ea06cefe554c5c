"""Many files as one job: each is translated as if alone, whatever happens to the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focat.api import Model
from focat.errors import FocatError
from focat.translation.journal import Journal
from focat.translation.many_files import find_files, is_many, shard_of
from focat.translation.sentence_decoder import EngineDecoder
from tests.translation.test_cues import srt

TEXTS = {
    "talk.txt": "Where is the cat?\nIt is old.\n\nTom sleeps.\n",
    "films/one.srt": srt("Where is the lamp?", "I am", "looking for it."),
    "films/deep/two.vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\nIt is new.\n",
    "films/deep/empty.txt": "",
    "talks.jsonl": '["Anna needs the box.", "It is here."]\n',
    "talk.en": "Do you have time?\n",
}


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """A folder with files of several formats."""
    for name, text in TEXTS.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(text, encoding="utf-8")
    return tmp_path / "in"


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def alone(model: Model, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The translation of each file by itself."""
    folder = tmp_path_factory.mktemp("alone")
    found = {}
    for i, (name, text) in enumerate(TEXTS.items()):
        (folder / f"{i}{Path(name).suffix}").write_text(text, encoding="utf-8")
        model.translate_file(folder / f"{i}{Path(name).suffix}", folder / f"{i}.out")
        found[name] = (folder / f"{i}.out").read_bytes()
    return found


def test_outputs_are_mirrored(model: Model, inputs: Path, alone: dict[str, bytes]) -> None:
    (inputs / "picture.png").write_bytes(b"\x89PNG")
    (inputs / ".hidden.txt").write_text("No.\n")
    stats = model.translate_files(inputs, inputs / "out")  # inside the input
    assert contents(inputs / "out") == alone
    assert sorted(stats.translated) == sorted(TEXTS)
    assert stats.skipped == ["picture.png"]
    assert (stats.sentences, stats.failed, stats.existing) == (9, {}, [])
    again = model.translate_files(inputs, inputs / "out")
    assert (again.translated, sorted(again.existing)) == ([], sorted(TEXTS))


def test_what_inputs_stand_for(inputs: Path, tmp_path: Path) -> None:
    def names(*given: Path | str) -> list[str]:
        return list(find_files(given, tmp_path / "out", None, ("en", "de"))[0])

    assert names(inputs) == sorted(TEXTS)
    assert names(inputs / "talk.txt") == ["talk.txt"]
    assert names(inputs / "talk.txt", inputs / "films" / "one.srt") == ["films/one.srt", "talk.txt"]
    assert names(f"{inputs}/**/*.[sv][rt]t") == ["films/deep/two.vtt", "films/one.srt"]
    assert names(f"{inputs}/films/*.srt", inputs / "films" / "one.srt") == ["one.srt"]
    assert names(inputs / "films", inputs / "talk.en") == ["deep/empty.txt", "deep/two.vtt", "one.srt", "talk.en"]
    with pytest.raises(FocatError, match=r"\*.po: no file matches this pattern"):
        names(f"{inputs}/*.po")
    (inputs / "one.srt").write_text(TEXTS["films/one.srt"])
    with pytest.raises(FocatError, match=r"one.srt and .*one.srt: both would become .*out/one.srt"):
        names(inputs / "films", inputs / "one.srt")
    assert is_many([inputs], "out")
    assert is_many([inputs / "talk.txt"], tmp_path)
    assert is_many(["*.srt"], "out")
    assert not is_many([inputs / "talk.txt"], "out.txt")
    assert not is_many([], "-")


def test_shards_are_the_whole(model: Model, inputs: Path, tmp_path: Path, alone: dict[str, bytes]) -> None:
    translated: list[str] = []
    for i in (1, 2, 3):
        stats = model.translate_files(inputs, tmp_path / "out", shard=(i, 3))
        assert stats.existing == []
        translated += stats.translated
    assert sorted(translated) == sorted(TEXTS)
    assert contents(tmp_path / "out") == alone
    for shard in ((0, 3), (4, 3)):
        with pytest.raises(FocatError, match=f"shard = {shard[0]}/3: should be a number from 1 to that of shards"):
            model.translate_files(inputs, tmp_path / "out", shard=shard)


@given(name=st.text(), shards=st.integers(1, 50))
def test_every_name_has_one_shard(name: str, shards: int) -> None:
    assert 1 <= shard_of(name, shards) <= shards
    assert shard_of("films/one.srt", 8) == 8  # for ever, or shards of different versions would not make the whole


def test_bad_files_do_not_stop_the_others(model: Model, inputs: Path, tmp_path: Path, alone: dict[str, bytes]) -> None:
    (inputs / "bad.vtt").write_text("Just text.\n")
    (inputs / "gone.txt").symlink_to("nowhere.txt")
    stats = model.translate_files([inputs, inputs / "missing.srt"], tmp_path / "out")
    assert {name: problem.rpartition("/")[2].split(";")[0] for name, problem in stats.failed.items()} == {
        "bad.vtt": "bad.vtt, line 1: does not begin with WEBVTT",
        "missing.srt": "missing.srt: no such file",
    }
    assert contents(tmp_path / "out") == alone


def test_a_file_whose_translation_cannot_be_written(model: Model, inputs: Path, tmp_path: Path) -> None:
    (inputs / "a.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nIt is <c.→>new</c>.\n", encoding="utf-8")
    (inputs / "b.vtt").write_text("WEBVTT\n")
    stats = model.translate_files(f"{inputs}/?.vtt", tmp_path / "out", output_encoding="ascii", beam=1)
    assert list(stats.failed) == ["a.vtt"]
    assert "does not exist in ascii" in stats.failed["a.vtt"]
    assert contents(tmp_path / "out") == {"b.vtt": b"WEBVTT\n"}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("stop", range(1, 7))
def test_an_interrupted_job_goes_on(
    stop: int,
    overwrite: bool,
    model: Model,
    inputs: Path,
    tmp_path: Path,
    alone: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped when any file is about to appear; files that are finished are not written again."""
    (tmp_path / "out").mkdir()
    if overwrite:
        (tmp_path / "out" / "talk.txt").write_text("mine")
    count = 0
    record_output = Journal.record_output

    def stopping(journal: Journal, *files: object) -> None:
        nonlocal count
        count += 1
        if count == stop:
            raise KeyboardInterrupt
        record_output(journal, *files)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "record_output", stopping)
        with pytest.raises(KeyboardInterrupt):
            model.translate_files(inputs, tmp_path / "out", overwrite=overwrite, batch_tokens=1, lookahead=1)
    before = {path: path.stat().st_ino for path in (tmp_path / "out").rglob("*.*") if path.is_file()}
    before = {path: inode for path, inode in before.items() if path.read_bytes() != b"mine"}
    journals = [path for path in before if path.suffix == ".journal"]
    assert len(before) - len(journals) == stop - 1
    stats = model.translate_files(inputs, tmp_path / "out", overwrite=overwrite, batch_tokens=1, lookahead=1)
    assert sorted(stats.translated) == sorted(TEXTS)
    assert contents(tmp_path / "out") == alone
    for path, inode in before.items():
        assert path in journals or path.stat().st_ino == inode


def test_a_file_that_was_taken_away_is_written_again_and_nothing_is_decoded_twice(
    model: Model, inputs: Path, tmp_path: Path, alone: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the journal of an interrupted job, which loses nothing by it."""
    decoded, written = 0, 0
    submit, record_output = EngineDecoder.submit, Journal.record_output

    def counting(decoder: EngineDecoder, *window: object) -> int:
        nonlocal decoded
        decoded += 1
        return submit(decoder, *window)  # type: ignore[arg-type]

    def stopping(journal: Journal, *files: object) -> None:
        nonlocal written
        written += 1
        if written == len(TEXTS):
            raise KeyboardInterrupt
        record_output(journal, *files)  # type: ignore[arg-type]

    monkeypatch.setattr(EngineDecoder, "submit", counting)
    replaced = tmp_path / "out" / "films" / "one.srt"
    replaced.parent.mkdir(parents=True)
    replaced.write_text("mine")  # the journal names it too, in a longer record than the second run would write
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "record_output", stopping)
        with pytest.raises(KeyboardInterrupt):
            model.translate_files(inputs, tmp_path / "out", overwrite=True, batch_tokens=1, lookahead=1)
    replaced.unlink()
    model.translate_files(inputs, tmp_path / "out", overwrite=True, batch_tokens=1, lookahead=1)
    assert contents(tmp_path / "out") == alone
    assert decoded == 9


def test_what_exists_stays_unless_asked(model: Model, inputs: Path, tmp_path: Path, alone: dict[str, bytes]) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "talk.txt").write_text("mine")
    assert model.translate_files(inputs, tmp_path / "out").existing == ["talk.txt"]
    assert contents(tmp_path / "out") == alone | {"talk.txt": b"mine"}
    model.translate_files(inputs, tmp_path / "out", overwrite=True)
    assert contents(tmp_path / "out") == alone


def test_what_someone_writes_meanwhile_stays(
    model: Model, inputs: Path, tmp_path: Path, alone: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out" / "talk.txt"
    submit = EngineDecoder.submit

    def write_and_submit(decoder: EngineDecoder, *window: object) -> int:
        out.write_text("mine")
        return submit(decoder, *window)  # type: ignore[arg-type]

    monkeypatch.setattr(EngineDecoder, "submit", write_and_submit)
    stats = model.translate_files(inputs, tmp_path / "out")
    assert stats.failed == {"talk.txt": f"{out}: exists; give another file, or overwrite it"}
    assert contents(tmp_path / "out") == alone | {"talk.txt": b"mine"}


def test_a_file_that_is_damaged_while_the_job_runs_has_no_half_output(
    model: Model, inputs: Path, tmp_path: Path, alone: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    film = inputs / "films" / "one.srt"
    submit = EngineDecoder.submit

    def damage_and_submit(decoder: EngineDecoder, *window: object) -> int:
        film.write_text(srt("Where is the lamp?") + "00:00:9,000 ->\nI am\n")
        return submit(decoder, *window)  # type: ignore[arg-type]

    monkeypatch.setattr(EngineDecoder, "submit", damage_and_submit)
    stats = model.translate_files(inputs, tmp_path / "out", batch_tokens=1, lookahead=1)
    assert list(stats.failed) == ["films/one.srt"]
    assert "is no timing like" in stats.failed["films/one.srt"]
    assert contents(tmp_path / "out") == {name: data for name, data in alone.items() if name != "films/one.srt"}


def test_mistakes(model: Model, inputs: Path, tmp_path: Path) -> None:
    for given_inputs, output, problem in (
        ([], tmp_path / "out", "name the files to translate"),
        (["-", inputs], tmp_path / "out", "standard input is translated alone"),
        (inputs, "-", "several files need a folder for their outputs"),
        (inputs, inputs / "talk.txt", r"several files need a folder for their outputs; .*talk.txt is a file"),
        (inputs, tmp_path / "no" / "out", r"no/out: there is no folder .*no"),
        ([3], tmp_path / "out", r"inputs\[0\] = 3: should be a path"),
    ):
        with pytest.raises(FocatError, match=problem):
            model.translate_files(given_inputs, output)  # type: ignore[arg-type]
    stats = model.translate_files([inputs / "talk.txt", inputs / "talk.en"], inputs)
    assert sorted(stats.existing) == ["talk.en", "talk.txt"]  # their own outputs
    failed = model.translate_files(inputs / "talk.txt", inputs, overwrite=True).failed
    assert "is the input; give another output" in failed["talk.txt"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_outputs_that_lead_to_one_file(model: Model, inputs: Path, tmp_path: Path, overwrite: bool) -> None:
    """The translation of the second would replace that of the first, or an input."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "talk.en").symlink_to("one")
    (out / "talk.txt").symlink_to("one")
    (out / "talks.jsonl").symlink_to(inputs / "talk.en")
    before = contents(inputs)
    stats = model.translate_files(inputs, out, overwrite=overwrite)
    assert "talk.txt: leads to the file of the output" in stats.failed["talk.txt"]
    if overwrite:
        assert "talk.en, which is an input; remove the link" in stats.failed["talks.jsonl"]
    assert "talk.en" in stats.translated
    assert (out / "talk.en").read_bytes().count(b"\n") == 1
    assert contents(inputs) == before
