"""Settings of systems that encode context sentences apart: `model.context` and `model.second_pass`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from focat.config.sections import SettingsSection

_PLACES = {
    "shared": ("encoder-top", "global-layer", "decoder"),
    "last-own": ("encoder-last",),
    "separate": ("encoder-top", "encoder-last", "every-layer", "decoder"),
}


class ContextSettings(SettingsSection):
    """Attention to context sentences that are encoded apart from the current one, and a gate that mixes what it finds
    into the current sentence: the multi-encoder systems that the paper compares with. Sentences of a window are encoded
    one by one; `windows.target_before` is 0, except with `at: decoder`, `at: global-layer` and `of`. Where a window has
    no context, the gate is closed, except with `at: global-layer`."""

    encoder: Literal["shared", "last-own", "separate"] = "shared"
    """What encodes the context: the encoder of the source; its layers but for the last, which the context has for
    itself; or an encoder of its own, for all context sentences joined."""
    layers: PositiveInt = 1
    """With `encoder: separate`, its layers."""
    at: Literal["encoder-top", "global-layer", "encoder-last", "every-layer", "decoder"] = "encoder-top"
    """Where the current sentence attends to the context: after the encoder; in one more layer of it, which attends to
    the whole window, as each sentence of it does; in its last layer, beside self-attention; in every layer of encoder
    and decoder, after self-attention; or in every layer of the decoder, beside the attention to the source."""
    hierarchical: bool = False
    """With `at: encoder-top`, attend to the words of each context sentence, then to the sentences, and add a
    feed-forward block."""
    gate: Literal["feature", "scalar"] = "feature"
    """Mix with one weight for each feature of a token, or one for the whole token."""
    of: Literal["source", "target", "both"] = "source"
    """With `hierarchical`, the sentences that are attended to: those of the source, after the encoder; their
    translations, after the decoder, which translates each sentence alone and reuses the translations before; or both.
    With translations, the target has as many sentences as the source."""
    detach: bool = False
    """With `hierarchical`, no gradient flows through the context and the queries of its attention."""

    @model_validator(mode="after")
    def _parts_fit(self) -> ContextSettings:
        if self.at not in _PLACES[self.encoder]:
            raise ValueError(f"encoder: {self.encoder} needs at: {' or '.join(_PLACES[self.encoder])}, not {self.at}")
        if self.layers != 1 and self.encoder != "separate":
            raise ValueError("layers needs encoder: separate")
        if self.hierarchical and self.at != "encoder-top":
            raise ValueError("hierarchical needs at: encoder-top")
        for name, default in (("of", "source"), ("detach", False)):
            if getattr(self, name) != default and not self.hierarchical:
                raise ValueError(f"{name} needs hierarchical: true")
        return self


class SecondPassSettings(SettingsSection):
    """CADec (Voita et al., 2019): a sentence-level system drafts, and a second decoder, which sees source and target of
    the context and the draft, writes the translation. Context sentences are encoded one by one; translations before
    the current one are reused."""

    layers: PositiveInt = 6
    """Layers of the second decoder."""
    reference_drafts: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of batches whose drafts are references with 20 % random words; the others are drawn from the system that
    drafts, and have 10 % random words."""
