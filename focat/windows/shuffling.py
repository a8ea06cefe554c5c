"""Random orders of as many windows as a corpus may have, in four bytes a window.

They are those of `np.argsort` and `np.lexsort`, whose keys and indices would take five times as much while they sort.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focat.windows.splitmix64 import splitmix64_at

CHUNK = 1 << 16  # of what is computed at a time: little enough for the cache of a processor

Unsigned = NDArray[np.unsignedinteger[Any]]


def chunks(count: int) -> Iterator[slice]:
    """`range(count)` as slices of at most `CHUNK`."""
    return (slice(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK))


def shuffle(count: int, *keys: int) -> Unsigned:
    """`np.argsort(splitmix64(count, *keys))`: a random order of `range(count)`."""
    return shuffle_groups(np.broadcast_to(np.uint8(0), count), np.array([count]), *keys)


def shuffle_groups(groups: Unsigned, sizes: NDArray[np.int64], *keys: int) -> Unsigned:
    """`np.lexsort((splitmix64(len(groups), *keys), groups))`: group by group, in random order within each.

    Args:
        groups: (count,) the group of each index, from 0 on.
        sizes: (groups,) how many indices each group has.
        keys: of the random numbers.

    Returns:
        (count,) the indices, of the smallest type that holds them.
    """
    # A counting sort by group and some leading bits of the random numbers; what shares both is then sorted in place.
    largest, bits_of_groups = int(sizes.max(initial=1)), (len(sizes) - 1).bit_length()
    bits = max(0, min((largest // CHUNK).bit_length(), 16 - bits_of_groups))  # numpy sorts 16 bits by radix
    buckets = len(sizes) << bits

    def bucket_of(part: slice) -> Unsigned:
        bucket = groups[part].astype(np.min_scalar_type(max(0, buckets - 1)))
        if bits:
            leading = splitmix64_at(np.arange(part.start, part.stop), *keys) >> np.uint64(64 - bits)
            bucket = (bucket << bits) + leading.astype(bucket.dtype)
        return bucket

    counts = np.zeros(buckets, np.int64)
    for part in chunks(len(groups)):
        counts += np.bincount(bucket_of(part), minlength=buckets)
    ends = np.cumsum(counts)
    free = ends - counts  # where the next index of each bucket goes
    order = np.empty(len(groups), np.min_scalar_type(len(groups)))
    for part in chunks(len(groups)):
        bucket = bucket_of(part)
        here = np.bincount(bucket, minlength=buckets)
        places = np.repeat(free - (np.cumsum(here) - here), here) + np.arange(len(bucket))
        order[places] = part.start + np.argsort(bucket, kind="stable")
        free += here
    for end, count in zip(ends[counts > 1], counts[counts > 1], strict=True):
        members = order[end - count : end]
        members[:] = members[np.argsort(splitmix64_at(members, *keys))]
    return order
