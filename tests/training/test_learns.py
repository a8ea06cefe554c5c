"""A quick look at whether training learns anything at all; what it learns is for slower tests to say."""

from __future__ import annotations

import math

from focat.corpus.store import Store
from focat.progress import NULL_PROGRESS
from focat.training.trainer import train
from tests.training.runs import Workspace, records


def test_sixty_updates_learn_more_than_how_frequent_words_are(workspace: Workspace) -> None:
    """Where it starts is no better than chance over the vocabulary, ln 400 = 6.0."""
    train(
        workspace.settings(
            "training.budget.updates=60",
            "training.validate_every=20",
            "training.log_every=1",
            "training.batch_tokens=1500",
            "training.learning_rate=0.01",
            "model.dropout=0",
        ),
        NULL_PROGRESS,
    )
    chance = math.log(Store(workspace.store).tokenizer.target.size)
    assert records(workspace.run, "train")[0]["current"] > chance - 0.2
    validations = [record["current"] for record in records(workspace.run, "validation")]
    assert validations == sorted(validations, reverse=True)
    assert validations[-1] < chance - 1.8
    assert records(workspace.run, "validation")[-1]["ratio"] < 1  # the current sentence is what it learns first
