"""`focat demo`: the plan `demo` on the generated corpus, in minutes on two cores, with real training and real figures.

Besides what `focat reproduce demo` writes, it prints what only context decides, in answers and in translations, shows
one document side by side, and puts it on the page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from focat.api import load
from focat.config.corpora import GeneratedCorpus
from focat.corpus.generated.ambiguity import possible_translations
from focat.errors import FocatError
from focat.evaluation.comparison import Comparison, compare
from focat.evaluation.generated_translations import outcome as judge
from focat.evaluation.results import ComparisonResults, EvaluationResults, JsonResult
from focat.evaluation.scores import SystemScores
from focat.experiments.command import first_seeds, reproduce
from focat.experiments.execution import SessionOutcome
from focat.experiments.experiment import Experiment
from focat.experiments.plan import load_plan
from focat.experiments.results import EvaluateResult, StepResult, TrainResult
from focat.experiments.scores import PlanResults, score_systems
from focat.experiments.tasks import SystemTasks, finished_results
from focat.progress import NULL_PROGRESS, Progress
from focat.reporting.examples import Translated
from focat.reporting.page import write_report
from focat.reporting.table import Cell, Table, print_lines, print_table, row

_JUDGED = 150  # instances of a suite to translate, with all their context
# Phenomena that the source decides. Which of two words a term was first translated by is not one of them.
_JUDGED_SUITES = {"pronouns": "pronouns", "ellipsis_vp": "elided verbs"}


@dataclass(frozen=True)
class Question:
    """A row of the table of answers: a column of the plan's scores, in plain words."""

    about: str
    distance: str
    column: str
    suite: str

    @property
    def name(self) -> str:
        """The name of its score."""
        return f"{self.about} {self.distance}"


_PRONOUN = "pronoun (er, sie, es)"
QUESTIONS = (
    Question(_PRONOUN, "same sentence", "d=0", "pronouns"),
    *(Question(_PRONOUN, str(distance), f"d={distance}", "pronouns") for distance in (1, 2, 3)),
    Question("address (du, Sie)", "1 to 3", "Deixis", "deixis"),
    Question("word choice", "1 to 3", "Lex co.", "lex_cohesion"),
    Question("elided verb", "1 to 3", "Ell. vp", "ellipsis_vp"),
)


class DemoResults(JsonResult):
    """What `focat demo --json` writes; all by system."""

    seeds: dict[str, int]
    training: dict[str, StepResult]
    accuracy: dict[str, dict[str, dict[str, float]]]
    """By question and distance."""
    significance: ComparisonResults
    translations: dict[str, dict[str, dict[str, float]]]
    """By kind of target context and phenomenon: how often the translation agrees with the context, in per cent."""
    bleu: dict[str, dict[str, float]]
    """By kind of target context."""
    report: str


def run_demo(
    folder: Path, overrides: Sequence[str], progress: Progress, console: Console
) -> tuple[SessionOutcome, DemoResults | None]:
    """Run the plan `demo`, print its tables and write its page; no results if it was interrupted.

    Its systems train at the same time. They are so small that one thread each uses the cores better than all threads
    for one after the other, most of all where other programs compute too.
    """
    jobs = len(load_plan("demo", overrides).plan.systems)
    session, _, _ = reproduce("demo", folder, overrides, progress, jobs=jobs, page=False)
    if session.failures:
        raise FocatError("; ".join(f"{system}: {reason}" for system, reason in session.failures.items()))
    if session.exit_code:
        progress.log("not finished; the same command goes on from here")
        return session, None
    experiment = Experiment(load_plan("demo", overrides), folder, NULL_PROGRESS)
    systems, titles = (
        first_seeds(experiment),
        {name: experiment.plan.title_of(name) for name in experiment.plan.systems},
    )
    finished = finished_results(experiment)
    comparison = _compare_answers(PlanResults(experiment.plan, finished), systems)
    training = [tasks.training for tasks in systems.values()]
    progress.log("")
    results = DemoResults(
        seeds={name: tasks.seed for name, tasks in systems.items()},
        training={one.step.system: one for one in finished if one.step in training},
        accuracy=_accuracies(comparison),
        significance=comparison.results(),
        translations={name: _judge_translations(experiment, tasks, progress) for name, tasks in systems.items()},
        bleu={name: _bleu(finished, tasks) for name, tasks in systems.items()},
        report=str(folder / "report.html"),
    )
    document = _most_different_document(systems)
    write_report(
        [f"{titles[name]}={tasks.run_folder}" for name, tasks in systems.items()],
        folder / "report.html",
        examples=[] if document is None else [document.example(titles)],
        suites=[experiment.suite(name) for name in experiment.plan.suites],
        overwrite=True,
        command="focat demo",
        progress=progress,
    )
    chance = {name: experiment.suite(name).chance for name in experiment.plan.suites}
    tables = [_training_table(results, titles), _answer_table(comparison, chance, titles)]
    tables += [_translation_table(results, titles), *([] if document is None else [document.table(titles)])]
    for table in tables:
        console.print("")
        print_table(table, console)
    console.print("")
    print_lines(_next_steps(results, titles, list(systems.values())[-1].run_folder), console)
    return session, results


