"""DOCX: the text of paragraphs is translated, and formats go with their words, as python-docx and lxml see it."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path

import docx
import numpy as np
import pytest
from docx.shared import RGBColor

from focat.translation.alignment import WordAlignment, word_spans
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence
from tests.translation.documents import (
    body,
    changed,
    field,
    members,
    paragraph,
    rotated,
    runs,
    said,
    same,
    saved,
    sentences,
    small,
    translate,
    upper,
    with_words,
)


class TestWord:
    def test_text_of_all_parts(self, letter: Path) -> None:
        assert sentences(letter) == [
            ["The red car", "It is very old.", "It was red & blue.", "One cell"],
            ["A header"],
            ["A footer"],
        ]

    def test_what_stays(self, letter: Path) -> None:
        found = translate(letter, upper)
        document = docx.Document(str(found))
        assert [(p.text, p.style.name) for p in document.paragraphs] == [
            ("THE RED CAR", "Heading 1"),
            ("IT IS VERY OLD. IT WAS RED & BLUE.", "Normal"),
        ]
        assert [(r.text, r.bold, r.font.color.rgb) for r in document.paragraphs[1].runs] == [
            ("IT IS ", None, None),
            ("VERY", True, None),
            (" OLD. IT WAS ", None, None),
            ("RED & BLUE", None, RGBColor(255, 0, 0)),
            (".", None, None),
        ]
        assert [cell.text for cell in document.tables[0].rows[0].cells] == ["ONE CELL", "12"]
        assert document.sections[0].header.paragraphs[0].text == "A HEADER"
        parts = {"word/document.xml", "word/header1.xml", "word/footer1.xml"}
        assert changed(letter, found) == parts | {"word/styles.xml"}
        old, new = (members(path)["word/styles.xml"] for path in (letter, found))
        assert new == old.replace(b'<w:lang w:val="en-US"', b'<w:lang w:val="de"')  # for the spelling checker
        assert new != old

    def test_formats_go_with_their_words(self, tmp_path: Path) -> None:
        content = paragraph(said("Buy the ") + said("red car", "<w:b/>") + said(" now."))
        found = translate(saved(with_words(content), tmp_path / "a.docx"), rotated)
        assert runs(found) == [("the ", None), ("red car", True), (" now. Buy", None)]

    def test_the_usual_format_is_that_of_most_characters(self, tmp_path: Path) -> None:
        """Words that no word of the source is aligned with have it."""
        content = paragraph(said("A", "<w:i/>") + said(" very long title of bold words", "<w:b/>"))
        path = saved(with_words(content), tmp_path / "a.docx")

        def other(sentence: InputSentence) -> Translation:
            rows, columns = word_spans(sentence.text), word_spans("etwas anderes")
            alignment = WordAlignment(rows, columns, np.zeros((len(columns), len(rows))))
            return Translation(sentence.text, "etwas anderes", alignment=alignment)

        assert runs(translate(path, other)) == [("etwas anderes", True)]

    def test_what_a_spelling_checker_has_cut_is_one_run(self, tmp_path: Path) -> None:
        content = paragraph(
            said("Hel", '<w:lang w:val="en-US"/>') + '<w:proofErr w:type="spellStart"/>'
            + said("lo", '<w:noProof/><w:lang w:val="en-GB"/>') + '<w:proofErr w:type="spellEnd"/>' + said(" Tom.")
        )  # fmt: skip
        path = saved(with_words(content), tmp_path / "a.docx")
        assert sentences(path) == [["Hello Tom."]]
        assert body(translate(path, same)) == paragraph(said("Hello Tom."))

    def test_breaks_and_tabs_divide(self, tmp_path: Path) -> None:
        content = paragraph(said("Name") + said("<w:tab/>") + said("A value") + said("<w:br/>", "<w:b/>") + said("12"))
        path = saved(with_words(content), tmp_path / "a.docx")
        assert sentences(path) == [["Name", "A value"]]
        assert body(translate(path, upper)) == content.replace("Name", "NAME").replace("A value", "A VALUE")

    def test_links_bookmarks_and_controls(self, tmp_path: Path) -> None:
        content = paragraph(
            said("See ") + '<w:bookmarkStart w:id="1" w:name="m"/>'
            + f'<w:hyperlink w:anchor="x">{said("this old page", "<w:u/>")}</w:hyperlink>' + '<w:bookmarkEnd w:id="1"/>'
            + f'<w:sdt><w:sdtPr><w:tag w:val="t"/></w:sdtPr><w:sdtContent>{said(" today")}</w:sdtContent></w:sdt>'
            + said(".")
        )  # fmt: skip
        path = saved(with_words(content), tmp_path / "a.docx")
        assert sentences(path) == [["See this old page today."]]
        assert body(translate(path, same)) == content
        moved = body(translate(path, rotated))
        assert f'<w:hyperlink w:anchor="x">{said("this old page", "<w:u/>")}</w:hyperlink>' in moved
        assert '<w:sdtPr><w:tag w:val="t"/></w:sdtPr><w:sdtContent>' in moved
        assert moved.index("bookmarkStart") < moved.index("<w:hyperlink") < moved.index("bookmarkEnd")

    def test_bookmarks_and_comments_go_with_their_words(self, tmp_path: Path) -> None:
        for name in ("bookmark", "commentRange"):
            start, end = f'<w:{name}Start w:id="7"/>', f'<w:{name}End w:id="7"/>'
            path = saved(with_words(paragraph(start + said("Buy") + end + said(" the car"))), tmp_path / f"{name}.docx")
            assert body(translate(path, rotated)) == paragraph(said("the car ") + start + said("Buy") + end)

    def test_a_field_is_one_tag_and_its_result_text(self, tmp_path: Path) -> None:
        link = field(' HYPERLINK "x" ', said("the page", "<w:u/>"))
        path = saved(with_words(paragraph(said("Read ") + link + said(" now."))), tmp_path / "a.docx")
        assert sentences(path) == [["Read the page now."]]
        moved = body(translate(path, rotated))
        assert link in moved
        assert moved.startswith(paragraph(link)[: len("<w:p>") + len(link)])

    def test_the_number_of_a_page_is_no_text_of_its_own(self, tmp_path: Path) -> None:
        number = field(" PAGE ", said("3"))
        path = saved(with_words(paragraph(said("Page ") + number + said(" of the book"))), tmp_path / "a.docx")
        assert sentences(path) == [["Page of the book"]]
        assert number in body(translate(path, rotated))

    def test_a_field_over_several_paragraphs(self, tmp_path: Path) -> None:
        begin, end = field(" TOC ", "SPLIT").split("SPLIT")
        first, last = (
            paragraph(begin + said("One chapter") + said("<w:tab/>") + said("3")),
            paragraph(said("Two") + end),
        )
        path = saved(with_words(first + last), tmp_path / "a.docx")
        assert sentences(path) == [["One chapter", "Two"]]
        assert body(translate(path, same)) == first + last

    @pytest.mark.parametrize("result", ["12", "see it"])
    def test_thousands_of_fields_in_each_other_take_no_time(self, tmp_path: Path, result: str) -> None:
        begin, end = field(" REF x ", "SPLIT").split("SPLIT")
        content = paragraph(begin * 4_000 + said(result) + end * 4_000)
        path = small(content, tmp_path / "a.docx")
        start = time.process_time()
        assert content in members(translate(path, same))["a.xml"].decode()
        assert time.process_time() - start < 5  # quadratic time would be minutes

    def test_notes_and_pictures_stay_beside_their_words(self, tmp_path: Path) -> None:
        note = said('<w:footnoteReference w:id="2"/>', '<w:vertAlign w:val="superscript"/>')
        path = saved(with_words(paragraph(said("One car") + note + said(" is red here."))), tmp_path / "a.docx")
        found = body(translate(path, rotated))
        assert found.index(">car<") < found.index(note) < found.index("is red")

    def test_text_boxes_are_paragraphs_in_a_paragraph(self, tmp_path: Path) -> None:
        inner = paragraph(said("In a box. Two.")) + paragraph(said("12"))
        box = f"<w:pict><w:txbxContent>{inner}</w:txbxContent></w:pict>"
        content = paragraph(said("Before") + said(box) + said(" and after.")) + paragraph(said("Next."))
        path = saved(with_words(content), tmp_path / "a.docx")
        assert sentences(path) == [["Before and after.", "In a box.", "Two.", "Next."]]
        expected = content.replace("In a box. Two.", "IN A BOX. TWO.").replace("Before", "BEFORE")
        assert body(translate(path, upper)) == expected.replace("and after", "AND AFTER").replace("Next", "NEXT")

    def test_a_text_box_in_a_paragraph_without_words(self, tmp_path: Path) -> None:
        content = paragraph(said(f"<w:pict><w:txbxContent>{paragraph(said('In a box.'))}</w:txbxContent></w:pict>"))
        path = saved(with_words(content), tmp_path / "a.docx")
        assert body(translate(path, upper)) == content.replace("In a box", "IN A BOX")

    def test_tracked_changes(self, tmp_path: Path) -> None:
        deleted = '<w:del w:id="1" w:author="a"><w:r><w:delText>old</w:delText></w:r></w:del>'
        inserted = f'<w:ins w:id="2" w:author="a">{said("new")}</w:ins>'
        path = saved(with_words(paragraph(said("A ") + deleted + inserted + said(" car."))), tmp_path / "a.docx")
        assert sentences(path) == [["A new car."]]
        found = body(translate(path, upper))
        assert deleted in found
        assert inserted.replace("new", "NEW") in found

    def test_hyphens_and_formulas(self, tmp_path: Path) -> None:
        formula = '<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"><m:r><m:t>x</m:t></m:r></m:oMath>'
        hyphens = "<w:r><w:t>un</w:t><w:softHyphen/><w:t>real</w:t><w:noBreakHyphen/><w:t>time</w:t></w:r>"
        path = saved(with_words(paragraph(hyphens + said(" of ") + formula)), tmp_path / "a.docx")
        assert sentences(path) == [["unreal\u2011time of"]]
        assert "<m:t>x</m:t>" in body(translate(path, upper))

    def test_white_space_that_word_does_not_show(self, tmp_path: Path) -> None:
        path = saved(
            with_words(paragraph("<w:r><w:t> One </w:t></w:r>\n  <w:r><w:t>car</w:t></w:r>")), tmp_path / "a.docx"
        )
        assert sentences(path) == [["Onecar"]]

    def test_other_names_of_the_main_part(self, letter: Path, tmp_path: Path) -> None:
        """Some programs have it as the default type of all XML files."""
        parts = members(letter)
        types = (
            '<Types><Default Extension="xml" ContentType="application/x.wordprocessingml.document.main+xml"/></Types>'
        )
        path = tmp_path / "other.docx"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("[Content_Types].xml", types)
            archive.writestr("word/document2.xml", parts["word/document.xml"])
        assert sentences(path) == [["The red car", "It is very old.", "It was red & blue.", "One cell"]]
