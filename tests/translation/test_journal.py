"""The journal keeps whole waves of results and nothing else, wherever its writer was killed."""

from __future__ import annotations

import resource
import tracemalloc
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from focat.api import Model
from focat.corpus.generated import generate
from focat.decoding.engine import Engine
from focat.decoding.requests import Request
from focat.errors import FocatError
from focat.translation import journal
from focat.translation import translator as translator_module
from focat.translation.journal import Journal, JournaledDecoder, open_journal
from focat.translation.sentence_decoder import Decoded, DecodedSentence, SentenceDecoder

JOB: dict[str, Any] = {"input": "abc", "weights": [1, 2]}


class CountingDecoder:
    """Decodes every window to what its source says; counts the windows. Each step finishes two of them."""

    def __init__(self, tokens: Sequence[int] = (7,)) -> None:
        self.count = 0
        self._tokens = list(tokens)
        self._pending: list[tuple[int, Request]] = []

    @property
    def idle(self) -> bool:
        return not self._pending

    def submit(self, request: Request, position: int) -> int:
        self._pending.append((1000 + self.count, request))
        self.count += 1
        return 999 + self.count

    def step(self) -> list[Decoded]:
        some, self._pending = self._pending[:2], self._pending[2:]
        best = [
            DecodedSentence([*self._tokens, *r.source], -1e-17 * r.source[0], r.source[0] % 2 == 0) for _, r in some
        ]
        return [(id, [each, DecodedSentence([], 0.0, False)]) for (id, _), each in zip(some, best, strict=True)]


def windows(wave: int) -> list[Request]:
    """Three windows, and one that is submitted when the first of them is finished."""
    return [
        Request([10 + wave, 11, 2]),
        Request([12 + wave, 2], [13, 3], 2, 9),
        Request([14, 2]),
        Request([15 + wave, 2]),
    ]


def decode(decoder: SentenceDecoder, wave: int) -> dict[int, list[DecodedSentence]]:
    """Submit the windows of a wave, and take their results, by the order of submission."""
    *first, late = windows(wave)
    order = {decoder.submit(request, 0): i for i, request in enumerate(first)}
    found = {}
    while not decoder.idle:
        for id, nbest in decoder.step():
            found[order[id]] = nbest
            if order[id] == 0:
                order[decoder.submit(late, 0)] = 3
    return found


def expected(wave: int) -> list[list[int]]:
    return [[7, *request.source] for request in windows(wave)]


def run(path: Path, waves: int = 3) -> int:
    """Run a job of some waves; returns how many windows were decoded, rather than replayed."""
    inner = CountingDecoder()
    with open_journal(path, JOB) as journal:
        decoder = JournaledDecoder(inner, journal)
        for wave in range(waves):
            found = decode(decoder, wave)
            assert [found[i][0].tokens for i in range(4)] == expected(wave)
            assert found[0][1] == DecodedSentence([], 0.0, False)
    return inner.count


def test_results_are_replayed(tmp_path: Path) -> None:
    assert run(tmp_path / "j") == 12
    assert run(tmp_path / "j") == 0
    assert run(tmp_path / "j", waves=4) == 4


def test_a_file_cut_at_any_byte(tmp_path: Path) -> None:
    """Cut at every byte: whole waves are replayed, the rest is decoded and written again, and then all is there."""
    sizes = []
    for waves in (1, 2, 3):
        (tmp_path / "j").unlink(missing_ok=True)
        run(tmp_path / "j", waves)
        sizes.append((tmp_path / "j").stat().st_size)
    content = (tmp_path / "j").read_bytes()
    for length in range(len(content) + 1):
        (tmp_path / "j").write_bytes(content[:length])
        assert run(tmp_path / "j") == 12 - 4 * sum(size <= length for size in sizes)
        assert (tmp_path / "j").read_bytes() == content


@pytest.mark.parametrize(
    ("request_", "position"),
    [
        (Request([10, 2], [13, 3], 2, 9), 1),
        (Request([11, 2], [13, 3], 2, 9), 0),
        (Request([10, 2], [14, 3], 2, 9), 0),
        (Request([10, 2], [13, 3], 1, 9), 0),
        (Request([10, 2], [13, 3], 2, 8), 0),
    ],
)
def test_only_the_same_window_is_replayed(request_: Request, position: int, tmp_path: Path) -> None:
    """One that differs in its source, prefix, sentences, length or the position of its current sentence is refused."""
    for window, at, refused in ((Request([10, 2], [13, 3], 2, 9), 0, False), (request_, position, True)):
        with open_journal(tmp_path / "j", JOB) as journal:
            decoder = JournaledDecoder(CountingDecoder(), journal)
            decoder.submit(window, at)
            if refused:
                with pytest.raises(FocatError, match="belongs to a job with other input"):
                    decoder.step()
            else:
                decoder.step()


def test_a_torn_record_is_overwritten(tmp_path: Path) -> None:
    """Even if it is longer than what is written in its place."""
    run(tmp_path / "j")
    content = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(content[:-5] + b"torn" * 1000)
    assert run(tmp_path / "j") == 4
    assert (tmp_path / "j").read_bytes() == content


def test_a_damaged_record_is_dropped_with_what_follows(tmp_path: Path) -> None:
    run(tmp_path / "j")
    content = bytearray((tmp_path / "j").read_bytes())
    content[-3] ^= 1
    (tmp_path / "j").write_bytes(content)
    assert run(tmp_path / "j") == 4


def test_a_damaged_length_takes_no_memory(tmp_path: Path) -> None:
    run(tmp_path / "j")
    content = bytearray((tmp_path / "j").read_bytes())
    first = len(journal._MAGIC)
    second = first + journal._HEADER.size + journal._HEADER.unpack_from(content, first)[0]
    content[second : second + 4] = b"\xff" * 4  # its length: four gigabytes
    (tmp_path / "j").write_bytes(content)
    tracemalloc.start()
    try:
        run(tmp_path / "j")
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()


