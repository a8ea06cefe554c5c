"""Small documents of office programs, and a book, made by hand, for the soak harness to change."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

_TYPES = "application/vnd.openxmlformats-officedocument"
_WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_DRAWING = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
_OPEN = f'xmlns:office="{_OASIS}:office:1.0" xmlns:text="{_OASIS}:text:1.0"'


def write_archive(path: Path, members: Mapping[str, bytes]) -> None:
    """Write a ZIP archive, the same bytes each time."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)


def write_documents(folder: Path, sentences: Sequence[str]) -> None:
    """Write one of each format."""
    first, second, third = map(escape, sentences[:3])
    bold = "<w:r><w:rPr><w:b/></w:rPr><w:t>cat</w:t></w:r>"
    box = f"<w:r><w:pict><w:txbxContent><w:p><w:r><w:t>{third}</w:t></w:r></w:p></w:txbxContent></w:pict></w:r>"
    fields = "".join(f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end"))
    word = (
        f"<w:document {_WORD}><w:body>\n<w:p><w:pPr/><w:r><w:t>{first}</w:t></w:r>{bold}</w:p>\n"
        f'<w:p><w:hyperlink w:anchor="a"><w:r><w:t>{second}</w:t><w:tab/></w:r></w:hyperlink>{fields}{box}</w:p>\n'
        f'<w:p><w:sdt><w:sdtPr/><w:sdtContent>{bold}</w:sdtContent></w:sdt><w:bookmarkStart w:id="1"/>{bold}</w:p>\n'
        "</w:body></w:document>\n"
    )
    slide = (
        f"<p:sld xmlns:p='p' {_DRAWING}>\n<a:p><a:r><a:rPr lang='en'/><a:t>{first}</a:t></a:r><a:br/>\n"
        f"<a:r><a:rPr b='1'/><a:t>{second}</a:t></a:r><a:endParaRPr/></a:p></p:sld>\n"
    )
    content = (
        f"<office:document-content {_OPEN}><office:body>\n<text:h>{first}</text:h>\n<text:p>"
        f"<text:span>{second}</text:span> and<text:note><text:note-body><text:p>{third}</text:p></text:note-body>"
        "</text:note><text:tab/>more</text:p>\n"
        "</office:body></office:document-content>\n"
    )
    _write_office(folder / "letter.docx", "word/document.xml", "wordprocessingml.document.main", word)
    _write_office(folder / "talk.pptx", "ppt/slides/slide1.xml", "presentationml.slide", slide)
    _write(folder / "letter.odt", {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})
    package = (
        '<package><metadata><dc:language xmlns:dc="d">en</dc:language></metadata>\n<manifest>'
        '<item href="a.xhtml" media-type="application/xhtml+xml"/></manifest></package>\n'
    )
    page = f'<html lang="en"><body>\n<h1>{first}</h1>\n<p>{second} <b>{third}</b></p>\n</body></html>\n'
    container = '<container><rootfiles><rootfile full-path="book/p.opf"/></rootfiles></container>\n'
    book = {"META-INF/container.xml": container, "book/p.opf": package, "book/a.xhtml": page}
    _write(folder / "book.epub", {"mimetype": "application/epub+zip", **book})


def _write_office(path: Path, name: str, kind: str, content: str) -> None:
    types = f'<Types><Override PartName="/{name}" ContentType="{_TYPES}.{kind}+xml"/></Types>'
    _write(path, {"[Content_Types].xml": types, name: content})


def _write(path: Path, members: Mapping[str, str]) -> None:
    write_archive(path, {name: content.encode() for name, content in members.items()})
