"""A run as a Hugging Face model: `config.json`, `model.safetensors`, and the files of `MarianTokenizer`.

Post-norm models with Marian's sinusoids become a `MarianMTModel`, pre-norm models with fairseq's sinusoids an
`M2M100ForConditionalGeneration`; each of these classes makes its table of positions anew when it is loaded. Both come
with `MarianTokenizer`, which takes any SentencePiece models and vocabularies. transformers is not needed to write them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor

from focat.config import Settings
from focat.config.schema import ModelSettings
from focat.corpus.tokenizer import Tokenizer
from focat.corpus.vocabulary import END, PAD, SEPARATOR, SPECIALS, START
from focat.errors import FocatError
from focat.files import write_json
from focat.interop.tokens import (
    END_NAME,
    PAD_NAME,
    SEPARATOR_NAME,
    START_NAME,
    WINDOWS_KEY,
    never_decoded,
    one_vocabulary,
    token_names,
    unknown_name,
)
from focat.model.transformer import Transformer

HfClass = Literal["MarianMTModel", "M2M100ForConditionalGeneration"]


# The parts of a layer in focat, and in transformers, where matrices that focat stacks in one are apart.
HF_LAYER_NAMES = {
    "self_attention.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention.out_proj": ("self_attn.out_proj",),
    "self_attention_residual.norm": ("self_attn_layer_norm",),
    "cross_attention.q_proj": ("encoder_attn.q_proj",),
    "cross_attention.kv_proj": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross_attention.out_proj": ("encoder_attn.out_proj",),
    "cross_attention_residual.norm": ("encoder_attn_layer_norm",),
    "feedforward.up_proj": ("fc1",),
    "feedforward.down_proj": ("fc2",),
    "feedforward_residual.norm": ("final_layer_norm",),
}


def hf_class(settings: ModelSettings, one_vocabulary: bool) -> HfClass:
    """The class of transformers that computes what a model of these settings computes.

    Args:
        one_vocabulary: whether the ids of source and target mean the same tokens.

    Raises:
        FocatError: there is none; says which setting to train with instead.
    """
    instead = "train with {}, or export to CTranslate2, which takes this run as it is"
    if settings.activation == "swiglu":
        raise FocatError("model.activation = swiglu: no translation model of transformers has it; train with relu")
    if settings.positions != "sinusoidal":
        raise FocatError(
            f"model.positions = {settings.positions}: Marian's and M2M100's classes have sinusoidal positions only; "
            "train with model.positions=sinusoidal and model.sinusoids=marian"
        )
    if settings.norm == "post":
        if settings.sinusoids != "marian" or settings.position_offset:
            raise FocatError(
                f"model.sinusoids = {settings.sinusoids}, model.position_offset = {settings.position_offset}: a "
                "post-norm model needs Marian's class, which makes its own positions; "
                + instead.format("model.sinusoids=marian and model.position_offset=0")
            )
        return "MarianMTModel"
    if settings.sinusoids != "fairseq" or not settings.position_offset:
        raise FocatError(
            f"model.sinusoids = {settings.sinusoids}, model.position_offset = {settings.position_offset}: a pre-norm "
            "model needs M2M100's class, which makes its own positions and counts them from 1; "
            + instead.format("model.sinusoids=fairseq and model.position_offset=1")
        )
    if settings.output_bias or settings.start_embedding == "zero":
        name = "output_bias = true" if settings.output_bias else "start_embedding = zero"
        raise FocatError(
            f"model.{name}: M2M100's class, which a pre-norm model needs, has none; "
            + instead.format("model.norm=post, or without it")
        )
    if not one_vocabulary:
        raise FocatError(
            "data.tokenizer.joint = false: M2M100's class, which a pre-norm model needs, has one vocabulary; "
            + instead.format("data.tokenizer.joint=true, or model.norm=post")
        )
    return "M2M100ForConditionalGeneration"


def write_hf(model: Transformer, tokenizer: Tokenizer, settings: Settings, folder: Path, positions: int) -> None:
    """Write the files that transformers loads, except SentencePiece's, into an existing folder.

    Args:
        positions: longest input and output.
    """
    name = hf_class(model.settings, one_vocabulary(tokenizer))
    source_ids, target_ids = (
        _exported_ids(model.settings, settings.windows.size > 1, side.size)
        for side in (tokenizer.source, tokenizer.target)
    )
    if source_ids.index(PAD) != target_ids.index(PAD):
        raise FocatError(
            "model.start_embedding = zero: Marian's class needs source and target vocabularies of one size for it, not "
            f"{len(source_ids)} and {len(target_ids)}; export to CTranslate2, which takes this run as it is"
        )
    tensors = _layer_tensors(model) | _vocabulary_tensors(model, name, source_ids, target_ids)
    tensors = {key: tensor.detach().float().contiguous() for key, tensor in tensors.items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    ids = {
        "pad_token_id": target_ids.index(PAD),
        "eos_token_id": target_ids.index(END),
        "decoder_start_token_id": target_ids.index(_start(model.settings)),
    }
    write_json(folder / "config.json", _config(model, name, len(source_ids), len(target_ids), positions) | ids)
    never = [target_ids.index(token) for token in never_decoded(settings.windows) if token in target_ids]
    generation = {
        "num_beams": settings.decoding.beam,
        "length_penalty": settings.decoding.length_penalty,
        "early_stopping": True,  # at as many finished hypotheses as the beam is wide, as in focat
        "max_length": positions,
        "min_new_tokens": 1,  # a translation is not empty
        "bad_words_ids": [[token] for token in never],
    }
    write_json(folder / "generation_config.json", ids | generation)
    _write_tokenizer(tokenizer, settings, folder, source_ids, target_ids, positions)


def _start(settings: ModelSettings) -> int:
    """What the decoder reads first: Marian's start symbol is its padding, whose embedding is zero."""
    return PAD if settings.start_embedding == "zero" else START


