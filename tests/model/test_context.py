"""Context that is encoded apart: against loops over tokens and sentences, and what must hold for any weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from focat.config.schema import WindowSettings
from focat.corpus.vocabulary import PAD
from focat.model import Transformer
from focat.model.context import ContextAttention, Gate
from focat.model.global_layer import GlobalLayer
from focat.model.hierarchical_context import HierarchicalContext
from focat.model.layers import EncoderLayer, SerialContext
from focat.windows.batch import PaddedSequences
from focat.windows.segments import decoder_input
from tests.model import slow_context as slow
from tests.model.examples import side, tiny, window
from tests.model.test_incremental import step_by_step

SYSTEMS: dict[str, dict[str, Any]] = {
    "divide-and-rule": {"hierarchical": True},
    "han": {"hierarchical": True, "detach": True},
    "voita-2018": {"encoder": "last-own", "at": "encoder-last"},
    "zhang-2018": {"encoder": "separate", "layers": 2, "at": "every-layer"},
    "li-2020-outside": {"encoder": "separate", "gate": "scalar"},
    "li-2020-inside": {"encoder": "separate", "at": "decoder", "gate": "scalar"},
    "shared-decoder": {"at": "decoder"},
    "separate-last": {"encoder": "separate", "at": "encoder-last"},
    "shared-top": {},
    "zheng-2020": {"at": "global-layer"},
}
LENGTHS = [(2, 1, 3), (3,), (2, 2)]
WINDOWS = WindowSettings(before=2, target_before=0, max_tokens=40)


def build(system: str, **settings: Any) -> Transformer:
    return tiny(windows=WINDOWS, context=SYSTEMS[system], **settings)


def windows() -> tuple[list[list[int]], PaddedSequences, PaddedSequences]:
    """Windows of one to three source sentences, and one target sentence."""
    rows = [window(*lengths, seed=i) for i, lengths in enumerate(LENGTHS)]
    return rows, side(*rows, pads=1), side(*(window(2 + i, seed=9 + i) for i in range(3)))


def gates(model: Transformer) -> list[Gate]:
    return [module for module in model.modules() if isinstance(module, Gate)]


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_step_by_step_is_teacher_forcing(system: str, norm: str) -> None:
    _, source, target = windows()
    model = build(system, norm=norm)
    memory = model.encode(source)
    forced = model.decode(memory, decoder_input(target))
    stepped = step_by_step(model, memory, target, [1] * target.tokens.shape[1])
    real = target.tokens != PAD
    torch.testing.assert_close(stepped[real], forced[real], atol=1e-9, rtol=0)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("system", ["divide-and-rule", "han", "shared-top", "li-2020-outside"])
def test_after_the_encoder(system: str, norm: str) -> None:
    rows, source, _ = windows()
    model = build(system, norm=norm)
    base = slow.base_of(model)
    hidden = model.encode(source).hidden
    assert model.context is not None
    for i, row in enumerate(rows):
        *context, current = slow.sentences_of(row)
        own = slow.encoded_alone(base, current)
        states = [slow.encoded_alone(base, sentence) for sentence in context]
        if model.context.kind == "separate":
            states = [separate_context(model, base, context)] if context else []
        top = model.context.top
        if isinstance(top, HierarchicalContext):
            expected = [slow.hierarchical(top, token, states) for token in own]
        else:
            assert isinstance(top, ContextAttention)
            expected = [slow.flat(top, token, token, states) for token in own]
        found = hidden[i, source.segments[i] == source.current[i]]
        torch.testing.assert_close(found, torch.stack(expected), atol=1e-9, rtol=0)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_in_a_layer_over_the_window(norm: str) -> None:
    """Zheng et al. (2020), of every sentence; windows longer than those of training have the furthest distances."""
    rows = [*windows()[0], window(1, 2, 1, 2, seed=7)]
    source = side(*rows, pads=1)
    model = build("zheng-2020", norm=norm)
    base = slow.base_of(model)
    hidden = model.encode(source).hidden
    assert model.context is not None
    assert isinstance(model.context.top, GlobalLayer)
    for i, row in enumerate(rows):
        encoded = [slow.encoded_alone(base, sentence) for sentence in slow.sentences_of(row)]
        expected = torch.cat(slow.global_layer(model.context.top, encoded, norm))
        torch.testing.assert_close(hidden[i, : len(row)], expected, atol=1e-9, rtol=0)


def test_the_decoder_translates_sentence_by_sentence_with_the_sentence_before_in_view() -> None:
    """Zheng et al. (2020): each target sentence sees its own source sentence, and the target sentence before it."""
    source = side(window(2, 1, 3, seed=0), window(3, seed=1))
    target = side(window(2, 3, seed=2), window(2, seed=3))
    model = tiny(windows=WINDOWS.model_copy(update={"target_before": 1}), context=SYSTEMS["zheng-2020"])
    encoded, given = model.encode(source), decoder_input(target)
    forced = model.decode(encoded, given)
    real = target.tokens != PAD
    stepped = step_by_step(model, encoded, target, [1] * target.tokens.shape[1])
    torch.testing.assert_close(stepped[real], forced[real], atol=1e-9, rtol=0)
    for seen in range(3):
        damaged = torch.where((source.segments == seen)[..., None], torch.randn_like(encoded.hidden), encoded.hidden)
        changed = (model.decode(replace(encoded, hidden=damaged), given) - forced)[0].abs().amax(-1) > 1e-9
        sentence = target.segments[0]
        # the target has the last two source sentences: the first is seen by nobody, the previous one through the target
        expected = {0: sentence > 1, 1: sentence >= 0, 2: sentence == 1}[seen]
        assert torch.equal(changed & real[0], expected & real[0])


def separate_context(model: Transformer, base: Transformer, context: list[list[int]]) -> Tensor:
    """All context sentences as one, through the context's own layers."""
    assert model.context is not None
    x = slow.embedded(base, [token for sentence in context for token in sentence])
    for layer in model.context.layers:
        x = slow.layer_alone(layer, x)
    normalised: Tensor = model.context.norm(x)
    return normalised


