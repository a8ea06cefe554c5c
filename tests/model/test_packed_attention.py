"""Packed windows: output and gradients are those of padded windows, and the kernels agree with plain torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from focat.config.schema import ModelSettings, TrainingSettings, WindowSettings
from focat.errors import FocatError
from focat.model import packed_attention
from focat.model.packed_attention import PackedMask, visible_keys
from focat.training.objective import token_weights
from focat.training.step import uses_packing
from focat.windows.batch import PackedBatch
from focat.windows.corpus_windows import cut_windows, gather_batch
from focat.windows.packing import cut_blocks, gather_packed, packed_shape
from tests.kernels import DEVICE, needs_gpu, needs_kernels
from tests.model.examples import VOCABULARY, tiny
from tests.windows.corpora import build_split

SETTINGS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "shift": 5},
    {"shift": "avg-sequence", "positions": "learned"},
    {"positions": "rotary", "shift": 3},
    {"segment_embeddings": "learned", "segment_embeddings_at": "every-layer"},
    {"attention": "long-short", "shift": 4},
    {"attention": "group", "global_layers": (1,)},
    {"attention": "gated-group", "global_layers": (1,)},
    {"embeddings": "shared", "activation": "swiglu"},
]


@pytest.mark.parametrize("target_before", [None, 0])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_output_and_gradients_are_those_of_padded_windows(settings: dict[str, Any], target_before: int | None) -> None:
    compare_with_padded_windows(settings, target_before, "cpu", torch.float64, 1e-5)


@needs_kernels
@pytest.mark.parametrize("settings", [SETTINGS[i] for i in (0, 3, 5)], ids=str)
def test_output_and_gradients_with_kernels(settings: dict[str, Any]) -> None:
    sizes = {"d_model": 32, "heads": 2}
    close = 1e-4 if DEVICE == "cpu" else 3e-2  # GPUs multiply float32 in TF32
    compare_with_padded_windows({**sizes, **settings}, None, DEVICE, torch.float32, close)


def compare_with_padded_windows(
    settings: dict[str, Any], target_before: int | None, device: str, precision: torch.dtype, close: float
) -> None:
    windows = WindowSettings(before=2, max_tokens=40, target_before=target_before)
    model = tiny(windows=windows, **settings).to(device, precision)
    rng = np.random.default_rng(0)
    lengths = [[(int(a), int(b)) for a, b in rng.integers(1, 9, (n, 2))] for n in (4, 1, 3)]
    documents = [[tuple(rng.integers(6, VOCABULARY, n).tolist() for n in pair) for pair in each] for each in lengths]
    split = build_split(documents)  # type: ignore[arg-type]
    cut = cut_windows(split, windows)
    rows = rng.permutation(len(cut))
    padded = gather_batch(cut, rows).to(device)
    packed = gather_packed(cut, rows, packed_shape(cut, 200, windows.max_tokens)).to(device)

    def gradients(hidden: Tensor, weights: Tensor) -> list[Tensor]:
        factors = torch.linspace(0.5, 2, hidden.shape[-1], dtype=hidden.dtype, device=hidden.device)
        loss = ((hidden * factors).sin().sum(-1) * weights).sum()
        found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        return [torch.zeros((), device=device) if gradient is None else gradient for gradient in found]

    expected = model(padded.source, padded.target)
    found = model(packed.source, packed.target)
    real = padded.target.segments >= 0
    here = packed.target.segments >= 0
    assert torch.equal(padded.target.tokens[real], packed.target.tokens[here])
    weights = token_weights(padded.target, 0.25)
    packed_weights = token_weights(packed.target, 0.25)
    assert torch.equal(weights[real], packed_weights[here])
    assert not packed_weights[~here].any()
    torch.testing.assert_close(found[here], expected[real], atol=close / 10, rtol=close / 10)
    for a, b in zip(gradients(found, packed_weights), gradients(expected, weights), strict=True):
        torch.testing.assert_close(a, b, atol=close, rtol=close)


def example(
    query_lengths: list[int], key_lengths: list[int] | None, causal: bool, local_heads: int, device: str = "cpu"
) -> PackedMask:
    """Without lengths of keys, the mask of self-attention, whose blocks know of another side that does not matter."""
    same_side = key_lengths is None
    key_lengths = list(range(len(query_lengths))) if key_lengths is None else key_lengths
    bounds = [torch.tensor([0, *lengths]).cumsum(0).int() for lengths in (query_lengths, key_lengths)]
    sentences = [torch.randint(0, 3, (sum(lengths),)).int() for lengths in (query_lengths, key_lengths)]
    sides = [each.numpy() for each in bounds]
    blocks = [torch.from_numpy(cut_blocks(one, other, 20)) for one, other in (sides, sides[::-1])]
    if same_side:
        bounds, blocks, sentences = bounds[:1] * 2, blocks[:1] * 2, sentences[:1] * 2
    return PackedMask(*(each.to(device) for each in (*bounds, *blocks, *sentences)), causal, local_heads, same_side)


def attend_slowly(queries: Tensor, keys: Tensor, values: Tensor, mask: PackedMask) -> Tensor:
    """With the weights in hand, so that autograd finds the gradients."""
    outputs = []
    for window in range(len(mask.query_bounds) - 1):
        here, there, visible = visible_keys(mask, window, queries.shape[1])
        scores = torch.einsum("qhd,khd->hqk", queries[here], keys[there]) / math.sqrt(queries.shape[-1])
        weights = scores.masked_fill(~visible, -1e30).softmax(-1) * visible.any(-1, keepdim=True)
        outputs.append(torch.einsum("hqk,khd->qhd", weights, values[there]))
    return torch.cat(outputs)


HALF = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # the interpreter's `tl.dot` knows no bfloat16
CASES = [  # queries of each window, keys of each window or None for self-attention, causal, local heads
    ([5, 70, 1, 130, 64, 0, 3], None, True, 0),
    ([5, 70, 1, 130, 64, 0, 3], None, True, 4),
    ([5, 70, 1, 130, 64, 0, 3], None, False, 2),
    ([5, 70, 1, 130, 64, 0, 3, 9], [66, 3, 129, 1, 64, 4, 2, 0], False, 0),
    ([5, 70, 1, 130, 64, 0, 3, 9], [66, 3, 129, 1, 64, 4, 2, 0], False, 2),
]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize(("query_lengths", "key_lengths", "causal", "local_heads"), CASES)
def test_attention_and_its_gradients(
    query_lengths: list[int], key_lengths: list[int] | None, causal: bool, local_heads: int, device: str
) -> None:
    torch.manual_seed(0)
    mask = example(query_lengths, key_lengths, causal, local_heads, device)
    compare_with_slow_attention(mask, 4, 16, torch.float32, self_attention=key_lengths is None)


@pytest.mark.parametrize("precision", [torch.float32, HALF])
@pytest.mark.parametrize(("heads", "width"), [(1, 128), (2, 64), (3, 32), (6, 16), (8, 16)])
def test_attention_of_heads_of_all_widths(heads: int, width: int, precision: torch.dtype) -> None:
    torch.manual_seed(0)
    compare_with_slow_attention(example([3, 67], [66, 2], False, heads // 2, DEVICE), heads, width, precision)


def test_attention_of_tensors_that_are_not_contiguous() -> None:
    torch.manual_seed(0)
    mask = example([5, 3], None, True, 0, DEVICE)
    qkv = torch.randn(16, 2, 3, 8, device=DEVICE).permute(3, 2, 1, 0)  # (tokens, 3, heads, head width)
    expected = attend_slowly(*qkv.unbind(1), mask)
    for inputs in ((qkv, mask), (qkv[:, :1], mask, qkv[:, 1:])):
        torch.testing.assert_close(packed_attention.packed_attention(*inputs), expected, atol=3e-2, rtol=2e-2)


def compare_with_slow_attention(
    mask: PackedMask, heads: int, width: int, precision: torch.dtype, self_attention: bool = False
) -> None:
    device = mask.query_bounds.device
    queries, keys = len(mask.query_sentences), len(mask.key_sentences)
    shapes = [(queries, 3)] if self_attention else [(queries, 1), (keys, 2)]
    inputs = [torch.randn(*shape, heads, width, device=device).to(precision).requires_grad_() for shape in shapes]
    gradient = torch.randn(queries, heads, width, device=device).to(precision)
    found = packed_attention.packed_attention(inputs[0], mask, *inputs[1:])
    expected = attend_slowly(*(x.float() for each in inputs for x in each.unbind(1)), mask)
    exact = precision == torch.float32 and device.type == "cpu"  # GPUs multiply float32 in TF32
    close = {"atol": 1e-5, "rtol": 1e-4} if exact else {"atol": 3e-2, "rtol": 2e-2}
    torch.testing.assert_close(found.float(), expected, **close)
    for a, b in zip(
        torch.autograd.grad(found, inputs, gradient),
        torch.autograd.grad(expected, inputs, gradient.float()),
        strict=True,
    ):
        assert a.dtype == precision
        torch.testing.assert_close(a.float(), b.float(), **close)


@pytest.mark.parametrize(("width", "precision"), [(4, torch.bfloat16), (24, torch.bfloat16), (128, torch.float32)])
def test_plain_torch_computes_heads_that_the_kernels_cannot(
    width: int, precision: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_attention, "runs_kernels", lambda device: True)
    mask = example([5, 3], None, True, 0)
    qkv = torch.randn(8, 3, 2, width, dtype=precision, requires_grad=True)
    found = packed_attention.packed_attention(qkv, mask)
    torch.testing.assert_close(found, attend_slowly(*qkv.unbind(1), mask), atol=2e-2, rtol=2e-2)
    found.sum().backward()


@needs_kernels
@pytest.mark.parametrize(("d_model", "d_ff", "widest"), [(64, 1024, 1024), (128, 256, 1536)])
def test_batches_have_no_more_entries_than_kernels_can_count(d_model: int, d_ff: int, widest: int) -> None:
    model, most = ModelSettings(d_model=d_model, d_ff=d_ff, heads=4), 2**31 // widest - 4096
    for tokens, packed in ((most, True), (most + 1, False)):
        training = TrainingSettings(batch_tokens=tokens, precision="bfloat16")
        assert uses_packing(training, model, torch.device(DEVICE)) == packed
    assert uses_packing(TrainingSettings(batch_tokens=most, packing="always"), model, torch.device(DEVICE))
    with pytest.raises(FocatError, match=f"{most + 1}: batches of packed windows have at most {most:,} tokens"):
        uses_packing(TrainingSettings(batch_tokens=most + 1, packing="always"), model, torch.device(DEVICE))


def test_a_batch_can_be_moved() -> None:
    split = build_split([[([6, 7], [8])]])
    cut = cut_windows(split, WindowSettings(max_tokens=8))
    batch = gather_packed(cut, np.arange(1), packed_shape(cut, 8, 8))
    moved = batch.to("cpu")
    assert isinstance(moved, PackedBatch)
    assert torch.equal(moved.target.bounds, batch.target.bounds)
