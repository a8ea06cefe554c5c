"""The kernel that finds the most probable tokens, against a sorted row of log-probabilities."""

from __future__ import annotations

import math

import pytest
import torch

from focat.corpus.vocabulary import END, SEPARATOR, SPECIALS
from focat.decoding import selection
from focat.decoding.selection import TopTokens, has_top_tokens_kernel
from tests.kernels import DEVICE, needs_kernels


def check(found: TopTokens, logits: torch.Tensor) -> None:
    """Whether these are log-probabilities of the closing tokens, and those of the most probable words, best first."""
    exact = logits.double().log_softmax(-1)
    close = {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(found.closing.double(), exact[..., [END, SEPARATOR]], **close)
    count = found.ids.shape[-1]
    expected = exact[..., SPECIALS:].sort(descending=True).values[..., :count]
    torch.testing.assert_close(found.words.double(), expected, **close)
    torch.testing.assert_close(exact.gather(-1, found.ids), expected, atol=0, rtol=0)
    assert found.ids.min() >= SPECIALS
    assert all(len(set(row)) == count for row in found.ids.flatten(0, 1).tolist())


@needs_kernels
@pytest.mark.parametrize("vocabulary", [2048, 5001, 32_000])
@pytest.mark.parametrize(("precision", "count"), [(torch.float32, 8), (torch.bfloat16, 10), (torch.float16, 64)])
def test_the_most_probable(vocabulary: int, precision: torch.dtype, count: int) -> None:
    torch.manual_seed(0)
    logits = (4 * torch.randn(2, 2, vocabulary, device=DEVICE)).to(precision)
    logits[..., :SPECIALS] += 9  # are no words, however probable
    logits[1, 0] -= 1000  # what is added to all does not matter
    logits[1, 1, 100:] = -math.inf
    logits[0, 1, END] = 300  # more than all words together by what float32 cannot hold
    before = logits.clone()
    assert has_top_tokens_kernel(logits, count)
    check(TopTokens.of(logits, count), before)
    assert torch.equal(logits, before)


@needs_kernels
def test_many_good_words_in_one_lane_and_words_at_the_ends() -> None:
    logits = torch.zeros(1, 2, 9 * selection.LANES + 1, device=DEVICE)
    logits[0, 0, 7 :: selection.LANES] = torch.arange(1.0, 10.0, device=DEVICE)
    logits[0, 1, [SPECIALS, -1]] = torch.tensor([2.0, 3.0], device=DEVICE)
    found = TopTokens.of(logits, 8)
    check(found, logits)
    assert found.ids[0, 0].tolist() == [7 + i * selection.LANES for i in range(8, 0, -1)]
    assert found.ids[0, 1, :2].tolist() == [9 * selection.LANES, SPECIALS]


@needs_kernels
def test_scores_that_are_not_numbers_stay_so_and_tokens_exist() -> None:
    logits = torch.full((1, 1, 3000), math.nan, device=DEVICE)
    found = TopTokens.of(logits, 8)
    assert found.closing.isnan().all()
    assert found.words.isnan().all()
    assert ((found.ids >= SPECIALS) & (found.ids < 3000)).all()


@needs_kernels
def test_where_the_kernel_serves() -> None:
    def serves(vocabulary: int, count: int, precision: torch.dtype = torch.float32) -> bool:
        return has_top_tokens_kernel(torch.zeros(1, vocabulary, device=DEVICE, dtype=precision), count)

    assert serves(32_000, 8)
    assert serves(250_000, 32, torch.bfloat16)
    assert not serves(1000, 8)  # lanes without a word
    assert not serves(32_000, 65)
    assert not serves(250_000, 64)
    assert not serves(32_000, 8, torch.float64)
    assert not serves(32_000, 0)
    assert not has_top_tokens_kernel(torch.zeros(0, 2, 32_000, device=DEVICE), 8)


@needs_kernels
def test_plain_torch_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 2, 4096, device=DEVICE).bfloat16()
    found = TopTokens.of(logits, 8)
    monkeypatch.setattr(selection, "has_top_tokens_kernel", lambda *_: False)
    plain = TopTokens.of(logits, 8)
    for a, b in ((found.closing, plain.closing), (found.words, plain.words)):
        torch.testing.assert_close(a, b)
    assert torch.equal(logits.gather(-1, found.ids), logits.gather(-1, plain.ids))
