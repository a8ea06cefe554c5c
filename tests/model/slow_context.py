"""Multi-encoder systems, token by token and sentence by sentence, from the weights of a sentence-level system."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from focat.config.schema import WindowSettings
from focat.corpus.vocabulary import END, SEPARATOR
from focat.model import Transformer
from focat.model.attention import CrossAttention, SelfAttention
from focat.model.context import ContextAttention, Gate
from focat.model.global_layer import GlobalLayer
from focat.model.hierarchical_context import HierarchicalContext
from focat.model.layers import EncoderLayer
from focat.model.positions import sinusoids
from tests.model.examples import side, tiny


def sentences_of(window: list[int]) -> list[list[int]]:
    """The sentences of a window, each closed by the end symbol."""
    found: list[list[int]] = [[]]
    for token in window:
        found[-1].append(END if token == SEPARATOR else token)
        if token == SEPARATOR:
            found.append([])
    return found


def base_of(model: Transformer) -> Transformer:
    """The sentence-level system with the weights of a multi-encoder."""
    kept = model.settings.model_dump(exclude={"context", "preset"})
    base = tiny(windows=WindowSettings(before=0, max_tokens=40), **kept)
    base.load_state_dict({name: w for name, w in model.state_dict().items() if "context" not in name.split(".")})
    return base


def attention(module: CrossAttention | SelfAttention, query: Tensor, states: Tensor) -> Tensor:
    """One token, (width,), attends to states, (tokens, width): head by head."""
    width, heads = len(query), module.heads
    if isinstance(module, SelfAttention):
        q = module.qkv_proj(query)[:width].view(heads, -1)
        keys_values = module.qkv_proj(states)[:, width:]
    else:
        q, keys_values = module.q_proj(query).view(heads, -1), module.kv_proj(states)
    keys, values = keys_values.view(len(states), 2, heads, width // heads).unbind(1)
    found = []
    for head in range(heads):
        scores = torch.stack([(q[head] * key[head]).sum() / math.sqrt(width // heads) for key in keys])
        weights = scores.exp() / scores.exp().sum()
        found.append(sum(w * value[head] for w, value in zip(weights, values, strict=True)))
    result: Tensor = module.out_proj(torch.cat(found))
    return result


def mix(gate: Gate, own: Tensor, found: Tensor) -> Tensor:
    """What a gate makes of one token."""
    share = 1 / (1 + torch.exp(-gate.proj(torch.cat((own, found)))))
    return share * own + (1 - share) * found


def flat(module: ContextAttention, own: Tensor, query: Tensor, context: list[Tensor]) -> Tensor:
    """One token attends to all words of the context."""
    return mix(module.gate, own, attention(module.attention, query, torch.cat(context))) if context else own


def hierarchical(module: HierarchicalContext, token: Tensor, context: list[Tensor]) -> Tensor:
    """One token attends to the words of each sentence, then to the sentences."""
    if not context:
        return module.norm(token)
    words = torch.stack([module.word_norm(attention(module.words, token, sentence)) for sentence in context])
    summary = module.sentence_norm(attention(module.sentences, token, words))
    block = module.feedforward
    summary = module.feedforward_norm(summary + block.down_proj(F.relu(block.up_proj(summary))))
    return module.norm(mix(module.gate, token, summary))


def global_layer(module: GlobalLayer, window: list[Tensor], norm: str) -> list[Tensor]:
    """All sentences of a window, (tokens, width) each, through a layer that knows how far apart they are."""

    def block(residual: Any, x: Tensor, output: Tensor) -> Tensor:
        return x + output if norm == "pre" else residual.norm(x + output)

    attention, width = module.self_attention, window[0].shape[1]
    heads, furthest = attention.heads, attention.furthest
    normed = [module.self_attention_residual.norm(x) if norm == "pre" else x for x in window]
    projected = [attention.qkv_proj(x).view(len(x), 3, heads, width // heads) for x in normed]
    found = []
    for i, sentence in enumerate(window):
        rows = []
        for t, token in enumerate(sentence):
            of_heads = []
            for head in range(heads):
                scores, values = [], []
                for j, other in enumerate(projected):
                    far = max(-furthest, min(furthest, j - i)) + furthest
                    for key in other:
                        added = key[1, head] + attention.key_distance.weight[far]
                        scores.append((projected[i][t, 0, head] * added).sum() / math.sqrt(width // heads))
                        values.append(key[2, head] + attention.value_distance.weight[far])
                weights = torch.stack(scores).softmax(0)
                of_heads.append(sum(w * value for w, value in zip(weights, values, strict=True)))
            x = block(module.self_attention_residual, token, attention.out_proj(torch.cat(of_heads)))
            inner = module.feedforward_residual.norm(x) if norm == "pre" else x
            x = block(module.feedforward_residual, x, module.feedforward(inner))
            rows.append(module.norm(mix(module.gate, token, x)))
        found.append(torch.stack(rows))
    return found


def encoded_alone(base: Transformer, sentence: list[int], layers: int | None = None) -> Tensor:
    """(tokens, width): a sentence through the first layers of a sentence-level encoder, or all of it."""
    if layers is None:
        return base.encode(side(sentence)).hidden[0]
    x = embedded(base, sentence)
    for layer in list(base.encoder)[:layers]:
        x = layer_alone(layer, x)
    return x


def embedded(base: Transformer, tokens: list[int]) -> Tensor:
    """(tokens, width): words and positions, from 0."""
    assert base.source_embedding is not None
    width = base.settings.d_model
    positions = sinusoids(torch.arange(len(tokens))[None], width)[0]
    return base.source_embedding(torch.tensor(tokens)) * math.sqrt(width) + positions


def embedded_target(base: Transformer, tokens: list[int]) -> Tensor:
    """(tokens, width): the decoder's input, its first token at position 0."""
    width = base.settings.d_model
    positions = sinusoids(torch.arange(len(tokens))[None], width)[0]
    return base.target_embedding(torch.tensor(tokens)) * math.sqrt(width) + positions


def layer_alone(layer: EncoderLayer, x: Tensor) -> Tensor:
    """One layer over the tokens of one sentence, (tokens, width)."""
    result: Tensor = layer(x[None], torch.ones(1, 1, 1, len(x), dtype=torch.bool), None)[0]
    return result
