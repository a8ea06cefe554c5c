"""The settings themselves: what they refuse, what they fill in, and what their schema says about them."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from focat.config import Settings
from focat.config.loading import settings_schema
from focat.config.schema import PRESETS, ModelSettings, SearchSettings, WindowSettings
from focat.errors import FocatError

# One line for each check that looks at more than one setting, with words of its message.
IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"windows": {"before": 1, "target_before": 2}}, "target_before is 2 but before is 1"),
    ({"windows": {"after": 1, "target_after": 2}}, "target_after is 2 but after is 1"),
    ({"model": {"d_model": 100, "heads": 8}}, "d_model 100 must be a multiple of twice the number of heads, 8"),
    ({"model": {"d_model": 24, "heads": 8}}, "d_model 24"),  # heads of 3: no room for sine and cosine halves
    ({"model": {"local_heads": 2}}, "local_heads needs attention: long-short"),
    ({"model": {"attention": "long-short", "heads": 4, "local_heads": 4}}, "local_heads is 4 of 4 heads"),
    ({"model": {"global_layers": [1]}}, "global_layers needs attention: group or gated-group"),
    ({"model": {"attention": "long-short", "global_layers": [1]}}, "global_layers needs attention: group or gated"),
    (
        {"model": {"segment_embeddings": "learned", "word_dropout_in": "window"}},
        "word_dropout_in: window needs segment_embeddings: none",
    ),
    ({"model": {"context": {"of": "target"}}}, "of needs hierarchical: true"),
    (
        {"model": {"context": {"hierarchical": True, "of": "both"}}, "windows": {"before": 2, "target_before": 0}},
        "model.context.of needs as many sentences on both sides",
    ),
    ({"model": {"second_pass": {}, "attention": "gated-group"}}, "attention: gated-group is for windows that are enc"),
    ({"objective": {"discount": {"begin_at": 0.5, "end_at": 0.5}}}, "must come after begin_at, 0.5"),
    ({"training": {"budget": {}}}, "at least one of updates, epochs and minutes"),
    ({"data": {"tokenizer": {"target_model": "t"}}}, "target_model needs joint: false"),
    ({"data": {"tokenizer": {"joint": False, "source_model": "s"}}}, "both source_model and target_model, or neither"),
    ({"data": {"tokenizer": {"joint": False, "target_model": "t"}}}, "both source_model and target_model, or neither"),
    ({"data": {"tokenizer": {"joint": False}}, "model": {"embeddings": "shared"}}, "shared needs one vocabulary"),
    (
        {"model": {"attention_dropout": 0.1}, "training": {"packing": "always"}},
        "model.attention_dropout needs training.packing: auto or never",
    ),
]

# Neighbours of the impossible ones: what the checks must let pass.
POSSIBLE: list[dict[str, Any]] = [
    {},
    {
        "windows": {
            "before": 2,
            "target_before": 2,
            "after": 1,
            "target_after": 0,
            "sampling": "random",
            "max_tokens": 8,
        }
    },
    {"model": {"d_model": 96, "heads": 8}},
    {"model": {"attention": "long-short", "heads": 4, "local_heads": 3}},
    {"model": {"attention": "group", "global_layers": [0, 5], "shift": "avg-sequence"}},
    {"model": {"attention": "gated-group", "decoder_global_layers": [], "word_dropout_in": "window"}},
    {"model": {"embeddings": "shared", "shift": 100, "segment_embeddings": "one-hot"}},
    {"objective": {"discount": 0}},
    {"objective": {"discount": {"begin_at": 0.5, "end_at": 0.6}}},
    {"training": {"budget": {"minutes": 0.5}, "betas": [0, 0.999]}},
    {"data": {"tokenizer": {"source_model": "s"}}},
    {"data": {"tokenizer": {"joint": False, "source_model": "s", "target_model": "t"}}},
    {
        "data": {
            "train": [
                {"format": "text", "source": "a", "target": "b", "max_pairs": 10},
                {"format": "ids", "source": "a", "target": "b", "documents": "c"},
                {"format": "tsv", "path": "a"},
                {"format": "jsonl", "path": "a", "max_documents": 3},
                {"format": "wit3", "source": "a", "target": "b"},
                {"format": "fragments", "source": "a", "target": "b"},
                {"format": "generated", "documents": 7, "seed": -1},
            ]
        }
    },
]

OUT_OF_RANGE: list[dict[str, Any]] = [
    {"windows": {"before": -1}},
    {"windows": {"max_tokens": 7}},
    {"model": {"dropout": 1}},
    {"model": {"shift": "avg"}},
    {"model": {"shift": -1}},
    {"objective": {"discount": 1.01}},
    {"objective": {"discount": {"start": 2}}},
    {"training": {"betas": [0.9]}},
    {"training": {"betas": [0.9, 0.98, 0.99]}},
    {"training": {"gradient_accumulation": 0}},
    {"training": {"budget": {"updates": 0}}},
    {"decoding": {"beam": 0}},
    {"data": {"cleaning": {"max_length_ratio": 1}}},
    {"data": {"train": [{"format": "text", "source": "a"}]}},
    {"data": {"train": [{"format": "pdf", "source": "a"}]}},
    {"unheard_of": 1},
    {"windows": {"unheard_of": 1}},
]


@pytest.mark.parametrize(("given", "message"), IMPOSSIBLE)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Settings.model_validate(given)


@pytest.mark.parametrize("given", POSSIBLE)
def test_settings_next_to_the_impossible_are_accepted(given: dict[str, Any]) -> None:
    Settings.model_validate(given)


@pytest.mark.parametrize("given", OUT_OF_RANGE)
def test_values_out_of_range_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(given)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_numbers_are_finite(value: float) -> None:
    # They would survive every comparison and be found in the loss, hours later.
    with pytest.raises(ValidationError, match="finite"):
        Settings.model_validate({"training": {"learning_rate": value}})


def test_settings_cannot_be_changed_behind_the_back_of_their_checks() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().windows.before = 9  # type: ignore[misc]


# -------------------------------------------------------------------------------------------------- what is filled in


def test_the_default_model_is_the_papers() -> None:
    model = Settings().model
    assert (model.d_model, model.d_ff, model.encoder_layers, model.decoder_layers) == (512, 2048, 6, 6)
    assert (model.heads, model.dropout, model.norm, model.activation) == (8, 0.3, "post", "relu")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_fills_what_is_not_given(name: str) -> None:
    filled = ModelSettings.model_validate({"preset": name})
    assert {key: getattr(filled, key) for key in PRESETS[name]} == PRESETS[name]
    # What is given wins, and the rest still comes from the preset.
    changed = ModelSettings.model_validate({"preset": name, "encoder_layers": 11})
    assert changed.encoder_layers == 11
    assert changed.decoder_layers == PRESETS[name]["decoder_layers"]


@pytest.mark.parametrize(
    ("given", "target", "size"),
    [
        ({"before": 3}, (3, 0), 4),  # s4to4
        ({"before": 3, "target_before": 0}, (0, 0), 4),  # s4to1
        ({"before": 0}, (0, 0), 1),
        ({"before": 2, "after": 1}, (2, 1), 4),
        ({"before": 2, "after": 1, "target_after": 0}, (2, 0), 4),
    ],
)
def test_the_target_has_the_same_context_unless_told(given: dict[str, int], target: tuple[int, int], size: int) -> None:
    windows = WindowSettings.model_validate(given)
    assert (windows.target, windows.size) == (target, size)


# ------------------------------------------------------------------------------------------------------- JSON schema


@cache
def validator() -> Draft202012Validator:
    schema = settings_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def accepts(given: dict[str, Any]) -> bool:
    return bool(validator().is_valid(given))


@pytest.mark.parametrize("given", POSSIBLE)
def test_the_json_schema_accepts_what_focat_accepts(given: dict[str, Any]) -> None:
    assert accepts(given)
    assert accepts({"base": "other.yaml", **given})
    assert accepts({"base": ["one.yaml", "other.yaml"], **given})


@pytest.mark.parametrize("given", [*OUT_OF_RANGE, {"base": 5}, {"base": [5]}])
def test_the_json_schema_refuses_what_focat_refuses(given: dict[str, Any]) -> None:
    # Contradictions between settings are beyond a schema; each setting by itself is not.
    assert not accepts(given)


def test_every_section_and_every_setting_is_described() -> None:
    schema = settings_schema()
    sections = {"Settings": schema, **schema["$defs"]}
    silent = [name for name, section in sections.items() if not section.get("description")]
    silent += [
        f"{name}.{setting}"
        for name, section in sections.items()
        for setting, described in section["properties"].items()
        if not described.get("description")
    ]
    assert silent == []
    # The walk itself must not be blind: it has seen the settings that lie deepest.
    assert "begin_at" in sections["DiscountSchedule"]["properties"]
    assert "documents" in sections["GeneratedCorpus"]["properties"]


@pytest.mark.parametrize(
    ("windows", "size", "expected"),
    [
        ({"before": 3}, 6, (5, 0, 5, 0)),  # s4to4 → s6to6
        ({"before": 3, "target_before": 3}, 6, (5, 0, 5, 0)),  # the same in other words
        ({"before": 3, "target_before": 1}, 6, (5, 0, 1, 0)),  # s4to2 → s6to2
        ({"before": 3, "target_before": 1}, 2, (1, 0, 1, 0)),  # s4to2 → s2to2
        ({"before": 3, "target_before": 1}, 1, (0, 0, 0, 0)),
        ({"before": 3, "target_before": 0}, 2, (1, 0, 0, 0)),  # s4to1 → s2to1
        ({"before": 1, "after": 1, "target_after": 0}, 4, (2, 1, 2, 0)),
        ({"before": 2, "after": 1}, 2, (0, 1, 0, 1)),
        ({"before": 2, "after": 1}, None, (2, 1, 2, 1)),
    ],
)
def test_windows_of_another_size(windows, size, expected):
    found = WindowSettings(**windows).of_size(size)
    assert (found.before, found.after, *found.target) == expected
    assert size is None or found.size == size
    assert WindowSettings.model_validate(found.model_dump()) == found


def test_windows_are_larger_than_the_context_after():
    with pytest.raises(FocatError, match=r"window = 1: must be larger than windows.after, 1"):
        WindowSettings(before=1, after=1).of_size(1)
    assert str(WindowSettings(before=3, target_before=1)) == "4to2"


def test_values_that_no_model_can_take() -> None:
    with pytest.raises(FocatError, match=r"window = 9{20}: ask for 1,000 sentences at most"):
        WindowSettings().of_size(10**20 - 1)
    with pytest.raises(ValueError, match="less than or equal to 10"):
        SearchSettings(length_penalty=300)  # a length to this power is no number any more
