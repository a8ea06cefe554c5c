"""Checkpoints: the weights, and beside them all that training needs to resume exactly.

A checkpoint is written atomically, with a checksum of every file; one that was damaged later is skipped.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from focat.errors import FocatError
from focat.files import (
    PARTIAL_SUFFIX,
    atomic_folder,
    delete_folder,
    read_json_object,
    sha256,
    write_atomic,
    write_json,
)
from focat.model.stored_weights import CHECKSUMS
from focat.progress import Progress
from focat.run import Run
from focat.training.adam import State
from focat.windows.loader import Position

_STATE, _WEIGHTS, _TRAINING = "state.json", "weights.safetensors", "training.safetensors"
_FILES = {_STATE, _WEIGHTS, _TRAINING, CHECKSUMS}


@dataclass
class TrainingState:
    """The state of training, besides tensors."""

    update: int = 0
    epoch: int = 0
    update_in_epoch: int = 0
    epochs: float = 0.0  # the same, as one number
    minutes: float = 0.0
    skipped: int = 0  # updates left out because their gradient was not finite
    validations: list[tuple[int, float]] = field(default_factory=list)  # (update, criterion; lower is better)
    finished: bool = False
    gradient_accumulation: int = 1  # fixed at the start, whatever the number of processes it is resumed with
    packed: bool = False  # whether batches are packed: fixed at the start, whatever device it is resumed on

    @property
    def position(self) -> Position:
        """The next update."""
        return Position(self.epoch, self.update_in_epoch)

    @property
    def best(self) -> tuple[int, float] | None:
        """The best validation; the earliest of equals."""
        return min(self.validations, key=lambda validation: validation[1], default=None)

    @property
    def without_improvement(self) -> int:
        """Validations since the best one."""
        return len(self.validations) - 1 - self.validations.index(self.best) if self.best else 0


def save_checkpoint(
    run: Run, state: TrainingState, weights: dict[str, Tensor], training: dict[str, Tensor], keep: int
) -> Path:
    """Write a checkpoint, and prune the others.

    Args:
        run: where to write it.
        state: of training.
        weights: the weights to use, by name.
        training: other tensors, needed to resume.
        keep: `training.keep_checkpoints`.

    Returns:
        The checkpoint's folder.
    """
    folder = run.path / "checkpoints" / f"{state.update:07d}"
    with atomic_folder(folder) as unfinished:
        save_file(weights, unfinished / _WEIGHTS)
        save_file(training, unfinished / _TRAINING)
        write_json(unfinished / _STATE, asdict(state))
        write_json(unfinished / CHECKSUMS, {file.name: sha256(file) for file in sorted(unfinished.iterdir())})
    prune_checkpoints(run, state, keep)
    return folder


def prune_checkpoints(run: Run, state: TrainingState, keep: int) -> None:
    """Point `best` at the best checkpoint; delete checkpoints that are not needed, and what an interruption left.

    Kept are those that averaging may need around the best validation, now or later, and two to resume from.
    """
    if state.best is None:
        (run.path / "best").unlink(missing_ok=True)
    else:
        write_atomic(run.path / "best", f"{state.best[0]:07d}\n")
    updates = [update for update, _ in state.validations]
    best = updates.index(state.best[0]) if state.best else 0
    wanted = {*updates[max(0, best - keep + 1) : best + keep], *updates[-keep:]}
    checkpoints = run.checkpoints()
    later = [folder for folder in checkpoints if int(folder.name) > state.update]  # damaged: an earlier one was resumed
    for folder in [*checkpoints[: -len(later) - 2], *later]:
        if not {file.name for file in folder.iterdir()} <= _FILES:
            continue  # somebody has put something into it
        if int(folder.name) in wanted:
            (folder / _TRAINING).unlink(missing_ok=True)  # the larger part; the weights are kept
        else:
            delete_folder(folder)
    for leftover in (run.path / "checkpoints").glob(f"*{PARTIAL_SUFFIX}"):
        shutil.rmtree(leftover, ignore_errors=True)


def load_checkpoint(run: Run, progress: Progress) -> tuple[TrainingState, Path] | None:
    """The last checkpoint that training can resume from, or None if a run has none yet; damaged ones are reported.

    Raises:
        FocatError: there are checkpoints, but training can resume from none of them.
    """
    checkpoints, folder = run.checkpoints(), run.path / "checkpoints"
    lost = os.path.lexists(folder) and not folder.is_dir()  # a link to a disk that is not there
    if not checkpoints and (lost or (run.path / "best").exists() or run.averaged.exists()):
        raise FocatError(
            f"{folder}: has no checkpoint, although the run had some; restore them, or give another training.output_dir"
        )
    if not checkpoints:
        return None
    pruned = [folder for folder in checkpoints[:-1] if not (folder / _TRAINING).exists()]  # by us, all but the last two
    for folder in reversed(checkpoints):
        damage = None if folder in pruned else _find_damage(folder)
        if damage is not None:
            progress.log(f"{folder} is damaged ({damage}); resuming from the checkpoint before it")
        elif folder not in pruned:
            return read_state(folder), folder
    raise FocatError(
        f"{run.path}: no checkpoint is whole enough to resume from; give another training.output_dir, and "
        f"training.init_from={run.path} to begin with its weights"
    )


def read_state(folder: Path) -> TrainingState:
    """Read the state of training of a checkpoint."""
    remedy = f"restore it from a copy of the run, or delete {folder}"
    content = read_json_object(folder / _STATE, remedy)
    try:
        return TypeAdapter(TrainingState).validate_python(content)
    except ValidationError:
        raise FocatError(f"{folder / _STATE}: does not hold the state of training; {remedy}") from None


def optimizer_tensors(state: State, parameters: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    """An optimizer's state, on the CPU, as `state.parameter` → tensor."""
    return {
        f"{key}.{name}": value.detach().cpu().contiguous()
        for name, parameter in parameters.items()
        for key, value in state.get(parameter, {}).items()
    }


def restore_optimizer(state: State, parameters: dict[str, nn.Parameter], tensors: dict[str, Tensor]) -> None:
    """Load what `optimizer_tensors` returned into an optimizer's state."""
    for entry, value in tensors.items():
        key, _, name = entry.partition(".")
        if name in parameters:
            known = state.setdefault(parameters[name], {})
            if key in known:
                known[key].copy_(value)
            else:
                known[key] = value.to(parameters[name].device, copy=True)


def training_tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint that are needed to resume, besides the weights."""
    return load_file(folder / _TRAINING)


def _find_damage(folder: Path) -> str | None:
    try:
        sums = read_json_object(folder / CHECKSUMS, "")
        wrong = [name for name in (_STATE, _TRAINING, _WEIGHTS) if sha256(folder / name) != sums.get(name)]
    except FocatError:
        return f"{CHECKSUMS} is missing or damaged"
    except OSError as error:
        return f"{Path(str(error.filename)).name} cannot be read: {error.strerror}"
    return f"{wrong[0]} does not match its checksum" if wrong else None
