"""Threads that each decode batches of their own, on CPUs with several cores.

A step of the search is hundreds of small operations. Threads that share each of them wait for one another at its end;
threads with a batch each do not, and a machine that is busy with other work does not make them wait either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_MAX_WORKERS = 8  # with more, Python itself, which runs one thread at a time, would be what they wait for

Item = TypeVar("Item")
Result = TypeVar("Result")


def max_workers() -> int:
    """How many batches may be decoded at the same time: one for each thread of torch, up to a limit."""
    return min(torch.get_num_threads(), _MAX_WORKERS)


def map_in_workers(
    function: Callable[[Item, threading.Event], Result], items: Sequence[Item], workers: int
) -> list[Result]:
    """Apply a function to all items in so many threads, which share the threads of torch.

    Args:
        function: gets an item, and an event that is set when its result is no longer needed.
        items: the one that takes longest first.
        workers: at most so many; with one, or for one item, the function runs in this thread.

    Returns:
        The results, in the order of the items.
    """
    threads = torch.get_num_threads()
    workers = min(workers, len(items))
    stopped = threading.Event()
    if workers < 2:
        return [function(item, stopped) for item in items]

    def work(item: Item) -> Result:
        try:
            with torch.inference_mode():  # each thread has its own mode
                return function(item, stopped)
        except BaseException:
            stopped.set()
            raise

    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,))
    try:
        return list(pool.map(work, items))
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # a thread sets its own number, and that of all threads which begin later
