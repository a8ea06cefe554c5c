"""Attention to the columns that a window sees, against a loop over queries and columns."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from focat.config.schema import ModelSettings, SearchSettings
from focat.corpus.vocabulary import PAD
from focat.decoding.engine import Engine
from focat.decoding.requests import Request
from focat.model import attention as attention_module
from focat.model import tree_attention as tree_module
from focat.model.attention import attend
from focat.model.tree_attention import (
    TreeMask,
    always_lists_columns,
    append_nodes,
    can_append,
    can_attend,
    lists_columns,
    tree_attention,
    tree_masks,
)
from focat.windows.segments import decoder_input
from tests.kernels import DEVICE, needs_kernels
from tests.model.examples import pair, tiny, window

# windows, heads, queries, columns, head width
SHAPES = [(3, 8, 4, 70, 64), (2, 4, 5, 300, 32), (1, 2, 1, 9, 16), (2, 3, 16, 33, 64), (2, 2, 11, 40, 128)]


def slow_attention(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Query by query, over the columns that it sees and no others; zero where there are none."""
    windows, heads, count, width = queries.shape
    output = torch.zeros(windows, heads, count, width, device=queries.device)
    for each in range(windows):
        for query in range(count):
            columns = mask[each, 0, min(query, mask.shape[2] - 1)].nonzero()[:, 0]
            for head in range(heads):
                seen = keys[each, head, columns].float()
                scores = seen @ queries[each, head, query].float() / math.sqrt(width)
                output[each, head, query] = scores.softmax(0) @ values[each, head, columns].float()
    return output


