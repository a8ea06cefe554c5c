"""Search as its definition reads, one hypothesis after the other, scored by teacher forcing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from focat.config.schema import ModelSettings, WindowSettings
from focat.corpus.vocabulary import END, SEPARATOR, SPECIALS
from focat.decoding.requests import Request
from focat.model import Transformer, model_class
from focat.windows.batch import PaddedSequences
from focat.windows.segments import decoder_input, segments_of


def small(words: int, seed: int = 0, shift: Any = 2, scale: float = 3.0, **settings: Any) -> Transformer:
    """A model with so few words that all translations can be tried, and far from uniform over them."""
    sizes = {"d_model": 16, "d_ff": 24, "heads": 4, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0}
    torch.manual_seed(seed)
    vocabulary = SPECIALS + words
    windows = WindowSettings(before=2, max_tokens=60)
    chosen = ModelSettings(**{**sizes, **settings})
    model = model_class(chosen)(chosen, windows, vocabulary, vocabulary, shift)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=0.5, std=0.5)
    with torch.no_grad():
        model.output_weight.mul_(scale)
    return model.double().eval()


@torch.no_grad()
def log_probabilities(models: Sequence[Transformer], request: Request, tokens: list[int]) -> Tensor:
    """Where each of these tokens stands, the models' mean of probabilities, teacher-forced: (tokens, vocabulary)."""
    source = torch.tensor([list(request.source)])
    segments = segments_of(source)
    current = segments.amax(1) if request.current is None else torch.tensor([request.current])
    target = torch.tensor([[*request.prefix, *tokens]])
    probabilities = []
    for model in models:
        side = PaddedSequences(target, segments_of(target), current.clamp(max=model.windows.target[0]))
        hidden = model.decode(model.encode(PaddedSequences(source, segments, current)), decoder_input(side))
        probabilities.append(model.project(hidden)[0].softmax(-1))
    return torch.stack(probabilities).mean(0).log()[len(request.prefix) :]


def scored(models: Sequence[Transformer], request: Request, tokens: list[int]) -> list[float]:
    """The log-probability of each of these tokens after the request's prefix."""
    every = log_probabilities(models, request, tokens)
    return every.gather(1, torch.tensor(tokens)[:, None])[:, 0].tolist()


def next_tokens(request: Request, so_far: list[int], limit: int, vocabulary: int) -> list[int]:
    """What may follow, by the rules: tried out by looking for a way to the end."""
    return [t for t in range(SPECIALS - 2, vocabulary) if _can_end(request, [*so_far, t], limit)]


def _can_end(request: Request, tokens: list[int], limit: int) -> bool:
    """Whether some legal translation of at most `limit` tokens begins with these."""
    if len(tokens) > limit or END in tokens[:-1]:
        return False
    if request.sentences is None:
        return tokens != [END] and (tokens[-1] == END or len(tokens) < limit)
    sentences = _sentences([*request.prefix, *tokens])
    closed = tokens[-1] == END
    if any(not sentence for sentence in sentences[: len(sentences) if closed else -1]):
        return False
    missing = request.sentences - len(sentences)
    if closed or missing < 0:
        return closed and missing == 0
    return len(tokens) + (not sentences[-1]) + 2 * missing + 1 <= limit


def _sentences(tokens: list[int]) -> list[list[int]]:
    sentences: list[list[int]] = [[]]
    for token in tokens:
        if token == SEPARATOR:
            sentences.append([])
        elif token != END:
            sentences[-1].append(token)
    return sentences


def all_translations(request: Request, limit: int, vocabulary: int) -> Iterator[list[int]]:
    """Every legal translation."""
    for length in range(limit):
        for inside in product([SEPARATOR, *range(SPECIALS, vocabulary)], repeat=length):
            tokens = [*inside, END]
            if all(_can_end(request, tokens[:n], limit) for n in range(1, length + 2)):
                yield tokens


def slow_beam(
    models: Sequence[Transformer], request: Request, limit: int, beam: int, penalty: float
) -> list[tuple[float, list[int]]]:
    """Beam search, window by window and hypothesis by hypothesis: (score, tokens), the best first; it never stops early
    but when `beam` hypotheses have ended."""
    vocabulary = models[0].output_weight.shape[0]
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    while live and len(ended) < beam:
        found = []
        for total, tokens in live:
            following = log_probabilities(models, request, [*tokens, END])[-1]
            may = next_tokens(request, tokens, limit, vocabulary)
            found += [(total + float(following[token]), [*tokens, token]) for token in may]
        found.sort(reverse=True)
        ended += [(t / len(tokens) ** penalty, tokens) for t, tokens in found[:beam] if tokens[-1] == END]
        live = [each for each in found if each[1][-1] != END][:beam]
    return sorted(ended, reverse=True)[:beam]
