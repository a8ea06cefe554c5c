"""Decoding: weights and windows in, translations out (section 4 of the paper)."""

from focat.decoding.requests import Hypothesis, Request
from focat.decoding.search import Searcher

__all__ = ["Hypothesis", "Request", "Searcher"]