@pytest.mark.parametrize("system", ["voita-2018", "separate-last"])
def test_in_the_last_layer_of_the_encoder(system: str) -> None:
    rows, source, _ = windows()
    model = build(system)
    base = slow.base_of(model)
    hidden = model.encode(source).hidden
    last = model.encoder[-1]
    assert model.context is not None
    assert isinstance(last, EncoderLayer)
    assert isinstance(last.context, ContextAttention)
    for i, row in enumerate(rows):
        *context, current = slow.sentences_of(row)
        x = slow.encoded_alone(base, current, layers=1)
        if system == "voita-2018":
            own_layer = model.context.layers[0]
            states = [slow.layer_alone(own_layer, slow.encoded_alone(base, each, layers=1)) for each in context]
        else:
            states = [separate_context(model, base, context)] if context else []
        attended = last.self_attention(x[None], torch.ones(1, 1, 1, len(x), dtype=torch.bool), None)[0]
        mixed = [slow.flat(last.context, a, token, states) for a, token in zip(attended, x, strict=True)]
        x = last.self_attention_residual.norm(x + torch.stack(mixed))
        expected = last.feedforward_residual.norm(x + last.feedforward(x))
        found = hidden[i, source.segments[i] == source.current[i]]
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)


def test_in_every_layer_the_gate_replaces_the_residual_connection() -> None:
    """Zhang et al. (2018): LN(z ⊙ x + (1 − z) ⊙ y), between self-attention and what follows it."""
    rows, source, _ = windows()
    model = build("zhang-2018")
    base = slow.base_of(model)
    hidden = model.encode(source).hidden
    for i, row in enumerate(rows):
        *context, current = slow.sentences_of(row)
        states = [separate_context(model, base, context)] if context else []
        x = slow.embedded(base, current)
        for layer in model.encoder:
            assert isinstance(layer, EncoderLayer)
            assert isinstance(layer.context, SerialContext)
            attended = layer.self_attention(x[None], torch.ones(1, 1, 1, len(x), dtype=torch.bool), None)[0]
            x = layer.self_attention_residual.norm(x + attended)
            x = torch.stack([slow.flat(layer.context.attention, token, token, states) for token in x])
            x = layer.context.residual.norm(x)
            x = layer.feedforward_residual.norm(x + layer.feedforward(x))
        found = hidden[i, source.segments[i] == source.current[i]]
        torch.testing.assert_close(found, x, atol=1e-9, rtol=0)


