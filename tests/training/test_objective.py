"""The discounted objective against a slow version of itself, and against numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from focat.corpus.vocabulary import END, PAD, SEPARATOR
from focat.training.objective import LossSums, chunked_loss, losses_and_gradient, token_weights
from focat.windows.batch import PaddedSequences
from tests.model.examples import side, window

S, E = SEPARATOR, END


# ------------------------------------------------------------------------------------------------------- token weights


def weights_slowly(target: PaddedSequences, discount: float) -> list[list[float]]:
    """Token by token: count separators; a separator still belongs to the sentence it closes."""
    rows = []
    for tokens, current in zip(target.tokens.tolist(), target.current.tolist(), strict=True):
        sentence, weights = 0, []
        for token in tokens:
            weights.append(0.0 if token == PAD else 1.0 if sentence == current else discount)
            sentence += token == SEPARATOR
        rows.append(weights)
    return rows


def test_weights_of_a_window_by_hand() -> None:
    """Facts of the paper: CD for every context token and the `<S>` right before the current sentence, 1 for `<E>`."""
    target = side([11, 12, S, 13, S, 14, 15, E])
    torch.testing.assert_close(token_weights(target, 0.01), torch.tensor([[0.01] * 5 + [1.0] * 3]))


def test_weights_with_context_behind_by_hand() -> None:
    """The separator that closes the current sentence is its own; `<E>` closes a context sentence here."""
    target = side([11, S, 12, 13, S, 14, E], current=[1])
    torch.testing.assert_close(token_weights(target, 0.5), torch.tensor([[0.5, 0.5, 1, 1, 1, 0.5, 0.5]]))


def test_one_sentence_weighs_one_whatever_the_discount() -> None:
    target = side([11, 12, E], [13, E])
    assert token_weights(target, 0.0).tolist() == [[1, 1, 1], [1, 1, 0]]


@pytest.mark.parametrize("discount", [0.0, 0.01, 1.0])
def test_weights_are_those_of_the_loop(discount: float) -> None:
    target = side(window(3, 2, 4), window(5), window(1, 1), window(2, 0, 3), current=[1, 0, 1, 2], pads=2)
    expected = torch.tensor(weights_slowly(target, discount))
    torch.testing.assert_close(token_weights(target, discount), expected)
    torch.testing.assert_close(token_weights(target, torch.tensor(discount)), expected)


# -------------------------------------------------------------------------------------------------------- chunked loss

VOCABULARY, WIDTH, SMOOTHING = 20, 6, 0.1


def example(dtype: torch.dtype = torch.float32) -> tuple[PaddedSequences, Tensor, Tensor]:
    """Three windows of 3 × 10 tokens, some of them padding; hidden states; a projection."""
    target = side(window(3, 2, 2), window(4), window(1, 5))
    target = side(*(row[row != PAD].tolist() for row in target.tokens), pads=10 - target.tokens.shape[1])
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(3, 10, WIDTH, generator=generator).to(dtype).requires_grad_()
    projection = torch.randn(VOCABULARY, WIDTH, generator=generator).requires_grad_()
    return target, hidden, projection


def loss_in_one_piece(
    target: PaddedSequences, hidden: Tensor, projection: Tensor, discount: float, bias: Tensor | None = None
) -> Tensor:
    """The same in float64 by PyTorch's own cross entropy, all logits at once."""
    logits = F.linear(hidden.double(), projection.double(), None if bias is None else bias.double())
    losses = F.cross_entropy(logits.flatten(0, 1), target.tokens.flatten(), reduction="none", label_smoothing=SMOOTHING)
    return (losses * torch.tensor(weights_slowly(target, discount), dtype=torch.float64).flatten()).sum()


