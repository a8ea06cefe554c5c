"""`focat evaluate`: metrics of translations against references, on lines of sentences, fragments and documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from focat._version import __version__
from focat.corpus.text_files import Lines, is_blank, parallel_lines
from focat.errors import FocatError
from focat.evaluation import comet
from focat.evaluation.line_statistics import shared_line_statistics
from focat.evaluation.metrics import Documents, MetricScore, lines_of, measure
from focat.evaluation.results import (
    EVALUATION_KIND,
    EvaluationFigure,
    EvaluationResults,
    Level,
    Metric,
    ReferenceResult,
    TranslationSetup,
)
from focat.files import digest_of, write_atomic
from focat.progress import Progress

LEVELS: tuple[Level, ...] = ("sentence", "fragment", "document")


@dataclass(frozen=True)
class Texts:
    """Translated documents beside their references, and their sources if these are known."""

    hypotheses: Documents
    references: Documents
    sources: Documents | None = None

    @property
    def sentences(self) -> int:
        """The number of sentences."""
        return sum(map(len, self.references))


@dataclass(frozen=True)
class MetricConfig:
    """Which metrics to compute, and how."""

    metrics: Sequence[Metric]
    fragment: int | None = None
    """Sentences per line, beside lines of one sentence and of one document."""
    lowercase: bool = False
    tokenize: str | None = None
    comet_model: str = comet.DEFAULT_MODEL
    comet_context: int = 0
    """Context sentences of doc-COMET; 0 leaves it out."""

    def check(self, has_source: bool) -> None:
        """Raise an error, before any work is done, if COMET cannot be computed."""
        if "COMET" in self.metrics:
            if not has_source:
                raise FocatError("COMET reads the source too; give it, or leave COMET out")
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


def evaluate(texts: Texts, config: MetricConfig, progress: Progress) -> list[MetricScore]:
    """Compute all scores: sacrebleu's metrics on each level (TER not on documents: it is too slow), then COMET."""
    scores = []
    reference = reference_digest(texts.references)
    asked = [
        (metric, level)
        for metric in config.metrics
        for level in LEVELS
        if metric != "COMET"
        and (level != "fragment" or config.fragment is not None)
        and (level != "document" or metric != "TER")
    ]
    with shared_line_statistics(texts.sentences if asked else 0) as statistics_of:
        for metric, level in asked:
            with progress.bar(f"{metric} of {level}s"):
                hypotheses, references = (
                    lines_of(side, level, config.fragment) for side in (texts.hypotheses, texts.references)
                )
                how = config.lowercase, config.tokenize, config.fragment
                scores.append(measure(metric, level, hypotheses, references, *how, reference, statistics_of))
    if "COMET" in config.metrics:
        assert texts.sources is not None, "MetricConfig.check requires it"
        contexts = (0, config.comet_context) if config.comet_context else (0,)
        documents = texts.sources, texts.hypotheses, texts.references
        scores += comet.comet(*documents, progress, config.comet_model, contexts, reference_sha256=reference)
    return scores


def evaluation_results(
    system: str, texts: Texts, scores: Sequence[MetricScore], translated: TranslationSetup | None = None
) -> EvaluationResults:
    """Return all results of an evaluation; `translated` is how the translations were made, if that is known."""
    return EvaluationResults(
        kind=EVALUATION_KIND,
        focat=__version__,
        system=system,
        translated=translated,
        reference=ReferenceResult(
            sha256=reference_digest(texts.references), sentences=texts.sentences, documents=len(texts.references)
        ),
        figures=tuple(
            EvaluationFigure(
                name=score.name,
                metric=score.metric,
                level=score.level,
                score=score.value,
                interval=score.interval(),
                signature=score.signature,
                statistics=[[int(n) if n == int(n) else n for n in line] for line in score.statistics.tolist()],
            )
            for score in scores
        ),
        translations=[list(document) for document in texts.hypotheses],
    )


def write_translations(path: Path, documents: Documents) -> None:
    """Write a sentence per line, with a blank line between documents."""
    write_atomic(path, "\n\n".join("\n".join(document) for document in documents) + "\n")


def reference_digest(references: Documents) -> str:
    """Return the digest by which evaluations against the same references, in the same documents, are known."""
    return digest_of([list(document) for document in references])
