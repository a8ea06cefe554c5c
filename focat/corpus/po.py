"""PO files (gettext) as corpora: the entries of a file, in its order, are a document.

Read by hand, because a corpus needs no more of the format than this, and errors that name the line.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from focat.config.corpora import PoCorpus
from focat.corpus.document import Document
from focat.corpus.text_files import DECOMPRESSORS, LineLimit, Lines, fold_spaces, open_bytes
from focat.errors import FocatError

_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d+)\])?)\s*(.*)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CHARSET = re.compile(rb"charset=([A-Za-z0-9_.:-]+)")
_HEAD = 1 << 14  # bytes in which the header, the first entry, names the encoding


@dataclass
class Entry:
    """A message and its translation."""

    line: int
    strings: dict[str, str] = field(default_factory=dict)
    """By keyword: msgctxt, msgid, msgid_plural, msgstr, msgstr[0], …"""
    fuzzy: bool = False

    @property
    def is_header(self) -> bool:
        """Whether it describes the file."""
        return not self.strings.get("msgid") and "msgctxt" not in self.strings

    def pairs(self) -> list[tuple[str, str]]:
        """The message with its translation; with plural forms, also the plural with the last form."""
        message = self.strings.get("msgid", "")
        if "msgid_plural" not in self.strings:
            return [(message, self.strings.get("msgstr", ""))]
        forms = [text for keyword, text in self.strings.items() if keyword.startswith("msgstr")]
        plural = [(self.strings["msgid_plural"], forms[-1] if forms else "")]
        # A language with one form has the same for one and for many: it translates the plural.
        return plural if len(forms) < 2 else [(message, forms[0]), *plural]


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
        for entry in read_entries(path, limit):
            if entry.is_header:
                continue
            for source, target in entry.pairs():
                if not target or entry.fuzzy:
                    left_out["fuzzy" if target else "untranslated"] += 1
                    continue
                document.source.append(fold_spaces(source))
                document.target.append(fold_spaces(target))
        if document.source:
            yield document


def read_entries(path: Path, limit: LineLimit) -> Iterator[Entry]:
    """The entries of a file that are not obsolete."""
    lines = Lines(path, limit, _encoding(path))
    entry: Entry | None = None
    keyword = ""  # what a line that is only a string continues
    fuzzy = False  # whether the comments of the next entry say so
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            if entry is not None and any(name.startswith("msgstr") for name in entry.strings):
                yield entry
                entry = None
            fuzzy = fuzzy or (text.startswith("#,") and "fuzzy" in re.split(r"[,\s]+", text))
            if text.startswith("#~"):
                fuzzy = False
            keyword = keyword if text.startswith("#") else ""
            continue
        if match := _KEYWORD.fullmatch(text):
            keyword, text = match[1], match[3]
            if keyword in ("msgctxt", "msgid") and entry is not None and "msgid" in entry.strings:
                yield entry
                entry = None
            entry, fuzzy = (Entry(lines.number, fuzzy=fuzzy), False) if entry is None else (entry, fuzzy)
            if keyword in entry.strings:
                raise lines.error(f"a second {keyword} in the entry of line {entry.line}; a blank line may be missing")
            entry.strings[keyword] = ""
        string = _STRING.fullmatch(text)
        if string is None or entry is None or not keyword:
            raise lines.error(f"{text[:60]}: is neither a keyword such as msgid nor a string in quotes")
        entry.strings[keyword] += _ESCAPE.sub(_character, string[1]) if "\\" in text else string[1]
        if len(entry.strings[keyword]) > limit.bytes:
            raise lines.error(f"a string of more than {limit.bytes:,} characters; {limit.remedy}")
    if entry is not None:
        if not any(name.startswith("msgstr") for name in entry.strings):
            raise lines.error("ends inside an entry, before its msgstr; the file may be cut short")
        yield entry


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


def _character(escape: re.Match[str]) -> str:
    octal, hexadecimal, other = escape.groups()
    if octal or hexadecimal:
        return chr(int(octal, 8) if octal else int(hexadecimal, 16))
    return _ESCAPED.get(other, other)


def _plain(path: Path) -> str:
    return path.stem if path.suffix.lower() in DECOMPRESSORS else path.name


def _is_of(path: Path, language: str) -> bool:
    """Whether a file of a tree is of a language: de.po, manual-de.po, de/LC_MESSAGES/game.po."""
    stem = _plain(path).removesuffix(".po")
    return language in (stem, *path.parts[:-1]) or stem.endswith(tuple(f"{mark}{language}" for mark in ".-_"))
