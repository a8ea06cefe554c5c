"""One new token of each hypothesis: the kernel against plain torch."""

from __future__ import annotations

import copy

import pytest
import torch

from focat.corpus.vocabulary import PAD, SEPARATOR, SPECIALS
from focat.model import next_tokens
from tests.decoding.test_fused_beam import random_cache
from tests.kernels import DEVICE, needs_kernels


@needs_kernels
@pytest.mark.parametrize("beam", [1, 3, 4, 16])
def test_one_token_of_each_hypothesis(beam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(beam)
    windows, used, columns = 5, 20, 52
    cache = random_cache(windows, beam, 57, used, seed=beam)
    plain_cache = copy.deepcopy(cache)
    for _ in range(2):
        tokens = torch.randint(SEPARATOR, SPECIALS + 2, (windows * beam, 1), device=DEVICE)
        tokens[:beam] = PAD  # of a window that is finished
        found = next_tokens.read_next(cache, tokens, columns)
        with monkeypatch.context() as patched:
            patched.setattr(next_tokens, "runs_kernels", lambda device: False)
            plain = next_tokens.read_next(plain_cache, tokens, columns)
        for name in ("tokens", "segments", "current"):
            assert torch.equal(getattr(found.target_input, name), getattr(plain.target_input, name))
        assert torch.equal(found.positions, plain.positions)
        for name in ("key_segments", "query_segments", "mask"):
            # finished windows see themselves, and what was PAD
            assert torch.equal(getattr(found.inputs, name)[1:], getattr(plain.inputs, name)[1:])
        assert (found.inputs.mask | ~plain.inputs.mask).all()
        for layer, plain_layer in zip(found.inputs.layers, plain.inputs.layers, strict=True):
            assert torch.equal(layer.write_columns, plain_layer.write_columns)
            assert layer.columns == plain_layer.columns
        for name in ("lengths", "num_separators", "opened_segments", "write_pos"):
            assert torch.equal(getattr(cache, name), getattr(plain_cache, name))
        assert torch.equal(cache.ancestor_mask[1:], plain_cache.ancestor_mask[1:])
        assert cache.length == plain_cache.length
