"""Documents made by other libraries, translated without a model, and read again by lxml."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx
import numpy as np
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from lxml import etree

from focat.translation.alignment import WordAlignment, word_spans
from focat.translation.formats import FormatOptions, InputLines, format_of, read_segments
from focat.translation.outputs import segment_writer
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence, as_input

_DROPPED = {"proofErr", "lastRenderedPageBreak", "softHyphen"}
_OF_LANGUAGE = {"lang", "altLang", "dirty", "err", "smtClean", "noProof"}
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


def with_words(content: str) -> docx.document.Document:
    """A document of Word with these children of its body, in XML."""
    document = docx.Document()
    namespaces = nsdecls("w", "r", "wp", "a")
    for element in parse_xml(f"<w:body {namespaces}>{content}</w:body>"):
        document.element.body.insert(-1, element)
    return document


def small(content: str, path: Path) -> Path:
    """The same without all that a document need not have."""
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", f'<Types><Override PartName="/a.xml" ContentType="{main}"/></Types>')
        archive.writestr("a.xml", f"<w:document {nsdecls('w')}><w:body>{content}</w:body></w:document>")
    return path


def saved(document: Any, path: Path) -> Path:
    document.save(str(path))
    return path


def upper(sentence: InputSentence) -> Translation:
    return Translation(sentence.text, sentence.text.upper())


def same(sentence: InputSentence) -> Translation:
    return Translation(sentence.text, sentence.text)


def rotated(sentence: InputSentence) -> Translation:
    """The first word becomes the last."""
    words = sentence.text.split(" ")
    target = " ".join([*words[1:], words[0]])
    rows, columns = word_spans(sentence.text), word_spans(target)
    weights = np.zeros((len(columns), len(rows)))
    for column, (start, end) in enumerate(columns):
        origin = (target.count(" ", 0, start) + 1) % len(words)
        for row, (begin, stop) in enumerate(rows):
            same_word = sentence.text.count(" ", 0, begin) == origin
            weights[column, row] = same_word and target[start:end] == sentence.text[begin:stop]
    return Translation(sentence.text, target, alignment=WordAlignment(rows, columns, weights))


def sentences(path: Path) -> list[list[str]]:
    """What there is to translate, file by file of the archive."""
    found: list[list[str]] = []
    last = None
    for segment in read_segments(InputLines(path), format_of(path), FormatOptions()):
        if segment.member is not last:
            found.append([])
            last = segment.member
        found[-1] += [as_input(sentence).text for sentence in segment.sentences]
    return [of_file for of_file in found if of_file]


def translate(path: Path, how: Callable[[InputSentence], Translation]) -> Path:
    """The document with a translation of every sentence, in a file beside it."""
    name, content = format_of(path), io.BytesIO()
    writer = segment_writer(content, name, path)
    for segment in read_segments(InputLines(path), name, FormatOptions()):
        writer.write(segment, [how(as_input(sentence)) for sentence in segment.sentences])
    writer.finish()
    output = path.with_stem(f"{path.stem}-{getattr(how, '__name__', 'other')}")
    output.write_bytes(content.getvalue())
    return output


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def changed(before: Path, after: Path) -> set[str]:
    """The files of an archive that are not the same bytes in another, which must have the same names."""
    old, new = members(before), members(after)
    assert list(old) == list(new)
    return {name for name in old if old[name] != new[name]}


def flat(content: bytes) -> list[Any]:
    """An XML file in order: every character of a run with its format, every other element with its attributes.

    Formats are compared without languages and what a spelling checker has found.
    """
    found: list[Any] = []
    _flatten(etree.fromstring(content), found)
    return found


def _flatten(element: Any, found: list[Any]) -> None:
    name = etree.QName(element).localname
    if name in _DROPPED:
        return
    if name == "r":
        _flatten_run(element, found)
        return
    found.append(("begin", element.tag, () if name == "p" else tuple(sorted(element.attrib.items()))))
    found.extend((element.text or "").strip())
    for child in element:
        _flatten(child, found)
        found.extend((child.tail or "").strip())
    found.append("end")


def _flatten_run(run: Any, found: list[Any]) -> None:
    format = next((_format(child) for child in run if etree.QName(child).localname == "rPr"), "")
    for child in run:
        name = etree.QName(child).localname
        if name == "t":
            text = child.text or ""
            in_word = "wordprocessingml" in child.tag
            found += [(c, format) for c in (text if child.get(_SPACE) or not in_word else text.strip())]
        elif name != "rPr":
            found.append(("in run", format))
            _flatten(child, found)


def _format(properties: Any) -> str:
    attributes = sorted(
        item for item in properties.attrib.items() if etree.QName(item[0]).localname not in _OF_LANGUAGE
    )
    children = [etree.tostring(c, method="c14n") for c in properties if etree.QName(c).localname not in _OF_LANGUAGE]
    return repr((attributes, children)) if attributes or children else ""


def bag(path: Path) -> tuple[Counter[str], Counter[str]]:
    """How often each character and each element occurs in the XML files, without runs and their formats."""
    characters: Counter[str] = Counter()
    elements: Counter[str] = Counter()
    for name, content in members(path).items():
        if not name.endswith((".xml", ".xhtml", ".rels")):
            continue
        root = etree.fromstring(content)
        characters.update("".join(root.itertext()).split())
        for element in root.iter():
            names = [etree.QName(each).localname for each in (element, *element.iterancestors())]
            if "rPr" not in names and names[0] not in _DROPPED | {"r", "t"}:
                elements[names[0]] += 1
    return characters, elements


def paragraph(content: str) -> str:
    return f"<w:p>{content}</w:p>"


def said(content: str, format: str = "") -> str:
    text = f'<w:t xml:space="preserve">{content}</w:t>' if not content.startswith("<") else content
    return f"<w:r>{f'<w:rPr>{format}</w:rPr>' if format else ''}{text}</w:r>"


def field(instruction: str, result: str) -> str:
    begin, separate, end = (said(f'<w:fldChar w:fldCharType="{kind}"/>') for kind in ("begin", "separate", "end"))
    return begin + said(f"<w:instrText>{instruction}</w:instrText>") + separate + result + end


def body(path: Path) -> str:
    """The paragraphs of a document, in XML, without its last element, which has the size of the page."""
    text = members(path)["word/document.xml"].decode()
    return text[text.index("<w:body>") + 8 : text.index("<w:sectPr")]


def runs(path: Path) -> list[tuple[str, bool | None]]:
    """Text and boldness of all runs, as python-docx sees them."""
    return [(r.text, r.bold) for p in docx.Document(str(path)).paragraphs for r in p.runs]
