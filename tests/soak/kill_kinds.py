"""What is killed: for each command, settings drawn at random, and all that it must leave behind in the end."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from safetensors import safe_open

from focat.files import PARTIAL_SUFFIX
from tests.soak.mutations import compress
from tests.soak.seeds import MODEL, PLAN, SETTINGS, TRAINING, Seeds

Outcome = dict[str, Any]
_TIMES = ("minutes", "minutes_left", "tokens_per_second")  # of a log, what no two runs have in common


@dataclass
class KillCase:
    """A command, and what it must give however often it was killed."""

    arguments: list[str]
    outcome: Callable[[Path], Outcome]
    """All that was made in a folder, by name, without dates and durations."""
    check: Callable[[Path, Outcome], list[str]] | None = None
    """After a kill: what is wrong with what lies in the folder, given the outcome of an undisturbed command."""
    processes: int = 1


Build = Callable[[Random, Seeds, Path], KillCase]


def files_in(folder: Path) -> Outcome:
    """The digest of each file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


# ---------------------------------------------------------------------------------------------------------- prepare


def prepare(draw: Random, seeds: Seeds, folder: Path) -> KillCase:
    """A new store, or one in place of an older one, from generated text and from files."""
    shutil.copytree(seeds.corpora, folder / "corpora")
    documents, text = (
        draw.randint(10, 300),
        {"format": "text", "source": "corpora/text.en", "target": "corpora/text.de"},
    )
    data: dict[str, Any] = {
        "store": "store",
        "train": [{"format": "generated", "documents": documents}, text],
        "dev": [{"format": "jsonl", "path": "corpora/documents.jsonl"}],
        "tokenizer": {
            **{"vocabulary": 340, "joint": draw.random() < 0.7, "kind": draw.choice(("bpe", "unigram"))},
            "byte_fallback": draw.random() < 0.8,
        },
        "cleaning": {"identical": draw.random() < 0.5},
        "normalisation": {"lowercase": draw.random() < 0.3},
    }
    if draw.random() < 0.5:
        data["test"] = [{"format": "tsv", "path": "corpora/three.tsv"}]
    (folder / "c.yaml").write_text(json.dumps({"data": data}))
    arguments = ["prepare", "c.yaml", "--quiet"]
    if draw.random() < 0.4:
        shutil.copytree(seeds.store, folder / "store")
        arguments.append("--overwrite")

    def outcome(folder: Path) -> Outcome:
        return files_in(folder / "store")

    older = files_in(seeds.store) if "--overwrite" in arguments else {}

    def check(folder: Path, expected: Outcome) -> list[str]:
        """A part that does not say that it is unfinished is whole: as in the older store, or as in the new one."""
        found = {name: digest for name, digest in files_in(folder / "store").items() if PARTIAL_SUFFIX not in name}
        for part in {name.partition("/")[0] for name in found}:
            now, new, old = (
                {name: digest for name, digest in files.items() if name.partition("/")[0] == part}
                for files in (found, expected, older)
            )
            if now not in (new, old):
                return [f"store/{part} is neither finished nor marked as unfinished"]
        return []

    return KillCase(arguments, outcome, check)


# ------------------------------------------------------------------------------------------------------------ train


