"""focat from Python: everything the command line does is a call away.

model = focat.load("run")
model.translate(["Where is the cat?", "It is asleep."])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from focat._version import __version__
from focat.analysis.attention_map import AttentionMap, attention_map
from focat.choices import Precision, TargetContext
from focat.errors import FocatError
from focat.evaluation.document_scores import Pair, SentenceScore, score_documents
from focat.files import digest_of
from focat.progress import NULL_PROGRESS, Progress
from focat.run import TrainedSystem, load_system
from focat.translation.formats import OutputOptions
from focat.translation.jobs import STDOUT, Job, JobStats, run_job
from focat.translation.result import Translation
from focat.translation.translator import Translator


def load(run: str | Path | Sequence[str | Path], device: str = "auto", overrides: Sequence[str] = ()) -> Model:
    """Load a trained system, or several as an ensemble. Averaged weights are used where there are any.

    Args:
        run: a folder that `focat train` made, or several.
        device: auto, cpu, cuda or cuda:1.
        overrides: settings of decoding to use instead of those of the run, as in `decoding.beam=8`.

    Raises:
        FocatError: a folder holds no run, or the runs have different vocabularies.
    """
    return Model(load_system(run, device, overrides))


class Model:
    """A trained system, or several that decide together."""

    def __init__(self, system: TrainedSystem) -> None:
        self.system = system
        self.runs, self.models = system.runs, system.models
        self.settings, self.tokenizer = system.settings, system.tokenizer

    @overload
    def translate(self, text: str, **options: Any) -> str: ...
    @overload
    def translate(self, text: Sequence[str], **options: Any) -> list[str]: ...
    @overload
    def translate(self, text: Sequence[Sequence[str]], **options: Any) -> list[list[str]]: ...
    def translate(self, text: Any, **options: Any) -> Any:
        """A document, a list of its sentences: the list of their translations. A list of documents: a list of lists.

        A text: its lines are the sentences, blank lines stand between documents, and a text of as many lines comes
        back. The options are those of `translator`.
        """
        if isinstance(text, str):
            lines = (line if line.strip() else None for line in text.split("\n"))
            found = self.translator(**options).sentences(lines)
            return "\n".join(next(found).text if line.strip() else "" for line in text.split("\n"))
        documents = list(text)
        alone = all(isinstance(sentence, str) for sentence in documents)
        if not alone and any(isinstance(document, str) for document in documents):
            raise FocatError(
                "translate: give a text, a list of sentences, or a list of lists of sentences; not a mixture"
            )
        found_texts = [
            [translation.text for translation in document]
            for document in self.stream([documents] if alone else documents, **options)
        ]
        return found_texts[0] if alone else found_texts

    def stream(self, documents: Iterable[Sequence[str]], **options: Any) -> Iterator[list[Translation]]:
        """Documents without end: each one's translations as soon as they are there, in order, with all that is known.

        The options are those of `translator`.
        """
        return self.translator(**options).translate(documents)

    def translate_file(
        self,
        input: str | Path,
        output: str | Path = STDOUT,
        format: str | None = None,
        split: bool = False,
        scores: bool = False,
        overwrite: bool = False,
        progress: Progress = NULL_PROGRESS,
        **options: Any,
    ) -> JobStats:
        """What `focat translate` does: a file in, a file out, resumed if it was interrupted."""
        languages = (self.settings.data.source_language, self.settings.data.target_language) if split else None
        written = OutputOptions(scores, options.get("nbest") or self.settings.decoding.nbest)
        job = Job(Path(input), Path(output), format, languages, written, overwrite)
        return run_job(job, self.translator(**options), self._digests(), progress)

    def translator(
        self,
        context: TargetContext | None = None,
        constrained: bool = True,
        window: int | None = None,
        lookahead: int | None = None,
        **search: Any,
    ) -> Translator:
        """What translates, with settings of its own.

        `context` is where target context comes from: regenerate, reuse or none. `constrained`: every window yields as
        many sentences as it has; if not, what follows the last separator is kept (the paper's rule). `window` is how
        many sentences a window has. `lookahead` is how many sentences may be read before the first comes out. All else
        are settings of the search (`SearchSettings`): beam, nbest, length_penalty, sample and so on. What is not given
        is as in the settings of the run.
        """
        return Translator.from_system(self.system, context, constrained, window, lookahead, **search)

    def attention(self, source: Sequence[str], target: Sequence[str]) -> AttentionMap:
        """Attention weights of the first model over a window of these sentences, the current ones last."""
        return attention_map(self.models[0], self.tokenizer, source, target)

    def score(
        self, document: Sequence[str], hypotheses: Sequence[str], window: int | None = None
    ) -> list[SentenceScore]:
        """How likely these translations of a document's sentences are, each after those of the sentences before it."""
        if len(document) != len(hypotheses):
            raise FocatError(f"score: {len(document)} sentences have {len(hypotheses)} translations; give one for each")
        pairs = [
            Pair(source, target, i + 1) for i, (source, target) in enumerate(zip(document, hypotheses, strict=True))
        ]
        return self.score_pairs([pairs], window)[0]

    def score_pairs(
        self,
        documents: Sequence[Sequence[Pair]],
        window: int | None = None,
        precision: Precision = "float32",
        progress: Progress = NULL_PROGRESS,
    ) -> list[list[SentenceScore]]:
        """The same for many documents; what `focat score` does."""
        windows = self.system.windows(window)
        return score_documents(self.models, self.tokenizer, documents, windows, precision, progress)

    def score_signature(self, window: int | None = None, precision: Precision = "float32") -> str:
        """How scores with these settings are obtained: what a figure is to be quoted with."""
        windows = self.system.windows(window)
        weights = "+".join(digest[:8] for digest in self.system.weights_digests)
        return f"score|window:{windows}|precision:{precision}|weights:{weights}|version:{__version__}"

    def _digests(self) -> list[str]:
        digests = zip(self.runs, self.system.weights_digests, strict=True)
        return [digest_of([weights, run.settings.model.model_dump()]) for run, weights in digests]
