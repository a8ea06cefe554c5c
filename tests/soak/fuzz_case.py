"""A fuzzed input: a command, and what it may do to the files around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.soak.seeds import Seeds

Mutate = Callable[[Random, bytes], bytes]
"""Changes the content of a file."""


@dataclass
class FuzzCase:
    """A command and the files it may create, as patterns of paths in the folder of the case."""

    arguments: list[str]
    creates: tuple[str, ...] = ()
    check: Callable[[int], list[str]] | None = None
    """Given the exit code, what else is wrong."""
    replaces: tuple[str, ...] = ()
    """Files that the command is there to change."""
    kept_if_refused: tuple[str, ...] = ()
    """What may be left when the command ends with exit code 2: finished parts, from which it goes on."""
    call: Callable[[], int] | None = None
    """What is called instead of the command; returns what its exit code would be."""


Build = Callable[[Random, Seeds, Path], FuzzCase]
"""Writes the files of a case into a folder."""
