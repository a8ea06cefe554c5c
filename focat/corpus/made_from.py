"""With which settings of data a store was made, so that nobody trains with others without noticing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from focat.config.corpora import AnyCorpus
from focat.config.data import DataSettings
from focat.config.explain import short_text
from focat.corpus.store import SPLITS, Store
from focat.errors import FocatError


def check_same_data(settings: DataSettings, store: Store) -> None:
    """Refuse to train with settings of data that the store was not made with, since they would change nothing.

    Settings that name no corpus to train on say nothing about the store. Files are compared by name alone.

    Raises:
        FocatError: it was made with others.
    """
    before = store.manifest.get("settings")  # earlier versions of focat did not write them
    if not settings.train or not isinstance(before, dict):
        return
    now = described_settings(settings)
    listed = {split: bool(getattr(settings, split)) for split in SPLITS}
    for name in sorted(now.keys() | before.keys()):
        old, new = before.get(name), now.get(name)
        if old != new and listed.get(name.partition(".")[0], True):
            raise FocatError(
                f"{store.path}: was prepared with data.{name} = {short_text(old)}, not {short_text(new)}; "
                "set it back, or prepare another store with these settings"
            )


def described_settings(settings: DataSettings) -> dict[str, Any]:
    """All settings of data by name, with the names of files in place of their paths."""
    described: dict[str, Any] = {}
    parts = [("", settings.model_dump(exclude={"store", *SPLITS}, exclude_none=True))]
    for split in SPLITS:
        corpora: tuple[AnyCorpus, ...] = getattr(settings, split)
        described[split] = f"{len(corpora)} {'corpus' if len(corpora) == 1 else 'corpora'}"
        parts += [(f"{split}.{i}.", corpus.model_dump(exclude_none=True)) for i, corpus in enumerate(corpora)]
    for prefix, fields in parts:
        for name, value in fields.items():
            inner = value.items() if isinstance(value, dict) else [("", value)]
            for key, setting in inner:
                plain = setting.name if isinstance(setting, Path) else setting
                described[f"{prefix}{name}.{key}".rstrip(".")] = plain
    found: dict[str, Any] = json.loads(json.dumps(described))  # as the manifest has it
    return found
