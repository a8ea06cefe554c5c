"""Every setting of focat, typed, validated and documented where it is declared; those of corpora are in `data`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator
from typing_extensions import TypedDict

from focat.choices import Sinusoids, TargetContext
from focat.config.context import ContextSettings, SecondPassSettings
from focat.config.data import DataSettings
from focat.config.sections import FilePath, SettingsSection
from focat.config.windows import MAX_WINDOW as MAX_WINDOW
from focat.config.windows import WindowSettings as WindowSettings

Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]


_PRESET_SETTINGS = ("d_model", "d_ff", "encoder_layers", "decoder_layers", "heads", "dropout")
PRESETS: dict[str, dict[str, Any]] = {
    name: dict(zip(_PRESET_SETTINGS, values, strict=True))
    for name, values in {
        "tiny": (64, 256, 2, 2, 4, 0.0),
        "small": (256, 1024, 4, 4, 4, 0.1),
        "base": (512, 2048, 6, 6, 8, 0.3),
        "big": (1024, 4096, 6, 6, 16, 0.3),
    }.items()
}


class ModelSettings(SettingsSection):
    """The Transformer and what the paper adds to it. A preset fills what is not given."""

    preset: Literal["tiny", "small", "base", "big"] = "base"
    """Sizes to start from; `base` and `big` are those of Vaswani et al. (2017)."""
    d_model: PositiveInt = 512
    """Width of the representations."""
    d_ff: PositiveInt = 2048
    """Width inside the feed-forward blocks."""
    encoder_layers: PositiveInt = 6
    """Layers of the encoder."""
    decoder_layers: PositiveInt = 6
    """Layers of the decoder."""
    heads: PositiveInt = 8
    """Attention heads; they divide the width."""
    dropout: Rate = 0.3
    """Dropout on embeddings and on what each block adds."""
    attention_dropout: Rate = 0.0
    """Dropout on attention weights."""
    activation_dropout: Rate = 0.0
    """Dropout inside the feed-forward blocks."""
    word_dropout: Rate = 0.0
    """Share of the current sentence's source words that training masks, so that the model uses the context for them
    (CoWord dropout of Fernandes et al., 2021)."""
    word_dropout_in: Literal["current", "window"] = "current"
    """`window` masks words of the whole source and of what the decoder reads instead (Bao et al., 2021)."""
    norm: Literal["post", "pre"] = "post"
    """Layer normalisation after each block (the paper) or before it."""
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "relu"
    """Non-linearity of the feed-forward blocks."""
    embeddings: Literal["separate", "tied", "shared"] = "tied"
    """`tied`: target embedding and output projection are one matrix; `shared`: the source embedding too, which needs a
    joint vocabulary; `separate`: three matrices."""
    output_bias: bool = False
    """Add a bias to the logits, one number for each token of the target vocabulary, as Marian does."""
    start_embedding: Literal["learned", "zero"] = "learned"
    """Embedding of the decoder's start symbol: a row of the target embedding, or zero, as in Marian."""
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    """Position encoding."""
    sinusoids: Sinusoids = "fairseq"
    """Frequencies of sinusoidal positions at width d: 1/10000^(i/(d/2−1)) as in fairseq and in Marian itself,
    or 1/10000^(i/(d/2)) as in the Marian class of Hugging Face and in CTranslate2's conversions of Marian."""
    position_offset: NonNegativeInt = 0
    """Sinusoidal position of the first token; 0 in Marian, padding index + 1 in fairseq and M2M100."""
    shift: NonNegativeInt | Literal["avg-corpus", "avg-sequence"] = 0
    """Segment shift: every sentence of a window starts this many positions later than it would. `avg-corpus` is the
    mean sentence length of the training corpus, `avg-sequence` that of each window's source."""
    segment_embeddings: Literal["none", "sinusoidal", "learned", "one-hot"] = "none"
    """Embedding of a sentence's distance from the current one, added to its tokens."""
    segment_embeddings_at: Literal["input", "every-layer"] = "input"
    """Add segment embeddings once, or again at the input of every layer (persistent)."""
    attention: Literal["full", "long-short", "group", "gated-group"] = "full"
    """Attention mask: every token attends to the whole window; some heads only to their own sentence (Zhang et al.,
    2020); or all heads only to their own sentence, except in chosen layers (after Bao et al., 2021), which with
    `gated-group` have a second attention for the window, and a gate that mixes what the two find (G-Transformer)."""
    local_heads: PositiveInt | None = None
    """With `attention: long-short`, how many heads attend only to their own sentence; half of them if not given."""
    global_layers: tuple[NonNegativeInt, ...] | None = None
    """With `attention: group` or `gated-group`, the layers that attend to the whole window, counted from 0; the top two
    if not given."""
    decoder_global_layers: tuple[NonNegativeInt, ...] | None = None
    """The same of the decoder, to its own tokens and to the source; those of `global_layers` if not given."""
    context: ContextSettings | None = None
    """Attention to context sentences that are encoded apart; if not given, windows are encoded whole (the paper)."""
    second_pass: SecondPassSettings | None = None
    """A second decoder, which writes the translation again in its context (CADec)."""

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {**PRESETS.get(str(given.get("preset", "base")), {}), **given}

    @model_validator(mode="after")
    def _sizes_fit(self) -> ModelSettings:
        if self.d_model % (2 * self.heads):
            raise ValueError(f"d_model {self.d_model} must be a multiple of twice the number of heads, {self.heads}")
        if self.local_heads is not None and self.attention != "long-short":
            raise ValueError("local_heads needs attention: long-short")
        if self.local_heads is not None and self.local_heads >= self.heads:
            raise ValueError(
                f"local_heads is {self.local_heads} of {self.heads} heads: one at least must attend to the whole window"
            )
        for name in ("global_layers", "decoder_global_layers"):
            if getattr(self, name) is not None and self.attention not in ("group", "gated-group"):
                raise ValueError(f"{name} needs attention: group or gated-group")
        if self.word_dropout_in == "window" and self.segment_embeddings != "none":
            raise ValueError("word_dropout_in: window needs segment_embeddings: none")
        for name, default in (("sinusoids", "fairseq"), ("position_offset", 0)):
            if getattr(self, name) != default and self.positions != "sinusoidal":
                raise ValueError(f"{name}: {getattr(self, name)} needs positions: sinusoidal")
        whole: dict[str, str | int] = {
            "shift": 0,
            "segment_embeddings": "none",
            "attention": "full",
            "word_dropout_in": "current",
        }
        for name, needed in whole.items():
            if (self.context or self.second_pass) and getattr(self, name) != needed:
                raise ValueError(
                    f"{name}: {getattr(self, name)} is for windows that are encoded whole, without context or "
                    "second_pass"
                )
        return self


