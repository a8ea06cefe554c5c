"""`focat demo` as a user runs it, with too little training to learn anything: what it must not need training for.

What it does need training for is checked on a demo that somebody has run: `FOCAT_DEMO=demo/figures.json pytest
tests/experiments/test_demo.py`, after `focat demo --json demo/figures.json`.
"""

from __future__ import annotations

import json
import os
import re
import signal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from focat.corpus.generated import generate
from focat.corpus.generated.ambiguity import possible_translations
from focat.experiments.demo import run_demo
from focat.progress import Progress
from tests.evaluation.commands import Done, focat
from tests.reporting.pages import Page

SHORT = [
    "data.train=[{format: generated, documents: 60, seed: 1}]",
    "data.test=[{format: generated, documents: 3, seed: 3}]",
    "data.tokenizer.vocabulary=500",
    "settings.decoding={beam: 1, max_length_ratio: 0.5, max_length_offset: 0}",
    "settings.model={d_model: 32, d_ff: 64, encoder_layers: 1, decoder_layers: 1, heads: 2}",
    "settings.training={budget: {updates: 4}, log_samples: 0, log_every: 1}",
    "systems.base.budget.updates=4",
    *(f"suites.{name}.instances=12" for name in ("pronouns", "deixis", "lex_cohesion", "ellipsis_vp")),
]
CHANCE = {"pronoun (er, sie, es)": 100 / 3, "address (du, Sie)": 50, "word choice": 50, "elided verb": 20}


class Impatient(Progress):
    """Presses Ctrl-C when a system has begun to train."""

    def __init__(self) -> None:
        super().__init__(out=None)
        self.said: list[str] = []

    def log(self, text: str) -> None:
        begun = any("| update" in line for line in self.said)
        self.said.append(text.strip())
        if "| update" in text and not begun:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Impatient]:
    folder, progress = tmp_path_factory.mktemp("demo"), Impatient()
    session, results = run_demo(folder / "demo", SHORT, progress, Console(file=StringIO()))
    assert results is None
    assert session.exit_code == 128 + signal.SIGINT
    return folder, progress


@pytest.fixture(scope="module")
def demo(interrupted: tuple[Path, Impatient]) -> tuple[Path, Done]:
    folder, _ = interrupted
    return folder, focat(folder, "demo", *SHORT, "--json", "figures.json")


def test_it_stops_when_told_to(interrupted: tuple[Path, Impatient]) -> None:
    folder, progress = interrupted
    assert not any("contrast" in line for line in progress.said)
    assert not list((folder / "demo").glob("results/*.contrast.*"))
    assert progress.said[-1] == "not finished; the same command goes on from here"


def figures_of(folder: Path) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    return figures


def beyond_the_sentence(accuracy: dict[str, Any], question: str) -> list[float]:
    return [share for back, share in accuracy[question].items() if back != "same sentence"]


def test_base_is_at_chance_exactly(demo: tuple[Path, Done]) -> None:
    """By construction of the suites: no amount of training can change it."""
    accuracy = figures_of(demo[0])["accuracy"]["base"]
    for question, expected in CHANCE.items():
        found = beyond_the_sentence(accuracy, question)
        assert found == pytest.approx([expected] * len(found))
    assert len(accuracy["pronoun (er, sie, es)"]) == 4


def test_it_shows_and_keeps_what_it_made(demo: tuple[Path, Done]) -> None:
    folder, done = demo
    for heading in ("Training", "Right answers, %", "In its own translations", "the one about which they differ most"):
        assert heading in done.stdout
    what_happened, look_closer, own_data = done.stdout.rstrip().splitlines()[-3:]
    assert what_happened.startswith("What happened: 3 systems were trained at the same time in ")
    assert "base 3" in what_happened
    assert "focat translate demo/runs/s4to4-shift-cd-seed1 FILE" in look_closer
    assert "only the words of its corpus" in look_closer
    assert "docs/tutorial.md" in own_data
    figures = figures_of(folder)
    assert {name: found["result"]["updates"] for name, found in figures["training"].items()} == {
        **{"base": 4, "s4to4": 4, "s4to4-shift-cd": 4}
    }
    assert set(figures["translations"]["base"]) == {"reuse"}
    assert set(figures["translations"]["s4to4-shift-cd"]) == set(figures["bleu"]["s4to4"]) == {"reuse", "regenerate"}
    page = Page((folder / "demo" / "report.html").read_text(encoding="utf-8"))
    assert any("differ most" in heading for heading in page.headings("h3"))


def test_it_goes_on_where_it_was(demo: tuple[Path, Done]) -> None:
    folder, first = demo
    again = focat(folder, "demo", *SHORT)
    assert "update" not in again.stderr
    assert again.stdout == first.stdout


def test_words_that_context_decides() -> None:
    """A document is the one that is trained on, and each sentence has its own translation among the possible ones."""
    for index, document in enumerate(generate(30, 3)):
        witnessed = possible_translations(3, index)
        assert [pair for pair, _ in witnessed] == list(zip(document.source, document.target, strict=True))
        for (source, target), possible in witnessed:
            assert target in possible
            words = set(re.findall(r"\w+", source.lower()))
            genders = 3 if "it" in words and "the" not in words else 1
            verbs = 10 if words & {"do", "does"} and not words & {"you", "not"} else 1
            assert len(possible) in (genders * verbs, genders * verbs * (2 if words & {"you", "your"} else 1))


@pytest.mark.skipif("FOCAT_DEMO" not in os.environ, reason="FOCAT_DEMO=FILE names the figures of a whole demo")
def test_a_whole_demo() -> None:
    figures = json.loads(Path(os.environ["FOCAT_DEMO"]).read_text(encoding="utf-8"))
    base, focused = (figures["accuracy"][name] for name in ("base", "s4to4-shift-cd"))
    for question, chance in CHANCE.items():
        assert beyond_the_sentence(base, question) == pytest.approx([chance] * len(beyond_the_sentence(base, question)))
        assert min(beyond_the_sentence(focused, question)) >= 95
    better = {f["column"] for f in figures["significance"]["findings"] if f["system"] == "s4to4-shift-cd"}
    starred = {f["column"] for f in figures["significance"]["findings"] if f["stars"] and f["system"] != "s4to4"}
    assert starred >= {column for column in better if "same sentence" not in column}
    for context in ("reuse", "regenerate"):
        assert figures["translations"]["s4to4-shift-cd"][context]["pronouns"] >= 95
