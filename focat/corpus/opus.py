"""Corpora as OPUS publishes them: Moses files with `.ids`, or XML documents and the alignment of their sentences."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, cast

from focat.config.corpora import OpusCorpus, OpusXmlCorpus
from focat.corpus.document import Document
from focat.corpus.text_files import LineLimit, Lines, fold_spaces, open_bytes, parallel_lines
from focat.corpus.xml_files import XmlEvents
from focat.errors import FocatError

# ------------------------------------------------------------------------------------------------ Moses files with ids


def read_moses(corpus: OpusCorpus, limit: LineLimit) -> Iterator[Document]:
    """Two text files; neighbouring lines from the same two documents are one document."""
    for name, group in groupby(_named_lines(corpus, limit), key=itemgetter(0)):
        _, source, target = zip(*group, strict=True)
        yield Document(name, list(source), list(target))


def _named_lines(corpus: OpusCorpus, limit: LineLimit) -> Iterator[tuple[str, str, str]]:
    ids = Lines(corpus.ids, limit)
    for source, target, line in parallel_lines(Lines(corpus.source, limit), Lines(corpus.target, limit), ids):
        columns = line.split("\t")
        if len(columns) < 2 or not columns[0].strip() or not columns[1].strip():
            raise ids.error("expected two documents and the ids of their sentences, between tabs, as OPUS has them")
        yield f"{columns[0]} {columns[1]}", source, target


# --------------------------------------------------------------------------------------------- XML and its alignments


class DocumentFiles:
    """The XML documents of a language: a `.zip` of OPUS, or a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._zip: zipfile.ZipFile | None = None
        self._names: dict[str, str] = {}  # by the path below the folder of the language's name
        if path.is_dir():
            return
        try:
            self._zip = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise FocatError(f"{path}: no such file or folder") from None
        except (OSError, NotImplementedError, zipfile.BadZipFile) as error:
            raise FocatError(f"{path}: neither a folder nor a .zip that can be read ({error})") from None

    def open(self, document: str) -> BinaryIO:
        """The XML of a document that an alignment names, as `de/2017/1/2.xml.gz`."""
        plain = document.removesuffix(".gz")
        if self._zip is None:
            for name in (document, plain, f"{plain}.gz"):
                if (self.path / name).is_file():
                    return open_bytes(self.path / name)
        else:
            try:
                return cast(BinaryIO, self._zip.open(self._member(self._zip, plain)))
            except KeyError:
                pass
            except (OSError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
                raise FocatError(f"{self.path}: {plain} cannot be read from it ({error})") from None
        language = plain.split("/")[0]
        raise FocatError(f"{self.path}: has no document {plain}; give the folder that holds {language}/, or OPUS' .zip")

    def _member(self, archive: zipfile.ZipFile, document: str) -> str:
        """The name of a document in the archive, where folders of the corpus stand in front of it."""
        if not self._names:
            mark = document.split("/")[0] + "/"
            for name in archive.namelist():
                self._names[mark + f"/{name}".partition(f"/{mark}")[2]] = name
        return self._names[document]


def read_aligned(
    corpus: OpusXmlCorpus, languages: tuple[str, str], limit: LineLimit, left_out: Counter[str]
) -> Iterator[Document]:
    """The documents of an alignment, one for each `linkGrp`; links to nothing are left out."""
    # The last tag is missing in test sets that OPUS has published (OpenSubtitles 2024).
    events = XmlEvents(str(corpus.alignment), lambda: open_bytes(corpus.alignment), limit, may_lack_last_tag=True)
    files = DocumentFiles(corpus.source), DocumentFiles(corpus.target)
    sides: tuple[dict[str, str], dict[str, str]] | None = None
    names, swapped = ("", ""), False
    document = Document("", [], [])
    for kind, name, attributes, _ in events:
        if kind == "open" and name == "linkGrp":
            names, swapped = _sides_of(attributes.get("fromDoc", ""), attributes.get("toDoc", ""), languages, events)
            sides = (
                read_sentences(files[0], names[0], limit),
                read_sentences(files[1], names[1], limit),
            )
            document = Document(" ".join(names), [], [])
        elif kind == "open" and name == "link":
            if sides is None:
                raise events.error("<link> outside a <linkGrp>")
            ids = [side.split() for side in attributes.get("xtargets", "").split(";")]
            if len(ids) != 2:
                raise events.error('expected xtargets="1 2;1", sentences of the one side and of the other')
            source, target = map(_joined, sides, ids[::-1] if swapped else ids)
            if source is None or target is None:
                left_out["unaligned"] += 1
                continue
            document.source.append(source)
            document.target.append(target)
        elif kind == "close" and name == "linkGrp":
            if document.source:
                yield document
            sides = None


def _sides_of(first: str, second: str, languages: tuple[str, str], events: XmlEvents) -> tuple[tuple[str, str], bool]:
    """The documents of source and target, and whether the alignment has them the other way around."""
    found = first.split("/")[0], second.split("/")[0]
    if found == languages:
        return (first, second), False
    if found == languages[::-1]:
        return (second, first), True
    raise events.error(
        f'<linkGrp fromDoc="{first}" toDoc="{second}">: does not link {languages[0]}/ to {languages[1]}/; '
        "set source_language and target_language of the corpus to what the alignment has"
    )


def _joined(sentences: dict[str, str], ids: list[str]) -> str | None:
    """The sentences of a side of a link; None if there is none, or one that the document does not have (Books)."""
    return " ".join(sentences[id] for id in ids) if ids and all(id in sentences for id in ids) else None


def read_sentences(files: DocumentFiles, document: str, limit: LineLimit) -> dict[str, str]:
    """The sentences of an XML document by their ids: their text, or their words with spaces between them."""
    events = XmlEvents(f"{files.path}: {document}", lambda: files.open(document), limit)
    sentences: dict[str, str] = {}
    id: str | None = None
    text: list[str] = []
    words: list[str] = []
    in_word = False
    for kind, name, attributes, _ in events:
        if kind == "text":
            if in_word:
                words[-1] += name
            elif id is not None:
                text.append(name)
        elif name == "w":
            in_word = kind == "open" and id is not None
            if in_word:
                words.append("")
        elif name == "s" and kind == "open":
            if "id" not in attributes:
                raise events.error("<s> without an id")
            id, text, words = attributes["id"], [], []
        elif name == "s" and id is not None:
            sentences[id] = fold_spaces(" ".join(words) if words else "".join(text))
            id = None
    return sentences
