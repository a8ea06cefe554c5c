"""Text that is printed for people: what a terminal would take for a command is shown, not obeyed.

Corpora, settings files and file names may hold escape sequences, which clear the screen, rename its window or write to
the clipboard, and characters that reverse the order of those around them.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

_LONGEST = 1000  # characters of a message
_KEPT = "\t\n"
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in _KEPT} | {0x7F: 0x2421}  # ␛ for escape
_C1 = range(0x80, 0xA0)  # of which one begins escape sequences, too
_LINE_ENDS = (0x2028, 0x2029)
_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # embeddings, overrides and isolates
_SURROGATES = range(0xD800, 0xE000)  # half a character: cannot be encoded
_VISIBLE = _PICTURES | dict.fromkeys((*_C1, *_LINE_ENDS, *_BIDI, *_SURROGATES), 0xFFFD)


def printable(text: str) -> str:
    """The text with a visible sign for each control character but tabs and ends of lines; as long as before."""
    return text.translate(_VISIBLE)


def abridged(message: str) -> str:
    """A message, or its beginning and its end if it quotes something very long."""
    half = _LONGEST // 2
    return message if len(message) <= _LONGEST else f"{message[:half]} … {message[-half:]}"


def print_line(text: object, file: TextIO | None = None) -> None:
    """Print one line for people, to standard output if no file is given."""
    print(printable(str(text)).replace("\n", "␤"), file=file or sys.stdout)


def discard_output(stream: TextIO) -> None:
    """Let a stream take whatever is written to it from now on; nobody reads it any more, so that writing fails."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())  # what is still in its buffer goes there too
    os.close(nowhere)