class DiscountSchedule(SettingsSection):
    """A discount that moves in a straight line from one value to another, and stays there."""

    start: Share = 1.0
    """Discount until the movement begins."""
    end: Share = 0.01
    """Discount after the movement."""
    begin_at: Share = 0.0
    """When the movement begins, as a share of the training budget."""
    end_at: Share = 0.5
    """When it is over."""

    @model_validator(mode="after")
    def _in_order(self) -> DiscountSchedule:
        if self.end_at <= self.begin_at:
            raise ValueError(f"end_at is {self.end_at}: it must come after begin_at, {self.begin_at}")
        return self


class ObjectiveSettings(SettingsSection):
    """What training minimises: equation 2 of the paper on the label-smoothed loss."""

    discount: Share | DiscountSchedule = 1.0
    """CD: the weight of the context's tokens; the current sentence's is 1. 1 is plain concatenation, the paper's
    choice is 0.01. Or a schedule: `{start, end, begin_at, end_at}`."""
    label_smoothing: Rate = 0.1
    """Probability mass spread evenly over the vocabulary."""
    chunk_tokens: PositiveInt = 16_384
    """Tokens whose logits exist at the same time."""


class BudgetSettings(SettingsSection):
    """When training is over: at whichever limit is reached first."""

    updates: PositiveInt | None = None
    """Updates of the weights."""
    epochs: PositiveInt | None = None
    """Passes over the corpus."""
    minutes: PositiveFloat | None = None
    """Minutes of training, over all sessions of a resumed run."""

    @model_validator(mode="after")
    def _some_limit(self) -> BudgetSettings:
        if self.updates is None and self.epochs is None and self.minutes is None:
            raise ValueError("give at least one of updates, epochs and minutes")
        return self


