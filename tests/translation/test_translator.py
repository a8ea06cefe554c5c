"""Documents: one translation for each sentence, whatever it is, each in the right context."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import focat
from focat.api import Model
from focat.choices import TARGET_CONTEXTS
from focat.corpus.generated import generate
from focat.corpus.tokenizer import Tokenizer
from focat.corpus.vocabulary import END, SEPARATOR
from focat.decoding.requests import Hypothesis, Request
from focat.errors import FocatError
from focat.run import Run
from focat.translation.chunks import pieces_of
from focat.translation.result import Translation
from focat.translation.translator import (
    Answers,
    Candidate,
    Translator,
    current_sentence,
)
from focat.windows.batch import PaddedSequences
from focat.windows.segments import segments_of
from tests.translation.tiny import tiny_run

DOCUMENTS = [list(document.source)[:length] for document, length in zip(generate(4, 9), (4, 2, 5, 3), strict=True)]


class Requests:
    """Sees what is asked; the answers are those of the search, or made up."""

    def __init__(self, made_up: bool = False) -> None:
        self.rounds: list[list[Request]] = []
        self.answers: list[Answers] = []
        self._made_up = made_up

    def __call__(self, requests: Sequence[Request], compute: Callable[[], Answers]) -> Answers:
        made_up = [[[Candidate([50 + len(request.source) % 300], -1.0, True)]] for request in requests]
        self.rounds.append(list(requests))
        self.answers.append(made_up if self._made_up else compute())
        return self.answers[-1]

    @property
    def all(self) -> list[Request]:
        """In the order of the sentences."""
        return sorted(itertools.chain(*self.rounds), key=lambda request: request.number or 0)


def loaded(run: Run) -> Model:
    return focat.load(run.path, "cpu")


def asked(translator: Translator, lines: Sequence[str | None], made_up: bool = True) -> list[Request]:
    seen = Requests(made_up)
    list(translator.sentences(lines, seen))
    return seen.all


def texts(tokenizer: Tokenizer, tokens: Sequence[int], target: bool = False) -> list[str]:
    """The sentences of a window."""
    vocabulary = tokenizer.target if target else tokenizer.source
    sentences: list[list[int]] = [[]]
    for token in tokens:
        if token in (SEPARATOR, END):
            sentences.append([])
        else:
            sentences[-1].append(token)
    assert sentences.pop() == []
    return [vocabulary.decode(sentence) for sentence in sentences]


class TestAlignment:
    strange = st.one_of(
        st.text(max_size=20),
        st.sampled_from(
            [
                "", " ", "\t", "Hi", "<S>", "<E>", "a <S> b", "_eos", "<P><B>", "▁", "\U0010fffe", "\n", "a\nb", "\r\n",
                "\x00", "\x0b\x0c\x1c\u2028", "👩‍👩‍👧‍👦 🏴", "שלום עולם", "مرحبا", "\u202eabc", "a" * 100, "\ud800",
                "word " * 30, "e\u0301" * 40,
            ]
        ),
    )  # fmt: skip

    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(documents=st.lists(st.lists(strange, max_size=4), max_size=3), data=st.data())
    def test_one_for_one(self, documents: list[list[str]], data: st.DataObject, model: Model) -> None:
        context = data.draw(st.sampled_from(TARGET_CONTEXTS))
        constrained = data.draw(st.booleans())
        translator = model.translator(context=context, constrained=constrained, beam=1, max_length_offset=2)
        found = list(translator.translate(documents))
        assert [[translation.source for translation in document] for document in found] == documents
        for translation in itertools.chain(*found):
            assert len(translation.text.splitlines()) <= 1
            assert translation.text == translation.text.strip()
            if all(c.isspace() or unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in translation.source):
                assert (translation.text, translation.score) == ("", None)
            else:
                assert translation.score is not None

    def test_ten_thousand_words_on_a_line(self, model: Model) -> None:
        line = "The cat, which is old, sleeps. " * 1667
        lines = ["One.", line, "Two."]
        one, found, two = model.translator(context="none").sentences(lines, Requests(made_up=True))
        assert found.pieces > 200
        assert (one.pieces, two.pieces) == (1, 1)
        assert len(found.text.split()) >= found.pieces
        assert found.score is not None

    def test_documents_without_sentences(self, model: Model) -> None:
        found = model.translator(beam=1).translate([[], [], ["Hi."], [], ["Ho.", ""], []])
        assert [len(document) for document in found] == [0, 0, 1, 0, 2, 0]
        assert list(model.translator().translate([])) == []


class TestWindows:
    LINES = ("One.", "Two.", "", "Three.", "Four.", None, "Five.")

    @pytest.mark.parametrize("context", ["regenerate", "reuse"])
    def test_context_is_of_the_same_document_and_not_blank(self, context: str, model: Model) -> None:
        requests = asked(model.translator(context=context), self.LINES)
        windows = [texts(model.tokenizer, request.source) for request in requests]
        assert windows == [
            ["One."],
            ["One.", "Two."],
            ["One.", "Two.", "Three."],
            ["Two.", "Three.", "Four."],
            ["Five."],
        ]
        assert [request.sentences for request in requests] == [1, 2, 3, 3, 1]
        assert [request.current for request in requests] == [0, 1, 2, 2, 0]

    def test_regenerate_forces_nothing(self, model: Model) -> None:
        assert not any(request.prefix for request in asked(model.translator(context="regenerate"), self.LINES))

    def test_reuse_forces_what_was_translated(self, model: Model) -> None:
        seen = Requests()
        found = list(model.translator(context="reuse").sentences(self.LINES, seen))
        by_number = {
            request.number: candidates[0].tokens
            for requests, answers in zip(seen.rounds, seen.answers, strict=True)
            for request, (candidates,) in zip(requests, answers, strict=True)
        }
        tokens = [by_number[request.number] for request in seen.all]
        expected = [[], [0], [0, 1], [1, 2], []]
        for request, numbers in zip(seen.all, expected, strict=True):
            assert list(request.prefix) == [t for number in numbers for t in (*tokens[number], SEPARATOR)]
        words = [translation for translation in found if translation.source]
        for number, translation in enumerate(words):
            assert translation.text == model.tokenizer.target.decode(tokens[number]).strip()

    def test_none(self, model: Model, runs: Path) -> None:
        requests = asked(model.translator(context="none"), self.LINES)
        assert [texts(model.tokenizer, request.source) for request in requests] == [
            ["One."], ["Two."], ["Three."], ["Four."], ["Five."],
        ]  # fmt: skip
        to_one = loaded(tiny_run(runs, windows={"before": 2, "target_before": 0}))
        for context in TARGET_CONTEXTS:
            requests = asked(to_one.translator(context=context), self.LINES)
            assert [len(texts(model.tokenizer, request.source)) for request in requests] == [1, 2, 3, 3, 1]
            assert {request.sentences for request in requests} == {1}
            assert not any(request.prefix for request in requests)

    def test_a_translation_is_as_long_as_its_source_allows(self, model: Model, runs: Path) -> None:
        """Half of the tokens of what is decoded, and three: the settings of these runs."""
        lines = ["The cat is old.", "Tom sleeps here."]
        first, second = (len(model.tokenizer.source.encode(line)) + 1 for line in lines)
        to_one = loaded(tiny_run(runs, windows={"before": 2, "target_before": 0}))
        for system, context, expected in (
            (model, "regenerate", [first // 2 + 3, (first + second) // 2 + 3]),
            (model, "reuse", [first // 2 + 3, second // 2 + 3]),
            (to_one, "regenerate", [first // 2 + 3, second // 2 + 3]),
        ):
            requests = asked(system.translator(context=context), lines)
            assert [request.longest for request in requests] == expected

    def test_fewer_sentences_on_the_target(self, runs: Path) -> None:
        to_two = loaded(tiny_run(runs, windows={"before": 2, "target_before": 1}))
        for context in ("regenerate", "reuse"):
            requests = asked(to_two.translator(context=context), self.LINES)
            assert [request.sentences for request in requests] == [1, 2, 2, 2, 1]
            assert [request.current for request in requests] == [0, 1, 2, 2, 0]
        assert [list(request.prefix).count(SEPARATOR) for request in requests] == [0, 1, 1, 1, 0]

    @pytest.mark.parametrize("context", ["regenerate", "reuse"])
    def test_sentences_behind_the_current_one(self, context: str, runs: Path) -> None:
        ahead = loaded(tiny_run(runs, windows={"before": 1, "after": 1}))
        seen = Requests()
        found = list(ahead.translator(context=context).sentences(self.LINES, seen))
        assert [texts(ahead.tokenizer, request.source) for request in seen.all] == [
            ["One.", "Two."], ["One.", "Two.", "Three."], ["Two.", "Three.", "Four."], ["Three.", "Four."], ["Five."],
        ]  # fmt: skip
        assert [request.current for request in seen.all] == [0, 1, 1, 1, 0]
        assert [request.sentences for request in seen.all] == [2, 3, 3, 2, 1]
        with pytest.raises(FocatError, match="--unconstrained keeps the last sentence"):
            ahead.translator(context=context, constrained=False)
        assert all(translation.text for translation in found if translation.source)

    def test_other_windows_than_in_training(self, model: Model) -> None:
        lines = ["A.", "B.", "C.", "D.", "E.", "F."]
        for window in (1, 2, 6):
            requests = asked(model.translator(window=window), lines)
            assert [len(texts(model.tokenizer, r.source)) for r in requests] == [min(i + 1, window) for i in range(6)]
        assert len(list(model.translator(window=6).sentences(lines))) == 6

    @pytest.mark.parametrize("window", [1, 2, 5])
    def test_segments_are_counted_from_the_current_sentence(self, window: int, runs: Path) -> None:
        """In windows of any size, what is decoded has the probability that teacher forcing gives it."""
        embedded = loaded(tiny_run(runs, model={"segment_embeddings": "learned", "attention": "group"}))
        translator = embedded.translator(window=window, context="regenerate", beam=1)
        seen = Requests(made_up=True)
        list(translator.sentences(["One.", "Two.", "Three.", "Four.", "Five."], seen))
        request = seen.all[-1]
        ((found,),) = translator._searcher([request])
        source, target = (torch.tensor([list(tokens)]) for tokens in (request.source, found.tokens))
        last = torch.tensor([window - 1])
        sides = [PaddedSequences(tokens, segments_of(tokens), last) for tokens in (source, target)]
        with torch.no_grad():
            log_probabilities = embedded.models[0].project(embedded.models[0](*sides)).log_softmax(-1)
        expected = log_probabilities[0].gather(1, target.T)[:, 0]
        assert found.token_scores == pytest.approx(expected.tolist(), abs=1e-4)

    def test_learned_positions_have_an_end(self, runs: Path) -> None:
        learned = loaded(tiny_run(runs, model={"positions": "learned"}))
        assert len(list(learned.translator(window=3).sentences(["A.", "B."]))) == 2
        with pytest.raises(FocatError, match="--window 4: this model has learned positions, for windows of at most 3"):
            learned.translator(window=4)

    def test_context_that_does_not_fit_is_dropped_oldest_first(self, model: Model) -> None:
        words = "The cat sleeps here . "
        tokens = len(model.tokenizer.source.encode(words.strip())) + 1
        long = (words * (40 // tokens)).strip()  # two of them are too much for 64 tokens
        lines = ["A.", long, "B.", long, "C."]
        seen = Requests(made_up=True)
        found = list(model.translator(context="regenerate").sentences(lines, seen))
        assert [texts(model.tokenizer, request.source) for request in seen.all] == [
            ["A."], ["A.", long], ["A.", long, "B."], ["B.", long], ["B.", long, "C."],
        ]  # fmt: skip
        assert [translation.shortened for translation in found] == [False, False, False, True, False]

    def test_a_long_translation_takes_room_too(self, model: Model) -> None:
        """Reused context counts by its own length, which may be more than that of its source."""

        def long_answers(requests: Sequence[Request], _: Callable[[], Answers]) -> Answers:
            asked.extend(requests)
            return [[[Candidate([60] * 45, -1.0, True)]] for _ in requests]

        asked: list[Request] = []
        found = list(model.translator(context="reuse").sentences(["A.", "B.", "C."], long_answers))
        assert [list(request.prefix).count(SEPARATOR) for request in asked] == [0, 1, 1]
        assert found[2].shortened


class TestSameAnswers:
    """What comes out does not depend on how the work was cut."""

    @pytest.mark.parametrize("context", ["regenerate", "reuse"])
    def test_whatever_the_batches(self, context: str, model: Model) -> None:
        def translations(documents: list[list[str]], **options: int) -> list[list[str]]:
            found = model.translator(context=context, beam=2, **options).translate(documents)
            return [[translation.text for translation in document] for document in found]

        expected = translations(DOCUMENTS)
        assert translations(DOCUMENTS, batch_tokens=60) == expected
        assert translations(DOCUMENTS, ahead=3) == expected
        assert translations(DOCUMENTS[2:]) == expected[2:]

    def test_sampling_too(self, model: Model) -> None:
        def sampled(**options: int) -> list[list[str]]:
            translator = model.translator(sample=True, nbest=2, **options)
            return [[t.text for t in document] for document in translator.translate(DOCUMENTS)]

        first = sampled()
        assert first == sampled(batch_tokens=100, ahead=3)
        assert first != sampled(seed=2)

    def test_documents_run_side_by_side(self, model: Model) -> None:
        seen = Requests(made_up=True)
        lines = [line for document in DOCUMENTS for line in (*document, None)]
        list(model.translator(context="reuse").sentences(lines, seen))
        assert len(seen.rounds[0]) == len(DOCUMENTS)
        assert len(seen.rounds) == max(map(len, DOCUMENTS))

    def test_a_gpu_goes_on_at_once_with_sentences_that_have_waited(self, model: Model) -> None:
        """Also when the first rounds were answered at an earlier time."""
        lines = [line for document in DOCUMENTS for line in (*document, None)]
        expected = list(model.translator(context="reuse", beam=2).sentences(lines))
        translator = model.translator(context="reuse", beam=2)
        translator._searcher.static, translator._in_a_row = True, 2

        def same(found: Iterable[Translation]) -> bool:
            return [(t.text, pytest.approx(t.score, abs=1e-4)) for t in found] == [(t.text, t.score) for t in expected]

        seen = Requests()
        assert same(translator.sentences(lines, seen))
        assert len(seen.rounds) == -(-max(map(len, DOCUMENTS)) // 2)
        assert max(len(chain) for chain in seen.answers[0]) == 2
        for known in range(1, len(seen.rounds) + 1):
            earlier = iter(seen.answers[:known])
            assert same(
                translator.sentences(lines, lambda _, compute, earlier=earlier: next(earlier, None) or compute())
            )

    def test_regenerate_is_reuse_with_what_it_decoded(self, model: Model) -> None:
        """Force the context that the whole window was decoded with: the current sentence comes out the same."""
        translator = model.translator(context="regenerate", beam=1)
        requests = asked(translator, DOCUMENTS[0])
        searcher = translator._searcher
        compared = 0
        for request, (whole,) in zip(requests, searcher(requests), strict=True):
            assert request.sentences is not None
            place = request.sentences - 1
            ends = [i + 1 for i, token in enumerate(whole.tokens) if token == SEPARATOR]
            start = ends[-1] if ends else 0
            left = (
                int(translator.settings.max_length_ratio * len(request.source))
                + translator.settings.max_length_offset
                - start
            )
            forced = Request(request.source, whole.tokens[:start], request.sentences, left, request.current)
            ((current,),) = searcher([forced])
            expected, found = current_sentence(whole, place, True), current_sentence(current, 0, True)
            assert found.tokens == expected.tokens
            assert found.log_probability == pytest.approx(expected.log_probability, abs=1e-4)
            compared += place > 0
        assert compared == len(DOCUMENTS[0]) - 1


class TestPaperRule:
    @pytest.mark.parametrize(
        ("tokens", "kept", "score"),
        [
            ([10, 11, END], [10, 11], 2 + 4 + 8),  # no separator: everything is kept
            ([10, SEPARATOR, 12, 13, END], [12, 13], 8 + 16 + 32),
            ([10, SEPARATOR, 12, SEPARATOR, END], [], 32),
            ([10, SEPARATOR, 12], [12], 8),  # without an end
        ],
    )
    def test_what_follows_the_last_separator(self, tokens: list[int], kept: list[int], score: float) -> None:
        hypothesis = Hypothesis(tokens, [2.0 ** (i + 1) for i in range(len(tokens))], 0.0, 0.0, True)
        found = current_sentence(hypothesis, 7, constrained=False)
        assert (found.tokens, found.log_probability) == (kept, score)

    def test_the_sentence_at_its_place(self) -> None:
        hypothesis = Hypothesis([10, SEPARATOR, 12, SEPARATOR, 14, END], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0], 0, 0, True)
        assert current_sentence(hypothesis, 0, True) == Candidate([10], 3.0, True)
        assert current_sentence(hypothesis, 1, True) == Candidate([12], 12.0, True)
        assert current_sentence(hypothesis, 2, True) == Candidate([14], 48.0, True)

    def test_nothing_is_asked_of_the_number_of_sentences(self, model: Model) -> None:
        requests = asked(model.translator(context="regenerate", constrained=False), DOCUMENTS[0])
        assert {request.sentences for request in requests} == {None}

    def test_an_empty_translation_is_no_context(self, model: Model) -> None:
        def empty(requests: Sequence[Request], _: Callable[[], Answers]) -> Answers:
            prefixes.extend(request.prefix for request in requests)
            return [[[Candidate([], -1.0, True)]] for _ in requests]

        prefixes: list[Sequence[int]] = []
        found = list(model.translator(context="reuse", constrained=False).sentences(["A.", "B."], empty))
        assert [translation.text for translation in found] == ["", ""]
        assert prefixes == [[], []]


class TestScores:
    def test_score_is_of_the_sentence_alone(self, model: Model) -> None:
        translator = model.translator(context="reuse", nbest=2, length_penalty=0.6)
        seen = Requests()
        found = list(translator.sentences(DOCUMENTS[0], seen))
        for translation, request in zip(found, seen.all, strict=True):
            (hypotheses,) = translator._searcher([request])
            scores = [alternative.score for alternative in translation.alternatives]
            assert scores == pytest.approx([hypothesis.score for hypothesis in hypotheses], abs=1e-5)
            assert translation.score == scores[0]
            assert translation.text == translation.alternatives[0].text
            assert translation.cut != hypotheses[0].finished


class TestPieces:
    def test_breaks_where_it_hurts_least(self, model: Model) -> None:
        vocabulary = model.tokenizer.source
        text = "The cat sleeps here, and the dog is old. Tom is here now and so is Max " * 3
        pieces = pieces_of(text.strip(), vocabulary, 20, 20)
        decoded = [vocabulary.decode(piece.tokens) for piece in pieces]
        assert all(len(piece.tokens) <= 20 for piece in pieces)
        assert all(piece.joint == " " for piece in pieces[:-1])
        assert " ".join(decoded) == vocabulary.normalise(text.strip())
        assert decoded[0] in ("The cat sleeps here,", "The cat sleeps here, and the dog is old.")

    def test_a_word_without_end_is_cut_between_tokens(self, model: Model) -> None:
        vocabulary = model.tokenizer.source
        pieces = pieces_of("x" * 500, vocabulary, 30, 10)
        assert {len(piece.tokens) for piece in pieces[:-1]} == {10}
        assert {piece.joint for piece in pieces} == {""}
        assert [t for piece in pieces for t in piece.tokens] == vocabulary.encode("x" * 500)

    def test_whole_if_it_fits(self, model: Model) -> None:
        tokens = model.tokenizer.source.encode("The cat sleeps.")
        (piece,) = pieces_of("The cat sleeps.", model.tokenizer.source, len(tokens), 2)
        assert piece.tokens == tokens

    @given(text=st.text(st.sampled_from("ab .,"), min_size=1, max_size=200), size=st.integers(4, 20))
    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_nothing_is_lost(self, text: str, size: int, model: Model) -> None:
        pieces = pieces_of(text.strip() or "a", model.tokenizer.source, size, size)
        assert all(0 < len(piece.tokens) <= size for piece in pieces)
        found = "".join(model.tokenizer.source.decode(piece.tokens) for piece in pieces)
        assert found.replace(" ", "") == (text.strip() or "a").replace(" ", "")


class TestMemory:
    @pytest.mark.parametrize("context", ["regenerate", "reuse"])
    def test_does_not_grow_with_the_document(self, context: str, model: Model) -> None:
        """An endless document: no more is read than may be ahead, and what came out is forgotten."""
        read = 0

        def endless() -> Iterator[str]:
            nonlocal read
            for read in itertools.count(1):
                yield f"Sentence {read} of a document that never ends."

        translator = model.translator(context=context, ahead=100)
        arriving = translator.sentences(
            endless(), lambda requests, _: [[[Candidate([60], -1.0, True)]]] * len(requests)
        )

        def least(count: int) -> int:
            """The least memory held at any moment of so many sentences, whatever the batch is at."""
            held = []
            for _ in itertools.islice(arriving, count):
                assert read - next(produced) <= 100
                held.append(tracemalloc.get_traced_memory()[0])
            return min(held)

        produced = itertools.count(1)
        tracemalloc.start()
        least(300)  # what is made once, is made now
        gc.collect()
        before = least(300)
        least(3000)
        gc.collect()
        after = least(300)
        tracemalloc.stop()
        assert after - before < 3300 * 60  # the text alone of a sentence that stayed is a hundred bytes
