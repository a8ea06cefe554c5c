"""The fused kernel and the materialised weights are one attention; what a layer starts from."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from focat.model.attention import CrossAttention, SelfAttention, attend
from focat.model.layers import Residual
from focat.windows.segments import decoder_input
from tests.model.examples import pair, tiny


@pytest.mark.parametrize("kind", ["none", "causal", "keys", "heads"])
def test_fused_is_materialised(kind: str) -> None:
    torch.manual_seed(1)
    queries, keys, values = (torch.randn(3, 4, 6, 8) for _ in range(3))
    masks = {"keys": torch.rand(3, 1, 1, 6) < 0.6, "heads": torch.rand(3, 4, 6, 6) < 0.6}
    mask = masks.get(kind)
    if mask is not None:
        mask[..., 0] = True
    weights: list[torch.Tensor] = []
    slow = attend(queries, keys, values, mask, causal=kind == "causal", weights_out=weights)
    fast = attend(queries, keys, values, mask, causal=kind == "causal")
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=0)
    assert weights[0].shape == (3, 4, 6, 6)
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(3, 4, 6))


def test_weights_by_hand() -> None:
    queries = torch.tensor([[[[2.0, 0.0]]]])
    keys = torch.tensor([[[[1.0, 5.0], [0.0, 1.0], [9.0, 9.0]]]])
    values = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [7.0, 7.0]]]])
    weights: list[torch.Tensor] = []
    attend(queries, keys, values, torch.tensor([True, True, False]), weights_out=weights)
    first = 1 / (1 + math.exp(-2 / math.sqrt(2)))
    assert weights[0].flatten().tolist() == pytest.approx([first, 1 - first, 0.0])


@pytest.mark.parametrize("pattern", ["full", "long-short", "group"])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_the_weights_of_a_model_give_its_output(pattern: str, positions: str) -> None:
    source, target = pair()
    model = tiny(shift=5, attention=pattern, positions=positions)
    fast = model(source, target)
    weights = model.attention(source, target)
    lengths = source.tokens.shape[1], target.tokens.shape[1]
    for layers, queries, keys in (
        (weights.encoder, lengths[0], lengths[0]),
        (weights.decoder, lengths[1], lengths[1]),
        (weights.cross, lengths[1], lengths[0]),
    ):
        assert [layer.shape for layer in layers] == [(3, 4, queries, keys)] * 2
        for layer in layers:
            torch.testing.assert_close(layer.sum(-1), torch.ones(3, 4, queries).double())
    slow = model.decode(model.encode(source, []), decoder_input(target), [], [])
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=0)


def test_fused_projections_start_like_separate_ones() -> None:
    width = 64
    bound = math.sqrt(6 / (2 * width)) / math.sqrt(2)
    attention, cross = SelfAttention(width, 4, 0.0), CrossAttention(width, 4, 0.0)
    for weight in (
        *attention.qkv_proj.weight.chunk(3),
        cross.q_proj.weight,
        *cross.kv_proj.weight.chunk(2),
    ):
        assert 0.98 * bound < weight.abs().max() <= bound
    assert not attention.qkv_proj.bias.any()


BLOCKS = {
    "attention_dropout": ("encoder.1.self_attention", "decoder.1.self_attention", "decoder.1.cross_attention"),
    "activation_dropout": ("encoder.1.feedforward", "decoder.1.feedforward"),
}


@pytest.mark.parametrize("rate", list(BLOCKS))
def test_each_rate_of_dropout_is_of_its_own_blocks_and_only_in_training(rate: str) -> None:
    """A block drops something if two runs of it on the same input differ."""
    model = tiny(**{rate: 0.5})
    blocks = {name: model.get_submodule(name) for names in BLOCKS.values() for name in names}
    inputs: dict[str, tuple[Any, Any]] = {}

    def keep(module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        inputs[next(name for name, block in blocks.items() if block is module)] = args, kwargs

    for block in blocks.values():
        block.register_forward_pre_hook(keep, with_kwargs=True)
    model(*pair())
    for training, expected in ((False, set()), (True, set(BLOCKS[rate]))):
        model.train(training)
        dropping = set()
        for name, (args, kwargs) in dict(inputs).items():
            one, other = (blocks[name](*args, **kwargs) for _ in range(2))
            if not torch.equal(one, other):
                dropping.add(name)
        assert dropping == expected


def test_the_common_rate_of_dropout_is_of_embeddings_and_residuals() -> None:
    model = tiny(dropout=0.5).train()
    x = torch.ones(2, 3, 16, dtype=torch.float64)
    residuals = [module for module in model.modules() if isinstance(module, Residual)]
    assert len(residuals) == 2 * 2 + 2 * 3
    for residual in residuals:
        assert not torch.equal(residual.post(x, x)[0], residual.post(x, x)[0])
        residual.eval()
        assert torch.equal(residual.post(x, x)[0], residual.post(x, x)[0])
    source, _ = pair()
    assert not torch.equal(model.encode(source).hidden, model.encode(source).hidden)  # embeddings are left to drop
