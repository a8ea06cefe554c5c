"""focat: context-aware machine translation by focused concatenation (Lupo, Dinarelli and Besacier, 2022)."""

__version__ = "0.1.0"
