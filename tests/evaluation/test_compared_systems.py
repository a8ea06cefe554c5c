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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compared")


def right_by_distance(run: Path, phenomenon: Literal["deixis", "lex_cohesion"]) -> dict[int | None, list[bool]]:
    """Whether each instance of a generated suite is answered right, by how far back the answer lies."""
    system = load_system(run, "cpu")
    instances = voita_instances(voita_suite(phenomenon, 48, 1000), phenomenon)
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


def test_one_target_sentence_is_chance_further_back(folder: Path) -> None:
    windows = {"before": 1, "target_before": None, "max_tokens": 200}
    run = tiny_run(folder, windows=windows, model={"context": {"at": "decoder", "gate": "scalar"}})
    for distance, right in right_by_distance(run.path, "deixis").items():
        if distance != 1:
            assert sum(right) == len(right) / 2


def test_two_passes_see_the_target_context_of_their_window_alone(folder: Path) -> None:
    """The draft comes from the source, so it tells nothing of an answer further back."""
    run = tiny_run(folder, windows={"before": 1, "max_tokens": 200}, model={"second_pass": {"layers": 1}})
    for distance, right in right_by_distance(run.path, "deixis").items():
        if distance != 1:
            assert sum(right) == len(right) / 2
