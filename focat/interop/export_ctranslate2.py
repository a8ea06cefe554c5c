"""A run as a CTranslate2 model: `model.bin`, `config.json` and vocabularies, written through CTranslate2's own classes.

CTranslate2 takes any table of positions, so this works for post- and pre-norm models with either kind of sinusoids, or
with learned positions. The ids are those of the run.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from focat.corpus.tokenizer import Tokenizer
from focat.errors import FocatError
from focat.interop.tokens import END_NAME, START_NAME, WINDOWS_KEY, never_decoded, token_names, unknown_name
from focat.model.attention import CrossAttention, SelfAttention
from focat.model.layers import DecoderLayer, EncoderLayer, FeedForward
from focat.model.positions import sinusoids
from focat.model.transformer import UNUSED_BIAS, Transformer


def write_ctranslate2(
    model: Transformer, tokenizer: Tokenizer, folder: Path, positions: int, quantization: str
) -> None:
    """Write the files that CTranslate2 loads, except SentencePiece's, into an existing folder.

    Args:
        positions: rows of the table of positions; CTranslate2 refuses longer inputs and outputs.
        quantization: type of the weights.
    """
    specs = _ctranslate2_specs()
    settings = model.settings
    activation = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}[settings.activation]
    spec = specs.TransformerSpec.from_config(
        (settings.encoder_layers, settings.decoder_layers),
        settings.heads,
        pre_norm=settings.norm == "pre",
        activation=specs.common_spec.Activation[activation],
        ffn_glu=settings.activation == "swiglu",
    )
    source = model.target_embedding if model.source_embedding is None else model.source_embedding
    for side, table in ((spec.encoder, source), (spec.decoder, model.target_embedding)):
        side.scale_embeddings = math.sqrt(settings.d_model)
        (side.embeddings[0] if side is spec.encoder else side.embeddings).weight = _array(table.weight)
    spec.encoder.position_encodings.encodings = _array(_position_table(model, model.source_positions, positions))
    spec.decoder.position_encodings.encodings = _array(_position_table(model, model.target_positions, positions))
    spec.decoder.start_from_zero_embedding = settings.start_embedding == "zero"
    for i, encoder_layer in enumerate(cast("list[EncoderLayer]", model.encoder)):
        _set_encoder_layer(spec.encoder.layer[i], encoder_layer)
    for i, decoder_layer in enumerate(cast("list[DecoderLayer]", model.decoder)):
        _set_decoder_layer(spec.decoder.layer[i], decoder_layer)
    if settings.norm == "pre":
        _set_norm(spec.encoder.layer_norm, model.encoder_norm)
        _set_norm(spec.decoder.layer_norm, model.decoder_norm)
    bias = torch.zeros(len(model.output_weight)) if model.output_bias is None else model.output_bias.detach().clone()
    bias[never_decoded(model.windows)] = UNUSED_BIAS  # so that they are never decoded
    spec.decoder.projection.weight, spec.decoder.projection.bias = _array(model.output_weight), _array(bias)

    names = [token_names(vocabulary) for vocabulary in (tokenizer.source, tokenizer.target)]
    spec.register_source_vocabulary(names[0])
    spec.register_target_vocabulary(names[1])
    spec.config.unk_token, spec.config.eos_token = unknown_name(tokenizer.target), END_NAME
    spec.config.bos_token = spec.config.decoder_start_token = START_NAME
    spec.config.add_source_eos = True
    spec.config.add_attribute(WINDOWS_KEY, model.windows.model_dump())
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    spec.save(str(folder))


def _ctranslate2_specs() -> Any:
    try:
        import ctranslate2.specs as specs
    except ImportError:
        raise FocatError("the format ct2 needs CTranslate2: pip install 'focat[interop]'") from None
    return specs


def _position_table(model: Transformer, learned: nn.Embedding | None, positions: int) -> Tensor:
    """(positions, width)."""
    settings = model.settings
    if learned is not None:
        return learned.weight
    indices = torch.arange(positions) + settings.position_offset
    return sinusoids(indices[None], settings.d_model, settings.sinusoids)[0]


def _set_encoder_layer(spec: Any, layer: EncoderLayer) -> None:
    _set_self_attention(spec.self_attention, layer.self_attention, layer.self_attention_residual.norm)
    _set_feedforward(spec.ffn, layer.feedforward, layer.feedforward_residual.norm)


def _set_decoder_layer(spec: Any, layer: DecoderLayer) -> None:
    _set_self_attention(spec.self_attention, layer.self_attention, layer.self_attention_residual.norm)
    _set_cross_attention(spec.attention, layer.cross_attention, layer.cross_attention_residual.norm)
    _set_feedforward(spec.ffn, layer.feedforward, layer.feedforward_residual.norm)


def _set_self_attention(spec: Any, attention: SelfAttention, norm: nn.LayerNorm) -> None:
    _set_norm(spec.layer_norm, norm)
    for linear, layer in zip(spec.linear, (attention.qkv_proj, attention.out_proj), strict=True):
        _set_linear(linear, layer.weight, layer.bias)


def _set_cross_attention(spec: Any, attention: CrossAttention, norm: nn.LayerNorm) -> None:
    _set_norm(spec.layer_norm, norm)
    for linear, layer in zip(spec.linear, (attention.q_proj, attention.kv_proj, attention.out_proj), strict=True):
        _set_linear(linear, layer.weight, layer.bias)


def _set_feedforward(spec: Any, block: FeedForward, norm: nn.LayerNorm) -> None:
    _set_norm(spec.layer_norm, norm)
    weights, biases = block.up_proj.weight, block.up_proj.bias
    if block.activation == "swiglu":
        (gate, up), (gate_bias, up_bias) = weights.chunk(2), biases.chunk(2)
        _set_linear(spec.linear_0, gate, gate_bias)
        _set_linear(spec.linear_0_noact, up, up_bias)
    else:
        _set_linear(spec.linear_0, weights, biases)
    _set_linear(spec.linear_1, block.down_proj.weight, block.down_proj.bias)


def _set_linear(spec: Any, weight: Tensor, bias: Tensor) -> None:
    spec.weight, spec.bias = _array(weight), _array(bias)


def _set_norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().cpu().float().contiguous().numpy()