# ------------------------------------------------------------------------------------------------ figures


def _compare_answers(found: PlanResults, systems: Mapping[str, SystemTasks]) -> Comparison:
    """Compare the answers of every system to each question with those of the first."""
    scored = score_systems(found, "current-sum").systems
    compared = []
    for name, tasks in systems.items():
        columns = scored[name, tasks.seed].scores
        named = {q.name: replace(columns[q.column], name=q.name) for q in QUESTIONS if q.column in columns}
        compared.append(SystemScores(name, named | {"Disc.": columns["Disc."]}))
    return compare(compared, NULL_PROGRESS)


def _accuracies(comparison: Comparison) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = {}
    for system in comparison.systems:
        of_system = found.setdefault(system.name, {})
        for q in QUESTIONS:
            if q.name in system.scores:
                of_system.setdefault(q.about, {})[q.distance] = system.scores[q.name].value
        of_system["all that context decides"] = {"1 to 3": system.scores["Disc."].value}
    return found


def _judge_translations(experiment: Experiment, tasks: SystemTasks, progress: Progress) -> dict[str, dict[str, float]]:
    """By kind of target context: how often translations agree with the source context, in per cent."""
    model = load(tasks.run_folder, tasks.planned.training.device)
    found: dict[str, dict[str, float]] = {}
    for context in ("reuse", "regenerate") if tasks.planned.windows.size > 1 else ("reuse",):
        for suite, about in _JUDGED_SUITES.items():
            instances = [one for one in experiment.suite(suite).instances if one.distance][:_JUDGED]
            right = 0
            with progress.bar(f"{tasks.system}: {about}, {context}", "documents", len(instances)) as bar:
                documents = model.stream([instance.source for instance in instances], context=context)
                for instance, translations in zip(instances, documents, strict=True):
                    right += judge(translations[-1].text, instance) == "right"
                    bar.advance()
            found.setdefault(context, {})[about] = 100 * right / len(instances)
    return found


def _bleu(finished: Sequence[StepResult], tasks: SystemTasks) -> dict[str, float]:
    own = [one for one in finished if (one.step.system, one.step.seed) == (tasks.system, tasks.seed)]
    return {one.step.context: one.result.figures["BLEU"].score for one in own if isinstance(one.result, EvaluateResult)}


# ------------------------------------------------------------------------------------------------ one document


@dataclass(frozen=True)
class DemoDocument:
    """A document of the test split, which translations each sentence may have without context, and those of systems."""

    title: str
    source: list[str]
    reference: list[str]
    possible: list[list[str]]
    translations: dict[str, list[str]]

    def example(self, titles: Mapping[str, str]) -> Translated:
        """The document for the page."""
        translations = {titles[name]: sentences for name, sentences in self.translations.items()}
        return Translated(self.title, self.source, translations, self.reference)

    def table(self, titles: Mapping[str, str]) -> Table:
        """The document side by side, with the words marked that only context could decide."""
        rows = []
        for i, source in enumerate(self.source):
            marked = [self._marked(sentences[i], i) for sentences in self.translations.values()]
            rows.append(row(source, *marked))
        note = "✓ and ✗: words that only the sentences before could decide, right or wrong"
        columns = ("source", *(titles[name] for name in self.translations))
        return Table(self.title, columns, rows, (note,), labels=len(columns))

    def _marked(self, translation: str, sentence: int) -> Text:
        candidates = [{w for w in _words(possible) if w[0].isalnum()} for possible in self.possible[sentence]]
        decisive = {word for words in candidates for word in words if not all(word in others for others in candidates)}
        right = set(_words(self.reference[sentence]))
        marked = Text()
        for shown, word in zip(re.findall(r"\w+|\W+", translation), _words(translation), strict=True):
            correct = word in right
            if word in decisive:
                marked.append(shown + "✗✓"[correct], "bold green" if correct else "bold red")
            else:
                marked.append(shown)
        return marked


