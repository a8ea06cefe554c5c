"""What a translation job refuses before it begins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from focat.errors import FocatError
from focat.progress import NULL_PROGRESS
from focat.translation.jobs import Job, run_job


def test_standard_output_may_be_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("One.\n")
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(FocatError, match="standard output is closed; give an output file"):
        run_job(Job(tmp_path / "in.txt"), None, [], NULL_PROGRESS)  # type: ignore[arg-type]
