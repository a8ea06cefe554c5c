"""Settings of corpora: a class for each format, with its files and how they are read (docs/formats.md)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

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


class LanguagesCorpus(Corpus):
    """Settings of a corpus whose files name languages."""

    source_language: str | None = None
    """The source language as the files name it; `data.source_language` if not given."""
    target_language: str | None = None
    """The target language as the files name it; `data.target_language` if not given."""


class OpusCorpus(Corpus):
    """Moses files of OPUS: two text files, and `.ids` with the two documents of each line in its first columns."""

    format: Literal["opus"]
    """Two files of text and one of documents, as OPUS publishes them."""
    source: FilePath
    """Sentences of the source language; an empty line is an empty sentence."""
    target: FilePath
    """Their translations, line for line."""
    ids: FilePath
    """The documents of each line, line for line."""


class OpusXmlCorpus(LanguagesCorpus):
    """XML of OPUS: an alignment of sentences (`de-en.xml.gz`) and the documents that it links."""

    format: Literal["opus-xml"]
    """An alignment and two collections of documents."""
    alignment: FilePath
    """The alignment: `linkGrp`s of documents with a `link` for each pair; each group is a document."""
    source: FilePath
    """Documents of the source language: OPUS' `.zip`, or the folder that holds what it unpacks to."""
    target: FilePath
    """Documents of the target language; may be the same folder."""


class TmxCorpus(LanguagesCorpus):
    """A translation memory, TMX. Inline codes are left out of its sentences."""

    format: Literal["tmx"]
    """A translation memory."""
    path: FilePath
    """The file."""
    documents: str = "each"
    """What a document is: `each` unit alone, the `file`, or neighbours with the same `<prop>` of this type."""


class PoCorpus(LanguagesCorpus):
    """Translations of software: a `.po` file, or a folder with those of many languages. A file is a document."""

    format: Literal["po"]
    """PO files."""
    path: FilePath
    """A file, or a folder: all files below it whose name, or folder, is the target language."""


class TableCorpus(LanguagesCorpus):
    """Settings of corpora in tables."""

    source_column: str | None = None
    """Column of the source, `translation.en` for a field of a column; if not given, `translation` with the source
    language as field, or `source`, or the source language."""
    target_column: str | None = None
    """Column of the target, found in the same way if not given."""
    documents: str | None = None
    """What a document is: neighbours with the same value in the column of this name, `each` row, or the `file`; if not
    given, the column `document`. Not needed where a row holds lists of sentences: it is a document."""


class ParquetCorpus(TableCorpus):
    """Parquet files. Needs the extra `parquet`."""

    format: Literal["parquet"]
    """One or more Parquet files."""
    path: FilePath
    """The file, or a folder of `.parquet` files, read in the order of their names."""


class DatasetCorpus(TableCorpus):
    """A dataset that `save_to_disk` of Hugging Face's `datasets` wrote. Needs the extra `parquet`, not `datasets`."""

    format: Literal["dataset"]
    """A folder of Arrow files."""
    path: FilePath
    """The folder; that of one split, if the dataset has several."""


class ParadocsCorpus(Corpus):
    """ParaDocs (Wicks et al., 2024): TSV as published, or as its own filter writes it."""

    format: Literal["paradocs"]
    """One file of tab-separated columns."""
    path: FilePath
    """The file."""
    max_frequency: PositiveInt | None = 100
    """Leave out lines that occur more often in the crawl; a document ends there."""
    min_language_probability: Annotated[float, Field(ge=0, le=1)] | None = 0.5
    """Leave out lines with a side that is less certainly in its language; a document ends there."""


class SubtitlesCorpus(Corpus):
    """Subtitles (SRT) of the same films in two languages, aligned by time. A film is a document."""

    format: Literal["subtitles"]
    """Two files of subtitles, or two folders."""
    source: FilePath
    """Subtitles of the source language: a file, or a folder of them."""
    target: FilePath
    """Those of the target language; in folders, files of one film have the same name, but for its language."""
    target_shift: float = 0.0
    """Seconds to add to the times of the target."""
    target_speed: PositiveFloat = 1.0
    """What to multiply the times of the target by, before the shift: 1.0427 from 25 to 23.976 frames a second."""


class GeneratedCorpus(Corpus):
    """The generated English-German corpus whose sentences need their context; no files at all."""

    format: Literal["generated"]
    """No files."""
    documents: PositiveInt = 1000
    """How many documents to generate."""
    seed: int = 1
    """Another seed, another corpus; the same seed, the same corpus on every machine."""


AnyCorpus = Annotated[
    TextCorpus
    | IdsCorpus
    | TsvCorpus
    | JsonlCorpus
    | Wit3Corpus
    | FragmentsCorpus
    | OpusCorpus
    | OpusXmlCorpus
    | TmxCorpus
    | PoCorpus
    | ParquetCorpus
    | DatasetCorpus
    | ParadocsCorpus
    | SubtitlesCorpus
    | GeneratedCorpus,
    Field(discriminator="format"),
]
