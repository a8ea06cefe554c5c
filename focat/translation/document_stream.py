"""Documents that are being translated: which window can be decoded next, and what its translation is context for."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from focat.config.schema import SearchSettings, WindowSettings
from focat.corpus.tokenizer import Tokenizer
from focat.decoding.phrases import Phrases
from focat.decoding.requests import Request
from focat.translation.chunks import Chunk, split_into_chunks
from focat.translation.phrases import PhraseEncoder
from focat.translation.sentence_decoder import DecodedSentence
from focat.translation.terminology import Term, Terminology
from focat.windows.builder import close_sentences, cut_window, join_window

_MIN_CHUNK_TOKENS = 4


@dataclass
class OutputSentence:
    """A sentence that was read and has not been returned yet."""

    index: int
    source: str
    text: str
    """What the model sees of it."""
    required: tuple[tuple[str, ...], ...] = ()
    """Phrases that its translation must contain, each with its forms."""
    align: bool = False
    """Whether the alignment of its words is wanted."""
    terms: Sequence[Term] = ()
    """Terms that it has, once it is encoded."""
    chunks: list[Chunk] = field(default_factory=list)
    """None before it is encoded."""
    decoded: list[list[DecodedSentence]] = field(default_factory=list)
    """The n best translations of each chunk."""
    missing: int = 1
    """Chunks that are not translated yet."""
    shortened: bool = False
    """Whether a window of it lost context because it was too long."""
    fixed: list[int] | None = None
    """Tokens of a translation that is given: the sentence is context of the following ones, and never decoded."""


@dataclass(frozen=True)
class SourceChunk:
    """A sentence, or a chunk of one that is too long: the unit that windows are made of."""

    sentence: OutputSentence
    index: int
    tokens: list[int]
    required: Phrases = ()

    @property
    def seed(self) -> int:
        """Seeds its sampling: unique, and independent of how the work is batched."""
        return self.sentence.index + (self.index << 40)


@dataclass(frozen=True)
class ContextSentence:
    """A translated sentence, as context of the following ones."""

    source: list[int]
    target: list[int]  # empty unless translations are reused


@dataclass
class DocumentStream:
    """A document that is being read and translated."""

    context: deque[ContextSentence]  # of the next sentence, oldest first
    waiting: deque[OutputSentence] = field(default_factory=deque)
    chunks: deque[SourceChunk] = field(default_factory=deque)  # the next ones, encoded
    closed: bool = False  # whether all of it has been read
    busy: bool = False  # whether a sentence is being translated that the next one needs

    @property
    def finished(self) -> bool:
        """Whether nothing is left to decode."""
        return self.closed and not (self.waiting or self.chunks or self.busy)


@dataclass(frozen=True)
class WindowJob:
    """A window to decode, and where its result belongs."""

    document: DocumentStream
    chunk: SourceChunk
    request: Request
    position: int  # of the current sentence among those that are decoded


@dataclass(frozen=True)
class JobBuilder:
    """Builds the windows of documents, in order."""

    tokenizer: Tokenizer
    windows: WindowSettings
    search: SearchSettings
    reuse: bool
    """Whether translations are the target context of the following sentences, which wait for them."""
    constrained: bool
    """Whether windows must have as many sentences as their source."""
    source_tag: Sequence[int] = ()
    """Tokens in front of every source sentence: what translations are asked to be (data.formality)."""
    terminology: Terminology | None = None
    """Terms that sentences may have, and translations must then contain."""

    @cached_property
    def phrases(self) -> PhraseEncoder:
        """Encodes the phrases that translations must contain."""
        return PhraseEncoder(self.tokenizer.target)

    def new_document(self) -> DocumentStream:
        """A document without sentences."""
        return DocumentStream(deque(maxlen=self.windows.before))

    def next_job(self, document: DocumentStream) -> WindowJob | None:
        """The next window of a document; None if it is not complete yet, or waits for a translation."""
        if document.busy:
            return None
        while (chunk := self._next_chunk(document)) is not None and chunk.sentence.fixed is not None:
            self._add_context(document, chunk, chunk.sentence.fixed)
        if chunk is None:
            return None
        job = self._build(document, chunk)
        if self.reuse:
            document.busy = True
        else:
            document.context.append(ContextSentence(chunk.tokens, []))
        return job

    def finish(self, job: WindowJob, decoded: list[DecodedSentence]) -> None:
        """Store the result of a window, and make it context of the next one if translations are reused."""
        sentence = job.chunk.sentence
        sentence.decoded[job.chunk.index] = decoded
        sentence.missing -= 1
        if self.reuse:
            job.document.busy = False
            self._add_context(job.document, job.chunk, decoded[0].tokens)

    def _add_context(self, document: DocumentStream, chunk: SourceChunk, translation: list[int]) -> None:
        if not self.reuse:
            document.context.append(ContextSentence(chunk.tokens, []))
        elif translation:  # an empty translation is no context
            document.context.append(ContextSentence(chunk.tokens, translation))

    def _next_chunk(self, document: DocumentStream) -> SourceChunk | None:
        """Take the next chunk of a document; None if what follows it is not known yet, or there is none."""
        after = self.windows.after
        while len(document.chunks) <= after and document.waiting:
            self._encode(document.waiting.popleft(), document)
        if not document.chunks or (len(document.chunks) <= after and not document.closed):
            return None
        return document.chunks.popleft()

    def _encode(self, sentence: OutputSentence, document: DocumentStream) -> None:
        if sentence.fixed is not None:  # whole, as its translation is
            document.chunks.append(SourceChunk(sentence, 0, self.tokenizer.source.encode(sentence.text)))
            return
        most = self.windows.max_tokens - 1 - len(self.source_tag)
        size = min(max(self.windows.max_tokens // self.windows.size - 1, _MIN_CHUNK_TOKENS), most)
        sentence.chunks = split_into_chunks(sentence.text, self.tokenizer.source, most, size)
        sentence.missing = len(sentence.chunks)
        sentence.decoded = [[] for _ in sentence.chunks]
        required: list[Phrases] = [()] * len(sentence.chunks)
        if self.terminology:
            sentence.terms = self.terminology.find(sentence.text, sentence.required)
        if sentence.required or sentence.terms:
            required = self.phrases.by_chunk(sentence.required, sentence.terms, sentence.text, sentence.chunks)
        document.chunks.extend(
            SourceChunk(sentence, i, chunk.tokens, phrases)
            for i, (chunk, phrases) in enumerate(zip(sentence.chunks, required, strict=True))
        )

    def _build(self, document: DocumentStream, chunk: SourceChunk) -> WindowJob:
        """The window of a chunk; what is reused counts by its own length, what is decoded by that of its source."""
        context, current = list(document.context), len(document.context)
        following = itertools.islice(document.chunks, self.windows.after)
        sentences = [*(sentence.source for sentence in context), chunk.tokens, *(each.tokens for each in following)]
        source = [[*self.source_tag, *tokens] for tokens in sentences] if self.source_tag else sentences
        target_lengths = [*(len(sentence.target) for sentence in context), len(chunk.tokens)]
        span = cut_window([len(tokens) for tokens in source], target_lengths, current, self.windows)
        if span.dropped:
            chunk.sentence.shortened = True
        first_decoded = current if self.reuse else span.target.start
        decoded_tokens = sum(len(source[i]) + 1 for i in range(first_decoded, span.target.stop))
        request = Request(
            source=join_window(source[i] for i in span.source),
            prefix=close_sentences(context[i].target for i in range(span.target.start, first_decoded)),
            sentences=len(span.target) if self.constrained else None,
            max_length=int(self.search.max_length_ratio * decoded_tokens) + self.search.max_length_offset,
            current=span.source_current,
            seed=chunk.seed,
            required=chunk.required,
            required_in=current - span.target.start if chunk.required and self.constrained else None,
        )
        return WindowJob(document, chunk, request, current - first_decoded)
