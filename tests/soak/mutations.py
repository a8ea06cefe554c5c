"""Small changes to files: lines, fields, bytes and trees (JSON, YAML) deleted, repeated, swapped, or made odd.

Every change is a function of the random numbers it is given, so that a seed gives the same file again.
"""

from __future__ import annotations

import copy
import gzip
import json
import lzma
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import yaml
import zstandard

_TEXTS = (
    *("\x00", "\x1b[31m", "\x1b]0;title\x07", "\x07", "\x08", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x7f"),
    *(
        "\x85",
        "\u2028",
        "\u2029",
        "\ufeff",
        "\u200b",
        "\u202e",
        "\u00a0",
        "\u3000",
        "e\u0301",
        "\U0001f469\u200d\U0001f4bb",
    ),
    *("\ufffd", "\uffff", "\t", "\r", "\n\n", " ", "-->", "—>", " _eos ", "<S>", "</s>", "<unk>", "▁", "&amp;", "&#0;"),
    *("<doc>", "</seg>", "<v Anna>", "{\\an8}", "<i>", "WEBVTT", "NOTE", "1984", "00:00:10,000 --> 00:00:12,000"),
    *(
        "\\u0000",
        "\\ud800",
        '"',
        "'",
        "[",
        "{",
        "}",
        "]",
        ":",
        ",",
        "#",
        "!",
        "&a *a",
        "*",
        "%",
        "@",
        "|",
        ">",
        "- ",
        "? ",
    ),
    *("null", "true", "~", "!!python/object:os.system", "<<: *a", "base: focat:base", "=", "a=b"),
)
_NUMBERS = (
    *("0", "-1", "-0", "1", "2", "3.5", "1e400", "-1e400", "1e-400", "NaN", "nan", "Infinity", "-inf", ".inf", ".nan"),
    *("1_000", "0x10", "0o7", "0b1", "1e3", "01", "+1", "1.", ".5", "१२", "99999999999999999999", "9" * 5000, "1e9"),
    *(
        "2147483648",
        "-2147483649",
        "9223372036854775808",
        "18446744073709551616",
        "4294967296",
        "1.7976931348623157e308",
    ),
)
_BAD_UTF8 = (
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\xc0\x80",
    b"\xe2\x28\xa1",
    b"\xfe\xff",
    b"\x80",
)
_FIELD = re.compile(rb"[^\t ,:;|<>\"'\[\]{}=]+|[\t ,:;|<>\"'\[\]{}=]")
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def odd_text(draw: Random) -> str:
    """A short text that readers may stumble over."""
    kind = draw.random()
    if kind < 0.1:
        return draw.choice(_TEXTS) * draw.choice((10, 1000))
    if kind < 0.3:
        return "".join(draw.choices(_TEXTS, k=draw.randint(2, 5)))
    return draw.choice(_NUMBERS if kind < 0.45 else _TEXTS)


def odd_value(draw: Random) -> Any:
    """A value for a tree: of another type, very large, not finite, nested."""
    nested: Any = draw.choice((1, "x", None))
    for _ in range(draw.choice((1, 2, 40))):
        nested = [nested] if draw.random() < 0.5 else {"a": nested}
    scalars = (None, True, False, 0, -1, 1, 2, 10**6, 10**30, -(10**30), 2**31, 2**63, 2**64, 0.5, -0.0, 1e308)
    others = (float("nan"), float("inf"), -float("inf"), "", " ", "..", "x", [], {}, [[]], [{}], [None], {"": None})
    return draw.choice((*scalars, *others, nested, odd_text(draw), odd_text(draw)))


# ------------------------------------------------------------------------------------------------------------ lines


def _lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True) or [b""]


def _change_lines(draw: Random, data: bytes) -> bytes:
    lines = _lines(data)
    i, j = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.randrange(8):
        case 0:
            del lines[i]
        case 1:
            lines.insert(j, lines[i])
        case 2:
            lines[i], lines[j] = lines[j], lines[i]
        case 3:
            lines[i] = lines[i].rstrip(b"\r\n")  # two lines become one
        case 4:
            lines.insert(i, draw.choice((b"\n", b" \n", b"\t\n", b"\r\n", b"\x0c\n", b"\r")))
        case 5:
            del lines[min(i, j) : max(i, j)]
        case 6:
            lines[i] = odd_text(draw).encode() + b"\n"
        case _:
            lines[i] *= draw.choice((2, 3, 200))
    return b"".join(lines)


