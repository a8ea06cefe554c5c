"""Documents in, documents out, each sentence translated in its context (section 2.2 of the paper).

Sentences stream through: as many as fill a batch are decoded together, and are returned in the order they were read.
Memory does not depend on the length of a document, nor on the number of documents.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from typing_extensions import Unpack

from focat.choices import FORMALITIES, TARGET_CONTEXTS, Formality, TargetContext
from focat.config.explain import short_text
from focat.config.loading import search_settings
from focat.config.schema import SearchOptions, SearchSettings, WindowSettings
from focat.corpus.formality import TAGS
from focat.corpus.tokenizer import Tokenizer
from focat.decoding.engine import Engine
from focat.errors import ParameterError
from focat.model.transformer import Transformer
from focat.run import TrainedSystem
from focat.translation.alignment import align_words
from focat.translation.arguments import check_options, check_type, input_sentences_of
from focat.translation.document_stream import DocumentStream, JobBuilder, OutputSentence
from focat.translation.driver import Wave, WindowDriver
from focat.translation.options import GlossaryInput, KeepInput
from focat.translation.result import Alternative, Translation, on_one_line
from focat.translation.sentence import InputSentence, Sentence, as_input
from focat.translation.sentence_decoder import DecodedSentence, EngineDecoder, SentenceDecoder
from focat.translation.terminology import Terminology

LOOKAHEAD = 1 << 16  # sentences that are read before the first is returned: enough for many documents side by side
_WAVE_BATCHES = 4  # batches of a wave; one on a CPU where sentences wait for each other
MAX_CHAINED = 8  # sentences of a document that are decoded one after the other in a wave, where slots are refilled


Group = TypeVar("Group")


class _EndOfInput:
    """Follows the last line."""


class _EmptyGroup:
    """Stands for a group without sentences, so that it is returned in its turn."""


_END_OF_INPUT: Final = _EndOfInput()
_EMPTY_GROUP: Final = _EmptyGroup()


class Translator:
    """Translates documents with one model, or an ensemble of several."""

    def __init__(
        self,
        models: Sequence[Transformer],
        tokenizer: Tokenizer,
        windows: WindowSettings,
        search: SearchSettings,
        context: TargetContext = "reuse",
        constrained: bool = True,
        lookahead: int = LOOKAHEAD,
        formality: Formality | None = None,
        terminology: Terminology | None = None,
    ) -> None:
        """Prepare the models for decoding.

        Args:
            windows: may differ from those of training.
            context: where target context comes from: regenerate, reuse or none.
            constrained: windows must have as many sentences as their source; if not, what follows the last separator
                is kept (the paper's rule).
            lookahead: how many sentences may be read before the first is returned; 1 returns each at once.
            formality: form of address that is asked for, of a model that was trained with tags for it.
            terminology: terms that translations must contain where sentences have them.

        Raises:
            FocatError: the options do not go together, or not with the models.
        """
        if context not in TARGET_CONTEXTS:
            raise ParameterError("context", context, f"choose from {', '.join(TARGET_CONTEXTS)}")
        check_type("lookahead", lookahead, int, "a whole number")
        check_type("constrained", constrained, bool, "True or False")
        if lookahead < 1:
            raise ParameterError("lookahead", lookahead, "at least one sentence is read before it can be returned")
        if terminology and search.sample:
            raise ParameterError("sample", True, "samples cannot be made to contain terms; leave out glossary and keep")
        for model in models:
            _check_positions(model, windows)
            if context == "regenerate" and not model.predicts_context:
                raise ParameterError("context", context, "this system reuses the translations before; choose reuse")
        if not constrained and windows.target[1] > 0:
            raise ParameterError(
                "constrained", False, "keeps the last sentence, but these windows have others after the current one"
            )
        if context == "none" and windows.target != (0, 0):
            # a model that has not seen source context without its translation is shown neither
            windows = WindowSettings(before=0, max_tokens=windows.max_tokens)
        self.tokenizer, self.windows, self.settings = tokenizer, windows, search
        self.constrained, self.lookahead = constrained, lookahead
        self.reuse = context == "reuse" and windows.target[0] > 0
        """Whether sentences of a document wait for each other's translations."""
        prepared = [_with_windows(model, windows) for model in models]
        self.engine = Engine(prepared, search, boundaries=lambda: tokenizer.target.word_boundaries)
        self._aligner = prepared[0]
        self.decoder = EngineDecoder(self.engine, constrained)
        tag = [] if formality is None else tokenizer.source.encode(TAGS[formality])
        self.jobs = JobBuilder(tokenizer, windows, search, self.reuse, constrained, tag, terminology)
        self.terminology = terminology
        chained = self.reuse and self.engine.static
        self._max_chained = MAX_CHAINED if chained else 1
        self._wave_tokens = self.engine.batch_tokens * (_WAVE_BATCHES if chained or not self.reuse else 1)

    @classmethod
    def from_system(
        cls,
        system: TrainedSystem,
        context: TargetContext | None = None,
        constrained: bool = True,
        window: int | None = None,
        lookahead: int | None = None,
        formality: Formality | None = None,
        glossary: GlossaryInput | None = None,
        keep: KeepInput | None = None,
        **search: Unpack[SearchOptions],
    ) -> Translator:
        """A translator with the settings of a trained system, where others are not given.

        Args:
            window: how many sentences a window has.
            formality: form of address that is asked for; None leaves it to the model.
            glossary: translations of terms: a file, or a dictionary; see `Terminology`.
            keep: terms that stay as they are: a file, or a list.
            search: settings of the search (`SearchSettings`): beam, nbest, length_penalty, sample and so on.

        Raises:
            FocatError: an option is wrong, or there is none of its name.
        """
        check_options(search)
        decoding = system.settings.decoding
        if formality is not None:
            _check_formality(formality, system)
        return cls(
            system.models,
            system.tokenizer,
            system.windows(window),
            search_settings(decoding, **search),
            context or decoding.target_context,
            constrained,
            LOOKAHEAD if lookahead is None else lookahead,
            formality,
            None if glossary is None and keep is None else Terminology(glossary, keep),
        )

    def with_nbest(self, nbest: int) -> Translator:
        """A translator over the same prepared weights, which returns so many alternatives, at most the beam."""
        other = copy.copy(self)
        other.settings = search_settings(self.settings, nbest=nbest)
        other.engine = self.engine.with_settings(other.settings)
        other.decoder = EngineDecoder(other.engine, self.constrained)
        return other

    def translate(self, documents: Iterable[Sequence[Sentence]]) -> Iterator[list[Translation]]:
        """Each document's translations, in order, as soon as they are complete."""
        if isinstance(documents, str | bytes | Mapping) or not isinstance(documents, Iterable):
            raise ParameterError("documents", short_text(repr(documents)), "should be a list of lists of sentences")

        def groups() -> Iterator[tuple[None, Sequence[Sentence], bool]]:
            for i, document in enumerate(documents):
                yield None, input_sentences_of(f"documents[{i}]", document), True

        return (translations for _, translations in self.groups(groups()))

    def groups(
        self,
        groups: Iterable[tuple[Group, Sequence[Sentence], bool]],
        decoder: SentenceDecoder | None = None,
        ready: Callable[[], bool] | None = None,
    ) -> Iterator[tuple[Group, list[Translation]]]:
        """Translate groups of sentences, each given with its sentences and whether a document ends after it.

        Args:
            decoder: decodes the windows, instead of the translator's own: say, one that keeps a journal.
            ready: whether the next group can be read without waiting; if not, those before it are translated first.

        Returns:
            Each group with its translations, in order, as soon as they are complete.
        """
        waiting: deque[tuple[Group, int]] = deque()

        def lines() -> Iterator[Sentence | _EmptyGroup | None]:
            for group, sentences, ends_document in groups:
                waiting.append((group, len(sentences)))
                if not sentences:
                    yield _EMPTY_GROUP
                yield from sentences
                if ends_document:
                    yield None

        found: list[Translation] = []
        for translation in self._sentences(lines(), decoder or self.decoder, ready):
            group, expected = waiting[0]
            if expected:
                found.append(translation)
            if len(found) == expected:
                waiting.popleft()
                yield group, found
                found = []

    def sentences(
        self, lines: Iterable[Sentence | None], decoder: SentenceDecoder | None = None
    ) -> Iterator[Translation]:
        """One translation for each sentence, in order; None ends a document. `decoder`: as of `groups`."""
        return self._sentences(lines, decoder or self.decoder, None)

    def _sentences(
        self, lines: Iterable[Sentence | _EmptyGroup | None], decoder: SentenceDecoder, ready: Callable[[], bool] | None
    ) -> Iterator[Translation]:
        feed = iter(lines)
        output: deque[OutputSentence] = deque()  # read and not returned
        documents: deque[DocumentStream] = deque()
        indices = itertools.count()
        reading = True
        while reading or output:
            wave = Wave(self._wave_tokens)
            for document in documents:
                self._add_jobs(document, wave)
            while reading and len(output) < self.lookahead and not wave.full:
                can_go_on = wave.jobs or (output and output[0].missing == 0)
                if ready and can_go_on and not ready():
                    break
                line = next(feed, _END_OF_INPUT)
                if isinstance(line, str | InputSentence):
                    self._read(line, next(indices), output, documents)
                elif isinstance(line, _EmptyGroup):
                    output.append(OutputSentence(index=-1, source="", text="", missing=0))
                    continue
                elif documents:
                    documents[-1].closed = True
                reading = line is not _END_OF_INPUT
                if documents:
                    self._add_jobs(documents[-1], wave)
            self._decode(wave, decoder)
            documents = deque(document for document in documents if not document.finished)
            while output and output[0].missing == 0:
                yield self.translation(output.popleft())

    def _read(
        self, line: Sentence, index: int, output: deque[OutputSentence], documents: deque[DocumentStream]
    ) -> None:
        """Add a sentence to its document; a blank one is in no window."""
        sentence = self.read_sentence(as_input(line), index)
        output.append(sentence)
        if not sentence.text:
            return
        if not documents or documents[-1].closed:
            documents.append(self.jobs.new_document())
        documents[-1].waiting.append(sentence)

    def read_sentence(self, given: InputSentence, index: int) -> OutputSentence:
        """A sentence as documents have it; `index` seeds its sampling. One without text has nothing to be decoded."""
        text = on_one_line(given.text.encode("utf-8", "replace").decode())
        sentence = OutputSentence(index, given.text, text, given.required, given.align)
        if given.translation is not None:
            sentence.fixed, sentence.missing = self.tokenizer.target.encode(on_one_line(given.translation)), 0
        if not text:
            sentence.missing = 0
        return sentence

    def _add_jobs(self, document: DocumentStream, wave: Wave) -> None:
        """Add the windows of a document that can be decoded now."""
        while not wave.full and (job := self.jobs.next_job(document)):
            wave.add(job)

    def _decode(self, wave: Wave, decoder: SentenceDecoder) -> None:
        """Decode the windows of a wave, and up to MAX_CHAINED of a document that follow from their translations."""
        driver = WindowDriver(self.jobs, decoder, self._max_chained)
        for job in wave.jobs:
            driver.submit(job)
        while not driver.idle:
            driver.step()

    def translation(self, sentence: OutputSentence) -> Translation:
        """The translation of a sentence that is completely decoded."""
        if not sentence.text:
            return Translation(sentence.source, "")
        if sentence.fixed is not None:
            return Translation(sentence.source, self.tokenizer.target.decode(sentence.fixed))
        alternatives = tuple(self._alternative(sentence, chosen) for chosen in zip(*sentence.decoded, strict=False))
        best = alternatives[0].text
        pairs = (
            (chunk.tokens, nbest[0].tokens) for chunk, nbest in zip(sentence.chunks, sentence.decoded, strict=True)
        )
        return Translation(
            sentence.source,
            best,
            alternatives[0].score,
            alternatives,
            chunks=len(sentence.chunks),
            truncated=any(nbest[0].truncated for nbest in sentence.decoded),
            shortened=sentence.shortened,
            terms=len(sentence.terms),
            unmet=self._unmet(sentence, best),
            alignment=align_words(self._aligner, self.tokenizer, sentence.text, best, pairs)
            if sentence.align
            else None,
        )

    def _unmet(self, sentence: OutputSentence, translation: str) -> tuple[str, ...]:
        """The phrases that a translation does not contain, though it must."""
        phrases = [*sentence.required, *(term.forms for term in sentence.terms)]
        return self.jobs.phrases.missing(phrases, translation) if phrases else ()

    def _alternative(self, sentence: OutputSentence, chosen: tuple[DecodedSentence, ...]) -> Alternative:
        texts = [self.tokenizer.target.decode(decoded.tokens).strip() for decoded in chosen]
        separators = [chunk.separator for chunk in sentence.chunks[:-1]]
        text = "".join(itertools.chain(*zip(texts, [*separators, ""], strict=True)))
        tokens = sum(len(decoded.tokens) + 1 for decoded in chosen)
        total = sum(decoded.log_probability for decoded in chosen)
        return Alternative(on_one_line(text), total / tokens**self.settings.length_penalty)


def _check_formality(formality: Formality, system: TrainedSystem) -> None:
    if formality not in FORMALITIES:
        raise ParameterError("formality", formality, f"choose from {', '.join(FORMALITIES)}")
    for run in system.runs:
        if not run.settings.data.formality:
            problem = f"{run.path} was trained without tags for it; train with data.formality=0.5"
            raise ParameterError("formality", formality, problem)


def _check_positions(model: Transformer, windows: WindowSettings) -> None:
    """Refuse windows of more sentences than a table of learned positions was made for."""
    if model.settings.positions == "learned" and windows.size > model.windows.size:
        most = model.windows.size
        problem = f"this model has learned positions, for windows of at most {most} sentences; ask for {most} or fewer"
        raise ParameterError("window", windows.size, problem)


def _with_windows(model: Transformer, windows: WindowSettings) -> Transformer:
    """The same model, sharing its weights, for windows with other numbers of sentences."""
    if model.windows == windows:
        return model
    changed = copy.copy(model)
    changed.windows = windows
    return changed
