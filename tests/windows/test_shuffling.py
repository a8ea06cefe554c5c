"""Random orders against numpy's own sorts of the same random numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from focat.windows import shuffling
from focat.windows.shuffling import chunks, shuffle, shuffle_groups
from focat.windows.splitmix64 import splitmix64
from tests.windows.corpora import many


@pytest.mark.usefixtures("small_chunks")
@many
@given(groups=st.lists(st.integers(0, 5), max_size=60), seed=st.integers(0, 9))
def test_groups_come_one_after_the_other_each_in_random_order(groups: list[int], seed: int) -> None:
    draws = splitmix64(len(groups), seed, 3).tolist()
    expected = sorted(range(len(groups)), key=lambda i: (groups[i], draws[i]))
    sizes = np.bincount(groups, minlength=6) if groups else np.zeros(6, np.int64)
    assert shuffle_groups(np.array(groups, np.uint8), sizes, seed, 3).tolist() == expected
    assert shuffle(len(groups), seed, 3).tolist() == np.argsort(splitmix64(len(groups), seed, 3)).tolist()


@pytest.mark.parametrize(("count", "groups"), [(100_000, 1), (100_000, 700), (50_000, 40_000), (3000, 70_000)])
def test_many_windows_and_many_groups(count: int, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Groups of all sizes, one of which has a third of all: several buckets for a group, and many groups to a chunk.
    monkeypatch.setattr(shuffling, "CHUNK", 1000)
    group = splitmix64(count, 5) % np.uint64(groups)
    group[::3] = groups // 2
    found = shuffle_groups(group, np.bincount(group.astype(np.int64), minlength=groups), 1, 2)
    assert np.array_equal(found, np.lexsort((splitmix64(count, 1, 2), group)))
    assert found.itemsize <= 4


def test_chunks_are_all_of_a_range_in_order() -> None:
    for count in (0, 1, shuffling.CHUNK, 2 * shuffling.CHUNK + 1):
        parts = [np.arange(count)[part] for part in chunks(count)]
        assert np.array_equal(np.concatenate([np.arange(0), *parts]), np.arange(count))
        assert all(len(part) <= shuffling.CHUNK for part in parts)
