"""Windows small enough to check by hand, and models small enough to try every combination of settings."""

from __future__ import annotations

from typing import Any, Literal

import torch

from focat.config.schema import ModelSettings, WindowSettings
from focat.corpus.vocabulary import END, PAD, SEPARATOR, SPECIALS
from focat.model import Transformer, model_class
from focat.windows.batch import PaddedSequences
from focat.windows.segments import segments_of

VOCABULARY = 20
MARIAN = {"activation": "silu", "output_bias": True, "start_embedding": "zero", "sinusoids": "marian"}


def window(*lengths: int, seed: int = 0) -> list[int]:
    """Tokens of a window whose sentences have these lengths, separators not counted."""
    generator = torch.Generator().manual_seed(seed)
    tokens: list[int] = []
    for length in lengths:
        tokens += [*torch.randint(SPECIALS, VOCABULARY, (length,), generator=generator).tolist(), SEPARATOR]
    return [*tokens[:-1], END]


def side(*windows: list[int], current: list[int] | None = None, pads: int = 0) -> PaddedSequences:
    """Padded windows; the last sentence is current unless told otherwise."""
    longest = max(map(len, windows)) + pads
    tokens = torch.tensor([tokens + [PAD] * (longest - len(tokens)) for tokens in windows])
    segments = segments_of(tokens)
    return PaddedSequences(tokens, segments, segments.amax(1) if current is None else torch.tensor(current))


def pair() -> tuple[PaddedSequences, PaddedSequences]:
    """Three windows of one to three sentences, source and target."""
    source = side(window(2, 1, 3, seed=1), window(3, seed=2), window(2, 2, seed=3))
    target = side(window(1, 2, 1, seed=4), window(2, seed=5), window(3, 2, seed=6))
    return source, target


def tiny(
    shift: int | Literal["avg-sequence"] = 0, windows: WindowSettings | None = None, seed: int = 0, **settings: Any
) -> Transformer:
    """A model of two layers in float64, without dropout, whose norms and biases are not the identity."""
    sizes = {"d_model": 16, "d_ff": 24, "heads": 4, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    torch.manual_seed(seed)
    chosen = ModelSettings(**{**sizes, **settings})
    model = model_class(chosen)(
        chosen,
        windows or WindowSettings(before=2, max_tokens=40),
        VOCABULARY,
        VOCABULARY,
        shift,
    )
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=0.5, std=0.5)
    return model.double().eval()
