"""XLIFF 1.2 and 2.0, checked with translate-toolkit and lxml."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from translate.storage import xliff, xliff2

from focat.errors import FocatError
from tests.translation.markup_files import segments_of, sentences_of, translated

V12 = """<?xml version="1.0" encoding="utf-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file source-language="en" target-language="de" datatype="html" original='a "b"'>
    <body>
      <group id="g">
      <trans-unit id="1">
        <source>A <g id="1">red</g> car &amp; one.</source>
        <note>Careful.</note>
      </trans-unit>
      <trans-unit id="2" approved="yes"><source>It is new. Really.</source><target state="final">Es ist neu. Ja.</target></trans-unit>
      <trans-unit id="3"><source>See <bpt id="1">&lt;b&gt;</bpt>this<ept id="1">&lt;/b&gt;</ept><x id="2"/>.</source><target state="new"/></trans-unit>
      <trans-unit id="4" translate="no"><source>Not this.</source></trans-unit>
      <trans-unit id="5"><source>%s <mrk mtype="protected">focat</mrk> runs</source><target></target>
        <alt-trans><source>Other</source><target>Andere</target></alt-trans></trans-unit>
      <trans-unit id="6"><source>12</source></trans-unit>
      </group>
    </body>
  </file>
</xliff>
"""  # noqa: E501
V20 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">
 <file id="f1">
  <unit id="1">
   <segment id="s1">
    <source>A <pc id="1">red</pc> car<ph id="2"/>.</source>
   </segment>
   <ignorable><source> </source></ignorable>
   <segment id="s2" state="reviewed"><source>It is new.</source><target>Es ist neu.</target></segment>
   <segment id="s3" state="initial"><source>A <sc id="3"/>b<ec startRef="3"/>.</source><target>?</target></segment>
  </unit>
  <unit id="2" translate="no"><segment><source>Not this.</source></segment></unit>
 </file>
</xliff>
"""


