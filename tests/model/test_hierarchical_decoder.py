"""Hierarchical attention after the decoder (HAN): against loops over sentences, and what holds for any weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from focat.config.schema import WindowSettings
from focat.corpus.vocabulary import END, SEPARATOR, START
from focat.model import Transformer
from focat.model.context import Gate
from focat.model.hierarchical_context import HierarchicalContext
from focat.windows.batch import PaddedSequences
from focat.windows.segments import decoder_input
from tests.model import slow_context as slow
from tests.model.examples import side, tiny, window
from tests.model.test_incremental import step_by_step
from tests.model.test_two_pass import windows

SIDES = ["target", "both"]


def build(of: str, **settings: Any) -> Transformer:
    context = {"hierarchical": True, "of": of, **settings.pop("context", {})}
    return tiny(windows=WindowSettings(before=2, max_tokens=60), context=context, **settings)


def current_of(target: PaddedSequences) -> Tensor:
    return target.segments == target.current[:, None]


def states_alone(base: Transformer, encoded: Tensor, source: list[int], translation: list[int]) -> Tensor:
    """(tokens, width): top states of a sentence-level decoder that reads a translation."""
    tokens = torch.tensor([[START, *(token for token in translation if token != END)]])
    given = PaddedSequences(tokens, torch.zeros_like(tokens), torch.zeros(1, dtype=torch.long))
    return base.decode(replace(base.encode(side(source)), hidden=encoded[None]), given)[0]


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("of", SIDES)
def test_equals_a_loop_over_sentences(of: str, norm: str) -> None:
    sources, targets, source, target = windows()
    model = build(of, norm=norm)
    base = slow.base_of(model)
    found = model(source, target)
    assert model.context is not None
    encoder_top, top = model.context.top, model.context.target
    assert top is not None
    for i, (source_window, target_window) in enumerate(zip(sources, targets, strict=True)):
        sentences, translations = slow.sentences_of(source_window), slow.sentences_of(target_window)
        encoded = [slow.encoded_alone(base, sentence) for sentence in sentences]
        before = [states_alone(base, *each) for each in zip(encoded, sentences, translations, strict=True)][:-1]
        own = encoded[-1]
        if of == "both":
            assert isinstance(encoder_top, HierarchicalContext)
            own = torch.stack([slow.hierarchical(encoder_top, token, encoded[:-1]) for token in own])
        states = states_alone(base, own, sentences[-1], translations[-1])
        expected = torch.stack([slow.hierarchical(top, token, before) for token in states])
        torch.testing.assert_close(found[i, current_of(target)[i]], expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("chunks", [None, [3, 1]])
@pytest.mark.parametrize("of", SIDES)
def test_step_by_step_is_teacher_forcing(of: str, chunks: list[int] | None) -> None:
    _, _, source, target = windows()
    model = build(of)
    memory = model.encode(source)
    forced, length = model.decode(memory, decoder_input(target)), target.tokens.shape[1]
    stepped = step_by_step(model, memory, target, [*chunks, length - sum(chunks)] if chunks else [1] * length)
    real = target.segments >= 0
    torch.testing.assert_close(stepped[real], forced[real], atol=1e-9, rtol=0)


@pytest.mark.parametrize("of", SIDES)
def test_a_closed_gate_is_the_sentence_level_system(of: str) -> None:
    """But for the normalisation that follows the gate; context sentences are translated by it in any case."""
    sources, targets, source, target = windows()
    model = build(of)
    for module in model.modules():
        if isinstance(module, HierarchicalContext):
            module.norm = nn.Identity()  # type: ignore[assignment]
        elif isinstance(module, Gate):
            nn.init.constant_(module.proj.bias, 1e4)
    found, base = model(source, target), slow.base_of(model)
    for i, (source_window, target_window) in enumerate(zip(sources, targets, strict=True)):
        pairs = zip(slow.sentences_of(source_window), slow.sentences_of(target_window), strict=True)
        expected = torch.cat([base(side(sentence), side(translation))[0] for sentence, translation in pairs])
        torch.testing.assert_close(found[i, : len(target_window)], expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("of", SIDES)
def test_the_order_of_context_sentences_does_not_count(of: str) -> None:
    def joined(*seeds: int) -> list[int]:
        sentences = [window(2 + seed % 2, seed=seed) for seed in seeds]
        return [t for sentence in sentences[:-1] for t in (*sentence[:-1], SEPARATOR)] + sentences[-1]

    source = side(joined(1, 2, 3), joined(2, 1, 3))
    target = side(joined(5, 6, 8), joined(6, 5, 8))
    found = build(of)(source, target)[:, target.segments[0] == 2]
    torch.testing.assert_close(found[0], found[1], atol=1e-9, rtol=0)


def test_translations_before_count_and_get_no_gradient() -> None:
    """Another word before changes what is predicted; detached, no gradient reaches the states that were read."""
    _, _, source, target = windows()
    model = build("target", context={"detach": True})
    tokens = target.tokens.clone()
    tokens[0, 0] = 4 + (tokens[0, 0] - 3) % 16
    changed, found = model(source, replace(target, tokens=tokens)), model(source, target)
    current = current_of(target)
    assert not torch.allclose(changed[0, current[0]], found[0, current[0]])
    torch.testing.assert_close(changed[1:], found[1:])
    for detached in (True, False):
        each = build("target", context={"detach": detached})
        assert each.context is not None
        assert each.context.target is not None
        nn.init.constant_(each.context.target.gate.proj.weight, 0.0)
        nn.init.constant_(each.context.target.gate.proj.bias, -1e4)  # what is found in the context, alone
        each(source, target)[0, current[0]].square().sum().backward()
        weight = each._decoder_layers[0].feedforward.up_proj.weight
        assert (weight.grad is None or not weight.grad.any()) == detached


@pytest.mark.parametrize("of", SIDES)
def test_every_weight_of_the_context_learns(of: str) -> None:
    _, _, source, target = windows()
    model = build(of)
    model(source, target)[current_of(target)].square().sum().backward()
    added = {name: p for name, p in model.named_parameters() if name.startswith("context.")}
    assert {name.split(".")[1] for name in added} == ({"target"} if of == "target" else {"target", "top"})
    assert [name for name, p in added.items() if p.grad is None or not p.grad.abs().sum() > 0] == []
