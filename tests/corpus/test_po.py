"""PO files as corpora: written and read back, compared with translate-toolkit, refused where broken."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from translate.storage import po

from focat.config.corpora import AnyCorpus
from focat.corpus.document import Document
from focat.corpus.readers import input_files, read_documents
from tests.corpus.test_readers import corpus_settings, message_of
from tests.corpus.test_text_files import write

HEADER = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset={}\\n"\n\n'
GAME = (
    HEADER.format("UTF-8")
    + r"""# A translator's note
#: game.c:10
#, c-format
msgid "%d gold\n"
msgstr "%d Gold\n"

#, fuzzy, c-format
#| msgid "Old"
msgid "New"
msgstr "Alt"

msgctxt "verb"
msgid "Open"
msgstr ""

msgid ""
"A long\tline "
"with \"quotes\"\\."
msgstr ""
"Eine lange\tZeile "
"mit „Zeichen“ \\ \303\x41."
msgid "sheep"
msgid_plural "%d sheep"
msgstr[0] "Schaf"
msgstr[1] "Schafe"

#~ msgid "Gone"
#~ msgstr "Weg"

msgid "file"
msgid_plural "files"
msgstr[0] "fichiers"
"""
)


def po_corpus(path: Path, language: str = "de", **values: object) -> AnyCorpus:
    return corpus_settings("po", path=path, source_language="en", target_language=language, **values)


def test_what_is_read_of_a_file(tmp_path: Path) -> None:
    left_out = Counter[str]()
    (read,) = read_documents(po_corpus(write(tmp_path / "de.po", GAME)), left_out)
    assert read == Document(
        "de.po",
        ["%d gold", 'A long line with "quotes"\\.', "sheep", "%d sheep", "files"],
        ["%d Gold", "Eine lange Zeile mit „Zeichen“ \\ ÃA.", "Schaf", "Schafe", "fichiers"],
    )
    assert left_out == {"fuzzy": 1, "untranslated": 1}


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + '"\n"'.join(escaped.split("|")) + '"'  # in pieces, as long strings are


texts = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="\ufeff"), max_size=10)
entries = st.lists(st.tuples(texts.filter(bool), texts, st.booleans(), texts), max_size=6)


@settings(max_examples=40, deadline=None)
@given(entries=entries)
def test_against_translate_toolkit(entries: list[tuple[str, str, bool, str]]) -> None:
    """Any entries: what another reader takes for translated is read, in its order, and the rest is counted."""
    text = HEADER.format("UTF-8")
    for i, (source, target, fuzzy, comment) in enumerate(entries):
        flags = "#, fuzzy\n" if fuzzy else ""
        text += f"# {comment}\n{flags}msgctxt {quoted(str(i))}\nmsgid {quoted(source)}\nmsgstr {quoted(target)}\n\n"
    with TemporaryDirectory() as folder:
        path = write(Path(folder) / "de.po", text + 'msgid "last"\nmsgstr "letzte"\n')
        left_out = Counter[str]()
        (read,) = read_documents(po_corpus(path), left_out)
        units = [unit for unit in po.pofile.parsefile(str(path)).units if not unit.isheader() and not unit.isobsolete()]
    good = [unit for unit in units if str(unit.target) and not unit.isfuzzy()]
    assert read.source == [str(unit.source).strip(" ") for unit in good]
    assert read.target == [str(unit.target).strip(" ") for unit in good]
    assert sum(left_out.values()) + len(good) == len(units) == len(entries) + 1


def test_a_tree_has_a_document_for_each_file_of_the_language(tmp_path: Path) -> None:
    message = 'msgid "a"\nmsgstr "{}"\n'.format
    names = {
        "po/game/de.po": "1",
        "po/game/fr.po": "no",
        "po/manual-de.po.gz": "2",
        "web/locale/de/LC_MESSAGES/django.po": "3",
        "web/locale/de_AT/LC_MESSAGES/django.po": "no",
        "web/de.pot": "no",
        "web/code.po": "no",
    }
    for name, target in names.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, message(target))
    corpus = po_corpus(tmp_path)
    wanted = [name for name, target in names.items() if target != "no"]
    assert [(one.name, one.target) for one in read_documents(corpus)] == [(name, [names[name]]) for name in wanted]
    assert input_files(corpus) == {"path": [tmp_path / name for name in wanted]}
    assert message_of(po_corpus(tmp_path, "it"), tmp_path.parent).startswith(
        f"{tmp_path.name}: of 6 .po files below it, none is of it: neither it.po nor in a folder it;"
    )


def test_the_encoding_of_the_header(tmp_path: Path) -> None:
    text = HEADER.format("ISO-8859-2") + 'msgid "a"\nmsgstr "Łódź"\n'
    (read,) = read_documents(po_corpus(write(tmp_path / "pl.po", text.encode("iso-8859-2")), "pl"))
    assert read.target == ["Łódź"]
    write(tmp_path / "pl.po", HEADER.format("what").encode())
    assert message_of(po_corpus(tmp_path / "pl.po"), tmp_path) == (
        "pl.po: its header names the encoding what, which is unknown; save it as UTF-8"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('msgid "a"\nmsgstr A\n', "line 2: msgstr A: is no line of a PO file"),
        ('msgid "a"\nmsgstr "A\n', 'line 2: msgstr "A: is no line of a PO file'),
        ('"a"\n', 'line 1: "a": is no line of a PO file'),
        ('msgid "a"\nmsgstr "A"\nmsgstr "B"\n', "line 3: a second msgstr of one entry"),
        ('msgid "a"\nmsgstr "A"\n\nmsgid "b"\n', "line 4: an entry needs msgid and msgstr"),
        (b'msgid "a"\nmsgstr "\xff"\n', "line 2: byte 0xFF at column 9 is not UTF-8"),
        (f'msgid "a"\nmsgstr[{"1" * 5000}] "A"\n', "line 2: msgstr[111"),
        ("Hello\n", "line 1: Hello: is no line of a PO file"),
        ("", "not a single sentence pair; is this the right file?"),
        ('msgid "a"\nmsgstr ""\n', "not a single sentence pair (1 untranslated); is this the right file?"),
    ],
)
def test_broken_files(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert message in message_of(po_corpus(write(tmp_path / "de.po", text)), tmp_path)


def test_an_entry_without_end(tmp_path: Path) -> None:
    path = write(tmp_path / "de.po", 'msgid "a"\nmsgstr ""\n' + '"0123456789"\n' * 20)
    assert "line 13: a string of more than 100 characters; break it, or raise" in message_of(
        po_corpus(path, max_line_bytes=100), tmp_path
    )


def test_a_string_of_many_lines_is_read_in_linear_time(tmp_path: Path) -> None:
    """A second; with a copy of the string for each line, minutes."""
    lines = '"' + "a" * 100 + '"\n'
    path = tmp_path / "long.po"
    path.write_text(f'msgid ""\n{lines * 100_000}msgstr ""\n{lines * 100_000}')
    start = time.process_time()
    [document] = read_documents(po_corpus(path))
    assert time.process_time() - start < 10
    assert [len(sentence) for sentence in (*document.source, *document.target)] == [10_000_000, 10_000_000]
