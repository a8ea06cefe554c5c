"""PO files: what is filled in and what stays, checked with polib."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import focat
from focat.api import Model
from focat.errors import FocatError
from focat.translation.formats import FileSegment, FormatOptions, InputLines, read_segments
from focat.translation.formats.messages import Message
from focat.translation.formats.placeholders import placeholders, restore_placeholders
from focat.translation.result import Translation
from focat.translation.sentence import as_input

HEADER = """# Some words.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=n==1 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2;\\n"

"""


def segments_of(path: Path, **options: Any) -> list[FileSegment]:
    return list(read_segments(InputLines(path), "po", FormatOptions(**options)))


def translated(path: Path, translate: Callable[[str], str], **options: Any) -> str:
    """The file with a translation of every sentence that is none of the context."""
    written = []
    for segment in segments_of(path, **options):
        sentences = map(as_input, segment.sentences)
        written.append(
            segment.write([Translation(each.text, each.translation or translate(each.text)) for each in sentences])
        )
    return "".join(written)


def title(text: str) -> str:
    return text.title().replace("%D", "%d")


def upper(text: str) -> str:
    return text.upper().replace("%S", "%s")


def po(tmp_path: Path, entries: str, header: str = HEADER) -> Path:
    path = tmp_path / "a.po"
    path.write_bytes((header + entries).encode())
    return path


class TestEntries:
    ENTRIES = """#. for translators
#: main.c:1
#, c-format
msgctxt "menu"
msgid "Open %s"
msgstr ""

msgid "Closed"
msgstr "Geschlossen"

#, fuzzy
#| msgid "Old"
msgid "New"
msgstr "Alt"

#, fuzzy
#~ msgid "Gone"
#~ msgstr "Weg"