def test_journal_of_another_job(tmp_path: Path) -> None:
    run(tmp_path / "j")
    with (
        pytest.raises(FocatError, match=r"j: belongs to a job with other weights; run that command again"),
        open_journal(tmp_path / "j", {**JOB, "weights": [3]}),
    ):
        pass
    assert run(tmp_path / "j") == 0
    with open_journal(tmp_path / "j", {**JOB, "weights": [3]}, overwrite=True) as journal:
        assert not journal.replaying


@pytest.mark.parametrize("older", [b"focat journal 2\n\x00\x01", b"focat journal 1\n"])
def test_journal_of_an_older_form(older: bytes, tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(older)
    with pytest.raises(FocatError, match="j: was written by another version of focat; run"), _open(tmp_path / "j"):
        pass
    assert (tmp_path / "j").read_bytes() == older
    with open_journal(tmp_path / "j", JOB, overwrite=True) as journal:
        assert not journal.replaying
    assert run(tmp_path / "j") == 12


def _open(path: Path) -> Any:
    return open_journal(path, JOB)


def test_other_input(tmp_path: Path) -> None:
    """As when what comes through a pipe has changed."""
    run(tmp_path / "j")
    with _open(tmp_path / "j") as journal, pytest.raises(FocatError, match="a job with other input"):
        decode(JournaledDecoder(CountingDecoder(), journal), wave=1)
    assert run(tmp_path / "j") == 0


def test_input_that_changes_within_a_wave(tmp_path: Path) -> None:
    """What was finished before is replayed; with `overwrite`, the rest of the wave is decoded, and recorded whole."""

    def start(journal: Journal, inner: CountingDecoder) -> list[Decoded]:
        decoder = JournaledDecoder(inner, journal)
        for request in windows(0)[:3]:
            decoder.submit(request, 0)
        found = decoder.step()
        assert [id for id, _ in found] == [0, 1]
        decoder.submit(Request([99, 2]), 0)
        return found + decoder.step()

    run(tmp_path / "j")
    with _open(tmp_path / "j") as journal, pytest.raises(FocatError, match="a job with other input"):
        start(journal, CountingDecoder())
    assert run(tmp_path / "j") == 0
    for decoded in (2, 0):
        inner = CountingDecoder()
        with open_journal(tmp_path / "j", JOB, overwrite=True) as journal:
            found = start(journal, inner)
        assert [(id, nbest[0].tokens) for id, nbest in found[2:]] == [(2, [7, 14, 2]), (3, [7, 99, 2])]
        assert inner.count == decoded


def test_shorter_input(tmp_path: Path) -> None:
    """As when what comes through a pipe ends earlier than before."""
    run(tmp_path / "j")
    with _open(tmp_path / "j") as journal, pytest.raises(FocatError, match="a job with other input"):
        journal.finish()
    assert run(tmp_path / "j") == 0
    with open_journal(tmp_path / "j", JOB, overwrite=True) as journal:
        decode(JournaledDecoder(CountingDecoder(), journal), wave=0)
        journal.finish()  # the rest is dropped
    assert run(tmp_path / "j") == 8


@pytest.mark.parametrize("static", [False, True])
def test_a_resumed_job_has_the_same_results(
    static: bool, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, wherever it was interrupted; also on a GPU, where sentences follow each other within a wave."""
    monkeypatch.setattr(translator_module, "Engine", partial(Engine, static=static))
    monkeypatch.setattr(translator_module, "MAX_CHAINED", 2)
    lines = [line for document in generate(4, 9) for line in (*list(document.source)[:5], None)]

    def translations(most: int) -> list[Any]:
        translator = model.translator(context="reuse", beam=2)
        found = []
        with open_journal(tmp_path / "j", JOB) as journal:
            for translation in translator.sentences(lines, JournaledDecoder(translator.decoder, journal)):
                found.append(translation)
                if len(found) == most:
                    break
        return found

    translator = model.translator(context="reuse", beam=2)
    wanted = list(translator.sentences(lines))
    assert translations(1)[0] == wanted[0]
    assert translations(4) == wanted[:4]
    assert translations(len(wanted)) == wanted
    assert translations(len(wanted)) == wanted


def test_a_full_disk(tmp_path: Path) -> None:
    """One line, also when what was not written is tried once more at the end."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    inner = CountingDecoder(np.random.default_rng(0).integers(0, 10**9, 500).tolist())

    def fill_the_disk() -> None:
        with _open(tmp_path / "j") as journal:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
            decode(JournaledDecoder(inner, journal), wave=0)

    try:
        with pytest.raises(FocatError, match=r"j: grew over the size allowed for a file"):
            fill_the_disk()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    with pytest.raises(FocatError, match="j: cannot be written: Is a directory"), _open(tmp_path / "j"):
        pass


def test_a_file_of_someone_else(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("my diary")
    with pytest.raises(FocatError, match="is no journal of focat"), open_journal(tmp_path / "j", JOB, overwrite=True):
        pass
    assert (tmp_path / "j").read_text() == "my diary"


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        _open(tmp_path / "j"),
        pytest.raises(FocatError, match="another process is at this job"),
        _open(tmp_path / "j"),
    ):
        pass


def test_without_results_it_is_removed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="later"), _open(tmp_path / "j"):
        raise ValueError("later")
    assert not (tmp_path / "j").exists()


def test_results_outlive_an_early_end(tmp_path: Path) -> None:
    run(tmp_path / "j")
    with pytest.raises(ValueError, match="later"), _open(tmp_path / "j"):
        raise ValueError("later")
    assert run(tmp_path / "j") == 0
