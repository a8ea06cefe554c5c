"""Decoding at token level: requests in, hypotheses out (section 4 of the paper)."""

from focat.decoding.engine import Engine
from focat.decoding.requests import Hypothesis, Request

__all__ = ["Engine", "Hypothesis", "Request"]
