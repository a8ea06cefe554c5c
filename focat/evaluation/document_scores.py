"""Scores of a user's own translations, each sentence in the context of its document: `focat score`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from focat.choices import Precision, ScoreFormat
from focat.config.schema import WindowSettings
from focat.corpus.text_files import Lines, is_blank, parallel_lines
from focat.corpus.tokenizer import Tokenizer
from focat.errors import FocatError
from focat.evaluation.results import ScoreResults
from focat.evaluation.scoring import autocast, token_scores
from focat.model.transformer import Transformer
from focat.progress import NULL_PROGRESS, Progress
from focat.windows.batch import Batch
from focat.windows.builder import WindowSpan, cut_window, join_window, pad_windows

_BATCH_TOKENS = {"cpu": 4096, "cuda": 65_536}
_CHARACTERS = 3  # per token, roughly
_LEAST = -700  # log-probability of a token, on average; that of an untrained model is -12, and e ** 710 overflows


@dataclass(frozen=True)
class SentenceScore:
    """The log-probability of a translation, given its source and the context of both."""

    source: str
    target: str
    tokens: tuple[str, ...]
    """Tokens of the target; the last is `<E>`, or `<S>` where the target window goes on."""
    token_scores: tuple[float, ...]
    """Log-probability of each."""
    document: int = 0
    line: int = 0
    shortened: bool = False
    """Whether context was dropped because the window was too long."""

    @property
    def log_probability(self) -> float:
        """The log-probability of the sentence."""
        return math.fsum(self.token_scores)

    @property
    def mean(self) -> float:
        """The mean log-probability per token."""
        return self.log_probability / len(self.token_scores)


@dataclass(frozen=True)
class AlignedSentence:
    """A sentence and its translation, with the number of their line."""

    source: str
    target: str
    line: int


def read_pairs(source: Path, target: Path) -> list[list[AlignedSentence]]:
    """Read the documents of two parallel files; a blank line on both sides ends a document."""
    files = Lines(source), Lines(target)
    documents: list[list[AlignedSentence]] = [[]]
    for one, other in parallel_lines(*files):
        if is_blank(one) != is_blank(other):
            blank, text = files if is_blank(one) else files[::-1]
            raise FocatError(
                f"{blank.path}, line {blank.number}: is blank, but {text.path} has a sentence there; "
                "blank lines stand between documents, on both sides"
            )
        if is_blank(one):
            documents.append([])
        else:
            documents[-1].append(AlignedSentence(one, other, files[0].number))
    documents = [document for document in documents if document]
    if not documents:
        raise FocatError(f"{source}: holds no sentence")
    return documents


def score_documents(
    models: Sequence[Transformer],
    tokenizer: Tokenizer,
    documents: Sequence[Sequence[AlignedSentence]],
    windows: WindowSettings,
    precision: Precision = "float32",
    progress: Progress = NULL_PROGRESS,
) -> list[list[SentenceScore]]:
    """Score each translation after the given translations of its context, by the mean probability of all models."""
    flat = [(d, i) for d, document in enumerate(documents) for i in range(len(document))]
    cut = [window for document in documents for window in _windows(document, windows, tokenizer)]
    found: dict[int, SentenceScore] = {}
    order = sorted(range(len(flat)), key=lambda n: cut[n].target_characters, reverse=True)
    device = models[0].output_weight.device
    with progress.bar("scoring", "sentences", len(flat)) as bar:
        for some in _batches(order, cut, _BATCH_TOKENS.get(device.type, 4096)):
            batch = _batch([cut[n] for n in some]).to(str(device))
            with autocast(precision, device):
                scores = torch.stack([token_scores(model, batch.source, batch.target) for model in models])
            averaged = (scores.double().logsumexp(0) - math.log(len(models))).cpu()  # (windows, length)
            tokens, current = batch.target.tokens.cpu(), (batch.target.segments == batch.target.current[:, None]).cpu()
            for row, n in enumerate(some):
                d, i = flat[n]
                pair, mine = documents[d][i], current[row]
                pieces = tuple(tokenizer.target.piece(token) for token in tokens[row][mine].tolist())
                own = tuple(averaged[row][mine].tolist())
                found[n] = SentenceScore(pair.source, pair.target, pieces, own, d, pair.line, cut[n].span.dropped > 0)
            bar.advance(len(some))
    scored = iter(found[n] for n in range(len(flat)))
    return [[next(scored) for _ in document] for document in documents]


def score_lines(scored: Sequence[Sequence[SentenceScore]], style: ScoreFormat) -> Iterator[str]:
    """Return a line for each sentence: columns between tabs, or JSON with the score of every token."""
    if style == "tsv":
        yield "line\tdocument\tlog_probability\tmean\ttokens\tsource\ttarget"
    for score in (score for document in scored for score in document):
        if style == "jsonl":
            yield json.dumps(
                {
                    "line": score.line,
                    "document": score.document,
                    "source": score.source,
                    "target": score.target,
                    "log_probability": score.log_probability,
                    "mean": score.mean,
                    "tokens": list(zip(score.tokens, score.token_scores, strict=True)),
                },
                ensure_ascii=False,
            )
        else:
            numbers = f"{score.line}\t{score.document}\t{score.log_probability:.4f}\t{score.mean:.4f}"
            texts = "\t".join(text.replace("\t", " ") for text in (score.source, score.target))
            yield f"{numbers}\t{len(score.tokens)}\t{texts}"


def score_results(scored: Sequence[Sequence[SentenceScore]], signature: str) -> ScoreResults:
    """Return the figures over all sentences."""
    flat = [score for document in scored for score in document]
    total, tokens = math.fsum(score.log_probability for score in flat), sum(len(score.tokens) for score in flat)
    if not total / tokens > _LEAST:
        raise FocatError(
            f"the log-probabilities of a token are {total / tokens:.3g} on average: the model's weights must be damaged"
        )
    return ScoreResults(
        documents=len(scored),
        sentences=len(flat),
        tokens=tokens,
        log_probability=total,
        per_sentence=total / len(flat),
        per_token=total / tokens,
        perplexity=math.exp(-total / tokens),
        shortened=sum(score.shortened for score in flat),
        signature=signature,
    )


@dataclass(frozen=True)
class _Window:
    """The window of one sentence, as training would cut it."""

    span: WindowSpan
    source: list[list[int]]  # tokens of each sentence
    target: list[list[int]]
    source_characters: int
    target_characters: int


def _windows(document: Sequence[AlignedSentence], settings: WindowSettings, tokenizer: Tokenizer) -> Iterator[_Window]:
    """One window for each sentence of a document."""
    source = [tokenizer.source.encode(pair.source) for pair in document]
    target = [tokenizer.target.encode(pair.target) for pair in document]
    source_lengths, target_lengths = [len(ids) for ids in source], [len(ids) for ids in target]
    for i in range(len(document)):
        span = cut_window(source_lengths, target_lengths, i, settings)
        yield _Window(
            span,
            [source[j] for j in span.source],
            [target[j] for j in span.target],
            sum(len(document[j].source) for j in span.source),
            sum(len(document[j].target) for j in span.target),
        )


def _batches(order: Sequence[int], cut: Sequence[_Window], budget: int) -> Iterator[list[int]]:
    """Group windows in this order, longest first, within a budget of tokens; lengths are estimated from characters."""
    batch: list[int] = []
    longest = 1
    for n in order:
        length = max(cut[n].source_characters, cut[n].target_characters) // _CHARACTERS
        if batch and (len(batch) + 1) * max(longest, length) > budget:
            yield batch
            batch, longest = [], 1
        batch.append(n)
        longest = max(longest, length)
    if batch:
        yield batch


def _batch(windows: Sequence[_Window]) -> Batch:
    return Batch(
        pad_windows([join_window(each.source) for each in windows], [each.span.source_current for each in windows]),
        pad_windows([join_window(each.target) for each in windows], [each.span.target_current for each in windows]),
        torch.arange(len(windows)),
    )
