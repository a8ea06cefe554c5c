"""YAML that would take minutes or all of the memory is refused in a line, wherever YAML is read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from focat.config import load_settings
from focat.config.yaml_files import MAX_BYTES, MAX_DEPTH, MAX_VALUES, parse_yaml
from focat.errors import FocatError
from tests.evaluation.commands import refused

NESTED_ALIASES = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
)
CHAIN_OF_ALIASES = "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, MAX_DEPTH + 1))])
DEEP = "windows: " + "[" * 3000 + "]" * 3000
TOO_DEEP = f"cannot be used: more than {MAX_DEPTH} sections or lists inside each other"
TOO_MANY = f"cannot be used: aliases that repeat more than {MAX_VALUES:,} values"
REFUSED = {
    "nested aliases": (NESTED_ALIASES, TOO_MANY),
    "a chain of aliases": (CHAIN_OF_ALIASES, TOO_DEEP),
    "an alias of itself": ("a: &a [*a]", "cannot be used: an alias that contains itself"),
    "lists": (DEEP, TOO_DEEP),
    "sections": ("{a: " * 3000 + "1" + "}" * 3000, TOO_DEEP),
    "items": ("- " * 3000 + "1", TOO_DEEP),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_and_plans_are_refused(tmp_path: Path, name: str) -> None:
    content, problem = REFUSED[name]
    (tmp_path / "my.yaml").write_text(content)
    for command in ("config", "prepare", "train", "reproduce"):
        line = refused(tmp_path, command, "my.yaml")
        assert line.startswith("my.yaml, line "), command
        assert line.endswith(problem), command


@pytest.mark.parametrize(
    ("value", "problem"),
    [("[" * 3000, TOO_DEEP), ("[" * 3000 + "]" * 3000, TOO_DEEP), ("{a: &a [*a]}", REFUSED["an alias of itself"][1])],
)
def test_overrides_are_refused(tmp_path: Path, value: str, problem: str) -> None:
    line = refused(tmp_path, "config", "focat:demo", f"windows.before={value}")
    assert line.startswith("windows.before=")
    assert line.endswith(problem)


def test_an_override_deeper_than_any_setting_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, "config", "focat:demo", "a." * 3000 + "b=1").endswith(": no setting is so deep")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    assert refused(tmp_path, "config", "my.yaml") == "my.yaml: is larger than 4 MiB, and no file of settings"


def test_thousands_of_wrong_settings_take_no_time(tmp_path: Path) -> None:
    """Only the first is explained, since looking for the nearest name takes a while."""
    (tmp_path / "my.yaml").write_text(f"data: {{{', '.join(f'k{i}: 1' for i in range(20_000))}}}")
    before = time.process_time()
    with pytest.raises(FocatError, match=r"data\.k0 = 1: there is no such setting .* \(and 19999 more\)"):
        load_settings(tmp_path / "my.yaml")
    assert time.process_time() - before < 10


def test_a_file_that_is_many_bases_is_read_once(tmp_path: Path) -> None:
    """Twice the same base in each of 30 files would be read a billion times."""
    for i in range(30):
        (tmp_path / f"{i}.yaml").write_text(f"base: [{i + 1}.yaml, {i + 1}.yaml]\n")
    (tmp_path / "30.yaml").write_text("windows: {before: 7}\n")
    assert load_settings(tmp_path / "0.yaml").windows.before == 7


def test_a_chain_of_bases_that_is_too_long_is_refused(tmp_path: Path) -> None:
    for i in range(MAX_DEPTH + 1):
        (tmp_path / f"{i}.yaml").write_text(f"base: {i + 1}.yaml\n")
    with pytest.raises(FocatError, match="is the base of 100 files, each the base of the next"):
        load_settings(tmp_path / "0.yaml")


def test_aliases_within_the_limits_are_replaced() -> None:
    """Four lists of lists, 11,111 values."""
    text = "[&c [&b [&a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]" + ", *a" * 9 + "]" + ", *b" * 9 + "]" + ", *c" * 9 + "]"
    assert parse_yaml(text) == [[[[1] * 10] * 10] * 10] * 10
