"""Checkpoint averaging (appendix A of the paper): the mean of the weights around the best one."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from focat.choices import AveragingRule
from focat.errors import FocatError
from focat.files import atomic_folder, check_own_files, sha256, write_json
from focat.model.stored_weights import CHECKSUMS, read_weights
from focat.run import Run
from focat.training.checkpoints import read_state

_WEIGHTS, _AVERAGE = "weights.safetensors", "average.json"
_FILES = {_WEIGHTS, _AVERAGE, CHECKSUMS}


def select_checkpoints(updates: list[int], best: int, count: int, rule: AveragingRule) -> list[int]:
    """The checkpoints to average, by update, in order.

    `closest` (the paper): the `count` nearest to the best, itself included; of two equally near, the later one.
    `next` (the authors' code): the best and those after it.
    """
    if rule == "next":
        return [update for update in updates if update >= best][:count]
    at = updates.index(best)
    nearest = sorted(range(len(updates)), key=lambda i: (abs(i - at), -i))[:count]
    return [updates[i] for i in sorted(nearest)]


def average_checkpoints(run: Run, count: int = 5, rule: AveragingRule = "closest") -> list[int]:
    """Write the average of `count` checkpoints to the run's `averaged/`; return their updates."""
    if run.averaged.is_dir():
        check_own_files(run.averaged, _FILES, "focat average")
    best = run.best_update()
    if best is None:
        remedy = "train it until its first validation, for which data.dev has to name a corpus"
        raise FocatError(f"{run.path}: has no validated checkpoint; {remedy}")
    there = {int(folder.name): folder for folder in run.checkpoints()}
    validated = [update for update in sorted(there) if _validated(there[update])]
    if best not in validated:
        raise FocatError(
            f"{run.path / 'best'}: names {best:07d}, which is no validated checkpoint of the run; train on"
        )
    chosen = select_checkpoints(validated, best, count, rule)
    weights = mean_weights([there[update] for update in chosen])
    with atomic_folder(run.averaged) as unfinished:
        save_file(weights, unfinished / _WEIGHTS)
        write_json(unfinished / _AVERAGE, {"rule": rule, "updates": chosen, "best": best})
        write_json(unfinished / CHECKSUMS, {file.name: sha256(file) for file in sorted(unfinished.iterdir())})
    return chosen


def mean_weights(checkpoints: list[Path]) -> dict[str, Tensor]:
    """The mean of stored weights, one checkpoint in memory at a time."""
    total: dict[str, Tensor] = {}
    for folder in checkpoints:
        for name, tensor in read_weights(folder).items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(checkpoints)).to(torch.float32) for name, tensor in total.items()}


def _validated(folder: Path) -> bool:
    state = read_state(folder)
    return any(update == state.update for update, _ in state.validations)
