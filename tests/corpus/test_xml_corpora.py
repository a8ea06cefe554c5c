"""TMX and OPUS: written in their published layouts and read back, compared with other readers, refused where broken."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from focat.config.corpora import AnyCorpus
from focat.corpus.document import Document
from focat.corpus.readers import read_documents
from focat.corpus.text_files import CHUNK
from tests.corpus.test_readers import corpora, corpus_settings, message_of
from tests.corpus.test_text_files import COMPRESS, write

LANGUAGES = {"source_language": "en", "target_language": "de"}
# What XML can hold, without white space that readers fold.
sentences = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="\ufeff"), max_size=12).map(
    lambda text: text.strip(" ")
)


def folded(text: str) -> str:
    return " ".join(part for part in text.split(" ") if part)


documents_of_xml = corpora(sentences.map(folded))


# ---------------------------------------------------------------------------------------------------------------- TMX


def tmx(units: str, encoding: str = "UTF-8") -> bytes:
    head = f'<?xml version="1.0" encoding="{encoding}"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    text = f'{head}<tmx version="1.4"><header srclang="en" datatype="plaintext"/><body>\n{units}</body></tmx>\n'
    return text.encode(encoding)


def unit(name: str, source: str, target: str) -> str:
    return (
        f'<tu><prop type="document">{escape(name)}</prop><tuv xml:lang="EN-us"><seg>{escape(source)}</seg></tuv>'
        f'<tuv xml:lang="fr"><seg>non</seg></tuv><tuv xml:lang="de"><seg>{escape(target)}</seg></tuv></tu>\n'
    )


def tmx_corpus(path: Path, **values: object) -> AnyCorpus:
    return corpus_settings("tmx", path=path, **LANGUAGES | values)


@settings(max_examples=25, deadline=None)
@given(
    documents=documents_of_xml,
    suffix=st.sampled_from(list(COMPRESS)),
    encoding=st.sampled_from(["UTF-8", "UTF-16"]),
)
def test_tmx_comes_back_as_it_was_written(documents: list[Document], suffix: str, encoding: str) -> None:
    pairs = [(each.name, *pair) for each in documents for pair in zip(each.source, each.target, strict=True)]
    with TemporaryDirectory() as folder:
        path = write(Path(folder) / f"a.tmx{suffix}", tmx("".join(unit(*pair) for pair in pairs), encoding))
        assert list(read_documents(tmx_corpus(path, documents="document"))) == documents
        (whole,) = read_documents(tmx_corpus(path, documents="file"))
        assert [*zip(whole.source, whole.target, strict=True)] == [pair[1:] for pair in pairs]
        each = list(read_documents(tmx_corpus(path)))
        assert [(*one.source, *one.target) for one in each] == [pair[1:] for pair in pairs]


MEMORY = tmx(
    """<tu><prop type="x">1</prop><tuv xml:lang="en"><seg>Press <bpt i="1">&lt;b&gt;</bpt>OK<ept i="1">&lt;/b&gt;</ept>
 now.</seg></tuv>
