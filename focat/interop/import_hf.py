"""Reads Hugging Face folders of the classes Marian (OPUS-MT) and M2M100, without transformers.

Both are Transformers with sinusoidal positions: Marian's is post-norm, M2M100's pre-norm. Text is split by the
SentencePiece models `source.spm` and `target.spm`, and `vocab.json` gives ids to the pieces, as in `MarianTokenizer`.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from focat.errors import FocatError
from focat.files import read_json_object
from focat.interop.export_hf import HF_LAYER_NAMES
from focat.interop.foreign_model import ForeignModel, ForeignTokens, Weights, read_text_splitters

_GET_AGAIN = "get the model again"
_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
# What both sides have, and focat only once.
_COMMON = {"heads": "attention_heads", "d_ff": "ffn_dim"}
# What the first versions of the class had, and focat does not have.
_ABSENT = "normalize_embedding", "add_bias_logits", "add_final_layer_norm"
_MADE_ANEW = "embed_positions.weight", "embed_positions.weights"  # tables of sinusoids


def read_hf(folder: Path) -> ForeignModel:
    """Read a Hugging Face folder.

    Raises:
        FocatError: it is incomplete or damaged, or focat's Transformer cannot compute what the model computes.
    """
    config_path = folder / "config.json"
    config = read_json_object(config_path, _GET_AGAIN)
    kind = config.get("model_type")
    if kind not in ("marian", "m2m_100"):
        raise FocatError(f"{config_path}: is a model of type {kind}; focat imports marian and m2m_100")
    settings = _settings(config_path, config)
    weights = _weights(folder)
    source, target = _tokens(folder, config)
    layers: dict[str, Tensor] = {}
    for side in ("encoder", "decoder"):
        for i in range(settings[f"{side}_layers"]):
            for name, theirs in HF_LAYER_NAMES.items():
                if side == "decoder" or not name.startswith("cross"):
                    for end in ("weight", "bias"):
                        names = [f"model.{side}.layers.{i}.{part}.{end}" for part in theirs]
                        layers[f"{side}.{i}.{name}.{end}"] = weights.stacked(names)
        if settings["norm"] == "pre":
            for end in ("weight", "bias"):
                layers[f"{side}_norm.{end}"] = weights[f"model.{side}.layer_norm.{end}"]
    source_table, target_table, output = _embeddings(weights, config)
    start = config.get("decoder_start_token_id")
    if not isinstance(start, int) or not 0 <= start < len(target_table):
        raise FocatError(f"{config_path}: decoder_start_token_id is {start}, and no id of the target vocabulary")
    zero_start = start == target.padding and not bool(target_table[start].any())
    bias = weights.get("final_logits_bias")
    weights.check_all_read(*_MADE_ANEW)
    return ForeignModel(
        path=weights.path,
        settings=settings | {"start_embedding": "zero" if zero_start else "learned"},
        layers=layers,
        source=source,
        target=target if zero_start else replace(target, start=start),
        source_embedding=source_table,
        target_embedding=target_table,
        output=output,
        output_bias=None if bias is None else bias.flatten(),
        max_tokens=_size(config_path, {"max_position_embeddings": 512} | config, "max_position_embeddings"),
        decoding=_decoding(folder, config),
        languages=_languages(folder),
    )


def _settings(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    pre_norm = config["model_type"] == "m2m_100"
    if not config.get("scale_embedding"):
        raise FocatError(f"{path}: scale_embedding is false, and focat scales embeddings by the root of their width")
    for name in _ABSENT:
        if config.get(name):
            raise FocatError(f"{path}: {name} is set, and focat's Transformer has no such part")
    activation = config.get("activation_function")
    if activation not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise FocatError(f"{path}: activation_function is {activation}; focat has {known}")
    settings: dict[str, Any] = {
        "d_model": _size(path, config, "d_model"),
        "norm": "pre" if pre_norm else "post",
        "activation": _ACTIVATIONS[str(activation)],
        "sinusoids": "fairseq" if pre_norm else "marian",
        "position_offset": _size(path, config, "pad_token_id") + 1 if pre_norm else 0,
    }
    for side in ("encoder", "decoder"):
        settings[f"{side}_layers"] = _size(path, config, f"{side}_layers")
        for name, theirs in _COMMON.items():
            here = _size(path, config, f"{side}_{theirs}")
            if settings.setdefault(name, here) != here:
                raise FocatError(
                    f"{path}: {theirs} is {settings[name]} in the encoder and {here} in the decoder; focat has one"
                )
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        settings[name] = config.get(name, 0.0)
    return settings


def _size(path: Path, config: dict[str, Any], name: str) -> int:
    value = config.get(name)
    if not isinstance(value, int) or value < 0:
        raise FocatError(f"{path}: {name} is {value}, and no size; {_GET_AGAIN}")
    return value


def _weights(folder: Path) -> Weights:
    """Weights of safetensors, or of pickle, which is read without running what it may hold."""
    path = folder / "model.safetensors"
    try:
        if path.exists():
            return Weights(path, load_file(path))
        path = folder / "pytorch_model.bin"
        if path.exists():
            loaded = torch.load(path, map_location="cpu", weights_only=True)
            if isinstance(loaded, dict) and all(isinstance(value, Tensor) for value in loaded.values()):
                return Weights(path, loaded)
            raise FocatError(f"{path}: holds no table of weights; {_GET_AGAIN}")
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0][:100]
        raise FocatError(f"{path}: is truncated or damaged ({reason}); {_GET_AGAIN}") from None
    except OSError as error:
        raise FocatError(f"{path}: cannot be read: {error.strerror}") from None
    raise FocatError(f"{folder}: has no model.safetensors and no pytorch_model.bin; {_GET_AGAIN}")


def _embeddings(weights: Weights, config: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings of source and target, and the output projection; copies of one that are stored too are the same."""
    own = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    source, target = (weights.matrix(name if name in weights else "model.shared.weight") for name in own)
    weights.get("model.shared.weight")  # a copy, where both sides have their own
    output = weights.get("lm_head.weight")
    return source, target, target if output is None or config.get("tie_word_embeddings", True) else output


