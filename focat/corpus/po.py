"""PO files (gettext) as corpora: the entries of a file, in its order, are a document."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from focat.config.corpora import PoCorpus
from focat.corpus.document import Document
from focat.corpus.po_entries import PoEntry, read_entries
from focat.corpus.text_files import DECOMPRESSORS, LineLimit, Lines, fold_spaces, open_bytes
from focat.errors import FocatError

_CHARSET = re.compile(rb"charset=([A-Za-z0-9_.:-]+)")
_HEAD = 1 << 14  # bytes in which the header, the first entry, names the encoding


def po_files(corpus: PoCorpus, language: str) -> list[Path]:
    """The file, or all files of a language below the folder, in the order of their names."""
    if not corpus.path.is_dir():
        return [corpus.path]
    every = sorted(path for path in corpus.path.rglob("*.po*") if _plain(path).endswith(".po") and path.is_file())
    files = [path for path in every if _is_of(path.relative_to(corpus.path), language)]
    if not files:
        raise FocatError(
            f"{corpus.path}: of {len(every):,} .po files below it, none is of {language}: neither "
            f"{language}.po nor in a folder {language}; set target_language of the corpus to the name they have"
        )
    return files


def read_po(corpus: PoCorpus, language: str, limit: LineLimit, left_out: Counter[str]) -> Iterator[Document]:
    """A document for each file; fuzzy and untranslated entries are left out, obsolete ones are not even counted."""
    for path in po_files(corpus, language):
        name = str(path.relative_to(corpus.path)) if corpus.path.is_dir() else path.name
        document = Document(name, [], [])
        for entry in read_entries(Lines(path, limit, _encoding(path))):
            if entry.is_header or not entry.fields:
                continue
            for source, target in _pairs(entry):
                if not target or entry.is_fuzzy:
                    left_out["fuzzy" if target else "untranslated"] += 1
                    continue
                document.source.append(fold_spaces(source))
                document.target.append(fold_spaces(target))
        if document.source:
            yield document


def _pairs(entry: PoEntry) -> list[tuple[str, str]]:
    """The message with its translation; with plural forms, also the plural with the last form."""
    forms = list(entry.translations.values())
    if entry.plural is None:
        return [(entry.message, forms[0])]
    # A language with one form has the same for one and for many: it translates the plural.
    return [*([(entry.message, forms[0])] if len(forms) > 1 else []), (entry.plural, forms[-1])]


def _encoding(path: Path) -> str:
    """The encoding that the header names; UTF-8 if it names none."""
    with open_bytes(path) as stream:
        found = _CHARSET.search(stream.read(_HEAD))
    name = found[1].decode() if found else "utf-8"
    if name == "CHARSET":  # what a template has, before anyone has translated it
        return "utf-8"
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise FocatError(f"{path}: its header names the encoding {name}, which is unknown; save it as UTF-8") from None


def _plain(path: Path) -> str:
    return path.stem if path.suffix.lower() in DECOMPRESSORS else path.name


def _is_of(path: Path, language: str) -> bool:
    """Whether a file of a tree is of a language: de.po, manual-de.po, de/LC_MESSAGES/game.po."""
    stem = _plain(path).removesuffix(".po")
    return language in (stem, *path.parts[:-1]) or stem.endswith(tuple(f"{mark}{language}" for mark in ".-_"))
