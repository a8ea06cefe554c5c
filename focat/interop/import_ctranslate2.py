"""Reads CTranslate2's models: a folder with `model.bin`, or an `.argosmodel`, which is such a folder in a zip file.

Weights in eight or sixteen bits become float32. CTranslate2 itself computes with the integers, a little differently.
"""

from __future__ import annotations

import json
import math
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from focat.errors import FocatError
from focat.files import read_json_object
from focat.interop.ctranslate2_file import VariableFile, read_variables
from focat.interop.foreign_model import ForeignModel, ForeignTokens, Weights, read_text_splitters, table_settings

_ACTIVATIONS = {0: "relu", 2: "silu", 3: "gelu"}
_OTHER_ACTIVATIONS = {1: "tanh approximation of GELU", 4: "sigmoid approximation of GELU", 5: "tanh", 6: "sigmoid"}
_REVISION = 7  # of CTranslate2's specification of encoder-decoder Transformers
_MAX_TOKENS = 1024  # longest input by CTranslate2's defaults
_LINEARS = {
    "self_attention.qkv_proj": "self_attention/linear_0",
    "self_attention.out_proj": "self_attention/linear_1",
    "cross_attention.q_proj": "attention/linear_0",
    "cross_attention.kv_proj": "attention/linear_1",
    "cross_attention.out_proj": "attention/linear_2",
    "feedforward.up_proj": "ffn/linear_0",
    "feedforward.down_proj": "ffn/linear_1",
}
_NORMS = {
    "self_attention_residual.norm": "self_attention/layer_norm",
    "cross_attention_residual.norm": "attention/layer_norm",
    "feedforward_residual.norm": "ffn/layer_norm",
}
# Scalars that are read below, or say nothing about what is computed.
_KNOWN_SCALARS = {
    "activation",
    "alignment_heads",
    "alignment_layer",
    "embeddings_merge",
    "num_heads",
    "pre_norm",
    "scale_embeddings",
    "start_from_zero_embedding",
}
_MODEL_FILES = {
    "config.json",
    "model.bin",
    "source.spm",
    "target.spm",
    *(f"{side}_vocabulary.{kind}" for side in ("shared", "source", "target") for kind in ("json", "txt")),
}
_PACKAGE_FILES = {"metadata.json", "sentencepiece.model"}
_GET_AGAIN = "get the model again"


def read_ctranslate2(folder: Path) -> ForeignModel:
    """Read a folder of CTranslate2.

    Raises:
        FocatError: it is incomplete or damaged, or focat's Transformer cannot compute what the model computes.
    """
    path = folder / "model.bin"
    file = read_variables(path)
    if file.specification != "TransformerSpec":
        raise FocatError(f"{path}: is a {file.specification}; focat imports encoder-decoder Transformers only")
    if file.revision != _REVISION:
        raise FocatError(
            f"{path}: is of revision {file.revision}, and focat reads {_REVISION}; convert the model again with a "
            "current CTranslate2"
        )
    scalars = {name: float(value) for name, value in file.variables.items() if not value.dim()}
    scalars = {name: value for name, value in scalars.items() if not name.endswith("weight_scale")}
    weights = Weights(path, _dequantised(path, file))
    settings = _settings(path, scalars, weights)
    layers: dict[str, Tensor] = {}
    for side in ("encoder", "decoder"):
        for i in range(settings[f"{side}_layers"]):
            layers |= _layer(weights, side, i)
        if settings["norm"] == "pre":
            layers |= _norm(weights, f"{side}_norm", f"{side}/layer_norm")
    tables, max_tokens = _positions(path, weights, settings)
    source, target = _tokens(folder, zero_start=settings["start_embedding"] == "zero")
    model = ForeignModel(
        path=path,
        settings=settings,
        layers=layers | tables,
        source=source,
        target=target,
        source_embedding=weights["encoder/embeddings_0/weight"],
        target_embedding=weights["decoder/embeddings/weight"],
        output=weights["decoder/projection/weight"],
        output_bias=weights.get("decoder/projection/bias"),
        max_tokens=max_tokens,
        decoding={"length_penalty": 1.0},
        notes=_notes(path, file),
    )
    weights.check_all_read()
    return model