def _tokens(folder: Path, config: dict[str, Any]) -> tuple[ForeignTokens, ForeignTokens]:
    if not (folder / "source.spm").exists() and (folder / "sentencepiece.bpe.model").exists():
        raise FocatError(
            f"{folder}: is a multilingual model whose translations begin with a token for their language, and focat's "
            "do not; import a model with source.spm and target.spm, as OPUS-MT has them"
        )
    splitters = read_text_splitters(folder)
    names = "vocab.json", "target_vocab.json" if (folder / "target_vocab.json").exists() else "vocab.json"
    described = folder / "tokenizer_config.json"
    unknown = read_json_object(described, _GET_AGAIN).get("unk_token", "<unk>") if described.exists() else "<unk>"
    unknown = unknown.get("content") if isinstance(unknown, dict) else unknown
    tokens = []
    for name, splitter in zip(names, splitters, strict=True):
        path = folder / name
        pieces = _pieces(path)
        end, padding = (_size(folder / "config.json", config, id) for id in ("eos_token_id", "pad_token_id"))
        if max(end, padding) >= len(pieces):
            raise FocatError(f"{path}: lists {len(pieces)} pieces, but its config.json names piece {max(end, padding)}")
        if unknown not in pieces:
            raise FocatError(f"{path}: lists no {unknown}, the piece for what is not listed; {_GET_AGAIN}")
        tokens.append(ForeignTokens(path, pieces, splitter, end, pieces.index(unknown), padding))
    return tokens[0], tokens[1]


def _pieces(path: Path) -> list[str]:
    ids = read_json_object(path, _GET_AGAIN)
    if sorted(ids.values(), key=str) != sorted(range(len(ids)), key=str):
        raise FocatError(f"{path}: its {len(ids)} pieces do not have the ids 0 to {len(ids) - 1}; {_GET_AGAIN}")
    return sorted(ids, key=lambda piece: int(ids[piece]))


def _decoding(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Beam and length penalty of `generate`."""
    path = folder / "generation_config.json"
    given = config | (read_json_object(path, _GET_AGAIN) if path.exists() else {})
    penalty = given.get("length_penalty")
    return {"beam": given.get("num_beams") or 1, "length_penalty": 1.0 if penalty is None else penalty}


def _languages(folder: Path) -> tuple[str | None, str | None]:
    path = folder / "tokenizer_config.json"
    described = read_json_object(path, _GET_AGAIN) if path.exists() else {}
    return described.get("source_lang"), described.get("target_lang")
