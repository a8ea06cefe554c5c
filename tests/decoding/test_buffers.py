"""Static buffers: few shapes, the least recently used evicted first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from focat.decoding import buffers
from focat.decoding.buffers import BucketShape, BufferPool, round_to_bucket
from focat.decoding.engine import default_batch_tokens
from tests.decoding.slow_search import small


def test_few_shapes() -> None:
    numbers = (1, 7, 8, 9, 16, 17, 100, 257, 300, 512)
    assert [round_to_bucket(n) for n in numbers] == [1, 7, 8, 10, 16, 20, 112, 320, 320, 512]
    assert [round_to_bucket(n, 16) for n in (1, 16, 17, 100, 129)] == [16, 16, 32, 112, 160]
    assert BucketShape.for_batch(300, 55, 1, 70, beam=4) == BucketShape(320, 64, 384, 80)
    assert BucketShape.for_batch(300, 55, 40, 30, beam=4) == BucketShape(320, 64, 192, 32)


def test_searches_with_and_without_phrases_are_kept_apart() -> None:
    """A step with phrases does more, also for windows that have none."""
    plain = BucketShape(10, 32, 64, 16)
    with_phrases = replace(plain, phrases=16)
    assert plain.fits(plain)
    assert with_phrases.fits(replace(plain, phrases=8))
    assert not with_phrases.fits(plain)
    assert not plain.fits(with_phrases)


def test_smallest_fitting_buffers_or_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_MAX_BUFFERS", 3)
    made = []

    def allocate(shape: BucketShape) -> Any:
        made.append(shape)
        return shape

    pool = BufferPool(allocate, max_area=10_000)
    large, small_, other = BucketShape(10, 32, 64, 16), BucketShape(2, 32, 64, 16), BucketShape(10, 64, 64, 16)
    found: list[Any] = [pool.smallest_fitting(large)]
    found.append(pool.smallest_fitting(replace(large, windows=8, source=20)))  # nearly as large
    found.append(pool.smallest_fitting(small_))  # much smaller
    found.append(pool.smallest_fitting(replace(other, windows=9, columns=48)))  # longer in one way: the union of both
    found.append(pool.smallest_fitting(replace(large, windows=9)))  # the smallest that fits
    assert found == [large, large, small_, other, large]
    assert made == [large, small_, other]
    third: Any = pool.get_or_create(replace(large, windows=3))
    assert third.windows == 3
    assert len(pool) == 3
    assert pool.get_or_create(small_) in made[4:]  # it had been evicted, as the least recently used
    assert pool.get_or_create(large) not in made[4:]
    huge = BucketShape(100, 64, 64, 16)
    assert pool.get_or_create(huge) == huge  # type: ignore[comparison-overlap]
    assert len(pool) == 1  # no other fits beside it


def test_other_buffers_are_evicted_where_memory_is_short() -> None:
    """As when another process has taken what was free a moment ago."""

    def allocate(shape: BucketShape) -> Any:
        if len(pool) >= most:
            raise torch.OutOfMemoryError
        return shape

    pool, shapes = BufferPool(allocate), [BucketShape(windows, 32, 64, 16) for windows in (1, 2, 3)]
    most = 2
    for shape in shapes:
        pool.get_or_create(shape)
    assert list(pool) == [shapes[2]]  # type: ignore[comparison-overlap]
    most = 0
    with pytest.raises(torch.OutOfMemoryError):  # not enough even for one
        pool.get_or_create(shapes[0])


def test_evicting_what_is_not_in_use() -> None:
    pool = BufferPool(lambda shape: shape)  # type: ignore[arg-type, return-value]
    shapes = [BucketShape(windows, 32, 64, 16) for windows in (1, 2, 3)]
    for shape in (*shapes, shapes[1]):
        pool.get_or_create(shape)
    pool.evict_unused()
    assert list(pool) == [shapes[1]]  # type: ignore[comparison-overlap]
    pool.evict_unused()
    assert len(pool) == 1


def test_batches_grow_with_memory() -> None:
    """A base model in half precision keeps 2 · 6 · 512 · 2 bytes for a token, and may decode twice the source."""
    model = small(words=3, d_model=512, heads=8, d_ff=8, decoder_layers=6).bfloat16()
    tokens = {
        gigabytes: default_batch_tokens(gigabytes * 10**9, [model], max_length_ratio=2.0)
        for gigabytes in (8, 24, 80, 150, 1000)
    }
    assert tokens == {8: 65_536, 24: 65_536, 80: 262_144, 150: 262_144, 1000: 262_144}
    assert default_batch_tokens(80 * 10**9, [model, model], max_length_ratio=2.0) == 131_072
