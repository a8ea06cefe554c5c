"""Suites put to a trained system: what `focat contrast` does, from a run folder to answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import torch

from focat.config.schema import SearchSettings, WindowSettings
from focat.corpus.tokenizer import Tokenizer
from focat.decoding.translator import Translator, window_of
from focat.errors import FocatError
from focat.evaluation.contrast_report import Result, Setup
from focat.evaluation.contrastive import Context, TargetContext, Uneven, answers, with_own_context
from focat.evaluation.generated_accuracy import produce
from focat.evaluation.scoring import Precision, Rule
from focat.evaluation.suites import AS_PUBLISHED, ContextFiles, ContextFolder, Form, Instance, Suite, read_suite
from focat.files import sha256
from focat.model.transformer import Transformer
from focat.progress import Progress
from focat.training.run import Run


@dataclass(frozen=True)
class Asking:
    """How suites are put to a system."""

    rule: Rule = "current-sum"
    target: TargetContext = "gold"
    window: int | None = None
    uneven: Uneven = "shorter"
    fill: str | None = None
    form: Form = AS_PUBLISHED
    precision: Precision = "float32"
    translate: bool = False


def parse_target(text: str) -> TargetContext:
    """Where target context comes from, by its name."""
    for known in get_args(TargetContext):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise FocatError(f"--target-context {text}: there is no such context; choose gold, own or none")


def parse_uneven(text: str) -> Uneven:
    """What becomes of source context without its translation, by its name."""
    for known in get_args(Uneven):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise FocatError(f"--uneven {text}: choose shorter or source")


def parse_precision(text: str) -> Precision:
    """What a model computes in, by its name."""
    for known in get_args(Precision):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise FocatError(f"--precision {text}: choose float32 or bfloat16")


def check_free(path: Path | None, overwrite: bool) -> None:
    """Refuse to write over a file, before any work is done."""
    if path is not None and path.exists() and not overwrite:
        raise FocatError(f"{path}: exists; give another --instances, or --overwrite")


def read_suites(
    paths: Sequence[Path],
    run: Run,
    window: int | None = None,
    source: Path | None = None,
    target: Path | None = None,
    documents: Path | None = None,
) -> list[Suite]:
    """All suites; the one like ContraPro takes the context files or the folder of documents."""
    if (source is None) != (target is None):
        raise FocatError("give both of --context-source and --context-target, or neither")
    if source is not None and documents is not None:
        raise FocatError("give either --context-source and --context-target, or --documents; not both")
    settings = run.settings
    before = _windows(settings.windows, window).before
    context: ContextFiles | ContextFolder | None = None
    if source is not None and target is not None:
        context = ContextFiles(source, target)
    elif documents is not None:
        languages = settings.data.source_language, settings.data.target_language
        context = ContextFolder(documents, languages, before)
    suites: list[Suite] = []
    for path in paths:
        suite = read_suite(path)
        if not suite.has_context and context is not None:
            suite, context = read_suite(path, context), None
        if not suite.has_context and before > 0:
            raise FocatError(
                f"{path}: its context is in other files; give --context-source and --context-target, or --documents "
                "(or --window 1, to ask without context)"
            )
        if suite.name in [other.name for other in suites]:
            raise FocatError(f"{path}: another suite is called {suite.name} too; results could not be told apart")
        suites.append(suite)
    if context is not None:
        raise FocatError("--context-source, --context-target and --documents are for a suite like ContraPro: give one")
    return suites


def ask(
    run: Run, suites: Sequence[Suite], asking: Asking, device: torch.device, progress: Progress
) -> tuple[list[Result], Setup]:
    """The answers of a system to suites, and all there is to say about how they were obtained."""
    settings, weights = run.settings, run.weights_folder()
    model, tokenizer = run.load_model(weights, device), run.tokenizer
    windows = _windows(settings.windows, asking.window)
    search = SearchSettings(**{name: getattr(settings.decoding, name) for name in SearchSettings.model_fields})
    given = Context.of(windows, target=asking.target, uneven=asking.uneven, fill=asking.fill)
    results = []
    for suite in suites:
        instances: Sequence[Instance] = [asking.form.instance(instance) for instance in suite.instances]
        progress.say(f"{suite.name}: {len(instances):,} instances, {suite.candidates:,} candidates")
        if asking.target == "own" and given.target_before:
            instances = with_own_context(instances, _translate(model, tokenizer, windows, search, progress))
        found = answers(model, tokenizer, instances, given, asking.precision, progress)
        said = produce(model, tokenizer, instances, given, search, progress) if asking.translate else []
        results.append(Result(replace(suite, instances=instances), found, said))
    digest = sha256(weights / "weights.safetensors")
    return results, Setup(asking.rule, given, asking.form, asking.precision, digest, search)


def _windows(settings: WindowSettings, size: int | None) -> WindowSettings:
    return settings if size is None else window_of(settings, size)


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
