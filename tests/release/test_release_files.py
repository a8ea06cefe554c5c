"""The files of a release agree with each other: versions, changelog, import contract, documentation."""

from __future__ import annotations

import re

import pytest
import yaml

from focat import __version__
from tests.docs.pages import ROOT, Page

RELEASED = __version__.split(".dev")[0]


def test_changelog_and_citation_name_the_version() -> None:
    newest = re.search(r"^## (\S+) – \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == RELEASED
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == RELEASED


def test_architecture_page_lists_the_layers_of_the_import_contract() -> None:
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    layers = [layer for layer in contract["layers"] if layer != "__main__"]
    block = next(content for kind, content in Page("docs/architecture.md").blocks("text") if content.startswith("cli"))
    documented = [re.split(r"  +", line)[0] for line in block.splitlines()]
    assert documented == layers


def test_every_page_is_on_the_site() -> None:
    site = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert pages == set(re.findall(r": ([\w-]+\.md)$", site, re.MULTILINE))
