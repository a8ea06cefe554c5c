"""`focat contrast`: a trained system scores the candidates of contrastive suites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from focat._version import __version__
from focat.choices import MissingTarget, Precision, ScoringRule, SuiteContext
from focat.config.schema import SearchSettings, WindowSettings
from focat.errors import FocatError
from focat.evaluation.contrastive import (
    ContextConfig,
    ScoredInstance,
    score_instances,
    with_own_context,
)
from focat.evaluation.generated_translations import GeneratedTranslation, translate_instances
from focat.evaluation.suites import (
    AS_PUBLISHED,
    ContextFiles,
    ContextFolder,
    Suite,
    TextNormalization,
    context_files,
    read_suites,
)
from focat.progress import Progress
from focat.run import Run, TrainedSystem
from focat.translation.translator import Translator


@dataclass(frozen=True)
class ContrastConfig:
    """How suites are scored."""

    rule: ScoringRule = "current-sum"
    target_context: SuiteContext = "gold"
    window: int | None = None
    """Sentences in a window; as in training if not given."""
    missing_target: MissingTarget = "shorter"
    pad_context: str | None = None
    normalization: TextNormalization = AS_PUBLISHED
    precision: Precision = "float32"
    translate: bool = False
    """Whether to translate instances too, and to judge the translations."""


@dataclass(frozen=True)
class ContrastSetup:
    """How accuracies were obtained: what their signatures say."""

    rule: ScoringRule
    context: ContextConfig
    normalization: TextNormalization
    precision: Precision
    weights_sha256: str
    search: SearchSettings
    """Of translations, where there are any."""

    def signature(self, suites: Sequence[Suite], task: str = "contrast") -> str:
        """Return the signature of a figure, in the manner of sacrebleu: what it takes to obtain it again."""
        named = "+".join(suite.identity for suite in suites)
        ties = "+".join(dict.fromkeys("wrong" if s.instances[0].strict else "first" for s in suites))
        how = f"rule:{self.rule}|ties:{ties}|" if task == "contrast" else ""
        if task != "contrast" or self.context.target_context == "own":
            how += f"beam:{self.search.beam}|penalty:{self.search.length_penalty}|"
        return (
            f"{task}|suite:{named}|{how}{self.context}|form:{self.normalization}|"
            f"precision:{self.precision}|weights:{self.weights_sha256[:8]}|version:{__version__}"
        )


@dataclass(frozen=True)
class ScoredSuite:
    """A suite and the scores of its candidates."""

    suite: Suite
    scored: Sequence[ScoredInstance]
    translations: Sequence[GeneratedTranslation] = field(default_factory=tuple)
    """One for each instance, if instances were translated."""

    def correct(self, rule: ScoringRule) -> list[bool]:
        """Return whether each instance is answered correctly."""
        return [scored.correct(rule) for scored in self.scored]

    def accuracy(self, rule: ScoringRule) -> float:
        """Return the share of correct instances, in per cent."""
        return 100 * sum(self.correct(rule)) / len(self.scored)


def read_contrast_suites(
    paths: Sequence[Path],
    run: Run,
    window: int | None = None,
    source: Path | None = None,
    target: Path | None = None,
    folder: Path | None = None,
) -> list[Suite]:
    """Read suites for a run.

    Args:
        paths: files of suites.
        run: its window says how much context is needed; its languages name the files in `folder`.
        window: sentences in a window, if not as in training.
        source: source context of a suite like ContraPro.
        target: its target context.
        folder: or the documents that its context is in.
    """
    context: ContextFiles | ContextFolder | None = context_files(source, target)
    if context is not None and folder is not None:
        raise FocatError("give either context_source and context_target, or context_folder; not both")
    settings = run.settings
    before = settings.windows.of_size(window).before
    if folder is not None:
        languages = settings.data.source_language, settings.data.target_language
        context = ContextFolder(folder, languages, before)
    advice = "give context_source and context_target, or context_folder (or window = 1, to score without context)"
    return read_suites(paths, context, advice if before > 0 else None)


def run_contrast(
    system: TrainedSystem, suites: Sequence[Suite], config: ContrastConfig, progress: Progress
) -> tuple[list[ScoredSuite], ContrastSetup]:
    """Score the candidates of suites with the first model of a system.

    Returns:
        The scored suites, and how they were scored.
    """
    windows, search = system.settings.windows.of_size(config.window), system.settings.decoding
    context = ContextConfig.of(windows, config.target_context, config.missing_target, config.pad_context)
    results = []
    for published in suites:
        suite = config.normalization.suite(published)
        progress.log(f"{suite.name}: {len(suite.instances):,} instances, {suite.candidates:,} candidates")
        if config.target_context == "own" and context.target_before:
            instances = with_own_context(suite.instances, _context_translator(system, windows, progress))
            suite = replace(suite, instances=instances)
        model, tokenizer = system.model, system.tokenizer
        scored = score_instances(model, tokenizer, suite.instances, context, config.precision, progress)
        translations: list[GeneratedTranslation] = []
        if config.translate:
            translations = translate_instances(model, tokenizer, suite.instances, context, search, progress)
        results.append(ScoredSuite(suite, scored, translations))
    digest = system.weights_digests[0]
    return results, ContrastSetup(config.rule, context, config.normalization, config.precision, digest, search)


def _context_translator(
    system: TrainedSystem, windows: WindowSettings, progress: Progress
) -> Callable[[Sequence[Sequence[str]]], list[list[str]]]:
    def translate(documents: Sequence[Sequence[str]]) -> list[list[str]]:
        translator = Translator([system.model], system.tokenizer, windows, system.settings.decoding, "reuse")
        texts = []
        with progress.bar("translating context", "sentences", sum(map(len, documents))) as bar:
            for translations in translator.translate(documents):
                texts.append([translation.text for translation in translations])
                bar.advance(len(translations))
        return texts

    return translate
