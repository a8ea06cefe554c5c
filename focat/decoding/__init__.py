"""Decoding: weights and windows in, translations out (section 4 of the paper)."""

from focat.decoding.search import Hypothesis, Request, Searcher

__all__ = ["Hypothesis", "Request", "Searcher"]
