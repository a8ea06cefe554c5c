"""Run folders, and the one way to open trained weights. A run is self-contained and can be moved or copied.

config.yaml, model.json, tokenizer/, checkpoints/NNNNNNN/, best, averaged/, log.jsonl (docs/formats.md).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from focat.config import Settings, dump_settings, load_settings, override_decoding
from focat.config.schema import WindowSettings
from focat.corpus.store import Store
from focat.corpus.tokenizer import Tokenizer
from focat.errors import FocatError
from focat.files import PARTIAL_SUFFIX, sha256, write_atomic, write_json
from focat.hardware import device_named
from focat.model.transformer import Transformer

RUN_FORMAT = 2  # of run folders; docs/formats.md, "Compatibility"
CHECKSUMS = "checksums.json"  # of the files of a checkpoint
# Settings that may change when a run is resumed.
_MAY_CHANGE: Any = {
    "training": {
        "budget",
        "compile",
        "device",
        "keep_checkpoints",
        "log_every",
        "log_samples",
        "output_dir",
        "patience",
        "save_minutes",
    },
    "data": True,  # the store's own digest is compared instead
    "decoding": True,
}


class Run:
    """The folder of one trained system, or of one in training.

    Args:
        path: the folder.
        overrides: settings to use instead of those it was trained with, as in `decoding.beam=8`.
    """

    def __init__(self, path: Path, overrides: Sequence[str] = ()) -> None:
        self.path = path
        self.overrides = tuple(overrides)
        self.log = path / "log.jsonl"
        self.averaged = path / "averaged"

    @classmethod
    def create(cls, settings: Settings, store: Store) -> Run:
        """Create the folder of a new run, or open it to resume.

        Raises:
            FocatError: the folder holds something else, or a run with other settings than those that may change.
        """
        run = cls(settings.training.output_dir)
        tokenizer = store.tokenizer
        info = {
            "format": RUN_FORMAT,
            "source_vocabulary": tokenizer.source.size,
            "target_vocabulary": tokenizer.target.size,
            "shift": _resolve_shift(settings, store),
            "store": store.manifest["keys"]["train"],
        }
        if (run.path / "config.yaml").exists() and (run.path / "model.json").exists():
            run._check_format()
            run._check_same(settings, info)
        elif not (run.path / "model.json").exists() and run._files():
            raise FocatError(f"{run.path}: is not empty and holds no run; give another training.output_dir")
        run.path.mkdir(parents=True, exist_ok=True)
        write_json(run.path / "model.json", info)  # first: what follows may be interrupted, and is ours
        tokenizer.save(run.path / "tokenizer")
        write_atomic(run.path / "config.yaml", dump_settings(settings))  # last: with it, the folder is a run
        return run

    @classmethod
    def open(cls, path: Path, overrides: Sequence[str] = ()) -> Run:
        """Open an existing run.

        Raises:
            FocatError: the folder holds no run, or one of another format.
        """
        for name in ("model.json", "config.yaml"):
            if not (path / name).exists():
                raise FocatError(f"{path}: holds no run (there is no {name}); name a folder that `focat train` made")
        run = cls(path, overrides)
        run._check_format()
        return run

    @property
    def settings(self) -> Settings:
        """The settings it was trained with, under the overrides."""
        settings = load_settings(self.path / "config.yaml")
        return override_decoding(settings, self.overrides) if self.overrides else settings

    @property
    def tokenizer(self) -> Tokenizer:
        """The run's own copy of the tokenizer."""
        return Tokenizer.load(self.path / "tokenizer")

    def build_model(self, settings: Settings | None = None) -> Transformer:
        """Build the model with newly initialised weights."""
        settings = settings or self.settings
        info = self._model_info()
        return Transformer(
            settings.model,
            settings.windows,
            info["source_vocabulary"],
            info["target_vocabulary"],
            info["shift"],
        )

    def weights_folder(self) -> Path:
        """Return the folder of the weights to use: of the average if there is one, else the best, else the last."""
        if (self.path / "best").exists():
            best = (self.path / "best").read_text(encoding="utf-8").strip()
            average = self.averaged / "average.json"
            # Resumed training may have found a better checkpoint: then the average is out of date.
            if average.exists() and json.loads(average.read_text(encoding="utf-8"))["best"] == int(best):
                return self.averaged
            return self.path / "checkpoints" / best
        checkpoints = self.checkpoints()
        if not checkpoints:
            raise FocatError(f"{self.path}: has no checkpoint yet; train it first")
        return checkpoints[-1]

    def checkpoints(self) -> list[Path]:
        """Return the folders of all checkpoints, oldest first; each is named after its update."""
        folder = self.path / "checkpoints"
        return sorted(path for path in folder.glob("*") if path.name.isdigit()) if folder.exists() else []

    def load_model(self, weights: Path | None = None, device: str | torch.device = "cpu") -> Transformer:
        """Load the trained model onto a device, in evaluation mode."""
        model = self.build_model()
        load_weights(model, weights or self.weights_folder())
        return model.to(device).eval()

    def _files(self) -> list[Path]:
        return [f for f in self.path.iterdir() if f.suffix != PARTIAL_SUFFIX] if self.path.exists() else []

    def _model_info(self) -> dict[str, Any]:
        path = self.path / "model.json"
        try:
            info = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FocatError(f"{path}: cannot be read ({error}); restore it from a copy of the run") from None
        if not isinstance(info, dict):
            raise FocatError(f"{path}: does not describe a model; restore it from a copy of the run")
        return info

    def _check_format(self) -> None:
        """Refuse a run of another format before its settings or weights are misread."""
        found = self._model_info().get("format", 1)
        if found != RUN_FORMAT:
            raise FocatError(
                f"{self.path}: is a run of format {found}, and this focat reads format {RUN_FORMAT}; "
                "use the focat that wrote it, or train it again"
            )

    def _check_same(self, settings: Settings, info: dict[str, Any]) -> None:
        before, now = (_flat(s.model_dump(exclude=_MAY_CHANGE)) for s in (self.settings, settings))
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name):
                raise FocatError(
                    f"{self.path}: was begun with {name} = {before.get(name)}, not {now.get(name)}; "
                    "set it back, or give another training.output_dir"
                )
        if self._model_info() != info:
            raise FocatError(f"{self.path}: was begun on another token store; give another training.output_dir")


