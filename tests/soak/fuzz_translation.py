"""Fuzzed files to translate and journals of interrupted jobs, and what of them must be in the translation."""

from __future__ import annotations

import codecs
import json
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from lxml import etree

from tests.soak.fuzz_case import Build, FuzzCase, Mutate
from tests.soak.mutations import compress, compressed, mutate_binary, mutate_text
from tests.soak.seed_documents import write_archive
from tests.soak.seeds import Seeds


def translate(pattern: str, check: Callable[[bytes, bytes], list[str]] | None, mutate: Mutate, *more: str) -> Build:
    """Files of a format to translate."""

    def build(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
        path = draw.choice(seeds.files(f"inputs/{pattern}"))
        longest = 1500 if draw.random() < 0.98 else 20_000  # the sentences of a document are translated one by one
        plain = b"".join(mutate(draw, path.read_bytes())[:longest].splitlines(keepends=True)[:100])
        name, data = compressed(draw, path.name, plain)
        (folder / name).write_bytes(data)
        intact = data == compress(name.removeprefix(path.name), plain)

        def compare(code: int) -> list[str]:
            return check(plain, (folder / "out").read_bytes()) if check and intact and code == 0 else []

        options = draw.choice(
            ([], [], ["--context", "regenerate"], ["--context", "none"], ["--window", "1"], ["--beam", "1"])
        )
        return FuzzCase(["translate", str(seeds.run), name, "-o", "out", *more, *options, "--quiet"], ("out",), compare)

    return build


def documents(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    """Documents that are archives: a file in one is changed, or the archive itself."""
    path = draw.choice([each for each in seeds.files("inputs/*") if each.suffix in (".docx", ".pptx", ".odt", ".epub")])
    changed = folder / path.name
    if draw.random() < 0.2:
        changed.write_bytes(mutate_binary(draw, path.read_bytes()))
    else:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = draw.choice(list(members))
        members[name] = mutate_text(draw, members[name])[:20_000]
        write_archive(changed, members)
    output = f"out{path.suffix}"

    def compare(code: int) -> list[str]:
        return _same_members(changed, folder / output) if code == 0 else []

    return FuzzCase(
        ["translate", str(seeds.run), path.name, "-o", output, "--beam", "1", "--quiet"], (output,), compare
    )


def _same_members(before: Path, after: Path) -> list[str]:
    """An archive keeps its files; those that are XML for another reader stay so, with as many elements."""
    with zipfile.ZipFile(before) as old, zipfile.ZipFile(after) as new:
        if old.namelist() != new.namelist():
            return ["the files of an archive have changed"]
        for name in old.namelist():
            try:
                elements = _elements(old.read(name))
            except etree.XMLSyntaxError:
                continue
            try:
                if _elements(new.read(name)) == elements:
                    continue
            except etree.XMLSyntaxError:
                pass
            return [f"{name} has other elements in the translation, or is no XML"]
    return []


def _elements(content: bytes) -> Counter[str]:
    """How often each element occurs, without runs and what is in them about format and language."""
    left_out = {
        "r",
        "rPr",
        "t",
        "b",
        "lang",
        "noProof",
        "proofErr",
        "lastRenderedPageBreak",
        "softHyphen",
        "noBreakHyphen",
    }
    names = (str(each.tag).rpartition("}")[2] for each in etree.fromstring(content).iter())
    return Counter(name for name in names if name not in left_out)


def _in_utf8(data: bytes) -> tuple[bytes, bool]:
    """The same text in UTF-8, as translations are, and whether it is known: not if focat has to guess its encoding."""
    marks = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
    encoding = next((name for mark, name in marks if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding).encode(), True
    except UnicodeError:
        return data, False


def same_lines(before: bytes, after: bytes) -> list[str]:
    """A line for each line; blank lines stay where they are."""
    before, _ = _in_utf8(before)
    ends = (b"\n",) if b"\n" in before else (b"\r",)
    counts = [sum(text.count(end) for end in ends) for text in (before, after)]
    if counts[0] != counts[1]:
        return [f"{counts[0]} lines in, {counts[1]} out"]
    before = before.removeprefix(b"\xef\xbb\xbf")
    blank = [[not line.strip() for line in text.split(ends[0])] for text in (before, after)]
    lost = [i for i, (was, now) in enumerate(zip(*blank, strict=True), 1) if was and not now]
    return [f"line {lost[0]} was blank, and is not any more"] if lost else []


def same_timings(before: bytes, after: bytes) -> list[str]:
    """Every line with an arrow in front of all others stays as it is, in the same order."""
    before, known = _in_utf8(before)
    if not known:
        return [] if before.count(b"-->") == after.count(b"-->") else ["another number of arrows"]
    timings = [[line.strip() for line in re.split(rb"[\r\n]+", text) if b"-->" in line] for text in (before, after)]
    return (
        []
        if timings[0] == timings[1]
        else [f"{len(timings[0])} lines with an arrow in, {len(timings[1])} out, or others"]
    )


def same_records(before: bytes, after: bytes) -> list[str]:
    """Every line keeps what it had; translations are added."""
    before, known = _in_utf8(before)
    if not known:
        return [] if before.count(b"\n") == after.count(b"\n") else ["another number of lines"]
    before = before.removeprefix(b"\xef\xbb\xbf")
    lines = [[line for line in re.split(rb"\r?\n|\r(?!.*\n)", text) if line.strip()] for text in (before, after)]
    if len(lines[0]) != len(lines[1]):
        return [f"{len(lines[0])} lines in, {len(lines[1])} out"]
    for number, (was, now) in enumerate(zip(*lines, strict=True), 1):
        if was.lstrip(b"\xef\xbb\xbf \t").startswith(b"{"):
            old, new = json.loads(was.decode("utf-8-sig")), json.loads(now.decode("utf-8-sig"))
            if json.dumps({name: new.get(name) for name in old}) != json.dumps(old):
                return [f"line {number} has lost something"]
    return []


def same_messages(before: bytes, after: bytes) -> list[str]:
    """A PO file keeps its comments and messages."""
    before, known = _in_utf8(before)
    kept = (b"msgid", b"msgctxt", b"#:", b"#.", b"#~", b"# ")
    lines = [[line for line in text.splitlines() if line.startswith(kept)] for text in (before, after)]
    return [] if lines[0] == lines[1] or not known else ["messages or comments of a PO file have changed"]


def same_units(before: bytes, after: bytes) -> list[str]:
    """An XLIFF file keeps its sources, if it is XML for another reader, too."""
    try:
        sources = _xliff_sources(before)
    except etree.XMLSyntaxError:
        return []
    return [] if sources == _xliff_sources(after) else ["sources of an XLIFF file have changed"]


def _xliff_sources(text: bytes) -> list[bytes]:
    elements = [each for each in etree.fromstring(text).iter() if str(each.tag).rpartition("}")[2] == "source"]
    return [etree.tostring(element, encoding="utf-8", with_tail=False) for element in elements]


def same_events(before: bytes, after: bytes) -> list[str]:
    """An ASS file keeps styles, times and names: all lines but for the text of its events."""
    before, known = _in_utf8(before)
    known &= before.count(b"Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text") == 1
    lines = [
        [line.split(b",", 9)[:9] if line.startswith(b"Dialogue:") else line for line in re.split(rb"\r\n?|\n", text)]
        for text in (before, after)
    ]
    return [] if lines[0] == lines[1] or not known else ["another part of an ASS file than its texts has changed"]


def same_blocks(before: bytes, after: bytes) -> list[str]:
    """A page keeps its blocks; in a title, and behind one without end, all is text."""
    before, known = _in_utf8(before)
    known &= not re.search(rb"<title>[^<]*<(?!/title>)", before)
    known &= before.count(b"<title>") == before.count(b"</title>") == 1
    blocks = [re.findall(rb"</?(?:p|h1|ul|li|body|script)\b", text) for text in (before, after)]
    return [] if blocks[0] == blocks[1] or not known else ["the blocks of a page have changed"]


def same_code(before: bytes, after: bytes) -> list[str]:
    """A Markdown file keeps its fences and addresses; what has a backtick behind the first three is no fence."""
    before, known = _in_utf8(before)
    kept = [re.findall(rb"^```[^\r\n`]*(?=[\r\n]|\Z)|http://x/y", text, re.MULTILINE) for text in (before, after)]
    return [] if sorted(kept[0]) == sorted(kept[1]) or not known else ["code or addresses of Markdown have changed"]


def terms(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    """A glossary or a list of terms to keep that is changed."""
    shutil.copy(seeds.inputs / "talk.txt", folder / "talk.txt")
    changed = draw.choice(("--glossary", "--keep"))
    arguments = []
    for option, name in (("--glossary", "terms.tsv"), ("--keep", "names.txt")):
        data = (seeds.inputs / "terms" / name).read_bytes()
        name, data = compressed(draw, name, mutate_text(draw, data)[:3000]) if option == changed else (name, data)
        (folder / name).write_bytes(data)
        arguments += [option, name]

    def compare(code: int) -> list[str]:
        outputs = [folder / "talk.txt", folder / "out"]
        return same_lines(*(path.read_bytes() for path in outputs)) if code == 0 else []

    return FuzzCase(["translate", str(seeds.run), "talk.txt", "-o", "out", *arguments, "--quiet"], ("out",), compare)


def journal(draw: Random, seeds: Seeds, folder: Path) -> FuzzCase:
    """An interrupted job whose journal is changed: it ends as if nothing had happened, or is refused."""
    shutil.copy(seeds.inputs / "talk.txt", folder / "talk.txt")
    path = folder / "journaled.txt.journal"
    path.write_bytes(mutate_binary(draw, seeds.journal.read_bytes()))

    def compare(code: int) -> list[str]:
        if code == 0:
            found = (folder / "journaled.txt").read_bytes()
            return (
                [] if found == (seeds.results / "journaled.txt").read_bytes() else ["another translation than expected"]
            )
        return [] if path.exists() else ["refused, but the journal is gone"]

    arguments = ["translate", str(seeds.run), "talk.txt", "-o", "journaled.txt", "--batch-tokens", "60", "--quiet"]
    return FuzzCase(arguments, ("journaled.txt",), compare, replaces=("journaled.txt.journal",))
