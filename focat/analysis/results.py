"""The results of `focat analyse` and `focat inspect`, as written to JSON and read again (docs/analysing.md)."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field, JsonValue

from focat.choices import Correction, DropSide
from focat.evaluation.results import Finding, JsonResult

Stack = Literal["encoder", "decoder", "cross"]
STACKS: tuple[Stack, ...] = get_args(Stack)
EntropyOrder = Literal["mean-then-entropy", "entropy-then-mean"]
"""Whether heads and layers are averaged before the entropy is taken, or entropies are averaged."""
ENTROPY_ORDERS: tuple[EntropyOrder, ...] = get_args(EntropyOrder)
Dropped = int | Literal["all"]
"""The distance of a sentence from the current one (1 is the one before it, -1 the one behind), or all of them."""

ANALYSIS_KIND: Literal["focat analysis"] = "focat analysis"


class HeadAttention(JsonResult):
    """Attention of one head."""

    head: int
    share: float | None
    entropy: float


class LayerAttention(JsonResult):
    """Attention of one layer, averaged over its heads."""

    layer: int
    share: float | None
    entropy: dict[EntropyOrder, float]
    heads: tuple[HeadAttention, ...]


class StackAttention(JsonResult):
    """Attention of one stack of layers."""

    queries: int
    current_queries: int
    share_by_distance: dict[str, float]
    layers: tuple[LayerAttention, ...]


class AttentionResults(JsonResult):
    """How much attention stays on the current sentence, and how widely attention is spread (nats)."""

    windows: int
    windows_with_context: int
    share: dict[Stack, float | None]
    entropy: dict[EntropyOrder, dict[str, float]]
    """By order and stack; `self` is encoder and decoder, `all` all three."""
    stacks: dict[Stack, StackAttention]
    gates: dict[str, float] = Field(default_factory=dict)
    """Of systems with gates: how much of its own representation a token of a current sentence keeps, by the name of
    the gate."""


class LossMeans(JsonResult):
    """Losses per token, and the loss of the current sentence over that of its context."""

    current: float
    context: float | None
    ratio: float | None


class CorpusLosses(JsonResult):
    """Losses of a trained system on a corpus, without label smoothing and with it."""

    windows: int
    current: float
    context: float | None
    ratio: float | None
    smoothed: LossMeans


class LoggedLosses(JsonResult):
    """Losses that training logged at one update; only those of the log are set."""

    update: int
    epochs: float | None = None
    minutes: float | None = None
    current: float | None = None
    context: float | None = None
    ratio: float | None = None
    full: float | None = None
    current_nll: float | None = None
    best: bool | None = None


class LossCurves(JsonResult):
    """The losses that training logged, on training batches and on the development set."""

    train: list[LoggedLosses]
    validation: list[LoggedLosses]


class LossResults(JsonResult):
    """Losses at the end of training, and along it."""

    end: CorpusLosses
    curves: LossCurves


class WindowSizeResult(JsonResult):
    """What was measured with windows of one size."""

    size: int
    seen: bool
    """Whether training had windows of this size."""
    shortened: int
    loss: float
    accuracy: dict[str, float] = Field(default_factory=dict)
    """By phenomenon, in per cent."""
    bleu: float | None = None


class RobustnessResults(JsonResult):
    """Loss, contrastive accuracy and BLEU with windows of other sizes than in training."""

    trained: int
    sizes: tuple[WindowSizeResult, ...]
    bleu: str | None = None
    """Signature of BLEU, where it was measured."""


class DroppedSentenceResult(JsonResult):
    """What the current sentence loses when a context sentence is dropped."""

    sides: DropSide
    dropped: Dropped
    windows: int
    per_token: float
    """Log-probability with the sentence minus without it."""
    per_sentence: float
    better_with_it: float
    """Share of windows whose current sentence is more likely with it."""
    p: float
    corrected: float
    stars: str


class PhenomenonEffect(JsonResult):
    """Accuracy and margin on the instances of a phenomenon, without a context sentence and with it."""

    phenomenon: str
    distance: int | None
    """Of the sentence that decides; None for all instances."""
    sides: DropSide | None
    """None where nothing was dropped."""
    dropped: Dropped | None
    instances: int
    accuracy: float
    accuracy_with_it: float
    margin: float
    margin_with_it: float
    margin_change: float


class ContextResults(JsonResult):
    """What each context sentence contributes, over a corpus and by phenomenon."""

    dropped: tuple[DroppedSentenceResult, ...] = ()
    phenomena: tuple[PhenomenonEffect, ...] = ()


class SystemAnalysis(JsonResult):
    """All analyses of one system; those that were not run are not set."""

    run: str
    weights: str
    weights_sha256: str
    windows: dict[str, JsonValue]
    discount: JsonValue
    shift: JsonValue
    windows_shortened: int
    sentences_too_long: int
    attention: AttentionResults | None = None
    losses: LossResults | None = None
    robustness: RobustnessResults | None = None
    context: ContextResults | None = None


class AnalysedFile(JsonResult):
    """A text file and its digest."""

    name: str
    sha256: str


class CorpusResult(JsonResult):
    """Which documents were analysed: a split of a token store, or two files."""

    source: AnalysedFile | None = None
    target: AnalysedFile | None = None
    document_ids: AnalysedFile | None = None
    split: str | None = None
    sha256: str | None = None
    limit: int | None = None
    sentences: int
    documents: int

    @property
    def name(self) -> str:
        """The split, or the name of the source file."""
        return self.split or (self.source.name if self.source else "")


class AnalysedSuite(JsonResult):
    """A suite whose instances were used."""

    name: str
    sha256: str
    instances: int
    rule: str


class SignificanceSetup(JsonResult):
    """How differences were tested."""

    trials: int
    seed: int
    correction: Correction


class AnalysisResults(JsonResult):
    """What `focat analyse --json` writes."""

    kind: Literal["focat analysis"]
    focat: str
    corpus: CorpusResult
    suites: tuple[AnalysedSuite, ...] = ()
    significance: SignificanceSetup
    systems: dict[str, SystemAnalysis]
    findings: tuple[Finding, ...] = ()


class ItemResult(JsonResult):
    """The figures of one window, or of one instance of a suite: a line of `focat analyse --items`."""

    system: str
    sentence: int = 0
    document: int = 0
    suite: str = ""
    id: int | str = 0
    phenomenon: str = ""
    distance: int | None = None
    figures: dict[str, float]


class LengthResult(JsonResult):
    """Lengths in tokens."""

    mean: float
    longest: int
    histogram: dict[str, int]


class SuspiciousPair(JsonResult):
    """A sentence pair that is unlikely to be a translation."""

    pair: int
    why: str
    source: str
    target: str


class InspectionResults(JsonResult):
    """What `focat inspect --json` writes about a split of a token store."""

    store: str
    split: str
    languages: tuple[str, str]
    vocabularies: tuple[int, int]
    documents: int
    pairs: int
    read: int
    removed: dict[str, int]
    sentence_lengths: dict[str, LengthResult]
    """By side, source and target."""
    window_lengths: dict[str, LengthResult]
    windows_shortened: int
    sentences_too_long: int
    suspicious: tuple[SuspiciousPair, ...]
