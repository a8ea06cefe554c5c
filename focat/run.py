"""Run folders, and the one way to open trained weights. A run is self-contained and can be moved or copied.

config.yaml, model.json, tokenizer/, checkpoints/NNNNNNN/, best, averaged/, log.jsonl (docs/formats.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, Field, PositiveInt, ValidationError

from focat.config import Settings, dump_settings, load_whole_settings, override_decoding
from focat.config.explain import short_text
from focat.config.schema import WindowSettings
from focat.config.sections import INTEGER_LIMIT
from focat.corpus.store import Store
from focat.corpus.tokenizer import Tokenizer
from focat.errors import FocatError
from focat.files import PARTIAL_SUFFIX, json_text, partial_file, read_json_object, write_atomic
from focat.hardware import device_named, memory_errors
from focat.model import model_class
from focat.model.stored_weights import UninitialisedWeights, load_weights, loaded_digest
from focat.model.transformer import Transformer

RUN_FORMAT = 2  # of run folders; docs/formats.md, "Compatibility"
# Settings that may change when a run is resumed.
_MAY_CHANGE: Any = {
    "training": {
        *("budget", "compile", "device", "keep_checkpoints", "log_every"),
        *("log_samples", "output_dir", "patience", "save_minutes"),
    },
    "data": True,  # the store's own digest is compared instead
    "decoding": True,
}
_RESTORE = "restore it from a copy of the run"
_BEST = "write the name of a checkpoint into it, or train on, which writes it again"
_BEGUN = {"model.json", "tokenizer", "config.yaml", "log.jsonl", "tensorboard", "checkpoints"}
_CHECKPOINT_NAME = re.compile("[0-9]{1,18}")
_MOST = 10**15  # updates or minutes that a run can have; what is no number is not below it either


class ModelInfo(BaseModel):
    """model.json: what the model is built from besides the settings."""

    format: int = 1
    source_vocabulary: PositiveInt
    target_vocabulary: PositiveInt
    shift: Annotated[int, Field(ge=0, lt=INTEGER_LIMIT)] | Literal["avg-sequence"]
    store: str | None = None
    """Key of the store it was trained on; none for an imported model."""


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
        """Create the folder of a new run, or open it to resume. Without a checkpoint, a run is still new.

        Raises:
            FocatError: the folder holds something else, or a run with other settings than those that may change.
        """
        run = cls(settings.training.output_dir)
        tokenizer = store.tokenizer
        info = _describe(tokenizer, _resolve_shift(settings, store), store.manifest["keys"]["train"])
        described = json_text(info.model_dump())
        if (run.path / "config.yaml").exists() and (run.path / "model.json").exists():
            run._check_format()
            if not run._is_new(described):  # else nothing is lost: a first batch did not fit into memory, for example
                run._check_same(settings, info)
        elif not run._is_new(described):
            raise FocatError(f"{run.path}: is not empty and holds no run; give another training.output_dir")
        run._write(settings, tokenizer, described)
        return run

    @classmethod
    def create_imported(cls, path: Path, settings: Settings, tokenizer: Tokenizer) -> Run:
        """Create the folder of a run whose weights were not trained by focat: it has no store, and no shift."""
        run = cls(path)
        run._write(settings, tokenizer, json_text(_describe(tokenizer, 0, None).model_dump()))
        return run

    def _write(self, settings: Settings, tokenizer: Tokenizer, described: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path / "model.json", described)  # first: what follows may be interrupted, and is ours
        tokenizer.save(self.path / "tokenizer")
        write_atomic(self.path / "config.yaml", dump_settings(settings))  # last: with it, the folder is a run

    @classmethod
    def open(cls, path: Path, overrides: Sequence[str] = ()) -> Run:
        """Open an existing run.

        Raises:
            FocatError: the folder holds no run, or one of another format.
        """
        for name in ("model.json", "config.yaml"):
            if not (path / name).exists():
                raise FocatError(
                    f"{path}: holds no run ({_instead_of_run(path, name)}); "
                    "name a folder that `focat train` or `focat import` made"
                )
        run = cls(path, overrides)
        run._check_format()
        return run

    @property
    def settings(self) -> Settings:
        """The settings it was trained with, under the overrides."""
        settings = load_whole_settings(self.path / "config.yaml", _RESTORE)
        return override_decoding(settings, self.overrides) if self.overrides else settings

    @property
    def tokenizer(self) -> Tokenizer:
        """The run's own copy of the tokenizer."""
        return Tokenizer.load(self.path / "tokenizer")

    def build_model(self, settings: Settings | None = None) -> Transformer:
        """Build the model with newly initialised weights."""
        settings = settings or self.settings
        info = self.model_info()
        with memory_errors(f"{self.path}: its model does not fit into memory; lower model.d_model or model.d_ff"):
            model = model_class(settings.model)
            return model(settings.model, settings.windows, info.source_vocabulary, info.target_vocabulary, info.shift)

    def weights_folder(self) -> Path:
        """Return the folder of the weights to use: of the average if there is one, else the best, else the last."""
        best = self.best_update()
        if best is not None:
            average = self.averaged / "average.json"
            # Resumed training may have found a better checkpoint: then the average is out of date.
            if average.exists() and read_json_object(average, "run `focat average` again").get("best") == best:
                return self.averaged
            folder = self.path / "checkpoints" / f"{best:07d}"
            if not folder.is_dir():
                raise FocatError(
                    f"{self.path / 'best'}: names {folder.name}, which is no checkpoint of the run; {_BEST}"
                )
            return folder
        if not self.has_weights:
            raise FocatError(f"{self.path}: has no checkpoint yet; train it first")
        return self.checkpoints()[-1]

    @property
    def has_weights(self) -> bool:
        """Whether there is a checkpoint."""
        return (self.path / "best").exists() or bool(self.checkpoints())

    def checkpoints(self) -> list[Path]:
        """Return the folders of all checkpoints, oldest first; each is named after its update."""
        folder = self.path / "checkpoints"
        return sorted(path for path in folder.glob("*") if _CHECKPOINT_NAME.fullmatch(path.name) and path.is_dir())

    def best_update(self) -> int | None:
        """Return the update of the best checkpoint, which the file `best` names; None before the first validation."""
        path = self.path / "best"
        if not path.exists():
            return None
        try:
            name = path.read_bytes().decode(errors="replace").strip()
        except OSError as error:
            raise FocatError(f"{path}: cannot be read ({error.strerror}); {_BEST}") from None
        if not _CHECKPOINT_NAME.fullmatch(name):
            raise FocatError(f"{path}: names no checkpoint; {_BEST}")
        return int(name)

    def log_content(self) -> bytes:
        """Read log.jsonl; nothing if there is none yet.

        Raises:
            FocatError: it cannot be read.
        """
        try:
            return self.log.read_bytes() if self.log.exists() else b""
        except OSError as error:
            raise FocatError(f"{self.log}: cannot be read ({error.strerror}); {_RESTORE}") from None

    def log_records(self) -> list[dict[str, Any]]:
        """Return the records of log.jsonl, without a last line that is still being written or was cut off.

        Raises:
            FocatError: it cannot be read, or another line is no record.
        """
        records = []
        for number, line in enumerate(self.log_content().split(b"\n")[:-1], 1):
            record = log_record(line)
            if record is None:
                raise FocatError(f"{self.log}, line {number}: is no record of training; restore it, or delete the line")
            records.append(record)
        return records

    def load_model(self, weights: Path | None = None, device: str | torch.device = "cpu") -> Transformer:
        """Load the trained model onto a device, in evaluation mode."""
        folder = weights or self.weights_folder()
        with UninitialisedWeights():
            model = self.build_model()
        load_weights(model, folder)
        with memory_errors(f"{self.path}: its model does not fit into the memory of {device}; use another device"):
            return model.to(device).eval()

    def _is_new(self, described: str) -> bool:
        """Whether the folder is empty, or holds only what was written before `create` or training was interrupted.

        What is written first is model.json, with the content `described`.
        """
        files = {path.name for path in self.path.iterdir()} if self.path.exists() else set()
        if "model.json" in files:
            try:
                ModelInfo.model_validate(read_json_object(self.path / "model.json", ""))
            except (FocatError, ValidationError):
                return False
            return {name.removesuffix(PARTIAL_SUFFIX) for name in files} <= _BEGUN and not self.checkpoints()
        partial = partial_file(self.path / "model.json")
        return not files or (files == {partial.name} and described.encode().startswith(partial.read_bytes()))

    def model_info(self) -> ModelInfo:
        """Read model.json."""
        path = self.path / "model.json"
        content = read_json_object(path, _RESTORE)
        try:
            return ModelInfo.model_validate(content)
        except ValidationError:
            raise FocatError(f"{path}: does not describe a model; {_RESTORE}") from None

    def _check_format(self) -> None:
        """Refuse a run of another format before its settings or weights are misread."""
        found = read_json_object(self.path / "model.json", _RESTORE).get("format", 1)
        if found != RUN_FORMAT:
            raise FocatError(
                f"{self.path}: is a run of format {found}, and this focat reads format {RUN_FORMAT}; "
                "use the focat that wrote it, or train it again"
            )

    def _check_same(self, settings: Settings, info: ModelInfo) -> None:
        before, now = (_flat(s.model_dump(exclude=_MAY_CHANGE)) for s in (self.settings, settings))
        for name in sorted(before.keys() | now.keys()):
            old, new = before.get(name), now.get(name)
            if old != new:
                raise FocatError(
                    f"{self.path}: was begun with {name} = {short_text(old)}, not {short_text(new)}; "
                    "set it back, or give another training.output_dir"
                )
        if self.model_info() != info:
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
        self._max_tokens = min(model.windows.max_tokens for model in self.models)

    @property
    def model(self) -> Transformer:
        """The first model: the only one, unless this is an ensemble."""
        return self.models[0]

    @property
    def weights_digests(self) -> list[str]:
        """SHA-256 of the weights of each model, for signatures."""
        return [loaded_digest(folder) for folder in self.weights]

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


