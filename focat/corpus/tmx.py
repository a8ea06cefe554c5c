"""Translation memories (TMX 1.1 to 1.4b): units with a text in each language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from focat.config.corpora import TmxCorpus
from focat.corpus.document import Document
from focat.corpus.text_files import LineLimit, fold_spaces, open_bytes
from focat.corpus.xml_files import XmlEvents
from focat.errors import FocatError

INLINE_CODES = frozenset(["bpt", "ept", "it", "ph", "ut"])
"""Elements of a segment that hold mark-up of the original document, not text."""


@dataclass
class Unit:
    """A translation unit: its texts by language, and its properties."""

    line: int
    texts: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)

    def text(self, language: str) -> str | None:
        """The text in a language; en-GB is English, too, if there is no en."""
        wanted = _normal(language)
        if wanted in self.texts:
            return self.texts[wanted]
        return next((text for name, text in self.texts.items() if name.startswith(f"{wanted}-")), None)


def read_tmx(
    corpus: TmxCorpus, languages: tuple[str, str], limit: LineLimit, left_out: Counter[str]
) -> Iterator[Document]:
    """The documents of a translation memory; units without one of the languages are left out."""
    events = XmlEvents(str(corpus.path), lambda: open_bytes(corpus.path), limit)
    found = Counter[str]()  # how many units have each language

    def named_pairs() -> Iterator[tuple[str, str, str]]:
        for unit in read_units(events):
            found.update(unit.texts.keys())
            source, target = map(unit.text, languages)
            if source is None or target is None:
                left_out["untranslated"] += 1
                continue
            yield _document_name(unit, corpus, events), source, target

    count = 0
    for name, group in groupby(named_pairs(), key=lambda named: named[0]):
        pairs = list(group)
        count += 1
        yield Document(name, [source for _, source, _ in pairs], [target for _, _, target in pairs])
    if not count and found:
        raise FocatError(
            f"{corpus.path}: no unit has both {' and '.join(languages)}; it has {', '.join(sorted(found)[:9])}: "
            "set source_language and target_language of the corpus"
        )


def read_units(events: XmlEvents) -> Iterator[Unit]:
    """The translation units of a file, in order."""
    unit: Unit | None = None
    language: str | None = None
    text: list[str] | None = None  # of the open <seg> or <prop>
    prop, codes = "", 0  # type of the open <prop>; how many inline codes are open
    for kind, name, attributes, line in events:
        if kind == "text":
            if text is not None and not codes:
                text.append(name)
        elif kind == "open":
            if name == "tu":
                if unit is not None:
                    raise events.error(f"<tu> inside the <tu> of line {unit.line}")
                unit = Unit(line)
            elif name == "tuv":
                language = attributes.get("xml:lang", attributes.get("lang"))
                if unit is None or not language:
                    raise events.error("<tuv> without a language" if unit else "<tuv> outside a <tu>")
            elif name in ("seg", "prop") and unit is not None:
                prop = attributes.get("type", "")
                text = []
            elif name in INLINE_CODES:
                codes += 1
        elif unit is not None:
            if name in INLINE_CODES:
                codes -= 1
            elif name == "prop" and text is not None:
                unit.properties.setdefault(prop, "".join(text).strip())
                text = None
            elif name == "seg" and text is not None:
                if language is None:
                    raise events.error("<seg> outside a <tuv>")
                unit.texts.setdefault(_normal(language), fold_spaces("".join(text)))
                text = None
            elif name == "tuv":
                language = None
            elif name == "tu":
                yield unit
                unit = None


def _document_name(unit: Unit, corpus: TmxCorpus, events: XmlEvents) -> str:
    if corpus.documents == "file":
        return corpus.path.name
    if corpus.documents == "each":
        return f"{corpus.path.name}:{unit.line}"
    if corpus.documents not in unit.properties:
        has = ", ".join(sorted(unit.properties)[:9]) or "none"
        raise events.error(
            f'this unit has no <prop type="{corpus.documents}"> to name its document (it has: {has}); '
            "set documents of the corpus to each or file, or to a property of all units",
            unit.line,
        )
    return unit.properties[corpus.documents]


def _normal(language: str) -> str:
    return language.replace("_", "-").lower()
