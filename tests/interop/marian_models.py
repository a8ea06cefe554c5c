"""Marian models with random weights, in the form of each toolkit that saves them.

`FOCAT_INTEROP_SIZE=base pytest tests/interop` tests models of Transformer-base size on 200 inputs, in some minutes.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
import yaml
from torch import Tensor

from focat.corpus.generated import generate
from focat.corpus.tokenizer import ForeignVocabulary
from focat.corpus.vocabulary import END, PAD, SPECIALS

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

BASE = os.environ.get("FOCAT_INTEROP_SIZE") == "base"
INPUTS = 200 if BASE else 12
SIZES: dict[str, Any] = (
    {"d_model": 512, "ffn": 2048, "layers": 6, "heads": 8, "vocabulary": 300}
    if BASE
    else {"d_model": 32, "ffn": 64, "layers": 2, "heads": 4, "vocabulary": 120}
)
LANGUAGES = [">>deu<<", ">>nld<<"]


@cache
def sentences(side: str) -> list[str]:
    """Sentences of the generated corpus, `source` or `target`, and some with characters that no piece has."""
    found = [sentence for document in generate(120, seed=1) for sentence in getattr(document, side)]
    return [*list(dict.fromkeys(found))[: INPUTS - 2], "Ünknown ☃ signs.", "▁ and ▁▁ x"]


@cache
def splitter(side: str) -> bytes:
    """A SentencePiece model of the sentences of one side."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([s for d in generate(60, seed=2) for s in getattr(d, side)]),
        model_writer=model,
        vocab_size=SIZES["vocabulary"],
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def pieces_of(*sides: str, languages: bool = False) -> list[str]:
    """A vocabulary as Marian has it: </s>, <unk>, then pieces in an order that is not SentencePiece's."""
    found: set[str] = set(LANGUAGES if languages else [])
    for side in sides:
        processor = sentencepiece.SentencePieceProcessor(model_proto=splitter(side))
        found |= {processor.id_to_piece(i) for i in range(processor.get_piece_size())}
    listed = sorted(found - {"<s>", "</s>", "<unk>"})
    random.Random(3).shuffle(listed)
    return ["</s>", "<unk>", *listed[: len(listed) * 19 // 20]]  # some pieces of SentencePiece are not listed


def random_marian(
    folder: Path, separate: bool = False, languages: bool = False, pre_norm: bool = False, trained_start: bool = False
) -> Any:
    """A model with random weights, saved by transformers with the files of its tokenizer; returned in evaluation mode.

    `separate`: source and target have vocabularies of their own. `pre_norm`: an M2M100 model.
    `trained_start`: padding, which the decoder starts from, has an embedding like others.
    """
    folder.mkdir(parents=True)
    names = ["source"], ["target"]
    if not separate:
        names = ["source", "target"], ["source", "target"]
    source, target = ([*pieces_of(*each, languages=languages), "<pad>"] for each in names)
    if pre_norm:  # positions are counted from the id of padding, which has to be small
        source = target = ["</s>", "<pad>", *source[1:-1]]
    if separate:  # one padding id for both, as the class has it
        size = max(len(source), len(target))
        source, target = (
            [*p[:-1], *(f"<unused-{i}>" for i in range(size - len(p))), "<pad>"] for p in (source, target)
        )
    padding = target.index("<pad>")
    common = {
        "vocab_size": len(source),
        "d_model": SIZES["d_model"],
        "max_position_embeddings": 64,
        "scale_embedding": True,
        "pad_token_id": padding,
        "eos_token_id": 0,
        "bos_token_id": None,
        "forced_eos_token_id": None,
        "num_beams": 4,
        **{f"{side}_layers": SIZES["layers"] for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": SIZES["heads"] for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": SIZES["ffn"] for side in ("encoder", "decoder")},
    }
    torch.manual_seed(5)
    if pre_norm:
        config = transformers.M2M100Config(**common, decoder_start_token_id=0, activation_function="relu")
        model = transformers.M2M100ForConditionalGeneration(config)
    else:
        config = transformers.MarianConfig(
            **common,
            decoder_vocab_size=len(target),
            decoder_start_token_id=padding,
            activation_function="swish",
            share_encoder_decoder_embeddings=not separate,
        )
        model = transformers.MarianMTModel(config)
    _randomise(model, trained_start)
    model.eval().save_pretrained(folder)
    for side, listed in (("source", source), ("target", target)):
        (folder / f"{side}.spm").write_bytes(splitter(side))
        name = "vocab.json" if side == "source" or not separate else "target_vocab.json"
        (folder / name).write_text(json.dumps({piece: i for i, piece in enumerate(listed)}))
    described = {
        "source_lang": "en",
        "target_lang": "de",
        "separate_vocabs": separate,
        "tokenizer_class": "MarianTokenizer",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    return model


@torch.no_grad()
def _randomise(model: Any, trained_start: bool) -> None:
    """Weights with which every token and every layer matters, and some translations end after a few words."""
    width = SIZES["d_model"]
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:  # biases and norms that are not the identity
            parameter.add_(torch.randn_like(parameter) * 0.1)
        elif "layers" in name:
            parameter.copy_(torch.randn_like(parameter) * 1.5 * parameter.shape[1] ** -0.5)
        elif "embed_positions" not in name:
            parameter.copy_(torch.randn_like(parameter) * 2 * width**-0.5)
            if not trained_start:
                parameter[model.config.pad_token_id] = 0.0
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias) * 0.5)
        # the end is the likeliest token in about half of all places, whatever the weights
        sources, targets = torch.randint(2, model.config.vocab_size - 1, (2, 16, 10)).unbind()
        logits = model.eval()(input_ids=sources, decoder_input_ids=targets).logits  # (16, 10, vocabulary)
        model.final_logits_bias[0, 0] += (logits[..., 1:].amax(-1) - logits[..., 0]).median()


def save_npz(model: Any, hf_folder: Path, folder: Path) -> Path:
    """The weights of a `MarianMTModel` as Marian saves them, with `decoder.yml` and vocabularies in YAML."""
    folder.mkdir(parents=True)
    weights = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    arrays = {
        "Wemb": weights["model.shared.weight"][:-1],  # Marian has no padding
        "decoder_ff_logit_out_b": weights["final_logits_bias"][:, :-1],
    }
    linears = {"self_attn": "self", "encoder_attn": "context"}
    for name, array in weights.items():
        parts = name.split(".")
        if parts[0] != "model" or parts[2] != "layers":
            continue
        prefix, rest, kind = f"{parts[1]}_l{int(parts[3]) + 1}", parts[4:-1], parts[-1]
        if rest[0] in linears:
            short = rest[1][0]  # q, k, v, o
            key = f"{prefix}_{linears[rest[0]]}_{'W' if kind == 'weight' else 'b'}{short}"
        elif rest[0] in ("fc1", "fc2"):
            key = f"{prefix}_ffn_{'W' if kind == 'weight' else 'b'}{rest[0][-1]}"
        else:
            block = {
                "self_attn_layer_norm": "self_Wo",
                "encoder_attn_layer_norm": "context_Wo",
                "final_layer_norm": "ffn_ffn",
            }
            key = f"{prefix}_{block[rest[0]]}_ln_{'scale' if kind == 'weight' else 'bias'}"
        arrays[key] = array.T if array.ndim == 2 else array[None]
    options = {
        "type": "transformer",
        "dim-emb": SIZES["d_model"],
        "transformer-dim-ffn": SIZES["ffn"],
        "transformer-heads": SIZES["heads"],
        "enc-depth": SIZES["layers"],
        "dec-depth": SIZES["layers"],
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-ffn-activation": "swish",
        "transformer-decoder-autoreg": "self-attention",
        "vocabs": ["/somewhere/else/vocab.yml", "/somewhere/else/vocab.yml"],
    }
    arrays["special:model.yml"] = np.frombuffer(yaml.safe_dump(options).encode() + b"\0", np.int8)
    np.savez(folder / "model.npz", **arrays)
    ids = json.loads((hf_folder / "vocab.json").read_text())
    del ids["<pad>"]
    quoted = {piece: json.dumps(piece, ensure_ascii=False) if piece in ',.:"\\!?' else piece for piece in ids}
    (folder / "vocab.yml").write_text(
        "".join(f"{quoted[piece]}: {id}\n" for piece, id in ids.items()), encoding="utf-8"
    )
    decoder = {"models": ["model.npz"], "vocabs": ["vocab.yml", "vocab.yml"], "beam-size": 4, "normalize": 1}
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder))
    for side in ("source", "target"):
        shutil.copy(hf_folder / f"{side}.spm", folder)
    return folder / "model.npz"


def save_ctranslate2(hf_folder: Path, folder: Path, quantization: str | None = None) -> Path:
    """The same model, converted by CTranslate2."""
    converters = pytest.importorskip("ctranslate2.converters", reason="ctranslate2 is not installed")
    converter = converters.TransformersConverter(str(hf_folder), copy_files=["source.spm", "target.spm"])
    converter.convert(str(folder), quantization=quantization)
    return folder


def their_ids(vocabulary: ForeignVocabulary, ids: dict[str, int]) -> Tensor:
    """The id of the other toolkit for each of ours; -1 for tokens that it does not have."""
    special = {END: ids["</s>"], PAD: ids.get("<pad>", -1)}
    words = [ids[piece] for piece in vocabulary.listed.pieces]
    return torch.tensor([*(special.get(i, -1) for i in range(SPECIALS)), *words])
