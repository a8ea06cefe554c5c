"""TED talks as WIT3 and IWSLT publish them: `train.tags.en-de.en` (lines of text under tags such as <talkid>)
and `.xml` (<doc> and <seg>). Neither is well-formed XML in practice, so both are read by their tags alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from focat.corpus.document import Document
from focat.corpus.text_files import DEFAULT_LIMIT, LineLimit, Lines, is_blank
from focat.errors import FocatError

# Named one by one, because a sentence, too, may start with something in angle brackets.
TAG_LINE = re.compile(
    r"\s*<(?P<name>/?(?:url|talkid|title|description|keywords|speaker|reviewer|translator|doc|transcript))\b[^<>]*>"
    r"(?P<text>.*?)(?:</\w+>\s*)?",
    re.IGNORECASE,
)
CREDITS = ("reviewer", "translator")
"""Tags that may be missing on one side, so that nothing can be told from them."""

MARKUP = re.compile(
    r"<(?P<tag>/?doc|/?seg)\b(?P<attributes>[^<>]*)>|<talkid>(?P<talkid>[^<>]*)</talkid>", re.IGNORECASE
)
DOCID = re.compile(r"""\bdocid\s*=\s*["']([^"']*)["']""", re.IGNORECASE)
XML_STARTS = ("<?xml", "<mteval", "<srcset", "<refset", "<tstset")

ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6}));")
NAMED_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


@dataclass
class Talk:
    """One side of a talk."""

    line: int
    """Where it starts in its file."""
    id: str | None = None
    sentences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"talk {self.id}" if self.id else "a talk without id"


def read_talks(source: Path, target: Path, limit: LineLimit = DEFAULT_LIMIT) -> Iterator[Document]:
    """The talks of two files as documents. Talks are matched by their order, and must then agree."""
    counts = [0, 0]
    alone: Talk | None = None  # the first without a partner
    for ours, theirs in zip_longest(read_side(source, limit), read_side(target, limit)):
        counts[0] += ours is not None
        counts[1] += theirs is not None
        if ours is None or theirs is None:
            alone = alone or ours or theirs
            continue  # only counted, so that the error can give the numbers of talks
        if ours.id and theirs.id and ours.id != theirs.id:
            raise FocatError(
                f"{source}, line {ours.line}: talk {ours.id}, but {target}, line {theirs.line}: talk {theirs.id}; "
                f"both files must hold the same talks in the same order"
            )
        if len(ours.sentences) != len(theirs.sentences):
            raise FocatError(
                f"{ours} has {len(ours.sentences)} sentences in {source} (from line {ours.line}) "
                f"but {len(theirs.sentences)} in {target} (from line {theirs.line}); they must correspond one by one"
            )
        if ours.sentences:
            yield Document(ours.id or theirs.id or f"{source.name}:{ours.line}", ours.sentences, theirs.sentences)
    if alone is not None:
        longer = source if counts[0] > counts[1] else target
        raise FocatError(
            f"{source} has {counts[0]} talks but {target} has {counts[1]}: {alone} ({longer}, line {alone.line}) "
            f"has no partner; both files must hold the same talks in the same order"
        )


def read_side(path: Path, limit: LineLimit = DEFAULT_LIMIT) -> Iterator[Talk]:
    """The talks of one file, in whichever of the two formats it is written."""
    lines = Lines(path, limit)
    return _read_segments(lines) if _has_segments(lines) else _read_tagged(lines)


def _has_segments(lines: Lines) -> bool:
    """Whether the first thing in the file that can tell belongs to the `.xml` format."""
    for line in lines:
        start = line.strip().lower()
        if start.startswith(XML_STARTS) or "<seg" in start:
            return True
        if start and not TAG_LINE.match(start):
            return False
    return False


def _read_tagged(lines: Lines) -> Iterator[Talk]:
    """`train.tags.*`: a block of tags opens a talk, and every other line is a sentence of it."""
    talk: Talk | None = None
    tags: set[str] = set()  # those of the open talk
    for line in lines:
        tag = TAG_LINE.fullmatch(line) if "<" in line else None
        if tag is None:
            if talk is None:
                if is_blank(line):
                    continue
                talk, tags = Talk(lines.number), set()
            talk.sentences.append(line)
            continue
        name = tag["name"].lower()
        if name in CREDITS or name[1:] in CREDITS:
            continue
        # A tag below sentences, or one that the talk has already, belongs to the next talk.
        if talk is not None and (talk.sentences or name in tags or name == "/doc"):
            yield talk
            talk = None
        if name.startswith("/"):
            continue
        if talk is None:
            talk, tags = Talk(lines.number), set()
        tags.add(name)
        if name == "talkid":
            talk.id = tag["text"].strip() or None
    if talk is not None:
        yield talk


def _read_segments(lines: Lines) -> Iterator[Talk]:
    """`.xml`: <doc>s of <seg>s. What is outside a <seg> (title, description, …) is not a sentence."""
    talk: Talk | None = None
    segment: list[str] | None = None  # the parts of the open <seg>
    opened = 0  # the line where it opens
    for line in lines:
        position = 0
        for markup in MARKUP.finditer(line):
            tag = (markup["tag"] or "talkid").lower()
            if tag == "/seg" and talk is not None and segment is not None:
                segment.append(line[position : markup.start()])
                talk.sentences.append(unescape(" ".join(segment).strip()))
                segment = None
            elif segment is not None:
                raise lines.error(f"<{tag}> inside the <seg> that opens at line {opened}; close it with </seg>")
            elif tag == "/doc" and talk is not None:
                yield talk
                talk = None
            elif tag == "doc":
                if talk is not None:
                    yield talk
                docid = DOCID.search(markup["attributes"])
                talk = Talk(lines.number, docid[1] if docid else None)
            elif tag == "talkid" and talk is not None:
                talk.id = markup["talkid"].strip() or talk.id
            elif tag == "seg":
                talk = talk or Talk(lines.number)
                segment, opened = [], lines.number
            position = markup.end()
        if segment is not None:
            segment.append(line[position:])
    if segment is not None:
        raise FocatError(f"{lines.path}, line {opened}: this <seg> is never closed; the file may be cut short")
    if talk is not None:
        yield talk


def unescape(text: str) -> str:
    """The text with XML's five entities and the numeric ones replaced; a bare & stays as it is."""
    return ENTITY.sub(_character, text) if "&" in text else text


def _character(entity: re.Match[str]) -> str:
    name, decimal, hexadecimal = entity.groups()
    if name:
        return NAMED_ENTITIES[name]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    is_character = 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_character else entity[0]
