"""Reads models of Marian: an `.npz`, with `decoder.yml` and the vocabularies it names in the same folder.

Marian itself has the frequencies of fairseq's sinusoids. Hugging Face's Marian class and CTranslate2's converter have
others, so what they compute with the same weights is a little different.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
import yaml
from torch import Tensor

from focat.corpus.tokenizer import read_sentencepiece
from focat.errors import FocatError
from focat.interop.foreign_model import ForeignModel, ForeignTokens, Weights, read_text_splitters

_GET_AGAIN = "get the model again"
_SETTINGS = "special:model.yml"
_MAX_TOKENS = 512  # Marian has no limit; this is that of OPUS-MT
_LINEARS = {
    "self_attention.qkv_proj": ("self", "qkv"),
    "self_attention.out_proj": ("self", "o"),
    "cross_attention.q_proj": ("context", "q"),
    "cross_attention.kv_proj": ("context", "kv"),
    "cross_attention.out_proj": ("context", "o"),
    "feedforward.up_proj": ("ffn", "1"),
    "feedforward.down_proj": ("ffn", "2"),
}
_NORMS = {
    "self_attention_residual.norm": "self_Wo",
    "cross_attention_residual.norm": "context_Wo",
    "feedforward_residual.norm": "ffn_ffn",
}
_NORM_OF = {("", "dan", ""): "post", ("n", "da", "n"): "pre"}  # by what is done before and after blocks, and at the top
# Options of Marian, and the values with which it computes what focat computes.
_REQUIRED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-postprocess-emb": ("", "d"),
    "transformer-no-projection": (False,),
    "transformer-train-position-embeddings": (False,),
    "transformer-ffn-activation": ("relu", "swish"),
    "transformer-ffn-depth": (2,),
    "transformer-rnn-projection": (False,),
    "transformer-tied-layers": ([],),
    "transformer-decoder-dim-ffn": (0,),
    "transformer-decoder-ffn-depth": (0, 2),
    "lemma-dim-emb": (0,),
}


def read_marian(path: Path) -> ForeignModel:
    """Read an `.npz` and the files beside it.

    Raises:
        FocatError: a file is missing or damaged, or focat's Transformer cannot compute what the model computes.
    """
    options, weights = _read_npz(path)
    settings = _settings(path, options, weights)
    layers: dict[str, Tensor] = {}
    for side in ("encoder", "decoder"):
        for i in range(settings[f"{side}_layers"]):
            layers |= _layer(weights, side, i)
        if settings["norm"] == "pre":
            layers |= _norm(weights, f"{side}_norm", f"{side}_top")
    source_table, target_table = (
        weights.matrix("Wemb" if f"{side}_Wemb" not in weights else f"{side}_Wemb") for side in ("encoder", "decoder")
    )
    output, bias = target_table, weights.get("decoder_ff_logit_out_b")
    if "decoder_ff_logit_out_Wt" in weights:
        output = weights["decoder_ff_logit_out_Wt"]
    elif "decoder_ff_logit_out_W" in weights:
        output = weights.matrix("decoder_ff_logit_out_W").T
    decoder_options = _read_yaml(path.parent / "decoder.yml") if (path.parent / "decoder.yml").exists() else {}
    source, target = _tokens(path.parent, decoder_options.get("vocabs") or options.get("vocabs"))
    model = ForeignModel(
        path=path,
        settings=settings,
        layers=layers,
        source=source,
        target=target,
        source_embedding=source_table,
        target_embedding=target_table,
        output=output,
        output_bias=None if bias is None else bias.flatten(),
        max_tokens=_MAX_TOKENS,
        decoding=_decoding(path.parent / "decoder.yml", decoder_options),
    )
    weights.check_all_read("decoder_c_mt")
    return model


def _read_npz(path: Path) -> tuple[dict[str, Any], Weights]:
    """The options that the model was trained with, and its weights."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except OSError as error:
        raise FocatError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
        raise FocatError(f"{path}: is truncated, or no .npz of Marian ({error}); {_GET_AGAIN}") from None
    if _SETTINGS not in arrays:
        raise FocatError(f"{path}: is no model of Marian: it has no {_SETTINGS}")
    text = arrays.pop(_SETTINGS).tobytes().rstrip(b"\0")
    try:
        options = yaml.safe_load(text.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError):
        options = None
    if not isinstance(options, dict):
        raise FocatError(f"{path}: its {_SETTINGS} cannot be read; {_GET_AGAIN}")
    kinds = {name: array.dtype for name, array in arrays.items() if array.dtype not in (np.float32, np.float16)}
    if kinds:
        name, kind = next(iter(kinds.items()))
        raise FocatError(f"{path}: {name} is in {kind}; focat reads models of Marian in float32 and float16")
    return options, Weights(path, {name: torch.from_numpy(array) for name, array in arrays.items()})


