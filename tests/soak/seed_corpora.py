"""Corpora of every format that focat reads, from the same few documents, for fuzzing to start from."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq

from focat.corpus.document import Document
from focat.corpus.paradocs import COLUMNS

LANGUAGES = {"source": "en", "target": "de"}


def write(path: Path, text: str) -> None:
    """Write a text as it is, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def write_corpora(folder: Path, documents: Sequence[Document]) -> None:
    """Write all of them."""
    pairs = [(d.name, s, t) for d in documents for s, t in zip(d.source, d.target, strict=True)]
    _write_text_files(folder, documents, pairs)
    _write_opus(folder, documents)
    _write_tables(folder, documents, pairs)
    units = "".join(
        f'<tu><prop type="document">{name}</prop><tuv xml:lang="en"><seg>{escape(s)} <ph>x</ph></seg></tuv>'
        f'<tuv xml:lang="de"><seg>{escape(t)}</seg></tuv></tu>\n'
        for name, s, t in pairs[:12]
    )
    write(
        folder / "memory.tmx",
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header srclang="en" datatype="plaintext"/><body>\n'
        f"{units}</body></tmx>\n",
    )
    quoted = [(json.dumps(s, ensure_ascii=False), json.dumps(t, ensure_ascii=False)) for _, s, t in pairs[:8]]
    messages = "".join(f"#: a.c:{i}\nmsgid {s}\nmsgstr {t}\n\n" for i, (s, t) in enumerate(quoted))
    plural = 'msgctxt "verb"\nmsgid "sheep"\nmsgid_plural "%d sheep"\nmsgstr[0] "Schaf"\nmsgstr[1] "Schafe"\n'
    header = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    write(folder / "messages.po", header + messages + plural)
    values = dict.fromkeys(COLUMNS, "1") | {"src_docid": "a", "tgt_docid": "b"}
    lines = ["\t".join((values | {"src": s, "tgt": t}).values()) for _, s, t in pairs[:12]]
    write(folder / "paradocs.txt", "\n".join(lines) + "\n")
    for side, language in LANGUAGES.items():
        sentences = [text for document in documents for text in getattr(document, side)][:8]
        write(folder / f"film.{language}.srt", srt(sentences))


def _write_text_files(folder: Path, documents: Sequence[Document], pairs: Sequence[tuple[str, str, str]]) -> None:
    for side, language in LANGUAGES.items():
        texts = ["\n".join(getattr(document, side)) for document in documents]
        lines = [line for text in texts for line in text.split("\n")]
        write(folder / f"text.{language}", "\n\n".join(texts) + "\n")
        for name in ("ids", "opus"):
            write(folder / f"{name}.{language}", "\n".join(lines) + "\n")
        write(folder / f"fragments.{language}", "".join(text.replace("\n", " _eos ") + "\n" for text in texts))
        write(folder / f"tags.{language}", "".join(_tags(i, text) for i, text in enumerate(texts)))
        write(folder / f"xml.{language}", _wit3_xml(texts))
    write(folder / "ids.documents", "".join(f"{name}\n" for name, _, _ in pairs))
    write(folder / "opus.ids", "".join(f"de/{n}.xml.gz\ten/{n}.xml.gz\t1\t1\n" for n, _, _ in pairs))
    write(folder / "three.tsv", "".join(f"{name}\t{s}\t{t}\n" for name, s, t in pairs))
    write(folder / "two.tsv", "".join(f"{s}\t{t}\n" + "\n" * (i % 5 == 4) for i, (_, s, t) in enumerate(pairs)))
    whole = [{"document": d.name, "source": d.source, "target": d.target} for d in documents]
    single = [{"document": name, "source": s, "target": t} for name, s, t in pairs]
    for name, records in (("documents", whole), ("sentences", single)):
        write(folder / f"{name}.jsonl", "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def _write_opus(folder: Path, documents: Sequence[Document]) -> None:
    """An alignment, its documents in folders, and the same in zip files."""
    opus = folder / "opus-xml"
    links = "".join(
        f'<linkGrp targType="s" fromDoc="de/{d}.xml.gz" toDoc="en/{d}.xml.gz">\n'
        + "".join(f'<link xtargets="{i};{i}" />\n' for i in range(1, len(document.source) + 1))
        + '<link xtargets="1 2;1" />\n</linkGrp>\n'
        for d, document in enumerate(documents)
    )
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    write(opus / "de-en.xml", f'{head}<cesAlign version="1.0">\n{links}</cesAlign>\n')
    for side, language in LANGUAGES.items():
        for d, document in enumerate(documents):
            texts = [f'<s id="{i}">{escape(text)}</s>\n' for i, text in enumerate(getattr(document, side), 1)]
            write(opus / language / f"{d}.xml", f"{head}<document>\n{''.join(texts)}</document>\n")
        with zipfile.ZipFile(opus / f"{language}.zip", "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted((opus / language).iterdir()):
                packed.writestr(f"OpenSubtitles/raw/{language}/{path.name}", path.read_bytes())


def _write_tables(folder: Path, documents: Sequence[Document], pairs: Sequence[tuple[str, str, str]]) -> None:
    rows = [{"document": name, "translation": {"en": s, "de": t}} for name, s, t in pairs[:12]]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, folder / "rows.parquet", row_group_size=5)
    lists = [{"source": list(d.source), "target": list(d.target)} for d in documents]
    pq.write_table(pa.Table.from_pylist(lists), folder / "lists.parquet", compression="zstd")
    dataset = folder / "dataset"
    dataset.mkdir()
    with pa.OSFile(str(dataset / "data-0.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    write(dataset / "state.json", json.dumps({"_data_files": [{"filename": "data-0.arrow"}]}))


def _tags(number: int, text: str) -> str:
    return f"<url>http://x/{number}</url>\n<talkid>{number}</talkid>\n<title>Talk {number}</title>\n{text}\n"


def _wit3_xml(texts: Sequence[str]) -> str:
    documents = [
        f'<doc docid="{i}" genre="lectures">\n<talkid>{i}</talkid>\n'
        + "".join(f'<seg id="{n}"> {line} </seg>\n' for n, line in enumerate(text.split("\n"), 1))
        + "</doc>\n"
        for i, text in enumerate(texts)
    ]
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<srcset setid="x">\n'
    return f"{head}{''.join(documents)}</srcset>\n</mteval>\n"


def srt(sentences: Sequence[str]) -> str:
    """A cue for each sentence, the third with positions, tags and two speakers."""
    cues = [f"{i}\n00:00:{i:02d},000 --> 00:00:{i + 1:02d},500\n{text}\n" for i, text in enumerate(sentences, 1)]
    cues[2] = "3\n00:00:03,000 --> 00:00:04,500 X1:10 X2:20\n<i>- Is it here?</i>\n- {\\an8}No.\n"
    return "\n".join(cues)
