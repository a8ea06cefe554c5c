"""Required phrases: every hypothesis contains them, and the search is what its definition says."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from focat.config.schema import SearchSettings
from focat.corpus.vocabulary import END, SEPARATOR, SPECIALS
from focat.corpus.word_boundaries import WordBoundaries
from focat.decoding.engine import Engine
from focat.decoding.phrases import PhraseCompiler
from focat.decoding.requests import Request
from focat.errors import ParameterError
from tests.decoding.slow_phrases import SlowPhrases, occurrences, slow_phrase_beam
from tests.decoding.slow_search import small
from tests.decoding.test_engine import source, tokens_of

WORDS = 8


def drawn_boundaries(draw: random.Random) -> WordBoundaries:
    """Tokens that begin words, continue them, and are punctuation; the first always begins one, the last never."""
    before, after = np.ones(SPECIALS + WORDS, np.bool_), np.ones(SPECIALS + WORDS, np.bool_)
    for token in range(SPECIALS, SPECIALS + WORDS):
        before[token], after[token] = draw.choice([(True, False), (True, False), (False, False), (True, True)])
    before[SPECIALS], after[SPECIALS], before[-1], after[-1] = True, False, False, False
    return WordBoundaries(before, after)


def drawn_phrases(draw: random.Random, words: WordBoundaries) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """One to three phrases of one to three forms, one of which may begin anywhere."""
    begin = [t for t in range(SPECIALS, SPECIALS + WORDS) if words.before[t]]
    phrases = []
    for _ in range(draw.randint(1, 3)):
        forms = []
        for i in range(draw.randint(1, 3)):
            first = draw.choice(begin) if i == 0 else draw.randrange(SPECIALS, SPECIALS + WORDS)
            rest = [draw.randrange(SPECIALS, SPECIALS + WORDS) for _ in range(draw.randint(0, 2))]
            forms.append((first, *rest))
        phrases.append(tuple(forms))
    if draw.random() < 0.3:
        phrases.append(phrases[0])
    return tuple(phrases)


def drawn_request(draw: random.Random, words: WordBoundaries) -> Request:
    sentences = draw.choice([None, 1, 1, 2, 3])
    prefix = draw.choice([[], [], [5, SEPARATOR], [6, 7], [5, SEPARATOR, 6]])
    if sentences == 1 and SEPARATOR in prefix:
        prefix = []
    closed = prefix.count(SEPARATOR)
    return Request(
        source(*(draw.randint(1, 3) for _ in range(sentences or 2)), words=WORDS, seed=draw.randrange(99)),
        prefix=prefix,
        sentences=sentences,
        max_length=draw.choice([1, 6, 9, 14]),
        required=drawn_phrases(draw, words),
        required_in=None if sentences is None or draw.random() < 0.5 else draw.randrange(closed, sentences),
    )


def test_every_hypothesis_contains_its_phrases_and_is_what_the_definition_says() -> None:
    for seed in range(10):
        draw = random.Random(seed)
        words = drawn_boundaries(draw)
        model = small(words=WORDS, seed=seed, scale=draw.choice([1.0, 3.0]))
        requests = [drawn_request(draw, words) for _ in range(4)]
        beam, penalty = draw.choice([1, 2, 3, 5]), draw.choice([0.0, 0.6, 1.5])
        engine = Engine(
            [model], SearchSettings(beam=beam, nbest=beam, length_penalty=penalty), boundaries=lambda words=words: words
        )
        for request, best in zip(requests, engine(requests), strict=True):
            assert best
            limit = engine._runner.schedule(0, request).max_length
            for hypothesis in best:
                check_contained(request, hypothesis.tokens, words)
                assert len(hypothesis.tokens) <= limit
            wanted = slow_phrase_beam([model], request, limit, beam, penalty, words)
            assert [hypothesis.tokens for hypothesis in best] == [tokens for _, tokens in wanted][: len(best)]
            assert [h.score for h in best] == pytest.approx([score for score, _ in wanted][: len(best)], abs=1e-5)


def check_contained(request: Request, tokens: list[int], words: WordBoundaries) -> None:
    sentences: list[list[int]] = [[]]
    for token in [*request.prefix, *tokens[:-1]]:
        if token == SEPARATOR:
            sentences.append([])
        else:
            sentences[-1].append(token)
    assert tokens[-1] == END
    assert END not in tokens[:-1]
    assert request.sentences in (None, len(sentences))
    sentence = sentences[request.required_segment]
    rules = SlowPhrases(request, words)
    for forms, count in zip(rules.phrases, rules.required, strict=True):
        assert occurrences(forms, sentence, words, pending=True) >= count


def test_phrases_do_not_depend_on_the_batch() -> None:
    """Requests with phrases of all sizes and without any, decoded together, alone, and in static buffers."""
    draw = random.Random(3)
    words = drawn_boundaries(draw)
    model = small(words=WORDS, seed=3)
    requests = [drawn_request(draw, words) for _ in range(14)]
    requests[::3] = [replace(request, required=(), required_in=None) for request in requests[::3]]
    settings = SearchSettings(beam=3, nbest=2, batch_tokens=1)
    alone = tokens_of(Engine([model], settings, boundaries=lambda: words)(requests))
    without = tokens_of(Engine([model], settings)(requests[::3]))
    assert alone[::3] == without
    for budget, stride, static in ((1000, 1, False), (60, 2, False), (90, 2, True), (1000, 3, True)):
        some = settings.model_copy(update={"batch_tokens": budget})
        engine = Engine([model], some, static=static, stride=stride, boundaries=lambda: words)
        assert tokens_of(engine(requests)) == alone
        found: dict[int, list[list[int]]] = {}  # again, with slots that are refilled while others are decoded
        for request in requests:
            engine.submit(request)
        while not engine.idle:
            found.update((id, [h.tokens for h in best]) for id, best in engine.step())
        assert [found[id] for id in sorted(found)] == alone


def test_requests_without_phrases_are_searched_as_ever() -> None:
    """No part of the search for phrases runs for them, on a CPU or in static buffers."""
    model = small(words=WORDS)
    requests = [Request(source(2, 3, words=WORDS, seed=seed), sentences=2) for seed in range(4)]
    for static in (False, True):
        engine = Engine([model], SearchSettings(beam=2), static=static, boundaries=never)
        engine(requests)
        if static:
            assert {buffers.shape.phrases for buffers in engine.batching.pool} == {0}
            assert all(buffers.search.phrases is None for buffers in engine.batching.pool)


def never() -> WordBoundaries:
    raise AssertionError("asked for")


def test_an_ensemble_with_phrases() -> None:
    draw = random.Random(5)
    words = drawn_boundaries(draw)
    models = [small(words=WORDS, seed=seed, shift=seed) for seed in (3, 4)]
    requests = [replace(drawn_request(draw, words), max_length=12) for _ in range(3)]
    found = Engine(models, SearchSettings(beam=3, nbest=3), boundaries=lambda: words)(requests)
    for request, best in zip(requests, found, strict=True):
        wanted = slow_phrase_beam(models, request, 12, 3, 0.6, words)
        assert [hypothesis.tokens for hypothesis in best] == [tokens for _, tokens in wanted]


def test_occurrences_by_hand() -> None:
    """`Haus` in `das Haus.`, `(Haus)` and `Haus`, not in `Hauses`; twice where it is required twice."""
    das, house, glued, es, stop, bracket = range(SPECIALS, SPECIALS + 6)
    before = np.array([True] * SPECIALS + [True, True, False, False, True, True])
    after = np.array([True] * SPECIALS + [False, False, False, False, True, True])
    words = WordBoundaries(before, after)
    automaton = PhraseCompiler(words).compile((((house,), (glued,)),))
    for tokens, count in (
        ([das, house, stop], 1),
        ([bracket, glued, stop], 1),
        ([house, END], 1),
        ([das, house, es, END], 0),
        ([das, glued, END], 0),
        ([house, house, stop, glued, END], 3),
    ):
        assert automaton.read(tokens, words)[1].tolist() == [count]


def test_a_phrase_within_another_is_required_besides() -> None:
    compiler = PhraseCompiler(WordBoundaries(np.ones(9, np.bool_), np.ones(9, np.bool_)))
    assert compiler.compile((((5,),), ((4, 5),), ((4, 5),))).required.tolist() == [3, 2]
    assert compiler.compile((((5,),), ((5,), (6,)))).required.tolist() == [1, 2]
    assert compiler.compile((((5,),), ((6,),))).required.tolist() == [1, 1]


def test_samples_with_phrases_are_refused() -> None:
    engine = Engine([small(words=WORDS)], SearchSettings(sample=True))
    with pytest.raises(ParameterError, match="sample = True: samples cannot be made to contain phrases"):
        engine([Request(source(2, words=WORDS), required=(((5,),),))])
