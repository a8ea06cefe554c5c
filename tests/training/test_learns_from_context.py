"""Systems that encode context apart learn what their context decides, and are at chance where it does not reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from focat.config import Settings
from focat.corpus.generated import voita_suite
from focat.corpus.prepare import prepare
from focat.evaluation.contrastive import ContextConfig, preferred_candidate, score_instances
from focat.evaluation.suites import voita_instances
from focat.progress import NULL_PROGRESS
from focat.run import TrainedSystem, load_system
from focat.training.trainer import train

torch.set_num_threads(1)
CHANCE = 1 / 5  # of the five verbs that may have been left out


def settings(folder: Path) -> Settings:
    """A system small enough to learn in seconds."""
    corpus = {"format": "generated", "documents": 2500}
    tree: dict[str, Any] = {
        "data": {"store": str(folder / "store"), "train": [corpus], "tokenizer": {"vocabulary": 700}},
        "windows": {"before": 3, "target_before": 0},
        "model": {
            **{"preset": "tiny", "d_model": 48, "d_ff": 96, "encoder_layers": 1, "decoder_layers": 1, "heads": 2},
            **{"dropout": 0.0, "embeddings": "shared", "norm": "pre", "context": {"hierarchical": True}},
        },
        "training": {
            **{"output_dir": str(folder / "run"), "device": "cpu", "budget": {"updates": 300}},
            **{"optimizer": "muon", "schedule": "linear", "learning_rate": 8e-3, "warmup": 20, "clip_norm": 1.0},
            **{"batch_tokens": 1500, "betas": [0.9, 0.95], "log_samples": 0},
        },
    }
    return Settings.model_validate(tree)


def accuracies(system: TrainedSystem, window: int) -> dict[int, float]:
    """The share of elided verbs that are known, by how many sentences back they are said."""
    instances = voita_instances(voita_suite("ellipsis_vp", 120, 1000), "ellipsis_vp")
    config = ContextConfig.of(system.windows(window))
    scores = score_instances(system.model, system.tokenizer, instances, config)["current-sum"]
    right: dict[int, list[bool]] = {1: [], 2: [], 3: []}
    for instance, of_candidates in zip(instances, scores, strict=True):
        assert instance.distance is not None
        right[instance.distance].append(preferred_candidate(of_candidates, instance) == instance.right)
    return {distance: sum(found) / len(found) for distance, found in right.items()}


def test_elided_verbs_are_known_as_far_back_as_the_context_reaches(tmp_path: Path) -> None:
    wanted = settings(tmp_path)
    prepare(wanted.data, NULL_PROGRESS)
    train(wanted, NULL_PROGRESS)
    system = load_system(wanted.training.output_dir, "cpu")
    for window in (4, 2, 1):
        for distance, accuracy in accuracies(system, window).items():
            if distance < window:
                assert accuracy > 0.5, (window, distance)
            else:
                assert accuracy == pytest.approx(CHANCE), (window, distance)