class TrainedSystem:
    """The models of one run, or of several that form an ensemble, and the settings and tokenizer they share.

    Every command that uses trained weights opens them here, through `load_system`.
    """

    def __init__(self, runs: Sequence[Run], device: str | torch.device = "auto") -> None:
        self.runs = list(runs)
        self.settings = runs[0].settings
        self.tokenizer = runs[0].tokenizer
        for other in runs[1:]:
            _check_same_vocabulary(runs[0], other)
        self.weights = [run.weights_folder() for run in runs]
        self.device = device_named(device) if isinstance(device, str) else device
        self.models = [run.load_model(folder, self.device) for run, folder in zip(runs, self.weights, strict=True)]
        self._max_tokens = min(run.settings.windows.max_tokens for run in runs)

    @property
    def model(self) -> Transformer:
        """The first model: the only one, unless this is an ensemble."""
        return self.models[0]

    @property
    def weights_digests(self) -> list[str]:
        """SHA-256 of the weights of each model, for signatures."""
        return [sha256(folder / "weights.safetensors") for folder in self.weights]

    def windows(self, size: int | None = None) -> WindowSettings:
        """The windows of training, with `size` sentences if given, within what every model of the ensemble can take."""
        return self.settings.windows.model_copy(update={"max_tokens": self._max_tokens}).of_size(size)


def load_system(
    runs: str | Path | Sequence[str | Path], device: str | torch.device = "auto", overrides: Sequence[str] = ()
) -> TrainedSystem:
    """Open a run, or several as an ensemble, and load the weights to use onto a device.

    Args:
        runs: folders that `focat train` made.
        device: auto, cpu, cuda or cuda:1.
        overrides: settings of decoding to use instead of those of the runs, as in `decoding.beam=8`.

    Raises:
        FocatError: no run is named, a folder holds no run, or the runs have different vocabularies.
    """
    folders = [runs] if isinstance(runs, (str, Path)) else list(runs)
    if not folders:
        raise FocatError("name a run, or several")
    return TrainedSystem([Run.open(Path(folder), overrides) for folder in folders], device)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights of a checkpoint, and verify their checksum if it has one."""
    path, sums = folder / "weights.safetensors", folder / CHECKSUMS
    if not path.exists():
        raise FocatError(f"{folder}: has no weights.safetensors")
    if not os.access(path, os.R_OK):
        raise FocatError(f"{path}: cannot be read; its owner has to permit it")
    try:
        known = json.loads(sums.read_text(encoding="utf-8")).get(path.name) if sums.exists() else None
        if known is not None and sha256(path) != known:
            raise ValueError("it does not match its checksum")
        return load_file(path)
    except Exception as error:
        raise FocatError(f"{path}: is damaged ({error}); use another checkpoint") from None


def load_weights(model: Transformer, folder: Path, may_lack: str | None = None) -> list[str]:
    """Copy stored weights into a model of the same shape.

    Args:
        may_lack: weights whose names begin with this may be missing in the folder, and keep their values.

    Returns:
        The names of the weights that are missing there.
    """
    path, stored = folder / "weights.safetensors", read_weights(folder)
    parameters = dict(model.named_parameters())
    lacking = [name for name in parameters if may_lack and name.startswith(may_lack) and name not in stored]
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


def _resolve_shift(settings: Settings, store: Store) -> int | str:
    return round(store.average_length) if settings.model.shift == "avg-corpus" else settings.model.shift


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value.absolute() if isinstance(value, Path) else value
    return flat


def _check_same_vocabulary(first: Run, other: Run) -> None:
    for side in ("source", "target"):
        if getattr(first.tokenizer, side) != getattr(other.tokenizer, side):
            raise FocatError(
                f"{other.path}: its {side} vocabulary is not that of {first.path}; "
                "an ensemble needs runs that were trained on the same token store"
            )
