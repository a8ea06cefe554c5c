"""When memory does not suffice: one line that says what to set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from focat.errors import FocatError

_NO_MEMORY = re.compile("out of memory|not enough memory|allocate memory|ALLOC_FAILED")  # in errors without a type


@contextmanager
def memory_errors(advice: str) -> Iterator[None]:
    """Whatever torch says about memory becomes this line."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not isinstance(error, torch.OutOfMemoryError | MemoryError) and not _NO_MEMORY.search(str(error)):
            raise
        raise FocatError(advice) from None
