"""Contrastive suites, read as they were published (docs/measuring-suites.md)."""

from focat.evaluation.suites.contrapro import ContextFiles, ContextFolder, contrapro_instances
from focat.evaluation.suites.ctxpro import contains_form, ctxpro_instances
from focat.evaluation.suites.discevalmt import discevalmt_instances
from focat.evaluation.suites.formats import own_instances, voita_instances
from focat.evaluation.suites.instance import Instance, Suite, contrasts
from focat.evaluation.suites.normalization import AS_PUBLISHED, TextNormalization
from focat.evaluation.suites.reading import context_files, contrastive_suite, read_suite, read_suites

__all__ = [
    "AS_PUBLISHED",
    "ContextFiles",
    "ContextFolder",
    "Instance",
    "Suite",
    "TextNormalization",
    "contains_form",
    "context_files",
    "contrapro_instances",
    "contrastive_suite",
    "contrasts",
    "ctxpro_instances",
    "discevalmt_instances",
    "own_instances",
    "read_suite",
    "read_suites",
    "voita_instances",
]
