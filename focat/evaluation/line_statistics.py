"""What each line contributes to BLEU, chrF and TER, by sacrebleu: here, or in several processes.

sacrebleu is written in Python, and TER of a test set takes seconds. Each process gets every n-th line:

    python -m focat.evaluation.line_statistics     answers requests, a line of JSON each, until there are no more
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from focat.errors import FocatError
from focat.hardware import cores

if TYPE_CHECKING:  # not in the processes, which would wait for it
    from focat.evaluation.results import Metric

_SENTENCES = 500  # for each of which a process is worth its start


@dataclass(frozen=True)
class MetricRequest:
    """A metric, and the lines to compute it on."""

    metric: Metric
    hypotheses: Sequence[str]
    references: Sequence[str]
    lowercase: bool = False
    tokenize: str | None = None

    def part(self, first: int, step: int) -> MetricRequest:
        """Return a request for every `step`-th line."""
        hypotheses, references = self.hypotheses[first::step], self.references[first::step]
        return MetricRequest(self.metric, hypotheses, references, self.lowercase, self.tokenize)


LineStatistics = tuple[list[list[float]], str]
"""(lines, statistics of the metric), and sacrebleu's signature."""

StatisticsSource = Callable[[MetricRequest], LineStatistics]
"""Computes what each line of a request contributes."""


def line_statistics(request: MetricRequest) -> LineStatistics:
    """Compute what each line of a request contributes to its metric."""
    scorer = _scorer(request)
    # What sacrebleu's own tests work on; there is no public way to it.
    statistics = scorer._extract_corpus_statistics(request.hypotheses, [request.references])
    return statistics, str(scorer.get_signature())


@contextmanager
def shared_line_statistics(sentences: int) -> Iterator[StatisticsSource]:
    """Yield what computes line statistics of so many sentences, in as many processes as are worth it."""
    count = min(cores(), sentences // _SENTENCES)
    if count < 2:
        yield line_statistics
        return
    workers: list[subprocess.Popen[str]] = []
    try:
        workers += (_worker() for _ in range(count))
        yield lambda request: _ask(workers, request)
    finally:
        for worker in workers:
            worker.kill()
            with suppress(BrokenPipeError), worker:  # waits for it
                pass


def _worker() -> subprocess.Popen[str]:
    """Start a process that answers requests. However this process ends, its input does then, and so it does."""
    return subprocess.Popen(
        [sys.executable, "-m", "focat.evaluation.line_statistics"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,  # Ctrl-C is for this process, which then ends it
    )


def _ask(workers: Sequence[subprocess.Popen[str]], request: MetricRequest) -> LineStatistics:
    """Give each worker its lines, then take their answers."""
    asked = workers[: len(request.references)]
    try:
        for i, worker in enumerate(asked):
            assert worker.stdin is not None
            worker.stdin.write(json.dumps(asdict(request.part(i, len(asked)))) + "\n")
            worker.stdin.flush()
        answers = [json.loads(worker.stdout.readline()) for worker in asked if worker.stdout is not None]
    except (BrokenPipeError, json.JSONDecodeError):
        raise FocatError(
            f"{request.metric}: a process that computes it has ended; is there too little memory?"
        ) from None
    statistics: list[list[float]] = [[] for _ in request.references]
    for i, (part, _) in enumerate(answers):
        statistics[i :: len(asked)] = part
    return statistics, answers[0][1]


def _scorer(request: MetricRequest) -> SacrebleuMetric:
    match request.metric:
        case "BLEU":
            return BLEU(lowercase=request.lowercase, tokenize=request.tokenize, force=True)
        case "chrF" | "chrF++":
            return CHRF(word_order=2 if request.metric == "chrF++" else 0, lowercase=request.lowercase)
        case "TER":
            return TER()  # not case-sensitive, as by default in sacrebleu
        case "COMET":
            raise ValueError("COMET has a module of its own")


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(line_statistics(MetricRequest(**json.loads(line)))), flush=True)
