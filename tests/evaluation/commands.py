"""Commands as a user runs them: the real command line, in this process, so that nothing is imported twice."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from unittest import mock

from focat.cli import main


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    stdout: str
    stderr: str
    code: object = 0


def run_focat(folder: Path, *arguments: object, **variables: str) -> Done:
    """`focat …` in a folder, to its end, which must not be an exception that nobody caught."""
    out, err = StringIO(), StringIO()
    code: object = 0
    environment = mock.patch.dict(os.environ, {"COLUMNS": "200", **variables})
    words = mock.patch.object(sys, "argv", ["focat", *map(str, arguments)])
    before = Path.cwd()
    with environment, words, redirect_stdout(out), redirect_stderr(err):
        os.chdir(folder)
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            os.chdir(before)
    return Done(out.getvalue(), err.getvalue(), code)


def focat(folder: Path, *arguments: object, expect: int = 0, **variables: str) -> Done:
    """`focat …` in a folder, to its end; it must end as expected, and not by an exception that nobody caught."""
    done = run_focat(folder, *arguments, **variables)
    assert done.code == expect, done.stderr
    return done


def refused(folder: Path, *arguments: object, **variables: str) -> str:
    """The one line in which a command says what is wrong."""
    (line,) = focat(folder, *arguments, expect=2, **variables).stderr.splitlines()
    return line.removeprefix("focat: ")
