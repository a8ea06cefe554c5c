"""A page as a reader finds it: its elements, its tables, and whether everything that is opened is closed."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}
SHAPES = {"path", "rect", "circle", "use", "image", "line", "g"}  # of SVG: may close themselves


@dataclass
class Element:
    """A tag, its attributes, and all the text inside it."""

    tag: str
    attributes: dict[str, str]
    above: Element | None
    text: str = ""

    def inside(self, tag: str) -> Element | None:
        """The nearest element of that kind around it."""
        here = self.above
        while here is not None and here.tag != tag:
            here = here.above
        return here


@dataclass
class ShownTable:
    """A table by its parts."""

    title: str
    columns: list[str] = field(default_factory=list)
    rows: dict[str, list[list[str]]] = field(default_factory=dict)  # of each cell: the figure, its stars, its interval


class Page(HTMLParser):
    """Refuses what is not well formed, and keeps the rest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.elements: list[Element] = []
        self._open: Element | None = None
        self.feed(text)
        self.close()
        assert self._open is None, f"{self._open} is never closed"

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attributes}, self._open)
        self.elements.append(element)
        if tag not in VOID:
            self._open = element

    def handle_startendtag(self, tag, attributes):
        assert tag in SHAPES, f"<{tag}/> does not close anything in HTML"
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self._open is not None, f"</{tag}> closes nothing"
        assert self._open.tag == tag, f"</{tag}> closes <{self._open.tag}>"
        self._open = self._open.above

    def handle_data(self, data):
        here = self._open
        while here is not None:
            here.text += data
            here = here.above

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """All elements of that kind, in their order; `class_` is the attribute class."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [e for e in self.elements if e.tag == tag and wanted.items() <= e.attributes.items()]

    def headings(self, tag: str = "h2") -> list[str]:
        return [element.text for element in self.all(tag)]

    def tables(self) -> dict[str, ShownTable]:
        """Tables of figures, by their captions."""
        found = {}
        for table in self.all("table", class_="figures"):
            mine = [e for e in self.elements if e.inside("table") is table]
            caption = next((e.text for e in mine if e.tag == "caption"), "")
            shown = ShownTable(caption, [e.text for e in mine if e.attributes.get("scope") == "col"])
            for row in (e for e in mine if e.tag == "tr" and e.inside("tbody")):
                cells = [e for e in mine if e.inside("tr") is row]
                name = next(e.text for e in cells if e.tag == "th")
                shown.rows[name] = [self._cell(e) for e in cells if e.tag == "td"]
            found[caption] = shown
        return found

    def _cell(self, cell: Element) -> list[str]:
        parts = {e.tag: e.text for e in self.elements if e.inside("td") is cell and e.tag in ("sup", "small")}
        stars, interval = parts.get("sup", ""), parts.get("small", "")
        return [cell.text.removesuffix(interval).strip().removesuffix(stars), stars, interval]
