"""BLEU, chrF and TER of translated documents through sacrebleu, on lines of one sentence, a few, or a whole document.

What each line contributes is kept, so that systems can be compared later without their translations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from focat.errors import FocatError, ParameterError
from focat.evaluation.line_statistics import MetricRequest, StatisticsSource, line_statistics
from focat.evaluation.results import Level, Metric
from focat.evaluation.scores import Score
from focat.evaluation.significance import Floats, Formula, mean_formula

Documents = Sequence[Sequence[str]]
"""Texts as documents of sentences."""

_PREFIX: dict[Level, str] = {"sentence": "", "fragment": "f-", "document": "d-"}


@dataclass(frozen=True, kw_only=True)
class MetricScore(Score):
    """The score of a metric on lines of some level: BLEU on sentences, f-BLEU on fragments, d-BLEU on documents."""

    metric: Metric
    level: Level


def metric_score(
    metric: Metric, level: Level, signature: str, statistics: Floats, reference_sha256: str = ""
) -> MetricScore:
    """Return the score of a metric from what each line contributes, (lines, statistics of the metric)."""
    return MetricScore(
        _PREFIX[level] + metric,
        "mean" if metric == "COMET" else "corpus",
        statistics,
        _formula(metric),
        population=f"references {reference_sha256[:12]}, {len(statistics)} lines",
        signature=signature,
        higher_is_better=metric != "TER",  # it counts errors
        digits=4 if metric == "COMET" else 2,
        metric=metric,
        level=level,
    )


def lines_of(documents: Documents, level: Level, fragment: int | None = None) -> list[str]:
    """Return the lines to score: single sentences, `fragment` consecutive sentences of a document, or documents."""
    if level == "sentence":
        return [sentence for document in documents for sentence in document]
    joined = [document for document in documents if document]
    if level == "fragment":
        joined = [part for document in joined for part in _fragments(document, fragment or 1)]
    return [" ".join(sentence for sentence in sentences if sentence) for sentences in joined]


def measure(
    metric: Metric,
    level: Level,
    hypotheses: Sequence[str],
    references: Sequence[str],
    lowercase: bool = False,
    tokenize: str | None = None,
    fragment: int | None = None,
    reference_sha256: str = "",
    statistics_of: StatisticsSource = line_statistics,
) -> MetricScore:
    """Compute a metric of sacrebleu's on lines of text.

    Args:
        metric: any but COMET, which has a module of its own.
        level: what a line is, for the name of the score.
        hypotheses: translations, one per line.
        references: one per line.
        lowercase: whether to lower-case both sides, as in the paper's En→Ru.
        tokenize: sacrebleu's tokenizer, for BLEU.
        fragment: sentences per line, for the signature.
        reference_sha256: digest of the reference documents, by which comparable scores are known.
        statistics_of: computes what each line contributes; `shared_line_statistics` does in several processes.
    """
    statistics, signature = statistics_of(MetricRequest(metric, hypotheses, references, lowercase, tokenize))
    signature += f"|sentences:{fragment}" if level == "fragment" else ""
    return metric_score(metric, level, signature, np.array(statistics, np.float64), reference_sha256)


def parse_metrics(text: str) -> list[Metric]:
    """Return the metrics that a comma-separated list names, in any case."""
    known: dict[str, Metric] = {name.lower(): name for name in get_args(Metric)}
    names = list(filter(None, (part.strip().lower() for part in text.split(","))))
    for name in names:
        if name not in known:
            raise ParameterError("metrics", name, f"there is no such metric; choose from {', '.join(known)}")
    if not names:
        raise ParameterError("metrics", text, f"is empty; choose from {', '.join(known)}")
    return list(dict.fromkeys(known[name] for name in names))


def check_tokenize(tokenize: str | None) -> None:
    """Raise an error, before any work is done, if sacrebleu does not have this tokenizer or cannot load it."""
    if tokenize is None:
        return
    if tokenize not in BLEU.TOKENIZERS:
        raise FocatError(f"tokenize: sacrebleu has no {tokenize}; choose from {', '.join(sorted(BLEU.TOKENIZERS))}")
    try:
        BLEU(tokenize=tokenize)
    except Exception as error:
        raise FocatError(f"tokenize = {tokenize}: {' '.join(str(error).split())}") from None


def _formula(metric: Metric) -> Formula:
    """Return sacrebleu's formula from sums over lines to the score, for many corpora at once."""
    match metric:
        case "BLEU":
            return _bleu
        case "chrF" | "chrF++":
            return _chrf
        case "TER":
            return _ter
        case "COMET":
            return mean_formula


def _bleu(sums: Floats) -> Floats:
    """Columns: length, reference length, matches of order 1 to 4, n-grams of order 1 to 4."""
    length, reference = sums[:, 0], sums[:, 1]
    matches, ngrams = sums[:, 2:6], sums[:, 6:10]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        unmatched = np.cumsum((matches == 0) & (ngrams > 0), axis=1)
        smoothed = np.where(matches > 0, matches, 0.5**unmatched)  # smoothing `exp`: halved at each order without match
        precisions = np.where(ngrams > 0, smoothed / ngrams, 0)
        brevity = np.where(length < reference, np.exp(1 - reference / length), 1)
        scores = 100 * brevity * np.exp(np.log(precisions).mean(1))
    return np.where(matches.any(1) & (length > 0), scores, 0)


def _chrf(sums: Floats, beta: int = 2) -> Floats:
    """Columns: for each order, n-grams of the hypothesis, of the reference, and matches."""
    hypothesis, reference, matches = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]  # (samples, orders)
    there = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(there.sum(1), 1)
    precision, recall = (
        np.divide(matches, count, out=np.zeros_like(matches), where=there).sum(1) / orders
        for count in (hypothesis, reference)
    )
    below = beta**2 * precision + recall
    scores: Floats = np.divide(
        100 * (1 + beta**2) * precision * recall, below, out=np.zeros_like(below), where=below > 0
    )
    return scores


def _ter(sums: Floats) -> Floats:
    """Columns: edits, reference length."""
    edits, length = sums[:, 0], sums[:, 1]
    nothing_to_match = (edits > 0).astype(np.float64)
    return 100 * np.divide(edits, length, out=nothing_to_match, where=length > 0)


def _fragments(document: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (document[start : start + size] for start in range(0, len(document), size))
