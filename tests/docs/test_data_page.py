"""The settings on the page about data read each corpus in the layout in which it is published."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from focat.config import load_settings
from focat.corpus.readers import read_documents
from focat.evaluation.suites.known import KNOWN_SUITES
from tests.corpus.test_paradocs import at, line
from tests.corpus.test_subtitle_pairs import srt
from tests.corpus.test_tables import write_dataset
from tests.corpus.test_text_files import write
from tests.corpus.test_xml_corpora import tmx, unit
from tests.docs.pages import Page

PAGE = Page("docs/data.md")


def voita(folder: Path) -> None:
    for language, text in (("en", "It 's here ."), ("ru", "Он здесь .")):
        for split in ("train", "dev", "test"):
            fragments = " _eos ".join([text] * 4) + "\n"
            put(folder / "context_aware" / f"{language}_{split}", fragments * 2)


def iwslt17(folder: Path) -> None:
    for language, text in (("en", "Thank you."), ("de", "Danke.")):
        tagged = f"<url>http://www.ted.com/talks/1</url>\n<talkid>1</talkid>\n<title>T</title>\n {text}\n {text}\n"
        put(folder / f"train.tags.en-de.{language}", tagged + tagged.replace("1", "2"))
        segments = "".join(f'<seg id="{i}"> {text} </seg>\n' for i in (1, 2))
        documents = "".join(f'<doc docid="{i}" genre="lectures">\n<title>T</title>\n{segments}</doc>\n' for i in (3, 4))
        kind = "srcset" if language == "en" else "refset"
        head = '<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n'
        for year in range(2011, 2016):
            whole = f'{head}<{kind} setid="tst{year}" srclang="English">\n{documents}</{kind}>\n</mteval>\n'
            put(folder / f"IWSLT17.TED.tst{year}.en-de.{language}.xml", whole)


FILMS = ["1994/109830/3374022", "1994/109830/3374023"]


def opensubtitles(folder: Path) -> None:
    for language, text in (("en", "Yes."), ("de", "Ja.")):
        put(folder / f"OpenSubtitles.de-en.{language}", f"{text}\n" * 4)
    ids = [f"de/{film}.xml.gz\ten/{film}.xml.gz\t{i}\t{i} {i + 1}\n" for film in FILMS for i in (1, 2)]
    put(folder / "OpenSubtitles.de-en.ids", "".join(ids))


def opus_xml(folder: Path) -> None:
    for language, text in (("en", "Yes."), ("de", "Ja.")):
        sentences = "".join(
            f'  <s id="{i}">\n    <time id="T{i}S" value="00:00:0{i},000" />\n{text}\n  </s>\n' for i in (1, 2)
        )
        with zipfile.ZipFile(folder / f"{language}.zip", "w") as archive:
            for film in FILMS:
                document = f'<?xml version="1.0" encoding="utf-8"?>\n<document id="1">\n{sentences}</document>\n'
                archive.writestr(f"OpenSubtitles/raw/{language}/{film}.xml", document)
    groups = "".join(
        f'<linkGrp targType="s" fromDoc="de/{film}.xml.gz" toDoc="en/{film}.xml.gz" >\n'
        '<link id="SL0" xtargets="1;1" overlap="0.9" />\n<link id="SL1" xtargets="2;2" />\n</linkGrp>\n'
        for film in FILMS
    )
    put(
        folder / "de-en.xml.gz",
        f'<?xml version="1.0" encoding="utf-8"?>\n<cesAlign version="1.0">\n{groups}</cesAlign>\n',
    )


def opus_tmx(folder: Path) -> None:
    put(folder / "de-en.tmx.gz", tmx(unit("1", "Yes.", "Ja.") * 2))


def paradocs(folder: Path) -> None:
    lines = [line("Yes.", "Ja.", src_docid=page, **at(i)) for page in "uv" for i in (1, 2)]
    put(folder / "data/en-de/strict/000.gz", "".join(lines))


def mine(folder: Path) -> None:
    put(folder / "wesnoth-1.16.9/po/wesnoth/de.po", 'msgid "Yes."\nmsgstr "Ja."\n')
    put(folder / "films/en/film.en.srt", srt([(1, 2, "Yes.")]))
    put(folder / "films/de/film.de.srt", srt([(1, 2, "Ja.")]))
    put(folder / "memory.tmx", tmx(unit("1", "Yes.", "Ja.") * 2))
    table = pa.table({"doc_id": [1, 1], "translation": [{"en": "Yes.", "de": "Ja."}] * 2})
    pq.write_table(table, folder / "train.parquet")
    (folder / "saved").mkdir()
    write_dataset(folder / "saved/train", table)


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, content)


# For each file of the page: what writes its corpora, and how many documents and pairs its training corpora have.
PUBLISHED: dict[str, tuple[Callable[[Path], None], int, int]] = {
    "voita.yaml": (voita, 2, 8),
    "iwslt17.yaml": (iwslt17, 2, 4),
    "opensubtitles.yaml": (opensubtitles, 2, 4),
    "opus-xml.yaml": (opus_xml, 2, 4),
    "opus-tmx.yaml": (opus_tmx, 2, 2),
    "paradocs.yaml": (paradocs, 2, 4),
    "mine.yaml": (mine, 6, 8),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_corpora_are_read_as_published(name: str, tmp_path: Path) -> None:
    publish, documents, pairs = PUBLISHED[name]
    publish(tmp_path)
    (tmp_path / name).write_text(PAGE.files()[name], encoding="utf-8")
    data = load_settings(tmp_path / name).data
    left_out = Counter[str]()
    read = [document for corpus in data.train for document in read_documents(corpus, left_out)]
    assert (len(read), sum(len(one.source) for one in read), sum(left_out.values())) == (documents, pairs, 0)
    for corpus in (*data.dev, *data.test):
        assert [len(one.source) for one in read_documents(corpus)] in ([4, 4], [2, 2])
    assert all(len(set(one.source)) == len(set(one.target)) == 1 for one in read)


def test_every_settings_file_of_the_page_is_tested() -> None:
    assert PAGE.files().keys() == PUBLISHED.keys()


def test_every_known_suite_is_on_the_page() -> None:
    for suite in KNOWN_SUITES:
        assert suite.url in PAGE.text
        assert all(f"`{file}`" in PAGE.text for file in suite.files), suite.name
