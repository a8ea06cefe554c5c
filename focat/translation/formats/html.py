"""HTML pages: the text of each block is translated sentence by sentence; everything else stays byte for byte.

A block is what stands between two tags that are not inline, as the text of `<p>` or `<td>`. Scripts, styles, code and
what is marked `translate="no"` are left alone, and so are attributes, except the language and encoding of the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from focat.translation.formats.blocks import Block
from focat.translation.formats.encodings import declared_as
from focat.translation.formats.entities import Spelling
from focat.translation.formats.languages import with_language
from focat.translation.formats.lines import InputLines
from focat.translation.formats.markup import Token, read_text, tokens
from focat.translation.formats.segments import FileSegment, FormatOptions, verbatim
from focat.translation.inline import InlineText, Part, Tag

_INLINE = frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "img",
        "ins",
        "label",
        "mark",
        "nobr",
        "q",
        "rp",
        "rt",
        "ruby",
        "s",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "u",
        "wbr",
    ]
)
VOID = frozenset(
    [
        "area",
        "base",
        "basefont",
        "br",
        "col",
        "embed",
        "frame",
        "hr",
        "img",
        "input",
        "keygen",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
    ]
)
"""Elements without content, which have no closing tag."""
_CODE = frozenset(["code", "kbd", "samp", "tt", "var"])  # inside a sentence
_SKIPPED = frozenset(
    ["iframe", "math", "noembed", "noframes", "object", "pre", "script", "style", "svg", "template", "textarea", "xmp"]
)


def html_segments(lines: InputLines, options: FormatOptions) -> Iterator[FileSegment]:
    """A segment for each block of the page, and for what stands between them."""
    return markup_segments(list(tokens(read_text(lines), html=True)), options)


def markup_segments(found: Sequence[Token], options: FormatOptions, first_line: int = 1) -> Iterator[FileSegment]:
    """The segments of a page, or of a part of one."""
    line = first_line
    ends = _element_ends(found)
    run: list[Token] = []  # text and inline tags
    position = 0
    while position < len(found):
        token = found[position]
        end = position + 1
        if _is_kept(token):  # if nothing closes it, its opening tag alone, or the rest of the page
            end = ends.get(position, len(found) if token.name in _SKIPPED else end)
        text = "".join(each.text for each in found[position:end])
        inline = token.kind in ("text", "other") or token.name in _INLINE or token.name in _CODE
        if end > position + 1:  # an element that is left alone is one tag
            token = Token("single", text, token.name)
        if inline:
            run.append(token)
        else:
            yield from _flush(line, run, options)
            line += sum(each.text.count("\n") for each in run)
            yield verbatim(line, _declared(token, options).text)
            line += text.count("\n")
            run = []
        position = end
    yield from _flush(line, run, options)


def _flush(line: int, run: Sequence[Token], options: FormatOptions) -> Iterator[FileSegment]:
    """The segment of a block; what surrounds its text is copied."""
    spelling = Spelling()
    block = Block(InlineText([_part(token, spelling) for token in run]), options.languages[0], spelling.write)
    if block.sentences:
        yield FileSegment(line, block.sentences, block.write)
    elif run:
        yield verbatim(line, "".join(token.text for token in run))


def _part(token: Token, spelling: Spelling) -> Part:
    if token.kind == "text":
        return spelling.read(token.text)
    if token.kind in ("single", "other") or token.name in VOID:
        return Tag(token.text, "single")
    return Tag(token.text, "close" if token.kind == "close" else "open", token.name)


def _is_kept(token: Token) -> bool:
    """Whether an element is left alone, with all that it encloses."""
    if token.kind != "open" or token.name in VOID:
        return False
    if token.name in _SKIPPED or token.name in _CODE:
        return True
    attributes = token.attributes
    return attributes.get("translate") == "no" or "notranslate" in attributes.get("class", "").split()


def _element_ends(found: Sequence[Token]) -> dict[int, int]:
    """Behind the closing tag of each element that has one, by the position of its opening tag."""
    ends: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for i, token in enumerate(found):
        if token.kind == "open":
            opened.setdefault(token.name, []).append(i)
        elif token.kind == "close" and opened.get(token.name):
            ends[opened[token.name].pop()] = i + 1
    return ends


def _declared(token: Token, options: FormatOptions) -> Token:
    """The tag, with the language and the encoding of the output where it names them."""
    if token.kind == "open" and token.name == "html":
        (token,) = with_language([token], ("lang", "xml:lang"), options.languages)
    elif token.name == "meta":
        declared = token.attributes.get("charset") or token.attributes.get("content", "").partition("charset=")[2]
        if declared and (right := declared_as(declared.strip(), options.encoding)) != declared.strip():
            token = Token(token.kind, token.text.replace(declared.strip(), right), token.name)
    return token