class TrainingSettings(SettingsSection):
    """The optimizer, its schedule, and what is kept."""

    output_dir: FilePath = Path("run")
    """Folder of the run: settings, tokenizer, checkpoints, log."""
    seed: int = 1
    """Seed of weights, dropout and the order of windows."""
    init_from: FilePath | None = None
    """Another run (or its checkpoint) whose weights are the starting point."""
    freeze: Literal["none", "base"] = "none"
    """`base` trains what `model.context`, `model.second_pass` or `model.attention: gated-group` adds, and nothing else:
    the weights of `init_from` stay as they are."""
    frozen_dropout: bool = False
    """Whether dropout acts in what is frozen."""
    budget: BudgetSettings = BudgetSettings(updates=100_000)
    """When training is over."""
    batch_tokens: PositiveInt = 32_768
    """Tokens of a batch on the longer side, padding included."""
    gradient_accumulation: PositiveInt = 1
    """Batches whose gradients are added before each update, over all processes together."""
    optimizer: Literal["adam", "muon"] = "adam"
    """Adam (the paper), or Muon, which needs fewer updates: it trains the matrices of layers, and Adam all else."""
    learning_rate: PositiveFloat = 1e-3
    """Highest learning rate."""
    schedule: Literal["inverse-sqrt", "cosine", "linear"] = "inverse-sqrt"
    """Learning rate after the warm-up: the paper's decay, or one that reaches zero at the end of the budget."""
    warmup: NonNegativeInt = 4000
    """Updates until the learning rate is highest."""
    warmup_from: NonNegativeFloat = 1e-7
    """Learning rate that the warm-up starts from."""
    betas: tuple[Rate, Rate] = (0.9, 0.98)
    """Adam's decay rates of the means of gradients and of their squares."""
    epsilon: PositiveFloat = 1e-8
    """Adam's epsilon, against division by zero."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled weight decay."""
    clip_norm: NonNegativeFloat = 0.0
    """Largest norm of the gradient; 0 never clips."""
    ema: Rate = 0.0
    """Decay of a moving average of the weights, kept beside them and used for validation; 0 keeps none."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """`auto` is bfloat16 on GPUs that have it, float32 elsewhere."""
    compile: Literal["auto", "always", "never"] = "auto"
    """Compile the layers where windows are padded; `auto` does on GPUs."""
    packing: Literal["auto", "always", "never"] = "auto"
    """Put the windows of a batch one behind the other instead of padding them to one length, and draw them in random
    order instead of by length; `auto` does on GPUs. Decided when training starts."""
    device: str = "auto"
    """`auto` takes a GPU if there is one; or `cpu`, `cuda`, `cuda:1`."""
    validate_every: PositiveInt | None = None
    """Validate every so many updates; at the end of each epoch if not given."""
    criterion: Literal["current", "discounted", "full", "bleu"] = "current"
    """Criterion for the best checkpoint: the loss of the current sentence, of the discounted or the plain window,
    or BLEU of greedy translations of a sample."""
    patience: PositiveInt | None = None
    """Stop after this many validations without improvement; never if not given."""
    keep_checkpoints: PositiveInt = 5
    """Checkpoints to keep, besides the best: those nearest to it, which averaging needs, and the last."""
    save_minutes: PositiveFloat = 10.0
    """Save at least this often, besides at each validation."""
    log_every: PositiveInt = 50
    """Write a line of figures every so many updates."""
    log_samples: NonNegativeInt = 3
    """Validation sentences to translate and show at each validation."""


class SearchSettings(SettingsSection):
    """How a window is decoded."""

    beam: PositiveInt = 4
    """Hypotheses kept at each step; 1 is greedy."""
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 0.6
    """Scores are divided by length to this power."""
    nbest: PositiveInt = 1
    """Translations to return for each window, the best first."""
    max_length_ratio: PositiveFloat = 2.0
    """A translation may have this many times the tokens of its source, and `max_length_offset` more."""
    max_length_offset: NonNegativeInt = 20
    """See `max_length_ratio`."""
    sample: bool = False
    """Draw each token at random by its probability, `nbest` times for each window, instead of beam search."""
    temperature: PositiveFloat = 1.0
    """With `sample`, logits are divided by this: below 1 likely tokens become likelier still."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """With `sample`, draw from the likeliest tokens that together have this probability."""
    seed: int = 1
    """With `sample`, the seed of the draws."""
    batch_tokens: PositiveInt | None = None
    """Tokens of a batch: the longest source of its windows, times hypotheses; chosen for the device if not given."""
    int8: bool = False
    """On a CPU, compute with eight-bit integers: faster, and a little less exact."""
    bfloat16: bool = False
    """On a CPU that has bfloat16, compute in it: faster than float32, and more exact than `int8`."""

    @model_validator(mode="after")
    def _enough_hypotheses(self) -> SearchSettings:
        if self.nbest > self.beam and not self.sample:
            raise ValueError(
                f"nbest is {self.nbest} but only {self.beam} hypotheses are kept: set beam to {self.nbest}"
            )
        if self.int8 and self.bfloat16:
            raise ValueError("int8 and bfloat16 exclude each other; choose one")
        return self

    @property
    def hypotheses(self) -> int:
        """Hypotheses per window that are decoded at the same time."""
        return self.nbest if self.sample else self.beam


SAMPLING_SETTINGS = ("temperature", "top_p", "seed")  # of no effect unless `sample` is on


class SearchOptions(TypedDict, total=False):
    """Settings of the search that a call may change, as in `SearchSettings`; None keeps the setting of the run."""

    beam: int | None
    length_penalty: float | None
    nbest: int | None
    max_length_ratio: float | None
    max_length_offset: int | None
    sample: bool | None
    temperature: float | None
    top_p: float | None
    seed: int | None
    batch_tokens: int | None
    int8: bool | None
    bfloat16: bool | None


class DecodingSettings(SearchSettings):
    """How documents are translated."""

    target_context: TargetContext = "reuse"
    """Target context: the translations of earlier windows (`reuse`), decoded again with each window (`regenerate`, the
    paper), or none."""
    max_line_bytes: PositiveInt = 16 << 20
    """Refuse a file with a longer line, or with more text between the timings of two cues: it would fill the memory."""


class Settings(SettingsSection):
    """All settings of a system, as `focat config` shows them."""

    data: DataSettings = DataSettings()
    """Corpora and tokens."""
    windows: WindowSettings = WindowSettings()
    """Context."""
    model: ModelSettings = ModelSettings()
    """Architecture."""
    objective: ObjectiveSettings = ObjectiveSettings()
    """Loss."""
    training: TrainingSettings = TrainingSettings()
    """Optimisation."""
    decoding: DecodingSettings = DecodingSettings()
    """Translation."""

    @model_validator(mode="after")
    def _sections_agree(self) -> Settings:
        if self.model.embeddings == "shared" and not self.data.tokenizer.joint:
            raise ValueError("model.embeddings: shared needs one vocabulary, data.tokenizer.joint: true")
        context = self.model.context
        both_sides = self.model.second_pass or (context and context.of != "source")
        sees_target = both_sides or (context and context.at in ("decoder", "global-layer"))
        if context and self.windows.target != (0, 0) and not sees_target:
            raise ValueError(f"model.context at {context.at} needs windows.target_before: 0")
        added = self.model.context or self.model.second_pass
        if added and self.training.packing == "always":
            raise ValueError("model.context and model.second_pass need training.packing: auto or never")
        if self.model.attention_dropout and self.training.packing == "always":
            raise ValueError("model.attention_dropout needs training.packing: auto or never")
        if self.training.freeze == "base" and not added and self.model.attention != "gated-group":
            gated = "model.context, model.second_pass or model.attention: gated-group"
            raise ValueError(f"training.freeze: base leaves nothing to train without {gated}")
        if both_sides and (self.windows.after or self.windows.target[0] != self.windows.before):
            name = "second_pass" if self.model.second_pass else "context.of"
            raise ValueError(f"model.{name} needs as many sentences on both sides, and none after the current one")
        return self