def _words(text: str) -> list[str]:
    """The words and what is between them; the first in lower case, because any first word is capitalised."""
    return [part.lower() if i == 0 else part for i, part in enumerate(re.findall(r"\w+|\W+", text))]


def _most_different_document(systems: Mapping[str, SystemTasks]) -> DemoDocument | None:
    """The document in which the first and the last system differ most often where only context decides."""
    first, *_, last = systems
    corpus = next(iter(systems[first].planned.data.test), None)
    if not isinstance(corpus, GeneratedCorpus):
        return None
    translations = {name: _translations(systems[name]) for name in (first, last)}
    documents = [possible_translations(corpus.seed, index) for index in range(corpus.documents)]
    differences = [
        sum(one != other for (_, possible), one, other in zip(*three, strict=True) if len(possible) > 1)
        for three in zip(documents, *translations.values(), strict=True)
    ]
    chosen = differences.index(max(differences))
    pairs = [pair for pair, _ in documents[chosen]]
    return DemoDocument(
        f"Document {chosen + 1} of the test split: of {len(documents)}, the one about which they differ most",
        [pair.source for pair in pairs],
        [pair.target for pair in pairs],
        [possible for _, possible in documents[chosen]],
        {name: of_system[chosen] for name, of_system in translations.items()},
    )


def _translations(tasks: SystemTasks) -> list[list[str]]:
    """The translations of the test split that were evaluated."""
    step = next(step for step in tasks.steps() if step.kind == "evaluate")
    return EvaluationResults.model_validate_json(tasks.details(step).read_bytes()).translations


# ------------------------------------------------------------------------------------------------ tables


def _training_table(results: DemoResults, titles: Mapping[str, str]) -> Table:
    rows = []
    for name, found in results.training.items():
        assert isinstance(found.result, TrainResult)
        window, seconds = found.result.window, 60 * found.provenance.minutes
        sees = "one sentence" if window == 1 else f"{window} sentences"
        figures = (f"{found.result.discount:g}", f"{found.result.updates:,}", f"{seconds:.0f}", f"{found.step.seed}")
        rows.append(row(titles[name], sees, *figures))
    note = f"on {next(iter(results.training.values())).provenance.hardware}"
    return Table("Training", ("system", "sees", "discount", "updates", "seconds", "seed"), rows, (note,), labels=2)


def _answer_table(comparison: Comparison, chance: Mapping[str, float], titles: Mapping[str, str]) -> Table:
    stars = {(finding.system, finding.column): finding.stars for finding in comparison.findings}
    rows = []
    for q in QUESTIONS:
        if q.name in comparison.names:
            scores = {system.name: system.scores[q.name].value for system in comparison.systems}
            cells = [Cell(f"{score:.1f}", stars=stars.get((name, q.name), "")) for name, score in scores.items()]
            rows.append(row(q.about, q.distance, f"{100 * chance[q.suite]:.0f}", *cells))
    first = titles[comparison.systems[0].name]
    note = f"differs from {first}: * p < 0.05, ** p < 0.01 (McNemar's test, corrected by Holm)"
    columns = ("phenomenon", "sentences back", "chance", *(titles[s.name] for s in comparison.systems))
    return Table("Right answers, %", columns, rows, (note,), labels=2)


def _translation_table(results: DemoResults, titles: Mapping[str, str]) -> Table:
    rows = []
    for name, contexts in results.translations.items():
        for context, shares in contexts.items():
            shown = context if len(contexts) > 1 else "none"
            rows.append(
                row(titles[name], shown, *(f"{s:.1f}" for s in (*shares.values(), results.bleu[name][context])))
            )
    note = "reuse: after its earlier translations; regenerate: all of the window anew, as in the paper"
    columns = ("system", "target context", *(f"{about} right, %" for about in _JUDGED_SUITES.values()), "BLEU")
    return Table("In its own translations", columns, rows, (note,), labels=2)


def _next_steps(results: DemoResults, titles: Mapping[str, str], last: Path) -> list[str]:
    minutes = max(found.provenance.minutes for found in results.training.values())
    disc = {titles[name]: found["all that context decides"]["1 to 3"] for name, found in results.accuracy.items()}
    shares = ", ".join(f"{title} {share:.0f} %" for title, share in disc.items())
    return [
        f"What happened: {len(disc)} systems were trained at the same time in {minutes:.1f} minutes; "
        f"right where only context decides: {shares}",
        f"Look closer:   open {results.report}; translate with: focat translate {last} FILE "
        "(it knows only the words of its corpus)",
        "Your own data: two text files, one sentence per line, a blank line between documents; "
        "docs/tutorial.md goes on from there",
    ]