class TestFilled:
    def test_version_1(self, tmp_path: Path) -> None:
        found = translated(V12, "xliff", tmp_path, str.upper)
        expected = (
            V12.replace(
                "car &amp; one.</source>",
                'car &amp; one.</source>\n        <target state="needs-review-translation">'
                'A <g id="1">RED</g> CAR &amp; ONE.</target>',
            )
            .replace(
                '<target state="new"/>',
                '<target state="needs-review-translation">SEE <bpt id="1">&lt;b&gt;</bpt>THIS'
                '<ept id="1">&lt;/b&gt;</ept><x id="2"/>.</target>',
            )
            .replace(
                "<target></target>",
                '<target state="needs-review-translation">%s <mrk mtype="protected">focat</mrk> RUNS</target>',
            )
        )
        assert found == expected
        file = xliff.xlifffile.parsestring(found.encode())
        targets = {unit.getid().rpartition("\x04")[2]: unit.target for unit in file.units}
        assert targets["1"] == "A RED CAR & ONE."
        assert targets["2"] == "Es ist neu. Ja."

    def test_version_2(self, tmp_path: Path) -> None:
        found = translated(V20, "xliff", tmp_path, str.upper)
        expected = (
            V20.replace('<segment id="s1">', '<segment id="s1" state="translated">')
            .replace(
                'car<ph id="2"/>.</source>',
                'car<ph id="2"/>.</source>\n    <target>A <pc id="1">RED</pc> CAR<ph id="2"/>.</target>',
            )
            .replace('state="initial"', 'state="translated"')
            .replace("<target>?</target>", '<target>A <sc id="3"/>B<ec startRef="3"/>.</target>')
        )
        assert found == expected
        units = xliff2.Xliff2File.parsestring(found.encode()).units
        assert len(units) == len(xliff2.Xliff2File.parsestring(V20.encode()).units)

    def test_translations_are_context(self, tmp_path: Path) -> None:
        found = [(sentence.text, sentence.translation) for sentence in sentences_of(V12, "xliff", tmp_path)]
        assert found == [
            ("A red car & one.", None), ("It is new.", "Es ist neu."), ("Really.", "Ja."), ("See this.", None),
            ("%s runs", None),
        ]  # fmt: skip
        assert sum(segment.ends_document for segment in segments_of(V12, "xliff", tmp_path)) == 1

    @pytest.mark.parametrize("text", [V12, V20])
    def test_a_second_run_changes_nothing(self, tmp_path: Path, text: str) -> None:
        once = translated(text, "xliff", tmp_path, str.upper)
        assert translated(once, "xliff", tmp_path, str.lower) == once
        assert translated(once, "xliff", tmp_path, str.upper, all_entries=True).count("ES IST") == 0

    def test_all(self, tmp_path: Path) -> None:
        found = translated(V12, "xliff", tmp_path, str.upper, all_entries=True)
        assert '<target state="needs-review-translation">IT IS NEW. REALLY.</target>' in found
        assert "<source>Not this.</source></trans-unit>" in found

    def test_segments_of_a_unit(self, tmp_path: Path) -> None:
        divided = '<mrk mtype="seg" mid="1">One.</mrk> <mrk mtype="seg" mid="2">Two.</mrk>'
        unit = f'<trans-unit id="1"><source>One. Two.</source><seg-source>{divided}</seg-source></trans-unit>'
        text = f"<xliff><file>{unit}</file></xliff>"
        assert f">{divided.replace('One', 'ONE').replace('Two', 'TWO')}</target></trans-unit>" in translated(
            text, "xliff", tmp_path, str.upper
        )

    def test_languages_and_encoding_are_named(self, tmp_path: Path) -> None:
        text = V12.replace(' target-language="de"', "").replace('"utf-8"', '"ISO-8859-1"').replace("Careful", "Naïve")
        found = translated(text.encode("latin-1"), "xliff", tmp_path, languages=("en", "pt-BR"))
        assert found.startswith('<?xml version="1.0" encoding="UTF-8"?>')
        assert 'original=\'a "b"\' target-language="pt-BR">' in found
        assert "Naïve" in found
        assert 'srcLang="en" trgLang="fr">' in translated(
            V20.replace(' trgLang="de"', ""), "xliff", tmp_path, languages=("en", "fr")
        )

    def test_what_is_no_xml(self, tmp_path: Path) -> None:
        with pytest.raises(FocatError, match=r"file.xliff, line 3: is no XML \(mismatched tag\)"):
            segments_of("<xliff>\n<file>\n</xliff>", "xliff", tmp_path)


_INLINE = st.recursive(
    st.sampled_from(["a", " B.", " ", "&amp;", "&#252;", "<x id='1'/>", "<ph id='2'>code</ph>", "\n  ", "%d", "漢字"]),
    lambda inner: st.lists(inner, max_size=3).map(lambda parts: f'<g id="3">{"".join(parts)}</g>'),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(sources=st.lists(st.lists(_INLINE, max_size=4).map("".join), max_size=4))
def test_any_file(tmp_path_factory: pytest.TempPathFactory, sources: list[str]) -> None:
    """With an identity model, targets are their sources, and without them the file is what it was."""
    units = "".join(f"<trans-unit id='{i}'> <source>{text}</source></trans-unit>\n" for i, text in enumerate(sources))
    text = f"<xliff version='1.2'><file><body>\n{units}</body></file></xliff>"
    found = translated(text, "xliff", tmp_path_factory.mktemp("xliff"))
    tree = etree.fromstring(found.encode())
    for unit in tree.iter("trans-unit"):
        source, target = unit.find("source"), unit.find("target")
        if target is None:
            assert not any(
                character.isalpha() for character in "".join(source.itertext()).replace("%d", "").replace("code", "")
            )
            continue
        assert target.attrib.pop("state") == "needs-review-translation"
        target.tag = "source"
        source.tail = target.tail = None
        assert etree.tostring(target) == etree.tostring(source)
        unit.remove(target)
