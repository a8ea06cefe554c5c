"""The two attentions and the gate of the G-Transformer: against a loop over tokens, and what holds for any weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from focat.corpus.vocabulary import PAD, SPECIALS, START
from focat.model import Transformer
from focat.model.context import Gate
from focat.model.embeddings import hide_words
from focat.model.global_attention import GlobalCrossAttention, GlobalSelfAttention
from focat.model.layers import DecoderLayer, EncoderLayer
from focat.windows.batch import PaddedSequences
from focat.windows.segments import decoder_input
from tests.model import slow_context as slow
from tests.model.examples import pair, side, tiny, window

ADDED = ("global_self_attention", "global_cross_attention")


def build(**settings: Any) -> Transformer:
    return tiny(attention="gated-group", **{"global_layers": (1,), **settings})


def two_attentions(
    own: Any, added: GlobalSelfAttention | GlobalCrossAttention | None, token: Tensor, of_own: Tensor, of_window: Tensor
) -> Tensor:
    """What one token finds in its own sentence and in the window, both (tokens, width), through the gate."""
    local = slow.attention(own, token, of_own)
    return local if added is None else slow.mix(added.gate, local, slow.attention(added.attention, token, of_window))


def residual(norm: str, module: Any, x: Tensor, block: Any) -> Tensor:
    total: Tensor = x + block(module.norm(x) if norm == "pre" else x)
    return total if norm == "pre" else module.norm(total)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_equals_a_loop_over_tokens(norm: str) -> None:
    source, target = pair()
    model = build(norm=norm)
    found, given = model(source, target), decoder_input(target)
    for row in range(len(source.tokens)):
        real = source.segments[row] >= 0
        sentence = source.segments[row, real]
        x = slow.embedded(model, source.tokens[row, real].tolist())
        for layer in model.encoder:
            assert isinstance(layer, EncoderLayer)

            def encoder_attention(q: Tensor, layer: EncoderLayer = layer, sentence: Tensor = sentence) -> Tensor:
                own, added = layer.self_attention, layer.global_self_attention
                return torch.stack(
                    [two_attentions(own, added, q[t], q[sentence == sentence[t]], q) for t in range(len(q))]
                )

            x = residual(norm, layer.self_attention_residual, x, encoder_attention)
            x = residual(norm, layer.feedforward_residual, x, layer.feedforward)
        encoded = model.encoder_norm(x)
        length = int((target.segments[row] >= 0).sum())
        behind = target.current[row] - target.segments[row, :length]  # sentences behind the current one, of each label
        source_behind = source.current[row] - sentence
        y = slow.embedded_target(model, given.tokens[row, :length].tolist())
        for layer in model.decoder:
            assert isinstance(layer, DecoderLayer)

            def decoder_attention(q: Tensor, layer: DecoderLayer = layer, behind: Tensor = behind) -> Tensor:
                own, added = layer.self_attention, layer.global_self_attention
                before = [q[: t + 1] for t in range(len(q))]
                same = [b[behind[: t + 1] == behind[t]] for t, b in enumerate(before)]
                return torch.stack([two_attentions(own, added, *each) for each in zip(q, same, before, strict=True)])

            def cross_attention(
                q: Tensor,
                layer: DecoderLayer = layer,
                states: Tensor = encoded,
                behind: Tensor = behind,
                of_source: Tensor = source_behind,
            ) -> Tensor:
                own, added = layer.cross_attention, layer.global_cross_attention
                return torch.stack(
                    [two_attentions(own, added, q[t], states[of_source == behind[t]], states) for t in range(len(q))]
                )

            y = residual(norm, layer.self_attention_residual, y, decoder_attention)
            y = residual(norm, layer.cross_attention_residual, y, cross_attention)
            y = residual(norm, layer.feedforward_residual, y, layer.feedforward)
        torch.testing.assert_close(found[row, :length], model.decoder_norm(y), atol=1e-9, rtol=0)


def test_a_closed_gate_is_group_attention_with_the_weights_of_a_sentence_level_system() -> None:
    """All that is added has names of its own; a window of one sentence is then that of the sentence-level system."""
    source, target = pair()
    model = build()
    for gate in (module for module in model.modules() if isinstance(module, Gate)):
        nn.init.constant_(gate.proj.bias, 1e4)
    kept = {name: w for name, w in model.state_dict().items() if not set(ADDED) & set(name.split("."))}
    group, base = tiny(attention="group", global_layers=()), tiny()
    for other in (group, base):
        other.load_state_dict(kept)
    real = target.tokens != PAD
    torch.testing.assert_close(model(source, target)[real], group(source, target)[real], atol=1e-9, rtol=0)
    torch.testing.assert_close(model(source, target)[1, real[1]], base(source, target)[1, real[1]], atol=1e-9, rtol=0)
    assert not torch.allclose(model(source, target)[0, real[0]], base(source, target)[0, real[0]])


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_context_enters_by_the_gate(stack: str) -> None:
    """With another context sentence, the current one changes unless gates of both stacks are closed."""
    sentences = [window(2, seed=seed) for seed in range(3)]
    join = lambda first: [*first[:-1], 3, *sentences[2]]  # noqa: E731
    source = side(join(sentences[0]), join(sentences[1]))
    target = side(*[[*window(2, seed=5)[:-1], 3, *window(3, seed=6)]] * 2)
    model = build()
    closed = [m for name, m in model.named_modules() if isinstance(m, Gate) and not name.startswith(stack)]
    for gate in closed:
        nn.init.constant_(gate.proj.bias, 1e4)
    current = model(source, target)[:, target.segments[0] == 1]
    assert not torch.allclose(current[0], current[1])
    for gate in (module for module in model.modules() if isinstance(module, Gate)):
        nn.init.constant_(gate.proj.bias, 1e4)
    current = model(source, target)[:, target.segments[0] == 1]
    torch.testing.assert_close(current[0], current[1])


def test_attention_weights_are_mixed_as_features_are_on_average() -> None:
    source, target = pair()
    model = build()
    for gate in (module for module in model.modules() if isinstance(module, Gate)):
        nn.init.zeros_(gate.proj.weight)
        nn.init.constant_(gate.proj.bias, 0.0)
    halves = model.attention(source, target)
    for gate in (module for module in model.modules() if isinstance(module, Gate)):
        nn.init.constant_(gate.proj.bias, 1e4)
    closed = model.attention(source, target)
    for found, local in ((halves.encoder, closed.encoder), (halves.decoder, closed.decoder)):
        assert len(found) == 2
        torch.testing.assert_close(found[1].sum(-1), torch.ones_like(found[1].sum(-1)))
        elsewhere = local[1] == 0
        assert elsewhere.any()
        assert (found[1][~elsewhere] > 0.4 * local[1][~elsewhere]).all()  # half of it, and some of the window
    assert not torch.allclose(halves.cross[1], closed.cross[1])


def test_every_added_weight_learns() -> None:
    source, target = pair()
    model = build()
    model(source, target)[target.tokens != PAD].square().sum().backward()
    added = {name: p for name, p in model.named_parameters() if set(ADDED) & set(name.split("."))}
    assert {name.split(".")[0] for name in added} == {"encoder", "decoder"}
    assert [name for name, p in added.items() if p.grad is None or not p.grad.abs().sum() > 0] == []


def test_words_of_the_whole_window_are_hidden_in_training() -> None:
    source, target = pair()
    hidden = build(word_dropout=0.5, word_dropout_in="window")
    plain = build()
    assert torch.equal(hidden(source, target), plain(source, target))
    hidden.train()
    torch.manual_seed(3)
    found = hidden(source, target)
    torch.manual_seed(3)
    masked, given = hide_words(source, 0.5, True), hide_words(decoder_input(target), 0.5, True)
    assert isinstance(masked, PaddedSequences)
    context = source.segments < source.current[:, None]
    assert ((masked.tokens != source.tokens) & context).any()
    assert torch.equal(masked.tokens < SPECIALS, (masked.tokens == START) | (source.tokens < SPECIALS))
    torch.testing.assert_close(found, plain.decode(plain.encode(masked), given))
