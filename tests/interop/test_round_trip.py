"""What is imported and exported again is what it was, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from focat.corpus.vocabulary import END
from focat.interop.export import export_run
from focat.interop.import_model import import_model
from focat.windows.builder import join_window, pad_windows
from tests.interop.marian_models import random_marian
from tests.interop.models import DOCUMENT, random_run


@pytest.mark.parametrize("to", ["hf", "ct2"])
@torch.no_grad()
def test_a_run_of_windows(to: Any, tmp_path: Path) -> None:
    """The same logits of what can be decoded, the same windows."""
    run = random_run(tmp_path, sinusoids="marian", embeddings="shared", windows={"before": 2, "max_tokens": 96})
    export_run(run, to, tmp_path / "exported")
    languages = ("en", "de") if to == "ct2" else (None, None)
    imported = import_model(tmp_path / "exported", tmp_path / "imported", *languages).run
    assert imported.settings.windows == run.settings.windows
    tokenizers = run.tokenizer, imported.tokenizer
    windows = [join_window(map(tokenizers[0].source.encode, DOCUMENT[:3]))]
    assert windows == [join_window(map(tokenizers[1].source.encode, DOCUMENT[:3]))]
    before, after = (
        model.project(model(pad_windows(windows, [2]), pad_windows(windows, [2])))[..., END:]
        for model in (run.load_model(), imported.load_model())
    )
    torch.testing.assert_close(before, after, atol=1e-5, rtol=0)


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
