"""The kernels that find the most probable tokens, against a sorted row of log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch

from focat.c_library import load_library
from focat.corpus.vocabulary import END, SEPARATOR, SPECIALS
from focat.decoding import selection, top_tokens
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


@pytest.fixture
def compiled() -> Iterator[None]:
    """With the kernel of CPUs, in one thread."""
    if load_library(top_tokens._SOURCE) is None:
        pytest.skip("there is no C compiler")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("vocabulary", [SPECIALS + 8, 130, 128 + SPECIALS, 1000, 32_001])
@pytest.mark.parametrize("size", [0.1, 3.0, 40.0])
def test_on_a_cpu(vocabulary: int, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    logits = size * torch.randn(3, 4, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
    logits[0, 0, SPECIALS], logits[0, 1, -1], logits[0, 2, END] = 9 * size, 9 * size, 20 * size
    logits[1, 0] = logits[1, 0].sort().values  # every word is better than those before
    logits[1, 1, 10:] = -math.inf
    assert top_tokens.can_find_top_tokens(logits, 8)
    found = TopTokens.of(logits.clone(), 8)
    check(found, logits)
    monkeypatch.setattr(selection, "can_find_top_tokens", lambda *_: False)
    plain = TopTokens.of(logits.clone(), 8)
    torch.testing.assert_close(found.closing, plain.closing, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.words, plain.words, atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_on_a_cpu_what_is_no_number_spoils_its_row_alone(odd: float) -> None:
    logits = torch.randn(1, 3, 500, generator=torch.Generator().manual_seed(0))
    wanted = TopTokens.of(logits.clone(), 8)
    logits[0, 1, 77], logits[0, 2] = odd, math.nan
    found = TopTokens.of(logits, 8)
    assert torch.equal(found.words[0, 0], wanted.words[0, 0])
    assert found.words[0, 1:].isnan().any(-1).all()
    assert found.closing[0, 2].isnan().all()
    assert ((found.ids >= SPECIALS) & (found.ids < 500)).all()


@pytest.mark.usefixtures("compiled")
def test_on_a_cpu_by_hand() -> None:
    """Of equal words, the first; probabilities are 1/10 for one word, and 3/10 for each of three."""
    logits = torch.full((1, 1, 300), -math.inf)
    logits[0, 0, [200, 7, 299, 8]] = torch.tensor([3.0, 3.0, 3.0, 1.0]).log()
    found = TopTokens.of(logits, 5)
    assert found.ids[0, 0, :4].tolist() == [7, 200, 299, 8]
    assert found.words[0, 0].exp().tolist() == pytest.approx([0.3, 0.3, 0.3, 0.1, 0.0])


@pytest.mark.usefixtures("compiled")
def test_where_the_kernel_of_cpus_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.zeros(2, 4, 300)
    serves = top_tokens.can_find_top_tokens
    assert serves(logits, 8)
    assert not serves(logits, 300)
    assert not serves(logits.double(), 8)
    assert not serves(logits.transpose(0, 1), 8)
    assert not serves(logits.to("meta"), 8)
    torch.set_num_threads(4)
    assert not serves(logits, 8)
    torch.set_num_threads(1)
    monkeypatch.setattr(top_tokens, "load_library", lambda _: None)
    assert not serves(logits, 8)
