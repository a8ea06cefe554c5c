"""Cleaning against a slow, obvious second version of itself, and each rule on pairs judged by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focat.config.data import CleaningSettings
from focat.corpus.cleaning import REASONS, Cleaner
from focat.corpus.document import Document

EVERY_RULE = CleaningSettings(identical=True, max_characters=30, max_length_ratio=2)

# Few letters and many lengths, so that every rule meets pairs on both sides of its limit.
sentences = st.text("ab ", max_size=40)
documents = st.lists(st.lists(st.tuples(sentences, sentences), max_size=6), max_size=4).map(
    lambda texts: [
        Document(str(index), [source for source, _ in pairs], [target for _, target in pairs])
        for index, pairs in enumerate(texts)
    ]
)
settings = st.builds(
    CleaningSettings,
    empty=st.booleans(),
    identical=st.booleans(),
    max_characters=st.none() | st.integers(1, 40),
    max_length_ratio=st.none() | st.floats(1, 5, exclude_min=True),
)


def faults_one_by_one(settings: CleaningSettings, source: str, target: str) -> list[str]:
    """Every fault of a pair, in the order of the reasons."""
    lengths = len(source) + 10, len(target) + 10
    found = {
        "empty": settings.empty and "" in (source.strip(), target.strip()),
        "identical": settings.identical and source == target,
        "too long": settings.max_characters is not None
        and any(len(side) > settings.max_characters for side in (source, target)),
        "ratio": settings.max_length_ratio is not None and max(lengths) > settings.max_length_ratio * min(lengths),
    }
    return [reason for reason in REASONS if found[reason]]


@given(documents=documents, settings=settings)
def test_cleaning_equals_its_definition(documents: list[Document], settings: CleaningSettings) -> None:
    expected, removed = [], dict.fromkeys(REASONS, 0)
    for document in documents:
        kept = []
        for pair in zip(document.source, document.target, strict=True):
            faults = faults_one_by_one(settings, *pair)
            if faults:
                removed[faults[0]] += 1
            else:
                kept.append(pair)
        if kept:
            expected.append(Document(document.name, [pair[0] for pair in kept], [pair[1] for pair in kept]))

    cleaner = Cleaner(settings)
    assert list(cleaner.clean_all(documents)) == expected
    assert cleaner.removed == removed
    assert cleaner.read == sum(len(document.source) for document in documents)
    assert cleaner.kept == sum(len(document.source) for document in expected)
    assert cleaner.kept + sum(cleaner.removed.values()) == cleaner.read


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("Yes.", "Ja.", None),
        ("", "Ja.", "empty"),
        ("Yes.", " \u3000\t", "empty"),
        ("", "", "empty"),  # identical as well: the first reason counts
        ("Taxi", "Taxi", "identical"),
        ("Taxi", "taxi", None),
        ("x" * 30, "y" * 30, None),
        ("x" * 31, "y" * 31, "too long"),
        ("x", "y" * 31, "too long"),  # out of proportion as well
        ("x", "y" * 12, None),  # 22 is twice 11
        ("x", "y" * 13, "ratio"),
        ("y" * 13, "x", "ratio"),
    ],
)
def test_each_rule(source: str, target: str, reason: str | None) -> None:
    assert Cleaner(EVERY_RULE).fault(source, target) == reason


def test_by_default_only_empty_pairs_go() -> None:
    cleaner = Cleaner(CleaningSettings())
    document = Document("d", ["", "same", "x" * 5000, "x"], ["leer", "same", "y", ""])
    assert cleaner.clean(document) == Document("d", ["same", "x" * 5000], ["same", "y"])
    assert cleaner.removed == {"empty": 2, "identical": 0, "too long": 0, "ratio": 0}


def test_a_document_that_loses_every_pair_disappears() -> None:
    cleaner = Cleaner(CleaningSettings())
    assert cleaner.clean(Document("d", ["", "x"], ["leer", " "])) is None
    assert (cleaner.read, cleaner.kept) == (2, 0)