@pytest.mark.parametrize("chunk", [1, 7, 10, 29, 30, 31, 1000])
@pytest.mark.parametrize("discount", [0.0, 0.01, 1.0])
def test_chunks_have_the_value_and_gradient_of_the_whole(chunk: int, discount: float) -> None:
    target, hidden, projection = example()
    expected = loss_in_one_piece(target, hidden, projection, discount)
    expected_gradients = torch.autograd.grad(3 * expected, [hidden, projection])

    weights = token_weights(target, discount)
    total, _, _ = chunked_loss(hidden, projection, target.tokens, weights, SMOOTHING, chunk)
    gradients = torch.autograd.grad(3 * total, [hidden, projection])  # what comes after the loss scales its gradient
    torch.testing.assert_close(total.double(), expected, rtol=1e-6, atol=0)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_bias_has_its_part_in_value_and_gradient(dtype: torch.dtype) -> None:
    target, hidden, projection = example(dtype)
    bias = torch.linspace(-3, 3, VOCABULARY).requires_grad_()
    inputs = [hidden, projection, bias]
    expected = loss_in_one_piece(target, hidden, projection, 0.01, bias)
    total, _, _ = chunked_loss(
        hidden, projection, target.tokens, token_weights(target, 0.01), SMOOTHING, chunk=7, bias=bias
    )
    exact = dtype == torch.float32
    torch.testing.assert_close(total.double(), expected, rtol=1e-6 if exact else 1e-2, atol=0)
    gradients = torch.autograd.grad(3 * total, inputs), torch.autograd.grad(3 * expected, inputs)
    for found, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=2e-6 if exact else 0.1)
    assert gradients[0][2].dtype == torch.float32


def test_losses_of_each_token() -> None:
    """With smoothing and without; without is −log softmax, token by token; padding has none."""
    target, hidden, projection = example()
    weights = token_weights(target, 0.01)
    _, smoothed, plain = chunked_loss(hidden, projection, target.tokens, weights, SMOOTHING, 7)
    probabilities = torch.log_softmax((hidden @ projection.T).detach(), -1)  # (windows, length, vocabulary)
    for row in range(3):
        for t in range(10):
            token = int(target.tokens[row, t])
            expected, spread = -probabilities[row, t, token], -probabilities[row, t].mean()
            real = token != PAD
            assert plain[row, t] == pytest.approx(float(expected) * real, rel=1e-5)
            assert smoothed[row, t] == pytest.approx(float(0.9 * expected + 0.1 * spread) * real, rel=1e-5)


def test_loss_by_hand() -> None:
    """A vocabulary of three, whose logits 0, ln 2 and ln 5 make probabilities of 1/8, 2/8 and 5/8.

    The label is 2: −ln(5/8) = 0.4700. Smoothing by 0.3 takes 0.7 of it, and 0.1 of −ln(1/8) − ln(2/8) − ln(5/8) =
    3.9357, together 0.7226; the weight of 0.5 halves it.
    """
    hidden = torch.tensor([[[1.0]]], requires_grad=True)
    projection = torch.tensor([[0.0], [math.log(2)], [math.log(5)]])
    total, smoothed, plain = chunked_loss(hidden, projection, torch.tensor([[END]]), torch.tensor([[0.5]]), 0.3, 4)
    assert float(plain) == pytest.approx(0.4700, abs=1e-4)
    assert float(smoothed) == pytest.approx(0.7226, abs=1e-4)
    assert float(total.detach()) == pytest.approx(0.3613, abs=1e-4)
    # Gradient of each logit: weight · (probability − wanted), with 0.1, 0.1 and 0.8 wanted.
    by_hand = 0.5 * ((1 / 8 - 0.1) * 0 + (2 / 8 - 0.1) * math.log(2) + (5 / 8 - 0.8) * math.log(5))
    assert float(torch.autograd.grad(total, hidden)[0]) == pytest.approx(by_hand, abs=1e-6)


def test_discount_zero_leaves_the_context_without_any_gradient() -> None:
    target, hidden, projection = example()
    total, _, _ = chunked_loss(hidden, projection, target.tokens, token_weights(target, 0.0), SMOOTHING, 7)
    (gradient,) = torch.autograd.grad(total, hidden)
    felt = gradient.abs().sum(-1) > 0  # (windows, length)
    assert torch.equal(felt, target.segments == target.current[:, None])


def test_half_precision_is_close() -> None:
    """bfloat16 has 8 bits: 3 digits of the loss, 2 of a gradient that is not near zero."""
    target, hidden, projection = example(torch.bfloat16)
    expected = loss_in_one_piece(target, hidden, projection, 0.01)
    expected_gradients = torch.autograd.grad(expected, [hidden, projection])
    total, _, _ = chunked_loss(hidden, projection, target.tokens, token_weights(target, 0.01), SMOOTHING, 7)
    gradients = torch.autograd.grad(total, [hidden, projection])
    assert gradients[0].dtype == torch.bfloat16
    assert gradients[1].dtype == torch.float32  # it is added to that of the embedding
    torch.testing.assert_close(total.double(), expected, rtol=1e-2, atol=0)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(found.double(), wanted.double(), rtol=0.05, atol=0.03)


