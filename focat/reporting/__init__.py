"""Figures into one page: tables, plots, examples, and how each was obtained."""