def _exported_ids(settings: ModelSettings, windows: bool, size: int) -> list[int]:
    """The run's ids in the order of the exported ones.

    Models that start from a zero embedding get Marian's order: `</s>` first, padding last, `<S>` only if the model was
    trained on windows. Others keep the run's ids; padding goes where M2M100's class counts positions from.
    """
    words = range(SPECIALS, size)
    if settings.start_embedding == "zero":
        return [END, *words, *([SEPARATOR] if windows else []), PAD]
    ids = [START, END, SEPARATOR, *words]
    ids.insert(max(settings.position_offset - 1, 0), PAD)
    return ids


def _config(model: Transformer, name: HfClass, source: int, target: int, positions: int) -> dict[str, Any]:
    settings = model.settings
    config = {
        "architectures": [name],
        "model_type": "marian" if name == "MarianMTModel" else "m2m_100",
        "vocab_size": source,
        "d_model": settings.d_model,
        "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers,
        "encoder_attention_heads": settings.heads,
        "decoder_attention_heads": settings.heads,
        "encoder_ffn_dim": settings.d_ff,
        "decoder_ffn_dim": settings.d_ff,
        "activation_function": settings.activation,
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "activation_dropout": settings.activation_dropout,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "scale_embedding": True,
        "max_position_embeddings": positions,
        "is_encoder_decoder": True,
        "bos_token_id": None,
        "forced_eos_token_id": None,
        "dtype": "float32",
        WINDOWS_KEY: model.windows.model_dump(),
    }
    if name == "MarianMTModel":
        shared = settings.embeddings == "shared"
        return config | {
            "decoder_vocab_size": target,
            "share_encoder_decoder_embeddings": shared,
            "tie_word_embeddings": settings.embeddings != "separate",
        }
    return config | {"tie_word_embeddings": settings.embeddings == "shared"}


def _layer_tensors(model: Transformer) -> dict[str, Tensor]:
    """Weights of layers and final norms, under the names that both classes use."""
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        side, _, rest = name.partition(".")
        kind = rest.rpartition(".")[2]  # weight or bias
        if side in ("encoder_norm", "decoder_norm"):
            tensors[f"model.{side.removesuffix('_norm')}.layer_norm.{kind}"] = parameter
        elif side in ("encoder", "decoder"):
            layer, _, module = rest.removesuffix(f".{kind}").partition(".")
            parts = HF_LAYER_NAMES[module]
            for part, block in zip(parts, parameter.chunk(len(parts)), strict=True):
                tensors[f"model.{side}.layers.{layer}.{part}.{kind}"] = block
    return tensors


def _vocabulary_tensors(
    model: Transformer, name: HfClass, source_ids: list[int], target_ids: list[int]
) -> dict[str, Tensor]:
    """Embeddings, output projection and its bias, their rows in the order of the exported ids."""
    target = model.target_embedding.weight[target_ids]
    tensors = {}
    if name == "MarianMTModel":
        bias = torch.zeros(len(target_ids)) if model.output_bias is None else model.output_bias[target_ids]
        tensors["final_logits_bias"] = bias[None]
    if model.source_embedding is None:
        return tensors | {"model.shared.weight": target}
    tensors["model.encoder.embed_tokens.weight"] = model.source_embedding.weight[source_ids]
    tensors["model.decoder.embed_tokens.weight"] = target
    if name == "M2M100ForConditionalGeneration":  # its class ties all or nothing, and has a matrix that is then unused
        tensors["model.shared.weight"] = target.clone()
    if name == "M2M100ForConditionalGeneration" or model.output is not None:
        tensors["lm_head.weight"] = model.output_weight[target_ids]
    return tensors


def _write_tokenizer(
    tokenizer: Tokenizer, settings: Settings, folder: Path, source_ids: list[int], target_ids: list[int], positions: int
) -> None:
    source, target = (token_names(side) for side in (tokenizer.source, tokenizer.target))
    write_json(folder / "vocab.json", {source[token]: i for i, token in enumerate(source_ids)})
    if target != source:
        write_json(folder / "target_vocab.json", {target[token]: i for i, token in enumerate(target_ids)})
    special = [
        name for token, name in ((START, START_NAME), (SEPARATOR, SEPARATOR_NAME)) if token in target_ids
    ]  # no part of translations, so that `decode` can leave them out
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": settings.data.source_language,
            "target_lang": settings.data.target_language,
            "separate_vocabs": target != source,
            "unk_token": unknown_name(tokenizer.source),
            "eos_token": END_NAME,
            "pad_token": PAD_NAME,
            "additional_special_tokens": special,
            "model_max_length": positions,
            "clean_up_tokenization_spaces": False,
        },
    )
