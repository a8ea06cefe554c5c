"""Work runs as often as asked, eagerly or from a graph, also where capturing fails."""

from __future__ import annotations

import warnings
import weakref

import pytest
import torch

from focat.decoding.cuda_graphs import CapturedGraphs, CudaGraphRunner, Work

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
CPU = torch.device("cpu")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
def test_runs_as_often_as_asked(device: str) -> None:
    steps, others = (torch.zeros(1, dtype=torch.long, device=device) for _ in range(2))
    run = CudaGraphRunner(torch.device(device), capture=(lambda work: work) if device == "cpu" else None)
    graphs: CapturedGraphs = {}

    def step() -> None:
        steps.add_(1)

    def other() -> None:
        others.add_(1)

    run(step, 1, graphs, "step")
    assert (run.captured, run.replayed) == (0, 0)  # it may have been the only time
    run(step, 4, graphs, "step")
    run(step, 3, graphs, "step")
    assert steps.item() == 8
    assert (run.captured, run.replayed) == (1, 7)
    run(other, 2, graphs, "other")
    run(other, 0, graphs, "nothing")
    assert (steps.item(), others.item()) == (8, 2)
    assert (run.captured, run.replayed) == (2, 8)
    run(other, 1, {}, "other")
    run(step, 1, graphs, "step")
    assert (steps.item(), others.item()) == (9, 3)


def test_nothing_is_captured_on_a_cpu() -> None:
    run, runs = CudaGraphRunner(CPU), []
    run(lambda: runs.append(1), 5, {}, "work")
    assert len(runs) == 5
    assert (run.captured, run.replayed) == (0, 0)


class FailingCapture:
    """A capture that fails the first few times, each time holding memory."""

    def __init__(self, error: RuntimeError, failures: int) -> None:
        self.error, self.failures, self.attempts = error, failures, 0
        self.held: list[weakref.ref[torch.Tensor]] = []

    def __call__(self, work: Work) -> Work:
        self.attempts += 1
        if self.attempts > self.failures:
            return work
        intermediate = torch.zeros(10)
        self.held.append(weakref.ref(intermediate))
        raise type(self.error)(*self.error.args)


@pytest.mark.parametrize("error", [RuntimeError("not permitted"), torch.OutOfMemoryError("no memory")])
def test_a_failed_capture_is_reported_once_and_holds_nothing(error: RuntimeError) -> None:
    runs: list[str] = []
    capture = FailingCapture(error, failures=100)
    run = CudaGraphRunner(CPU, capture=capture)
    graphs: CapturedGraphs = {}
    with pytest.warns(RuntimeWarning, match=rf"a CUDA graph could not be captured \({error}\).*slower"):
        run(lambda: runs.append("one"), 4, graphs, "one")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(lambda: runs.append("two"), 4, graphs, "two")
    assert runs == ["one"] * 4 + ["two"] * 4
    assert (run.captured, run.replayed) == (0, 0)
    out_of_memory = isinstance(error, torch.OutOfMemoryError)
    assert capture.attempts == (4 if out_of_memory else 2)  # once for each key, and once more after freeing memory
    assert all(tensor() is None for tensor in capture.held)
    assert not any(callable(graph) for graph in graphs.values())  # work that is not captured is not kept alive either


def test_out_of_memory_frees_memory_and_captures_again() -> None:
    freed: list[str] = []
    capture = FailingCapture(torch.OutOfMemoryError("no memory"), failures=1)
    run = CudaGraphRunner(CPU, (lambda: freed.append("a"), lambda: freed.append("b")), capture)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(lambda: None, 3, {}, "work")
    assert freed == ["a", "b"]
    assert (run.captured, run.replayed) == (1, 2)


@GPU
def test_graphs_share_the_memory_of_intermediate_results() -> None:
    """Also when all earlier graphs are gone, and their memory with them."""
    run = CudaGraphRunner(torch.device("cuda"))
    for size in (1000, 10, 100_000):
        graphs: CapturedGraphs = {}
        values = torch.zeros(size, device="cuda")

        def work(values: torch.Tensor = values) -> None:
            values.copy_((values * 2 + 1).clone())

        run(work, 5, graphs, "work")
        assert values.tolist() == [31.0] * size


@GPU
def test_a_capture_that_fails_on_a_gpu_leaves_it_usable() -> None:
    run = CudaGraphRunner(torch.device("cuda"))
    values = torch.zeros(1, device="cuda")

    def waits() -> None:
        values.add_(1)
        values.item()  # waits for the device, which no graph can

    with pytest.warns(RuntimeWarning, match="a CUDA graph could not be captured"):
        run(waits, 3, {}, "waits")
    run(lambda: values.add_(1), 3, {}, "works")
    assert values.item() == 6
    assert run.captured == 1
