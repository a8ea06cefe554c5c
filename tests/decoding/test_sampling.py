"""Sampling: the same draw for the same seed, by the right probabilities."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import END, SEPARATOR
from focat.decoding.engine import Engine
from focat.decoding.requests import Request
from tests.decoding.slow_search import log_probabilities, scored, small
from tests.decoding.test_engine import source, tokens_of

REQUEST = Request(source(2, 1, words=4), max_length=2)


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (2.0, 1.0), (0.7, 1.0), (1.0, 0.8), (2.0, 0.9)])
def test_tokens_are_sampled_by_their_probability(temperature: float, top_p: float) -> None:
    """6,000 draws of a first token against probabilities worked out one by one (chi-square, far into its tail)."""
    model = small(words=4, scale=1.0)
    settings = SearchSettings(sample=True, nbest=20, temperature=temperature, top_p=top_p, batch_tokens=100_000)
    found = Engine([model], settings)([REQUEST] * 300)
    counts = Counter(hypothesis.tokens[0] for best in found for hypothesis in best)
    logits = log_probabilities([model], REQUEST, [END])[0] / temperature
    possible = {token: float(logits[token].exp()) for token in range(SEPARATOR, len(logits))}  # END is never the first
    total, mass, kept = sum(possible.values()), 0.0, {}
    for token in sorted(possible, key=lambda token: -possible[token]):
        if mass < top_p:
            kept[token] = possible[token] / total
        mass += possible[token] / total
    assert set(counts) <= set(kept)
    expected = {token: 6000 * share / sum(kept.values()) for token, share in kept.items()}
    chi_square = sum((counts[token] - wanted) ** 2 / wanted for token, wanted in expected.items())
    assert len(kept) > 2
    assert chi_square < 25  # with 5 degrees of freedom or fewer, one seed in 7,000 goes beyond


def test_the_seeds_of_settings_and_request_decide_all() -> None:
    model = small(words=20)
    requests = [Request(source(2, 2, words=20, seed=seed), sentences=2) for seed in range(4)]
    settings = SearchSettings(sample=True, nbest=3)
    first = Engine([model], settings)(requests)
    assert tokens_of(Engine([model], settings)(requests)) == tokens_of(first)
    assert tokens_of(Engine([model], SearchSettings(sample=True, nbest=3, seed=2))(requests)) != tokens_of(first)
    seeded = [replace(requests[2], seed=2)]
    assert tokens_of(Engine([model], settings)(seeded)) == tokens_of(first)[2:3]
    assert len({tuple(hypothesis.tokens) for hypothesis in first[0]}) > 1


def test_scores_are_the_models_own_whatever_the_temperature() -> None:
    model = small(words=20)
    request = Request(source(2, 2, words=20), sentences=2, prefix=[7, SEPARATOR])
    [found] = Engine([model], SearchSettings(sample=True, nbest=4, temperature=0.5, top_p=0.7))([request])
    assert [hypothesis.score for hypothesis in found] == sorted((h.score for h in found), reverse=True)
    for hypothesis in found:
        assert hypothesis.token_scores == pytest.approx(scored([model], request, hypothesis.tokens), abs=1e-4)


def test_the_smallest_top_p_is_greedy() -> None:
    model = small(words=20)
    requests = [Request(source(2, 2, words=20, seed=seed), max_length=9) for seed in range(5)]
    drawn = Engine([model], SearchSettings(sample=True, top_p=1e-6))(requests)
    assert tokens_of(drawn) == tokens_of(Engine([model], SearchSettings(beam=1))(requests))


def test_in_half_precision_nothing_is_lost() -> None:
    """Logits of a model in bfloat16 are summed up in float32."""
    model = small(words=300).to(torch.bfloat16)
    [[best]] = Engine([model], SearchSettings())([Request(source(2, 2, words=300), sentences=2)])
    assert best.log_probability == pytest.approx(sum(best.token_scores))
