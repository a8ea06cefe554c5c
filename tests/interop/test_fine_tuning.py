"""An imported model is fine-tuned in windows by the recipe, and exported as a model of windows."""

from __future__ import annotations

import json

import pytest

from focat.config import Settings, load_settings
from focat.config.schema import DiscountSchedule
from focat.corpus.prepare import prepare
from focat.corpus.vocabulary import END, SEPARATOR, START
from focat.interop.export import export_run
from focat.interop.import_model import import_model
from focat.progress import NULL_PROGRESS
from focat.run import Run
from focat.training.trainer import train
from tests.interop.marian_models import random_marian

_FILE = """
base: [imported/config.yaml, focat:context-from-pretrained]
data:
  store: store
  train: [{format: generated, documents: 10}]
  tokenizer: {from_run: imported}
training:
  init_from: imported
  output_dir: context
  batch_tokens: 400
  budget: {updates: 2}
  device: cpu
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Of a fine-tuning that has been made."""
    folder = tmp_path_factory.mktemp("fine-tuning")
    random_marian(folder / "marian")
    import_model(folder / "marian", folder / "imported")
    (folder / "context.yaml").write_text(_FILE, encoding="utf-8")
    settings = load_settings(folder / "context.yaml")
    prepare(settings.data, NULL_PROGRESS)
    train(settings, NULL_PROGRESS)
    return settings


def test_the_model_is_that_of_the_import_and_the_windows_are_those_of_the_recipe(settings: Settings) -> None:
    imported = Run.open(settings.training.output_dir.parent / "imported").settings
    assert settings.model == imported.model
    assert (imported.windows.size, settings.windows.size) == (1, 4)
    assert isinstance(settings.objective.discount, DiscountSchedule)


def test_the_separator_starts_as_what_ends_a_sentence(settings: Settings) -> None:
    """Two updates change little. An imported model, which has no separator, never predicts it."""
    run = Run.open(settings.training.output_dir)
    before, after = (each.load_model() for each in (Run.open(run.path.parent / "imported"), run))
    assert before.output_bias is not None
    assert after.output_bias is not None
    assert before.output_bias[SEPARATOR] == before.output_bias[START] < -50
    assert after.output_bias[START] < -50
    assert abs(after.output_bias[SEPARATOR] - before.output_bias[END]) < 0.01
    weights = after.target_embedding.weight
    assert (weights[SEPARATOR] - before.target_embedding.weight[END]).abs().max() < 0.01


def test_it_is_exported_with_its_separator(settings: Settings) -> None:
    run = Run.open(settings.training.output_dir)
    export_run(run, "hf", run.path.parent / "exported")
    names = (run.path.parent / folder / "vocab.json" for folder in ("marian", "exported"))
    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in names)
    words = before.keys() - {"<pad>"}
    assert {word: after[word] for word in words} == {word: before[word] for word in words}
    assert (after["<S>"], after["<pad>"]) == (before["<pad>"], before["<pad>"] + 1)