def _training(draw: Random) -> dict[str, Any]:
    discount = draw.choice((0.01, 1.0, {"start": 1.0, "end": 0.0, "begin_at": 0.1, "end_at": 0.9}))
    budget = draw.choice(({"updates": draw.randint(8, 24)}, {"epochs": draw.randint(1, 2)}))
    before = draw.choice((0, 1, 2, 3))
    return {
        "windows": {
            **{"before": before, "after": draw.choice((0, 0, 1)), "sampling": draw.choice(("fixed", "random"))},
            **({"target_before": 0} if before and draw.random() < 0.2 else {}),
            "max_tokens": 128,
        },
        "model": {
            **MODEL,
            **{"dropout": draw.choice((0.0, 0.2)), "attention_dropout": draw.choice((0.0, 0.1))},
            **{"activation_dropout": draw.choice((0.0, 0.1)), "word_dropout": draw.choice((0.0, 0.1))},
            **{"norm": draw.choice(("post", "pre")), "activation": draw.choice(("relu", "gelu", "swiglu"))},
            **{"embeddings": draw.choice(("separate", "tied", "shared"))},
            **{
                "positions": draw.choice(("sinusoidal", "learned", "rotary")),
                "shift": draw.choice((0, 5, "avg-corpus", "avg-sequence")),
            },
            **{"segment_embeddings": draw.choice(("none", "sinusoidal", "learned", "one-hot"))},
            **{"attention": draw.choice(("full", "full", "long-short", "group", "gated-group"))},
        },
        "objective": {"discount": discount, "label_smoothing": draw.choice((0.0, 0.1)), "chunk_tokens": 100},
        "training": {
            **TRAINING,
            **{
                "output_dir": "run",
                "budget": budget,
                "seed": draw.randint(1, 1000),
                "batch_tokens": draw.choice((400, 900)),
            },
            **{"gradient_accumulation": draw.choice((1, 1, 2, 3)), "optimizer": draw.choice(("adam", "muon"))},
            **{"schedule": draw.choice(("inverse-sqrt", "cosine", "linear")), "ema": draw.choice((0.0, 0.9))},
            **{"weight_decay": draw.choice((0.0, 0.01)), "clip_norm": draw.choice((0.0, 1.0))},
            **{"precision": draw.choice(("float32", "float32", "bfloat16"))},
            **{
                "validate_every": draw.choice((None, 3, 7)),
                "criterion": draw.choice(("current", "discounted", "full", "bleu")),
            },
            **{"patience": draw.choice((None, 50)), "keep_checkpoints": draw.choice((1, 2, 3))},
            **{
                "save_minutes": draw.choice((10.0, 0.0001, 0.001)),
                "log_every": draw.choice((1, 3)),
                "log_samples": draw.choice((0, 1)),
            },
        },
        "decoding": {**SETTINGS["decoding"], "beam": 1},
    }


def _train(draw: Random, seeds: Seeds, folder: Path, processes: int) -> KillCase:
    shutil.copytree(seeds.store, folder / "store")
    tree = {"data": SETTINGS["data"], **_training(draw)}
    if tree["training"]["save_minutes"] < 1:
        tree["training"]["patience"] = None
    if draw.random() < 0.2:
        # Weights of another run to start from, of the same shape.
        shutil.copytree(seeds.run, folder / "parent")
        tree["model"], tree["training"]["init_from"] = SETTINGS["model"], "parent"
    (folder / "c.yaml").write_text(json.dumps(tree))
    return KillCase(["train", "c.yaml", "--quiet"], lambda folder: run_outcome(folder / "run"), processes=processes)


def train(draw: Random, seeds: Seeds, folder: Path) -> KillCase:
    """All optimizers, schedules, windows, kinds of dropout, averages of weights."""
    return _train(draw, seeds, folder, 1)


def train_two_processes(draw: Random, seeds: Seeds, folder: Path) -> KillCase:
    """The same in two processes, as `torchrun` starts them."""
    return _train(draw, seeds, folder, 2)


def _tensors(path: Path) -> Outcome:
    """The digest of each tensor."""
    with safe_open(path, "pt") as file:
        return {
            name: hashlib.sha256(
                file.get_tensor(name).contiguous().view(-1).view(_bytes()).numpy().tobytes()
            ).hexdigest()
            for name in sorted(file.keys())
        }


def _bytes() -> Any:
    import torch

    return torch.uint8


def run_outcome(run: Path) -> Outcome:
    """Weights, what training goes on from, the log without times, and which files there are."""
    checkpoints = sorted(path for path in (run / "checkpoints").iterdir() if path.name.isdigit())
    last = checkpoints[-1]
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    state = json.loads((last / "state.json").read_text())
    best = (run / "best").read_text() if (run / "best").exists() else None
    # Which other checkpoints there are depends on the clock and on signals, too: each of them saves one.
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    kept = [
        name for name in files if not name.startswith("checkpoints/") or name.startswith(f"checkpoints/{last.name}/")
    ]
    return {
        "weights": _tensors(last / "weights.safetensors"),
        "training": _tensors(last / "training.safetensors"),
        "log": [{k: v for k, v in record.items() if k not in _TIMES} for record in records],
        "state": {name: value for name, value in state.items() if name not in _TIMES},
        "best": best,
        "best weights": best and _tensors(run / "checkpoints" / best.strip() / "weights.safetensors"),
        "files": sorted(kept),
        "config.yaml": (run / "config.yaml").read_text().replace(str(run.parent), ""),
        "model.json": (run / "model.json").read_text(),
    }


