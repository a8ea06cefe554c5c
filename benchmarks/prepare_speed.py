"""How long `focat prepare` takes beside bare SentencePiece: the same files, the same settings, the same cores, one run.

    python -m benchmarks.prepare_speed --source train.en.xz --target train.ru.xz --vocabulary 32000 --repeat 3

The bare job is what nobody can do without: decompress, train SentencePiece, encode with all cores, save the ids with
numpy. `focat prepare` also reads documents, cleans, escapes, hashes its inputs, appends in bounded memory and syncs to
disk. Both run as fresh processes, in turns and in alternating order; the medians are compared, and the ids must agree.
Exit code 1 if they do not, or if focat takes more than `--bar` times as long.
A tiny variant, in seconds: add `--lines 2000 --vocabulary 1000`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import chain, islice
from pathlib import Path
from statistics import median

import numpy as np
import sentencepiece

from focat.corpus.store import Store
from focat.corpus.text_files import is_blank, read_lines
from focat.corpus.tokenizer import cores
from focat.corpus.vocabulary import SEPARATOR, SPECIALS


def main() -> None:
    """Time both jobs, compare what they made, say which ratio came out."""
    arguments = parse_arguments()
    if arguments.bare:
        bare(arguments, Path(arguments.bare))
        return
    with tempfile.TemporaryDirectory() as folder:
        times = run_in_turns(arguments, Path(folder))
        same, tokens = ids_agree(Path(folder))
    report(arguments, times, same, tokens)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--source", type=Path, required=True, help="text file, one sentence per line; may be compressed"
    )
    parser.add_argument("--target", type=Path, required=True, help="its translation, line for line")
    parser.add_argument("--vocabulary", type=int, default=32_000, help="size of the vocabulary, focat's 4 ids included")
    parser.add_argument("--kind", choices=("bpe", "unigram"), default="bpe", help="the algorithm")
    parser.add_argument("--separate", action="store_true", help="one vocabulary per language instead of one for both")
    parser.add_argument("--lines", type=int, help="only so many lines of the files")
    parser.add_argument("--repeat", type=int, default=1, help="how often to run each job")
    parser.add_argument("--bar", type=float, default=1.5, help="the ratio that is still good")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--bare", help=argparse.SUPPRESS)  # the bare job, in a process of its own
    return parser.parse_args()


# ------------------------------------------------------------------------------------------------ the two jobs


def bare(arguments: argparse.Namespace, folder: Path) -> None:
    """SentencePiece and nothing else: text files, `train` on files, `encode` with all cores, one array per side."""
    folder.mkdir()
    texts = []
    for side in ("source", "target"):
        with (folder / f"{side}.txt").open("w", encoding="utf-8") as file:
            sentences = [line for line in read_lines(getattr(arguments, side)) if not is_blank(line)]
            file.writelines(f"{sentence}\n" for sentence in sentences)
            texts.append(sentences)
    files = [str(folder / f"{side}.txt") for side in ("source", "target")]
    models = [train(arguments, folder / "source", ",".join(files[: 1 if arguments.separate else 2]))]
    models.append(train(arguments, folder / "target", files[1]) if arguments.separate else models[0])
    for side, sentences, model in zip(("source", "target"), texts, models, strict=True):
        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        encoded = processor.encode(sentences, num_threads=cores())
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        tokens = np.fromiter(chain.from_iterable(encoded), np.int32, int(lengths.sum()))
        np.save(folder / f"{side}.tokens.npy", tokens)
        np.save(folder / f"{side}.lengths.npy", lengths)


def train(arguments: argparse.Namespace, prefix: Path, files: str) -> Path:
    """A model with focat's settings."""
    sentencepiece.SentencePieceTrainer.train(
        input=files,
        model_prefix=str(prefix),
        model_type=arguments.kind,
        vocab_size=arguments.vocabulary - SPECIALS,
        hard_vocab_limit=False,
        character_coverage=0.9999,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True,
        unk_id=0,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
        max_sentence_length=1 << 20,
        num_threads=16,  # as focat, on every machine; also SentencePiece's default
        minloglevel=2,
    )
    return prefix.with_suffix(".model")


def write_config(arguments: argparse.Namespace, folder: Path) -> Path:
    """The same job as settings of focat."""
    corpus = {"format": "text", "source": str(arguments.source), "target": str(arguments.target)}
    tokenizer = {"kind": arguments.kind, "joint": not arguments.separate, "vocabulary": arguments.vocabulary}
    config = folder / "config.yaml"
    config.write_text(json.dumps({"data": {"store": "store", "train": [corpus], "tokenizer": tokenizer}}))
    return config


# ------------------------------------------------------------------------------------------------ timing


def run_in_turns(arguments: argparse.Namespace, folder: Path) -> dict[str, list[float]]:
    """Seconds of each run of each job; the results of the last runs stay in the folder."""
    if arguments.lines:
        for side in ("source", "target"):
            shorter = folder / f"short.{side}"
            lines = islice(read_lines(getattr(arguments, side)), arguments.lines)
            shorter.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            setattr(arguments, side, shorter)
    arguments.source, arguments.target = arguments.source.resolve(), arguments.target.resolve()
    config = write_config(arguments, folder)
    options = ["--source", arguments.source, "--target", arguments.target, "--kind", arguments.kind]
    options += ["--vocabulary", arguments.vocabulary, *(["--separate"] if arguments.separate else [])]
    jobs = {
        "focat prepare": (["-m", "focat", "prepare", config], folder / "store"),
        "bare SentencePiece": (
            ["-m", "benchmarks.prepare_speed", *options, "--bare", folder / "bare"],
            folder / "bare",
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(arguments.repeat):
        for name, (command, made) in sorted(jobs.items(), reverse=bool(turn % 2)):
            subprocess.run(["rm", "-rf", str(made)], check=True)
            began = time.perf_counter()
            subprocess.run([sys.executable, *map(str, command)], check=True, capture_output=True)
            times[name].append(time.perf_counter() - began)
    return times


def ids_agree(folder: Path) -> tuple[bool, int]:
    """Whether the store holds the bare ids behind its special ones, and how many there are."""
    split = Store(folder / "store").split("train")
    count, same = 0, True
    for side in ("source", "target"):
        tokens = np.load(folder / "bare" / f"{side}.tokens.npy")
        lengths = np.load(folder / "bare" / f"{side}.lengths.npy")
        ours = getattr(split, side)
        same &= np.array_equal(ours.lengths - 1, lengths)
        same &= np.array_equal(ours.tokens[ours.tokens != SEPARATOR], tokens + SPECIALS)
        count += len(tokens)
    return bool(same), count


def report(arguments: argparse.Namespace, times: dict[str, list[float]], same: bool, tokens: int) -> None:
    """What came out, in words and, where asked for, as JSON."""
    medians = {name: median(seconds) for name, seconds in times.items()}
    ratio = medians["focat prepare"] / medians["bare SentencePiece"]
    print(f"{arguments.kind} {arguments.vocabulary:,}, {tokens:,} tokens, {cores()} cores")
    for name, seconds in times.items():
        runs = ", ".join(f"{second:.1f}" for second in seconds)
        print(f"{name:20} {medians[name]:8.1f} s   (runs: {runs})")
    print(f"{'ratio':20} {ratio:8.2f}     (good: at most {arguments.bar})")
    print(f"{'ids':20} {'the same' if same else 'DIFFERENT':>8}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"seconds": times, "ratio": ratio, "same": same, "tokens": tokens}))
    sys.exit(0 if same and ratio <= arguments.bar else 1)


if __name__ == "__main__":
    main()
