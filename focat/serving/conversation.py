"""Texts of the APIs that programs know from elsewhere, translated in their context.

A list of texts is a document. A single text comes after its `context`, if it has one, or else after what the same
client has sent before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from focat.serving.clients import Client
from focat.serving.service import ServedRun, Service
from focat.serving.texts import TextKind, TranslatableText, read_text, run_by_size, split_context
from focat.serving.ticket import DocumentSentence
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence


@dataclass(frozen=True)
class TextRequest:
    """Texts of one client."""

    client: Client
    run: ServedRun
    texts: Sequence[str]
    context: str | None = None
    """What stands before the first text; it is read, not translated."""
    kind: TextKind = "text"
    nbest: int = 1
    ignored: tuple[str, ...] = ()
    """Tags of `xml` whose content is left alone."""


@dataclass(frozen=True)
class TranslatedText:
    """A text and its translations, the best first."""

    text: str
    alternatives: tuple[str, ...]
    """Others, without the best."""


async def translate_texts(service: Service, request: TextRequest) -> list[TranslatedText]:
    """Translate the texts of a request, and remember them.

    Raises:
        ApiError: see `Service.ticket`.
    """
    run = request.run
    texts = await run_by_size(sum(map(len, request.texts)), _read_all, request)
    context = await _context(service, request)
    sentences = [DocumentSentence.of(sentence) for text in texts for sentence in text.sentences]
    async with service.ticket(request.client, run, [[*context, *sentences]], request.nbest) as ticket:
        found = await service.in_time(ticket.translations())
    pairs = [(each.sentence.text, translation.text) for each, translation in zip(sentences, found, strict=True)]
    service.memory.remember(request.client, run.id, [pair for pair in pairs if all(pair)])
    remaining = iter(found)
    return [_joined(text, [next(remaining) for _ in text.sentences], request.nbest) for text in texts]


def _read_all(request: TextRequest) -> list[TranslatableText]:
    run = request.run
    return [read_text(text, request.kind, run.source, run.target, request.ignored) for text in request.texts]


async def _context(service: Service, request: TextRequest) -> list[DocumentSentence]:
    """The sentences before the first text, as many as a window can have."""
    run, client = request.run, request.client
    if request.context is not None:
        before = await run_by_size(len(request.context), split_context, request.context, run.source)
        sentences = before[max(len(before) - run.before, 0) :]
        known = [service.memory.translation_of(client, run.id, sentence) for sentence in sentences]
        return _as_context(zip(sentences, known, strict=True))
    if len(request.texts) != 1:
        return []
    return _as_context(service.memory.recall(client, run.id, run.before))


def _as_context(pairs: Iterable[tuple[str, str | None]]) -> list[DocumentSentence]:
    """Sentences that are no part of the answer, with their translations where these are known."""
    given = (InputSentence(source, translation=translation) for source, translation in pairs)
    return [DocumentSentence(sentence, wanted=False) for sentence in given]


def _joined(text: TranslatableText, translations: Sequence[Translation], nbest: int) -> TranslatedText:
    """A text from its sentences; its n-th alternative has the n-th of each sentence, or the best where it has fewer."""
    best = text.join(translations)
    others: dict[str, None] = {}
    for rank in range(1, nbest):
        others[text.join([_alternative(translation, rank) for translation in translations])] = None
    return TranslatedText(best, tuple(other for other in others if other != best))


def _alternative(translation: Translation, rank: int) -> Translation:
    if rank >= len(translation.alternatives):
        return translation
    return Translation(translation.source, translation.alternatives[rank].text)
