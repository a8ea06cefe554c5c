"""What is imported and exported again is what it was, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from focat.interop.export import export_run
from focat.interop.import_model import import_model
from tests.interop.marian_models import random_marian


@pytest.mark.parametrize("kind", ["shared", "separate", "languages"])
def test_a_marian_model_of_transformers(kind: str, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    random_marian(before, **{} if kind == "shared" else {kind: True})
    imported = import_model(before, tmp_path / "run", target_language="deu" if kind == "languages" else None)
    export_run(imported.run, "hf", after)
    weights, again = (load_file(folder / "model.safetensors") for folder in (before, after))
    assert weights.keys() == again.keys()
    for name, weight in weights.items():
        assert again[name].numpy().tobytes() == weight.numpy().tobytes(), name
    for name in ("vocab.json", "target_vocab.json"):
        assert (before / name).exists() == (after / name).exists()
        if (before / name).exists():
            assert json.loads((after / name).read_text()) == json.loads((before / name).read_text())
    for name in ("source.spm", "target.spm"):
        assert (after / name).read_bytes() == (before / name).read_bytes()
