"""Options that several commands have: a choice among names, a file to write, NAME=FILE."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from focat.errors import FocatError

Name = TypeVar("Name", bound=str)


def one_of(option: str, text: str, names: Sequence[Name]) -> Name:
    """The name that was given, if it is one of these."""
    for name in names:
        if name == text:
            return name
    *others, last = names
    raise FocatError(f"{option} {text}: choose {', '.join(others)} or {last}")


def some_of(option: str, text: str, names: Sequence[Name]) -> list[Name]:
    """The names that were given between commas, in the order of these."""
    given = [part.strip() for part in text.split(",") if part.strip()]
    for part in given:
        if part not in names:
            raise FocatError(f"{option} {part}: choose from {', '.join(names)}")
    if not given:
        raise FocatError(f"{option}: is empty; choose from {', '.join(names)}")
    return [name for name in names if name in given]


def check_free(path: Path | None, option: str, overwrite: bool) -> None:
    """Refuse to write over a file, or where there is no folder, before any work is done."""
    in_a_folder(path)
    if path is not None and path.exists() and not overwrite:
        raise FocatError(f"{path}: exists; give another {option}, or --overwrite")


def in_a_folder(path: Path | None) -> Path | None:
    """The same file, if it can be written where it is to be."""
    if path is not None and not path.parent.is_dir():
        raise FocatError(f"{path}: there is no folder {path.parent}")
    if path is not None and path.is_dir():
        raise FocatError(f"{path}: a folder, where a file was expected")
    if path is not None and path.exists() and not path.is_file():
        raise FocatError(f"{path}: a device or pipe, where a file was expected; leave it out and use `> {path}`")
    return path


def named(argument: str | Path) -> tuple[str | None, Path]:
    """`NAME=FILE` in its two parts; a file whose name has the sign in it is a file, and so may the name have it."""
    parts = str(argument).split("=")
    cuts = [("=".join(parts[:i]), Path("=".join(parts[i:]))) for i in range(1, len(parts)) if parts[0] and parts[-1]]
    if Path(argument).exists() or not cuts:
        return None, Path(argument)
    return next((cut for cut in cuts if cut[1].exists()), cuts[0])
