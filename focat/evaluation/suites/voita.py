"""The consistency suites of Voita et al. (2019), En→Ru: deixis, lexical cohesion, ellipsis of inflections and verbs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from focat.corpus.document import SENTENCE_BREAK
from focat.evaluation.suites.fields import Fields
from focat.evaluation.suites.instance import Instance


def voita_instances(entries: Sequence[object], phenomenon: str = "", where: str = "suite") -> list[Instance]:
    """Read the published JSON: candidates are whole fragments that differ in their last sentence only."""
    return [_instance(Fields(f"{where}, entry {i + 1}", entry), phenomenon, i) for i, entry in enumerate(entries)]


def phenomenon_of(name: str) -> str:
    """Return the phenomenon that a published file is named after: deixis, from deixis_test."""
    return re.sub(r"[_.-](test|dev|valid)$", "", name)


def _instance(entry: Fields, phenomenon: str, number: int) -> Instance:
    source = entry.text("src").split(SENTENCE_BREAK)
    candidates = [text.split(SENTENCE_BREAK) for text in entry.texts("dst", least=2)]
    context = candidates[0][:-1]
    for i, candidate in enumerate(candidates):
        if len(candidate) != len(source):
            raise entry.error(f"`dst[{i}]` has {len(candidate)} sentences but `src` has {len(source)}")
        if candidate[:-1] != context:
            raise entry.error(f"`dst[{i}]` differs from `dst[0]` before the last sentence")
    return Instance(
        source,
        context,
        [candidate[-1] for candidate in candidates],
        right=entry.index("true_ind", len(candidates)),
        distance=entry.distance("ctx_dist"),
        strict=False,
        phenomenon=phenomenon,
        id=number,
    )
