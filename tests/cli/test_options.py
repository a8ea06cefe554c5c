"""How the text of shared options is read."""

import pytest

from focat.cli.options import names_between_commas, split_overrides, window_sizes
from focat.errors import FocatError


def test_names_between_commas():
    assert names_between_commas("fruit", " pear,apple, ", ("apple", "plum", "pear")) == ["apple", "pear"]
    with pytest.raises(FocatError, match=r"^fruit = nut: choose from apple, pear$"):
        names_between_commas("fruit", "pear,nut", ("apple", "pear"))
    with pytest.raises(FocatError, match=r"^fruit = ,: is empty; choose from apple, pear$"):
        names_between_commas("fruit", ",", ("apple", "pear"))


def test_files_and_overrides(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.v=2").touch()
    arguments = ["talk.v=2", "decoding.beam=8", "NAME=run", "in.txt", "decoding.max_length_ratio=3"]
    assert split_overrides(arguments) == (
        ["talk.v=2", "NAME=run", "in.txt"],
        ["decoding.beam=8", "decoding.max_length_ratio=3"],
    )


def test_a_setting_without_its_section_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        FocatError, match=r"^beam=8: no such file; a setting needs its section, as in decoding\.beam=8$"
    ):
        split_overrides(["run", "beam=8"])
    (tmp_path / "beam=8").touch()
    assert split_overrides(["run", "beam=8", "beam"]) == (["run", "beam=8", "beam"], [])


def test_window_sizes():
    assert window_sizes("windows", "1,2,4") == [1, 2, 4]
    assert window_sizes("windows", "4, 1-3") == [1, 2, 3, 4]
    for wrong in ("", "x", "0", "1-", "-2", "3-1", "1.5", "1-2000"):
        with pytest.raises(FocatError, match=f"^windows = {wrong}: "):
            window_sizes("windows", wrong)
