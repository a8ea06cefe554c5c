"""What training tells: every figure to log.jsonl, a line now and then to the terminal, curves to TensorBoard."""

from __future__ import annotations

import json
import sys
from typing import Any

from focat.files import write_atomic
from focat.progress import Progress
from focat.run import Run


class Report:
    """The log of a run, from the update it goes on from."""

    def __init__(self, run: Run, progress: Progress, update: int) -> None:
        self._progress = progress
        # What was logged after the checkpoint that training goes on from happens again, and is logged again.
        lines = run.log.read_text(encoding="utf-8").splitlines(keepends=True) if run.log.exists() else []
        write_atomic(run.log, "".join(line for line in lines if _update_of(line) <= update))
        self._log = run.log.open("a", encoding="utf-8")
        self._curves = _tensorboard(run)

    def write(self, kind: str, update: int, **figures: Any) -> None:
        """One record."""
        record = {"kind": kind, "update": update, **figures}
        self._log.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._log.flush()
        if self._curves is not None:
            for name, value in figures.items():
                if isinstance(value, int | float):
                    self._curves.add_scalar(f"{kind}/{name}", value, update)

    def log(self, text: str) -> None:
        """One line for whoever watches."""
        self._progress.log(text)

    def status(self, text: str) -> None:
        """How training stands, for whoever watches it live."""
        self._progress.status(text)

    def close(self) -> None:
        """The log is complete."""
        self._log.close()
        if self._curves is not None:
            self._curves.close()


def training_line(figures: dict[str, Any]) -> str:
    """Figures of the last updates, to be read at a glance."""
    context = f", context {figures['context']:.3f}" if "context" in figures else ""
    left = figures["minutes_left"]
    return (
        f"update {figures['update']:>6,} · epoch {figures['epochs']:.2f} · current {figures['current']:.3f}{context}"
        f" · lr {figures['learning_rate']:.2e} · {figures['tokens_per_second']:,.0f} tokens/s"
        + (f" · {duration(left)} left" if left is not None else "")
    )


def validation_line(figures: dict[str, Any]) -> str:
    """The outcome of a validation."""
    context = f", context {figures['context']:.4f}, ratio {figures['ratio']:.3f}" if "context" in figures else ""
    bleu = f", BLEU {figures['bleu']:.2f}" if "bleu" in figures else ""
    best = " — best so far" if figures["best"] else f" — best was {figures['best_value']:.4f}"
    return f"update {figures['update']:>6,} · validation: current {figures['current']:.4f}{context}{bleu}{best}"


def duration(minutes: float) -> str:
    """Minutes as people say them."""
    if minutes < 1.5:
        return f"{minutes * 60:.0f} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _update_of(line: str) -> int:
    try:
        return int(json.loads(line)["update"])
    except (ValueError, KeyError):
        return sys.maxsize  # cut off in the middle of a write


def _tensorboard(run: Run) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # type: ignore[attr-defined, unused-ignore]
    except ImportError:
        return None
    return SummaryWriter(str(run.path / "tensorboard"))  # type: ignore[no-untyped-call, unused-ignore]
