"""focat: context-aware machine translation by focused concatenation (Lupo, Dinarelli and Besacier, 2022)."""

from typing import TYPE_CHECKING

from focat._version import __version__
from focat.errors import FocatError

__all__ = ["FocatError", "InputSentence", "Model", "SubtitleOptions", "__version__", "load"]

if TYPE_CHECKING:
    from focat.api import Model, load
    from focat.translation.formats import SubtitleOptions
    from focat.translation.sentence import InputSentence
else:

    def __getattr__(name: str) -> object:
        """Import `focat.load` and `focat.Model`, which need PyTorch, when they are first used."""
        if name in ("Model", "load"):
            from focat import api

            return getattr(api, name)
        if name == "InputSentence":
            from focat.translation.sentence import InputSentence

            return InputSentence
        if name == "SubtitleOptions":
            from focat.translation.formats import SubtitleOptions

            return SubtitleOptions
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        """All public names, also those not imported yet, so that notebooks complete them."""
        return sorted({*globals(), *__all__})