def log_record(line: bytes) -> dict[str, Any] | None:
    """Return the record in a line of log.jsonl; None if the line holds none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):  # bytes that are not UTF-8 are a ValueError, too
        return None
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        return None
    update, minutes = record.get("update"), record.get("minutes", 0)
    if not isinstance(update, int) or not isinstance(minutes, int | float):
        return None
    if not (0 <= update < _MOST and 0 <= minutes < _MOST):
        return None
    if record.get("best") and not (
        isinstance(record.get("best_value"), int | float) and isinstance(record.get("criterion"), str)
    ):
        return None
    return record


def _instead_of_run(path: Path, missing: str) -> str:
    """Say why a path is no run: people give an input or a store in its place."""
    if path.is_file():
        return "it is a file"
    if not path.exists():
        return "there is no such folder"
    return "it is a token store" if (path / "manifest.json").exists() else f"there is no {missing}"


def _describe(tokenizer: Tokenizer, shift: int | Literal["avg-sequence"], store: str | None) -> ModelInfo:
    """The content of model.json."""
    sizes = {"source_vocabulary": tokenizer.source.size, "target_vocabulary": tokenizer.target.size}
    return ModelInfo(format=RUN_FORMAT, shift=shift, store=store, **sizes)


def _resolve_shift(settings: Settings, store: Store) -> int | Literal["avg-sequence"]:
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
