"""Settings of the data: which corpora, and how they are cleaned, normalised and tokenized."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from focat.choices import FORMALITY_LANGUAGES
from focat.config.corpora import AnyCorpus, LanguagesCorpus
from focat.config.sections import FilePath, SettingsSection


class CleaningSettings(SettingsSection):
    """Which pairs to leave out. Whole pairs go, so the two sides stay aligned; each removal is counted."""

    empty: bool = True
    """Remove pairs with nothing but white space on either side."""
    identical: bool = False
    """Remove pairs whose two sides are the same text."""
    max_characters: PositiveInt | None = None
    """Remove pairs with a side longer than this many characters."""
    max_length_ratio: Annotated[float, Field(gt=1)] | None = None
    """Remove pairs where one side has over this many times the characters of the other (each counted with 10 more,
    so that short sentences are not judged by chance)."""


class NormalisationSettings(SettingsSection):
    """What is done to text before it becomes tokens, in training and at inference alike."""

    unicode: Literal["none", "NFC", "NFKC"] = "none"
    """Unicode normal form; `none` keeps the text as it is."""
    lowercase: bool = False
    """Lower-case both sides, as the paper does for En→Ru."""


class TokenizerSettings(SettingsSection):
    """SentencePiece, trained on the training corpora or brought along."""

    kind: Literal["bpe", "unigram"] = "bpe"
    """The segmentation algorithm."""
    joint: bool = True
    """One vocabulary for both languages, or one each."""
    vocabulary: Annotated[int, Field(ge=32)] = 32_000
    """Size of a vocabulary, the four special ids included; smaller when the corpus cannot fill it."""
    byte_fallback: bool = True
    """Spell characters that are not in the vocabulary as bytes, so that any text survives."""
    character_coverage: Annotated[float, Field(gt=0.9, le=1)] = 0.9999
    """Share of the corpus' characters that get a piece of their own."""
    sample: PositiveInt = 2_000_000
    """Train on no more than this many sentences of each language, drawn evenly over the corpus."""
    source_model: FilePath | None = None
    """A SentencePiece model to use for the source instead of training one (for both sides if joint)."""
    target_model: FilePath | None = None
    """A SentencePiece model for the target; needs `joint: false`."""
    from_run: FilePath | None = None
    """A run whose tokenizer to use, so that training can start from its weights (`training.init_from`)."""

    @model_validator(mode="after")
    def _models_come_in_pairs(self) -> TokenizerSettings:
        if self.joint and self.target_model is not None:
            raise ValueError("target_model needs joint: false; with joint: true, source_model serves both sides")
        if not self.joint and (self.source_model is None) != (self.target_model is None):
            raise ValueError("with joint: false, give both source_model and target_model, or neither")
        if self.from_run is not None and self.source_model is not None:
            raise ValueError("give source_model or from_run, not both")
        return self


class DataSettings(SettingsSection):
    """From files to a token store."""

    store: FilePath = Path("store")
    """Folder that `focat prepare` fills and `focat train` reads."""
    source_language: str = "en"
    """Language of the source side."""
    target_language: str = "de"
    """Language of the target side."""
    train: tuple[AnyCorpus, ...] = ()
    """Corpora to train on, one after the other."""
    dev: tuple[AnyCorpus, ...] = ()
    """Corpora to validate on; never cleaned."""
    test: tuple[AnyCorpus, ...] = ()
    """Corpora to evaluate on; never cleaned."""
    cleaning: CleaningSettings = CleaningSettings()
    """Which training pairs to leave out."""
    split: Literal["none", "middle"] = "none"
    """`middle` cuts training sentences of seven words and more in two, on both sides: the first stage of Divide and
    Rule (Lupo et al., 2022), in which sentences need the one before. The tokenizer is that of whole sentences."""
    formality: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of training sentences with a tag in front that says whether their translation is formal or informal (German
    Sie and du, Russian вы and ты, found by rules), so that `focat translate --formality` can ask for either."""
    normalisation: NormalisationSettings = NormalisationSettings()
    """What is done to text before it becomes tokens."""
    tokenizer: TokenizerSettings = TokenizerSettings()
    """How text becomes tokens."""

    @model_validator(mode="after")
    def _formality_has_rules(self) -> DataSettings:
        if self.formality and self.target_language not in FORMALITY_LANGUAGES:
            known = ", ".join(FORMALITY_LANGUAGES)
            raise ValueError(f"formality has rules for target_language {known}, not for {self.target_language}")
        return self

    @model_validator(mode="after")
    def _corpora_have_these_languages(self) -> DataSettings:
        """Corpora that do not name their languages have those of the data."""
        for split in ("train", "dev", "test"):
            corpora = tuple(self._with_languages(corpus) for corpus in getattr(self, split))
            object.__setattr__(self, split, corpora)  # as pydantic's own frozen check would refuse it
        return self

    def _with_languages(self, corpus: AnyCorpus) -> AnyCorpus:
        if not isinstance(corpus, LanguagesCorpus):
            return corpus
        languages = {
            "source_language": corpus.source_language or self.source_language,
            "target_language": corpus.target_language or self.target_language,
        }
        return corpus.model_copy(update=languages)
