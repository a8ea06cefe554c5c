"""The two passes of CADec: against loops over sentences, and what must hold for any weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from focat.config.schema import WindowSettings
from focat.corpus.vocabulary import END, PAD, SPECIALS, START
from focat.model import Transformer
from focat.model.drafts import with_noise
from focat.model.greedy import greedy_decode
from focat.model.second_decoder import MemoryAttention
from focat.model.two_pass import TwoPassTransformer
from focat.windows.batch import PaddedSequences
from focat.windows.segments import decoder_input
from tests.model import slow_context as slow
from tests.model.examples import VOCABULARY, side, tiny, window
from tests.model.test_incremental import step_by_step

WINDOWS = WindowSettings(before=2, max_tokens=60)


def build(**settings: Any) -> TwoPassTransformer:
    model = tiny(windows=WINDOWS, **{"second_pass": {"layers": 2}, **settings})
    assert isinstance(model, TwoPassTransformer)
    return model


def windows() -> tuple[list[list[int]], list[list[int]], PaddedSequences, PaddedSequences]:
    """Windows of one to three sentences on both sides."""
    sources = [window(*lengths, seed=i) for i, lengths in enumerate([(2, 1, 3), (3,), (2, 2)])]
    targets = [window(*lengths, seed=5 + i) for i, lengths in enumerate([(1, 2, 4), (2,), (3, 2)])]
    return sources, targets, side(*sources, pads=1), side(*targets)


def base_of(model: TwoPassTransformer) -> Transformer:
    """The sentence-level system with the same weights."""
    settings = model.settings.model_copy(update={"second_pass": None})
    base = Transformer(settings, WindowSettings(before=0, max_tokens=60), VOCABULARY, VOCABULARY, 0).double().eval()
    base.load_state_dict({n: w for n, w in model.state_dict().items() if not n.startswith("second.")})
    return base


def remembered(base: Transformer, source: list[int], translation: list[int]) -> Tensor:
    """(tokens, 2 · width): embedding and top state of each input token of a sentence-level decoder."""
    words = [token for token in translation if token not in (END, PAD)]
    tokens = torch.tensor([[START, *words]])
    given = PaddedSequences(tokens, torch.zeros_like(tokens), torch.zeros(1, dtype=torch.long))
    states = base.decode(base.encode(side(source)), given)[0]
    return torch.cat((base.target_embedding(tokens[0]), states), -1)


def attention(module: MemoryAttention, query: Tensor, memory: Tensor, distances: list[int]) -> Tensor:
    """One token, (width,), attends to a memory: as if a one-hot vector of the distance were appended to each token."""
    width = len(query)
    one_hot = torch.eye(module.distance.num_embeddings, dtype=query.dtype)[distances]
    weight = torch.cat((module.kv_proj.weight, module.distance.weight.T), 1)
    kv = torch.cat((memory, one_hot), 1) @ weight.T + module.kv_proj.bias
    heads = module.heads
    q = module.q_proj(query).view(heads, -1)
    keys, values = kv.view(len(kv), 2, heads, width // heads).unbind(1)
    scores = torch.einsum("hd,thd->ht", q, keys) / (width // heads) ** 0.5
    found: Tensor = module.out_proj(torch.einsum("ht,thd->hd", scores.softmax(-1), values).flatten())
    return found


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_equals_a_loop_over_sentences(norm: str) -> None:
    sources, targets, source, target = windows()
    model = build(norm=norm)
    base = base_of(model)
    found = model(source, target)
    for i, (source_window, target_window) in enumerate(zip(sources, targets, strict=True)):
        encoded, translations = slow.sentences_of(source_window), slow.sentences_of(target_window)
        last = len(encoded) - 1
        draft = greedy_decode(base, side(encoded[-1]))[0].tolist()
        source_memory = [base.encode(side(sentence)).hidden[0] for sentence in encoded]
        target_memory = [remembered(base, encoded[j], translations[j]) for j in range(last)]
        target_memory.append(remembered(base, encoded[-1], draft))
        distances = [[last - j] * len(memory) for j, memory in enumerate(source_memory)]
        target_distances = [[last - j] * len(memory) for j, memory in enumerate(target_memory)]
        words = [START, *translations[-1][:-1]]
        x = slow.embedded_target(base, words)
        for layer in model._second_layers:
            first, second, third, fourth = layer.residuals
            pre = norm == "pre"

            def block(x: Tensor, residual: Any, output: Any, pre: bool = pre) -> Tensor:
                total = x + output(residual.norm(x) if pre else x)
                return total if pre else residual.norm(total)

            x = block(x, first, lambda x, layer=layer: layer.self_attention(x[None], None, None)[0])
            for residual, module, memory, where in (
                (second, layer.source_attention, source_memory, distances),
                (third, layer.target_attention, target_memory, target_distances),
            ):
                flat = [d for sentence in where for d in sentence]
                joined = torch.cat(memory)
                x = block(
                    x, residual, lambda x, m=module, j=joined, d=flat: torch.stack([attention(m, t, j, d) for t in x])
                )
            x = block(x, fourth, layer.feedforward)
        expected = model.second.norm(x)
        current = target.segments[i] == target.current[i]
        torch.testing.assert_close(found[i, current], expected, atol=1e-9, rtol=0)
        context = (target.segments[i] >= 0) & ~current
        assert not found[i, context].any()


@pytest.mark.parametrize("chunks", [None, [3, 1]])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_step_by_step_is_teacher_forcing(norm: str, chunks: list[int] | None) -> None:
    _, _, source, target = windows()
    model = build(norm=norm)
    memory = model.encode(source)
    forced = model.decode(memory, decoder_input(target))
    length = target.tokens.shape[1]
    stepped = step_by_step(model, memory, target, [*chunks, length - sum(chunks)] if chunks else [1] * length)
    current = target.segments == target.current[:, None]
    torch.testing.assert_close(stepped[current], forced[current], atol=1e-9, rtol=0)


def test_the_target_context_counts_and_the_current_sentence_does_not_leak() -> None:
    """Another context changes what is predicted; another ending of the current sentence only what comes after it."""
    _, _, source, target = windows()
    model = build()
    found = model(source, target)
    other = target.tokens.clone()
    other[0, 0] = SPECIALS + (other[0, 0] - SPECIALS + 1) % (VOCABULARY - SPECIALS)
    changed = model(source, PaddedSequences(other, target.segments, target.current))
    current = target.segments == target.current[:, None]
    assert not torch.allclose(changed[0, current[0]], found[0, current[0]])
    torch.testing.assert_close(changed[1:], found[1:])
    last = int(current[0].nonzero()[-2])  # the last word
    other = target.tokens.clone()
    other[0, last] = SPECIALS + (other[0, last] - SPECIALS + 1) % (VOCABULARY - SPECIALS)
    changed = model(source, PaddedSequences(other, target.segments, target.current))
    torch.testing.assert_close(changed[0, : last + 1], found[0, : last + 1])
    assert not torch.allclose(changed[0, last + 1], found[0, last + 1])


def test_noise_replaces_words_alone() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(SPECIALS, VOCABULARY, (200, 50))
    tokens[:, -1] = END
    noisy = with_noise(tokens, 0.2, VOCABULARY)
    assert (noisy[:, -1] == END).all()
    assert (noisy >= END).all()
    changed = (noisy != tokens)[:, :-1].double().mean()
    assert abs(changed - 0.2 * (1 - 1 / (VOCABULARY - SPECIALS))) < 0.01


def test_training_drafts_hide_the_answer_in_noise() -> None:
    """References keep four words of five; samples are words that the first pass finds likely."""
    _, _, source, target = windows()
    model = build(second_pass={"layers": 1, "reference_drafts": 1})
    encoded = Transformer.encode(model, source)
    current = target.segments == target.current[:, None]
    kept = []
    for seed in range(50):
        torch.manual_seed(seed)
        draft = model._training_draft(encoded, target, decoder_input(target))
        for i, row in enumerate(draft):
            words = target.tokens[i, current[i]]
            assert row[len(words) - 1] == END
            kept.append((row[: len(words) - 1] == words[:-1]).double().mean())
    assert 0.7 < torch.stack(kept).mean() < 0.92
    model = build(second_pass={"layers": 1, "reference_drafts": 0})
    draft = model._training_draft(encoded, target, decoder_input(target))
    assert draft.shape == (3, int(current.sum(-1).max()))
    assert ((draft >= SPECIALS) | (draft == END) | (draft == PAD)).all()


def test_every_weight_of_the_second_pass_learns() -> None:
    _, _, source, target = windows()
    model = build().train()
    torch.manual_seed(0)
    hidden = model(source, target)
    model.project(hidden[target.segments == target.current[:, None]]).square().sum().backward()
    without = [name for name, p in model.second.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert without == []
