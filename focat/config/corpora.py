"""Settings of corpora: a class for each format, with its files and how they are read (docs/formats.md)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from focat.config.sections import FilePath, SettingsSection


class Corpus(SettingsSection):
    """Settings of every corpus, whatever its format."""

    max_documents: PositiveInt | None = None
    """Take no more than this many documents, from the start of the corpus."""
    max_pairs: PositiveInt | None = None
    """Take no more than this many sentence pairs; the last document is cut where the cap falls."""
    max_line_bytes: PositiveInt | None = None
    """Refuse a longer line, which would fill the memory; 16 MiB if not given."""


class TextCorpus(Corpus):
    """Two text files, one sentence per line, a blank line on both sides between documents."""

    format: Literal["text"]
    """Two files of text."""
    source: FilePath
    """Sentences of the source language."""
    target: FilePath
    """Their translations, line for line."""


class IdsCorpus(Corpus):
    """Two text files and a third that names each line's document; equal neighbours are one document."""

    format: Literal["ids"]
    """Two files of text and one of documents."""
    source: FilePath
    """Sentences of the source language; here an empty line is an empty sentence."""
    target: FilePath
    """Their translations, line for line."""
    documents: FilePath
    """The document of each line, line for line."""


class TsvCorpus(Corpus):
    """Tab-separated: `document, source, target`, or `source, target` with blank lines between documents."""

    format: Literal["tsv"]
    """One file of tab-separated columns."""
    path: FilePath
    """The file."""


class JsonlCorpus(Corpus):
    """One JSON object per line: a whole document (lists of sentences), or one sentence with its document's id."""

    format: Literal["jsonl"]
    """One file of JSON objects."""
    path: FilePath
    """The file; fields `source`, `target` and `document`."""


class Wit3Corpus(Corpus):
    """The TED talks of WIT3/IWSLT as published: `train.tags.*`, or `.xml` with `<doc>` and `<seg>`."""

    format: Literal["wit3"]
    """Two files of talks."""
    source: FilePath
    """The file of the source language."""
    target: FilePath
    """The file of the target language."""


class FragmentsCorpus(Corpus):
    """Two text files whose lines are whole documents: sentences joined by ` _eos ` (Voita et al., 2019)."""

    format: Literal["fragments"]
    """Two files of fragments."""
    source: FilePath
    """Fragments of the source language."""
    target: FilePath
    """Their translations, line for line."""


class GeneratedCorpus(Corpus):
    """The generated English-German corpus whose sentences need their context; no files at all."""

    format: Literal["generated"]
    """No files."""
    documents: PositiveInt = 1000
    """How many documents to generate."""
    seed: int = 1
    """Another seed, another corpus; the same seed, the same corpus on every machine."""


AnyCorpus = Annotated[
    TextCorpus | IdsCorpus | TsvCorpus | JsonlCorpus | Wit3Corpus | FragmentsCorpus | GeneratedCorpus,
    Field(discriminator="format"),
]
