"""`focat contrast`: a trained system scores the candidates of contrastive suites.

The results are accuracies by distance and phenomenon, Disc. over them, and the answer to each instance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from focat._version import __version__
from focat.choices import SCORING_RULES, ContextControl, MissingTarget, Precision, ScoringRule, SuiteContext
from focat.config.schema import SearchSettings
from focat.errors import FocatError, ParameterError
from focat.evaluation.contrastive import (
    ContextConfig,
    preferred_candidate,
    score_instances,
    with_control,
    with_own_context,
)
from focat.evaluation.disc import Accuracy, by_distance, column_of, count, disc_of, pooled
from focat.evaluation.generated_translations import GeneratedTranslation, translate_instances
from focat.evaluation.results import ContrastResults, ContrastSection, InstanceResult, Outcome, SuiteResult
from focat.evaluation.suites import (
    AS_PUBLISHED,
    ContextFiles,
    ContextFolder,
    Instance,
    Suite,
    TextNormalization,
    context_files,
    contrasts,
    read_suites,
)
from focat.hardware import memory_errors
from focat.progress import Progress
from focat.run import Run, TrainedSystem


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
    control: ContextControl = "real"
    """Whose context instances have: their own, another's, or one and the same."""


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
        ties = "+".join(dict.fromkeys("wrong" if s.translated[0].strict else "first" for s in suites))
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
    scores: Mapping[ScoringRule, Sequence[Sequence[float]]]
    """By scoring rule: of each candidate of each instance."""
    translations: Sequence[GeneratedTranslation] = ()
    """One for each of `suite.translated`, if instances were translated."""

    def chosen(self, rule: ScoringRule) -> list[int]:
        """Return the candidate of each instance that the model prefers."""
        return [preferred_candidate(*pair) for pair in zip(self.scores[rule], self.suite.instances, strict=True)]

    def correct(self, rule: ScoringRule) -> list[bool]:
        """Return whether the model prefers the right candidate of each instance."""
        return [i == one.right for i, one in zip(self.chosen(rule), self.suite.instances, strict=True)]

    def accuracy(self, rule: ScoringRule) -> float:
        """Return the share of correct instances, in per cent."""
        return 100 * sum(self.correct(rule)) / len(self.suite.instances)


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
    return read_suites(paths, context, advice if before > 0 else None, generative=True)


def run_contrast(
    system: TrainedSystem, suites: Sequence[Suite], config: ContrastConfig, progress: Progress
) -> tuple[list[ScoredSuite], ContrastSetup]:
    """Score the candidates of suites with the first model of a system.

    Returns:
        The scored suites, and how they were scored.
    """
    windows, search = system.settings.windows.of_size(config.window), system.settings.decoding
    context = ContextConfig.of(
        windows, config.target_context, config.missing_target, config.pad_context, config.control
    )
    results = []

    def translate_context(documents: Sequence[Sequence[str]]) -> list[list[str]]:
        from focat.evaluation.test_sets import translated_texts  # most suites bring their context along
        from focat.translation.translator import Translator

        translator = Translator.from_system(system, "reuse", window=config.window)
        return translated_texts(translator, documents, progress, "translating context")[0]

    for published in suites:
        suite = config.normalization.suite(published)
        suite = replace(
            suite,
            instances=with_control(suite.instances, config.control),
            generative=with_control(suite.generative, config.control),
        )
        progress.log(f"{suite.name}: {len(suite.translated):,} instances, {suite.candidates:,} candidates")
        _check_target_context(suite, context)
        if config.target_context == "own" and context.target_before:
            suite = _with_own_context(suite, translate_context)
        model, tokenizer = system.model, system.tokenizer
        with memory_errors(
            f"{suite.name}: its longest window does not fit into memory; shorten the text of that instance"
        ):
            scores = score_instances(model, tokenizer, suite.instances, context, config.precision, progress)
        translations: list[GeneratedTranslation] = []
        if config.translate or suite.generative:
            translations = translate_instances(model, tokenizer, suite.translated, context, search, progress)
        results.append(ScoredSuite(suite, scores, translations))
    digest = system.weights_digests[0]
    return results, ContrastSetup(config.rule, context, config.normalization, config.precision, digest, search)


def contrast_results(suites: Sequence[ScoredSuite], setup: ContrastSetup) -> ContrastResults:
    """Return all accuracies: a section for each suite, and one over phenomena where there are several."""
    sections = []
    for scored in suites:
        if scored.suite.generative:
            sections.append(_forms_section(scored, setup))
        if scored.suite.instances:
            sections.append(_suite_section(scored, setup))
        if scored.translations and not scored.suite.generative:
            sections.append(_translation_section(scored, setup))
    contrastive = [scored for scored in suites if not scored.suite.generative]
    phenomena = _counted(contrastive, setup.rule, lambda instance: instance.phenomenon)
    if len(phenomena) > 1:
        sections.append(_phenomena_section(contrastive, phenomena, setup))
    return ContrastResults(
        kind="contrast",
        version=__version__,
        rule=setup.rule,
        suites=tuple(
            SuiteResult(
                name=scored.suite.name,
                format=scored.suite.kind,
                sha256=scored.suite.sha256,
                context_sha256=scored.suite.context_sha256 or None,
                instances=len(scored.suite.translated),
                candidates=scored.suite.candidates,
                accuracy={rule: scored.accuracy(rule) for rule in SCORING_RULES if scored.suite.instances},
                signature=setup.signature([scored.suite]),
            )
            for scored in suites
        ),
        sections=tuple(sections),
    )


