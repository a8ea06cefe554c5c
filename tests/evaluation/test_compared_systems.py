"""What systems cannot know, they do not get right, whatever their weights: no target context leaks in."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from focat.corpus.generated import voita_suite
from focat.evaluation.contrastive import ContextConfig, preferred_candidate, score_instances
from focat.evaluation.suites import voita_instances
from focat.run import load_system
from tests.translation.tiny import tiny_run

SOURCE_ONLY: dict[str, dict[str, Any]] = {
    "divide-and-rule": {"hierarchical": True},
    "voita-2018": {"encoder": "last-own", "at": "encoder-last"},
    "zhang-2018": {"encoder": "separate", "at": "every-layer"},
    "li-2020-inside": {"encoder": "separate", "at": "decoder", "gate": "scalar"},
}
# How many target sentences are tried, source sentences before the current one if there are more, and the model.
TARGET_CONTEXT: dict[str, tuple[tuple[int, ...], int | None, dict[str, Any]]] = {
    "context-decoder-2to2": ((1,), None, {"context": {"at": "decoder", "gate": "scalar"}}),
    "cadec": ((1, 2), None, {"second_pass": {"layers": 1}}),
    "han-decoder": ((1, 2), None, {"context": {"hierarchical": True, "of": "target"}}),
    "han-joint": ((1,), None, {"context": {"hierarchical": True, "of": "both"}}),
    "zheng-2020": ((1, 2), 3, {"context": {"at": "global-layer"}}),
    "g-transformer": ((1, 2), None, {"attention": "gated-group", "global_layers": [0]}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compared")


def right_by_distance(run: Path, phenomenon: Literal["deixis", "lex_cohesion"]) -> dict[int | None, list[bool]]:
    """Whether each instance of a generated suite is answered right, by how far back the answer lies.

    Of instances that have the same source as the other of their group: a name on the source gives a form of address
    away, to any system that sees it.
    """
    system = load_system(run, "cpu")
    suite = voita_suite(phenomenon, 96, 1000)
    groups = [pair for pair in zip(suite[::2], suite[1::2], strict=True) if pair[0]["src"] == pair[1]["src"]]
    instances = voita_instances([instance for pair in groups for instance in pair], phenomenon)
    assert {instance.distance for instance in instances} == {1, 2, 3}
    scores = score_instances(system.model, system.tokenizer, instances, ContextConfig.of(system.windows()))
    found: dict[int | None, list[bool]] = {}
    for instance, of_candidates in zip(instances, scores["current-sum"], strict=True):
        right = preferred_candidate(of_candidates, instance) == instance.right
        found.setdefault(instance.distance, []).append(right)
    return found


@pytest.mark.parametrize("name", SOURCE_ONLY)
def test_source_context_alone_is_chance_where_the_target_decides(folder: Path, name: str) -> None:
    """Instances come in groups with the same source, each candidate right once: exactly one of a group is answered."""
    windows = {"before": 3, "target_before": 0, "max_tokens": 200}
    run = tiny_run(folder, windows=windows, model={"context": SOURCE_ONLY[name]})
    for phenomenon in ("deixis", "lex_cohesion"):
        for right in right_by_distance(run.path, phenomenon).values():
            assert sum(right) == len(right) / 2


@pytest.mark.parametrize(
    ("name", "sentences"), [(name, n) for name in TARGET_CONTEXT for n in (1, 2) if n in TARGET_CONTEXT[name][0]]
)
def test_target_context_that_ends_before_the_answer_is_chance(folder: Path, name: str, sentences: int) -> None:
    """Instances of a group differ in the target sentence that has the answer, and a system sees so many of them.

    The draft of a second pass comes from the source, so it tells nothing of an answer further back.
    """
    _, before, model = TARGET_CONTEXT[name]
    windows = {"before": before or sentences, "target_before": sentences, "max_tokens": 200}
    run = tiny_run(folder, windows=windows, model=model)
    for phenomenon in ("deixis", "lex_cohesion"):
        for distance, right in right_by_distance(run.path, phenomenon).items():
            assert distance is not None
            if distance > sentences:
                assert sum(right) == len(right) / 2
