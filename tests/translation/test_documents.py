"""DOCX, PPTX, ODT and EPUB: text is translated and all else stays, checked with other libraries."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx
import pptx
import pytest
from ebooklib import epub
from hypothesis import given, settings
from hypothesis import strategies as st
from odf import office, opendocument, style
from odf import text as odf
from pptx.util import Inches

from focat.api import Model
from focat.errors import FocatError, ParameterError
from focat.run import Run
from focat.translation.formats import FormatOptions, InputLines, read_segments
from focat.translation.jobs import Job
from focat.translation.journal import Journal
from tests.translation.documents import (
    bag,
    changed,
    field,
    flat,
    members,
    paragraph,
    rotated,
    said,
    same,
    saved,
    sentences,
    small,
    translate,
    upper,
    with_words,
)


def rewritten(path: Path, changes: dict[str, Callable[[bytes], bytes]]) -> Path:
    """The archive with some of its files changed."""
    with zipfile.ZipFile(path) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w") as archive:
        for info, content in files:
            archive.writestr(info, changes.get(info.filename, bytes)(content))
    return path


def test_powerpoint(tmp_path: Path) -> None:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "The red car"
    frame = slide.placeholders[1].text_frame
    frame.text = "It is "
    bold = frame.paragraphs[0].add_run()
    bold.text, bold.font.bold = "very", True
    frame.paragraphs[0].add_run().text = " old"
    frame.add_paragraph().text = "12 %"
    slide.notes_slide.notes_text_frame.text = "Say it."
    other = presentation.slides.add_slide(presentation.slide_layouts[6])
    other.shapes.add_table(1, 1, 0, 0, Inches(1), Inches(1)).table.cell(0, 0).text = "One\vcell"
    path = saved(presentation, tmp_path / "talk.pptx")
    assert sorted(sentences(path)) == [["One", "cell"], ["Say it."], ["The red car", "It is very old"]]
    found = pptx.Presentation(str(translate(path, rotated)))
    languages = set(found.slide_master.element.xpath("//a:defRPr/@lang"))
    assert languages == {"de"}
    first, second = found.slides
    assert first.shapes.title.text == "red car The"
    runs_found = [(r.text, r.font.bold) for r in first.placeholders[1].text_frame.paragraphs[0].runs]
    assert runs_found == [("is ", None), ("very", True), (" old It", None)]
    assert first.placeholders[1].text_frame.paragraphs[1].text == "12 %"
    assert first.notes_slide.notes_text_frame.text == "it. Say"
    assert second.shapes[0].table.cell(0, 0).text == "One\vcell"


def test_opendocument(tmp_path: Path) -> None:
    document = opendocument.OpenDocumentText()
    bold = style.Style(name="Bold", family="text")
    document.automaticstyles.addElement(bold)
    usual = style.DefaultStyle(family="paragraph")
    usual.addElement(style.TextProperties(language="en", country="GB"))
    document.styles.addElement(usual)
    document.text.addElement(odf.H(outlinelevel=1, text="The red car"))
    words = odf.P(text="It is ")
    words.addElement(odf.Span(stylename=bold, text="very"))
    words.addText(" old")
    note = odf.Note(noteclass="footnote", id="n")
    note.addElement(odf.NoteCitation(text="1"))
    inner = odf.NoteBody()
    inner.addElement(odf.P(text="A note."))
    note.addElement(inner)
    words.addElement(note)
    words.addText(" here")
    comment = office.Annotation()
    comment.addElement(odf.P(text="A comment."))
    words.addElement(comment)
    words.addElement(odf.LineBreak())
    words.addText("Another line")
    changes = odf.TrackedChanges()
    region = odf.ChangedRegion(check_grammar=False)
    deletion = odf.Deletion()
    deletion.addElement(odf.P(text="It is gone."))
    region.addElement(deletion)
    changes.addElement(region)
    document.text.addElement(changes)
    document.text.addElement(words)
    footer = style.Footer()
    footer.addElement(odf.P(text="A footer"))
    document.masterstyles.addElement(style.MasterPage(name="Standard", pagelayoutname="p"))
    document.masterstyles.childNodes[0].addElement(footer)
    path = saved(document, tmp_path / "a.odt")
    assert sorted(sentences(path)) == [
        ["A footer"],
        ["The red car", "It is very old here", "Another line", "A note."],
    ]
    found = translate(path, rotated)
    text = members(found)["content.xml"].decode()
    assert '>is <text:span text:style-name="Bold">very</text:span> old<text:note ' in text
    assert "</text:note> here It<office:annotation>" in text
    assert "<text:line-break/>line Another</text:p>" in text
    assert "<text:p>A comment.</text:p>" in text
    assert "<text:p>It is gone.</text:p>" in text
    assert "<text:p>note. A</text:p>" in text
    styles = members(found)["styles.xml"].decode()
    assert "footer A" in styles
    assert 'fo:language="de" fo:country="none"' in styles or 'fo:country="none" fo:language="de"' in styles
    assert changed(path, found) == {"content.xml", "styles.xml"}
    assert [str(h) for h in opendocument.load(str(found)).getElementsByType(odf.H)] == ["red car The"]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    made = epub.EpubBook()
    made.set_title("A book")
    made.set_language("en")
    chapter = epub.EpubHtml(title="Chapter One", file_name="text/one two.xhtml", lang="en")
    chapter.content = "<h1>Chapter One</h1><p>It is <b>very</b> old.</p><pre>as it is</pre>"
    made.add_item(chapter)
    made.toc, made.spine = [chapter], ["nav", chapter]
    made.add_item(epub.EpubNcx())
    made.add_item(epub.EpubNav())
    path = tmp_path / "book.epub"
    epub.write_epub(str(path), made)
    return rewritten(path, {"EPUB/content.opf": lambda text: text.replace(b"one two", b"one%20two")})


def test_epub(book: Path) -> None:
    assert sorted(sentences(book)) == [
        ["A book", "A book", "Chapter One"],  # the page with the contents
        ["A book", "Chapter One"],  # the contents of older readers
        ["Chapter One", "Chapter One", "It is very old."],
    ]
    found = translate(book, upper)
    chapter = members(found)["EPUB/text/one two.xhtml"].decode()
    assert "<p>IT IS <b>VERY</b> OLD.</p>" in chapter
    assert "<pre>as it is</pre>" in chapter
    assert 'lang="de"' in chapter
    read = epub.read_epub(str(found))
    assert read.get_metadata("DC", "language") == [("de", {})]
    assert [link.title for link in read.toc] == ["CHAPTER ONE"]
    with zipfile.ZipFile(found) as archive:
        first, *others = archive.infolist()
    assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
    assert {info.compress_type for info in others} == {zipfile.ZIP_DEFLATED}
    assert found.read_bytes()[30:58] == b"mimetypeapplication/epub+zip"  # where programs look for it


_FORMATS = st.sampled_from(["", "<w:b/>", "<w:i/>", '<w:lang w:val="en-US"/>', "<w:b/><w:noProof/>"])
_WORDS = st.text("ab .&amp;é\u2011", max_size=8).map(lambda text: text.replace("&", "").replace(";", ""))
_PIECES = st.one_of(
    st.builds(said, _WORDS.map(lambda text: text or "c"), _FORMATS),
    st.sampled_from([
        said("<w:tab/>"), said('<w:footnoteReference w:id="2"/>'), '<w:bookmarkStart w:id="1" w:name="b"/>',
        '<w:bookmarkEnd w:id="1"/>', '<w:proofErr w:type="spellStart"/>', field(" PAGE ", said("3")),
        field(" REF x ", said("see b", "<w:b/>")),
        f'<w:hyperlink w:anchor="x">{said("a link")}{said(" b", "<w:i/>")}</w:hyperlink>',
        said('<w:fldChar w:fldCharType="begin"/>'), said('<w:fldChar w:fldCharType="end"/>'),
        f"<w:ins w:id='1'>{said('in')}</w:ins>",
        said(f"<w:pict><w:txbxContent>{paragraph(said('box b'))}</w:txbxContent></w:pict>"),
    ]),
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(_PIECES, max_size=8).map(lambda pieces: paragraph("".join(pieces))), max_size=3))
def test_any_paragraphs(tmp_path_factory: pytest.TempPathFactory, paragraphs: list[str]) -> None:
    """The same translation gives the same text, formats and elements; another one loses none."""
    path = small("".join(paragraphs), tmp_path_factory.mktemp("any") / "a.docx")
    found = translate(path, same)
    assert flat(members(found)["a.xml"]) == flat(members(path)["a.xml"])
    (characters, elements), (characters_found, elements_found) = bag(path), bag(translate(path, rotated))
    assert elements_found == elements
    assert sum(map(len, characters_found.elements())) == sum(map(len, characters.elements()))


class TestRefused:
    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (lambda parts: parts.pop("[Content_Types].xml"), r"is no DOCX file: .Content_Types..xml is missing in it"),
            (lambda parts: parts.update({"word/document.xml": b"<w:p>"}), r"word/document.xml, line 1: is no XML"),
            (lambda parts: parts.update({"word/document.xml": b"\xff"}), r"word/document.xml in it is not UTF-8"),
            (lambda parts: parts.update({"word/document.xml": b"<!DOCTYPE a><a/>"}), r"has a document type"),
            (lambda parts: parts.update({"word/a.bin": bytes(200 << 20)}), r"unpacks to far more than its size"),
            (lambda parts: parts.update({"word/header1.xml": b"<a>" + b" " * (17 << 20) + b"</a>"}),
             r"word/header1.xml in it has more than 16,777,216 bytes"),
        ],
    )  # fmt: skip
    def test_archives(
        self, letter: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], Any], problem: str
    ) -> None:
        parts = members(letter)
        change(parts)
        path = tmp_path / "bad.docx"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
        with pytest.raises(FocatError, match=problem):
            sentences(path)

    def test_no_archive(self, tmp_path: Path) -> None:
        (tmp_path / "a.docx").write_bytes(b"\xd0\xcf\x11\xe0 an older format")
        with pytest.raises(
            FocatError, match=r"a.docx: is no DOCX file; if it is in an older format, or has a password"
        ):
            sentences(tmp_path / "a.docx")

    def test_damage(self, letter: Path, tmp_path: Path) -> None:
        content = bytearray(letter.read_bytes())
        with zipfile.ZipFile(letter) as archive:
            start = archive.getinfo("word/document.xml").header_offset
        content[start + 80 : start + 90] = bytes(10)
        (tmp_path / "bad.docx").write_bytes(content)
        with pytest.raises(FocatError, match=r"bad.docx: word/document.xml in it is damaged"):
            sentences(tmp_path / "bad.docx")

    def test_encryption(self, letter: Path, tmp_path: Path) -> None:
        content = re.sub(rb"(PK\x01\x02....).", rb"\g<1>" + b"\x01", letter.read_bytes(), flags=re.DOTALL)
        (tmp_path / "bad.docx").write_bytes(content)
        with pytest.raises(FocatError, match=r"bad.docx: is encrypted; save it without a password"):
            sentences(tmp_path / "bad.docx")

    def test_two_files_of_one_name(self, letter: Path, tmp_path: Path) -> None:
        path = tmp_path / "bad.docx"
        path.write_bytes(letter.read_bytes())
        with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
            archive.writestr("word/document.xml", "")
        with pytest.raises(FocatError, match=r"bad.docx: has two files of one name in it; it is damaged"):
            sentences(path)

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ({"encoding": "cp1252"}, "encoding = cp1252: has no effect on docx; leave it out"),
            ({"output_encoding": "utf-16"}, "output_encoding = utf-16: has no effect on docx, only on text, jsonl"),
            ({"scores": True}, "format = docx: has no place for scores or nbest"),
        ],
    )
    def test_options(self, model: Model, letter: Path, tmp_path: Path, arguments: Any, problem: str) -> None:
        with pytest.raises(ParameterError, match=problem):
            model.translate_file(letter, tmp_path / "out.docx", **arguments)

    def test_a_place_for_text_alone(self, model: Model, letter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        with pytest.raises(FocatError, match=r"its translation is no text to be shown; give an output file"):
            model.translate_file(letter)


class TestJobs:
    def test_each_file_of_an_archive_is_a_document(self, letter: Path) -> None:
        ends: dict[str, bool] = {}
        for segment in read_segments(InputLines(letter), "docx", FormatOptions()):
            assert segment.member is not None
            if segment.member.copied is None:
                ends[segment.member.info.filename] = segment.ends_document  # of its last segment
        assert ends == dict.fromkeys(
            ["word/document.xml", "word/styles.xml", "word/header1.xml", "word/footer1.xml"], True
        )

    def test_no_encoding_is_looked_for(self, letter: Path) -> None:
        job = Job(letter)
        assert job.with_encoding(pytest.fail) is job

    def test_the_translations_are_those_of_text(self, model: Model, letter: Path, tmp_path: Path) -> None:
        model.translate_file(letter, tmp_path / "out.docx")
        heading, *_ = model.translate(sentences(letter)[0])
        assert docx.Document(str(tmp_path / "out.docx")).paragraphs[0].text == heading

    def test_resumed_after_a_kill(
        self, model: Model, letter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def die(self: Journal) -> None:
            raise KeyboardInterrupt

        model.translate_file(letter, tmp_path / "whole.docx")
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "finish", die)
            with pytest.raises(KeyboardInterrupt):
                model.translate_file(letter, tmp_path / "out.docx")
        assert not (tmp_path / "out.docx").exists()
        model.translate_file(letter, tmp_path / "out.docx")
        assert (tmp_path / "out.docx").read_bytes() == (tmp_path / "whole.docx").read_bytes()

    def test_through_a_pipe(self, run: Run, model: Model, letter: Path, tmp_path: Path) -> None:
        model.translate_file(letter, tmp_path / "out.docx")
        line = [sys.executable, "-m", "focat", "translate", str(run.path), "--format", "docx", "--device", "cpu"]
        done = subprocess.run(line, input=letter.read_bytes(), capture_output=True, check=True)
        assert done.stdout == (tmp_path / "out.docx").read_bytes()

    def test_in_a_folder(self, model: Model, letter: Path, book: Path, tmp_path: Path) -> None:
        for path in (letter, book):
            model.translate_file(path, tmp_path / f"alone{path.suffix}")
        folder = tmp_path / "in"
        folder.mkdir()
        for path in (letter, book):
            path.rename(folder / path.name)
        (folder / "talk.txt").write_text("One.\n")
        (folder / "bad.odt").write_bytes(b"no")
        stats = model.translate_files([folder], tmp_path / "out")
        assert stats.failed.keys() == {"bad.odt"}
        for name in ("letter.docx", "book.epub"):
            alone = tmp_path / f"alone{Path(name).suffix}"
            assert members(tmp_path / "out" / name).keys() == members(alone).keys()
            assert bag(tmp_path / "out" / name)[1] == bag(alone)[1]

    def test_notes_name_paragraphs(self, model: Model, tmp_path: Path) -> None:
        content = paragraph(said("One.")) + paragraph(said("12")) + paragraph(said("word " * 90))
        path = saved(with_words(content), tmp_path / "a.docx")
        stats = model.translate_file(path, tmp_path / "out.docx")
        assert "too long for the model, translated in chunks: paragraph 2" in list(stats.notes())

    def test_two_jobs_give_the_same_bytes(self, model: Model, letter: Path, tmp_path: Path) -> None:
        for name in ("a.docx", "b.docx"):
            model.translate_file(letter, tmp_path / name)
        assert (tmp_path / "a.docx").read_bytes() == (tmp_path / "b.docx").read_bytes()
