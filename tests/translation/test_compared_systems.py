"""Documents through systems that encode context apart: each sentence as if its document were alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import focat
from focat.errors import FocatError
from tests.translation.tiny import tiny_run

SYSTEMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "divide-and-rule": ({"target_before": 0}, {"context": {"hierarchical": True}}),
    "zhang-2018": ({"target_before": 0}, {"context": {"encoder": "separate", "at": "every-layer"}}),
    "context-decoder": ({}, {"context": {"at": "decoder", "gate": "scalar"}}),
    "cadec": ({}, {"second_pass": {"layers": 1}}),
    "han-joint": ({}, {"context": {"hierarchical": True, "of": "both"}}),
    "zheng-2020": ({"target_before": 1}, {"context": {"at": "global-layer"}}),
    "g-transformer": ({}, {"attention": "gated-group", "encoder_layers": 2, "decoder_layers": 2, "global_layers": [1]}),
}
DOCUMENTS = [
    ["Where is the cat?", "It is old.", "Tom needs it.", "Do you have time?"],
    ["Tom sleeps."],
    ["The boat is here.", "Max needs it."],
]


@pytest.mark.parametrize("name", SYSTEMS)
def test_results_do_not_depend_on_the_batch(runs: Path, name: str) -> None:
    windows, model = SYSTEMS[name]
    system = focat.load(tiny_run(runs, windows=windows, model=model).path, "cpu")
    together = system.translate(DOCUMENTS)
    assert together == [system.translate(document) for document in DOCUMENTS]
    assert all(all(document) for document in together)
    # the context counts: without it, a sentence becomes another
    alone = [system.translate([sentence])[0] for sentence in DOCUMENTS[0]]
    assert alone[0] == together[0][0]
    scored = [next(iter(system.stream([document])))[-1].score for document in (DOCUMENTS[0], DOCUMENTS[0][-1:])]
    assert scored[0] != pytest.approx(scored[1], abs=1e-6)


@pytest.mark.parametrize("name", ["context-decoder", "zheng-2020", "g-transformer"])
def test_regenerated_context_does_not_depend_on_the_batch(runs: Path, name: str) -> None:
    windows, model = SYSTEMS[name]
    system = focat.load(tiny_run(runs, windows=windows, model=model).path, "cpu")
    together = system.translate(DOCUMENTS, context="regenerate")
    assert together == [system.translate(document, context="regenerate") for document in DOCUMENTS]
    assert all(all(document) for document in together)


@pytest.mark.parametrize("name", ["cadec", "han-joint"])
def test_systems_that_translate_sentences_alone_decode_no_context_again(runs: Path, name: str) -> None:
    windows, model = SYSTEMS[name]
    system = focat.load(tiny_run(runs, windows=windows, model=model).path, "cpu")
    with pytest.raises(FocatError, match="this system reuses the translations before; choose reuse"):
        system.translate(DOCUMENTS[0], context="regenerate")
