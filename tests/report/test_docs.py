"""What docs/reporting.md says is true: its options exist, and its Python runs as written."""

import re
from pathlib import Path

from tests.evaluation.commands import focat
from tests.report.pages import Page

TEXT = (Path(__file__).parents[2] / "docs/reporting.md").read_text(encoding="utf-8")


def test_options(tmp_path):
    known = "".join(
        focat(tmp_path, command, "--help").stdout for command in ("report", "contrast", "evaluate", "analyse")
    )
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT))
    assert {"--results", "--suite", "--plots", "--window"} <= options
    assert not {option for option in options if option not in known}


def test_python(shop, tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    texts = {"source": ["It sleeps."], "reference": ["Sie schläft."], "base": ["Er schläft."]}
    out = tmp_path / "report.html"
    monkeypatch.chdir(shop.folder)
    exec(code.replace("report.html", str(out)), {**texts, "focused": ["Sie schläft."]})
    page = Page(out.read_text(encoding="utf-8"))
    assert "A letter" in page.headings("h3")
    assert [mark.text for mark in page.all("mark") if mark.inside("table")] == ["Er"]