def read_argos(path: Path) -> ForeignModel:
    """Read an `.argosmodel`; the same errors as `read_ctranslate2`."""
    with TemporaryDirectory(prefix="focat-") as temporary:
        folder = Path(temporary)
        try:
            with zipfile.ZipFile(path) as archive:
                _extract(path, archive, folder)
            model = read_ctranslate2(folder)
            metadata = read_json_object(folder / "metadata.json", _GET_AGAIN)
        except OSError as error:
            raise FocatError(f"{path}: cannot be read: {error.strerror}") from None
        except (zipfile.BadZipFile, EOFError, RuntimeError) as error:  # RuntimeError: encrypted, or packed in some way
            raise FocatError(f"{path}: is damaged, or no .argosmodel ({error}); {_GET_AGAIN}") from None
        except FocatError as error:
            raise FocatError(str(error).replace(temporary, str(path))) from None
    languages = metadata.get("from_code"), metadata.get("to_code")
    notes = [note.replace(temporary, str(path)) for note in model.notes]
    return replace(model, path=path, languages=languages, notes=tuple(notes))


def _extract(path: Path, archive: zipfile.ZipFile, folder: Path) -> None:
    """Write the files of the model into one folder, under names that we know: nothing else in the archive is read."""
    names = {PurePosixPath(name): name for name in archive.namelist()}
    models = [name.parent for name in names if name.name == "model.bin"]
    if len(models) != 1:
        raise FocatError(f"{path}: has {len(models)} files model.bin; expected an .argosmodel with one model")
    for name, member in names.items():
        wanted = _MODEL_FILES if name.parent == models[0] else _PACKAGE_FILES
        if name.name in wanted and name.parent in (models[0], models[0].parent):
            with archive.open(member) as packed, (folder / name.name).open("wb") as file:
                shutil.copyfileobj(packed, file)


def _dequantised(path: Path, file: VariableFile) -> dict[str, Tensor]:
    """All tensors in floating point; of quantised ones, each row has a scale, or in sixteen bits the whole tensor."""
    tensors: dict[str, Tensor] = {}
    for name, value in file.variables.items():
        if not value.dim() or name.endswith("_scale"):
            continue
        scale = file.variables.get(f"{name}_scale")
        if scale is not None:
            if scale.dim() and (value.dim() != 2 or scale.shape != value.shape[:1]):
                raise FocatError(f"{path}: {name} does not have a scale for each of its rows; {_GET_AGAIN}")
            scale = scale.float()
            value = value.float() / (scale[:, None] if scale.dim() else scale)
        tensors[name] = value
    return tensors | {alias: tensors[name] for alias, name in file.aliases.items() if name in tensors}


def _notes(path: Path, file: VariableFile) -> tuple[str, ...]:
    kinds = {str(value.dtype).removeprefix("torch.") for value in file.variables.values() if value.dim() > 1}
    rounded = sorted(kinds - {"float32"})
    return (f"{path}: weights in {' and '.join(rounded)} became float32",) if rounded else ()


def _settings(path: Path, scalars: dict[str, float], weights: Weights) -> dict[str, Any]:
    width = weights.matrix("decoder/embeddings/weight").shape[1]
    sides: list[dict[str, float]] = []
    for side in ("encoder", "decoder"):
        here = {name.removeprefix(f"{side}/"): value for name, value in scalars.items() if name.startswith(f"{side}/")}
        for name, value in here.items():
            if value and name.rpartition("/")[2] not in _KNOWN_SCALARS:
                raise FocatError(f"{path}: {side}/{name} is {value:g}: focat's Transformer has no such part")
        scale = here.get("scale_embeddings", 0)
        if scale != 1 and not math.isclose(scale, math.sqrt(width), rel_tol=1e-5):
            raise FocatError(f"{path}: the embeddings of its {side} are not scaled by √{width}, as focat's are")
        sides.append(here)
    for name in ("num_heads", "pre_norm", "activation"):
        if sides[0].get(name) is None or sides[0].get(name) != sides[1].get(name):
            raise FocatError(f"{path}: encoder and decoder have no {name} in common; focat has one for both")
    kind = int(sides[0]["activation"])
    if kind not in _ACTIVATIONS:
        other = _OTHER_ACTIVATIONS.get(kind, f"activation {kind}")
        raise FocatError(f"{path}: has the {other}, which focat does not have (it has ReLU, SiLU and GELU)")
    gated = "encoder/layer_0/ffn/linear_0_noact/weight" in weights
    if gated and _ACTIVATIONS[kind] != "silu":
        raise FocatError(f"{path}: has gated feed-forward blocks with {_ACTIVATIONS[kind]}; focat has them with SiLU")
    return {
        "d_model": width,
        "d_ff": len(weights.matrix("encoder/layer_0/ffn/linear_0/weight")),
        "encoder_layers": _count(weights, "encoder"),
        "decoder_layers": _count(weights, "decoder"),
        "heads": int(sides[0]["num_heads"]),
        "dropout": 0.1,  # of OPUS-MT's training; a model of CTranslate2 does not say its own
        "norm": "pre" if sides[0]["pre_norm"] else "post",
        "activation": "swiglu" if gated else _ACTIVATIONS[kind],
        "start_embedding": "zero" if sides[1].get("start_from_zero_embedding") else "learned",
    }


