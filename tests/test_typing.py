"""What a user's type checker makes of `focat.load`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from focat.config.schema import SearchOptions, SearchSettings

ROOT = Path(__file__).parent.parent
CORRECT = """\
import focat

model = focat.load("run")
one: str = model.translate("Hello.")
document: list[str] = model.translate(["Hello."], beam=8, context="none")
documents: list[list[str]] = model.translate([["Hello."]])
"""
WRONG = {
    'text: str = focat.load("run").translate(["Hello."])': "Incompatible types in assignment",
    'focat.load("run").translate("Hello.", bean=8)': 'Unexpected keyword argument "bean"',
    'focat.load("run").translate("Hello.", context="magic")': "No overload variant",
    'focat.lod("run")': 'Module has no attribute "lod"',
}


def test_a_user_sees_types(tmp_path: Path) -> None:
    (tmp_path / "correct.py").write_text(CORRECT)
    (tmp_path / "wrong.py").write_text("\n".join(["import focat", *WRONG]))
    # The strict settings and the cache of the project: a second run takes seconds.
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert not [line for line in errors if "correct.py" in line]
    for number, message in enumerate(WRONG.values(), 2):
        assert [line for line in errors if f"wrong.py:{number}: " in line and message in line], done.stdout


def test_the_options_of_a_call_are_the_settings_of_the_search() -> None:
    assert SearchOptions.__annotations__.keys() == SearchSettings.model_fields.keys()
