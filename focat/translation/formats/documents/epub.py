"""EPUB books: their chapters are translated as web pages, and their tables of contents."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import partial
from urllib.parse import unquote

from focat.translation.formats.documents.archives import Archive, ReadMember
from focat.translation.formats.html import markup_segments
from focat.translation.formats.languages import translated_language
from focat.translation.formats.lines import InputLines
from focat.translation.formats.markup import tokens
from focat.translation.formats.segments import FileSegment, FormatOptions, verbatim

_CONTAINER = "META-INF/container.xml"
_LANGUAGE = re.compile(r"(<dc:language\b[^>]*>\s*)([^<\s]+)(\s*<)")
_CHAPTER, _CONTENTS = "application/xhtml+xml", "application/x-dtbncx+xml"


def epub_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """The segments of a book."""
    archive = Archive(lines, "EPUB")
    roots = (token.attributes for token in tokens(archive.read_xml(_CONTAINER)) if token.name == "rootfile")
    packages = [path for root in roots if (path := root.get("full-path"))]
    members: dict[str, ReadMember] = {}
    for package in packages:
        for token in tokens(archive.read_xml(package)):
            if token.name == "item" and token.attributes.get("media-type") in (_CHAPTER, _CONTENTS):
                path = posixpath.join(posixpath.dirname(package), unquote(token.attributes.get("href", "")))
                is_page = token.attributes["media-type"] == _CHAPTER
                members[posixpath.normpath(path)] = partial(_read_page, archive, options, is_page)
        members[package] = partial(_read_package, archive, options)
    if not packages:
        raise archive.error(f"is no EPUB file: {_CONTAINER} names no book")
    yield from archive.segments(members)


def _read_page(archive: Archive, options: FormatOptions, html: bool, name: str) -> Iterator[FileSegment]:
    return markup_segments(list(tokens(archive.read_text(name), html=html)), options)


def _read_package(archive: Archive, options: FormatOptions, name: str) -> Iterator[FileSegment]:
    """The package, copied but for the language of the book."""

    def translated(match: re.Match[str]) -> str:
        return match[1] + translated_language(match[2], options.languages) + match[3]

    yield verbatim(1, _LANGUAGE.sub(translated, archive.read_xml(name)))