<tuv xml:lang="de"><note>2</note><seg>Jetzt <ph><sub>x</sub></ph>OK &amp; <hi>fertig</hi>\u00a0!</seg></tuv></tu>
<tu><tuv lang="en_GB"><seg>One.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg/></tuv><tuv xml:lang="en"><seg>Two.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Drei&nbsp;!</seg></tuv><tuv xml:lang="en-GB"><seg>Three</seg></tuv></tu>
"""
)


def test_tmx_against_lxml(tmp_path: Path) -> None:
    """Inline codes hold no text, hi does; a side that is missing is counted, one that is empty is read."""
    path = write(tmp_path / "m.tmx", MEMORY)
    left_out = Counter[str]()
    read = list(read_documents(tmx_corpus(path), left_out))
    expected = []
    for tu in etree.parse(str(path), etree.XMLParser(resolve_entities=False)).iter("tu"):
        texts = {}
        for tuv in tu.iter("tuv"):
            seg = tuv.find("seg")
            etree.strip_elements(seg, "bpt", "ept", "ph", with_tail=False)
            # lxml gives an entity without a DTD as a node; it is the no-break space.
            text = "".join("\u00a0" if part == "&nbsp;" else part for part in seg.itertext(with_tail=True))
            language = (tuv.get("{http://www.w3.org/XML/1998/namespace}lang") or tuv.get("lang"))[:2]
            texts[language] = " ".join(text.replace("\n", " ").split(" ")).replace("  ", " ")
        if len(texts) == 2:
            expected.append((texts["en"], texts["de"]))
    assert [(*one.source, *one.target) for one in read] == expected
    assert expected[0] == ("Press OK now.", "Jetzt OK & fertig\u00a0!")
    assert left_out == {"untranslated": 1}
    assert [one.name for one in read] == ["m.tmx:4", "m.tmx:8", "m.tmx:9"]


def test_a_language_is_not_one_whose_code_begins_like_it(tmp_path: Path) -> None:
    """Finnish is fi, else fi-FI, and never fil, which is Filipino."""
    units = "".join(
        "<tu>" + "".join(f'<tuv xml:lang="{code}"><seg>{code}</seg></tuv>' for code in ("en", *codes)) + "</tu>"
        for codes in (("fil", "fi-FI"), ("fi-FI", "fi"), ("fil",))
    )
    path = write(tmp_path / "m.tmx", tmx(units))
    left_out = Counter[str]()
    (read,) = read_documents(tmx_corpus(path, target_language="fi", documents="file"), left_out)
    assert read.target == ["fi-FI", "fi"]
    assert left_out == {"untranslated": 1}


@pytest.mark.parametrize(
    ("units", "values", "message"),
    [
        (
            "<tu><tuv xml:lang='en'><seg>a</tuv></tu>",
            {},
            "m.tmx, line 4: not well-formed XML (mismatched tag); fetch or",
        ),
        ("\n<tu><tuv><seg>a</seg></tuv></tu>", {}, "m.tmx, line 5: <tuv> without a language"),
        ("<tu>\n<tu></tu></tu>", {}, "m.tmx, line 5: <tu> inside the <tu> of line 4"),
        ("<tu><seg>a</seg></tu>", {}, "m.tmx, line 4: <seg> outside a <tuv>"),
        ("<tuv xml:lang='en'/>", {}, "m.tmx, line 4: <tuv> outside a <tu>"),
        (
            unit("1", "a", "b"),
            {"target_language": "it"},
            "m.tmx: no unit has both en and it; it has de, en-us, fr: set source_language and target_language of the",
        ),
        (unit("1", "a", "b"), {"documents": "url"}, 'line 4: this unit has no <prop type="url"> to name its document'),
        ("", {}, "m.tmx: not a single sentence pair; is this the right file?"),
    ],
)
def test_broken_tmx(tmp_path: Path, units: str, values: dict[str, str], message: str) -> None:
    path = write(tmp_path / "m.tmx", tmx(units))
    assert message in message_of(tmx_corpus(path, **values), tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"Hello\n", "m.tmx, line 1: not well-formed XML (syntax error)"),
        (b"", "m.tmx, line 1: not well-formed XML (no element found)"),
        (tmx(unit("1", "a", "b"))[:-9], "not well-formed XML (unclosed token)"),
        (
            tmx(unit("1", "a", "x"), "UTF-8").replace(b"x", b"\xff"),
            "not well-formed XML (not well-formed (invalid token))",
        ),
        (b'<?xml version="1.0" encoding="what"?><tmx/>', "unknown encoding"),
        (b'<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><t>&b;</t>', "line 1: declares the entity a"),
    ],
)
def test_files_that_are_no_xml(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path / "m.tmx", content)
    assert message in message_of(tmx_corpus(path), tmp_path)


@pytest.mark.parametrize("content", ["<seg>" + "a" * 4 * CHUNK, "<seg " + "a" * 4 * CHUNK])
def test_text_without_end(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "m.tmx", tmx("<tu><tuv xml:lang='en'>")[: -len("</body></tmx>\n")] + content.encode())
    problem = message_of(tmx_corpus(path, max_line_bytes=CHUNK), tmp_path)
    assert "no end of a tag in the last 65,536 bytes; break it, or raise max_line_bytes of the corpus" in problem


# --------------------------------------------------------------------------------------------------------------- OPUS


@settings(max_examples=25, deadline=None)
@given(documents=corpora(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)))
def test_moses_files_with_ids(documents: list[Document]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        sides = {"source": "OpenSubtitles.de-en.en", "target": "OpenSubtitles.de-en.de"}
        for side, file in sides.items():
            write(folder / file, "".join(f"{text}\n" for each in documents for text in getattr(each, side)))
        ids = [
            f"de/{d}.xml.gz\ten/{d}.xml.gz\t{i + 1}\t{i + 1}\n"
            for d, e in enumerate(documents)
            for i in range(len(e.source))
        ]
        paths = {side: folder / file for side, file in sides.items()}
        corpus = corpus_settings("opus", **paths, ids=write(folder / "OpenSubtitles.de-en.ids", "".join(ids)))
        read = list(read_documents(corpus))
        assert [(one.source, one.target) for one in read] == [(one.source, one.target) for one in documents]
        assert read[0].name == "de/0.xml.gz en/0.xml.gz"


def test_ids_without_documents(tmp_path: Path) -> None:
    paths = {side: write(tmp_path / side, "a\nb\n") for side in ("source", "target")}
    corpus = corpus_settings("opus", **paths, ids=write(tmp_path / "ids", "x\ty\t1\t1\nx 2\n"))
    assert message_of(corpus, tmp_path).startswith("ids, line 2: expected two documents and the ids of their sentences")


RAW = '<?xml version="1.0" encoding="utf-8"?>\n<document id="7">{}\n</document>\n'


def raw_document(sentences: list[str]) -> str:
    """As OPUS has it in raw/: text between time stamps."""
    return RAW.format(
        "".join(
            f'\n  <s id="{i}">\n    <time id="T{i}S" value="00:00:01,000" />\n{escape(text)}\n  </s>'
            for i, text in enumerate(sentences, 1)
        )
    )


def tokenised_document(sentences: list[str]) -> str:
    """As OPUS has it in xml/: a <w> for each word."""
    return RAW.format(
        "".join(
            f'\n  <s id="{i}">\n'
            + "".join(f'  <w id="{i}.{j}">{escape(word)}</w>\n' for j, word in enumerate(text.split(" "), 1))
            + "  </s>"
            for i, text in enumerate(sentences, 1)
        )
    )


def alignment(documents: list[Document], extra: str = "") -> str:
    """One link for each pair; German comes first, as OPUS sorts languages."""
    groups = "".join(
        f'<linkGrp targType="s" fromDoc={quoteattr(f"de/{d}/x.xml.gz")} toDoc={quoteattr(f"en/{d}/x.xml.gz")}>\n'
        + "".join(f'<link id="SL{i}" xtargets="{i};{i}" overlap="0.9" />\n' for i in range(1, len(each.source) + 1))
        + extra
        + "</linkGrp>\n"
        for d, each in enumerate(documents)
    )
    doctype = '<!DOCTYPE cesAlign PUBLIC "-//CES//DTD XML cesAlign//EN" "">'
    return f'<?xml version="1.0" encoding="utf-8"?>\n{doctype}\n<cesAlign version="1.0">\n{groups}</cesAlign>\n'


def write_opus(folder: Path, documents: list[Document], layout: str, packed: bool, extra: str = "") -> AnyCorpus:
    render = raw_document if layout == "raw" else tokenised_document
    for language, side in (("en", "source"), ("de", "target")):
        files = {f"{language}/{d}/x.xml": render(getattr(each, side)) for d, each in enumerate(documents)}
        if packed:
            with zipfile.ZipFile(folder / f"{language}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for name, text in files.items():
                    archive.writestr(f"OpenSubtitles/{layout}/{name}", text)
        else:
            for name, text in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                write(folder / f"{name}.gz", text)
    path = write(folder / "de-en.xml.gz", alignment(documents, extra))
    sides = (
        {"source": folder / "en.zip", "target": folder / "de.zip"} if packed else {"source": folder, "target": folder}
    )
    return corpus_settings("opus-xml", alignment=path, **sides, **LANGUAGES)


@settings(max_examples=20, deadline=None)
@given(documents=documents_of_xml, layout=st.sampled_from(["raw", "xml"]), packed=st.booleans())
def test_xml_documents_and_their_alignment(documents: list[Document], layout: str, packed: bool) -> None:
    with TemporaryDirectory() as folder:
        left_out = Counter[str]()
        extra = '<link xtargets="1;" />\n<link xtargets="1;999" />\n'
        read = list(read_documents(write_opus(Path(folder), documents, layout, packed, extra), left_out))
    assert [(one.source, one.target) for one in read] == [(one.source, one.target) for one in documents]
    assert read[0].name == "en/0/x.xml.gz de/0/x.xml.gz"
    assert left_out == {"unaligned": 2 * len(documents)}


def test_an_alignment_may_lack_its_last_tag(tmp_path: Path) -> None:
    """As published test sets do; but a group that is not whole is an error."""
    documents = [Document("x", ["a"], ["A"]), Document("y", ["b"], ["B"])]
    corpus = write_opus(tmp_path, documents, "raw", True)
    whole = alignment(documents)
    write(tmp_path / "de-en.xml.gz", whole.removesuffix("</cesAlign>\n"))
    assert [one.source for one in read_documents(corpus)] == [["a"], ["b"]]
    write(tmp_path / "de-en.xml.gz", whole.removesuffix("</linkGrp>\n</cesAlign>\n"))
    assert "not well-formed XML (no element found)" in message_of(corpus, tmp_path)


def test_links_of_several_sentences(tmp_path: Path) -> None:
    documents = [Document("x", ["a", "b", "c"], ["A", "B", "C"])]
    corpus = write_opus(tmp_path, documents, "raw", True)
    text = (
        alignment(documents).replace('xtargets="1;1"', 'xtargets="1;1 2"').replace('xtargets="2;2"', 'xtargets="3 2;3"')
    )
    write(tmp_path / "de-en.xml.gz", text)
    (read,) = read_documents(corpus)
    assert (read.source, read.target) == (["a b", "c", "c"], ["A", "C B", "C"])
    # The other direction, of the same files.
    back = corpus.model_copy(
        update={
            "source": tmp_path / "de.zip",
            "target": tmp_path / "en.zip",
            "source_language": "de",
            "target_language": "en",
        }
    )
    (read_back,) = read_documents(back)
    assert (read_back.source, read_back.target) == (read.target, read.source)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("de/0/x", "fr/0/x"),
            'line 4: <linkGrp fromDoc="fr/0/x.xml.gz" toDoc="en/0/x.xml.gz">: does not link en/ to de/',
        ),
        (("de/0/x", "de/9/x"), "has no document de/9/x.xml; give the folder that holds de/, or OPUS' .zip"),
        (('"1;1"', '"1"'), 'line 5: expected xtargets="1 2;1"'),
        (("<linkGrp", "<group"), "line 4: <link> outside a <linkGrp>"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_alignments_that_do_not_fit(tmp_path: Path, change: tuple[str, str], message: str, packed: bool) -> None:
    documents = [Document("x", ["a"], ["A"])]
    corpus = write_opus(tmp_path, documents, "raw", packed)
    text = alignment(documents).replace(*change)
    if "group" in change[1]:
        text = text.replace("</linkGrp", "</group").replace("line 4", "line 5")
        message = message.replace("line 4", "line 5")
    write(tmp_path / "de-en.xml.gz", text)
    assert message in message_of(corpus, tmp_path)


def test_documents_that_cannot_be_read(tmp_path: Path) -> None:
    documents = [Document("x", ["a"], ["A"])]
    corpus = write_opus(tmp_path, documents, "raw", True)
    whole = (tmp_path / "de.zip").read_bytes()
    for content, message in (
        (b"PK", "de.zip: neither a folder nor a .zip that can be read"),
        (None, "de.zip: no such file"),
    ):
        (tmp_path / "de.zip").unlink()
        if content is not None:
            (tmp_path / "de.zip").write_bytes(content)
        assert message in message_of(corpus, tmp_path)
        (tmp_path / "de.zip").write_bytes(whole)
    with zipfile.ZipFile(tmp_path / "de.zip", "w") as archive:
        archive.writestr("OpenSubtitles/raw/de/0/x.xml", "<document><s>A</s></document>")
    assert message_of(corpus, tmp_path) == "de.zip: de/0/x.xml.gz, line 1: <s> without an id"
    start = whole.index(b"PK\1\2") + 6  # of the version of .zip that reading takes
    (tmp_path / "de.zip").write_bytes(whole[:start] + b"\x54" + whole[start + 1 :])
    expected = "de.zip: neither a folder nor a .zip that can be read (zip file version 8.4)"
    assert message_of(corpus, tmp_path) == expected
    damaged = bytearray(whole)
    damaged[60:80] = bytes(20)
    (tmp_path / "de.zip").write_bytes(damaged)
    assert message_of(corpus, tmp_path).startswith("de.zip: ")
