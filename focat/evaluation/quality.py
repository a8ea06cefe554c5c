"""`focat evaluate`: how good translations are, on lines of sentences and of documents, and what each line contributes.

What it writes as JSON holds the translations and their statistics: all that `focat compare` needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from focat._version import __version__
from focat.corpus.text_files import Lines, is_blank, parallel_lines
from focat.errors import FocatError
from focat.evaluation import comet
from focat.evaluation.metrics import Documents, Figure, Level, Metric, lines_of, measure
from focat.files import digest_of, write_atomic
from focat.progress import Progress

KIND = "focat evaluation"  # how a file of ours is known
_LEVELS: tuple[Level, ...] = ("sentence", "fragment", "document")


@dataclass(frozen=True)
class Texts:
    """Translated documents beside their references, and their sources if these are known."""

    hypotheses: Documents
    references: Documents
    sources: Documents | None = None

    @property
    def sentences(self) -> int:
        """How many there are in all."""
        return sum(map(len, self.references))


@dataclass(frozen=True)
class Measures:
    """What to measure, and on which text."""

    metrics: Sequence[Metric]
    fragment: int | None = None
    """Sentences to a line, beside lines of one sentence and of one document."""
    lowercase: bool = False
    tokenize: str | None = None
    comet_model: str = comet.DEFAULT_MODEL
    comet_context: int = 0
    """Sentences that doc-COMET reads along; 0 leaves it out."""

    def check(self, has_source: bool) -> None:
        """Find what is missing before any work is done."""
        if "COMET" in self.metrics:
            if not has_source:
                raise FocatError("COMET reads the source too; use `focat evaluate` with --source, or leave it out")
            comet.python()


def read_texts(hypothesis: Path, reference: Path, source: Path | None = None, documents: Path | None = None) -> Texts:
    """Files that correspond line for line. A blank line of the reference ends a document, unless a file names them.

    A blank line among the hypotheses is an empty translation, which happens.
    """
    files = {"hypothesis": Lines(hypothesis), "reference": Lines(reference)}
    if source is not None:
        files["source"] = Lines(source)
    if documents is not None:
        files["document"] = Lines(documents)
    found: dict[str, list[list[str]]] = {side: [] for side in files}
    before: str | None = None  # the document of the line before; None between documents
    for lines in parallel_lines(*files.values()):
        line = dict(zip(files, lines, strict=True))
        if documents is None and is_blank(line["reference"]):
            for side, text in line.items():
                if not is_blank(text):
                    raise files[side].error(
                        f"not blank, but the same line of {reference} is, which ends a document there"
                    )
            before = None
            continue
        name = line.get("document", "")
        if before is None or name != before:
            for side in files:
                found[side].append([])
        before = name
        for side, text in line.items():
            found[side][-1].append(text.strip())
    if not found["reference"]:
        raise FocatError(f"{reference}: not a single sentence; is this the right file?")
    return Texts(found["hypothesis"], found["reference"], found.get("source"))


def evaluate(texts: Texts, measures: Measures, progress: Progress) -> list[Figure]:
    """All figures: sacrebleu's on each kind of line (TER not on documents, for which it is too slow), then COMET."""
    figures = []
    for metric in measures.metrics:
        if metric == "COMET":
            continue
        for level in _LEVELS:
            if (level == "fragment" and measures.fragment is None) or (level == "document" and metric == "TER"):
                continue
            with progress.bar(f"{metric} of {level}s"):
                hypotheses, references = (
                    lines_of(side, level, measures.fragment) for side in (texts.hypotheses, texts.references)
                )
                figures.append(
                    measure(
                        metric, level, hypotheses, references, measures.lowercase, measures.tokenize, measures.fragment
                    )
                )
    if "COMET" in measures.metrics:
        assert texts.sources is not None, "Measures.check asks for it"
        contexts = (0, measures.comet_context) if measures.comet_context else (0,)
        figures += comet.comet(
            texts.sources, texts.hypotheses, texts.references, progress, measures.comet_model, contexts
        )
    return figures


def show_evaluation(system: str, texts: Texts, figures: Sequence[Figure], console: Console) -> None:
    """A table of the figures with their intervals, and the signature of each."""
    levels = [level for level in _LEVELS if any(figure.level == level for figure in figures)]
    title = f"{system}: {texts.sentences:,} sentences, {len(texts.references):,} documents"
    table = Table("", *(f"{level}s" for level in levels), title=title, caption="[with 95 % intervals, by bootstrap]")
    for metric in dict.fromkeys(figure.metric for figure in figures):
        cells = {figure.level: _cell(figure) for figure in figures if figure.metric == metric}
        table.add_row(metric, *(cells.get(level, "") for level in levels))
    console.print(table)
    for figure in figures:
        console.print(f"{figure.name} = {figure_text(figure.metric, figure.score)}  {figure.signature}", soft_wrap=True)


def figure_text(name: str, value: float, sign: str = "") -> str:
    """A number with as many digits as are usual for the figure of that name."""
    return f"{value:{sign}.{4 if name.endswith(('COMET', 'mean')) else 2}f}"


def evaluation_record(
    system: str, texts: Texts, figures: Sequence[Figure], made: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Everything about an evaluation, to be written as JSON; `made` is how the translations were, if that is known."""
    return {
        "kind": KIND,
        "focat": __version__,
        "system": system,
        "translated": made,
        "reference": {
            "sha256": reference_digest(texts.references),
            "sentences": texts.sentences,
            "documents": len(texts.references),
        },
        "figures": [
            {
                "name": figure.name,
                "metric": figure.metric,
                "level": figure.level,
                "score": figure.score,
                "interval": list(figure.interval()),
                "signature": figure.signature,
                "statistics": [[int(n) if n == int(n) else n for n in line] for line in figure.statistics.tolist()],
            }
            for figure in figures
        ],
        "translations": [list(document) for document in texts.hypotheses],
    }


def write_evaluation(path: Path, record: dict[str, Any]) -> None:
    """As readable JSON, with the numbers of a line on one line."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    # No text can look like this: a line feed inside a JSON string is written as \n.
    write_atomic(path, re.sub(r"\[\n[\s\d.,eE+-]+\]", lambda found: "".join(found[0].split()), text) + "\n")


def write_translations(path: Path, documents: Documents) -> None:
    """A sentence per line, a blank line between documents."""
    write_atomic(path, "\n\n".join("\n".join(document) for document in documents) + "\n")


def figures_of(record: dict[str, Any]) -> list[Figure]:
    """The figures that `evaluation_record` described."""
    return [
        Figure(figure["metric"], figure["level"], figure["signature"], np.array(figure["statistics"], np.float64))
        for figure in record["figures"]
    ]


def reference_digest(references: Documents) -> str:
    """By which two evaluations know that they had the same references, in the same documents."""
    return digest_of([list(document) for document in references])


def _cell(figure: Figure) -> str:
    low, high = figure.interval()
    score, *ends = (figure_text(figure.metric, value) for value in (figure.score, low, high))
    return f"{score} \\[{', '.join(ends)}]" if len(figure.statistics) > 1 else score
