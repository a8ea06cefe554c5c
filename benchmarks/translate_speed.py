"""How fast focat translates, beside Hugging Face Marian and CTranslate2 of the same size, on the same windows.

    OMP_NUM_THREADS=2 python -m benchmarks.translate_speed STORE                        # two CPU cores
    OMP_NUM_THREADS=2 python -m benchmarks.translate_speed STORE --at-a-time 4          # as people speak
    python -m benchmarks.translate_speed STORE --device cuda --split train --documents 2048 --batches 64,256
    python -m benchmarks.translate_speed STORE --device cuda --systems reuse --passes 3 --profile

Windows of real sentences, untrained weights, beam search. As untrained models never end by themselves, lengths are
forced: every window is decoded to as many tokens as its reference has. CTranslate2 can force one length to a batch
only, so it is given batches sorted by that length and decodes the mean of each: as many tokens in all, none in vain, by
a foreknowledge that focat and Hugging Face, sorted by source, do not have. Both peers try several batch sizes, and on a
CPU CTranslate2 also tries a worker for each thread instead of all threads for one batch; the best counts. Every system
has a process of its own; rounds take turns, and the best counts. `reuse` decodes current sentences alone, after its own
translations, and so has one sentence of each document at a time. CPU seconds are those of all threads: on a machine
that does other things they say more than the clock, best with `--threads 1`.

With `--at-a-time N`, documents are not there from the beginning, as when they are spoken or typed: N at a time, each
sentence follows when the one before it is translated. Then all systems have N windows at a time, and no choice.
With `--profile`, a table says which kernels one more pass goes into.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

SYSTEMS = (
    "hf-marian",
    "ctranslate2",
    "ctranslate2-int8",
    "ctranslate2-prefix",
    "regenerate",
    "regenerate-int8",
    "regenerate-bfloat16",
    "reuse",
    "reuse-int8",
    "reuse-bfloat16",
)


@dataclass(frozen=True)
class Figures:
    """What one system did."""

    system: str
    sentences_per_second: float
    sentences_per_cpu_second: float
    tokens_per_second: float  # target tokens of the best hypotheses
    seconds: float
    cpu_seconds: float  # of all threads
    peak_gib: float
    batch: int  # windows at a time; 0 is focat's own choice
    workers: int  # batches at a time; 0 is focat's own choice


@dataclass(frozen=True)
class Sentence:
    """A sentence of a document and the sentences in front of it."""

    source: list[int]  # the window, separators inside, END last
    context: list[int]  # target context of the reference, closed by its separator
    current: int  # tokens of its reference, END included

    @property
    def window(self) -> int:
        """Tokens of the reference of the whole window."""
        return len(self.context) + self.current


def main() -> None:
    options = _options().parse_args()
    if options.only:
        print(json.dumps(asdict(_measure(options.only, options))))
        return
    best: dict[str, Figures] = {}
    for _ in range(options.rounds):
        for system in options.systems.split(","):
            command = [sys.executable, "-m", "benchmarks.translate_speed", *sys.argv[1:], "--only", system]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                print(f"{system:16} failed with exit code {done.returncode}", flush=True)
                continue
            *table, last = done.stdout.splitlines()
            figures = Figures(**json.loads(last))
            if system not in best or figures.seconds < best[system].seconds:
                best[system] = figures
            print("\n".join([_row(figures, next(iter(best.values()))), *table]), flush=True)
    results = list(best.values())
    if options.rounds > 1:
        print("the best of each")
        for figures in results:
            print(_row(figures, results[0]))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(r) for r in results], indent=2) + "\n", encoding="utf-8")


def _row(figures: Figures, first: Figures) -> str:
    ratio = figures.sentences_per_second / first.sentences_per_second
    cpu_ratio = figures.sentences_per_cpu_second / first.sentences_per_cpu_second
    return (
        f"{figures.system:16} {figures.sentences_per_second:8.2f} sentences/s  {ratio:6.2f} × {first.system}  "
        f"{figures.sentences_per_cpu_second:8.2f} per CPU second  {cpu_ratio:6.2f} ×  "
        f"{figures.tokens_per_second:10,.0f} tokens/s  {figures.seconds:6.1f} s  peak {figures.peak_gib:5.2f} GiB  "
        f"batch {figures.batch or 'own'}" + f" × {figures.workers}" * (figures.workers > 1)
    )


def _measure(system: str, options: argparse.Namespace) -> Figures:
    import torch

    documents = _documents(options)
    if options.threads:
        torch.set_num_threads(options.threads)
    name, _, short = system.partition("-")  # regenerate-int8: with the setting int8
    runs: dict[tuple[int, int], Callable[[int], int]] = {}  # batch size, workers → translate so many documents
    live = options.at_a_time
    if system.startswith("re"):
        run = _focat(name, options, short)
        runs[live or 0, 0] = lambda count: sum(map(run, _groups(documents[:count], live or count)))
    else:
        hf = system == "hf-marian"
        threads = torch.get_num_threads() if name == "ctranslate2" and options.device == "cpu" and not live else 1
        for workers in {1, threads}:
            translate = _marian(options) if hf else _ctranslate2(options, short == "int8", short == "prefix", workers)
            if live:
                runs[live, 1] = lambda count, translate=translate: sum(
                    translate([list(turn)])
                    for group in _groups(documents[:count], live)
                    for turn in zip(*group, strict=True)
                )
            for size in [] if live else map(int, options.batches.split(",")):
                runs[size, workers] = lambda count, size=size, translate=translate: translate(
                    list(_sorted([s for d in documents[:count] for s in d], size, foreseen=not hf))
                )
    cuda = options.device == "cuda"
    wait = torch.cuda.synchronize if cuda else (lambda: None)
    timed = []
    for (size, workers), translated in runs.items():
        translated(2)
        for _ in range(options.passes - 1):
            translated(len(documents))
        wait()
        begun, begun_cpu = time.perf_counter(), time.process_time()
        tokens = translated(len(documents))
        wait()
        timed.append((time.perf_counter() - begun, time.process_time() - begun_cpu, tokens, size, workers))
    seconds, cpu_seconds, tokens, size, workers = min(timed)
    peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else resource.getrusage(0).ru_maxrss / 2**20
    if options.profile:
        from benchmarks.kernel_times import kernel_times, print_times

        times = kernel_times(lambda: runs[size, workers](len(documents)), torch.device(options.device))
        print_times(times, 1, "a pass")
    count = sum(map(len, documents))
    rates = count / seconds, count / cpu_seconds, tokens / seconds
    return Figures(system, *rates, seconds, cpu_seconds, peak, size, workers)


def _documents(options: argparse.Namespace) -> list[list[Sentence]]:
    """Sentences of as many documents, each with its full context."""
    from focat.corpus.store import Store
    from focat.corpus.vocabulary import END

    split = Store(Path(options.store)).split(options.split)
    before, count = options.before, options.sentences
    documents = []
    for first, end in zip(split.documents, split.documents[1:], strict=False):
        if end - first >= before + count and len(documents) < options.documents:
            documents.append([])
            for current in range(first + before, first + before + count):
                start = split.source.offsets[current - before]
                source = split.source.tokens[start : split.source.offsets[current + 1] - 1].tolist()
                context = split.target.tokens[
                    split.target.offsets[current - before] : split.target.offsets[current]
                ].tolist()
                documents[-1].append(Sentence([*source, END], context, int(split.target.lengths[current])))
    return documents


def _groups(documents: list[list[Sentence]], size: int) -> Iterator[list[list[Sentence]]]:
    return (documents[i : i + size] for i in range(0, len(documents), size))


def _sorted(sentences: list[Sentence], size: int, foreseen: bool) -> Iterator[list[Sentence]]:
    """Batches of similar length: of the source, or foreseen, of the target."""
    order = sorted(sentences, key=lambda s: s.window if foreseen else len(s.source), reverse=True)
    return (order[i : i + size] for i in range(0, len(order), size))


def _focat(context: str, options: argparse.Namespace, short: str) -> Callable[[list[list[Sentence]]], int]:
    import torch

    from focat.config.schema import ModelSettings, SearchSettings, WindowSettings
    from focat.corpus.store import Store
    from focat.corpus.vocabulary import END, SEPARATOR
    from focat.decoding.engine import Engine
    from focat.decoding.requests import Hypothesis, Request
    from focat.model import Transformer

    torch.manual_seed(1)
    vocabulary = Store(Path(options.store)).tokenizer.source.size
    settings = ModelSettings(preset=options.preset, embeddings="shared")
    model = Transformer(settings, WindowSettings(before=options.before), vocabulary, vocabulary, shift=13)
    with torch.no_grad():
        model.output_weight[[END, SEPARATOR]] = 0.0  # nothing ends before its time
    if options.device == "cuda":
        model.to("cuda", torch.bfloat16)
    engine = Engine(
        [model],
        SearchSettings(beam=options.beam, batch_tokens=options.batch_tokens, **({short: True} if short else {})),
    )
    sentences = options.before + 1

    def decode(first: list[Request], follow: Callable[[int, list[Hypothesis]], Request | None]) -> None:
        """Decode the first window of each document, and then those that follow from the results."""
        documents = {engine.submit(request): i for i, request in enumerate(first)}
        while not engine.idle:
            for id, found in engine.step():
                document = documents.pop(id)
                request = follow(document, found)
                if request is not None:
                    documents[engine.submit(request)] = document

    def regenerate(documents: list[list[Sentence]]) -> int:
        windows = [sentence for document in documents for sentence in document]
        found = engine([whole(w) for w in windows])
        assert [len(best.tokens) for [best] in found] == [w.window for w in windows]
        return sum(w.window for w in windows)

    def whole(window: Sentence) -> Request:
        return Request(window.source, sentences=sentences, max_length=window.window)

    def regenerate_live(documents: list[list[Sentence]]) -> int:
        left = [iter(document) for document in documents]

        decoded = 0

        def follow(i: int, found: list[Hypothesis]) -> Request | None:
            nonlocal decoded
            decoded += len(found[0].tokens)
            return next(map(whole, left[i]), None)

        decode([whole(next(windows)) for windows in left], follow)
        assert decoded == sum(w.window for document in documents for w in document)
        return decoded

    def reuse(documents: list[list[Sentence]]) -> int:
        contexts = [document[0].context for document in documents]
        done = [0] * len(documents)

        def request(i: int) -> Request:
            sentence = documents[i][done[i]]
            return Request(sentence.source, prefix=contexts[i], sentences=sentences, max_length=sentence.current)

        def follow(i: int, found: list[Hypothesis]) -> Request | None:
            [best] = found
            assert len(best.tokens) == documents[i][done[i]].current
            oldest = contexts[i].index(SEPARATOR) + 1
            contexts[i] = [*contexts[i][oldest:], *best.tokens[:-1], SEPARATOR]
            done[i] += 1
            return request(i) if done[i] < len(documents[i]) else None

        decode([request(i) for i in range(len(documents))], follow)
        assert done == [len(document) for document in documents]
        return sum(s.current for document in documents for s in document)

    if context == "reuse":
        return reuse
    return regenerate_live if options.at_a_time else regenerate


def _marian_model(options: argparse.Namespace) -> Any:
    import torch
    from transformers import MarianConfig, MarianMTModel

    from focat.config.schema import ModelSettings
    from focat.corpus.store import Store
    from focat.corpus.vocabulary import END

    torch.manual_seed(1)
    settings = ModelSettings(preset=options.preset)
    vocabulary = Store(Path(options.store)).tokenizer.source.size
    config = MarianConfig(
        vocab_size=vocabulary + 1,  # Marian's padding, which is its start symbol too, comes last
        d_model=settings.d_model,
        encoder_layers=settings.encoder_layers,
        decoder_layers=settings.decoder_layers,
        encoder_attention_heads=settings.heads,
        decoder_attention_heads=settings.heads,
        encoder_ffn_dim=settings.d_ff,
        decoder_ffn_dim=settings.d_ff,
        max_position_embeddings=1024,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=vocabulary,
        eos_token_id=END,
        decoder_start_token_id=vocabulary,
        forced_eos_token_id=None,
        share_encoder_decoder_embeddings=True,
    )
    return MarianMTModel(config).eval()


def _marian(options: argparse.Namespace) -> Callable[[list[list[Sentence]]], int]:
    """Hugging Face's `generate`."""
    import torch
    from transformers import LogitsProcessor, LogitsProcessorList

    model = _marian_model(options)
    if options.device == "cuda":
        model.to("cuda", torch.bfloat16)
    pad = model.config.pad_token_id

    class EndAt(LogitsProcessor):  # type: ignore[misc]
        """`<E>` where each window must have it, and nowhere else."""

        def __init__(self, lengths: list[int]) -> None:
            self.last = torch.tensor(lengths, device=model.device).repeat_interleave(options.beam)[:, None] - 1

        def __call__(self, tokens: Any, scores: Any) -> Any:
            is_end = torch.arange(scores.shape[1], device=scores.device) == model.config.eos_token_id
            return scores.masked_fill(is_end != (tokens.shape[1] - 1 >= self.last), -torch.inf)

    @torch.inference_mode()
    def translate(batch: list[Sentence]) -> int:
        rows = [torch.tensor(sentence.source) for sentence in batch]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad).to(model.device)
        lengths = [sentence.window for sentence in batch]
        found = model.generate(
            input_ids=tokens,
            attention_mask=(tokens != pad).long(),
            num_beams=options.beam,
            length_penalty=0.6,
            early_stopping=True,
            max_new_tokens=max(lengths),
            logits_processor=LogitsProcessorList([EndAt(lengths)]),
            do_sample=False,
        )
        assert (found != pad).sum(1).tolist() == lengths  # the start symbol is padding
        return sum(lengths)

    return lambda batches: sum(map(translate, batches))


