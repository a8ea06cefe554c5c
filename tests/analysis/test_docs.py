"""What docs/analysing.md says can be run, runs."""

import json
import re
from pathlib import Path

import pytest

DOCUMENT = (Path(__file__).parents[2] / "docs" / "analysing.md").read_text(encoding="utf-8")
COMMANDS = [
    line.split("  #")[0].strip()
    for block in re.findall(r"```bash\n(.*?)```", DOCUMENT, re.DOTALL)
    for line in block.splitlines()
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(workshop, command, monkeypatch):
    monkeypatch.chdir(workshop.folder)
    focat, analyse, *arguments = command.split()
    assert [focat, analyse] == ["focat", "analyse"]
    workshop.analyse(*arguments, "--trials", "100")


def test_python(workshop, monkeypatch, capsys):
    monkeypatch.chdir(workshop.folder)
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    exec(code, {})
    assert "'encoder'" in capsys.readouterr().out


def test_names_in_the_json_are_the_documented_ones(workshop):
    record = workshop.record(
        *(workshop / "plain", workshop / "focused", "--suite", workshop / "deixis_test.json", "--trials", "100"),
        *("--limit", "1", "--windows", "1"),
    )

    def names(content):
        if isinstance(content, dict):
            for name, value in content.items():
                yield name
                yield from names(value)
        if isinstance(content, list):
            for value in content:
                yield from names(value)

    named = set(names(record)) - set(record["systems"]) - {"deixis"}
    settings = set(json.loads(json.dumps(record["systems"]["plain"]["windows"])))
    unknown = [
        name for name in named - settings if not re.search(rf"\b{re.escape(name)}\b", DOCUMENT) and not name.isdecimal()
    ]
    assert unknown == []
