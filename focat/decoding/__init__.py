"""Decoding: weights and windows in, translations out (section 4 of the paper)."""

from focat.decoding.engine import Searcher
from focat.decoding.requests import Hypothesis, Request

__all__ = ["Hypothesis", "Request", "Searcher"]