def _count(weights: Weights, side: str) -> int:
    layers = 0
    while f"{side}/layer_{layers}/ffn/linear_0/weight" in weights:
        layers += 1
    return layers


def _layer(weights: Weights, side: str, i: int) -> dict[str, Tensor]:
    """The weights of a layer under focat's names; queries, keys and values are stacked as focat's are."""
    prefix, tensors = f"{side}/layer_{i}", dict[str, Tensor]()
    for name, theirs in _LINEARS.items():
        if side == "decoder" or not name.startswith("cross"):
            parts = [theirs]
            if name == "feedforward.up_proj" and f"{prefix}/{theirs}_noact/weight" in weights:
                parts.append(f"{theirs}_noact")
            for kind in ("weight", "bias"):
                tensors[f"{side}.{i}.{name}.{kind}"] = weights.stacked([f"{prefix}/{part}/{kind}" for part in parts])
    for name, theirs in _NORMS.items():
        if side == "decoder" or not name.startswith("cross"):
            tensors |= _norm(weights, f"{side}.{i}.{name}", f"{prefix}/{theirs}")
    return tensors


def _norm(weights: Weights, name: str, theirs: str) -> dict[str, Tensor]:
    return {f"{name}.weight": weights[f"{theirs}/gamma"], f"{name}.bias": weights[f"{theirs}/beta"]}


def _positions(path: Path, weights: Weights, settings: dict[str, Any]) -> tuple[dict[str, Tensor], int]:
    """Sets the settings of positions; returns the tables, if they are learned, and the longest sequence."""
    names = [f"{side}/position_encodings/encodings" for side in ("encoder", "decoder")]
    if not any(name in weights for name in names):  # CTranslate2's own sinusoids
        settings |= {"sinusoids": "fairseq", "position_offset": 1}
        return {}, _MAX_TOKENS
    tables = [weights.matrix(name) for name in names]
    rows = min(_MAX_TOKENS, *map(len, tables))
    found = [table_settings(table) for table in tables]
    if found[0] is not None and found[0] == found[1]:
        settings |= found[0]
        return {}, rows
    settings["positions"] = "learned"
    names = ["source_positions.weight", "target_positions.weight"]
    return {name: table[:rows] for name, table in zip(names, tables, strict=True)}, rows


def _tokens(folder: Path, zero_start: bool) -> tuple[ForeignTokens, ForeignTokens]:
    config = read_json_object(folder / "config.json", _GET_AGAIN) if (folder / "config.json").exists() else {}
    end, unknown = str(config.get("eos_token", "</s>")), str(config.get("unk_token", "<unk>"))
    start = end if zero_start else str(config.get("decoder_start_token", "<s>"))
    # Converters of other toolkits leave the end symbol of sources to their tokenizers; only OpenNMT has none.
    if config.get("add_source_bos") or not (zero_start or config.get("add_source_eos") or start == end):
        raise FocatError(
            f"{folder}/config.json: sources of this model begin with {config.get('bos_token')} or end without {end}; "
            "focat's end with it, and have nothing in front"
        )
    splitters = read_text_splitters(folder)
    sides = []
    for side, splitter in zip(("source", "target"), splitters, strict=True):
        path, pieces = _vocabulary(folder, side)
        ids = {piece: i for i, piece in enumerate(pieces)}
        for piece in (end, unknown, start) if side == "target" else (end, unknown):
            if piece not in ids:
                raise FocatError(f"{path}: lists no {piece}, which config.json names; {_GET_AGAIN}")
        sides.append(
            ForeignTokens(
                path=path,
                pieces=pieces,
                sentencepiece=splitter,
                end=ids[end],
                unknown=ids[unknown],
                padding=ids.get("<pad>"),
                start=None if zero_start else ids.get(start),
            )
        )
    return sides[0], sides[1]


def _vocabulary(folder: Path, side: str) -> tuple[Path, list[str]]:
    for name in (f"{side}_vocabulary", "shared_vocabulary"):
        for path in (folder / f"{name}.json", folder / f"{name}.txt"):
            if path.exists():
                try:
                    text = path.read_text(encoding="utf-8")
                    pieces = json.loads(text) if path.suffix == ".json" else text.removesuffix("\n").split("\n")
                    if isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces):
                        return path, pieces
                except (OSError, ValueError, RecursionError):
                    pass
                raise FocatError(f"{path}: is no list of pieces; {_GET_AGAIN}")
    raise FocatError(f"{folder}: has no {side}_vocabulary.json and no shared_vocabulary.json; {_GET_AGAIN}")
