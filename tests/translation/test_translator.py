"""Documents: one translation for each sentence, whatever it is, each in the right context."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import partial
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
from focat.decoding.engine import Engine
from focat.decoding.requests import Hypothesis, Request
from focat.errors import FocatError
from focat.run import Run, load_system
from focat.translation import translator as translator_module
from focat.translation.chunks import split_into_chunks
from focat.translation.document_stream import OutputSentence
from focat.translation.driver import WindowDriver
from focat.translation.sentence_decoder import Decoded, DecodedSentence, SentenceDecoder, extract_sentence
from focat.translation.translator import Translator
from focat.windows.batch import PaddedSequences
from focat.windows.segments import segments_of
from tests.translation.tiny import tiny_run

DOCUMENTS = [list(document.source)[:length] for document, length in zip(generate(4, 9), (4, 2, 5, 3), strict=True)]


class RecordingDecoder:
    """Records what is submitted; results are those of another decoder, or made up, one for each request."""

    def __init__(self, inner: SentenceDecoder | None = None, made_up: Callable[[Request], list[int]] | None = None):
        self.waves: list[list[Request]] = []
        """Requests submitted from one time that it was idle to the next."""
        self.decoded: dict[int, list[DecodedSentence]] = {}
        """The results, by the seed of the request, which is unique."""
        self._inner, self._pending = inner, {}
        self._made_up = made_up or (lambda request: [50 + len(request.source) % 300])

    @property
    def idle(self) -> bool:
        return not self._pending

    def submit(self, request: Request, position: int) -> int:
        if self.idle:
            self.waves.append([])
        self.waves[-1].append(request)
        id = self._inner.submit(request, position) if self._inner else len(self._pending)
        self._pending[id] = request
        return id

    def step(self) -> list[Decoded]:
        if self._inner:
            found = self._inner.step()
        else:
            found = [(id, [DecodedSentence(self._made_up(r), -1.0, False)]) for id, r in self._pending.items()]
        for id, decoded in found:
            self.decoded[self._pending.pop(id).seed] = decoded
        return found

    @property
    def requests(self) -> list[Request]:
        """In the order of the sentences."""
        return sorted(itertools.chain(*self.waves), key=lambda request: request.seed or 0)


class ForgetfulDecoder(RecordingDecoder):
    """Records nothing."""

    def step(self) -> list[Decoded]:
        found = super().step()
        self.waves.clear()
        self.decoded.clear()
        return found


def loaded(run: Run) -> Model:
    return focat.load(run.path, "cpu")


def requests_of(translator: Translator, lines: Sequence[str | None]) -> list[Request]:
    """What is submitted for these lines, if the results are made up."""
    decoder = RecordingDecoder()
    list(translator.sentences(lines, decoder))
    return decoder.requests


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
                "\x00", "\x0b\x0c\x1c\u2028", "👩‍👩‍👧‍👦 🏴", "שלום עולם", "مرحبا", "\u202eabc", "a" * 100,
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
        one, found, two = model.translator(context="none").sentences(lines, RecordingDecoder())
        assert found.chunks > 200
        assert (one.chunks, two.chunks) == (1, 1)
        assert len(found.text.split()) >= found.chunks
        assert found.score is not None

    def test_documents_without_sentences(self, model: Model) -> None:
        found = model.translator(beam=1).translate([[], [], ["Hi."], [], ["Ho.", ""], []])
        assert [len(document) for document in found] == [0, 0, 1, 0, 2, 0]
        assert list(model.translator().translate([])) == []


class TestWindows:
    LINES = ("One.", "Two.", "", "Three.", "Four.", None, "Five.")

    @pytest.mark.parametrize("context", ["regenerate", "reuse"])
    def test_context_is_of_the_same_document_and_not_blank(self, context: str, model: Model) -> None:
        requests = requests_of(model.translator(context=context), self.LINES)
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
        assert not any(request.prefix for request in requests_of(model.translator(context="regenerate"), self.LINES))

    def test_reuse_forces_what_was_translated(self, model: Model) -> None:
        translator = model.translator(context="reuse")
        decoder = RecordingDecoder(translator.decoder)
        found = list(translator.sentences(self.LINES, decoder))
        tokens = [decoder.decoded[request.seed or 0][0].tokens for request in decoder.requests]
        expected = [[], [0], [0, 1], [1, 2], []]
        for request, numbers in zip(decoder.requests, expected, strict=True):
            assert list(request.prefix) == [t for number in numbers for t in (*tokens[number], SEPARATOR)]
        words = [translation for translation in found if translation.source]
        for number, translation in enumerate(words):
            assert translation.text == model.tokenizer.target.decode(tokens[number]).strip()

    def test_no_target_context(self, model: Model, runs: Path) -> None:
        requests = requests_of(model.translator(context="none"), self.LINES)
        assert [texts(model.tokenizer, request.source) for request in requests] == [
            ["One."], ["Two."], ["Three."], ["Four."], ["Five."],
        ]  # fmt: skip
        to_one = loaded(tiny_run(runs, windows={"before": 2, "target_before": 0}))
        for context in TARGET_CONTEXTS:
            requests = requests_of(to_one.translator(context=context), self.LINES)
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
            requests = requests_of(system.translator(context=context), lines)
            assert [request.max_length for request in requests] == expected

    def test_sentences_behind_are_decoded_too_and_need_length(self, runs: Path) -> None:
        """Those that the target has; reused context is not decoded."""
        lines = ["The cat is old.", "Tom sleeps here.", "It is new."]
        for windows, behind in (({"before": 1, "after": 1}, 1), ({"before": 1, "after": 1, "target_after": 0}, 0)):
            ahead = loaded(tiny_run(runs, windows=windows))
            lengths = [len(ahead.tokenizer.source.encode(line)) + 1 for line in lines]
            for context, before in (("regenerate", 1), ("reuse", 0)):
                requests = requests_of(ahead.translator(context=context), lines)
                decoded = [sum(lengths[max(i - before, 0) : i + 1 + behind]) for i in range(3)]
                assert [request.max_length for request in requests] == [tokens // 2 + 3 for tokens in decoded]

    def test_fewer_sentences_on_the_target(self, runs: Path) -> None:
        to_two = loaded(tiny_run(runs, windows={"before": 2, "target_before": 1}))
        for context in ("regenerate", "reuse"):
            requests = requests_of(to_two.translator(context=context), self.LINES)
            assert [request.sentences for request in requests] == [1, 2, 2, 2, 1]
            assert [request.current for request in requests] == [0, 1, 2, 2, 0]
        assert [list(request.prefix).count(SEPARATOR) for request in requests] == [0, 1, 1, 1, 0]

    @pytest.mark.parametrize("context", ["regenerate", "reuse"])
    def test_windows_with_sentences_after_the_current_one(self, context: str, runs: Path) -> None:
        ahead = loaded(tiny_run(runs, windows={"before": 1, "after": 1}))
        translator = ahead.translator(context=context)
        decoder = RecordingDecoder(translator.decoder)
        found = list(translator.sentences(self.LINES, decoder))
        assert [texts(ahead.tokenizer, request.source) for request in decoder.requests] == [
            ["One.", "Two."], ["One.", "Two.", "Three."], ["Two.", "Three.", "Four."], ["Three.", "Four."], ["Five."],
        ]  # fmt: skip
        assert [request.current for request in decoder.requests] == [0, 1, 1, 1, 0]
        assert [request.sentences for request in decoder.requests] == [2, 3, 3, 2, 1]
        with pytest.raises(FocatError, match="constrained = False: keeps the last sentence"):
            ahead.translator(context=context, constrained=False)
        assert all(translation.text for translation in found if translation.source)

    def test_other_windows_than_in_training(self, model: Model) -> None:
        lines = ["A.", "B.", "C.", "D.", "E.", "F."]
        for window in (1, 2, 6):
            requests = requests_of(model.translator(window=window), lines)
            assert [len(texts(model.tokenizer, r.source)) for r in requests] == [min(i + 1, window) for i in range(6)]
        assert len(list(model.translator(window=6).sentences(lines))) == 6

    @pytest.mark.parametrize("window", [1, 2, 5])
    def test_segments_are_counted_from_the_current_sentence(self, window: int, runs: Path) -> None:
        """In windows of any size, what is decoded has the probability that teacher forcing gives it."""
        embedded = loaded(tiny_run(runs, model={"segment_embeddings": "learned", "attention": "group"}))
        translator = embedded.translator(window=window, context="regenerate", beam=1)
        decoder = RecordingDecoder()
        list(translator.sentences(["One.", "Two.", "Three.", "Four.", "Five."], decoder))
        request = decoder.requests[-1]
        ((found,),) = translator.engine([request])
        source, target = (torch.tensor([list(tokens)]) for tokens in (request.source, found.tokens))
        last = torch.tensor([window - 1])
        sides = [PaddedSequences(tokens, segments_of(tokens), last) for tokens in (source, target)]
        with torch.no_grad():
            log_probabilities = embedded.models[0].project(embedded.models[0](*sides)).log_softmax(-1)
        expected = log_probabilities[0].gather(1, target.T)[:, 0]
        assert found.token_scores == pytest.approx(expected.tolist(), abs=1e-4)

    def test_learned_positions_limit_the_window(self, runs: Path) -> None:
        learned = loaded(tiny_run(runs, model={"positions": "learned"}))
        assert len(list(learned.translator(window=3).sentences(["A.", "B."]))) == 2
        with pytest.raises(FocatError, match="window = 4: this model has learned positions, for windows of at most 3"):
            learned.translator(window=4)

    def test_windows_of_an_ensemble_fit_every_model(self, run: Run, runs: Path) -> None:
        shorter = tiny_run(runs, windows={"max_tokens": 40})
        for folders in ([run.path, shorter.path], [shorter.path, run.path]):
            system = load_system(folders, "cpu")
            assert system.windows().max_tokens == system.windows(2).max_tokens == 40
            assert Translator.from_system(system).windows.max_tokens == 40

    def test_context_that_does_not_fit_is_dropped_oldest_first(self, model: Model) -> None:
        words = "The cat sleeps here . "
        tokens = len(model.tokenizer.source.encode(words.strip())) + 1
        long = (words * (40 // tokens)).strip()  # two of them are too much for 64 tokens
        lines = ["A.", long, "B.", long, "C."]
        decoder = RecordingDecoder()
        found = list(model.translator(context="regenerate").sentences(lines, decoder))
        assert [texts(model.tokenizer, request.source) for request in decoder.requests] == [
            ["A."], ["A.", long], ["A.", long, "B."], ["B.", long], ["B.", long, "C."],
        ]  # fmt: skip
        assert [translation.shortened for translation in found] == [False, False, False, True, False]

    def test_a_window_may_have_exactly_its_most_tokens(self, model: Model, runs: Path) -> None:
        """With one token less, it loses a sentence: of two at the same distance, the one behind."""
        lines = ["The cat is old.", "Tom sleeps here.", "It is new."]
        total = sum(len(model.tokenizer.source.encode(line)) + 1 for line in lines)
        for less, expected in ((0, lines), (1, lines[:2])):
            ahead = loaded(tiny_run(runs, windows={"before": 1, "after": 1, "max_tokens": total - less}))
            decoder = RecordingDecoder()
            found = list(ahead.translator(context="regenerate").sentences(lines, decoder))
            middle = decoder.requests[1]
            assert texts(ahead.tokenizer, middle.source) == expected
            assert (middle.sentences, middle.current) == (len(expected), 1)
            assert [translation.shortened for translation in found] == [False, less > 0, False]

    def test_reused_translations_count_by_their_own_length(self, model: Model) -> None:
        """Reused context counts by its own length, which may be more than that of its source."""

        decoder = RecordingDecoder(made_up=lambda _: [60] * 45)
        found = list(model.translator(context="reuse").sentences(["A.", "B.", "C."], decoder))
        assert [list(request.prefix).count(SEPARATOR) for request in decoder.requests] == [0, 1, 1]
        assert found[2].shortened


class TestSameResults:
    """What comes out does not depend on how the work was cut."""

    @pytest.mark.parametrize("context", ["regenerate", "reuse"])
    def test_whatever_the_batches(self, context: str, model: Model) -> None:
        def translations(documents: list[list[str]], **options: int) -> list[list[str]]:
            found = model.translator(context=context, beam=2, **options).translate(documents)
            return [[translation.text for translation in document] for document in found]

        expected = translations(DOCUMENTS)
        assert translations(DOCUMENTS, batch_tokens=60) == expected
        assert translations(DOCUMENTS, lookahead=3) == expected
        assert translations(DOCUMENTS[2:]) == expected[2:]

    def test_whatever_the_batches_when_sampling(self, model: Model) -> None:
        def sampled(**options: int) -> list[list[str]]:
            translator = model.translator(sample=True, nbest=2, **options)
            return [[t.text for t in document] for document in translator.translate(DOCUMENTS)]

        first = sampled()
        assert first == sampled(batch_tokens=100, lookahead=3)
        assert first != sampled(seed=2)

    def test_documents_run_side_by_side(self, model: Model) -> None:
        decoder = RecordingDecoder()
        lines = [line for document in DOCUMENTS for line in (*document, None)]
        list(model.translator(context="reuse").sentences(lines, decoder))
        assert len(decoder.waves[0]) == len(DOCUMENTS)
        assert len(decoder.waves) == max(map(len, DOCUMENTS))

    def test_a_gpu_decodes_the_next_sentence_of_a_document_at_once(
        self, model: Model, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = [line for document in DOCUMENTS for line in (*document, None)]
        expected = list(model.translator(context="reuse", beam=2).sentences(lines))
        monkeypatch.setattr(translator_module, "Engine", partial(Engine, static=True))
        monkeypatch.setattr(translator_module, "MAX_CHAINED", 2)
        translator = model.translator(context="reuse", beam=2)
        decoder = RecordingDecoder(translator.decoder)
        found = list(translator.sentences(lines, decoder))
        assert [t.text for t in found] == [t.text for t in expected]
        assert [t.score for t in found] == [pytest.approx(t.score, abs=1e-4) for t in expected]
        assert len(decoder.waves) < max(map(len, DOCUMENTS))
        assert len(decoder.waves[0]) > len(DOCUMENTS)  # the first sentences, and some that follow

    def test_regenerate_is_reuse_with_what_it_decoded(self, model: Model) -> None:
        """Force the context that the whole window was decoded with: the current sentence comes out the same."""
        translator = model.translator(context="regenerate", beam=1)
        requests = requests_of(translator, DOCUMENTS[0])
        engine = translator.engine
        compared = 0
        for request, (whole,) in zip(requests, engine(requests), strict=True):
            assert request.sentences is not None
            position = request.sentences - 1
            ends = [i + 1 for i, token in enumerate(whole.tokens) if token == SEPARATOR]
            start = ends[-1] if ends else 0
            left = (
                int(translator.settings.max_length_ratio * len(request.source))
                + translator.settings.max_length_offset
                - start
            )
            forced = Request(request.source, whole.tokens[:start], request.sentences, left, request.current)
            ((current,),) = engine([forced])
            expected, found = extract_sentence(whole, position, True), extract_sentence(current, 0, True)
            assert found.tokens == expected.tokens
            assert found.log_probability == pytest.approx(expected.log_probability, abs=1e-4)
            compared += position > 0
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
        hypothesis = Hypothesis(tokens, [2.0 ** (i + 1) for i in range(len(tokens))], 0.0, 0.0, False)
        found = extract_sentence(hypothesis, 7, constrained=False)
        assert (found.tokens, found.log_probability) == (kept, score)

    def test_the_sentence_at_its_position(self) -> None:
        hypothesis = Hypothesis([10, SEPARATOR, 12, SEPARATOR, 14, END], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0], 0, 0, False)
        assert extract_sentence(hypothesis, 0, True) == DecodedSentence([10], 3.0, False)
        assert extract_sentence(hypothesis, 1, True) == DecodedSentence([12], 12.0, False)
        assert extract_sentence(hypothesis, 2, True) == DecodedSentence([14], 48.0, False)

    def test_any_number_of_sentences_is_allowed(self, model: Model) -> None:
        requests = requests_of(model.translator(context="regenerate", constrained=False), DOCUMENTS[0])
        assert {request.sentences for request in requests} == {None}

    def test_an_empty_translation_is_no_context(self, model: Model) -> None:
        decoder = RecordingDecoder(made_up=lambda _: [])
        found = list(model.translator(context="reuse", constrained=False).sentences(["A.", "B."], decoder))
        assert [translation.text for translation in found] == ["", ""]
        assert [request.prefix for request in decoder.requests] == [[], []]


class TestScores:
    def test_score_is_of_the_sentence_alone(self, model: Model) -> None:
        translator = model.translator(context="reuse", nbest=2, length_penalty=0.6)
        decoder = RecordingDecoder(translator.decoder)
        found = list(translator.sentences(DOCUMENTS[0], decoder))
        for translation, request in zip(found, decoder.requests, strict=True):
            (hypotheses,) = translator.engine([request])
            scores = [alternative.score for alternative in translation.alternatives]
            assert scores == pytest.approx([hypothesis.score for hypothesis in hypotheses], abs=1e-5)
            assert translation.score == scores[0]
            assert translation.text == translation.alternatives[0].text
            assert translation.truncated == hypotheses[0].truncated


class TestChunks:
    def test_breaks_after_clauses_and_sentences(self, model: Model) -> None:
        vocabulary = model.tokenizer.source
        text = "The cat sleeps here, and the dog is old. Tom is here now and so is Max " * 3
        chunks = split_into_chunks(text.strip(), vocabulary, 20, 20)
        decoded = [vocabulary.decode(chunk.tokens) for chunk in chunks]
        assert all(len(chunk.tokens) <= 20 for chunk in chunks)
        assert all(chunk.separator == " " for chunk in chunks[:-1])
        assert " ".join(decoded) == vocabulary.normalise(text.strip())
        assert decoded[0] in ("The cat sleeps here,", "The cat sleeps here, and the dog is old.")

    @pytest.mark.parametrize(
        ("text", "fitting", "words"),
        [
            ("aa bb cc dd ee ff gg", 6, 6),  # no better place than after the last word that fits
            ("aa bb cc dd, ee ff gg", 6, 4),  # after a clause
            ("aa bb cc dd, ee, ff gg", 6, 5),  # the last one
            ("aa bb cc dd, ee ff, gg", 6, 6),
            ("aa bb cc dd. ee, ff gg", 6, 4),  # rather after a sentence
            ("aa bb cc dd. ee.) ff, gg", 6, 5),
            ("aa bb cc, dd ee ff gg", 6, 6),  # not in the first half, or the chunk would be short
            ("aa bb cc. dd, ee ff gg", 6, 4),
            ("aa bb cc, dd ee ff", 5, 5),
            ("aa bb cc dd, ee ff", 5, 4),
        ],
    )
    def test_the_best_place_to_break(self, text: str, fitting: int, words: int, model: Model) -> None:
        vocabulary = model.tokenizer.source
        size = sum(len(vocabulary.encode(f"{word} ")) for word in text.split()[:fitting])
        first, *_ = split_into_chunks(text, vocabulary, 0, size)
        assert vocabulary.decode(first.tokens) == " ".join(text.split()[:words])

    def test_each_chunk_is_sampled_by_itself(self, model: Model) -> None:
        """Chunks of the same words have seeds of their own, and so have the sentences after them."""
        line = "The cat is old and " * 20
        requests = requests_of(model.translator(context="none", sample=True), [line, "Tom sleeps.", line])
        assert len(requests) > 6
        assert len({request.seed for request in requests}) == len(requests)

    def test_a_word_that_is_too_long_is_split_between_tokens(self, model: Model) -> None:
        vocabulary = model.tokenizer.source
        chunks = split_into_chunks("x" * 500, vocabulary, 30, 10)
        assert {len(chunk.tokens) for chunk in chunks[:-1]} == {10}
        assert {chunk.separator for chunk in chunks} == {""}
        assert [t for chunk in chunks for t in chunk.tokens] == vocabulary.encode("x" * 500)

    def test_whole_if_it_fits(self, model: Model) -> None:
        tokens = model.tokenizer.source.encode("The cat sleeps.")
        (chunk,) = split_into_chunks("The cat sleeps.", model.tokenizer.source, len(tokens), 2)
        assert chunk.tokens == tokens

    @given(text=st.text(st.sampled_from("ab .,"), min_size=1, max_size=200), size=st.integers(4, 20))
    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_nothing_is_lost(self, text: str, size: int, model: Model) -> None:
        chunks = split_into_chunks(text.strip() or "a", model.tokenizer.source, size, size)
        assert all(0 < len(chunk.tokens) <= size for chunk in chunks)
        found = "".join(model.tokenizer.source.decode(chunk.tokens) for chunk in chunks)
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

        translator = model.translator(context=context, lookahead=100)
        arriving = translator.sentences(endless(), ForgetfulDecoder())

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


def test_fixed_translations_are_context_and_never_decoded(model: Model) -> None:
    """A sentence whose translation is given changes the window of the next one, as if it had been decoded so."""
    translator = model.translator(nbest=1)

    def windows(fixed: str | None) -> list[Request]:
        document = translator.jobs.new_document()
        first, second = (OutputSentence(i, text, text) for i, text in enumerate(DOCUMENTS[0][:2]))
        if fixed is not None:
            first.fixed = translator.tokenizer.target.encode(fixed)
        document.waiting.extend((first, second))
        document.closed = True
        recorder = RecordingDecoder(translator.decoder)
        driver = WindowDriver(translator.jobs, recorder, max_chained=2)
        while job := translator.jobs.next_job(document):
            driver.submit(job)
            while not driver.idle:
                driver.step()
        return [request for wave in recorder.waves for request in wave]

    (_, decoded_after), (fixed_after,) = windows(None), windows("Tom schläft.")
    assert fixed_after.source == decoded_after.source
    assert list(fixed_after.prefix) == [*translator.tokenizer.target.encode("Tom schläft."), SEPARATOR]


def test_more_alternatives_over_the_same_weights(model: Model) -> None:
    """The best one is the same, and the prepared models are shared."""
    translator = model.translator(beam=4)
    more = translator.with_nbest(3)
    assert more.engine.models is translator.engine.models
    (plain,), (several,) = translator.translate([DOCUMENTS[2]]), more.translate([DOCUMENTS[2]])
    assert [t.text for t in plain] == [t.text for t in several]
    assert {len(t.alternatives) for t in several} == {3}
