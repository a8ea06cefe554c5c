"""What work costs as it grows: corpus, document length, sentences of a window (K) and processes, doubled step by step.

    python -m benchmarks.growth corpus epoch             # each in two to three minutes; epoch needs 4 GiB of memory
    python -m benchmarks.growth documents windows        # each in one to two minutes
    python -m benchmarks.growth processes --rounds 3

Beside each figure stands how it grew with the last doubling, and how it should have: `flat` is 1, `linear` 2. Attention
compares every token of a window with every other, so the cost of a window lies between linear and quadratic in K, and
that of a decoded sentence (`reuse`) between flat and linear. Time is processor time on one thread, which other work on
the machine hardly changes; only `processes` needs a clock, and a machine that does nothing else. Memory is the peak of
the resident set, files that are mapped included, beyond that of a process that has imported everything. Every size is
measured in a process of its own (Linux).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import focat
from focat.config import Settings, load_settings
from focat.config.schema import WindowSettings
from focat.corpus.generated import generate
from focat.corpus.prepare import prepare
from focat.corpus.store import Sentences, Split, Store
from focat.hardware import hardware
from focat.progress import Progress
from focat.run import Run
from focat.training.distributed import Processes
from focat.training.trainer import Trainer
from focat.windows.loader import Loader
from focat.windows.splitmix64 import splitmix64

SILENT = Progress(None)
Figures = dict[str, float]


@dataclass(frozen=True)
class Series:
    """Something that is doubled, and how each figure should grow with it."""

    doubled: str
    sizes: tuple[int, ...]
    laws: dict[str, str]
    measures: tuple[Callable[[int, Path], Figures], ...]  # one after the other, each in a process of its own


def main() -> None:
    options = _options().parse_args()
    torch.set_num_threads(1)
    print(hardware(), flush=True)
    for name in options.series:
        if name == "processes":
            _processes(options.rounds)
        else:
            _print_series(SERIES[name])


def _print_series(series: Series) -> None:
    """Measure all sizes, and print a row for each: figures, and how they grew."""
    heads = [f"{figure} ({law})" for figure, law in series.laws.items()]
    print(f"\n| {series.doubled} | {' | '.join(heads)} |\n|---{'|---' * len(heads)}|", flush=True)
    before: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in series.sizes:
            found: Figures = {}
            for measure in series.measures:
                found |= _in_own_process(measure, size, Path(folder) / str(size))
            cells = [f"{found[figure]:,.3g}{_growth(found, before, figure)}" for figure in series.laws]
            print(f"| {size:,} | {' | '.join(cells)} |", flush=True)
            before = found


def _growth(found: Figures, before: Figures, figure: str) -> str:
    return f" (× {found[figure] / before[figure]:.2f})" if before.get(figure) else ""


def _in_own_process(measure: Callable[[int, Path], Figures], size: int, folder: Path) -> Figures:
    """Measure in a fork that ends with it, so that memory of one size is not counted with the next."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def work() -> None:
        before = _resident("VmRSS")
        found = measure(size, folder)
        sender.send({name: value - before * name.endswith("MiB") for name, value in found.items()})

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        sys.exit(f"{size}: broke")
    finally:
        process.join()


# --------------------------------------------------------------------------------------------------- what is doubled


def _prepare(sentences: int, folder: Path) -> Figures:
    settings = _settings(folder, sentences, document=32)
    cost = _cost(lambda: prepare(settings.data, SILENT))
    return {"prepare, s": cost.seconds, "prepare, MiB": cost.mib}


def _prepare_sampled(sentences: int, folder: Path) -> Figures:
    """The same with a tokenizer that is trained on 20,000 sentences of each language."""
    data = _settings(folder, sentences, document=32).data
    sampled = {"tokenizer": data.tokenizer.model_copy(update={"sample": 20_000}), "store": folder / "sampled"}
    cost = _cost(lambda: prepare(data.model_copy(update=sampled), SILENT))
    return {"prepare, tokenizer of 20,000, MiB": cost.mib}


def _first_update(sentences: int, folder: Path) -> Figures:
    """The start of a training: until the first update is done."""
    settings = _settings(folder, sentences, document=32)
    cost = _cost(lambda: _train(settings, updates=1))
    return {"first update, s": cost.seconds, "first update, MiB": cost.mib}


def _epoch(count: int, folder: Path) -> Figures:
    """The windows of an epoch, cut and ordered: windows of 4, documents of 32 sentences of 1 to 25 words."""
    offsets = np.concatenate([[0], np.cumsum(2 + splitmix64(count) % np.uint64(25))]).astype(np.int64)
    sentences = Sentences(np.empty(0, np.uint16), offsets)  # the tokens themselves are not looked at
    split = Split(sentences, sentences, np.arange(0, count + 1, 32))
    return _ordered(split, "padded") | _ordered(split, "packed")


