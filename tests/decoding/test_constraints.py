"""Whatever a model prefers, a translation has the required number of sentences, none of them empty."""

from __future__ import annotations

import pytest
import torch

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import END, PAD, SEPARATOR, SPECIALS, START
from focat.decoding.constraints import min_length, next_token_mask
from focat.decoding.engine import Engine
from focat.decoding.requests import Request
from focat.decoding.selection import top_words
from tests.decoding.slow_search import small
from tests.decoding.test_engine import source


@pytest.mark.parametrize("settings", [{"beam": 1}, {"beam": 4, "nbest": 4}, {"sample": True, "nbest": 4}])
@pytest.mark.parametrize("preferred", [None, END, SEPARATOR, PAD, START, 7])
def test_the_required_number_of_sentences(preferred: int | None, settings: dict[str, object]) -> None:
    """Also of models that always prefer END, SEPARATOR or a word."""
    model = small(words=6, positions="learned", seed=preferred or 0)
    with torch.no_grad():
        if preferred is not None:  # what every hidden state points to
            model.decoder[-1].feedforward_residual.norm.bias[:] = 2.0
            model.output_weight[preferred] = 2.0
    requests = [
        Request(
            source(*[2] * sentences, words=6, seed=sentences),
            prefix=[5, SEPARATOR] * before + [6] * started,
            sentences=sentences,
            max_length=longest,
        )
        for sentences in (1, 2, 3)
        for before in range(sentences)
        for started in (0, 1)
        for longest in (1, 7)
    ]
    for request, best in zip(requests, Engine([model], SearchSettings(**settings))(requests), strict=True):
        assert best
        for hypothesis in best:
            assert hypothesis.tokens[-1] == END
            assert not {PAD, START, END} & set(hypothesis.tokens[:-1])
            whole = " ".join(map(str, [*request.prefix, *hypothesis.tokens[:-1]]))
            sentences = [sentence.split() for sentence in whole.split(str(SEPARATOR))]
            assert len(sentences) == request.sentences
            assert all(sentences)
            closed, empty = list(request.prefix).count(SEPARATOR), request.prefix[-1:] != [6]
            assert len(hypothesis.tokens) <= max(request.max_length or 0, min_length(request.sentences, closed, empty))


def test_what_may_come_next() -> None:
    """By hand: two sentences wanted, one closed or none, a word there or not, five tokens left or just enough."""
    closed, empty = torch.tensor([[0, 0, 1, 1]]), torch.tensor([[True, False, True, False]])
    two, limit = torch.tensor([[2]]), torch.tensor([[9]])
    many = next_token_mask(closed, empty, limit - 5, limit, two)
    assert many.word.tolist() == [[True] * 4]
    assert many.separator.tolist() == [[False, True, False, False]]
    assert many.end.tolist() == [[False, False, False, True]]
    assert not many.forced.any()
    for left, forced in (
        (4, [True, False, False, False]),
        (3, [True, True, False, False]),
        (2, [True, True, True, False]),
    ):
        few = next_token_mask(closed, empty, limit - left, limit, two)
        assert few.forced.tolist() == [forced]
        assert few.word.tolist() == [[e or not f for e, f in zip(empty[0].tolist(), forced, strict=True)]]


def test_what_may_come_next_in_any_number_of_sentences() -> None:
    """Anything, but END is not the first token, and END alone is the last one that the limit allows."""
    closed, empty = torch.tensor([[0, 0, 1, 1]]), torch.tensor([[True, False, True, False]])
    any_number, limit = torch.tensor([[0]]), torch.tensor([[9]])
    first, later, last = (
        next_token_mask(closed, empty, torch.tensor([[decoded]]), limit, any_number) for decoded in (0, 1, 8)
    )
    assert (first.word & first.separator & ~first.end & ~first.forced).all()
    assert (later.word & later.separator & later.end & ~later.forced).all()
    assert (~last.word & ~last.separator & last.end & last.forced).all()


@pytest.mark.parametrize("settings", [{"beam": 1}, {"beam": 4, "nbest": 2}, {"sample": True, "nbest": 2}])
def test_any_number_of_sentences_has_at_least_one_token(settings: dict[str, object]) -> None:
    """Of a model that always prefers END, after any prefix and with any limit."""
    model = small(words=6)
    with torch.no_grad():
        model.decoder[-1].feedforward_residual.norm.bias[:] = 2.0
        model.output_weight[END] = 2.0
    requests = [
        Request(source(2, 2, words=6), prefix=prefix, max_length=max_length)
        for prefix in ([], [5, SEPARATOR], [5, SEPARATOR, 6])
        for max_length in (1, 2, 7)
    ]
    for best in Engine([model], SearchSettings(**settings))(requests):
        for hypothesis in best:
            assert len(hypothesis.tokens) >= 2
            assert hypothesis.tokens[-1] == END


def test_the_top_words_of_large_and_small_vocabularies() -> None:
    for vocabulary, count in ((8, 16), (130, 8), (1000, 3), (1024, 8), (2000, 8)):
        logits = torch.randn(3, 2, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
        wanted = logits[..., SPECIALS:].topk(min(count, vocabulary - SPECIALS))
        values, ids = top_words(logits.clone(), count)
        real = values.isfinite()
        assert torch.equal(values[real].view(3, 2, -1), wanted.values)
        assert torch.equal(ids[real].view(3, 2, -1), wanted.indices + SPECIALS)
