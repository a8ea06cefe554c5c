"""Every recipe trains: two updates at tiny size, on the generated corpus, as `focat train focat:NAME …` would."""

from pathlib import Path

import pytest

from focat.config import load_settings
from focat.config.loading import RECIPES
from focat.config.schema import DiscountSchedule
from focat.errors import FocatError
from focat.progress import NULL_PROGRESS
from focat.training.trainer import train

SYSTEMS = sorted(path.stem for path in RECIPES.glob("*.yaml") if path.stem not in ("common", "demo"))
TINY = [
    "model.preset=tiny",
    "model.d_model=16",
    "model.d_ff=32",
    "model.encoder_layers=3",
    "model.decoder_layers=3",
    "model.heads=2",
    "training.batch_tokens=300",
    "training.budget={updates: 2}",
    "training.validate_every=2",
    "training.log_samples=0",
    "training.device=cpu",
]


def test_every_system_of_the_paper_has_a_recipe():
    windows = [f"s{k}to{k}{variant}" for k in (2, 3, 4) for variant in ("", "-cd", "-shift-cd")]
    segments = ["s4to4-lrn-cd", "s4to4-sin-cd", "s4to4-shift100-cd", "s4to4-avg-sequence-cd", "s4to4-avg-corpus-cd"]
    sweep = [f"s4to4-cd-{discount}" for discount in ("1", "0.9", "0.7", "0.5", "0.3", "0.1", "0.01", "0")]
    assert {"base", *windows, *segments, *sweep} <= set(SYSTEMS)


@pytest.fixture(scope="module")
def base(stores, tmp_path_factory):
    """A sentence-level system for those that start from one."""
    run = tmp_path_factory.mktemp("base") / "run"
    train(
        load_settings(Path("focat:base"), [*TINY, f"data.store={stores / 'store'}", f"training.output_dir={run}"]),
        NULL_PROGRESS,
    )
    return run


@pytest.mark.parametrize("system", SYSTEMS)
def test_recipe_trains(system, stores, base, tmp_path):
    overrides = [*TINY, f"data.store={stores / 'store'}", f"training.output_dir={tmp_path / 'run'}"]
    recipe = load_settings(Path(f"focat:{system}"))
    if recipe.model.global_layers is not None:
        overrides.append("model.global_layers=[0]")
    if recipe.training.freeze == "base":
        with pytest.raises(FocatError, match="would freeze random weights"):
            train(load_settings(Path(f"focat:{system}"), overrides), NULL_PROGRESS)
        overrides.append(f"training.init_from={base}")
    state = train(load_settings(Path(f"focat:{system}"), overrides), NULL_PROGRESS)
    assert state.update == 2
    assert state.finished
    assert (tmp_path / "run" / "best").read_text().strip() == "0000002"


def test_recipes_say_what_their_names_say():
    """Settings worked out by hand for each family, so that a wrong `base:` is found."""

    def of(name):
        settings = load_settings(Path(f"focat:{name}"))
        return settings.windows.size, settings.objective.discount, settings.model.shift

    assert of("base") == (1, 1.0, 0)
    assert of("s2to2") == (2, 1.0, 0)
    assert of("s3to3-cd") == (3, 0.01, 0)
    assert of("s4to4-shift-cd") == of("s4to4-avg-corpus-cd") == (4, 0.01, "avg-corpus")
    assert of("s4to4-shift100-cd") == (4, 0.01, 100)
    assert of("s4to4-avg-sequence-cd") == (4, 0.01, "avg-sequence")
    assert of("s4to4-cd-0.3") == (4, 0.3, 0)
    assert of("s4to4-cd-0") == (4, 0.0, 0)
    assert isinstance(of("s4to4-annealed-cd")[1], DiscountSchedule)
    assert of("s4to4-word-dropout-cd") == of("s4to4-annealed-cd")
    assert load_settings(Path("focat:s4to4-word-dropout-cd")).model.word_dropout == 0.1
    early = load_settings(Path("focat:s4to4-early-cd"))
    assert early.objective.discount == DiscountSchedule(start=1.0, end=0.01, begin_at=0.0, end_at=0.2)
    assert (early.model.word_dropout, early.model.shift) == (0.1, "avg-corpus")
    assert load_settings(Path("focat:s4to1")).windows.target == (0, 0)


def test_recipes_of_compared_systems_say_what_their_names_say():
    def of(name):
        settings = load_settings(Path(f"focat:{name}"))
        context = settings.model.context
        return (
            settings.windows.before,
            settings.windows.target[0],
            context.encoder,
            context.at,
            settings.training.freeze,
        )

    assert of("divide-and-rule-k1") == (1, 0, "shared", "encoder-top", "base")
    assert of("divide-and-rule-k3") == (3, 0, "shared", "encoder-top", "base")
    assert of("han") == (3, 0, "shared", "encoder-top", "none")
    assert of("voita-2018") == (1, 0, "last-own", "encoder-last", "none")
    assert of("zhang-2018") == (2, 0, "separate", "every-layer", "base")
    assert of("li-2020-outside") == (1, 0, "separate", "encoder-top", "none")
    assert of("li-2020-inside") == (1, 0, "separate", "decoder", "none")
    assert of("han-decoder") == of("han-joint") == (3, 3, "shared", "encoder-top", "none")
    assert of("zheng-2020") == (3, 1, "shared", "global-layer", "none")
    assert of("context-decoder-2to2") == (1, 1, "shared", "decoder", "none")
