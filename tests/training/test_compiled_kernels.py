"""Triton compiles every kernel for GPUs, as it is launched, and none takes more memory than a GPU has.

Nothing is computed. In place of a GPU's driver stands one that launches nothing.
"""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from focat import hardware
from focat.decoding import fused_beam
from focat.model import fused_layers
from focat.model.next_tokens import read_next
from focat.model.packed_attention import packed_attention
from focat.model.tree_attention import TreeMask, append_nodes, tree_attention
from focat.training.optimizer import step_momentum
from focat.training.step import fastest_kernel
from tests.decoding.test_fused_beam import random_cache, random_search, random_top
from tests.model.examples import side, tiny, window
from tests.model.test_packed_attention import example

triton = pytest.importorskip("triton", reason="Triton is not installed (make kernels)")
pytestmark = pytest.mark.skipif(hardware._IS_INTERPRETED, reason="Triton's interpreter compiles nothing")

# Of a block, in KiB, by compute capability: the least of all GPUs with bfloat16, and that of an H100 or H200.
SHARED_MEMORY = {86: 99, 90: 227}


class CompilingDriver:
    """What Triton asks the driver of a GPU."""

    def __init__(self, capability: int) -> None:
        self.capability = capability
        self.launched: list[str] = []
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: {"max_shared_mem": SHARED_MEMORY[capability] << 10},
            load_binary=lambda *kernel: (None, None, 0, 0, 1024),
        )

    def get_current_target(self) -> object:
        return triton.backends.compiler.GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return self.capability  # a kernel is compiled once for each device

    def get_current_stream(self, device: int) -> int:
        return 0

    def launcher_cls(self, source: object, metadata: SimpleNamespace) -> object:
        return lambda *inputs: self.launched.append(metadata.name)


