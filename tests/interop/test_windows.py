"""The code of docs/pretrained.md for transformers and CTranslate2 gives the translations of `focat translate`."""

from __future__ import annotations

from typing import Any

import pytest

import focat
from focat.interop.export import export_run
from tests.docs.pages import Page
from tests.interop.models import DOCUMENT, random_run

pytest.importorskip("ctranslate2", reason="needs the extra `interop`")
pytest.importorskip("transformers", reason="needs the extra `interop`")

_PYTHON = [code for _, code in Page("docs/pretrained.md").blocks("python")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A system of windows of four sentences, exported to the folders that the page names."""
    folder = tmp_path_factory.mktemp("windows")
    run = random_run(folder, windows={"before": 3}, embeddings="separate", output_bias=True, sinusoids="marian")
    export_run(run, "hf", folder / "context-hf")
    export_run(run, "ct2", folder / "context-ct2")
    return focat.load(run.path, "cpu")


@pytest.fixture(params=["transformers", "ctranslate2"])
def page(request: pytest.FixtureRequest, model: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What one block of the page defines."""
    monkeypatch.chdir(model.runs[0].path.parent)
    [code] = [code for code in _PYTHON if f"import {request.param}" in code or f"from {request.param}" in code]
    scope: dict[str, Any] = {}
    exec(code.replace("beam=4", "beam=1"), scope)
    return scope


def test_with_its_own_translations_as_context(page: dict[str, Any], model: Any) -> None:
    expected = list(model.translate(DOCUMENT, context="reuse"))
    assert len(set(expected)) > 3
    assert page["translate"](DOCUMENT) == expected


def test_with_context_decoded_anew_for_each_window(page: dict[str, Any], model: Any) -> None:
    expected = list(model.translate(DOCUMENT, context="regenerate", constrained=False))
    assert len(set(expected)) > 3
    assert page["regenerate"](DOCUMENT) == expected
