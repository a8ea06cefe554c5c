"""Keyword options of everything that translates, typed, so that a user's type checker knows them."""

from __future__ import annotations

from focat.choices import Formality, TargetContext
from focat.config.schema import SearchOptions


class TranslateOptions(SearchOptions, total=False):
    """Options of `focat.Model.translate`; None keeps the setting of the run."""

    context: TargetContext | None
    """Where target context comes from."""
    constrained: bool
    """Every window yields as many sentences as it has; if not, what follows the last `<S>` is kept (the paper)."""
    window: int | None
    """Sentences in a window."""
    formality: Formality | None
    """Form of address, formal or informal, of a model that was trained with `data.formality`."""
    lookahead: int | None
    """Sentences that may be read before the first translation is returned; 1 returns each at once."""
