"""The pieces of a report by hand: what is marked, which examples are chosen, what a heat map shows."""

import base64
import io
import re

import numpy as np
import pytest
from matplotlib.image import imread

from focat.evaluation.results import InstanceResult
from focat.reporting.collect import CollectedResults, ResultFile
from focat.reporting.examples import TextSpan, disagreements, highlight
from focat.reporting.plots import SERIES, Heat, bars_plot, heat_plot, points_plot, series_styles


def test_words_that_differ_are_highlighted():
    assert highlight("Sie gehört mir.", "Er gehört mir.") == [TextSpan("Sie", True), TextSpan(" gehört mir.")]
    assert highlight("Hast du Zeit?", "Haben Sie Zeit?") == [
        TextSpan("Hast", True),
        TextSpan(" "),
        TextSpan("du", True),
        TextSpan(" Zeit?"),
    ]
    assert highlight("ja", "ja") == [TextSpan("ja")]
    assert highlight("", "ja") == []
    assert "".join(run.text for run in highlight(" a  b, c", "b")) == " a  b, c"


def _answers(system, rights):
    """`rights`: of each instance, its phenomenon, its distance, and whether the system is right."""
    records = [
        {
            "suite": "suite",
            "id": i,
            "phenomenon": phenomenon,
            "distance": distance,
            "right": 0,
            "chosen": 0 if right else 1,
            "correct": bool(right),
            "source": [f"context {i}", f"source {i}"],
            "target": [f"Kontext {i}"],
            "candidates": [f"er {i}", f"sie {i}"],
        }
        for i, (phenomenon, distance, right) in enumerate(rights)
    ]
    return ResultFile(system, None, [InstanceResult(**record) for record in records])


def test_chosen_disagreements_are_varied():
    kinds = [("a", 1), ("a", 1), ("a", 2), ("a", 1), ("b", 1), ("b", 1)]
    base = _answers("base", [(*kind, right) for kind, right in zip(kinds, [0, 0, 0, 1, 0, 1], strict=True)])
    other = _answers("other", [(*kind, right) for kind, right in zip(kinds, [1, 1, 1, 0, 1, 1], strict=True)])
    found, counts = disagreements(CollectedResults([base, other]), [], 4)
    # b has one on which they part; of a, one that base has right, and two distances of the others
    assert [(one.phenomenon, one.id) for one in found] == [("a", "0"), ("a", "3"), ("a", "2"), ("b", "4")]
    assert [(c.right, c.chosen_by, c.text[0]) for c in found[1].candidates] == [
        (True, ["base"], TextSpan("er", True)),
        (False, ["other"], TextSpan("sie", True)),
    ]
    assert found[0].context == [("context 0", "Kontext 0", True)]
    (count,) = counts
    assert (count.only_first, count.only_second) == (1, 4)
    assert disagreements(CollectedResults([base]), [], 4) == ([], [])


@pytest.fixture
def heat():
    weights = np.array([[0.7, 0.3, 0.0], [0.1, 0.4, 0.5]], np.float32)
    return Heat(weights, ["d55e00", "#d55e00"], ['id="a"', "<S>", "x"], [0, 1], [0, 0, 1])


def test_heat_map(heat):
    """One cell for each weight, as dark as its square root; and words as they are, whatever they look like."""
    svg = heat_plot("heat", "Heat", "about", heat, "across", "down").inline()
    image = re.search(r"data:image/png;base64,\s*([^\"]*)", svg)[1]
    pixels = imread(io.BytesIO(base64.b64decode(image)))
    height, width = pixels.shape[:2]
    rows, columns = ((2 * np.arange(n) + 1) * size // (2 * n) for n, size in ((2, height), (3, width)))
    opaque = pixels[np.ix_(rows, columns)][..., 3]
    if 'transform="scale(1 -1)' in svg:
        opaque = opaque[::-1]
    assert opaque == pytest.approx(np.sqrt(heat.weights / 0.7), abs=0.01)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert [text for text in texts if text not in ("across", "down")] == [
        'id="a"',
        "&lt;S&gt;",
        "x",
        "d55e00",
        "#d55e00",
    ]


def test_inline_plots_take_the_colours_of_the_page():
    styles = series_styles(["base", "focused"])
    plot = bars_plot("bars", "Bars", "%", "", {"base": {"one": 1.0}, "focused": {"one": 2.0}}, styles)
    svg = plot.inline()
    assert "var(--s0)" in svg
    assert "var(--s1)" in svg
    assert not any(colour in svg for colour in SERIES)
    assert "xmlns" not in svg
    assert all(name.startswith("bars-") for name in re.findall(r' id="([^"]*)"', svg))
    assert plot.inline() == svg  # the same figures, the same page


def test_points_stand_where_their_figures_are():
    """A figure at the middle of the axis is in the middle of the picture of it."""
    points = {"base": {"one": (50.0, None)}, "focused": {"one": (0.0, None), "two": (100.0, None)}}
    plot = points_plot("points", "Points", "%", points, series_styles(["base", "focused"]), {}, 100)
    places = re.findall(
        r'<use [^>]*href="#points-([^"]*)" x="([\d.]+)" y="[\d.]+" style="fill: var\(--(s\d)\)', plot.inline()
    )
    x = {colour: [float(place) for _, place, other in places if other == colour] for colour in ("s0", "s1")}
    assert x["s0"] == pytest.approx([sum(x["s1"]) / 2], abs=0.01)
    assert "base 50" in plot.about


def test_any_number_of_systems_has_styles():
    styles = series_styles([f"system {i}" for i in range(20)])
    assert len({(style.colour, style.stroke, style.marker) for style in styles.values()}) >= 7
