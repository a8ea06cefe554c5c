"""XML as a stream of tags and text that know their line. What is wrong with a file is one clear error.

Python's own readers of whole elements give no line numbers and keep what they have read; this one does neither.
"""

from __future__ import annotations

import html
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, Literal
from xml.parsers import expat

from focat.corpus.text_files import CHUNK, DEFAULT_LIMIT, LineLimit
from focat.errors import FocatError

EventKind = Literal["open", "close", "text"]
XmlEvent = tuple[EventKind, str, Mapping[str, str], int]
"""A tag that opens or closes, or a piece of text: its kind, the name or the text, the attributes, the line."""
_NO_ATTRIBUTES: Mapping[str, str] = {}


class XmlEvents:
    """Tags and text of an XML file, in order; `line` is that of the event last given."""

    def __init__(
        self,
        where: str,
        open_file: Callable[[], BinaryIO],
        limit: LineLimit = DEFAULT_LIMIT,
        may_lack_last_tag: bool = False,
    ) -> None:
        self.where, self.limit = where, limit
        self.line = 0
        self._may_lack_last_tag = may_lack_last_tag
        self._depth = 0  # how many elements are open
        self._open = open_file

    def __iter__(self) -> Iterator[XmlEvent]:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        events: list[XmlEvent] = []
        self._depth = 0

        def opened(name: str, attributes: Mapping[str, str]) -> None:
            events.append(("open", name, attributes, parser.CurrentLineNumber))
            self._depth += 1

        def closed(name: str) -> None:
            events.append(("close", name, _NO_ATTRIBUTES, parser.CurrentLineNumber))
            self._depth -= 1

        def add_text(text: str) -> None:
            events.append(("text", text, _NO_ATTRIBUTES, parser.CurrentLineNumber))

        def refuse(name: str, *_: object) -> None:
            raise self.error(f"declares the entity {name}; entities of its own are not read", parser.CurrentLineNumber)

        parser.StartElementHandler = opened
        parser.EndElementHandler = closed
        parser.CharacterDataHandler = add_text
        parser.EntityDeclHandler = refuse
        # An entity that only a DTD would declare, which is not read: &nbsp; and the like have their usual meaning.
        parser.SkippedEntityHandler = lambda name, _: add_text(html.unescape(f"&{name};"))
        since_tag = 0
        for chunk in self._chunks():
            self._parse(parser, chunk, False)
            since_tag = 0 if any(kind != "text" for kind, *_ in events) else since_tag + len(chunk)
            if since_tag > self.limit.bytes:
                problem = f"no end of a tag in the last {self.limit.bytes:,} bytes"
                raise self.error(f"{problem}; {self.limit.remedy}", parser.CurrentLineNumber)
            yield from self._given(events)
            events.clear()
        if not (self._may_lack_last_tag and self._depth == 1):
            self._parse(parser, b"", True)
        yield from self._given(events)

    def error(self, problem: str, line: int | None = None) -> FocatError:
        """An error about the event last given, or about another line."""
        return FocatError(f"{self.where}, line {line or self.line}: {problem}")

    def _chunks(self) -> Iterator[bytes]:
        with self._open() as stream:
            try:
                yield from iter(lambda: stream.read(CHUNK), b"")
            except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:  # the last two: of a .zip
                problem = "cannot be read to its end, damaged or cut short"
                raise FocatError(f"{self.where}: {problem} ({error}); fetch or make it again") from None

    def _given(self, events: list[XmlEvent]) -> Iterator[XmlEvent]:
        for event in events:
            self.line = event[3]
            yield event

    def _parse(self, parser: expat.XMLParserType, chunk: bytes, last: bool) -> None:
        try:
            parser.Parse(chunk, last)
        except expat.ExpatError as error:
            problem = expat.ErrorString(error.code) or "unknown error"
            raise self.error(f"not well-formed XML ({problem}); fetch or make it again", error.lineno) from None
        except (LookupError, ValueError) as error:
            raise self.error(f"its encoding cannot be read ({error}); save it as UTF-8", 1) from None