class Sizes(TorchDispatchMode):
    """Takes note of the size of every tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        sizes = [tensor.numel() for tensor in tree_leaves(made) if isinstance(tensor, Tensor)]
        self.largest = max([self.largest, *sizes])
        return made


@pytest.mark.parametrize("training", [True, False])
def test_logits_of_the_whole_batch_never_exist_at_once(training: bool) -> None:
    """30 tokens × 400 words would be 12,000 numbers; a chunk of 5 tokens has 2,000; the projection itself 2,400."""
    target, hidden, _ = example()
    projection = torch.randn(400, WIDTH, requires_grad=True)
    weights = token_weights(target, 0.01)
    with torch.set_grad_enabled(training), Sizes() as sizes:
        total, _, _ = chunked_loss(hidden, projection, target.tokens, weights, SMOOTHING, 5)
        if training:
            total.backward()
    assert 2000 <= sizes.largest <= 2400
    with Sizes() as sizes:
        loss_in_one_piece(target, hidden, projection, 0.01).backward()
    assert sizes.largest == 12000  # so it is seen when they do


def test_no_gradient_is_computed_where_none_is_wanted() -> None:
    """In validation, although the projection is a parameter: it would cost twice as much again as the loss."""
    target, hidden, projection = example()
    weights = token_weights(target, 1.0)
    calls = []

    def kernel(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        calls.append(1)
        return losses_and_gradient(*arguments)

    expected = chunked_loss(hidden, projection, target.tokens, weights, SMOOTHING, 10, kernel)
    assert len(calls) == 3
    with torch.no_grad():
        found = chunked_loss(hidden, projection, target.tokens, weights, SMOOTHING, 10, kernel)
    assert len(calls) == 3
    for some, others in zip(found, expected, strict=True):
        torch.testing.assert_close(some, others.detach())


# ------------------------------------------------------------------------------------------------------------- figures


def test_figures_by_hand() -> None:
    """a <S> b c <E>: context losses 4 and 6, current losses 1, 2 and 3; plain ones are half of them; padding is 9."""
    target = side([11, S, 12, 13, E], pads=1)
    smoothed = torch.tensor([[4.0, 6.0, 1.0, 2.0, 3.0, 9.0]])
    figures = LossSums.from_tokens(target, smoothed, smoothed / 2).means(0.1)
    assert figures == pytest.approx(
        {
            "current": 2.0,  # 6 / 3
            "context": 5.0,  # 10 / 2
            "ratio": 0.4,  # 2 / 5
            "full": 3.2,  # 16 / 5
            "discounted": 1.4,  # (6 + 0.1 · 10) / 5: divided by all tokens, as the gradient is
            "current_nll": 1.0,
        }
    )


def test_figures_of_batches_add_up_by_token_not_by_batch() -> None:
    long, short = side([11, S, 12, 13, E]), side([12, E])
    losses = LossSums.from_tokens(long, torch.full((1, 5), 3.0), torch.full((1, 5), 2.0))
    losses = (
        LossSums.zero("cpu") + losses + LossSums.from_tokens(short, torch.full((1, 2), 8.0), torch.full((1, 2), 7.0))
    )
    figures = losses.means(1.0)
    assert figures["current"] == pytest.approx((3 * 3 + 2 * 8) / 5)
    assert figures["context"] == pytest.approx(3.0)
    assert figures["full"] == figures["discounted"] == pytest.approx((5 * 3 + 2 * 8) / 7)
    assert figures["current_nll"] == pytest.approx((3 * 2 + 2 * 7) / 5)


def test_without_context_there_is_no_context_loss() -> None:
    target = side([11, 12, E])
    figures = LossSums.from_tokens(target, torch.full((1, 3), 2.0), torch.full((1, 3), 2.0)).means(0.01)
    assert figures == {"current": 2.0, "full": 2.0, "discounted": 2.0, "current_nll": 2.0}
    assert set(LossSums.zero("cpu").means(0.01).values()) == {0.0}
