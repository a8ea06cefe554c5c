"""focat from Python: load a trained system, translate, score, look at attention.

model = focat.load("run")
model.translate(["Where is the cat?", "It is asleep."])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, overload

from typing_extensions import Unpack

from focat._version import __version__
from focat.analysis.attention_map import AttentionMap, attention_map
from focat.choices import Precision
from focat.errors import FocatError, ParameterError
from focat.evaluation.document_scores import AlignedSentence, SentenceScore, score_documents
from focat.files import digest_of
from focat.progress import NULL_PROGRESS, Progress
from focat.run import TrainedSystem, load_system
from focat.translation.arguments import (
    check_options,
    check_sentence,
    check_type,
    input_sentences_of,
    list_of,
    sentences_of,
)
from focat.translation.formats import FormatOptions, SubtitleOptions
from focat.translation.formats.encodings import UTF8, encoding_name
from focat.translation.jobs import STDOUT, Job, JobStats, run_job
from focat.translation.many_files import FilesStats, run_files
from focat.translation.options import FileOptions, TranslateOptions
from focat.translation.result import Translation
from focat.translation.sentence import InputSentence, Sentence
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
    runs = [run] if isinstance(run, str | Path) else list_of("run", run, "a folder, or a list of folders")
    for one in runs:
        check_type("run", one, str | Path, "a folder, or a list of folders")
    check_type("device", device, str, "the name of a device: auto, cpu, cuda or cuda:1")
    for override in list_of("overrides", overrides, "a list of settings, such as ['decoding.beam=8']"):
        check_type("overrides", override, str, "a list of settings, such as ['decoding.beam=8']")
    return Model(load_system(runs, device, overrides))


class Model:
    """A trained system, or an ensemble of several: what `focat.load` returns."""

    def __init__(self, system: TrainedSystem) -> None:
        self.system = system
        self.runs, self.models = system.runs, system.models
        self.settings, self.tokenizer = system.settings, system.tokenizer

    def __repr__(self) -> str:
        data, size = self.settings.data, self.system.windows().size
        runs = ", ".join(str(run.path) for run in self.runs)
        window = f"windows of {size} sentences" if size > 1 else "sentence by sentence"
        return f"<focat.Model {runs}: {data.source_language} to {data.target_language}, {window}>"

    # A string is a sequence of strings too: a type checker takes the first overload that matches.
    @overload
    def translate(self, text: str, **options: Unpack[TranslateOptions]) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, text: Sequence[Sentence], **options: Unpack[TranslateOptions]
    ) -> list[str]: ...
    @overload
    def translate(self, text: Sequence[Sequence[Sentence]], **options: Unpack[TranslateOptions]) -> list[list[str]]: ...
    def translate(
        self, text: str | Sequence[Sentence] | Sequence[Sequence[Sentence]], **options: Unpack[TranslateOptions]
    ) -> str | list[str] | list[list[str]]:
        """Translate a document, several documents, or a text.

        Args:
            text: a list of sentences is a document; a list of such lists is several documents; in a string, lines are
                sentences and blank lines separate documents. A sentence is a string, or an `InputSentence` with what
                its translation must contain.
            options: as of `translator`, but not `nbest`: `stream` returns alternatives.

        Returns:
            The best translations in the same form: as many sentences, documents or lines.

        Raises:
            FocatError: an option is wrong, the text is something else, or strings and lists are mixed.
        """
        if options.get("nbest") not in (None, 1):
            raise ParameterError(
                "nbest",
                options["nbest"],
                "translate returns the best; stream(documents, nbest=…) has alternatives",
            )
        if isinstance(text, str):
            check_sentence("text", text)
            lines = text.split("\n")
            found = self.translator(**options).sentences(line if line.strip() else None for line in lines)
            return "\n".join(next(found).text if line.strip() else "" for line in lines)
        items = list_of("text", text, "a string, a list of sentences or a list of lists of sentences")
        sentences = [item for item in items if isinstance(item, str | InputSentence)]
        if len(sentences) == len(items):
            (document,) = self.stream([input_sentences_of("text", sentences)], **options)
            return [translation.text for translation in document]
        if sentences:
            raise FocatError(
                "translate: give a text, a list of sentences, or a list of lists of sentences; not a mixture"
            )
        documents = [input_sentences_of(f"text[{i}]", item) for i, item in enumerate(items)]
        return [[translation.text for translation in document] for document in self.stream(documents, **options)]

    def stream(
        self, documents: Iterable[Sequence[Sentence]], **options: Unpack[TranslateOptions]
    ) -> Iterator[list[Translation]]:
        """Translate documents as they come, without end if need be.

        Args:
            documents: lists of sentences.
            options: as of `translator`.

        Returns:
            The translations of each document in order, with scores and alternatives, as soon as they are complete.
        """
        return self.translator(**options).translate(documents)

    def translate_file(
        self,
        input: str | Path,
        output: str | Path = STDOUT,
        *,
        progress: Progress = NULL_PROGRESS,
        **options: Unpack[FileOptions],
    ) -> JobStats:
        """Translate a file as `focat translate` does; an interrupted translation is resumed.

        Args:
            input: the file to translate.
            output: the file to write; standard output if not given.
            progress: where progress is shown.
            options: `format`, `split`, `scores`, `overwrite`, `encoding`, `output_encoding`, `all_entries` and
                `subtitles` (`FileOptions`), and those of `translator`.
        """
        for name, path in (("input", input), ("output", output)):
            check_type(name, path, str | Path, "a path")
        job, translator = self._file_job(input, output, progress, options)
        return run_job(job, translator, self._digests(), progress)

    def translate_files(
        self,
        inputs: str | Path | Sequence[str | Path],
        output: str | Path,
        *,
        shard: tuple[int, int] | None = None,
        progress: Progress = NULL_PROGRESS,
        **options: Unpack[FileOptions],
    ) -> FilesStats:
        """Translate many files as one job, so that they fill batches together; an interrupted job is resumed.

        Args:
            inputs: files, folders, and patterns such as `films/**/*.srt`.
            output: a folder, where outputs have the same relative names.
            shard: translate a part of the files: which one, counted from 1, and of how many.
            progress: where progress is shown.
            options: as of `translate_file`. Outputs that exist are left as they are, unless they are to be overwritten.

        Returns:
            What was done; `failed` says what is wrong with files that could not be translated.
        """
        inputs = [inputs] if isinstance(inputs, str | Path) else list_of("inputs", inputs, "a list of paths")
        for name, path in (*((f"inputs[{i}]", each) for i, each in enumerate(inputs)), ("output", output)):
            check_type(name, path, str | Path, "a path")
        job, translator = self._file_job("", output, progress, options)
        return run_files(job, inputs, shard, translator, self._digests(), progress)

    def _file_job(
        self, input: str | Path, output: str | Path, progress: Progress, options: FileOptions
    ) -> tuple[Job, Translator]:
        """A job with these options, and the translator for it."""
        check_type("progress", progress, Progress, "a Progress")
        names = FileOptions.__annotations__.keys() - TranslateOptions.__annotations__.keys()
        check_options(options, *names, "progress")
        data, decoding = self.settings.data, self.settings.decoding
        encoding = options.get("encoding")
        output_encoding = encoding_name("output_encoding", options.get("output_encoding", UTF8))
        written = FormatOptions(
            options.get("scores", False),
            options.get("nbest") or decoding.nbest,
            options.get("overwrite", False),
            options.get("split", False),
            (data.source_language, data.target_language),
            options.get("all_entries", False),
            output_encoding,
            options.get("subtitles") or SubtitleOptions(),
        )
        job = Job(
            Path(input),
            Path(output),
            options.get("format"),
            written,
            options.get("overwrite", False),
            decoding.max_line_bytes,
            None if encoding is None else encoding_name("encoding", encoding),
            output_encoding,
        )
        others: dict[str, Any] = {name: value for name, value in options.items() if name not in names}
        return job, self.translator(**others)

    def translator(self, **options: Unpack[TranslateOptions]) -> Translator:
        """Make a translator; what is not given is as in the settings of the run.

        Args:
            options: `context` (where target context comes from: regenerate, reuse or none), `constrained`, `window`
                (sentences in a window), `formality` (formal or informal, of a model trained with `data.formality`),
                `lookahead` (sentences that may be read before the first translation is returned), `glossary` and
                `keep` (terms that translations must contain), and the settings of the search: `beam`, `nbest`,
                `length_penalty`, `sample` and so on (`TranslateOptions`).
        """
        return Translator.from_system(self.system, **options)

    def attention(self, source: Sequence[str], target: Sequence[str]) -> AttentionMap:
        """Return the attention weights of the first model over a window of these sentences, the current ones last."""
        window = sentences_of("source", source), sentences_of("target", target)
        for name, sentences in zip(("source", "target"), window, strict=True):
            if not sentences:
                raise ParameterError(name, sentences, "should have a sentence, the current one")
        return attention_map(self.models[0], self.tokenizer, *window)

    def score(
        self, document: Sequence[str], hypotheses: Sequence[str], window: int | None = None
    ) -> list[SentenceScore]:
        """Score translations of a document, each sentence after its context.

        Args:
            document: source sentences.
            hypotheses: a translation of each.
            window: sentences in a window; as in training if not given.

        Returns:
            For each sentence the log-probabilities of its tokens.
        """
        document, hypotheses = sentences_of("document", document), sentences_of("hypotheses", hypotheses)
        if len(document) != len(hypotheses):
            raise FocatError(f"score: {len(document)} sentences have {len(hypotheses)} translations; give one for each")
        pairs = [
            AlignedSentence(source, target, i + 1)
            for i, (source, target) in enumerate(zip(document, hypotheses, strict=True))
        ]
        return self.score_pairs([pairs], window)[0]

    def score_pairs(
        self,
        documents: Sequence[Sequence[AlignedSentence]],
        window: int | None = None,
        precision: Precision = "float32",
        progress: Progress = NULL_PROGRESS,
    ) -> list[list[SentenceScore]]:
        """Score many documents at once, as `focat score` does."""
        if precision not in get_args(Precision):
            raise ParameterError("precision", repr(precision), f"choose from {', '.join(get_args(Precision))}")
        documents = list_of("documents", documents, "a list of documents, lists of AlignedSentence")
        windows = self.system.windows(window)
        return score_documents(self.models, self.tokenizer, documents, windows, precision, progress)

    def score_signature(self, window: int | None = None, precision: Precision = "float32") -> str:
        """Return how scores with these settings are obtained, to be quoted with them."""
        windows = self.system.windows(window)
        weights = "+".join(digest[:8] for digest in self.system.weights_digests)
        return f"score|window:{windows}|precision:{precision}|weights:{weights}|version:{__version__}"

    def _digests(self) -> list[str]:
        digests = zip(self.models, self.system.weights_digests, strict=True)
        return [digest_of([weights, model.settings.model_dump()]) for model, weights in digests]