def _settings(path: Path, options: dict[str, Any], weights: Weights) -> dict[str, Any]:
    for name, values in _REQUIRED.items():
        if name in options and options[name] not in values:
            instead = " or ".join(f"{value!r}" for value in values)
            raise FocatError(f"{path}: its option {name} is {options[name]!r}; focat's Transformer is {instead}")
    steps = tuple(
        str(options.get(f"transformer-{name}") or "") for name in ("preprocess", "postprocess", "postprocess-top")
    )
    if steps not in _NORM_OF:
        known = " or ".join(str(each) for each in _NORM_OF)
        raise FocatError(
            f"{path}: its options transformer-preprocess, -postprocess and -postprocess-top are {steps}; focat's "
            f"Transformer is {known}"
        )
    try:
        sizes = {
            "d_model": int(options["dim-emb"]),
            "d_ff": int(options["transformer-dim-ffn"]),
            "heads": int(options["transformer-heads"]),
            "encoder_layers": int(options["enc-depth"]),
            "decoder_layers": int(options["dec-depth"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise FocatError(f"{path}: its options lack a size ({error}); {_GET_AGAIN}") from None
    activation = options.get("transformer-ffn-activation", "relu")
    return sizes | {
        "norm": _NORM_OF[steps],
        "activation": "silu" if activation == "swish" else "relu",
        "dropout": float(options.get("transformer-dropout") or 0.0),
        "start_embedding": "zero",
    }


def _layer(weights: Weights, side: str, i: int) -> dict[str, Tensor]:
    """The weights of a layer under focat's names; Marian's matrices are transposed, and layers counted from 1."""
    prefix, tensors = f"{side}_l{i + 1}", dict[str, Tensor]()
    for name, (block, parts) in _LINEARS.items():
        if side == "decoder" or block != "context":
            matrices, biases = ([f"{prefix}_{block}_{kind}{part}" for part in parts] for kind in "Wb")
            tensors[f"{side}.{i}.{name}.weight"] = weights.stack({part: weights.matrix(part).T for part in matrices})
            tensors[f"{side}.{i}.{name}.bias"] = weights.stack({part: weights[part].flatten() for part in biases})
    for name, theirs in _NORMS.items():
        if side == "decoder" or not name.startswith("cross"):
            tensors |= _norm(weights, f"{side}.{i}.{name}", f"{prefix}_{theirs}")
    return tensors


def _norm(weights: Weights, name: str, theirs: str) -> dict[str, Tensor]:
    suffix = "_pre" if f"{theirs}_ln_scale_pre" in weights else ""
    return {
        f"{name}.weight": weights[f"{theirs}_ln_scale{suffix}"].flatten(),
        f"{name}.bias": weights[f"{theirs}_ln_bias{suffix}"].flatten(),
    }


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FocatError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        content = None
    if not isinstance(content, dict):
        raise FocatError(f"{path}: does not hold options of Marian; {_GET_AGAIN}")
    return content


def _decoding(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"beam": options.get("beam-size", 12), "length_penalty": options.get("normalize", 0)}
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise FocatError(f"{path}: its {'beam-size' if name == 'beam' else 'normalize'} is {value}, and no number")
    return {"beam": int(found["beam"]), "length_penalty": float(found["length_penalty"])}


def _tokens(folder: Path, vocabularies: Any) -> tuple[ForeignTokens, ForeignTokens]:
    if not isinstance(vocabularies, list) or len(vocabularies) != 2:
        raise FocatError(f"{folder}: no decoder.yml there names the vocabularies of source and target (`vocabs`)")
    paths = [folder / Path(str(name)).name for name in vocabularies]  # beside the model, wherever they were in training
    sides = []
    for i, path in enumerate(paths):
        if not path.exists():
            raise FocatError(f"{path}: is missing, and the model's vocabulary; put it there")
        if path.suffix == ".spm":
            splitter = read_sentencepiece(path)
            processor = sentencepiece.SentencePieceProcessor(model_proto=splitter)
            pieces = [processor.id_to_piece(id) for id in range(processor.get_piece_size())]
        else:
            splitter, pieces = read_text_splitters(folder)[i], _read_pieces(path)
        if not {"</s>", "<unk>"} <= set(pieces):
            raise FocatError(f"{path}: lists no </s> or no <unk>, which every vocabulary of Marian has")
        sides.append(ForeignTokens(path, pieces, splitter, pieces.index("</s>"), pieces.index("<unk>")))
    return sides[0], sides[1]


def _read_pieces(path: Path) -> list[str]:
    """The pieces of a vocabulary in YAML, by id.

    Read line by line: PyYAML takes pieces such as `no` and `1` for something else, and refuses some characters.
    """
    ids: dict[str, int] = {}
    key: str | None = None
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        raise FocatError(f"{path}: is not a text file in UTF-8") from None
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r")
        if line.startswith("? "):
            key = line[2:]
        elif line and line != "---":
            written, _, id = (key, "", line[1:]) if key is not None else line.rpartition(":")
            if not id.strip().isdecimal():
                raise FocatError(f"{path}, line {number}: expected a piece and its id")
            ids[_unquoted(written)] = int(id)
            key = None
    if sorted(ids.values()) != list(range(len(ids))):
        raise FocatError(f"{path}: its {len(ids)} pieces do not have the ids 0 to {len(ids) - 1}; {_GET_AGAIN}")
    return sorted(ids, key=ids.__getitem__)


_ESCAPED = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


def _unquoted(text: str) -> str:
    """A key of YAML without its quotes and escapes."""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':

        def character(escaped: re.Match[str]) -> str:
            code = escaped[1]
            return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

        return _ESCAPED.sub(character, text[1:-1])
    return text
