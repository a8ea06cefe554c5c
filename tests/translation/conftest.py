"""One tiny system for all tests of documents."""

from __future__ import annotations

from pathlib import Path

import docx
import pytest
import torch
from docx.shared import RGBColor

import focat
from focat.api import Model
from focat.run import Run
from tests.translation.documents import saved
from tests.translation.tiny import tiny_run

torch.set_num_threads(1)  # tensors this small are slowed down, not sped up, by a second thread


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to make runs in."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def run(runs: Path) -> Run:
    """Windows of three sentences on both sides, 64 tokens at most."""
    return tiny_run(runs)


@pytest.fixture(scope="session")
def model(run: Run) -> Model:
    return focat.load(run.path, "cpu")


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    """A document as python-docx makes it."""
    document = docx.Document()
    document.add_heading("The red car", 1)
    words = document.add_paragraph("It is ")
    words.add_run("very").bold = True
    words.add_run(" old. It was ")
    coloured = words.add_run("red & blue")
    coloured.font.color.rgb = RGBColor(255, 0, 0)
    words.add_run(".")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "One cell", "12"
    document.sections[0].header.paragraphs[0].text = "A header"
    document.sections[0].footer.paragraphs[0].text = "A footer"
    return saved(document, tmp_path / "letter.docx")
