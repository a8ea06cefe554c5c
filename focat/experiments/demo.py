"""`focat demo`: the whole job on the generated corpus, in minutes on two cores, with real training and real figures.

It works on the plan `demo` as `focat reproduce` does, so that an interrupted demo goes on, then shows what came out:
answers that only context can give, what translations say, one document side by side, and a page with everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from focat.api import load
from focat.config.data import GeneratedCorpus
from focat.corpus.generated.decided import possible_translations
from focat.errors import FocatError
from focat.evaluation.comparison import Comparison, compare
from focat.evaluation.generated_accuracy import outcome
from focat.evaluation.systems import System
from focat.experiments.command import reproduce
from focat.experiments.experiment import SystemWork, Workshop
from focat.experiments.figures import measured, results_of
from focat.experiments.plan import load_plan
from focat.experiments.results import Record
from focat.progress import NULL_PROGRESS, Progress
from focat.reporting.examples import Translated
from focat.reporting.page import write_report

_RULE = "current-sum"
_JUDGED = 150  # instances of a suite to translate, with all their context; suites go through all distances in turn


@dataclass(frozen=True)
class Question:
    """A row of the table: what is asked, how far back the answer lies, and where it is found."""

    about: str
    back: str
    column: str  # of a plan's figures
    suite: str


_IT = "pronoun (er, sie, es)"
QUESTIONS = (
    Question(_IT, "same sentence", "d=0", "pronouns"),
    *(Question(_IT, str(distance), f"d={distance}", "pronouns") for distance in (1, 2, 3)),
    Question("address (du, Sie)", "1 to 3", "Deixis", "deixis"),
    Question("word choice", "1 to 3", "Lex co.", "lex_cohesion"),
    Question("elided verb", "1 to 3", "Ell. vp", "ellipsis_vp"),
)
# What the source decides. Which of two words a term was called by first, nobody can know: own translations may differ.
_IN_TRANSLATIONS = {"pronouns": "pronouns", "ellipsis_vp": "elided verbs"}


def run_demo(folder: Path, overrides: list[str], progress: Progress, console: Console) -> dict[str, Any]:
    """Prepare, train, measure, translate, report; returns the figures that are printed."""
    finished, _, _ = reproduce("demo", folder, overrides, progress, page=False)
    if finished.failures:
        raise FocatError("; ".join(f"{work}: {reason}" for work, reason in finished.failures.items()))
    if finished.exit_code:
        progress.log("not finished; the same command goes on from here")
        raise typer.Exit(finished.exit_code)
    workshop = Workshop(load_plan("demo", overrides), folder, NULL_PROGRESS)
    works: dict[str, SystemWork] = {}
    for work in workshop.all_work():
        works.setdefault(work.system, work)  # with the first seed, if there are more
    records = workshop.done()
    trained = {name: _trained(records, work) for name, work in works.items()}
    answers = _compared(workshop, records, works)
    progress.log("")
    said = {name: _in_translations(workshop, work, progress) for name, work in works.items()}
    bleu = {name: _bleu(records, work) for name, work in works.items()}
    document = _Document.of(works)
    page = folder / "report.html"
    titles = {name: workshop.plan.title_of(name) for name in works}
    write_report(
        [f"{titles[name]}={work.run_folder}" for name, work in works.items()],
        page,
        examples=[] if document is None else [document.example(titles)],
        suites=[workshop.suite(name) for name in workshop.plan.suites],
        overwrite=True,
        command="focat demo",
        progress=progress,
    )
    _show_training(trained, titles, console)
    _show_answers(workshop, answers, titles, console)
    _show_translations(said, bleu, titles, console)
    if document is not None:
        document.show(titles, console)
    _show_end(answers, works, trained, titles, page, console)
    return {
        "seeds": {name: work.seed for name, work in works.items()},
        "training": trained,
        "accuracy": _accuracy(answers),
        "significance": answers.record(),
        "translations": said,
        "bleu": bleu,
        "report": str(page),
    }


# ------------------------------------------------------------------------------------------------ figures


def _trained(records: Sequence[Record], work: SystemWork) -> dict[str, Any]:
    (record,) = results_of(records, (work.system, work.seed), "train")
    return {
        "updates": record["result"]["updates"],
        "epochs": record["result"]["epochs"],
        "seconds": round(60 * record["provenance"]["minutes"], 1),
        "hardware": record["provenance"]["hardware"],
        "seed": work.seed,
        "window": record["result"]["window"],
        "discount": record["result"]["discount"],
    }


def _compared(workshop: Workshop, records: Sequence[Record], works: Mapping[str, SystemWork]) -> Comparison:
    """Every question, and whether the answers differ from those of the first system."""
    found = measured(workshop.plan, records, _RULE)
    systems = []
    for name, work in works.items():
        columns = found.systems[name, work.seed].columns
        shown = [q for q in QUESTIONS if q.column in columns]
        named = {f"{q.about} {q.back}": replace(columns[q.column], name=f"{q.about} {q.back}") for q in shown}
        systems.append(System(name, named | {"Disc.": columns["Disc."]}))
    return compare(systems, NULL_PROGRESS)


def _accuracy(answers: Comparison) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = {system.name: {} for system in answers.systems}
    for system in answers.systems:
        for q in QUESTIONS:
            if f"{q.about} {q.back}" in system.columns:
                found[system.name].setdefault(q.about, {})[q.back] = system.columns[f"{q.about} {q.back}"].score
        found[system.name]["all that context decides"] = {"1 to 3": system.columns["Disc."].score}
    return found


def _in_translations(workshop: Workshop, work: SystemWork, progress: Progress) -> dict[str, dict[str, float]]:
    """By kind of target context: how often the right word is said where the source context decides it, in percent."""
    model = load(work.run_folder, work.planned.training.device)
    contexts = ("reuse", "regenerate") if work.planned.windows.size > 1 else ("reuse",)
    found: dict[str, dict[str, float]] = {}
    for context in contexts:
        found[context] = {}
        for suite, about in _IN_TRANSLATIONS.items():
            asked = [instance for instance in workshop.suite(suite).instances if instance.distance][:_JUDGED]
            with progress.bar(f"{work.system}: {about}, {context}", "documents", len(asked)) as bar:
                documents = model.stream([instance.source for instance in asked], context=context)
                right = 0
                for instance, translations in zip(asked, documents, strict=True):
                    right += outcome(translations[-1].text, instance) == "right"
                    bar.advance()
            found[context][about] = 100 * right / len(asked)
    return found


def _bleu(records: Sequence[Record], work: SystemWork) -> dict[str, float]:
    found = results_of(records, (work.system, work.seed), "evaluate.test")
    return {record["step"].split(".")[2]: record["result"]["figures"]["BLEU"]["score"] for record in found}


def _translations(work: SystemWork) -> list[list[str]]:
    """Of the test split, as they were evaluated."""
    step = next(step for step in work.steps() if step.kind == "evaluate")
    record = json.loads(work.details(step).read_text(encoding="utf-8"))
    found: list[list[str]] = record["translations"]
    return found


# ------------------------------------------------------------------------------------------------ one document


@dataclass(frozen=True)
class _Document:
    """A document of the test split, what its sentences leave to context, and what systems make of it."""

    title: str
    source: list[str]
    reference: list[str]
    possible: list[list[str]]
    translations: dict[str, list[str]]

    @classmethod
    def of(cls, works: Mapping[str, SystemWork]) -> _Document | None:
        """The one in whose open sentences the first system and the last differ most often."""
        first, *_, last = works
        corpus = next(iter(works[first].planned.data.test), None)
        if not isinstance(corpus, GeneratedCorpus):
            return None
        said = {name: _translations(works[name]) for name in (first, last)}
        documents = [possible_translations(corpus.seed, index) for index in range(corpus.documents)]
        differing = [
            sum(one != other for (_, possible), one, other in zip(*three, strict=True) if len(possible) > 1)
            for three in zip(documents, *said.values(), strict=True)
        ]
        chosen = differing.index(max(differing))
        title = f"Document {chosen + 1} of the test split: of {len(documents)}, the one about which they differ most"
        pairs = [pair for pair, _ in documents[chosen]]
        return cls(
            title,
            [pair.source for pair in pairs],
            [pair.target for pair in pairs],
            [possible for _, possible in documents[chosen]],
            {name: texts[chosen] for name, texts in said.items()},
        )

    def example(self, titles: Mapping[str, str]) -> Translated:
        """For the report."""
        said = {titles[name]: texts for name, texts in self.translations.items()}
        return Translated(self.title, self.source, said, self.reference)

    def show(self, titles: Mapping[str, str], console: Console) -> None:
        """Side by side; words that only context could decide stand out."""
        table = Table("source", *(titles[name] for name in self.translations))
        for i, source in enumerate(self.source):
            said = (self._marked(texts[i], i) for texts in self.translations.values())
            table.add_row(source, *said)
        _print(self.title, table, console)
        console.print("✓ and ✗: words that only the sentences before could decide, right or wrong")

    def _marked(self, text: str, sentence: int) -> Text:
        candidates = [set(_words(possible)) for possible in self.possible[sentence]]
        decisive = {word for words in candidates for word in words if not all(word in others for others in candidates)}
        right = set(_words(self.reference[sentence]))
        shown = Text()
        for word, name in zip(_pieces(text), _words(text, all_pieces=True), strict=True):
            if name in decisive:
                good = name in right
                shown.append(word + "✓✗"[not good], "bold green" if good else "bold red")
            else:
                shown.append(word)
        return shown


def _pieces(text: str) -> list[str]:
    return re.findall(r"\w+|\W+", text)


def _words(text: str, all_pieces: bool = False) -> list[str]:
    """Words as they are inside a sentence: the first one may be capitalised for no other reason than being first."""
    pieces = _pieces(text)
    words = [piece.lower() if i == 0 else piece for i, piece in enumerate(pieces)]
    return words if all_pieces else [word for word in words if word[0].isalnum()]


# ------------------------------------------------------------------------------------------------ what is shown


def _print(title: str, table: Table, console: Console) -> None:
    console.print("", Text(title, "bold"), table, sep="\n")


def _show_training(trained: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str], console: Console) -> None:
    table = Table("system", "sees", "discount", "updates", "seconds", "seed")
    for name, about in trained.items():
        size = about["window"]
        sees = "one sentence" if size == 1 else f"{size} sentences"
        row = (sees, f"{about['discount']:g}", f"{about['updates']:,}", f"{about['seconds']:.0f}", str(about["seed"]))
        table.add_row(titles[name], *row)
    _print("Training", table, console)
    console.print(f"on {next(iter(trained.values()))['hardware']}")


def _show_answers(workshop: Workshop, answers: Comparison, titles: Mapping[str, str], console: Console) -> None:
    stars = {(finding.system, finding.column): finding.stars for finding in answers.findings}
    table = Table("what is asked", "sentences back", "chance", *titles.values())
    for q in QUESTIONS:
        column = f"{q.about} {q.back}"
        if column not in answers.columns:
            continue
        cells = [f"{s.columns[column].score:.1f}{stars.get((s.name, column), '')}" for s in answers.systems]
        table.add_row(q.about, q.back, f"{100 * workshop.suite(q.suite).chance:.0f}", *cells)
    _print("Right answers, %", table, console)
    first = titles[answers.systems[0].name]
    console.print(f"differs from {first}: * p < 0.05, ** p < 0.01 (McNemar's test, corrected by Holm)")


def _show_translations(
    said: Mapping[str, Mapping[str, Mapping[str, float]]],
    bleu: Mapping[str, Mapping[str, float]],
    titles: Mapping[str, str],
    console: Console,
) -> None:
    judged = (f"{about} right, %" for about in _IN_TRANSLATIONS.values())
    table = Table("system", "target context", *judged, "BLEU")
    for name, contexts in said.items():
        for context, shares in contexts.items():
            shown = context if len(contexts) > 1 else "none"
            cells = [f"{share:.1f}" for share in shares.values()]
            table.add_row(titles[name], shown, *cells, f"{bleu[name][context]:.1f}")
    _print("In its own translations", table, console)
    console.print("reuse: after its earlier translations; regenerate: all of the window anew, as in the paper")


def _show_end(
    answers: Comparison,
    works: Mapping[str, SystemWork],
    trained: Mapping[str, Mapping[str, Any]],
    titles: Mapping[str, str],
    page: Path,
    console: Console,
) -> None:
    minutes = sum(about["seconds"] for about in trained.values()) / 60
    shares = ", ".join(f"{titles[system.name]} {system.columns['Disc.'].score:.0f} %" for system in answers.systems)
    last = list(works.values())[-1].run_folder
    lines = (
        f"{len(works)} systems were trained in {minutes:.1f} minutes; right where only context decides: {shares}",
        f"open {page}; translate with: focat translate {last} FILE",
        "two text files, one sentence per line, a blank line between documents; docs/tutorial.md goes on from there",
    )
    console.print("")
    for about, line in zip(("What happened:", "Look closer:", "Your own data:"), lines, strict=True):
        console.print(f"{about:<14} {line}", soft_wrap=True)