def _ctranslate2(
    options: argparse.Namespace, int8: bool, prefix: bool, workers: int
) -> Callable[[list[list[Sentence]]], int]:
    """CTranslate2, whose workers share the threads.

    With `prefix`, target context is given as in `reuse`, here that of the reference, in any batches.
    """
    import ctranslate2
    import torch
    from ctranslate2.converters.transformers import MarianMTLoader

    from focat.corpus.vocabulary import END

    model = _marian_model(options)
    words = [f"w{i}" for i in range(model.config.vocab_size - 1)]
    words[END], words[1] = "</s>", "<unk>"
    loader = MarianMTLoader()
    with torch.no_grad():
        spec = loader.get_model_spec(model)
    loader.set_vocabulary(spec, words)
    spec.config.eos_token, spec.config.unk_token, spec.config.decoder_start_token = "</s>", "<unk>", "</s>"
    spec.validate()
    spec.optimize()
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        cuda = options.device == "cuda"
        precision = "int8" if int8 else ("bfloat16" if cuda else "float32")
        threads = torch.get_num_threads()
        translator = ctranslate2.Translator(
            folder,
            device=options.device,
            compute_type=precision,
            inter_threads=workers,
            intra_threads=threads // workers,
        )

    def submit(batch: list[Sentence], length: int) -> Any:
        return translator.translate_batch(
            [[words[token] for token in sentence.source] for sentence in batch],
            target_prefix=[[words[token] for token in sentence.context] for sentence in batch] if prefix else None,
            beam_size=options.beam,
            length_penalty=0.6,
            min_decoding_length=length,
            max_decoding_length=length,
            max_input_length=0,
            asynchronous=True,
        )

    def translate(batches: list[list[Sentence]]) -> int:
        submitted = [(length, submit(batch, length)) for batch in batches for length in [_mean_length(batch)]]
        for length, found in submitted:
            assert all(len(each.result().hypotheses[0]) == length for each in found)
        return sum(length * len(found) for length, found in submitted)

    return translate


def _mean_length(batch: list[Sentence]) -> int:
    return round(float(np.mean([sentence.window for sentence in batch])))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Translation speed beside Hugging Face Marian and CTranslate2.")
    parser.add_argument("store", help="a token store with a joint vocabulary")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--preset", default="base")
    parser.add_argument("--before", type=int, default=3)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--split", default="test", help="where the documents are from; train has many")
    parser.add_argument("--documents", type=int, default=32)
    parser.add_argument("--sentences", type=int, default=4, help="sentences of each document")
    parser.add_argument("--batches", default="16,32", help="windows of a batch that the others try")
    parser.add_argument("--at-a-time", type=int, help="documents that come sentence by sentence, side by side")
    parser.add_argument("--batch-tokens", type=int, help="focat's budget of a batch")
    parser.add_argument("--threads", type=int, help="as torch chooses if not given")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--passes", type=int, default=1, help="in a process; the last counts, the first captures")
    parser.add_argument("--profile", action="store_true", help="print where one more pass goes")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--json")
    parser.add_argument("--only", choices=SYSTEMS, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