@pytest.fixture
def launched(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """Names of the kernels that were compiled and would have been launched."""
    driver = CompilingDriver(getattr(request, "param", 86))
    monkeypatch.setattr(hardware, "_IS_INTERPRETED", True)  # tensors are on the CPU
    monkeypatch.setattr(triton.runtime.driver, "_active", driver)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
    return driver.launched


@pytest.mark.parametrize(
    ("launched", "width", "precision"),
    [(86, 64, torch.bfloat16), (86, 128, torch.bfloat16), (86, 64, torch.float32), (90, 128, torch.bfloat16)],
    indirect=["launched"],
)
def test_attention(width: int, precision: torch.dtype, launched: list[str]) -> None:
    qkv = torch.randn(70, 3, 4, width, dtype=precision, requires_grad=True)
    packed_attention(qkv, example([70], None, True, 2)).sum().backward()
    assert launched == ["attend", "query_gradients", "key_value_gradients"]


@pytest.mark.parametrize(
    ("launched", "width", "queries"), [(86, 64, 4), (86, 128, 16), (90, 64, 4), (90, 16, 1)], indirect=["launched"]
)
def test_tree_attention(width: int, queries: int, launched: list[str]) -> None:
    keys, values = torch.randn(2, 3, 8, 70, width, dtype=torch.bfloat16)
    mask = TreeMask.of(torch.ones(3, 1, 1, 70, dtype=torch.bool), queries)
    tree_attention(keys[:, :, :queries], keys, values, mask)
    append_nodes(*torch.zeros(2, 3, 70, 8, width), torch.arange(queries), keys[:, :, :queries], values[:, :, :queries])
    assert launched == ["list_columns", "attend", "append_nodes"]


@pytest.mark.parametrize("with_sum", [True, False])
def test_layers_in_translation(with_sum: bool, launched: list[str]) -> None:
    x, output = torch.randn(2, 9, 512, dtype=torch.bfloat16)
    fused_layers.add_norm(x, output, nn.LayerNorm(512, dtype=torch.bfloat16), with_sum)
    assert launched == ["sum_and_norm"]


@pytest.mark.parametrize("width", [512, 768, 3072])
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_layers(rate: float, width: int, launched: list[str]) -> None:
    x, output = (torch.randn(9, width, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    bias = torch.randn(width, dtype=torch.bfloat16, requires_grad=True)
    for post in (False, True):
        first, second = fused_layers.add_dropout_norm(x, output, bias, rate, nn.LayerNorm(width), post)
        (first + second).sum().backward()
    fused_layers.add_dropout_norm(x, output, None, rate)[0].sum().backward()
    sum(fused_layers.branch_norm(x, nn.LayerNorm(width))).sum().backward()  # type: ignore[union-attr]
    with_norm = ["sum_and_norm", "sum_and_norm_backward", "sum_rows"]
    assert launched == [*with_norm, *with_norm, "sum_and_norm", "sum_and_norm_backward", *with_norm]


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_embeddings_in_training(rate: float, launched: list[str]) -> None:
    table, places = torch.randn(9, 512, requires_grad=True), torch.randn(9, 512)
    fused_layers.embed(torch.arange(9), torch.arange(9), table, places, rate).sum().backward()
    assert launched == ["embed", "embed_backward"]


@pytest.mark.parametrize(("vocabulary", "precision"), [(37, torch.float32), (32_000, torch.bfloat16)])
def test_loss(vocabulary: int, precision: torch.dtype, launched: list[str]) -> None:
    logits, labels = torch.randn(3, vocabulary, dtype=precision), torch.tensor([7, 8, 9])
    fastest_kernel(logits.device, compiled=False)(logits, labels, torch.ones(3), 0.1)
    assert launched == ["_one_row"]


@pytest.mark.parametrize("shape", [(72, 512, 512), (2, 3, 5)])
def test_momentum(shape: tuple[int, ...], launched: list[str]) -> None:
    step_momentum(torch.zeros(shape), torch.zeros(shape), torch.ones(()))
    assert launched == ["step_momentum", "scale"]


@pytest.mark.parametrize("with_bias", [True, False])
def test_linear_layers(with_bias: bool, launched: list[str]) -> None:
    x, layer = torch.randn(2, 9, 512, dtype=torch.bfloat16), nn.Linear(512, 300, dtype=torch.bfloat16)
    fused_layers.linear(x, layer.weight, layer.bias if with_bias else None).sum().backward()
    assert launched == ["column_sums", "sum_rows"] * with_bias


@pytest.mark.parametrize("width", [300, 2048])
def test_feedforward(width: int, launched: list[str]) -> None:
    x, layer = torch.randn(9, 512, dtype=torch.bfloat16), nn.Linear(512, width, dtype=torch.bfloat16)
    fused_layers.linear_relu(x, layer).sum().backward()
    assert launched == ["mask_and_sum", "sum_rows"]


@pytest.mark.parametrize(("launched", "beam"), [(86, 1), (90, 4), (86, 16)], indirect=["launched"])
def test_beam_search(beam: int, launched: list[str]) -> None:
    search = random_search(3, beam, 64, seed=0)
    for models, hypotheses in ((0, 1), (1, beam), (2, beam)):
        caches = [random_cache(3, beam, 320, 40, seed=0)] * models
        fused_beam.advance(search, random_top(3, hypotheses, beam, seed=0), caches)
    tokens = fused_beam.newest_tokens(search)
    read_next(caches[0], tokens, columns=128)
    assert launched == ["advance", "advance", "advance", "reorder", "newest_tokens", "append_one"]


@torch.no_grad()
@pytest.mark.parametrize("kind", ["fairseq", "marian"])
def test_embeddings(kind: str, launched: list[str]) -> None:
    batch = side(window(2, 1, 3), window(3))
    for features in ({}, {"segment_embeddings": "learned", "start_embedding": "zero"}):
        model = tiny(sinusoids=kind, d_model=512, **features).bfloat16()
        model._embed(batch, batch.segments, model.target_embedding, None)
    assert launched == ["embed"] * 2


def test_triton_is_imported_when_a_kernel_runs_and_not_before() -> None:
    code = "import sys, focat.training.trainer; print('triton' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
