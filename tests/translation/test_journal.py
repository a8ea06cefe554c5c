"""The journal keeps whole answers and nothing else, wherever its writer was killed."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from focat.decoding.requests import Request
from focat.errors import FocatError
from focat.translation.journal import journal_of
from focat.translation.translator import Answers, Candidate

JOB: dict[str, Any] = {"input": "abc", "weights": [1, 2]}
REQUESTS = [Request([10, 11, 2]), Request([12, 2], [13, 3], 2, 9)]


def answers(number: int) -> Answers:
    first, second = Candidate([number, 7], -0.1 * number, True), Candidate([8], -1e-17, False)
    return [[[first], [second, first]], [[second, Candidate([], 0.0, True)]]]


def fill(path: Path, count: int = 3) -> None:
    with journal_of(path, JOB) as journal:
        for number in range(count):
            assert journal.recall(REQUESTS, lambda n=number: answers(n)) == answers(number)  # type: ignore[misc]


def recalled(path: Path) -> int:
    """How many answers are there; what is missing is computed anew."""
    computed = 0

    def compute() -> Answers:
        nonlocal computed
        computed += 1
        return answers(number)

    with journal_of(path, JOB) as journal:
        for number in range(3):
            assert journal.recall(REQUESTS, compute) == answers(number)
    return 3 - computed


def test_it_remembers(tmp_path: Path) -> None:
    fill(tmp_path / "j")
    assert recalled(tmp_path / "j") == 3


def test_cut_anywhere(tmp_path: Path) -> None:
    """Cut at every byte: what was whole is recalled, the rest is written anew, and then all is there."""
    whole = tmp_path / "whole"
    fill(whole, 0)
    sizes = [whole.stat().st_size]
    for count in (1, 2, 3):
        (tmp_path / "j").unlink(missing_ok=True)
        fill(tmp_path / "j", count)
        sizes.append((tmp_path / "j").stat().st_size)
    content = (tmp_path / "j").read_bytes()
    for length in range(len(content) + 1):
        (tmp_path / "j").write_bytes(content[:length])
        expected = sum(size <= length for size in sizes[1:])
        assert recalled(tmp_path / "j") == expected
        assert (tmp_path / "j").read_bytes() == content


def test_what_is_torn_is_gone_for_good(tmp_path: Path) -> None:
    """Even if it is longer than what is written in its place."""
    fill(tmp_path / "j")
    content = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(content[:-5] + b"torn" * 1000)
    assert recalled(tmp_path / "j") == 2
    assert (tmp_path / "j").read_bytes() == content


def test_a_damaged_record_is_dropped_with_what_follows(tmp_path: Path) -> None:
    fill(tmp_path / "j")
    content = bytearray((tmp_path / "j").read_bytes())
    content[-3] ^= 1
    (tmp_path / "j").write_bytes(content)
    assert recalled(tmp_path / "j") == 2


def test_of_another_job(tmp_path: Path) -> None:
    fill(tmp_path / "j")
    with (
        pytest.raises(FocatError, match=r"j: belongs to a job with other weights; run that command again"),
        journal_of(tmp_path / "j", {**JOB, "weights": [3]}),
    ):
        pass
    assert recalled(tmp_path / "j") == 3
    with journal_of(tmp_path / "j", {**JOB, "weights": [3]}, afresh=True) as journal:
        assert not journal.remembers


def test_other_questions(tmp_path: Path) -> None:
    fill(tmp_path / "j")
    with journal_of(tmp_path / "j", JOB) as journal, pytest.raises(FocatError, match="a job with other input"):
        journal.recall(REQUESTS[:1], lambda: answers(0))


def test_fewer_questions(tmp_path: Path) -> None:
    """As when what comes through a pipe now ends before it did."""
    fill(tmp_path / "j")
    with journal_of(tmp_path / "j", JOB) as journal, pytest.raises(FocatError, match="a job with other input"):
        journal.finish()
    assert recalled(tmp_path / "j") == 3
    with journal_of(tmp_path / "j", JOB, afresh=True) as journal:
        assert journal.recall(REQUESTS, lambda: answers(5)) == answers(0)
        assert journal.recall(REQUESTS[:1], lambda: answers(5)) == answers(5)  # the rest is dropped
        journal.finish()
    with journal_of(tmp_path / "j", JOB) as journal:
        assert journal.recall(REQUESTS, lambda: answers(5)) == answers(0)
        assert journal.recall(REQUESTS[:1], lambda: answers(6)) == answers(5)
        journal.finish()


def test_no_room_for_it(tmp_path: Path) -> None:
    """One line, also when what was not written is tried once more at the end."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = [[[Candidate(np.random.default_rng(0).integers(0, 10**9, 500).tolist(), 0.0, True)]]]

    def fill_the_disk() -> None:
        with journal_of(tmp_path / "j", JOB) as journal:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
            journal.recall(REQUESTS, lambda: large)

    try:
        with pytest.raises(FocatError, match=r"j: grew over the size allowed for a file"):
            fill_the_disk()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    with pytest.raises(FocatError, match="j: cannot be written: Is a directory"), journal_of(tmp_path / "j", JOB):
        pass


def test_a_file_of_someone_else(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("my diary")
    with pytest.raises(FocatError, match="is no journal of focat"), journal_of(tmp_path / "j", JOB, afresh=True):
        pass
    assert (tmp_path / "j").read_text() == "my diary"


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        journal_of(tmp_path / "j", JOB),
        pytest.raises(FocatError, match="another process is at this job"),
        journal_of(tmp_path / "j", JOB),
    ):
        pass


def test_without_an_answer_it_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="later"), journal_of(tmp_path / "j", JOB):
        raise ValueError("later")
    assert not (tmp_path / "j").exists()


def test_what_is_there_outlives_an_early_end(tmp_path: Path) -> None:
    fill(tmp_path / "j")
    with pytest.raises(ValueError, match="later"), journal_of(tmp_path / "j", JOB):
        raise ValueError("later")
    assert recalled(tmp_path / "j") == 3