msgid "The last"
msgstr \"\"
""".replace('\\"', '"')

    def test_what_is_filled(self, tmp_path: Path) -> None:
        path = po(tmp_path, self.ENTRIES)
        found = translated(path, upper)
        expected = (
            self.ENTRIES.replace("#, c-format", "#, fuzzy, c-format")
            .replace('"Open %s"\nmsgstr ""', '"Open %s"\nmsgstr "OPEN %s"')
            .replace('msgstr "Alt"', 'msgstr "NEW"')
            .replace('msgid "The last"\nmsgstr ""', '#, fuzzy\nmsgid "The last"\nmsgstr "THE LAST"')
        )
        assert found == HEADER + expected

    def test_a_second_run_changes_nothing(self, tmp_path: Path) -> None:
        path = po(tmp_path, self.ENTRIES)
        once = translated(path, upper)
        path.write_bytes(once.encode())
        assert translated(path, upper) == once

    def test_all(self, tmp_path: Path) -> None:
        found = polib.pofile(translated(po(tmp_path, self.ENTRIES), upper, all_entries=True))
        assert [entry.msgstr for entry in found if not entry.obsolete] == ["OPEN %s", "CLOSED", "NEW", "THE LAST"]

    def test_translations_are_context(self, tmp_path: Path, model: Model) -> None:
        """What a person has translated is shown to the model, source and translation."""
        sentences = [
            as_input(each) for segment in segments_of(po(tmp_path, self.ENTRIES)) for each in segment.sentences
        ]
        assert [(each.text, each.translation) for each in sentences] == [
            ("Open %s", None), ("Closed", "Geschlossen"), ("New", None), ("The last", None),
        ]  # fmt: skip
        texts = []
        for translation in ("Wo ist sie?", "Tom schläft."):
            document = [focat.InputSentence("Where is it?", translation=translation), "It is new."]
            first, second = next(model.stream([document]))
            assert (first.text, first.score) == (translation, None)
            assert second.score is not None
            texts.append(second.score)
        assert texts[0] != texts[1]

    def test_endings_and_indents_stay(self, tmp_path: Path) -> None:
        text = HEADER.replace("\n", "\r\n") + '  msgid  "A"\r\n  msgstr ""\r\n\r\nmsgid "B"\r\nmsgstr ""'
        path = tmp_path / "a.po"
        path.write_bytes(text.encode())
        found = translated(path, str.lower)
        assert found.endswith('#, fuzzy\r\n  msgid  "A"\r\nmsgstr "a"\r\n\r\n#, fuzzy\r\nmsgid "B"\r\nmsgstr "b"')

    def test_long_strings_are_wrapped_as_before(self, tmp_path: Path) -> None:
        path = po(
            tmp_path, 'msgid ""\n"one two three "\n"four"\nmsgstr ""\n\nmsgid "' + "wide " * 30 + '"\nmsgstr ""\n'
        )
        wrapped, wide = translated(path, lambda text: text + " word" * 40).removeprefix(HEADER).split("\n\n")
        assert max(map(len, wrapped.splitlines())) <= 79
        assert wide.splitlines()[-1].startswith('msgstr "wide wide')
        assert polib.pofile(HEADER + wrapped)[0].msgstr == "one two three four" + " word" * 40

    def test_declared_encoding(self, tmp_path: Path) -> None:
        """A file in Latin-1 becomes one in UTF-8, and says so."""
        path = tmp_path / "a.po"
        entries = 'msgid "Naïve"\nmsgstr "Naïf"\n'
        path.write_bytes((HEADER.replace("UTF-8", "ISO-8859-1") + entries).encode("latin-1"))
        assert translated(path, str) == HEADER + entries

    def test_the_declared_encoding_is_believed(self, tmp_path: Path) -> None:
        path = tmp_path / "a.po"
        entries = 'msgid "File"\nmsgstr "файл"\n'
        path.write_bytes((HEADER.replace("UTF-8", "KOI8-R") + entries).encode("koi8-r"))
        assert translated(path, str) == HEADER + entries

    @pytest.mark.parametrize(
        ("entries", "line", "problem"),
        [
            ("msgid \"a\"\nmsgstr 'b'\n", 8, "is no line of a PO file"),
            ('msgid "a\nmsgstr "b"\n', 7, "is no line of a PO file"),
            ('msgid "a"\n\nmsgid "b"\nmsgstr ""\n', 9, "a second msgid"),
            ('msgid "a"\n', 7, "needs msgid and msgstr"),
            ('msgstr "a"\n', 7, "a second msgstr"),
        ],
    )
    def test_what_is_no_po(self, tmp_path: Path, entries: str, line: int, problem: str) -> None:
        with pytest.raises(FocatError, match=f"a.po, line {line}: .*{problem}"):
            segments_of(po(tmp_path, entries))


class TestPlurals:
    ENTRY = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'

    def test_every_form(self, tmp_path: Path) -> None:
        (entry,) = polib.pofile(translated(po(tmp_path, self.ENTRY), title))
        assert entry.msgstr_plural == {0: "%d File", 1: "%d Files", 2: "%d Files"}

    @pytest.mark.parametrize("count", ["1" * 5000, "0", "x"])
    def test_a_header_that_says_no_number(self, tmp_path: Path, count: str) -> None:
        """As if it said nothing: the forms that the file has."""
        header = HEADER.replace("nplurals=3", f"nplurals={count}")
        path = tmp_path / "a.po"
        path.write_text(header + self.ENTRY, encoding="utf-8")
        (entry,) = polib.pofile(translated(path, title))
        assert entry.msgstr_plural == {0: "%d File", 1: "%d Files"}

    def test_as_many_as_the_header_says(self, tmp_path: Path) -> None:
        header = HEADER.replace("nplurals=3; plural=n==1 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2;", "nplurals=1; plural=0;")
        (entry,) = polib.pofile(translated(po(tmp_path, self.ENTRY, header), title))
        assert entry.msgstr_plural == {0: "%d File"}
        one = self.ENTRY.replace('%d file"', 'One file"')
        (entry,) = polib.pofile(translated(po(tmp_path, one, header), title))
        assert entry.msgstr_plural == {0: "%d Files"}  # which can show every number

    def test_a_template_has_as_many_as_it_lists(self, tmp_path: Path) -> None:
        header = HEADER.replace(
            "nplurals=3; plural=n==1 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2", "nplurals=INTEGER; plural=EXPRESSION"
        )
        (entry,) = polib.pofile(translated(po(tmp_path, self.ENTRY, header), title))
        assert entry.msgstr_plural == {0: "%d File", 1: "%d Files"}

    def test_forms_that_are_there_stay(self, tmp_path: Path) -> None:
        entry = self.ENTRY.replace('msgstr[0] ""', 'msgstr[0] "%d Datei"')
        (found,) = polib.pofile(translated(po(tmp_path, entry), title))
        assert found.msgstr_plural == {0: "%d Datei", 1: "%d Files", 2: "%d Files"}


class TestMessages:
    @pytest.mark.parametrize(
        ("text", "sentences", "written"),
        [
            ("_File", ["File"], "_FILE"),
            ("Save &As…", ["Save As…"], "SAVE &AS…"),
            ("E_xit", ["Exit"], "E_XIT"),
            ("use file_name", ["use file_name"], "USE FILE_NAME"),
            ("Call AT&T", ["Call AT&T"], "CALL AT&T"),
            ("a <b>big</b> &lt;x&gt; &amp; y", ["a big <x> & y"], "A <b>BIG</b> &lt;X&gt; &amp; Y"),
            ("One. Two!\n\n- Three\n- Four\n", ["One.", "Two!", "Three", "Four"], "ONE. TWO!\n\n- THREE\n- FOUR\n"),
            ("%s: 100\n", [], "%s: 100\n"),
            ("<br/>", [], "<br/>"),
            ("", [], ""),
        ],
    )  # fmt: skip
    def test_units(self, text: str, sentences: list[str], written: str) -> None:
        message = Message(text, "en")
        assert [sentence.text for sentence in message.sentences] == sentences
        assert message.write([Translation(each, each.upper()) for each in sentences]) == written

    def test_wrapped_lines_are_one_sentence(self) -> None:
        text = "This is a text that somebody has wrapped\nat forty columns, so that it can be read\non a terminal.\n"
        message = Message(text, "en")
        assert len(message.sentences) == 1
        longer = message.sentences[0].text.replace("text", "piece of text").replace("read", "read by all")
        assert [len(line) for line in message.write([Translation("", longer)]).splitlines()] == [49, 43, 18]

    @pytest.mark.parametrize(
        ("translation", "written"),
        [("Datei", "_Datei"), ("Profil", "Pro_fil"), ("ファイル", "ファイル(_F)"), ("%s", "%s(_F)")],
    )
    def test_accelerators(self, translation: str, written: str) -> None:
        text = "_File" if translation != "%s" else "_File %s"
        assert Message(text, "en").write([Translation(text.replace("_", ""), translation)]) == written


class TestPlaceholders:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("%s's %(name)s, {0} {name!r:>3} ${HOME} $x", ["%s", "%(name)s", "{0}", "{name!r:>3}", "${HOME}", "$x"]),
            ("%1$s %-5.2lf %% %1 of %n %{rb} {{ u }}", ["%1$s", "%-5.2lf", "%%", "%1", "%n", "%{rb}", "{{ u }}"]),
            ("100% of 5 % is $5, or {what I say}; %ds", ["%d"]),
            ("See https://a.org/b?c=d. Or me@a.org!", ["https://a.org/b?c=d", "me@a.org"]),
        ],
    )  # fmt: skip
    def test_found(self, text: str, found: list[str]) -> None:
        assert placeholders(text) == found

    @pytest.mark.parametrize(
        ("source", "target", "flags", "mended"),
        [
            ("%s has %d", "%s hat %d", (), "%s hat %d"),
            ("%s has %d", "%d von %s", ("c-format",), "%2$d von %1$s"),
            ("%s has %d", "%d von %s", ("python-format",), "%s von %d"),
            ("%s has %d", "hat", (), "%s hat %d"),
            ("{n} files", "{n} Dateien {m}", (), "{n} Dateien"),
            ("50 files", "50 %s Dateien", (), "50 Dateien"),
            ("a", "b http://x.org c", (), "b c"),
            ("50 %s", "50 % %s zu 5%.", ("c-format",), "50  %s zu 5."),  # no program could read it
            ("{n} a", "{n} b} {", ("python-brace-format",), "{n} b "),
            ("{n} a", "{n} b % {", (), "{n} b % {"),
            ("%(n)s of %(m)s", "%(m)s %(n)s", ("python-format",), "%(m)s %(n)s"),
        ],
    )
    def test_mended(self, source: str, target: str, flags: tuple[str, ...], mended: str) -> None:
        assert restore_placeholders(source, target, flags) == mended

    @settings(max_examples=100)
    @given(*[st.lists(st.sampled_from(["a", " ", "%s", "%d", "{x}", "%%", "\n"])).map("".join)] * 2)
    def test_as_many_as_in_the_source(self, source: str, target: str) -> None:
        assert sorted(placeholders(restore_placeholders(source, target))) == sorted(placeholders(source))

    @pytest.mark.parametrize("target", ["eins " * 5000, "%d" * 5000, ""])
    def test_thousands_take_no_time(self, target: str) -> None:
        source = "".join(f" {{{i}}}" for i in range(2000)) + " %s" * 5000
        start = time.process_time()
        assert Counter(placeholders(restore_placeholders(source, target))) == Counter(placeholders(source))
        assert time.process_time() - start < 5  # quadratic time would be half a minute

    def test_required(self) -> None:
        (sentence,) = Message("Copy %d files to {0}", "en").sentences
        assert sentence.required == (("%d",), ("{0}",))


_TEXT = st.text(st.sampled_from('ab.Ü \n\t"\\%s_&<>/{}0漢'), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(entries=st.lists(st.tuples(_TEXT, _TEXT | st.just(""), _TEXT | st.none(), st.booleans()), max_size=6))
def test_any_file(tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[str, str, str | None, bool]]) -> None:
    """With an identity model, what was empty or fuzzy is the source, and the rest is as polib read it before."""
    path = tmp_path_factory.mktemp("po") / "a.po"
    file = polib.POFile()
    file.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    for i, (msgid, msgstr, comment, fuzzy) in enumerate(entries):
        file.append(
            polib.POEntry(msgctxt=str(i), msgid=msgid, msgstr=msgstr, comment=comment or "", flags=["fuzzy"] * fuzzy)
        )
    path.write_bytes(str(file).encode())
    written = translated(path, str)
    found = polib.pofile(written)
    for before, after in zip(polib.pofile(path.read_text(encoding="utf-8")), found, strict=True):
        filled = before.fuzzy or not before.msgstr
        assert (after.msgctxt, after.msgid, after.comment) == (before.msgctxt, before.msgid, before.comment)
        assert after.msgstr == (before.msgid if filled else before.msgstr)
        assert after.fuzzy == filled
    path.write_bytes(written.encode())
    assert translated(path, str) == written


@pytest.mark.parametrize(
    ("source", "translation", "mended"),
    [
        ("Tom needs %s.", "Tom braucht%s.", "Tom braucht %s."),
        ("%d files", "%dDateien", "%d Dateien"),
        ("%dpx wide", "%dpx breit", "%dpx breit"),  # not apart in the source
        ("See {name}.", "Siehe ({name}).", "Siehe ({name})."),
        ("need %s", "需要%s", "需要%s"),
    ],
)
def test_placeholders_stand_apart_from_words_as_in_the_source(source: str, translation: str, mended: str) -> None:
    assert restore_placeholders(source, translation) == mended
