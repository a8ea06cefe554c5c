"""The log of training: every figure to log.jsonl, progress to the terminal, curves to TensorBoard."""

from __future__ import annotations

import json
from typing import Any

from focat.files import write_atomic
from focat.progress import Progress
from focat.run import Run, log_record
from focat.training.checkpoints import TrainingState


class TrainLogger:
    """Writes the log of a run, from the update at which it is resumed.

    Args:
        run: its log.jsonl is continued; records after `update` are removed, since these updates happen again.
        progress: for lines to the terminal.
        update: the update of the checkpoint that training resumes from.
    """

    def __init__(self, run: Run, progress: Progress, update: int) -> None:
        self._progress = progress
        lines = run.log_content().splitlines(keepends=True)
        kept = [line for line in lines if (record := log_record(line)) is not None and record["update"] <= update]
        write_atomic(run.log, b"".join(kept))
        self._log = run.log.open("a", encoding="utf-8")
        self._tensorboard = _tensorboard(run)

    def record(self, kind: str, update: int, **figures: Any) -> None:
        """Append one record, `train` or `validation`, to log.jsonl and TensorBoard."""
        record = {"kind": kind, "update": update, **figures}
        self._log.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._log.flush()
        if self._tensorboard is not None:
            for name, value in figures.items():
                if isinstance(value, int | float):
                    self._tensorboard.add_scalar(f"{kind}/{name}", value, update)

    def log(self, text: str) -> None:
        """Print a line to the terminal."""
        self._progress.log(text)

    def status(self, text: str) -> None:
        """Show the state of training, in place of the last one."""
        self._progress.status(text)

    def close(self) -> None:
        """Close the files."""
        self._log.close()
        if self._tensorboard is not None:
            self._tensorboard.close()


def training_line(figures: dict[str, Any]) -> str:
    """One line for the terminal, from the figures of the last updates."""
    context = f", context {figures['context']:.3f}" if "context" in figures else ""
    left = figures["minutes_left"]
    return (
        f"update {figures['update']:>6,} · epoch {figures['epochs']:.2f} · current {figures['current']:.3f}{context}"
        f" · lr {figures['learning_rate']:.2e} · {figures['tokens_per_second']:,.0f} tokens/s"
        + (f" · {duration(left)} left" if left is not None else "")
    )


def validation_line(figures: dict[str, Any]) -> str:
    """One line for the terminal, from the figures of a validation."""
    context = f", context {figures['context']:.4f}, ratio {figures['ratio']:.3f}" if "context" in figures else ""
    bleu = f", BLEU {figures['bleu']:.2f}" if "bleu" in figures else ""
    best = " — best so far" if figures["best"] else f" — best was {figures['best_value']:.4f}"
    return f"update {figures['update']:>6,} · validation: current {figures['current']:.4f}{context}{bleu}{best}"


def end_line(state: TrainingState, patience: int | None) -> str:
    """One line for the terminal: which limit has ended training."""
    worse = state.without_improvement
    ran_out = patience is not None and worse >= patience
    why = f"{worse} validations without improvement (training.patience)" if ran_out else "training.budget is spent"
    return f"finished after {state.update:,} updates, in {duration(state.minutes)}: {why}"


def duration(minutes: float) -> str:
    """Format minutes, in seconds, minutes or hours."""
    if minutes < 1.5:
        return f"{minutes * 60:.0f} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _tensorboard(run: Run) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # type: ignore[attr-defined, unused-ignore]
    except ImportError:
        return None
    return SummaryWriter(str(run.path / "tensorboard"))  # type: ignore[no-untyped-call, unused-ignore]
