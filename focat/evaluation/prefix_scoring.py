"""Prefix-shared scoring: candidates with a common source and target prefix share its computation, with equal scores.

All candidates of one source form a tree. The source is encoded once. The prefix that all targets share is the stem,
decoded once; each target context is a branch, decoded up to where its candidates differ; then each candidate. (Twin
instances of a suite have the same source, and differ in one sentence of the target context.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focat.choices import Precision
from focat.corpus.tokenizer import Tokenizer, Vocabulary
from focat.corpus.vocabulary import END, PAD, SEPARATOR, START
from focat.evaluation.scoring import Scores, autocast, log_probabilities
from focat.model.kv_cache import EncoderOutput
from focat.model.transformer import Transformer
from focat.progress import NULL_PROGRESS, Progress
from focat.windows.batch import PaddedSequences
from focat.windows.builder import close_sentences, join_window, pad_rows
from focat.windows.segments import segments_of

Ids = NDArray[np.int64]
_BATCH_TOKENS = {"cpu": 1024, "cuda": 24_576}  # of a batch on either side, padding included


@dataclass(frozen=True)
class CandidateGroup:
    """Candidate translations of one sentence in one context."""

    source: tuple[str, ...]  # context, then the current sentence
    target: tuple[str, ...]  # translated context
    candidates: tuple[str, ...]


@dataclass
class _Branch:
    """One target context and its candidates, each once: equal texts have equal scores."""

    context: Ids
    endings: list[Ids] = field(default_factory=list)  # tokens of each candidate, `<E>` included
    indices: list[int] = field(default_factory=list)  # of each candidate in the results

    def finalize(self) -> None:
        """Split off the prefix that the candidates share; at least one token of each remains."""
        common = _common_prefix([ending[:-1] for ending in self.endings])
        self.prefix = np.concatenate([self.context, self.endings[0][:common]])
        self.tails = [ending[common:] for ending in self.endings]


@dataclass
class _Tree:
    """All target contexts and candidates of one source."""

    source: Ids
    branches: list[_Branch]

    def finalize(self) -> None:
        """Find the prefix that all branches share, and the lengths of source, stem, branches and candidates."""
        for branch in self.branches:
            branch.finalize()
        prefixes = [branch.prefix for branch in self.branches]
        self.stem = _common_prefix(prefixes)  # tokens
        self.shape = (len(self.branches), max(len(branch.endings) for branch in self.branches))
        self.lengths = np.array(
            [
                len(self.source),
                self.stem + 1,
                max(map(len, prefixes)) - self.stem,
                max(len(tail) for branch in self.branches for tail in branch.tails) - 1,
            ]
        )


@torch.no_grad()
def score_candidates(
    model: Transformer,
    tokenizer: Tokenizer,
    groups: Sequence[CandidateGroup],
    precision: Precision = "float32",
    progress: Progress = NULL_PROGRESS,
    batch_tokens: int | None = None,
) -> Scores:
    """Score all candidates of all groups, in a row.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        groups: candidates with their contexts.
        precision: what the model computes in.
        progress: where progress is shown.
        batch_tokens: padded tokens of a batch; chosen for the device if not given.
    """
    trees, indices = _trees(groups, tokenizer)
    device = model.output_weight.device
    branches = [branch for tree in trees for branch in tree.branches]
    count = sum(len(branch.endings) for branch in branches)
    token_counts = np.zeros((2, count), np.int64)
    for branch in branches:
        token_counts[0, branch.indices] = [len(ending) for ending in branch.endings]
        token_counts[1, branch.indices] = len(branch.context)

    found: list[Tensor] = []  # (2, candidates) of each batch: current and context
    order: list[int] = []  # their indices in the results; -1 for padding
    budget = batch_tokens or _BATCH_TOKENS.get(device.type, _BATCH_TOKENS["cpu"])
    with progress.bar("scoring", "candidates", count) as bar, autocast(precision, device):
        for batch in _batches(trees, budget):
            found.append(_score(model, batch, device))
            before = len(order)
            for tree in batch:
                for branch in tree.branches:
                    order += branch.indices + [-1] * (tree.shape[1] - len(branch.indices))
            bar.advance(sum(index >= 0 for index in order[before:]))
        sums = np.zeros((2, count + 1))  # the last column takes the padding
        sums[:, order] = torch.cat(found, 1).cpu().numpy() if found else 0.0  # the only synchronisation with the device
    return Scores(sums[0, indices], sums[1, indices], token_counts[0, indices], token_counts[1, indices])


def _trees(groups: Sequence[CandidateGroup], tokenizer: Tokenizer) -> tuple[list[_Tree], Ids]:
    """Return the trees, and the index of each candidate of each group in the results."""
    sources = _encoded(tokenizer.source, (sentence for group in groups for sentence in group.source))
    targets = _encoded(
        tokenizer.target, (sentence for group in groups for sentence in (*group.target, *group.candidates))
    )
    trees: dict[tuple[tuple[str, ...], int], _Tree] = {}  # by source and number of target context sentences
    branches: dict[tuple[tuple[str, ...], tuple[str, ...]], _Branch] = {}
    known: dict[tuple[tuple[str, ...], tuple[str, ...], str], int] = {}
    indices = []
    for group in groups:
        root = (group.source, len(group.target))
        if root not in trees:
            trees[root] = _Tree(np.array(join_window(sources[sentence] for sentence in group.source)), [])
        context = (group.source, group.target)
        if context not in branches:
            branches[context] = _Branch(
                np.array(close_sentences(targets[sentence] for sentence in group.target), np.int64)
            )
            trees[root].branches.append(branches[context])
        for candidate in group.candidates:
            key = (*context, candidate)
            if key not in known:
                branches[context].endings.append(np.append(targets[candidate], END))
                branches[context].indices.append(len(known))
                known[key] = len(known)
            indices.append(known[key])
    for tree in trees.values():
        tree.finalize()
    return list(trees.values()), np.array(indices, np.int64)


def _encoded(vocabulary: Vocabulary, sentences: Iterable[str]) -> Mapping[str, Ids]:
    distinct = list(dict.fromkeys(sentences))
    tokens, lengths = vocabulary.encode_all(distinct)
    return dict(zip(distinct, np.split(tokens, np.cumsum(lengths)[:-1]), strict=True)) if distinct else {}


def _common_prefix(rows: Sequence[Ids]) -> int:
    """Return the number of tokens that all rows begin with."""
    shortest = min(map(len, rows))
    block = np.stack([row[:shortest] for row in rows])
    differ = (block != block[0]).any(0)
    return int(differ.argmax()) if differ.any() else shortest


def _batches(trees: Sequence[_Tree], budget: int) -> Iterator[list[_Tree]]:
    """Group trees of one shape and similar lengths, within a budget of padded tokens on either side."""

    def similarity(tree: _Tree) -> tuple[float, ...]:
        length, _, middle, tail = tree.lengths.tolist()
        return (*tree.shape, math.ceil(2 * math.log2(1 + tail)), math.ceil(1.5 * math.log2(1 + middle)), length)

    batch: list[_Tree] = []
    longest = np.zeros(4, np.int64)
    for tree in sorted(trees, key=similarity):
        contexts, candidates = tree.shape
        grown = np.maximum(longest, tree.lengths)
        source, stem, middle, tail = grown.tolist()
        cost = (len(batch) + 1) * max(source, stem + contexts * (middle + candidates * tail))
        if batch and (tree.shape != batch[0].shape or cost > budget):
            yield batch
            batch, grown = [], tree.lengths
        batch.append(tree)
        longest = grown
    if batch:
        yield batch


def _score(model: Transformer, batch: Sequence[_Tree], device: torch.device) -> Tensor:
    """Return (2, candidates) log-probabilities of the current sentence and of the context; arbitrary for padding."""
    contexts, candidates = batch[0].shape
    branches = [branch for tree in batch for branch in tree.branches]
    source = pad_rows([tree.source for tree in batch]).to(device)
    memory = model.encode(PaddedSequences(source, segments_of(source), (source == SEPARATOR).sum(-1)))
    current = _column([int((tree.branches[0].context == SEPARATOR).sum()) for tree in batch], device)
    stems = [tree.branches[0].prefix[: tree.stem] for tree in batch]
    decoder = _TreeDecoder(model, memory, current[:, 0], stems)
    stem_scores = decoder.stem_scores.repeat_interleave(contexts, 0)  # (trees · contexts, stem)
    own = [branch.prefix[tree.stem :] for tree in batch for branch in tree.branches]
    branch_scores = decoder.extend(own, contexts)  # (trees · contexts, middle)
    absent = [np.empty(0, np.int64)]
    tails = [tail for branch in branches for tail in branch.tails + absent * (candidates - len(branch.tails))]
    candidate_scores = decoder.extend(tails, candidates, last=True).sum(-1)  # (trees · contexts · candidates,)

    lengths = _column([len(branch.context) for branch in branches], device)
    begin = _column([tree.stem for tree in batch for _ in tree.branches], device)
    in_stem = torch.arange(stem_scores.shape[1], device=device) < lengths
    in_branch = begin + torch.arange(branch_scores.shape[1], device=device) < lengths
    context = (stem_scores * in_stem).sum(-1) + (branch_scores * in_branch).sum(-1)  # (trees · contexts,)
    shared = stem_scores.sum(-1) + branch_scores.sum(-1) - context
    return torch.stack([shared.repeat_interleave(candidates) + candidate_scores, context.repeat_interleave(candidates)])


class _TreeDecoder:
    """Decodes trees level by level with one KV cache: the shared stem, then the branches, then the candidates."""

    def __init__(self, model: Transformer, memory: EncoderOutput, current: Tensor, stems: Sequence[Ids]) -> None:
        self.model = model
        self.cache = model.init_cache(memory, current=current)
        hidden = self._step([np.insert(stem, 0, START) for stem in stems])  # (trees, longest stem + 1, width)
        self.stem_scores = self._predicted(hidden, pad_rows(stems))
        """(trees, longest stem) log-probabilities; 0 on padding."""
        self.last_hidden = _hidden_at(hidden, [len(stem) for stem in stems])  # (rows, width)

    def extend(self, rows: Sequence[Ids], fork: int, last: bool = False) -> Tensor:
        """Decode the next level, in which each row so far continues in `fork` ways.

        Rows of one fork share the projection that predicts their first token. With `last`, the last token of a row is
        predicted and not decoded.

        Returns:
            (rows, length) log-probabilities; 0 on padding.
        """
        labels, device = pad_rows(rows), self.last_hidden.device
        if not labels.shape[1]:
            self._fork(fork)
            return torch.zeros(labels.shape, dtype=torch.float64, device=device)
        first = labels[:, :1].to(device)
        logits = self.model.project(self.last_hidden).float()  # (rows before the fork, vocabulary)
        first_scores = logits.gather(1, first.view(-1, fork)) - logits.logsumexp(-1, keepdim=True)
        first_scores = first_scores.view(-1, 1).double()
        self._fork(fork)
        if labels.shape[1] == last:
            return first_scores
        hidden = self._step([row[:-1] for row in rows] if last else rows)
        if not last:  # different contexts have equally many separators, so none is a prefix of another
            self.last_hidden = _hidden_at(hidden, [len(row) - 1 for row in rows])
        return torch.cat((first_scores, self._predicted(hidden, labels[:, 1:])), 1)

    def _fork(self, fork: int) -> None:
        if fork > 1:
            self.cache.expand_beams(fork)
            self.last_hidden = self.last_hidden.repeat_interleave(fork, 0)

    def _step(self, rows: Sequence[Ids]) -> Tensor:
        return self.model.decode_step(self.cache, pad_rows(rows).to(self.cache.current.device))

    def _predicted(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Return log-probabilities of labels (rows, length), predicted by the hidden states; 0 on padding, float64."""
        row, column = (labels != PAD).nonzero(as_tuple=True)
        wanted = labels[row, column]
        row, column, wanted = (each.to(hidden.device) for each in (row, column, wanted))
        found = torch.zeros(labels.shape, dtype=torch.float64, device=hidden.device)
        found[row, column] = log_probabilities(self.model, hidden[row, column], wanted).double()
        return found


def _hidden_at(hidden: Tensor, positions: Sequence[int]) -> Tensor:
    """Select one state (width,) of each row (length, width)."""
    return hidden.take_along_dim(_column(positions, hidden.device)[..., None], 1)[:, 0]


def _column(values: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device)[:, None]