@pytest.mark.parametrize("system", ["li-2020-inside", "shared-decoder"])
def test_in_the_decoder_beside_the_attention_to_the_source(system: str) -> None:
    rows, source, target = windows()
    model = build(system, decoder_layers=1)
    base = slow.base_of(model)
    found = model(source, target)
    (layer,) = model._decoder_layers
    assert isinstance(layer.context, ContextAttention)
    for i, row in enumerate(rows):
        *context, current = slow.sentences_of(row)
        own = slow.encoded_alone(base, current)
        states = [slow.encoded_alone(base, sentence) for sentence in context]
        if system == "li-2020-inside":
            states = [separate_context(model, base, context)] if context else []
        tokens = decoder_input(target).tokens[i][target.tokens[i] != PAD].tolist()
        x = slow.embedded_target(base, tokens)
        x = layer.self_attention_residual.norm(x + layer.self_attention(x[None], None, None)[0])
        attended = [slow.attention(layer.cross_attention, token, own) for token in x]
        mixed = [slow.flat(layer.context, a, token, states) for a, token in zip(attended, x, strict=True)]
        x = layer.cross_attention_residual.norm(x + torch.stack(mixed))
        expected = layer.feedforward_residual.norm(x + layer.feedforward(x))
        torch.testing.assert_close(found[i, : len(tokens)], expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_closed_gate_is_the_sentence_level_system(system: str) -> None:
    """But for a normalisation that follows the gate."""
    rows, source, target = windows()
    model = build(system)
    for module in model.modules():
        if isinstance(module, HierarchicalContext | GlobalLayer):
            module.norm = torch.nn.Identity()  # type: ignore[assignment]
        elif isinstance(module, SerialContext):
            module.residual.norm = torch.nn.Identity()  # type: ignore[assignment]
    for gate in gates(model):
        torch.nn.init.constant_(gate.proj.bias, 1e4)
    alone = side(*(slow.sentences_of(row)[-1] for row in rows))
    real = target.tokens != PAD
    expected = slow.base_of(model)(alone, target)
    torch.testing.assert_close(model(source, target)[real], expected[real], atol=1e-9, rtol=0)


@pytest.mark.parametrize("system", [name for name in SYSTEMS if name != "zheng-2020"])
def test_a_window_without_context_is_as_with_a_closed_gate(system: str) -> None:
    _, source, target = windows()
    model = build(system)
    found = model(source, target)
    assert torch.isfinite(found).all()
    for gate in gates(model):
        torch.nn.init.constant_(gate.proj.bias, 1e4)
    closed = model(source, target)
    real = target.tokens != PAD
    torch.testing.assert_close(found[1][real[1]], closed[1][real[1]])
    assert not torch.allclose(found[0][real[0]], closed[0][real[0]])  # the context does count


@pytest.mark.parametrize("system", [*SYSTEMS, "han-joint"])
def test_windows_of_one_sentence_are_windows_without_context(system: str) -> None:
    """As `--window 1` makes them, of a model that was trained with context."""
    source, target = side(window(3, seed=1), window(2, seed=2)), side(window(2, seed=3), window(3, seed=4))
    context = SYSTEMS.get(system, {"hierarchical": True, "of": "both"})
    model = tiny(windows=WindowSettings(before=2, max_tokens=40), context=context)
    found = model(source, target)
    assert torch.isfinite(found).all()
    model.windows = WindowSettings(before=0, max_tokens=40)
    torch.testing.assert_close(model(source, target), found)


@pytest.mark.parametrize("system", ["divide-and-rule", "shared-decoder", "shared-top"])
def test_the_order_of_context_sentences_does_not_count(system: str) -> None:
    first, second, current = window(2, seed=1)[:-1], window(3, seed=2)[:-1], window(2, seed=3)
    join = lambda *sentences: [t for s in sentences[:-1] for t in (*s, 3)] + sentences[-1]  # noqa: E731
    target = side(window(3, seed=4), window(3, seed=4))
    found = build(system)(side(join(first, second, current), join(second, first, current)), target)
    torch.testing.assert_close(found[0], found[1], atol=1e-9, rtol=0)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_parameter_of_the_context_learns(system: str) -> None:
    _, source, target = windows()
    model = build(system)
    real = target.tokens != PAD
    model(source, target)[real].square().sum().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert [name for name in without if "context" in name.split(".")] == []


def test_detached_context_gets_no_gradient() -> None:
    _, source, target = windows()
    model, other = build("han"), build("divide-and-rule")
    real = target.tokens != PAD
    for each in (model, other):
        each(source, target)[real].square().sum().backward()
    ours, theirs = (each.encoder[0].self_attention.qkv_proj.weight.grad for each in (model, other))  # type: ignore[union-attr]
    assert not torch.allclose(ours, theirs)  # type: ignore[arg-type]
