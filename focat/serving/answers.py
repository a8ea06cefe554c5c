"""The answers of the APIs, as models: the reference is made of them, and tests compare what the server sends."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, RootModel


class Answer(BaseModel):
    """An answer has these fields and no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Status(Answer):
    """The server answers."""

    status: str
    """ok"""


class ModelDescription(Answer):
    """A run that is served."""

    id: str
    source: str
    target: str
    window: int
    """Sentences that the model sees at once."""
    reuse: bool
    """Whether translations are context of the following sentences."""
    nbest: int
    """Most alternatives of a sentence."""


class Models(Answer):
    """All runs that are served."""

    models: list[ModelDescription]


class AlternativeAnswer(Answer):
    """One of the best translations of a sentence."""

    text: str
    score: float


class SentenceAnswer(Answer):
    """A translated sentence."""

    index: int
    source: str
    translation: str
    score: float | None
    """None of a fixed translation."""
    alternatives: list[AlternativeAnswer]
    fixed: bool
    paragraph: int | None = None
    """Of `text` only."""


class DocumentAnswer(Answer):
    """A translated document."""

    id: str
    source: str
    target: str
    sentences: list[SentenceAnswer]


class Sides(Answer):
    """Words of the sentences of a window, on either side."""

    source: list[list[str]]
    target: list[list[str]]


class Shares(Answer):
    """Attention on these words."""

    source: list[list[float]]
    target: list[list[float]]


class Contribution(Answer):
    """What a context sentence contributes."""

    index: int
    difference: float
    """Log-probability of the translation with it, minus that without it."""


class ExplainAnswer(Answer):
    """What mattered for a translation."""

    index: int
    alone: str
    """The translation without context."""
    indices: list[int]
    """Sentences of the window."""
    words: Sides
    attention: Shares
    contributions: list[Contribution]


class FileAnswer(Answer):
    """The sentences of a file."""

    format: str
    sentences: list[str]
    breaks: list[int]
    """Sentences that begin another document."""
    translations: list[str | None]
    """Those that the file has already."""
    required: list[list[list[str]]]
    """What the translation of each sentence must contain, such as placeholders, as for `/v1/documents`."""


class DetectedLanguage(Answer):
    """A language, and how sure that is."""

    confidence: float
    """From 0 to 100."""
    language: str


class Detection(RootModel[list[DetectedLanguage]]):
    """The likeliest languages."""


class LibreTranslateAnswer(Answer):
    """Translations; lists if `q` is a list."""

    translatedText: str | list[str]
    alternatives: list[str] | list[list[str]] | None = None
    """If they were asked for."""
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None
    """If `source` is auto."""


class LibreTranslateLanguage(Answer):
    """A language, and into which it can be translated."""

    code: str
    name: str
    targets: list[str]


class LibreTranslateLanguages(RootModel[list[LibreTranslateLanguage]]):
    """All languages."""


class TranslatedFile(Answer):
    """Where a translated file can be fetched, once."""

    translatedFileUrl: str


class DeepLTranslation(Answer):
    """A translated text."""

    detected_source_language: str
    text: str
    billed_characters: int | None = None
    """If it was asked for."""


class DeepLAnswer(Answer):
    """Translated texts."""

    translations: list[DeepLTranslation]


class DeepLLanguage(Answer):
    """A language."""

    language: str
    name: str
    supports_formality: bool | None = None
    """Of target languages only."""


class DeepLLanguages(RootModel[list[DeepLLanguage]]):
    """All languages."""


class DeepLDocument(Answer):
    """A document that is being translated, and the key to it."""

    document_id: str
    document_key: str


class DeepLDocumentStatus(Answer):
    """How far a document is."""

    document_id: str
    status: Literal["translating", "done", "error"]
    billed_characters: int | None = None
    """Of a document that is done."""
    error_message: str | None = None
    """What has failed."""


class DeepLUsage(Answer):
    """Characters since the server was started."""

    character_count: int
    character_limit: int


class DeepLXAnswer(Answer):
    """A translated text."""

    code: int
    id: int
    method: str
    data: str
    alternatives: list[str]
    source_lang: str
    target_lang: str


class DeepLGlossaries(Answer):
    """Language pairs that have glossaries."""

    supported_languages: list[str]


class ApertiumText(Answer):
    """A translated segment."""

    translatedText: str


class ApertiumAnswer(Answer):
    """A translated segment, as Apertium wraps it."""

    responseStatus: int
    responseDetails: None
    responseData: ApertiumText


class ApertiumPair(Answer):
    """A language pair."""

    sourceLanguage: str
    targetLanguage: str


class ApertiumPairs(Answer):
    """All language pairs."""

    responseStatus: int
    responseDetails: None
    responseData: list[ApertiumPair]
