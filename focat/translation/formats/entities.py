"""Characters that mark-up spells in its own way, such as `&amp;`: read for the model, and written as before."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_TAG_START = re.compile(r"<(?=[A-Za-z/!?])")
_BASIC = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


@dataclass
class Spelling:
    """How the characters of a text are written in its file."""

    escaped: dict[str, str] = field(default_factory=dict)
    """By character: as it was written where it was read last."""

    def read(self, written: str) -> str:
        """The text that mark-up stands for. What is no reference to a character is text."""
        pieces, end = [], 0
        for match in _REFERENCE.finditer(written):
            plain = written[end : match.start()]
            character = html.unescape(match[0])
            end = match.end()
            self._read_plain(plain)
            if len(character) == 1:
                self.escaped[character] = match[0]
                pieces += [plain, character]
            else:
                pieces += [plain, match[0]]
                self.escaped.setdefault("&", "&")
        self._read_plain(written[end:])
        return "".join([*pieces, written[end:]])

    def write(self, text: str) -> str:
        """Mark-up that stands for a text."""
        written = "".join(self.escaped.get(character) or _BASIC.get(character, character) for character in text)
        return _TAG_START.sub("&lt;", written) if self.escaped.get("<") == "<" else written

    def _read_plain(self, text: str) -> None:
        for character in "&<>":  # as they are, if they were
            if character in text:
                self.escaped.setdefault(character, character)