def tree_mask(windows: int, queries: int, columns: int) -> torch.Tensor:
    """A prefix that all queries see, and nodes of which each sees some; of the last window, a query sees nothing."""
    mask = torch.rand(windows, 1, queries, columns) < 0.2
    for of_window in mask:
        first, last = sorted(torch.randint(0, columns, (2,)).tolist())
        of_window[:, :, first : last // 2] = True
        of_window[:, :, last:] = False
    mask[-1, :, queries // 2] = False
    return mask.to(DEVICE)


def lists(mask: torch.Tensor, queries: int) -> list[list[tuple[int, list[int]]]]:
    """What each window's list should have: a column, and the queries that see it."""
    rows = mask.expand(-1, 1, queries, -1)[:, 0].cpu()
    return [
        [
            (column, of_window[:, column].nonzero()[:, 0].tolist())
            for column in of_window.any(0).nonzero()[:, 0].tolist()
        ]
        for of_window in rows
    ]


@needs_kernels
@pytest.mark.parametrize(
    ("queries", "columns", "rows"), [(4, 70, 4), (16, 600, 16), (1, 1, 1), (5, 256, 1), (3, 257, 3)]
)
def test_listed_columns(queries: int, columns: int, rows: int) -> None:
    torch.manual_seed(0)
    wide = torch.rand(3, 1, rows, columns + 5, device=DEVICE) < torch.tensor([0.5, 0.01, 1.0]).to(DEVICE).view(
        3, 1, 1, 1
    )
    mask = wide[..., :columns]  # of a buffer that is wider
    found = TreeMask.of(mask, queries)
    for entries, count, expected in zip(
        found.entries.tolist(), found.counts.tolist(), lists(mask, queries), strict=True
    ):
        listed = [(each & 0xFFFF, [q for q in range(16) if each >> 16 + q & 1]) for each in entries[:count]]
        assert listed == expected


@needs_kernels
def test_layers_share_a_list() -> None:
    mask, other = torch.ones(2, 2, 1, 4, 9, dtype=torch.bool, device=DEVICE)
    of_heads = other.expand(2, 8, 4, 9)
    queries = torch.zeros(2, 4, 64, device=DEVICE, dtype=torch.bfloat16)
    first, second, third, fourth = tree_masks([mask, of_heads, mask, other], queries)
    assert isinstance(first, TreeMask)
    assert first is third
    assert second is of_heads
    assert isinstance(fourth, TreeMask)
    assert fourth is not first


@needs_kernels
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", ["cache", "contiguous"])
@pytest.mark.parametrize("precision", [torch.float16, torch.float32])
def test_it_is_attention(shape: tuple[int, ...], layout: str, precision: torch.dtype) -> None:
    torch.manual_seed(0)
    windows, heads, count, columns, width = shape
    queries = torch.randn(windows, count, 3, heads, width, device=DEVICE).to(precision)[:, :, 1].transpose(1, 2)
    mask = tree_mask(windows, count, columns)
    unseen = ~mask.any(2)[..., None]  # (windows, 1, columns, 1)
    if layout == "cache":
        both = torch.randn(2, windows, columns + 3, heads, width, device=DEVICE).to(precision)
        keys, values = both[:, :, :columns].transpose(2, 3)
    else:
        keys, values = torch.randn(2, windows, heads, columns, width, device=DEVICE).to(precision)
    keys.masked_fill_(unseen, math.nan)
    values.masked_fill_(unseen, math.inf)
    found = tree_attention(queries, keys, values, TreeMask.of(mask, count))
    close = 4e-3 if precision is torch.float16 else 1e-5
    torch.testing.assert_close(found.float(), slow_attention(queries, keys, values, mask), atol=close, rtol=close)
    assert found.transpose(1, 2).is_contiguous()


@needs_kernels
def test_one_mask_for_all_queries_and_windows_that_see_nothing() -> None:
    torch.manual_seed(0)
    queries = torch.randn(3, 2, 4, 16, device=DEVICE)
    keys, values = torch.randn(2, 3, 2, 48, 16, device=DEVICE)
    mask = torch.arange(48, device=DEVICE) < torch.tensor([[17], [0], [48]], device=DEVICE)
    keys[1] = values[1] = math.nan
    found = tree_attention(queries, keys, values, TreeMask.of(mask[:, None, None], 4))
    torch.testing.assert_close(found, slow_attention(queries, keys, values, mask[:, None, None]))
    assert not found[1].any()


@needs_kernels
def test_what_is_listed() -> None:
    mask = torch.ones(2, 1, 4, 9, dtype=torch.bool, device=DEVICE)
    assert lists_columns(mask, 4, torch.bfloat16)
    assert lists_columns(mask, 16, torch.float16)
    assert not lists_columns(mask, 17, torch.float16)
    assert not lists_columns(mask, 4, torch.float32)
    assert not lists_columns(mask.expand(2, 8, 4, 9), 4, torch.float16)
    assert not lists_columns(mask[..., :1].expand(2, 1, 4, 70_000), 4, torch.float16)


@needs_kernels
def test_dropout_weights_and_other_widths_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    queries, keys, values = torch.randn(3, 2, 4, 5, 16, device=DEVICE)
    mask = torch.rand(2, 1, 5, 5, device=DEVICE) < 0.5
    mask[..., 0] = True
    listed = TreeMask.of(mask, 5)
    monkeypatch.setattr(attention_module, "tree_attention", None)
    weights: list[torch.Tensor] = []
    found = attend(queries, keys, values, listed, weights_out=weights)
    torch.testing.assert_close(found, slow_attention(queries, keys, values, mask))
    torch.testing.assert_close(weights[0] @ values, found)
    assert attend(queries, keys, values, listed, dropout=0.5).shape == found.shape
    narrow = (each[..., :8] for each in (queries, keys, values))
    assert attend(*narrow, listed).shape == (2, 4, 5, 8)


def test_what_is_attended_to() -> None:
    queries, keys, values = torch.zeros(3, 2, 8, 4, 64, dtype=torch.float16)
    assert can_attend(queries, keys, values)
    for width in (8, 48, 256):
        assert not can_attend(*torch.zeros(3, 2, 8, 4, width, dtype=torch.float16))
    assert can_attend(*torch.zeros(3, 2, 8, 4, 128, dtype=torch.float16))
    assert not can_attend(*torch.zeros(3, 2, 8, 4, 128))  # twice as many bytes
    for i in range(3):
        for other in (torch.zeros(2, 8, 4, 64), torch.zeros(2, 8, 4, 128).half()[..., ::2], queries.clone()):
            other.requires_grad_(other.shape == queries.shape and other.is_contiguous())
            inputs = [queries, keys, values]
            inputs[i] = other
            assert not can_attend(*inputs)
    with torch.no_grad():
        assert can_attend(queries, keys.requires_grad_(), values)


def test_what_is_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_module, "runs_kernels", lambda _: True)

    def can(cached: torch.Tensor, keys: torch.Tensor, values: torch.Tensor | None = None) -> bool:
        return can_append(cached, keys, keys if values is None else values)

    cached, new = torch.zeros(2, 30, 8, 64), torch.zeros(2, 8, 4, 64)
    assert not can(cached, new)  # gradients may be needed
    with torch.no_grad():
        assert can(cached, new)
        assert can(cached, torch.zeros(2, 8, 16, 64))
        assert can(torch.zeros(2, 30, 64, 64), torch.zeros(2, 64, 4, 64))
        assert not can(cached, torch.zeros(2, 8, 17, 64))
        assert not can(torch.zeros(2, 30, 65, 64), torch.zeros(2, 65, 4, 64))
        assert not can(torch.zeros(2, 30, 8, 48), torch.zeros(2, 8, 4, 48))
        assert not can(torch.zeros(2, 30, 64, 8).transpose(2, 3), new)
        assert not can(cached, new, new.half())
        assert not can(cached.half(), new)
        assert not can(cached, new, torch.zeros(2, 8, 4, 128)[..., ::2])
        monkeypatch.setattr(tree_module, "runs_kernels", lambda _: False)
        assert not can(cached, new)


def test_whose_columns_are_always_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then steps may span the whole buffer; elsewhere each column that they span costs time."""
    monkeypatch.setattr(tree_module, "runs_kernels", lambda _: True)

    def are(precision: torch.dtype = torch.bfloat16, **settings: Any) -> bool:
        return always_lists_columns(ModelSettings(**settings), torch.zeros(1, dtype=precision))

    assert are()
    assert are(heads=32)
    assert are(d_model=1024)
    assert not are(torch.float32)
    assert not are(heads=64)
    assert not are(d_model=768)
    assert not are(d_model=2048)
    assert not are(attention="group")
    assert not are(context={"of": "source"})
    assert not are(second_pass={"layers": 1})
    monkeypatch.setattr(tree_module, "runs_kernels", lambda _: False)
    assert not are()


@needs_kernels
@pytest.mark.parametrize("attention", ["full", "long-short", "group", "gated-group"])
def test_a_step_with_the_kernels_is_teacher_forcing(attention: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    monkeypatch.setattr(attention_module, "tree_attention", lambda *each: used.append(each) or tree_attention(*each))
    source, target = (each.to(DEVICE) for each in pair())
    real = target.tokens != PAD
    model = tiny(7, d_model=64, attention=attention, encoder_layers=1).half().to(DEVICE)
    with torch.no_grad():
        memory = model.encode(source)
        forced = model.decode(memory, decoder_input(target))
        cache = model.init_cache(memory, current=target.current)
        cache.self_kv.fill_(math.nan)  # as memory that was not written yet may be
        stepped = torch.cat([model.decode_step(cache, token) for token in decoder_input(target).tokens.split(1, 1)], 1)
    torch.testing.assert_close(stepped[real], forced[real], atol=2e-2, rtol=2e-2)
    attentions = 4 if attention in ("full", "group") else 0  # the others have a mask for each head, or two masks
    assert len(used) == attentions * target.tokens.shape[1]


@needs_kernels
def test_a_search_with_the_kernels_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [Request(tokens, max_length=7) for tokens in (window(2, 1), window(4, seed=1), window(1, seed=2))]
    engine = Engine([tiny(7, d_model=64).float().to(DEVICE)], SearchSettings(beam=3, batch_tokens=60), static=True)
    expected = engine(made)
    monkeypatch.setattr(tree_module, "lists_columns", lambda *_: True)  # in float32, too
    engine = Engine([tiny(7, d_model=64).float().to(DEVICE)], SearchSettings(beam=3, batch_tokens=60), static=True)
    for found, plain in zip(engine(made), expected, strict=True):
        assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in plain]
        for a, b in zip(found, plain, strict=True):
            assert a.score == pytest.approx(b.score, abs=1e-4)


@needs_kernels
@pytest.mark.parametrize(("heads", "new", "width"), [(8, 4, 64), (3, 1, 16), (6, 11, 32)])
@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float32])
def test_new_keys_and_values(heads: int, new: int, width: int, precision: torch.dtype) -> None:
    torch.manual_seed(0)
    qkv = torch.randn(3, new, 3, heads, width, device=DEVICE).to(precision).permute(2, 0, 3, 1, 4)
    rotated = qkv[1].contiguous()  # as keys may be, with other strides than values
    columns = torch.arange(5, 5 + new, device=DEVICE)
    cache = torch.randn(2, 3, 20, heads, width, device=DEVICE).to(precision)
    expected = cache.clone()
    expected[:, :, 5 : 5 + new] = qkv[1:].transpose(2, 3)
    with torch.no_grad():
        assert can_append(cache[0], rotated, qkv[2])
        append_nodes(cache[0], cache[1], columns, rotated, qkv[2])
    assert torch.equal(cache, expected)