def _change_fields(draw: Random, data: bytes) -> bytes:
    lines = _lines(data)
    at = draw.randrange(len(lines))
    fields = _FIELD.findall(lines[at]) or [b""]
    i, j = draw.randrange(len(fields)), draw.randrange(len(fields))
    match draw.randrange(5):
        case 0:
            del fields[i]
        case 1:
            fields.insert(j, fields[i])
        case 2:
            fields[i], fields[j] = fields[j], fields[i]
        case 3:
            fields[i] = odd_text(draw).encode()
        case _:
            fields[i] *= draw.choice((2, 5, 2000))
    lines[at] = b"".join(fields)
    return b"".join(lines)


def _change_number(draw: Random, data: bytes) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return _change_fields(draw, data)
    number = draw.choice(found)
    return data[: number.start()] + draw.choice(_NUMBERS).encode() + data[number.end() :]


def _change_line_ends(draw: Random, data: bytes) -> bytes:
    plain = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    match draw.randrange(5):
        case 0:
            return plain.replace(b"\n", b"\r\n")
        case 1:
            return plain.replace(b"\n", b"\r")
        case 2:
            return plain.rstrip(b"\n")
        case 3:
            return plain + draw.choice((b"\n", b"\n\n\n", b"\r", b"\x1a", b"\x00"))
        case _:
            return b"".join(
                line.rstrip(b"\n") + draw.choice((b"\n", b"\r\n", b"\r", b"\n\r", b"\x0b")) for line in _lines(plain)
            )


def _change_encoding(draw: Random, data: bytes) -> bytes:
    text = data.decode(errors="replace")
    encoding = draw.choice(("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "utf-7"))
    return text.encode(encoding, errors="replace")


def _insert(draw: Random, data: bytes) -> bytes:
    at = draw.randint(0, len(data))
    added = draw.choice(_BAD_UTF8) if draw.random() < 0.1 else odd_text(draw).encode()
    return data[:at] + added + data[at:]


def _nest(draw: Random, data: bytes) -> bytes:
    at, deep = draw.randint(0, len(data)), draw.choice((20, 500, 5000))
    opening, closing = draw.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b"{\\an8", b"}"), (b"<i>", b"</i>")))
    return data[:at] + opening * deep + draw.choice((b"", b"1" + closing * deep)) + data[at:]


# ------------------------------------------------------------------------------------------------------------ bytes


def _flip(draw: Random, data: bytes) -> bytes:
    if not data:
        return b"\x00"
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 8))):
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _truncate(draw: Random, data: bytes) -> bytes:
    return data[: draw.choice((0, 1, draw.randint(0, len(data)), draw.randint(0, len(data)), max(0, len(data) - 1)))]


def _change_block(draw: Random, data: bytes) -> bytes:
    start = draw.randint(0, len(data))
    end = min(len(data), start + draw.choice((1, 4, 8, 64, 1000)))
    match draw.randrange(4):
        case 0:
            return data[:start] + data[end:]
        case 1:
            return data[:end] + data[start:end] * draw.choice((1, 10)) + data[end:]
        case 2:
            return data[:start] + bytes(end - start) + data[end:]
        case _:
            return data[:start] + draw.randbytes(end - start) + data[end:]


def _change_header(draw: Random, data: bytes) -> bytes:
    """The first bytes of a binary file, where its sizes are."""
    width, at = draw.choice((1, 2, 4, 8)), draw.choice((0, 0, 8, draw.randint(0, 200)))
    sizes = (0, 1, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1, len(data), len(data) + 1)
    return data[:at] + (draw.choice(sizes) % 256**width).to_bytes(width, "little") + data[at + width :]


def _replace_all(draw: Random, data: bytes) -> bytes:
    return draw.choice(
        (b"", b"\n", b" ", b"\x00" * 100, b"{}", b"[]", b"null", b"0", b'""', b"\xef\xbb\xbf", odd_text(draw).encode())
    )


Change = Callable[[Random, bytes], bytes]
_TEXT_CHANGES: tuple[tuple[Change, int], ...] = (
    *((_change_lines, 6), (_change_fields, 6), (_change_number, 4), (_change_line_ends, 2), (_change_encoding, 1)),
    *((_insert, 5), (_nest, 1), (_flip, 3), (_truncate, 2), (_change_block, 2), (_replace_all, 1)),
)
_BINARY_CHANGES: tuple[tuple[Change, int], ...] = (
    *((_flip, 6), (_truncate, 3), (_change_block, 4), (_change_header, 4), (_replace_all, 1), (_insert, 1)),
)


