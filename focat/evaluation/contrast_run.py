"""Suites put to a trained system: what `focat contrast` does, from a run folder to answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from focat.choices import MissingTarget, Precision, ScoringRule, SuiteContext
from focat.config.schema import SearchSettings, WindowSettings
from focat.corpus.tokenizer import Tokenizer
from focat.errors import FocatError
from focat.evaluation.contrast_report import Result, Setup
from focat.evaluation.contrastive import Context, answers, with_own_context
from focat.evaluation.generated_accuracy import produce
from focat.evaluation.suites import (
    AS_PUBLISHED,
    ContextFiles,
    ContextFolder,
    Form,
    Suite,
    context_files,
    read_suites,
)
from focat.files import sha256
from focat.model.transformer import Transformer
from focat.progress import Progress
from focat.run import Run
from focat.translation.translator import Translator


@dataclass(frozen=True)
class Asking:
    """How suites are put to a system."""

    rule: ScoringRule = "current-sum"
    target: SuiteContext = "gold"
    window: int | None = None
    missing_target: MissingTarget = "shorter"
    pad_context: str | None = None
    form: Form = AS_PUBLISHED
    precision: Precision = "float32"
    translate: bool = False


def suites_for(
    paths: Sequence[Path],
    run: Run,
    window: int | None = None,
    source: Path | None = None,
    target: Path | None = None,
    documents: Path | None = None,
) -> list[Suite]:
    """All suites; the one like ContraPro takes the context files or the folder of documents."""
    context: ContextFiles | ContextFolder | None = context_files(source, target)
    if context is not None and documents is not None:
        raise FocatError("give either --context-source and --context-target, or --context-folder; not both")
    settings = run.settings
    before = settings.windows.of_size(window).before
    if documents is not None:
        languages = settings.data.source_language, settings.data.target_language
        context = ContextFolder(documents, languages, before)
    without = "give --context-source and --context-target, or --context-folder (or --window 1, to ask without context)"
    return read_suites(paths, context, without if before > 0 else None)


def ask(
    run: Run, suites: Sequence[Suite], asking: Asking, device: torch.device, progress: Progress
) -> tuple[list[Result], Setup]:
    """The answers of a system to suites, and all there is to say about how they were obtained."""
    settings, weights = run.settings, run.weights_folder()
    model, tokenizer = run.load_model(weights, device), run.tokenizer
    windows = settings.windows.of_size(asking.window)
    search = SearchSettings(**{name: getattr(settings.decoding, name) for name in SearchSettings.model_fields})
    given = Context.of(
        windows, target=asking.target, missing_target=asking.missing_target, pad_context=asking.pad_context
    )
    results = []
    for suite in suites:
        instances = asking.form.suite(suite).instances
        progress.log(f"{suite.name}: {len(instances):,} instances, {suite.candidates:,} candidates")
        if asking.target == "own" and given.target_before:
            instances = with_own_context(instances, _translate(model, tokenizer, windows, search, progress))
        found = answers(model, tokenizer, instances, given, asking.precision, progress)
        said = produce(model, tokenizer, instances, given, search, progress) if asking.translate else []
        results.append(Result(replace(suite, instances=instances), found, said))
    digest = sha256(weights / "weights.safetensors")
    return results, Setup(asking.rule, given, asking.form, asking.precision, digest, search)


def _translate(
    model: Transformer, tokenizer: Tokenizer, windows: WindowSettings, search: SearchSettings, progress: Progress
) -> Callable[[Sequence[Sequence[str]]], list[list[str]]]:
    def translate(documents: Sequence[Sequence[str]]) -> list[list[str]]:
        translator = Translator([model], tokenizer, windows, search, "reuse")
        found = []
        with progress.bar("translating context", "sentences", sum(map(len, documents))) as bar:
            for translations in translator.translate(documents):
                found.append([translation.text for translation in translations])
                bar.advance(len(translations))
        return found

    return translate
