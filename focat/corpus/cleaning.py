"""Removal of faulty sentence pairs from training corpora.

Whole pairs are removed, so the two sides of a document stay aligned; removals are counted by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from focat.config.data import CleaningSettings
from focat.corpus.document import Document
from focat.corpus.text_files import is_blank

REASONS = ("empty", "identical", "too long", "ratio")
"""Why a pair may be removed; a pair with several faults is counted under the first of them."""

RATIO_ALLOWANCE = 10
"""Characters added to both sides before their lengths are compared: `Yes.` may well become `Ja, natürlich.`"""


class Cleaner:
    """Cleans documents one after the other and counts what it removes."""

    def __init__(self, settings: CleaningSettings) -> None:
        self.settings = settings
        self.left_out = Counter[str]()
        """Pairs that readers have left out so far, by their reasons (see `read_documents`)."""
        self._seen = 0
        self._removed = dict.fromkeys(REASONS, 0)

    @property
    def read(self) -> int:
        """Pairs read so far, with those that readers have left out."""
        return self._seen + sum(self.left_out.values())

    @property
    def removed(self) -> dict[str, int]:
        """Pairs removed so far, by reason, with those that readers have left out."""
        return {**self._removed, **self.left_out}

    @property
    def kept(self) -> int:
        """Pairs kept so far."""
        return self.read - sum(self.removed.values())

    def clean_all(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Yield the cleaned documents; those that lose every pair are left out."""
        for document in documents:
            cleaned = self.clean(document)
            if cleaned is not None:
                yield cleaned

    def clean(self, document: Document) -> Document | None:
        """The document without its faulty pairs, or None if no pair is left."""
        source, target = [], []
        for source_sentence, target_sentence in zip(document.source, document.target, strict=True):
            fault = self.fault(source_sentence, target_sentence)
            if fault is None:
                source.append(source_sentence)
                target.append(target_sentence)
            else:
                self._removed[fault] += 1
        self._seen += len(document.source)
        return Document(document.name, source, target) if source else None

    def fault(self, source: str, target: str) -> str | None:
        """The first of the reasons to remove this pair, or None."""
        settings = self.settings
        if settings.empty and (is_blank(source) or is_blank(target)):
            return "empty"
        if settings.identical and source == target:
            return "identical"
        longer, shorter = len(source), len(target)
        if longer < shorter:
            longer, shorter = shorter, longer
        if settings.max_characters is not None and longer > settings.max_characters:
            return "too long"
        if settings.max_length_ratio is not None and (
            longer + RATIO_ALLOWANCE > settings.max_length_ratio * (shorter + RATIO_ALLOWANCE)
        ):
            return "ratio"
        return None