# -------------------------------------------------------------------------------------------------------- translate


def translate(draw: Random, seeds: Seeds, folder: Path) -> KillCase:
    """All formats, compressions and ways to search, in batches so small that there are many records in the journal."""
    name = draw.choice(("talk.txt", "talk.jsonl", "film.srt", "film.vtt", "running"))
    data = (seeds.inputs / name).read_bytes()
    repeated = draw.randint(4, 12)
    head, _, cues = data.partition(b"\n\n") if name == "film.vtt" else (b"", b"", data)
    data = head + (b"\n\n" if head else b"") + b"\n".join([cues] * repeated)
    packed, suffix = draw.choice(("", "", ".gz", ".xz", ".zst")), draw.choice(("", "", ".gz", ".xz", ".zst"))
    (folder / (name + packed)).write_bytes(compress(packed, data))
    output = f"out{Path(name).suffix}{suffix}"
    options = ["--batch-tokens", str(draw.choice((40, 100, 300)))]
    options += draw.choice(([], ["--context", "reuse"], ["--context", "regenerate"], ["--context", "none"]))
    options += draw.choice(([], [], ["--window", "1"], ["--window", "4"], ["--unconstrained"]))
    options += draw.choice(([], [], ["--int8"]))
    search = draw.choice(("greedy", "beam", "sample", "sample"))
    options += {
        "greedy": ["--beam", "1"],
        "beam": ["--beam", "4"],
        "sample": ["--sample", "--seed", str(draw.randint(1, 99))],
    }[search]
    if search == "sample":
        options += draw.choice(([], ["--temperature", "0.7"], ["--top-p", "0.8"]))
    if name == "running":
        options.append("--split")
    elif name.startswith("talk"):
        options += draw.choice(([], ["--nbest", "2"], ["--scores"])) if search != "greedy" else []
    if draw.random() < 0.2:
        (folder / output).write_bytes(b"an older translation\n")
        options.append("--overwrite")
    older = files_in(folder)

    def outcome(folder: Path) -> Outcome:
        return files_in(folder)

    def check(folder: Path, expected: Outcome) -> list[str]:
        found = files_in(folder).get(output)
        return [] if found in (None, expected[output], older.get(output)) else [f"{output} is half-written"]

    return KillCase(["translate", str(seeds.run), name + packed, "-o", output, *options, "--quiet"], outcome, check)


# -------------------------------------------------------------------------------------------------------- reproduce


def reproduce(draw: Random, seeds: Seeds, folder: Path) -> KillCase:
    """A plan of one or two systems that are trained and measured."""
    plan = json.loads(json.dumps(PLAN))
    if draw.random() < 0.6:
        del plan["systems"]["focused"]
    plan["average"] = draw.choice((0, 2))
    plan["settings"]["training"]["seed"] = draw.randint(1, 100)
    if draw.random() < 0.5:
        plan["tests"] = {}
    (folder / "plan.yaml").write_text(json.dumps(plan))

    def outcome(folder: Path) -> Outcome:
        out = folder / "out"
        found: Outcome = {name: (out / name).read_text() for name in ("results.json", "tables.json", "tables.md")}
        for path in sorted((out / "results").glob("*.json")):
            record = json.loads(path.read_text())
            found[path.name] = [record["inputs"], record["result"]]
        for run in sorted(path for path in (out / "runs").iterdir() if path.is_dir()):
            found |= {f"{run.name}: {name}": value for name, value in run_outcome(run).items() if name != "config.yaml"}
        return found

    arguments = ["reproduce", "plan.yaml", "--folder", "out", "--no-report", "--quiet"]
    return KillCase(arguments, outcome)


KILLED: dict[str, tuple[Build, int]] = {  # with how many cases of it in a round
    "kill-prepare": (prepare, 2),
    "kill-train": (train, 4),
    "kill-train-two": (train_two_processes, 1),
    "kill-translate": (translate, 5),
    "kill-reproduce": (reproduce, 1),
}