def _ordered(split: Split, kind: str) -> Figures:
    loader, kept = Loader(split, WindowSettings(before=3), 32_768, packed=kind == "packed"), []
    loader.epoch(0)  # the first use of an operation allocates more than the next
    before = _cost(lambda: None).mib
    cost = _cost(lambda: kept.append(loader.epoch(1)))
    stays = _cost(lambda: None).mib
    return {
        f"{kind}, s": cost.seconds,
        f"{kind}, bytes a window at the peak": (cost.mib - before) * 2**20 / len(split),
        f"{kind}, bytes a window that stay": (stays - before) * 2**20 / len(split),
    }


def _documents(length: int, folder: Path) -> Figures:
    """One document of so many sentences, by a barely trained system with windows of 4."""
    settings = _settings(folder, sentences=2000, document=32)
    prepare(settings.data, SILENT)
    _train(settings, updates=40)
    return _translated(settings, "reuse", length, 1) | _translated(settings, "regenerate", length, 1)


def _windows(size: int, folder: Path) -> Figures:
    """Training and translation with windows of so many sentences, at the same number of tokens to a batch."""
    settings = _settings(folder, sentences=4000, document=64, before=size - 1)
    prepare(settings.data, SILENT)
    trainer = _trainer(settings, _UPDATES)
    windows, order = trainer.loader.epoch(0)
    _, lengths = windows.lengths()
    seen = _UPDATES / trainer.loader.count_updates(order)  # of an epoch
    cost = _cost(trainer.train)
    found = {
        "target tokens of a window": float(lengths.mean()),
        "training, ms a token": 1000 * cost.seconds / float(lengths.sum() * seen),
        "training, ms a window": 1000 * cost.seconds / (len(windows) * seen),
        "training, MiB": cost.mib,
    }
    return found | _translated(settings, "reuse", 24, 16) | _translated(settings, "regenerate", 24, 16)


