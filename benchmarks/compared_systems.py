"""What the systems that the paper compares with cost in training, beside plain concatenation, in one run.

    python -m benchmarks.compared_systems STORE model.d_model=128 model.d_ff=512 --batch-tokens 2048 --seconds 2
    python -m benchmarks.compared_systems STORE --device cuda --batch-tokens 32768 --seconds 20

Every recipe trains on the same store, through the real loader, in turns: each gets some seconds in each round, so that
whatever else the machine does falls on all of them. A window is one current sentence, whatever its context; batches
have the same number of tokens, of which systems with one target sentence spend fewer on the target. Systems with frozen
weights start from a sentence-level run that is not trained.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import torch

from focat.config import load_settings
from focat.corpus.store import Store
from focat.progress import Progress
from focat.run import Run
from focat.training.distributed import Processes, init_distributed
from focat.training.trainer import Trainer
from focat.windows.loader import Prefetcher, Update

RECIPES = (
    *("s4to4", "base", "s4to1", "divide-and-rule-k1", "divide-and-rule-k3", "han", "han-decoder", "han-joint"),
    *("voita-2018", "zhang-2018", "li-2020-outside", "li-2020-inside", "context-decoder-2to2", "zheng-2020", "cadec"),
    *("ma-2020", "s4to4-group-cd", "g-transformer"),
)


@dataclass
class Measured:
    """A system in training."""

    name: str
    trainer: Trainer
    updates: Iterator[Update]
    rates: list[float] = field(default_factory=list)  # windows a second, in each round

    def train(self, seconds: float) -> None:
        """Train for a while."""
        windows = 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            update = next(self.updates)
            self.trainer._update(update)
            windows += sum(len(batch.source.current) for batch in update.batches)
        if self.trainer.device.type == "cuda":
            torch.cuda.synchronize()
        self.rates.append(windows / (time.perf_counter() - start))


def main() -> None:
    options = _options().parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder, init_distributed(options.device) as processes:
        base = _trainer("base", Path(folder) / "base", options, processes)
        base._save()
        systems = []
        for name in options.recipes.split(","):
            trainer = _trainer(name, Path(folder) / "runs" / name, options, processes)
            systems.append(Measured(name, trainer, iter(Prefetcher(trainer.loader.updates()))))
        for measured in systems:
            measured.train(options.seconds)  # warms up
            measured.rates.clear()
        for _ in range(options.rounds):
            for measured in systems:
                measured.train(options.seconds)
        first = median(systems[0].rates)
        print(f"{'recipe':24}{'windows/s':>12}{'of ' + systems[0].name:>12}{'parameters':>14}{'trained':>12}")
        for measured in systems:
            rate = median(measured.rates)
            sizes = [(p.numel(), p.requires_grad) for p in measured.trainer.model.parameters()]
            trained = sum(size for size, learns in sizes if learns)
            total = sum(size for size, _ in sizes)
            print(f"{measured.name:24}{rate:>12,.0f}{rate / first:>12.2f}{total:>14,}{trained:>12,}")


def _trainer(name: str, output: Path, options: argparse.Namespace, processes: Processes) -> Trainer:
    """A system of a recipe on the store, at the size that was asked for."""
    overrides = [
        f"data.store={options.store}",
        f"training.output_dir={output}",
        f"training.device={options.device}",
        f"training.batch_tokens={options.batch_tokens}",
        "model.embeddings=shared",
        "training.packing=never",
        *options.settings,
    ]
    if name != "base":
        overrides.append(f"training.init_from={output.parent.parent / 'base'}")
    settings = load_settings(Path(f"focat:{name}"), overrides)
    store = Store(settings.data.store)
    return Trainer(settings, store, Run.create(settings, store), processes, Progress(None))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("settings", nargs="*", help="KEY=VALUE for all systems; recipes have six layers, and need them")
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    return parser


if __name__ == "__main__":
    main()
