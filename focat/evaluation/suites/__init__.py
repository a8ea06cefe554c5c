"""Contrastive suites, read as they were published (docs/measuring-suites.md)."""

from focat.evaluation.suites.contrapro import ContextFiles, ContextFolder, contrapro_instances
from focat.evaluation.suites.formats import own_instances, voita_instances
from focat.evaluation.suites.instance import Instance, Suite
from focat.evaluation.suites.normalization import AS_PUBLISHED, TextNormalization
from focat.evaluation.suites.reading import context_files, read_suite, read_suites

__all__ = [
    "AS_PUBLISHED",
    "ContextFiles",
    "ContextFolder",
    "Instance",
    "Suite",
    "TextNormalization",
    "context_files",
    "contrapro_instances",
    "own_instances",
    "read_suite",
    "read_suites",
    "voita_instances",
]
