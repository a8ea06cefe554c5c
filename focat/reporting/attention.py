"""The attention of one window as heat maps, words on both axes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from focat.analysis.attention_map import AttentionMap, attention_map
from focat.corpus.document import Document
from focat.corpus.readers import read_documents
from focat.corpus.text_files import is_blank, read_lines
from focat.errors import FocatError, ParameterError
from focat.evaluation.test_sets import translate_documents
from focat.progress import NULL_PROGRESS, Progress
from focat.reporting.collect import ReportedRun
from focat.reporting.examples import Disagreement
from focat.reporting.plots import Heat, Plot, heat_plot
from focat.run import load_system

_WORDS = 56  # of a window on either side: more would be too small to read
_START = "(start)"


@dataclass(frozen=True)
class AttentionWindow:
    """Sentences of a window on both sides, the current one last, and where they come from."""

    source: Sequence[str]
    target: Sequence[str]
    origin: str


@dataclass(frozen=True)
class AttentionView:
    """The heat maps of one system for one window."""

    system: str
    layer: int
    layers: int
    heads: int
    window: AttentionWindow
    plots: list[Plot]


def read_window(path: Path, run: ReportedRun, device: str) -> AttentionWindow:
    """Read a window: source sentences, a blank line, then their translations; without these, the system translates."""
    blocks: list[list[str]] = [[]]
    for line in read_lines(path):
        if is_blank(line):
            blocks += [[]] if blocks[-1] else []
        else:
            blocks[-1].append(line.strip())
    blocks = [block for block in blocks if block]
    if not blocks or len(blocks) > 2:
        raise FocatError(
            f"{path}: expected the source sentences of a window and, after a blank line, their translations; "
            f"found {len(blocks)} blocks of lines"
        )
    source = blocks[0]
    if len(blocks) == 1:
        system = load_system(run.run.path, device)
        translated, _ = translate_documents(system, [Document(str(path), source, [""] * len(source))], NULL_PROGRESS)
        return AttentionWindow(source, translated.hypotheses[0], f"{path}, translated by {run.name}")
    if len(blocks[1]) > len(source):
        raise FocatError(f"{path}: has {len(blocks[1])} target sentences for {len(source)} source sentences")
    return AttentionWindow(source, blocks[1], str(path))


def find_window(run: ReportedRun, examples: Sequence[Disagreement], progress: Progress) -> AttentionWindow | None:
    """The window of the first example that the system has the context for; else one of its corpora."""
    windows = run.settings.windows
    for one in examples:
        if one.distance is None or 0 < one.distance <= windows.before:
            instance = one.instance
            source = list(instance.source)[-windows.before - 1 :]
            context = list(instance.target)[len(instance.target) - min(windows.target[0], len(instance.target)) :]
            target = [*context, instance.candidates[instance.right]]
            if _is_suitable(source, target):
                return AttentionWindow(source, target, f"{one.suite}, instance {one.id}, with its right answer")
    try:
        return next(_corpus_windows(run), None)
    except FocatError as error:
        progress.log(f"no window to show attention of: {error}")
        return None


def _corpus_windows(run: ReportedRun) -> Iterator[AttentionWindow]:
    settings = run.settings
    before, target_before = settings.windows.before, settings.windows.target[0]
    for split in ("test", "dev"):
        for corpus in getattr(settings.data, split):
            for number, document in enumerate(read_documents(corpus), 1):
                for last in range(before, len(document.source)):
                    source = document.source[last - before : last + 1]
                    target = document.target[last - target_before : last + 1]
                    if _is_suitable(source, target):
                        yield AttentionWindow(source, target, f"{split} split, document {number}, sentence {last + 1}")


def _is_suitable(source: Sequence[str], target: Sequence[str]) -> bool:
    return all(side and all(side) and len(" ".join(side).split()) <= _WORDS for side in (source, target))


def attention_view(run: ReportedRun, window: AttentionWindow, layer: int | None, device: str) -> AttentionView:
    """Cross-attention and both kinds of self-attention: the mean of the heads of a layer, the last if none is given."""
    system = load_system(run.run.path, device)
    most = system.windows().max_tokens
    for vocabulary, side in ((system.tokenizer.source, window.source), (system.tokenizer.target, window.target)):
        tokens = sum(len(vocabulary.encode(sentence)) + 1 for sentence in side)
        if tokens > most:
            raise FocatError(f"{window.origin}: a window of {tokens:,} tokens; {run.name} takes {most:,} at most")
    words = attention_map(system.model, system.tokenizer, window.source, window.target).by_word()
    layers = min(len(words.encoder), len(words.decoder))
    if layer is not None and not 1 <= layer <= layers:
        raise ParameterError("layer", layer, f"the model of {run.run.path} has layers 1 to {layers}")
    chosen = layer or layers
    heats = _heats(words, chosen - 1)
    plots = [
        heat_plot(
            f"attention-{name}",
            title,
            f"{title} of {run.name}, layer {chosen}, mean of {words.cross.shape[1]} heads, over the words of a "
            f"window of {len(window.source)} sentences. {_strongest(heat)}",
            heat,
            across,
            down,
        )
        for name, title, across, down, heat in heats
    ]
    return AttentionView(run.name, chosen, layers, words.cross.shape[1], window, plots)


def _heats(words: AttentionMap, layer: int) -> list[tuple[str, str, str, str, Heat]]:
    source, target = list(map(_readable, words.source)), list(map(_readable, words.target))
    of_source, of_target = words.source_segments, words.target_segments
    read = [_START, *target[:-1]]  # what the decoder has read when it predicts each word
    of_read = [of_target[0], *of_target[:-1]]
    cross = Heat(words.cross[layer].mean(0), target, source, of_target, of_source)
    encoder = Heat(words.encoder[layer].mean(0), source, source, of_source, of_source)
    decoder = Heat(words.decoder[layer].mean(0), target, read, of_target, of_read)
    return [
        ("cross", "Cross-attention", "source, looked at", "target, while it is written", cross),
        ("encoder", "Self-attention of the encoder", "source, looked at", "source", encoder),
        (
            "decoder",
            "Self-attention of the decoder",
            "target so far, looked at",
            "target, while it is written",
            decoder,
        ),
    ]


def _readable(word: str) -> str:
    """A word, with the characters that the tokenizer splits into bytes."""
    return re.sub(r"(?:<0x[0-9A-F]{2}>)+", lambda found: _decoded(found[0]), word)


def _decoded(pieces: str) -> str:
    return bytes.fromhex("".join(re.findall(r"<0x(..)>", pieces))).decode("utf-8", "replace")


def _strongest(heat: Heat) -> str:
    """In words: for each word of the current sentence, what it attends to most."""
    found = []
    last = heat.row_sentences[-1]
    for i, word in enumerate(heat.rows):
        if heat.row_sentences[i] == last and word not in ("<S>", "<E>"):
            j = int(heat.weights[i].argmax())
            found.append(f"{word} to {heat.columns[j]} ({heat.weights[i, j]:.2f})")
    return f"Strongest for each word of the current sentence: {', '.join(found)}."