def instance_results(scored: ScoredSuite, rule: ScoringRule) -> list[InstanceResult]:
    """Return the result on each instance of a suite: the lines of `focat contrast --instances`.

    Where translations are judged for an expected form (CTXPro), they decide what is correct.
    """
    suite = scored.suite
    order = {instance.id: i for i, instance in enumerate(suite.instances)}
    chosen = scored.chosen(rule)
    results = []
    for number, instance in enumerate(suite.translated):
        i = order.get(instance.id)
        generated = scored.translations[number] if scored.translations else None
        is_right = i is not None and chosen[i] == instance.right
        if generated is not None and suite.generative:
            is_right = generated.outcome == "right"
        result = InstanceResult(
            suite=suite.name,
            id=instance.id,
            phenomenon=instance.phenomenon,
            distance=instance.distance,
            labels=dict(instance.labels),
            right=instance.right,
            chosen=None if i is None else chosen[i],
            correct=is_right,
            rule="produced" if suite.generative else rule,
            scores={} if i is None else {name: list(scores[i]) for name, scores in scored.scores.items()},
        )
        if generated is not None:
            result = result.model_copy(update={"translation": generated.text, "produced": generated.outcome})
        results.append(result)
    return results


def _check_target_context(suite: Suite, context: ContextConfig) -> None:
    """Refuse to take the target context of a suite that has none, since windows would have no context at all."""
    wanted = context.target_context == "gold" and context.target_before > 0 and context.pad_context is None
    has_source = any(len(instance.source) > 1 for instance in suite.generative)
    if wanted and has_source and not any(instance.target for instance in suite.generative):
        problem = f"{suite.name} has context on the source only; take own, the model's translation of it"
        raise ParameterError("target_context", "gold", problem)


def _with_own_context(suite: Suite, translate: Callable[[Sequence[Sequence[str]]], list[list[str]]]) -> Suite:
    own = with_own_context(suite.translated, translate)
    return replace(suite, instances=contrasts(own), generative=own if suite.generative else ())


def _suite_section(scored: ScoredSuite, setup: ContrastSetup) -> ContrastSection:
    suite, correct = scored.suite, scored.correct(setup.rule)
    distances = by_distance(suite.instances, correct)
    figures = [accuracy.result(name) for name, accuracy in distances.items()] if len(distances) > 1 else []
    figures.append(Accuracy(sum(correct), len(correct)).result("all"))
    remarks: list[str] = []
    if suite.kind != "voita":  # whose Disc. is over phenomena
        summary, remarks = disc_of(count(suite.instances, correct, column_of))
        figures += summary
    title = f"{suite.name}: {len(suite.instances):,} instances, {suite.candidates:,} candidates"
    return ContrastSection(
        title=f"{title}, chance {100 * suite.chance:.2f}",
        signature=setup.signature([suite]),
        figures=tuple(figures),
        other_rules={rule: scored.accuracy(rule) for rule in SCORING_RULES if rule != setup.rule},
        remarks=tuple(remarks),
    )


def _translation_section(scored: ScoredSuite, setup: ContrastSetup) -> ContrastSection:
    """Which candidate the translations agree with; the outcomes add up to all instances."""
    total = len(scored.translations)
    found = [translation.outcome for translation in scored.translations]
    figures = [Accuracy(found.count(outcome), total).result(outcome) for outcome in get_args(Outcome)]
    right, wrong = found.count("right"), found.count("wrong")
    if right + wrong:
        figures.append(Accuracy(right, right + wrong).result("right, of right and wrong"))
    return ContrastSection(
        title=f"{scored.suite.name}: what its translations say",
        signature=setup.signature([scored.suite], "produced"),
        figures=tuple(figures),
        other_rules={},
        remarks=(),
    )


def _forms_section(scored: ScoredSuite, setup: ContrastSetup) -> ContrastSection:
    """How often the expected form is produced, by rule and by distance: the measure of CTXPro's authors."""
    suite = scored.suite
    right = [translation.outcome == "right" for translation in scored.translations]
    rules = count(suite.generative, right, lambda instance: str(instance.labels["rule"]))
    distances = by_distance(suite.generative, right)
    groups = [*rules.items(), *(distances.items() if len(distances) > 1 else ())]
    figures = [accuracy.result(name) for name, accuracy in groups]
    figures.append(Accuracy(sum(right), len(right)).result("all"))
    without = len(suite.generative) - len(suite.instances)
    remarks = [f"{without:,} instances have no other form to compare with"] if without else []
    return ContrastSection(
        title=f"{suite.name}: {len(suite.generative):,} translations, the expected form is produced",
        signature=setup.signature([suite], "produced"),
        figures=tuple(figures),
        other_rules={},
        remarks=tuple(remarks),
    )


def _phenomena_section(
    suites: Sequence[ScoredSuite], phenomena: dict[str, Accuracy], setup: ContrastSetup
) -> ContrastSection:
    figures = [accuracy.result(name) for name, accuracy in phenomena.items()]
    summary, remarks = disc_of(_counted(suites, setup.rule, column_of))
    overall = sum(phenomena.values(), Accuracy(0, 0))
    figures += summary
    if not summary or summary[0].total < overall.total:
        figures.append(overall.result("all"))
    return ContrastSection(
        title="By phenomenon",
        signature=setup.signature([scored.suite for scored in suites]),
        figures=tuple(figures),
        other_rules={
            rule: pooled("all", _counted(suites, rule, column_of)).accuracy
            for rule in SCORING_RULES
            if rule != setup.rule
        },
        remarks=tuple(remarks),
    )


def _counted(
    suites: Sequence[ScoredSuite], rule: ScoringRule, group_by: Callable[[Instance], str]
) -> dict[str, Accuracy]:
    """Return the accuracy of each group of the instances of all suites."""
    instances = [instance for scored in suites for instance in scored.suite.instances]
    return count(instances, [correct for scored in suites for correct in scored.correct(rule)], group_by)