def _processes(rounds: int) -> None:
    """One process and two, by the clock: a training with two batches to an update, and the shards of a folder."""
    print("\n| processes | training, target tokens/s (linear) | translation, sentences/s (linear) |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = _settings(folder / "demo", sentences=4000, document=32)
        prepare(settings.data, SILENT)
        _train(settings, _UPDATES)
        texts = folder / "texts"
        texts.mkdir()
        for i, document in enumerate(_long_documents(32, 24)):
            (texts / f"{i}.txt").write_text("\n".join(document) + "\n", encoding="utf-8")
        before: Figures = {}
        for processes in (1, 2):
            trained = median(_joint_training(settings, folder, processes) for _ in range(rounds))
            translated = median(_sharded_translation(settings, texts, processes) for _ in range(rounds))
            found = {"training": trained, "translation": translated}
            cells = [f"{found[figure]:,.0f}{_growth(found, before, figure)}" for figure in found]
            print(f"| {processes} | {' | '.join(cells)} |", flush=True)
            before = found


def _joint_training(settings: Settings, folder: Path, processes: int) -> float:
    """Target tokens/s of a training in so many processes; the median of its log without the first lines."""
    with tempfile.TemporaryDirectory(dir=folder) as run:
        own = settings.training.model_copy(
            update={"output_dir": Path(run) / "run", "gradient_accumulation": 2, "log_every": 5}
        )
        config = Path(run) / "config.yaml"
        config.write_text(settings.model_copy(update={"training": own}).model_dump_json(), encoding="utf-8")
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost"]
        torchrun += ["--nproc-per-node", str(processes), "-m", "focat", "train", str(config)]
        subprocess.run(torchrun, check=True, capture_output=True)
        log = [json.loads(line) for line in (own.output_dir / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return median([record["tokens_per_second"] for record in log if record["kind"] == "train"][2:])


def _sharded_translation(settings: Settings, texts: Path, processes: int) -> float:
    """Sentences/s of a folder that so many processes translate, a shard each, by the slowest; without their imports."""
    command = [sys.executable, "-m", "focat", "translate", str(settings.training.output_dir), str(texts), "--quiet"]
    with tempfile.TemporaryDirectory() as folder:
        commands = []
        for i in range(1, processes + 1):
            own = ["-o", f"{folder}/texts", "--shard", f"{i}/{processes}", "--json", f"{folder}/{i}.json"]
            commands.append(subprocess.Popen([*command, *own]))
        codes = [each.wait() for each in commands]
        if any(codes):
            sys.exit("focat translate failed")
        found = [json.loads(file.read_text(encoding="utf-8")) for file in Path(folder).glob("*.json")]
        return sum(shard["sentences"] for shard in found) / max(shard["seconds"] for shard in found)


# ------------------------------------------------------------------------------------------------------------ the work


def _settings(folder: Path, sentences: int, document: int, before: int = 3) -> Settings:
    """The demo's system on a corpus of text with documents of so many sentences; written if it is not there."""
    if not folder.exists():
        folder.mkdir(parents=True)
        for language, side in (("en", 0), ("de", 1)):
            with (folder / f"train.{language}").open("w", encoding="utf-8") as file:
                for each in _long_documents(sentences // document, document, side):
                    file.write("\n".join(each) + "\n\n")
    corpus = f"data.train=[{{format: text, source: {folder / 'train.en'}, target: {folder / 'train.de'}}}]"
    own = [
        corpus,
        f"data.store={folder / 'store'}",
        f"training.output_dir={folder / 'run'}",
        f"windows.before={before}",
    ]
    own += ["data.tokenizer.vocabulary=1000", "data.dev=[]", "data.test=[]", "training.device=cpu"]
    own += [f"training.budget.updates={_UPDATES}", "training.validate_every=null", "training.save_minutes=1000"]
    return load_settings(Path("focat:demo"), own)


def _long_documents(count: int, length: int, side: int = 0) -> Iterator[list[str]]:
    """Documents of one length, joined from generated ones, which are repeated when they are used up."""
    pairs = [pair for each in generate(1000, 1) for pair in zip(each.source, each.target, strict=True)]
    sentences = (pair[side] for pair in cycle(pairs))
    for _ in range(count):
        yield list(islice(sentences, length))


def _trainer(settings: Settings, updates: int) -> Trainer:
    budget = settings.training.budget.model_copy(update={"updates": updates})
    settings = settings.model_copy(update={"training": settings.training.model_copy(update={"budget": budget})})
    store = Store(settings.data.store)
    return Trainer(settings, store, Run.create(settings, store), Processes(0, 1, torch.device("cpu")), SILENT)


def _train(settings: Settings, updates: int) -> None:
    _trainer(settings, updates).train()


def _translated(settings: Settings, context: Any, length: int, documents: int) -> Figures:
    """Cost of a sentence of so many documents of so many sentences; all are there from the beginning."""
    translator = focat.load(settings.training.output_dir, "cpu").translator(context=context, beam=2)
    texts = list(_long_documents(documents, length))
    list(translator.translate([texts[0][:2]]))  # the first translation imports and allocates
    cost = _cost(lambda: list(translator.translate(texts)))
    return {f"{context}, ms a sentence": 1000 * cost.seconds / (documents * length), f"{context}, MiB": cost.mib}


@dataclass(frozen=True)
class Cost:
    """What some work took."""

    seconds: float  # of processor time
    mib: float  # resident at its peak


def _cost(work: Callable[[], object]) -> Cost:
    """Do some work, and measure it."""
    ctypes.CDLL(None).malloc_trim(0)  # gives back what the work before has freed
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins again from what is resident now
    began = sum(os.times()[:4])  # of this process and those it has awaited
    work()
    return Cost(sum(os.times()[:4]) - began, _resident("VmHWM"))


def _resident(field: str) -> float:
    """MiB of this process that are resident, or were at their peak."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024


_UPDATES = 30
_TRANSLATION = {
    "reuse, ms a sentence": "flat",
    "reuse, MiB": "flat",
    "regenerate, ms a sentence": "flat",
    "regenerate, MiB": "flat",
}
SERIES = {
    "corpus": Series(
        "sentences of the corpus",
        tuple(64_000 << i for i in range(7)),
        {
            "prepare, s": "linear",
            "prepare, MiB": "linear, flat from 2,000,000 on",
            "prepare, tokenizer of 20,000, MiB": "flat",
            "first update, s": "linear",
            "first update, MiB": "linear",
        },
        (_prepare, _prepare_sampled, _first_update),
    ),
    "epoch": Series(
        "windows of an epoch",
        tuple(1_000_000 << i for i in range(8)),
        {
            f"{kind}, {figure}": law
            for kind in ("padded", "packed")
            for figure, law in {
                "s": "linear",
                "bytes a window at the peak": "flat",
                "bytes a window that stay": "flat",
            }.items()
        },
        (_epoch,),
    ),
    "documents": Series("sentences of a document", (64, 128, 256), _TRANSLATION, (_documents,)),
    "windows": Series(
        "sentences of a window, K",
        (1, 2, 4, 8, 16),
        {
            "target tokens of a window": "linear",
            "training, ms a token": "flat to linear",
            "training, ms a window": "linear to quadratic",
            "training, MiB": "flat to linear",
            "reuse, ms a sentence": "flat to linear",
            "reuse, MiB": "flat to linear",
            "regenerate, ms a sentence": "linear to quadratic",
            "regenerate, MiB": "linear to quadratic",
        },
        (_windows,),
    ),
}


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Time and memory as work doubles, beside the law expected.")
    parser.add_argument("series", nargs="+", choices=(*SERIES, "processes"), help="what to double")
    parser.add_argument(
        "--rounds", type=int, default=1, help="of `processes`: measurements, of which the median counts"
    )
    return parser


if __name__ == "__main__":
    main()
