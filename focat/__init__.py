"""focat: context-aware machine translation by focused concatenation (Lupo, Dinarelli and Besacier, 2022)."""

from typing import TYPE_CHECKING, Any

from focat._version import __version__

if TYPE_CHECKING:
    from focat.api import Model, load

__all__ = ["Model", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """`focat.load` and `focat.Model`, which need PyTorch, are imported when they are asked for."""
    if name in ("Model", "load"):
        from focat import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
