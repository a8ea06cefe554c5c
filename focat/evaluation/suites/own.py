"""Our own plain format for new suites: one JSON object to a line (docs/measuring-suites.md)."""

from __future__ import annotations

from collections.abc import Iterable

from focat.evaluation.suites.fields import Fields, json_type
from focat.evaluation.suites.instance import Instance

_KNOWN = {"source", "target", "candidates", "right", "distance", "phenomenon", "id", "ties", "forms", "labels"}


def own_instances(
    entries: Iterable[object], phenomenon: str = "", where: str = "suite", unit: str = "line"
) -> list[Instance]:
    """Read the objects of the lines."""
    return [_instance(Fields(f"{where}, {unit} {i + 1}", entry), phenomenon, i) for i, entry in enumerate(entries)]


def _instance(entry: Fields, phenomenon: str, number: int) -> Instance:
    for name in entry.content:
        if name not in _KNOWN:
            raise entry.error(f"unknown field `{name}`; what is yours alone goes under `labels`")
    source = entry.texts("source", least=1)
    target = entry.texts("target") if "target" in entry.content else []
    if len(target) > len(source) - 1:
        raise entry.error(f"`target` has {len(target)} context sentences but `source` only {len(source) - 1}")
    candidates = entry.texts("candidates", least=2)
    forms = entry.texts("forms") if entry.content.get("forms") is not None else None
    if forms is not None and len(forms) != len(candidates):
        raise entry.error(f"`forms` has {len(forms)} words for {len(candidates)} candidates")
    ties = entry.content.get("ties", "wrong")
    if ties not in ("wrong", "first"):
        raise entry.error(f"`ties` is {ties!r}; expected wrong or first")
    identifier = entry.content.get("id", number)
    if not isinstance(identifier, (int, str)):
        raise entry.error(f"`id` is {json_type(identifier)}; expected a number or a string")
    labels = entry.content.get("labels", {})
    if not isinstance(labels, dict):
        raise entry.error("`labels` must be an object")
    return Instance(
        source,
        target,
        candidates,
        right=entry.index("right", len(candidates)),
        distance=entry.distance("distance"),
        strict=ties == "wrong",
        phenomenon=entry.text("phenomenon") if "phenomenon" in entry.content else phenomenon,
        id=identifier,
        labels=labels,
        forms=forms,
    )
