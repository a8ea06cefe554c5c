"""Prefix-shared scoring: candidates with a common source and target prefix share its computation, with equal scores.

All targets of one source, context and candidate, form a tree of tokens (a trie): a prefix that several of them share is
one path in it. The source is encoded once, and the tree decoded at once, each token with its own branch in view.
(Twin instances of a suite have the same source, and differ in one sentence of the target context.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focat.choices import Precision
from focat.corpus.tokenizer import Tokenizer, Vocabulary
from focat.corpus.vocabulary import END, PAD, SEPARATOR, START
from focat.decoding.workers import map_in_workers, max_workers
from focat.evaluation.scoring import Scores, autocast, logits_at_once
from focat.hardware import to_device_async
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


@dataclass(frozen=True)
class _Target:
    """A candidate in its context."""

    index: int  # in the results
    context: int  # tokens of the context
    tokens: Ids  # the start symbol, the context, the candidate; the end symbol is predicted only


@dataclass(frozen=True)
class _Tree:
    """All different targets of one source. Nodes are in the order of a walk in depth, so a subtree is one range."""

    source: Ids
    current: int  # segment of the current sentence on the target
    targets: list[_Target]  # in the order of their tokens
    tokens: Ids  # (nodes,)
    ends: Ids  # (nodes,) the first node after the subtree of each
    parents: (
        Ids  # (tokens to predict,) the node that each follows: all nodes but the first, then the end of each target
    )
    paths: list[Ids]  # of each target: the indices of its tokens among those to predict


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
    budget = batch_tokens or _BATCH_TOKENS.get(device.type, _BATCH_TOKENS["cpu"])
    count = sum(len(tree.targets) for tree in trees)
    batches = list(_batches(trees, budget))
    counting = Lock()
    with progress.bar("scoring", "candidates", count) as bar:

        def score(batch: Sequence[_Tree], stopped: Event) -> Tensor:
            if stopped.is_set():
                return torch.zeros(0)
            with autocast(precision, device):
                found = _score(model, batch, device)
            with counting:
                bar.advance(sum(len(tree.targets) for tree in batch))
            return found

        found = map_in_workers(score, batches, max_workers() if device.type == "cpu" else 1)
        values = (
            torch.cat(found).cpu().numpy() if found else np.zeros(0, np.float32)
        )  # the only synchronisation with the device
    scored = [tree for batch in batches for tree in batch]
    return _sums(scored, values, indices)


def _sums(trees: Sequence[_Tree], values: NDArray[np.float32], indices: Ids) -> Scores:
    """Add up the log-probabilities of each target, from those of all tokens of the trees, and select by index."""
    count = sum(len(tree.targets) for tree in trees)
    lengths = np.zeros((2, count), np.int64)  # of current sentence and context
    sums = np.zeros((2, count))
    begin = 0
    for tree in trees:
        for target, path in zip(tree.targets, tree.paths, strict=True):
            tokens = values[begin + path].astype(np.float64)
            lengths[:, target.index] = len(path) - target.context, target.context
            sums[:, target.index] = tokens[target.context :].sum(), tokens[: target.context].sum()
        begin += len(tree.parents)
    return Scores(sums[0, indices], sums[1, indices], lengths[0, indices], lengths[1, indices])


def _trees(groups: Sequence[CandidateGroup], tokenizer: Tokenizer) -> tuple[list[_Tree], Ids]:
    """Return the trees, and the index of each candidate of each group in the results: equal ones have the same."""
    sources = _encoded(tokenizer.source, (sentence for group in groups for sentence in group.source))
    targets = _encoded(
        tokenizer.target, (sentence for group in groups for sentence in (*group.target, *group.candidates))
    )
    of_source: dict[tuple[tuple[str, ...], int], list[_Target]] = {}  # by source and number of context sentences
    known: dict[tuple[tuple[str, ...], tuple[str, ...], str], int] = {}
    indices = []
    for group in groups:
        context = np.array([START, *close_sentences(targets[sentence] for sentence in group.target)], np.int64)
        for candidate in group.candidates:
            key = (group.source, group.target, candidate)
            if key not in known:
                known[key] = len(known)
                target = _Target(known[key], len(context) - 1, np.concatenate([context, targets[candidate]]))
                of_source.setdefault((group.source, len(group.target)), []).append(target)
            indices.append(known[key])
    trees = [
        _tree(np.array(join_window(sources[sentence] for sentence in source)), current, some)
        for (source, current), some in of_source.items()
    ]
    return trees, np.array(indices, np.int64)


def _encoded(vocabulary: Vocabulary, sentences: Iterable[str]) -> Mapping[str, Ids]:
    distinct = list(dict.fromkeys(sentences))
    tokens, lengths = vocabulary.encode_all(distinct)
    return dict(zip(distinct, np.split(tokens, np.cumsum(lengths)[:-1]), strict=True)) if distinct else {}


def _tree(source: Ids, current: int, targets: Sequence[_Target]) -> _Tree:
    """Build a tree: of the targets in order, each shares a prefix with the one before, and adds the rest."""
    ordered = sorted(targets, key=lambda target: target.tokens.tolist())
    tokens: list[Ids] = []
    parents: list[Ids] = []
    ends: list[int] = []
    paths: list[Ids] = []
    path = previous = np.empty(0, np.int64)  # nodes and tokens of the target before
    for target in ordered:
        common = _common_prefix(previous, target.tokens)
        first, previous = len(ends), target.tokens
        for node in path[common:].tolist():
            ends[node] = first
        path = np.concatenate([path[:common], np.arange(first, first + len(target.tokens) - common)])
        ends += [0] * (len(target.tokens) - common)
        tokens.append(target.tokens[common:])
        parents.append(path[max(common, 1) - 1 : -1])
        paths.append(path)
    for node in path.tolist():
        ends[node] = len(ends)
    last = np.array([path[-1] for path in paths])
    predicted = [np.append(path[1:] - 1, len(ends) - 1 + i) for i, path in enumerate(paths)]
    return _Tree(
        source, current, ordered, np.concatenate(tokens), np.array(ends), np.concatenate([*parents, last]), predicted
    )


def _common_prefix(one: Ids, other: Ids) -> int:
    """Return the number of tokens that both begin with."""
    shortest = min(len(one), len(other))
    differ = one[:shortest] != other[:shortest]
    return int(differ.argmax()) if differ.any() else shortest


def _batches(trees: Sequence[_Tree], budget: int) -> Iterator[list[_Tree]]:
    """Group trees of similar size and source, within a budget of padded tokens on either side."""

    def similarity(tree: _Tree) -> tuple[int, int]:
        return math.ceil(4 * math.log2(len(tree.tokens))), len(tree.source)

    batch: list[_Tree] = []
    longest = 0
    for tree in sorted(trees, key=similarity):
        longest = max(longest, len(tree.source), len(tree.tokens))
        if batch and (len(batch) + 1) * longest > budget:
            yield batch
            batch, longest = [], max(len(tree.source), len(tree.tokens))
        batch.append(tree)
    if batch:
        yield batch


def _score(model: Transformer, batch: Sequence[_Tree], device: torch.device) -> Tensor:
    """Return the log-probabilities of the tokens to predict of all trees, in a row; float32.

    Nothing here waits for the device, so that the host prepares the next batch meanwhile.
    """
    source = to_device_async(pad_rows([tree.source for tree in batch]), device)
    encoded = model.encode(PaddedSequences(source, segments_of(source), (source == SEPARATOR).sum(-1)))
    tokens = pad_rows([tree.tokens for tree in batch])  # (trees, nodes)
    ends = to_device_async(pad_rows([tree.ends for tree in batch]), device)  # (trees, nodes)
    nodes = torch.arange(tokens.shape[1], device=device)
    ends = torch.where(ends == PAD, nodes + 1, ends)  # padding sees itself alone
    branches = (nodes <= nodes[:, None]) & (nodes[:, None] < ends[:, None])  # (trees, nodes, nodes)
    current = to_device_async(torch.tensor([tree.current for tree in batch]), device)
    cache = model.init_cache(encoded, current=current, capacity=tokens.shape[1])
    hidden = model.decode_step(cache, to_device_async(tokens, device), branches=branches)
    real = to_device_async(torch.from_numpy(np.flatnonzero(tokens.numpy() != PAD)), device)
    begins = np.cumsum([0, *(len(tree.tokens) for tree in batch)])
    parents = np.concatenate([begin + tree.parents for begin, tree in zip(begins[:-1], batch, strict=True)])
    labels = np.concatenate([np.append(tree.tokens[1:], [END] * len(tree.targets)) for tree in batch])
    return _predicted(model, hidden.flatten(0, 1)[real], parents, labels)


def _predicted(model: Transformer, hidden: Tensor, parents: Ids, labels: Ids) -> Tensor:
    """Return the log-probability of each label after its parent, (labels,) in float32.

    Args:
        model: the model.
        hidden: (nodes, width); each is projected once, however many labels follow it.
        parents: (labels,) nodes.
        labels: (labels,) tokens.
    """
    order = np.argsort(parents, kind="stable")
    chunk = logits_at_once(model)
    bounds = np.searchsorted(parents[order], np.arange(0, len(hidden) + chunk, chunk))
    where, row, column = (
        to_device_async(torch.from_numpy(each), hidden.device) for each in (order, parents[order], labels[order])
    )
    found = torch.empty(len(labels), device=hidden.device)
    for i, start in enumerate(range(0, len(hidden), chunk)):
        part = slice(int(bounds[i]), int(bounds[i + 1]))
        logits = model.project(hidden[start : start + chunk]).float()
        found[where[part]] = logits.log_softmax(-1)[row[part] - start, column[part]]
    return found