def _changed(draw: Random, data: bytes, changes: Sequence[tuple[Change, int]]) -> bytes:
    functions, weights = zip(*changes, strict=True)
    for change in draw.choices(functions, weights, k=draw.choice((1, 1, 1, 2, 2, 3, 5))):
        data = change(draw, data)[:400_000]
    return data


def mutate_text(draw: Random, data: bytes) -> bytes:
    """A text file with a few changes."""
    return _changed(draw, data, _TEXT_CHANGES)


def mutate_binary(draw: Random, data: bytes) -> bytes:
    """A binary file with a few changes."""
    return _changed(draw, data, _BINARY_CHANGES)


# ------------------------------------------------------------------------------------------------------------ trees


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container of a tree with each of its keys or indices."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        keys = node.keys() if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            found.append((node, key))
            waiting.append(node[key])
    return found


def mutate_tree(draw: Random, tree: Any) -> Any:
    """A tree of dictionaries and lists with a few changes."""
    tree = copy.deepcopy(tree)
    for _ in range(draw.choice((1, 1, 2, 3))):
        places = _places(tree)
        if not places or draw.random() < 0.03:
            return odd_value(draw)
        node, key = draw.choice(places)
        other, other_key = draw.choice(places)
        match draw.randrange(8):
            case 0:
                del node[key]
            case 1 | 2 | 3:
                node[key] = odd_value(draw)
            case 4:
                node[key] = copy.deepcopy(other[other_key])
            case 5:
                node[key], other[other_key] = copy.deepcopy(other[other_key]), copy.deepcopy(node[key])
            case 6 if isinstance(node, list):
                node.insert(key, copy.deepcopy(node[key]))
            case 6:
                node[draw.choice((odd_text(draw), f"{key}x", str(key).upper()))] = node.pop(key)
            case _:
                node[key] = [node[key]] if draw.random() < 0.5 else {draw.choice(("a", str(key))): node[key]}
    return tree


def mutate_json(draw: Random, data: bytes, indent: int | None = None) -> bytes:
    """A JSON file whose tree or text is changed."""
    try:
        tree = json.loads(data)
    except ValueError:  # an earlier change was to its text
        tree = None
    if tree is None or draw.random() < 0.4:
        return mutate_text(draw, data)
    changed = json.dumps(mutate_tree(draw, tree), indent=indent, ensure_ascii=draw.random() < 0.5)
    data = changed.encode(errors="surrogatepass") + b"\n"
    return mutate_text(draw, data) if draw.random() < 0.2 else data


def mutate_json_lines(draw: Random, data: bytes) -> bytes:
    """A file of JSON lines with changes in one line, or in its text."""
    if draw.random() < 0.4:
        return mutate_text(draw, data)
    lines = _lines(data)
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(len(lines))
        lines[at] = mutate_json(draw, lines[at]) if lines[at].strip() else odd_text(draw).encode() + b"\n"
    return b"".join(lines)


def mutate_yaml(draw: Random, data: bytes) -> bytes:
    """A YAML file whose tree or text is changed."""
    if draw.random() < 0.4:
        return mutate_text(draw, data)
    changed = yaml.safe_dump(
        mutate_tree(draw, yaml.safe_load(data)),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=draw.random() < 0.2,
    )
    data = changed.encode(errors="surrogatepass")
    return mutate_text(draw, data) if draw.random() < 0.2 else data


# ------------------------------------------------------------------------------------------------------ compression


def compress(suffix: str, data: bytes) -> bytes:
    """The data as a file of this suffix holds it."""
    match suffix:
        case ".gz":
            return gzip.compress(data, 1, mtime=0)
        case ".xz":
            return lzma.compress(data, preset=0)
        case ".zst":
            return zstandard.ZstdCompressor(1).compress(data)
        case _:
            return data


def compressed(draw: Random, name: str, data: bytes) -> tuple[str, bytes]:
    """A name and content for a file, which is compressed in some cases, and then damaged in some."""
    suffix = draw.choice(("", "", "", "", ".gz", ".xz", ".zst"))
    packed = compress(suffix, data)
    if suffix and draw.random() < 0.3:
        packed = mutate_binary(draw, packed)
    if suffix and draw.random() < 0.05:
        suffix = draw.choice((".gz", ".xz", ".zst"))  # not what the name says
    return name + suffix, packed
