"""A corpus in memory and untrained models that can read it."""

from __future__ import annotations

import random
from typing import Any, cast

from focat.analysis.corpora import AnalysedSystem
from focat.config import Settings
from focat.config.schema import WindowSettings
from focat.corpus.store import Split
from focat.corpus.tokenizer import Tokenizer
from focat.corpus.vocabulary import SPECIALS
from tests.model.examples import VOCABULARY, tiny
from tests.windows.corpora import build_split


def split(*documents: int, seed: int = 1) -> Split:
    """Documents of so many sentences, whose words are drawn at random."""
    draw = random.Random(seed)

    def sentence() -> list[int]:
        return [draw.randrange(SPECIALS, VOCABULARY) for _ in range(draw.randint(0, 4))]

    return build_split([[(sentence(), sentence()) for _ in range(count)] for count in documents])


def system(shift: Any = 3, windows: dict[str, Any] | None = None, **model: Any) -> AnalysedSystem:
    """An untrained system in float64."""
    settings = WindowSettings(max_tokens=40, **(windows or {"before": 2}))
    whole = Settings.model_validate({"windows": settings.model_dump()})
    return AnalysedSystem("tiny", tiny(shift, settings, seed=2, **model), whole, cast(Tokenizer, None))


VARIANTS: list[dict[str, Any]] = [
    {"norm": "pre"},
    {"norm": "post", "attention": "long-short", "positions": "rotary"},
    {"norm": "pre", "attention": "group", "global_layers": (1,), "segment_embeddings": "learned"},
    {"norm": "post", "attention": "gated-group", "global_layers": (1,)},
    {"norm": "post", "positions": "learned", "windows": {"before": 2, "after": 1}},
    {"norm": "pre", "shift": "avg-sequence", "windows": {"before": 3, "target_before": 1}},
]
