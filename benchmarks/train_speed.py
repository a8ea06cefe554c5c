"""How fast focat trains, beside Hugging Face Marian of the same size on the same windows, in one run.

    python -m benchmarks.train_speed STORE                                    # two CPU cores, small batches
    python -m benchmarks.train_speed STORE --device cuda --batch-tokens 32768 --seconds 40
    python -m benchmarks.train_speed STORE --device cuda --batch-tokens 8192 --gradient-accumulation 4 --systems focat
    python -m benchmarks.train_speed STORE --device cuda --batch-tokens 32768 --systems focat --profile 10

Every system gets a process of its own and reads the store through the real loader. Both minimise the label-smoothed
loss with fused AdamW, in bfloat16 on a GPU; tokens are real target tokens, padding does not count. Two rates are given:
the median over intervals of a few updates, and the mean over all of them, which a late compilation lowers. Nothing
waits for the device between intervals, as nothing does in training: the device notes the times itself. With
`--profile N`, a table says which kernels N updates of focat's go into, and what the matrix products need at least.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any

_INTERVAL = 8  # updates that are timed together
SYSTEMS = ("hf-eager", "hf-compiled", "focat")


@dataclass(frozen=True)
class Figures:
    """What one system did."""

    system: str
    tokens_per_second: float  # median over intervals
    mean_tokens_per_second: float
    first_update_seconds: float  # from the start of the process
    peak_gib: float
    updates: int
    loss: float


def main() -> None:
    options = _options().parse_args()
    if options.only:
        print(json.dumps(asdict(_measure(options.only, options))))
        return
    results = []
    for system in options.systems.split(","):
        command = [sys.executable, "-m", "benchmarks.train_speed", *sys.argv[1:], "--only", system]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(f"{system:12} failed with exit code {done.returncode}", flush=True)
            continue
        *table, figures = done.stdout.splitlines()
        results.append(Figures(**json.loads(figures)))
        print("\n".join([_row(results[-1], results), *table]), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(r) for r in results], indent=2) + "\n", encoding="utf-8")


def _row(figures: Figures, results: list[Figures]) -> str:
    first = results[0]
    ratio = figures.tokens_per_second / first.tokens_per_second
    return (
        f"{figures.system:12} {figures.tokens_per_second:>10,.0f} target tokens/s  {ratio:5.2f} × {first.system}  "
        f"mean {figures.mean_tokens_per_second:>10,.0f}  "
        f"peak {figures.peak_gib:6.2f} GiB  first update after {figures.first_update_seconds:5.1f} s  "
        f"({figures.updates} updates, loss {figures.loss:.2f})"
    )


def _measure(system: str, options: argparse.Namespace) -> Figures:
    import torch

    from focat.config import Settings
    from focat.corpus.store import Store
    from focat.progress import Progress
    from focat.run import Run
    from focat.training.distributed import init_distributed
    from focat.training.trainer import Trainer
    from focat.windows.loader import Prefetcher, pin_memory

    started = time.time() - _process_age()
    store = Store(Path(options.store))
    with tempfile.TemporaryDirectory() as folder, init_distributed(options.device) as processes:
        settings = Settings.model_validate(
            {
                "data": {"store": options.store},
                "windows": {"before": options.before},
                "model": {
                    "preset": options.preset,
                    "embeddings": "shared",
                    "shift": "avg-corpus",
                    "attention": options.attention,
                    "norm": options.norm,
                },
                "objective": {"discount": 0.01, "chunk_tokens": options.chunk_tokens},
                "training": {
                    "output_dir": folder + "/run",
                    "batch_tokens": options.batch_tokens,
                    "gradient_accumulation": options.gradient_accumulation,
                    "device": options.device,
                    "optimizer": options.optimizer,
                    "packing": options.packing if system == "focat" else "never",
                },
            }
        )
        trainer = Trainer(settings, store, Run.create(settings, store), processes, Progress(None))
        if system == "focat":
            update: Callable[[Any], Any] = trainer._update
        else:
            del trainer.model, trainer.optimizer, trainer.step
            update = _marian(settings, store, processes.device, compiled=system == "hf-compiled")
        stream: Iterator[Any] = iter(trainer.loader.updates())
        cuda = processes.device.type == "cuda"
        batches = iter(Prefetcher(map(pin_memory, stream) if cuda else stream))
        wait = torch.cuda.synchronize if cuda else (lambda: None)
        update(next(batches))
        wait()
        first = time.time() - started
        warm_until = time.time() + options.warmup
        while time.time() < warm_until:
            update(next(batches))
        wait()
        begun, loss, tokens, marks = time.time(), None, [], [_mark(cuda)]
        while time.time() - begun < options.seconds:
            tokens.append(0)
            for batch in islice(batches, _INTERVAL):
                loss = update(batch)
                tokens[-1] += batch.target_tokens
            marks.append(_mark(cuda))
        wait()
        seconds = [_between(a, b) for a, b in pairwise(marks)]
        rates = [count / duration for count, duration in zip(tokens, seconds, strict=True)]
        mean = sum(tokens) / sum(seconds)
        if system == "focat":
            current, context, *sums = trainer._losses.sums.tolist()
            loss = (sums[0] + sums[1]) / (current + context)
            if options.profile:
                _profile(trainer, list(islice(batches, options.profile)))
        peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else resource.getrusage(0).ru_maxrss / 2**20
    return Figures(system, median(rates), mean, first, peak, _INTERVAL * len(tokens), float(loss))


def _profile(trainer: Any, updates: list[Any]) -> None:
    """Print where the time of these updates goes."""
    import torch

    from benchmarks.kernel_times import kernel_times, print_times, product_floor

    def train() -> None:
        for update in updates:
            trainer._update(update)

    def compute() -> None:
        for batch in updates[0].batches:
            here = batch.to(str(trainer.device))
            with trainer._autocast():
                trainer.step(here.source, here.target, torch.zeros((), device=trainer.device))[0].backward()
        trainer.optimizer.step()

    times = kernel_times(train, trainer.device)
    floor = product_floor(compute, trainer.device, torch.bfloat16 if trainer.bfloat16 else torch.float32)
    print_times(times, len(updates), "an update", floor)


def _marian(settings: Any, store: Any, device: Any, compiled: bool) -> Callable[[Any], Any]:
    """One update of Marian as Hugging Face has it, at the same size, on the same batches."""
    import torch
    from torch.nn import functional as F
    from transformers import MarianConfig, MarianMTModel

    from focat.corpus.vocabulary import END, PAD, START

    model_settings = settings.model
    config = MarianConfig(
        vocab_size=store.tokenizer.source.size,
        d_model=model_settings.d_model,
        encoder_layers=model_settings.encoder_layers,
        decoder_layers=model_settings.decoder_layers,
        encoder_attention_heads=model_settings.heads,
        decoder_attention_heads=model_settings.heads,
        encoder_ffn_dim=model_settings.d_ff,
        decoder_ffn_dim=model_settings.d_ff,
        max_position_embeddings=settings.windows.max_tokens,
        activation_function=model_settings.activation,
        dropout=model_settings.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=START,
        share_encoder_decoder_embeddings=True,
        use_cache=False,
    )
    model = MarianMTModel(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
    run = torch.compile(model, dynamic=True) if compiled else model
    smoothing = settings.objective.label_smoothing

    def update(update: Any) -> Any:
        optimizer.zero_grad()
        total = torch.zeros((), device=device)
        for batch in (each.to(str(device)) for each in update.batches):
            tokens = batch.target.tokens
            inputs = tokens.roll(1, -1)
            inputs[:, 0] = START
            with torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext():
                logits = run(
                    input_ids=batch.source.tokens,
                    attention_mask=(batch.source.tokens != PAD).long(),
                    decoder_input_ids=inputs,
                ).logits
                loss = F.cross_entropy(
                    logits.flatten(0, 1), tokens.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
                )
                loss = loss / update.target_tokens
            loss.backward()
            total += loss.detach()
        optimizer.step()
        return total

    return update


def _mark(cuda: bool) -> Any:
    """This moment, on the device's own clock."""
    import torch

    if not cuda:
        return time.time()
    event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def _between(one: Any, other: Any) -> float:
    return float(other - one if isinstance(one, float) else one.elapsed_time(other) / 1000)


def _process_age() -> float:
    """Seconds since this process began, imports included."""
    ticks = float(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - ticks / os.sysconf("SC_CLK_TCK")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Training speed beside Hugging Face Marian.")
    parser.add_argument("store", help="a token store with a joint vocabulary")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--preset", default="base")
    parser.add_argument("--before", type=int, default=3)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--gradient-accumulation", type=int, default=1)
    parser.add_argument("--packing", default="auto", help="of focat; the others are padded")
    parser.add_argument("--optimizer", default="adam", help="of focat; the others have Adam")
    parser.add_argument("--attention", default="full", help="of focat; the others have full attention")
    parser.add_argument("--norm", default="post", help="of focat; the others have post-norm")
    parser.add_argument("--chunk-tokens", type=int, default=16384)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warmup", type=float, default=5)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--profile", type=int, default=0, metavar="UPDATES", help="print where so many updates go")
    parser.add_argument("--json")
    parser.add_argument("--only", choices=SYSTEMS, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
