"""Weights on disk: reading those of a checkpoint, verified, and copying them into a model."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from focat.errors import FocatError
from focat.files import read_json_object, sha256
from focat.model.transformer import Transformer

CHECKSUMS = "checksums.json"  # of the files of a checkpoint
_OTHER = "use another checkpoint"
_INITIALISERS = {"normal_", "uniform_", "kaiming_uniform_", "xavier_uniform_"}


class UninitialisedWeights(TorchFunctionMode):
    """Models are built without random numbers in this context: they take longer than loading weights instead."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Leave a tensor as it is where it would be filled with random numbers."""
        kwargs = kwargs or {}
        if func.__name__ in _INITIALISERS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights of a checkpoint, and verify their checksum if it has one."""
    path, known = _weights_file(folder), _recorded_digest(folder)
    if known is not None and sha256(path) != known:
        raise FocatError(f"{path}: is damaged (it does not match its checksum); {_OTHER}")
    try:
        return load_file(path)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise FocatError(f"{path}: is damaged ({error}); {_OTHER}") from None


def loaded_digest(folder: Path) -> str:
    """Return SHA-256 of the weights of a checkpoint that were loaded: as recorded, since reading them verifies that."""
    return _recorded_digest(folder) or sha256(_weights_file(folder))


def _recorded_digest(folder: Path) -> str | None:
    """Return the checksum of the weights that a checkpoint has; None if it has none."""
    path = folder / CHECKSUMS
    return read_json_object(path, _OTHER).get("weights.safetensors") if path.exists() else None


def count_weights(folder: Path) -> int:
    """Return the number of weights of a checkpoint, without reading them."""
    path = _weights_file(folder)
    try:
        with safe_open(path, "numpy") as weights:
            shapes: list[list[int]] = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118
            return sum(map(math.prod, shapes))
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise FocatError(f"{path}: is damaged ({error}); {_OTHER}") from None


def _weights_file(folder: Path) -> Path:
    path = folder / "weights.safetensors"
    if not path.is_file():
        raise FocatError(f"{folder}: has no weights.safetensors")
    if not os.access(path, os.R_OK):
        raise FocatError(f"{path}: cannot be read; its owner has to permit it")
    return path


def load_weights(model: Transformer, folder: Path, may_lack: str | None = None) -> list[str]:
    """Copy stored weights into a model of the same shape.

    Args:
        may_lack: weights that this pattern matches may be missing in the folder, and keep their values.

    Returns:
        The names of the weights that are missing there.
    """
    path, stored = folder / "weights.safetensors", read_weights(folder)
    parameters = dict(model.named_parameters())
    lacking = [name for name in parameters if may_lack and re.match(may_lack, name) and name not in stored]
    for name in dict.fromkeys([*parameters, *stored]):
        expected, found = (tensors[name].shape if name in tensors else None for tensors in (parameters, stored))
        if expected != found and name not in lacking:
            raise FocatError(
                f"{path}: {name} is {_shape(found)} there and {_shape(expected)} in this model: "
                "the two differ in model settings or vocabulary"
            )
    with torch.no_grad():
        for name, parameter in parameters.items():
            if name not in lacking:
                parameter.copy_(stored[name])
    return lacking


def _shape(shape: torch.Size | None) -> str:
    return "missing" if shape is None else "×".join(map(str, shape))
