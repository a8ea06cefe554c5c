"""`focat demo`: the whole job on the generated corpus, in minutes on two cores, with real training and real figures.

A system that sees one sentence at a time and a focused one are trained on the same documents, and asked the questions
that only context can answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from focat.config import load_settings
from focat.corpus.generated import PHENOMENA, contrapro_suite, voita_suite
from focat.corpus.prepare import prepare
from focat.evaluation.contrastive import accuracy_by_distance, contrast
from focat.evaluation.suites import Instance, contrapro_instances, voita_instances
from focat.progress import Progress
from focat.training.run import Run
from focat.training.trainer import train

SYSTEMS = {  # what differs from the recipe; both see about as many current sentences
    "base": ["windows.before=0", "objective.discount=1", "model.shift=0", "training.budget.updates=400"],
    "focused": [],
}
_INSTANCES = 300  # of each suite
_SUITE_SEED = 1000  # not the seed of any document that is trained on


@dataclass(frozen=True)
class Question:
    """What a suite asks, and how often chance would be right."""

    name: str
    instances: list[Instance]

    @property
    def chance(self) -> float:
        """The share of right answers of someone who guesses."""
        return sum(1 / len(instance.candidates) for instance in self.instances) / len(self.instances)


def questions(instances: int = _INSTANCES, seed: int = _SUITE_SEED) -> list[Question]:
    """The suites of the generated corpus."""
    entries, *context = contrapro_suite(instances, seed)
    pronouns = Question("pronoun (er, sie, es)", contrapro_instances(entries, (context[0], context[1])))
    names = {"deixis": "address (du, Sie)", "lex_cohesion": "word choice", "ellipsis_vp": "elided verb"}
    return [pronouns, *(Question(names[p], voita_instances(voita_suite(p, instances, seed))) for p in PHENOMENA)]


def run_demo(folder: Path, overrides: list[str], progress: Progress, console: Console) -> dict[str, Any]:
    """Prepare, train both systems, ask them; returns the figures that are printed."""
    recipe, store = Path("focat:demo"), f"data.store={folder}/store"
    prepare(load_settings(recipe, [store, *overrides]).data, progress)
    asked = questions()
    accuracy: dict[str, dict[str, dict[int | None, float]]] = {}
    for system, differences in SYSTEMS.items():
        settings = load_settings(recipe, [store, *differences, f"training.run={folder}/{system}", *overrides])
        progress.say(f"\n{system}: windows of {settings.windows.size}")
        train(settings, progress)
        run = Run.open(settings.training.run)
        model, tokenizer = run.load_model(), run.tokenizer
        accuracy[system] = {
            question.name: accuracy_by_distance(
                question.instances, contrast(model, tokenizer, question.instances, settings.windows)
            )
            for question in asked
        }
    _show(asked, accuracy, console)
    console.print(
        "\nThe base system sees one sentence at a time, and can only guess. The focused one sees four.\n"
        f"Look at what they saw:  focat inspect {folder}/store\n"
        "Use your own documents: docs/formats.md, then focat prepare and focat train",
        soft_wrap=True,
    )
    return {"accuracy": {s: {q: _by_text(a) for q, a in found.items()} for s, found in accuracy.items()}}


def _show(asked: list[Question], accuracy: dict[str, dict[str, dict[int | None, float]]], console: Console) -> None:
    table = Table("only context decides", "sentences back", "chance", *SYSTEMS, title="Right answers, %")
    for question in asked:
        for distance in accuracy["base"][question.name]:
            found = (accuracy[system][question.name][distance] for system in SYSTEMS)
            table.add_row(
                question.name,
                "same sentence" if distance == 0 else str(distance),
                f"{100 * question.chance:.0f}",
                *(f"{100 * share:.1f}" for share in found),
            )
    console.print("", table)


def _by_text(accuracy: dict[int | None, float]) -> dict[str, float]:
    return {str(distance): share for distance, share in accuracy.items()}
